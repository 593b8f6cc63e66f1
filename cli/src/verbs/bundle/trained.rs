//! A bundle that was trained on operators: environment, provenance and held-out errors.

use crate::verbs::{
    error::CliResult,
    error_tables::{E2E_HEADINGS, e2e_cells, kinds_table},
    output::{Report, Table, level, percent},
    progress,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::bundle::{Location, whole_models};
use vitempo::predictors::{
    Bounds, ConformalInterval, Evaluation, PredictorBundle, SlowdownModel, UnfamiliarInterval,
};

/// A bundle, described.
pub struct BundleReport<'a> {
    pub bundle: &'a PredictorBundle,
    pub location: &'a Location,
}

/// Which models the interval of unfamiliar models is fitted to.
fn unfamiliar_text(interval: Option<&UnfamiliarInterval>) -> String {
    let fitted = interval.map(|unfamiliar| {
        format!(
            "models of which more than half takes place at sizes that no training model has: \
            interval fitted to {} measured ones",
            unfamiliar.models().len()
        )
    });
    let unknown = "models unlike the training models have the interval of those, which may be too \
                   narrow: train with real models in the dataset";
    format!("Unfamiliar   {}\n", fitted.unwrap_or_else(|| unknown.to_owned()))
}

/// Said where a level is higher than the scores allow.
fn support(interval: &ConformalInterval) -> Option<String> {
    let (scores, supported) = (interval.scores, level(interval.supported_level()));
    (!interval.is_supported()).then(|| {
        format!(
            "{scores} scores support a level of {supported} at most: the {} interval may hold less",
            level(interval.level)
        )
    })
}

fn support_text(interval: &ConformalInterval) -> String {
    support(interval).map_or_else(String::new, |says| format!("Interval     {says}\n"))
}

/// Warns where the level of a bundle is higher than its scores allow.
pub fn warn_of_support(bundle: &PredictorBundle) {
    if let Some(says) = support(&bundle.interval) {
        progress::say(format!("warning: {says}"));
    }
}

/// As numbers; the file has bits.
fn interval_json(interval: &ConformalInterval) -> serde_json::Value {
    let bounds = |b: &Bounds| json!({ "lower": b.lower, "upper": b.upper });
    json!({
        "level": interval.level,
        "scaled": bounds(&interval.scaled),
        "sensitivity": interval.sensitivity,
        "plain": bounds(&interval.plain),
        "scores": interval.scores,
    })
}

/// Whether contention is known, and how well.
fn contention_text(model: Option<&SlowdownModel>) -> String {
    let Some(model) = model else {
        return "Contention   not known: forecasts are of models alone\n".to_owned();
    };
    let (error, none) = model.errors();
    let mut text = format!(
        "Contention   known beside a {}: form `{}`, {} off on loads left out ({} if none is \
        assumed)\n\n",
        model.other,
        model.form,
        percent(error),
        percent(none)
    );
    let mut table = Table::new(&["Load", "Models", "Slowdown", "Left out", "If none"], 1);
    for load in &model.loads {
        table.row([
            load.load.clone(),
            load.models.to_string(),
            format!("{:.2} x", load.slowdown),
            percent(load.error),
            percent(load.error_of_none),
        ]);
    }
    text += &table.to_text();
    text
}

/// What it was trained on, or corrected by.
fn data_text(bundle: &PredictorBundle) -> String {
    let p = &bundle.provenance;
    let whole = whole_models(bundle);
    let data = format!(
        "{whole} models and {} single operators, {} rows ({:?})",
        p.models.saturating_sub(whole),
        p.rows,
        bundle.origin
    );
    match (&p.transferred_from, p.source) {
        (None, _) => format!("Trained on   {data}\n"),
        (Some(id), Some(source)) => format!(
            "Corrected by {data}\nFrom         {id}, trained on {} models and networks, {} rows\n",
            source.models, source.rows
        ),
        (Some(id), None) => format!(
            "Corrected by measurements whose number its version did not keep\n\
            From         {id}, trained on {} models and networks, {} rows\n",
            p.models, p.rows
        ),
    }
}

impl Report for BundleReport<'_> {
    fn table(&self) -> String {
        let b = self.bundle;
        let p = &b.provenance;
        let mut text = String::new();
        let _ = writeln!(text, "{}   {}   {}\n", self.location, b.method, b.environment.describe());
        let _ = writeln!(text, "Environment  {}", b.environment.id());
        text += &data_text(b);
        if let Some(of) = p.sampled_of {
            let _ = writeln!(text, "Sampled      of the {of} architectures of the dataset");
        }
        let _ = writeln!(text, "Data         {}", p.data_digest);
        let _ =
            writeln!(text, "By           {} with {}, seed {}", p.created_by, p.libraries, p.seed);
        if !p.boosting.is_usual() {
            let _ = writeln!(text, "Boosting     {}", p.boosting);
        }
        if p.skipped > 0 {
            let _ = writeln!(text, "Left out     {} rows that could not be used", p.skipped);
        }
        if p.disturbed > 0 {
            let _ = writeln!(
                text,
                "Disturbed    {} model runs were used although others ran on their cores: measure \
                again on a machine at rest",
                p.disturbed
            );
        }
        text += &support_text(&b.interval);
        text += &unfamiliar_text(b.unfamiliar.as_ref());
        text += &contention_text(b.contention.as_ref());
        for model in b.predictors.refinements.models() {
            let _ = writeln!(
                text,
                "Refined for  {}: {} kernels corrected by {} networks, measured in {} s",
                model.name, model.kernels, model.networks, model.seconds
            );
        }
        let _ = writeln!(text, "\nHeld out ({}-fold cross-validation by architecture):\n", p.folds);
        text += &kinds_table(&b.held_out).to_text();
        let mut table = Table::new(E2E_HEADINGS, 2);
        table.row(e2e_cells("training space", &b.held_out));
        b.on_real.iter().for_each(|e| table.row(e2e_cells("real, never trained on", e)));
        text.push('\n');
        text + &table.to_text()
    }

    /// A row per operator kind of what was held out; MAPE and p90 in percent, shares from 0 to 1.
    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "operator",
                "rows",
                "time_share",
                "mape",
                "p90_ape",
                "within_10pct",
                "weighted_ape",
                "fallback_rows",
            ],
            1,
        );
        for (kind, m) in &self.bundle.held_out.operators {
            table.row([
                kind.clone(),
                m.rows.to_string(),
                m.time_share.to_string(),
                m.mape.to_string(),
                m.p90_ape.to_string(),
                m.within_10pct.to_string(),
                m.weighted_ape.to_string(),
                m.fallback_rows.to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let b = self.bundle;
        let p = &b.provenance;
        Ok(json!({
            "bundle": self.location,
            "method": b.method,
            "environment": b.environment,
            "environment_id": b.environment.id(),
            "origin": b.origin,
            "provenance": {
                "created_by": p.created_by,
                "libraries": p.libraries,
                "data_digest": p.data_digest,
                "seed": p.seed,
                "boosting": p.boosting,
                "folds": p.folds,
                "models": p.models,
                "architectures": p.architectures,
                "rows": p.rows,
                "skipped": p.skipped,
                "disturbed": p.disturbed,
                "transferred_from": p.transferred_from,
                "source": p.source,
                "sampled_of": p.sampled_of,
                "trained_on": p.trained_on,
            },
            "unfamiliar": b.unfamiliar.as_ref().map(|u| json!({
                "models": u.models().iter().map(|m| &m.name).collect::<Vec<_>>(),
                "interval": interval_json(u.interval()),
            })),
            "interval": interval_json(&b.interval),
            "contention": b.contention,
            "refinements": b.predictors.refinements.models(),
            "held_out": b.held_out.summary(),
            "on_real": b.on_real.as_ref().map(Evaluation::summary),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_scores_do_not_support_is_said_with_its_digits() {
        let text = |level: f64| {
            let bounds = Bounds { lower: -1.0, upper: 1.0 };
            let (scaled, plain) = (bounds, bounds);
            let scores = 161;
            support_text(&ConformalInterval { level, scaled, sensitivity: 0.0, plain, scores })
        };
        assert_eq!(
            text(0.9995),
            "Interval     161 scores support a level of 98.76 % at most: the 99.95 % interval may \
            hold less\n"
        );
        assert_eq!(text(0.9), "");
    }
}

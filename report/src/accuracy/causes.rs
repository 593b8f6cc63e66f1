//! Where errors come from: by operator kind, and the worst forecasts one by one.

use super::best_fed;
use crate::{
    group::Group,
    paper::PAPER,
    survey::Survey,
    table::{Cell, Table},
};
use vitempo::{
    graph::Latency,
    predictors::{Contribution, Method},
};

/// Kinds with less of the time are not listed.
const LEAST_SHARE: f64 = 0.01;
/// Models listed as the worst forecast, per environment.
const LISTED: usize = 10;

pub fn kinds_table(surveys: &[&Survey], caption: String) -> Table {
    let headings = [
        "Environment",
        "Models",
        "Operator",
        "Share of time",
        "Rows",
        "MAPE",
        "90th percentile",
        "Time-weighted",
        "By fallback",
        "Noise floor",
    ];
    let mut table = Table::new("accuracy-kinds", caption, headings);
    for survey in surveys {
        let Some(evaluated) = best_fed(survey, Method::Gbdt) else { continue };
        for (group, e) in &evaluated.sets {
            let mut kinds: Vec<_> =
                e.operators.iter().filter(|(_, m)| m.time_share >= LEAST_SHARE).collect();
            kinds.sort_by(|a, b| b.1.time_share.total_cmp(&a.1.time_share));
            for (kind, m) in kinds {
                table.rows.push(vec![
                    Cell::text(&survey.label),
                    Cell::text(group.to_string()),
                    Cell::text(kind),
                    Cell::share(m.time_share),
                    Cell::Count(m.rows),
                    Cell::Percent(m.mape),
                    Cell::Percent(m.p90_ape),
                    Cell::Percent(m.weighted_ape),
                    Cell::Count(m.fallback_rows),
                    Cell::percent(survey.floors.kinds.get(kind).map(|f| f.mape)),
                ]);
            }
        }
    }
    table
}

pub fn worst_table(surveys: &[&Survey], caption: String) -> Table {
    let mut table = Table::new(
        "accuracy-worst",
        caption,
        [
            "Environment",
            "Model",
            "Kind of model",
            "Measured",
            "Forecast",
            "Error",
            "Largest differences",
        ],
    );
    for survey in surveys {
        let Some(evaluated) = best_fed(survey, Method::Gbdt) else { continue };
        let real = evaluated.sets.iter().filter(|(group, _)| **group != Group::Synthetic);
        let mut models: Vec<_> =
            real.flat_map(|(group, e)| e.models.iter().map(move |m| (group, m))).collect();
        models.sort_by(|a, b| b.1.by_error(a.1));
        for (group, m) in models.into_iter().take(LISTED) {
            let part = |c: &Contribution| {
                format!("{} {:+.1} %", c.kind, (c.predicted_ns - c.actual_ns) / m.actual_ns * 100.0)
            };
            table.rows.push(vec![
                Cell::text(&survey.label),
                Cell::model(&m.name, &m.architecture),
                Cell::text(group.to_string()),
                Cell::text(Latency::from_ns(m.actual_ns).to_string()),
                Cell::text(m.predicted.point().to_string()),
                Cell::text(format!(
                    "{:+.1} %",
                    (m.predicted.point().ns() / m.actual_ns - 1.0) * 100.0
                )),
                Cell::text(m.contributions.iter().take(3).map(part).collect::<Vec<_>>().join(", ")),
            ]);
        }
    }
    table
}

pub fn paper_worst() -> Table {
    let caption = format!(
        "The study's largest end-to-end errors of GBDT over core combinations and precisions, by \
        device (figures 15 and 16). {}.",
        PAPER.source
    );
    let mut table = Table::new("accuracy-study", caption, ["Device", "Synthetic", "Real ViTs"]);
    table.rows = PAPER
        .worst
        .iter()
        .map(|w| vec![Cell::text(&w.device), Cell::Percent(w.synthetic), Cell::Percent(w.real)])
        .collect();
    table
}

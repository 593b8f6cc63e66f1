//! `--compare`: how the second of two models differs from the first.

use super::{
    super::{
        error::{CliError, CliResult},
        output::{self, Report, Table, percent},
    },
    PredictArgs, lines,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::Bundle;
use vitempo::forecast::{
    Comparison, ModelForecast, ModelForecasts, UnmatchedKernel, compare, forecast_each,
};
use vitempo::graph::{Latency, LatencyModel};
use vitempo::models::Models;

/// Kernels of a table; CSV and JSON have all.
const SHOWN: usize = 15;

pub fn run(args: &PredictArgs, bundle: &Bundle) -> CliResult {
    let read = args.models.read()?;
    let count = read.len();
    let models = Models { read, unreadable: Vec::new() };
    let ModelForecasts { forecasts, mut left_out } =
        forecast_each(bundle, models, &args.models.read_options());
    if let Some((_, error)) = left_out.pop() {
        return Err(error.into());
    }
    let forecasts: [ModelForecast; 2] = forecasts.try_into().map_err(|_| {
        CliError::user(format!("--compare takes two models; these are {count}"))
            .hint("give two files: vitempo predict a.onnx b.onnx --compare --bundle NAME")
    })?;
    forecasts.iter().for_each(|forecast| lines::warn_of_missing(&forecast.model));
    let [first, second] = &forecasts;
    let comparison = compare(first, second);
    output::print(&Compared { bundle, forecasts: &forecasts, comparison }, args.format)
}

struct Compared<'a> {
    bundle: &'a Bundle,
    forecasts: &'a [ModelForecast; 2],
    comparison: Comparison,
}

/// `+1.20 ms`
fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "" } else { "+" };
    format!("{sign}{}", Latency::from_ns(ns))
}

/// `+12.0 %`
fn relative(change_ns: f64, from: Latency) -> String {
    let share = change_ns / from.ns();
    let sign = if share < 0.0 || !share.is_finite() { "" } else { "+" };
    format!("{sign}{}", percent(share))
}

impl Compared<'_> {
    fn names(&self) -> [String; 2] {
        // Files of one name in two folders differ by their paths.
        let [a, b] = self.forecasts.each_ref().map(|f| f.model.identity.name.clone());
        match a == b {
            false => [a, b],
            true => self.forecasts.each_ref().map(|f| f.model.path.display().to_string()),
        }
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n\n", self.bundle.environment().describe());
        let mut table = Table::new(&["Model", "Latency", "Lower", "Upper", "Level", "Kernels"], 1);
        for (name, forecast) in self.names().into_iter().zip(self.forecasts) {
            let p = forecast.prediction.latency;
            let [upper, level] = lines::upper_and_level(p);
            table.row([
                name,
                p.point().to_string(),
                p.lower().to_string(),
                upper,
                level,
                forecast.prediction.operators.len().to_string(),
            ]);
        }
        text += &table.to_text();
        let c = &self.comparison;
        let first = self.forecasts[0].prediction.latency.point();
        let _ = writeln!(
            text,
            "\nChange     {}   ({})",
            signed(c.change_ns),
            relative(c.change_ns, first)
        );
        let (least, most) = c.bounds_ns;
        if !self.forecasts.iter().all(|f| f.prediction.latency.upper().is_finite()) {
            text += "Interval   none: operators are missing in the latencies\n";
            return text;
        }
        let _ = match c.same_architecture {
            true => writeln!(text, "Interval   none: both models have the same operators"),
            false => writeln!(
                text,
                "Interval   {} .. {}   holds with {} at least, however the errors of the two \
                forecasts depend on each other; how they do is not known, so it may be wider than \
                needed",
                signed(least),
                signed(most),
                output::level(c.level)
            ),
        };
        text
    }

    fn kinds(&self) -> String {
        let mut table = Table::new(&["Operator", "Count", "First", "Second", "Change"], 1);
        for kind in &self.comparison.kinds {
            let [first, second] = kind.latencies;
            table.row([
                kind.kind.clone(),
                match kind.counts {
                    [a, b] if a == b => a.to_string(),
                    [a, b] => format!("{a} -> {b}"),
                },
                first.to_string(),
                second.to_string(),
                signed(kind.change_ns()),
            ]);
        }
        let [first, second] = self.forecasts.each_ref().map(|f| f.prediction.overhead);
        table.row([
            "(calibration)".to_owned(),
            String::new(),
            first.to_string(),
            second.to_string(),
            signed(self.comparison.overhead_change_ns),
        ]);
        table.to_text()
    }

    fn kernels(&self) -> String {
        let changed: Vec<_> =
            self.comparison.matched.iter().filter(|k| k.change_ns() != 0.0).collect();
        let equal = self.comparison.matched.len() - changed.len();
        let mut text = format!(
            "{} kernels have the same name in both models; of these, {equal} take the same time\n",
            self.comparison.matched.len()
        );
        if !changed.is_empty() {
            let mut table = Table::new(&["Kernel", "Kind", "First", "Second", "Change"], 2);
            for kernel in changed.iter().take(SHOWN) {
                let [first, second] = kernel.latencies;
                let kind = match &kernel.kinds {
                    [a, b] if a == b => a.to_string(),
                    [a, b] => format!("{a}, {b}"),
                };
                table.row([
                    kernel.name.clone(),
                    kind,
                    first.to_string(),
                    second.to_string(),
                    signed(kernel.change_ns()),
                ]);
            }
            text += &table.to_text();
            text += &rest(changed.len());
        }
        for (which, kernels) in ["first", "second"].iter().zip(&self.comparison.unmatched) {
            text += &alone(which, kernels);
        }
        text
    }
}

fn rest(rows: usize) -> String {
    match rows.saturating_sub(SHOWN) {
        0 => String::new(),
        rest => format!("... and {rest} more in --format csv\n"),
    }
}

fn alone(which: &str, kernels: &[UnmatchedKernel]) -> String {
    if kernels.is_empty() {
        return String::new();
    }
    let total: Latency = kernels.iter().map(|kernel| kernel.latency).sum();
    let mut table = Table::new(&["Kernel", "Kind", "Latency"], 2);
    for kernel in kernels.iter().take(SHOWN) {
        table.row([kernel.name.clone(), kernel.kind.to_string(), kernel.latency.to_string()]);
    }
    format!(
        "\n{} kernels only in the {which} model, {total}\n{}{}",
        kernels.len(),
        table.to_text(),
        rest(kernels.len())
    )
}

impl Report for Compared<'_> {
    fn table(&self) -> String {
        format!("{}\n{}\n{}", self.head(), self.kinds(), self.kernels())
    }

    /// One row per kernel: what it takes in either model.
    fn csv(&self) -> CliResult<String> {
        let mut table =
            Table::new(&["kernel", "first_kind", "second_kind", "first_ns", "second_ns"], 3);
        for kernel in &self.comparison.matched {
            let kinds = kernel.kinds.each_ref().map(ToString::to_string);
            let latencies = kernel.latencies.map(|latency| latency.ns().to_string());
            table.row([kernel.name.clone()].into_iter().chain(kinds).chain(latencies));
        }
        for (which, kernels) in self.comparison.unmatched.iter().enumerate() {
            for kernel in kernels {
                let (mut kinds, mut latencies) =
                    ([const { String::new() }; 2], [const { String::new() }; 2]);
                kinds[which] = kernel.kind.to_string();
                latencies[which] = kernel.latency.ns().to_string();
                table.row([kernel.name.clone()].into_iter().chain(kinds).chain(latencies));
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let c = &self.comparison;
        let models = self.names().into_iter().zip(self.forecasts).map(
            |(name, forecast)| json!({"model": name, "latency_ns": forecast.prediction.latency}),
        );
        let kinds = c.kinds.iter().map(|kind| {
            json!({
                "kind": kind.kind,
                "counts": kind.counts,
                "latencies_ns": kind.latencies,
                "change_ns": kind.change_ns(),
            })
        });
        let matched = c.matched.iter().map(|kernel| {
            json!({
                "kernel": kernel.name,
                "kinds": kernel.kinds,
                "latencies_ns": kernel.latencies,
                "change_ns": kernel.change_ns(),
            })
        });
        let unmatched = c.unmatched.each_ref().map(|kernels| {
            let row = |kernel: &UnmatchedKernel| {
                json!({"kernel": kernel.name, "kind": kernel.kind, "latency_ns": kernel.latency})
            };
            kernels.iter().map(row).collect::<Vec<_>>()
        });
        Ok(json!({
            "bundle": self.bundle.name(),
            "environment": self.bundle.environment().id(),
            "models": models.collect::<Vec<_>>(),
            "change_ns": {
                "point": c.change_ns,
                "lower": c.bounds_ns.0,
                "upper": c.bounds_ns.1,
                "level_at_least": c.level,
            },
            "same_architecture": c.same_architecture,
            "kinds": kinds.collect::<Vec<_>>(),
            "overhead_change_ns": c.overhead_change_ns,
            "kernels": matched.collect::<Vec<_>>(),
            "only_in_first": unmatched[0],
            "only_in_second": unmatched[1],
        }))
    }
}

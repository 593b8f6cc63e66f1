//! Forecasts on several devices as text, CSV and JSON.

use super::{
    super::{
        error::CliResult,
        output::{Report, Table, counted, ns},
    },
    lines,
    report::{COLUMNS, inputs},
};
use serde_json::json;
use std::fmt::Write;
use vitempo::forecast::{DeviceForecast, ModelOnDevices};

/// What is printed.
pub struct OnDevices<'a> {
    pub models: &'a [ModelOnDevices],
}

impl Report for OnDevices<'_> {
    fn table(&self) -> String {
        self.models.iter().map(text).collect::<Vec<_>>().join("\n")
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&[COLUMNS, &["unsupported", "kind"]].concat(), 3);
        for model in self.models {
            for f in &model.forecasts {
                let (p, c) = (f.latency, &f.coverage);
                let numbers = [p.point(), p.lower(), p.upper()].map(ns);
                let counts = [c.operators, c.fallback, c.extrapolating, c.unsupported.len()];
                let words =
                    [model.model.identity.name.clone(), f.bundle.clone(), f.environment.id()];
                table.row(
                    words
                        .into_iter()
                        .chain(numbers)
                        .chain([p.level.to_string()])
                        .chain(counts.map(|count| count.to_string()))
                        .chain([f.kind.to_string()]),
                );
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let forecast = |f: &DeviceForecast| {
            json!({
                "bundle": f.bundle,
                "kind": f.kind,
                "environment": f.environment.id(),
                "latency_ns": f.latency,
                "coverage": f.coverage,
            })
        };
        let model = |model: &ModelOnDevices| {
            let left_out = model.left_out.iter();
            json!({
                "model": model.model.identity.name,
                "forecasts": model.forecasts.iter().map(forecast).collect::<Vec<_>>(),
                "left_out": left_out
                    .map(|(bundle, error)| json!({"bundle": bundle, "reason": error.to_string()}))
                    .collect::<Vec<_>>(),
            })
        };
        Ok(self.models.iter().map(model).collect())
    }
}

fn text(model: &ModelOnDevices) -> String {
    let mut text = format!(
        "{}   {}   {}\n\n",
        model.model.identity.name,
        inputs(&model.model.graph),
        counted(model.forecasts.len(), "bundle")
    );
    let mut table = Table::new(
        &[
            "Bundle",
            "Kind",
            "Latency",
            "Lower",
            "Upper",
            "Level",
            "Operators",
            "Fallback",
            "Outside",
        ],
        2,
    );
    for f in &model.forecasts {
        let (p, c) = (f.latency, &f.coverage);
        table.row(
            [f.bundle.clone(), f.kind.to_string()]
                .into_iter()
                .chain([p.point(), p.lower()].map(|latency| latency.to_string()))
                .chain(lines::upper_and_level(p))
                .chain([c.operators, c.fallback, c.extrapolating].map(|n| n.to_string())),
        );
    }
    text += &table.to_text();
    text += "Fallback: operators without a trained predictor. Outside: operators outside of the \
        training data.\n";
    if let Some(missing) = lines::missing(&model.model.graph) {
        let _ = writeln!(text, "Missing: {missing}");
    }
    text
}

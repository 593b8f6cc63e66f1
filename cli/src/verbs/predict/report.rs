//! Forecasts as text, CSV and JSON.

use super::{
    super::{
        error::CliResult,
        output::{Report, Table, ns, percent},
    },
    lines, memory, refinable,
};
use serde_json::json;
use std::fmt::Write;
use vitempo::Bundle;
use vitempo::forecast::{
    BesideForecast, Coverage, KindLatency, ModelForecast, unsupported_operators,
};
use vitempo::graph::{
    Graph, LatencyModel, OpKind, OperatorPrediction, PredictionSource, TensorSpec,
};

/// Columns of CSV.
pub const COLUMNS: &[&str] = &[
    "model",
    "bundle",
    "environment",
    "latency_ns",
    "lower_ns",
    "upper_ns",
    "level",
    "operators",
    "fallback",
    "extrapolating",
];

/// The tensors that a model takes.
pub fn inputs(graph: &Graph) -> String {
    let tensors = graph.inputs().iter().filter_map(|&i| graph.value(i).tensor.as_ref());
    tensors.map(TensorSpec::to_string).collect::<Vec<_>>().join(", ")
}

fn beside_cells(beside: &BesideForecast) -> Vec<String> {
    let p = beside.forecast.prediction.latency;
    let latencies = [p.point(), p.lower(), p.upper()].map(ns);
    let slowdown = format!("{:.4}", beside.forecast.slowdown.point());
    [beside.neighbour.clone(), slowdown].into_iter().chain(latencies).collect()
}

/// What is printed.
pub struct Printed<'a> {
    pub bundle: &'a Bundle,
    pub forecasts: Vec<ModelForecast>,
    /// Every operator is shown.
    pub breakdown: bool,
}

impl Report for Printed<'_> {
    fn table(&self) -> String {
        let texts: Vec<String> =
            self.forecasts.iter().map(|f| Forecast(f, self.bundle).table(self.breakdown)).collect();
        texts.join("\n")
    }

    fn csv(&self) -> CliResult<String> {
        if self.breakdown {
            return self.operators_csv();
        }
        let beside: &[&str] = match self.forecasts.iter().any(|f| f.beside.is_some()) {
            true => &["beside", "slowdown", "beside_ns", "beside_lower_ns", "beside_upper_ns"],
            false => &[],
        };
        let has_memory = self.forecasts.iter().any(|f| f.memory.is_some());
        let memory = if has_memory { memory::COLUMNS } else { &[] };
        let headings = [COLUMNS, memory, beside, &["unsupported"]].concat();
        let mut table = Table::new(&headings, 3);
        for f in &self.forecasts {
            let p = f.prediction.latency;
            let numbers = [p.point(), p.lower(), p.upper()].map(ns);
            let counts = [
                p.level.to_string(),
                f.prediction.operators.len().to_string(),
                f.prediction.fallbacks().count().to_string(),
                f.prediction.extrapolating().count().to_string(),
            ];
            let words = [
                f.model.identity.name.clone(),
                self.bundle.name().to_owned(),
                self.bundle.environment().id(),
            ];
            let memory = has_memory.then(|| memory::cells(f.memory.as_ref()));
            let unsupported = f.model.graph.unsupported().count().to_string();
            let more = memory.into_iter().flatten().chain(f.beside.iter().flat_map(beside_cells));
            let more = more.chain([unsupported]);
            table.row(words.into_iter().chain(numbers).chain(counts).chain(more));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.forecasts.iter().map(|f| Forecast(f, self.bundle).json(self.breakdown)).collect())
    }
}

impl Printed<'_> {
    /// A row per operator of each model.
    fn operators_csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &["model", "bundle", "node", "kind", "latency_ns", "source", "extrapolating"],
            4,
        );
        for f in &self.forecasts {
            for o in &f.prediction.operators {
                let source = match o.source {
                    PredictionSource::Model => "model",
                    PredictionSource::Fallback => "fallback",
                };
                table.row([
                    f.model.identity.name.clone(),
                    self.bundle.name().to_owned(),
                    o.name.clone(),
                    String::from(o.kind.clone()),
                    o.latency_ns.ns().to_string(),
                    source.to_owned(),
                    o.extrapolating.to_string(),
                ]);
            }
        }
        table.to_csv()
    }
}

/// A model's forecast, and what forecast it.
struct Forecast<'a>(&'a ModelForecast, &'a Bundle);

impl Forecast<'_> {
    fn table(&self, breakdown: bool) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}   {}   {}\n",
            self.0.model.identity.name,
            inputs(&self.0.model.graph),
            self.1.environment().describe()
        );
        let latency = self.0.prediction.latency;
        let _ = writeln!(text, "Latency    {}", lines::latency(latency));
        text.extend(self.beside_line());
        text.extend(self.0.memory.as_ref().map(memory::line));
        if let Some(measured) = self.0.measured() {
            let _ = writeln!(text, "Measured   {measured}, listed in the bundle for this graph");
        }
        text += &lines::coverage(self.0, self.1);
        text.push('\n');
        text += &self.kinds_table();
        for kind in self.0.fallback_kinds() {
            let _ = writeln!(
                text,
                "hint: `{kind}` has no trained predictor: its share is an estimate; `vitempo \
                profile MODELS --ops {kind}` would measure it"
            );
        }
        text.extend(refinable::hint(self.0, self.1).filter(|_| latency.upper().is_finite()));
        if breakdown {
            text.push('\n');
            text += &self.operators_table();
        }
        text
    }

    /// Latency and slowdown beside the neighbour.
    fn beside_line(&self) -> Option<String> {
        let BesideForecast { neighbour, forecast } = self.0.beside.as_ref()?;
        let (p, slowdown) = (forecast.prediction.latency, forecast.slowdown);
        let [upper, _] = lines::upper_and_level(p);
        Some(format!(
            "Beside     {}   [{} .. {upper}]   {:.2} x [{:.2} .. {:.2}] while {neighbour} runs\n",
            p.point(),
            p.lower(),
            slowdown.point(),
            slowdown.lower(),
            slowdown.upper()
        ))
    }

    fn kinds_table(&self) -> String {
        let total = self.0.prediction.latency.point().ns();
        let mut table = Table::new(&["Operator", "Count", "Latency", "Share"], 1);
        let unknown = unsupported_operators(&self.0.model.graph);
        for KindLatency { kind, count, latency } in self.0.by_kind() {
            let is_known = !unknown.contains_key(kind.as_str());
            let share = if is_known { percent(latency.ns() / total) } else { "-".to_owned() };
            table.row([kind, count.to_string(), lines::of_kind(latency, is_known), share]);
        }
        let overhead = self.0.prediction.overhead;
        table.row([
            "(calibration)".to_owned(),
            String::new(),
            overhead.to_string(),
            percent(overhead.ns() / total),
        ]);
        table.to_text()
    }

    fn operators_table(&self) -> String {
        let mut table = Table::new(&["Node", "Kind", "Latency", "Source"], 2);
        for o in &self.0.prediction.operators {
            table.row([
                o.name.clone(),
                o.kind.name().to_owned(),
                lines::of_kind(o.latency_ns, !matches!(o.kind, OpKind::Unsupported(_))),
                source_name(o),
            ]);
        }
        table.to_text()
    }

    fn json(&self, breakdown: bool) -> serde_json::Value {
        let operators = &self.0.prediction.operators;
        let mut out = json!({
            "model": self.0.model.identity.name,
            "bundle": self.1.name(),
            "environment": self.1.environment().id(),
            "latency_ns": self.0.prediction.latency,
            "overhead_ns": self.0.prediction.overhead,
            "refine": refinable::json(self.0, self.1),
            "coverage": Coverage::of(&self.0.model.graph, &self.0.prediction),
        });
        if let Some(BesideForecast { neighbour, forecast }) = &self.0.beside {
            out["beside"] = json!({
                "neighbour": neighbour,
                "slowdown": forecast.slowdown,
                "latency_ns": forecast.prediction.latency,
            });
        }
        if let Some(memory) = &self.0.memory {
            out["memory"] = json!(memory);
        }
        if let Some(measured) = self.0.measured() {
            out["measured_ns"] = json!(measured);
        }
        if breakdown {
            out["operators"] = operators
                .iter()
                .map(|o| {
                    json!({
                        "name": o.name,
                        "kind": o.kind,
                        "latency_ns": o.latency_ns,
                        "source": o.source,
                        "extrapolating": o.extrapolating,
                    })
                })
                .collect();
        }
        out
    }
}

pub fn source_name(operator: &OperatorPrediction) -> String {
    match operator.source {
        PredictionSource::Model if operator.extrapolating => "model, extrapolating",
        PredictionSource::Model => "model",
        PredictionSource::Fallback => "fallback",
    }
    .to_owned()
}

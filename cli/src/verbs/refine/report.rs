//! What is measured for a model and what came of it, as text, CSV and JSON.

use crate::verbs::{
    error::CliResult,
    models::Model,
    output::{Report, Table, percent},
};
use serde_json::json;
use std::{fmt::Write, path::Path};
use vitempo::{
    graph::{GraphPrediction, Latency},
    refine::{Candidate, Choice, Refined},
};

/// What is measured.
pub struct Plan<'a> {
    pub model: &'a Model,
    pub before: &'a GraphPrediction,
    pub choice: &'a Choice,
}

/// Width of an interval relative to its point.
fn width(forecast: &GraphPrediction) -> f64 {
    forecast.latency.interval.relative_width()
}

fn spelled(forecast: &GraphPrediction) -> String {
    let l = &forecast.latency;
    format!("{} [{} .. {}], {} wide", l.point(), l.lower(), l.upper(), percent(width(forecast)))
}

const HEADINGS: [&str; 8] =
    ["kernel", "node", "predictor", "count", "time", "share", "of the width", "costs"];

impl Plan<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&HEADINGS, 3);
        for candidate in &self.choice.candidates {
            table.row(Self::row(candidate));
        }
        table
    }

    fn row(c: &Candidate) -> [String; 8] {
        let predictor = match (c.trained, c.extrapolating) {
            (false, _) => "none",
            (true, true) => "extrapolates",
            (true, false) => "trained",
        };
        let cost = match (c.is_chosen, c.is_covered) {
            (true, _) => format!("{:.1} s", c.cost.as_secs_f64()),
            (false, true) => "with another".to_owned(),
            (false, false) => format!("({:.1} s)", c.cost.as_secs_f64()),
        };
        [
            c.op.kind.name().to_owned(),
            c.node.clone(),
            predictor.to_owned(),
            c.count.to_string(),
            Latency::from_ns(c.latency_ns).to_string(),
            percent(c.share_of_time),
            percent(c.share_of_width),
            cost,
        ]
    }

    fn summary(&self) -> String {
        let choice = self.choice;
        format!(
            "{} networks, about {:.0} s: {} of the interval's width; {} is out of reach\n",
            choice.chosen().count(),
            choice.cost().as_secs_f64(),
            percent(choice.covered()),
            percent(choice.out_of_reach)
        )
    }

    fn json_value(&self) -> serde_json::Value {
        let kernels: Vec<_> = self
            .choice
            .candidates
            .iter()
            .map(|c| {
                json!({
                    "kind": c.op.kind.name(), "node": c.node, "operator": c.op.id(),
                    "count": c.count, "latency_ns": c.latency_ns,
                    "share_of_time": c.share_of_time, "share_of_width": c.share_of_width,
                    "trained": c.trained, "extrapolating": c.extrapolating,
                    "cost_s": c.cost.as_secs_f64(), "chosen": c.is_chosen,
                    "with_another": c.is_covered,
                })
            })
            .collect();
        json!({
            "model": self.model.identity.name, "before": self.before.latency,
            "kernels": kernels, "cost_s": self.choice.cost().as_secs_f64(),
            "covered": self.choice.covered(), "out_of_reach": self.choice.out_of_reach,
        })
    }
}

impl Report for Plan<'_> {
    fn table(&self) -> String {
        let head = format!("{}: {}\n\n", self.model.identity.name, spelled(self.before));
        head + &self.rows().to_text() + "\n" + &self.summary()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.json_value())
    }
}

/// What came of it.
pub struct Outcome<'a> {
    pub plan: Plan<'a>,
    pub refined: &'a Refined,
    pub out: &'a Path,
    pub data: &'a Path,
}

impl Report for Outcome<'_> {
    fn table(&self) -> String {
        let record = &self.refined.record;
        let mut text = format!("{}\n", self.plan.model.identity.name);
        let _ = writeln!(text, "before  {}", spelled(self.plan.before));
        let _ = writeln!(text, "after   {}", spelled(&self.refined.after));
        let _ = writeln!(
            text,
            "\n{} kernels corrected by {} networks, measured in {} s; {} of the width was out of \
             reach\nbundle {}, measurements {}",
            record.kernels,
            record.networks,
            record.seconds,
            percent(self.plan.choice.out_of_reach),
            self.out.display(),
            self.data.display()
        );
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "model",
                "before_ns",
                "before_width",
                "after_ns",
                "after_width",
                "kernels",
                "seconds",
            ],
            1,
        );
        let record = &self.refined.record;
        let known = |w: f64| if w.is_finite() { w.to_string() } else { String::new() };
        table.row([
            self.plan.model.identity.name.clone(),
            self.plan.before.latency.point().ns().to_string(),
            known(width(self.plan.before)),
            self.refined.after.latency.point().ns().to_string(),
            known(width(&self.refined.after)),
            record.kernels.to_string(),
            record.seconds.to_string(),
        ]);
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let record = &self.refined.record;
        let mut value = self.plan.json_value();
        value["after"] = json!(self.refined.after.latency);
        value["corrected_kernels"] = record.kernels.into();
        value["networks"] = record.networks.into();
        value["seconds"] = record.seconds.into();
        value["slowdown"] = self.refined.slowdown.into();
        value["failed"] = json!(self.refined.failed);
        Ok(value)
    }
}

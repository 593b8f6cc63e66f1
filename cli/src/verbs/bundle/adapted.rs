//! A bundle that was adapted from end-to-end latencies: these, beside its forecasts of them.

use crate::verbs::{
    error::CliResult,
    output::{Report, Table, ns},
};
use serde_json::json;
use std::fmt::Write;
use vitempo::bundle::Location;
use vitempo::graph::Latency;
use vitempo::predictors::AdaptedBundle;

/// A bundle adapted from end-to-end latencies, described.
pub struct AdaptedReport<'a> {
    pub bundle: &'a AdaptedBundle,
    pub location: &'a Location,
}

impl AdaptedReport<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(
            &["Measured model", "Latency", "Forecast", "Lower", "Upper", "From the others"],
            1,
        );
        for model in &self.bundle.measured {
            let text = |l: Option<Latency>| l.map_or_else(|| "-".to_owned(), |l| l.to_string());
            let (forecast, others) = (model.forecast, model.from_others);
            table.row([
                model.name.clone(),
                Latency::from_ns(model.latency_ns).to_string(),
                text(forecast.map(|p| p.point())),
                text(forecast.map(|p| p.lower())),
                text(forecast.map(|p| p.upper())),
                text(others.map(|p| p.point())),
            ]);
        }
        table
    }

    /// What the columns mean.
    fn legend(&self) -> &'static str {
        if self.bundle.measured.iter().any(|m| m.forecast.is_some()) {
            "\nForecast: of the graph that the latency was adapted with; another export of a model \
            is another graph.\nFrom the others: of that graph, without the latency.\n"
        } else {
            "\nThe file is of an older version, without the graphs of the measured models.\n"
        }
    }
}

/// So many sources are more than a line should list.
const MANY: usize = 4;

impl Report for AdaptedReport<'_> {
    fn table(&self) -> String {
        let b = self.bundle;
        let mut text = format!(
            "{}   adapted   {}\n\nEnvironment  {}\n",
            self.location,
            b.environment.describe(),
            b.environment.id()
        );
        let source = b.source.as_ref().map_or_else(String::new, |s| format!(" ({s})"));
        let _ = writeln!(text, "Latencies    {:?}{source}", b.origin);
        let sources = match b.sources.as_slice() {
            [] => "no other device".to_owned(),
            [first, others @ ..] if others.len() >= MANY => format!(
                "{first}, and {} other environments (--format json lists them)",
                others.len()
            ),
            few => few.join(", "),
        };
        let _ = writeln!(text, "Learnt from  {sources}\nBy           {}\n", b.created_by);
        text + &self.rows().to_text() + self.legend()
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &["model", "latency_ns", "forecast_ns", "lower_ns", "upper_ns", "from_others_ns"],
            1,
        );
        let ns = |l: Option<Latency>| l.map_or_else(String::new, ns);
        for model in &self.bundle.measured {
            let (forecast, others) = (model.forecast, model.from_others);
            table.row([
                model.name.clone(),
                format!("{:.0}", model.latency_ns),
                ns(forecast.map(|p| p.point())),
                ns(forecast.map(|p| p.lower())),
                ns(forecast.map(|p| p.upper())),
                ns(others.map(|p| p.point())),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let b = self.bundle;
        Ok(json!({
            "bundle": self.location,
            "method": "adapted",
            "environment": b.environment,
            "environment_id": b.environment.id(),
            "origin": b.origin,
            "source": b.source,
            "created_by": b.created_by,
            "measured": b.measured,
            "sources": b.sources,
        }))
    }
}

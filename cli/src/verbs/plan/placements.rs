//! All placements of a multi-task model: what they should take, what the simulator says, what was
//! measured, and how good the choice was.
//!
//! A machine that others share is not the same from one minute to the next. So what is simulated is
//! compared with what was measured round by round, each simulation with costs from just before its
//! run; told are medians over the rounds.

use super::{
    super::{
        error::CliResult,
        output::{self, Report, Table},
    },
    live::{figures, told},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::planners::{
    Evidence, duration,
    pipeline::multitask::{Execution, MultiTask, Part, Schedule, eta, percent_of_maximum},
    simulator::StreamOutcome,
};
use vitempo::predictors::metrics;

/// One placement.
pub struct Placed {
    pub schedule: Schedule,
    pub rounds: Vec<Round>,
}

/// What became of a placement once.
pub struct Round {
    pub simulated: StreamOutcome,
    /// Where there are engines.
    pub live: Option<StreamOutcome>,
    /// How far its results are from the whole model's.
    pub apart: Option<f64>,
}

impl Round {
    /// What ran, or else what was simulated.
    fn told(&self) -> &StreamOutcome {
        self.live.as_ref().unwrap_or(&self.simulated)
    }

    fn error(&self) -> Option<f64> {
        Some(self.simulated.period_ns()? / self.live.as_ref()?.period_ns()? - 1.0)
    }
}

/// Every placement, least forecast period first.
pub struct Placements {
    model: MultiTask,
    rows: Vec<Placed>,
    slowdown: Vec<f64>,
    /// What ran where.
    engines: Option<String>,
}

impl Placed {
    /// `encoder on a, decoders on b, pipelined`.
    pub fn describe(&self, processors: &[String]) -> String {
        let name = |processor: usize| processors.get(processor).map_or("", String::as_str);
        let decoders: Vec<&str> = self.schedule.decoders.iter().map(|&p| name(p)).collect();
        let what = if decoders.len() > 1 { "decoders" } else { "decoder" };
        format!(
            "encoder on {}, {what} on {}, {}",
            name(self.schedule.encoder),
            decoders.join(" and "),
            self.execution()
        )
    }

    fn execution(&self) -> &'static str {
        match self.schedule.execution {
            Execution::Sequential => "sequential",
            Execution::Pipelined => "pipelined",
        }
    }

    fn predicted_ns(&self) -> f64 {
        self.schedule.period_ns.point() as f64
    }

    /// Over the rounds.
    fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        metrics::median(&self.rounds.iter().filter_map(of).collect::<Vec<f64>>())
    }

    fn simulated_ns(&self) -> Option<f64> {
        self.median(|round| round.simulated.period_ns())
    }

    fn live_ns(&self) -> Option<f64> {
        self.median(|round| round.live.as_ref().and_then(StreamOutcome::period_ns))
    }

    /// How far the simulated period is from the measured one, as a share.
    fn error(&self) -> Option<f64> {
        self.median(Round::error)
    }

    /// Latency below which this share of frames lies, over the rounds, ns.
    fn latency_ns(&self, share: f64) -> Option<f64> {
        self.median(|round| round.told().latency_quantile(share).map(|ns| ns as f64))
    }

    fn late_share(&self) -> f64 {
        self.median(|round| Some(1.0 - round.told().deadline_success_rate())).unwrap_or(0.0)
    }

    /// What a stream got over the rounds, as JSON; null where there is none.
    fn over(&self, of: impl Fn(&Round) -> Option<&StreamOutcome>, evidence: Evidence) -> Value {
        let outcomes: Vec<&StreamOutcome> = self.rounds.iter().filter_map(&of).collect();
        if outcomes.is_empty() {
            return Value::Null;
        }
        let latency_ns = [0.5, 0.99]
            .map(|share| self.median(|round| Some(of(round)?.latency_quantile(share)? as f64)));
        let sum = |count: fn(&StreamOutcome) -> u64| {
            outcomes.iter().map(|outcome| count(outcome)).sum::<u64>()
        };
        figures(
            self.median(|round| of(round)?.period_ns()),
            latency_ns,
            [sum(|o| o.completed), sum(|o| o.late), sum(|o| o.dropped)],
            evidence,
        )
    }

    /// Share of the ideal doubling that overlapping attains, measured where it ran.
    fn eta(&self) -> Option<f64> {
        let period_ns = self.live_ns().or_else(|| self.simulated_ns())?;
        let pipelined = self.schedule.execution == Execution::Pipelined;
        pipelined.then(|| {
            eta(percent_of_maximum(1e9 / period_ns, self.schedule.latency_ns.point() as f64 / 1e6))
        })
    }
}

fn ms(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| Latency::from_ns(ns).to_string())
}

impl Placements {
    pub fn new(
        model: MultiTask,
        mut rows: Vec<Placed>,
        slowdown: Vec<f64>,
        engines: Option<String>,
    ) -> Self {
        rows.sort_by_key(|row| (row.schedule.period_ns.point(), row.schedule.latency_ns.point()));
        Self { model, rows, slowdown, engines }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.model.encoder).chain(&self.model.decoders)
    }

    /// What running the placement of least forecast period costs beyond the best one that was
    /// measured, as a share of it; and that best one.
    fn regret(&self) -> Option<(f64, &Placed)> {
        let best = self
            .rows
            .iter()
            .filter(|row| row.live_ns().is_some())
            .min_by(|a, b| a.live_ns().unwrap_or(0.0).total_cmp(&b.live_ns().unwrap_or(0.0)))?;
        Some((self.rows.first()?.live_ns()? / best.live_ns()? - 1.0, best))
    }

    fn errors(&self) -> Vec<f64> {
        self.rows.iter().filter_map(Placed::error).map(f64::abs).collect()
    }

    fn notes(&self) -> String {
        let mut text = String::new();
        if let Some(chosen) = self.rows.first() {
            let _ = writeln!(
                text,
                "chosen: {}; least period of {} placements   ({})",
                chosen.describe(&self.model.processors),
                self.rows.len(),
                Evidence::CostModel
            );
        }
        let slower = self
            .model
            .processors
            .iter()
            .zip(&self.slowdown)
            .map(|(name, factor)| format!("{name} {factor:.2} times"));
        let slower: Vec<String> = slower.collect();
        if !slower.is_empty() {
            let _ = writeln!(
                text,
                "side by side an encoder takes longer than alone: {} (what the simulator knows of \
                contention)",
                slower.join(", ")
            );
        }
        let errors = self.errors();
        if !errors.is_empty() {
            let (mean, most) = (
                errors.iter().sum::<f64>() / errors.len() as f64,
                errors.iter().copied().fold(0.0, f64::max),
            );
            let (mean, most) = (output::percent(mean), output::percent(most));
            let _ = writeln!(
                text,
                "simulated against measured period: {mean} apart in the mean, {most} at most   \
                ({}, {})",
                Evidence::Simulation,
                Evidence::Live
            );
        }
        if let Some((regret, best)) = self.regret() {
            let _ = writeln!(
                text,
                "live regret {}: the best one measured is {}",
                output::percent(regret),
                best.describe(&self.model.processors)
            );
        }
        if let Some(apart) = self
            .rows
            .iter()
            .flat_map(|row| &row.rounds)
            .filter_map(|round| round.apart)
            .reduce(f64::max)
        {
            let _ = writeln!(
                text,
                "results are those of the whole model to {apart:.1e} of the largest value"
            );
        }
        text
    }
}

impl Report for Placements {
    fn table(&self) -> String {
        let headings: Vec<&str> = std::iter::once("Part")
            .chain(self.model.processors.iter().map(String::as_str))
            .collect();
        let mut parts = Table::new(&headings, 1);
        for part in self.parts() {
            let latency =
                part.latency_ns.iter().map(|ns| ns.map_or_else(|| "-".to_owned(), duration));
            parts.row(std::iter::once(part.name.clone()).chain(latency));
        }
        let mut table = Table::new(
            &["Placement", "Forecast", "Simulated", "Live", "Error", "p50", "p99", "Late", "eta"],
            1,
        );
        for row in &self.rows {
            table.row([
                row.describe(&self.model.processors),
                ms(Some(row.predicted_ns())),
                ms(row.simulated_ns()),
                ms(row.live_ns()),
                row.error().map_or_else(|| "-".to_owned(), output::percent),
                ms(row.latency_ns(0.5)),
                ms(row.latency_ns(0.99)),
                output::percent(row.late_share()),
                row.eta().map_or_else(|| "-".to_owned(), |eta| format!("{eta:.2}")),
            ]);
        }
        let engines =
            self.engines.as_ref().map_or_else(String::new, |engines| format!("{engines}\n"));
        format!(
            "{}\n{engines}\n{}\nPeriods:\n{}\n{}",
            self.model.model,
            parts.to_text(),
            table.to_text(),
            self.notes()
        )
    }

    fn csv(&self) -> CliResult<String> {
        let headings = [
            "encoder",
            "decoders",
            "execution",
            "forecast_ns",
            "simulated_ns",
            "live_ns",
            "p50_ns",
            "p99_ns",
            "late_share",
            "apart",
        ];
        let mut table = Table::new(&headings, 3);
        let optional = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        for row in &self.rows {
            let name = |processor: usize| self.model.processors[processor].clone();
            let decoders: Vec<String> = row.schedule.decoders.iter().map(|&p| name(p)).collect();
            table.row([
                name(row.schedule.encoder),
                decoders.join(" "),
                row.execution().to_owned(),
                row.predicted_ns().to_string(),
                optional(row.simulated_ns()),
                optional(row.live_ns()),
                optional(row.latency_ns(0.5)),
                optional(row.latency_ns(0.99)),
                row.late_share().to_string(),
                optional(row.median(|round| round.apart)),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let name = |processor: usize| self.model.processors[processor].clone();
        let parts: Vec<Value> = self
            .parts()
            .map(|part| {
                let latency: serde_json::Map<String, Value> = self
                    .model
                    .processors
                    .iter()
                    .zip(&part.latency_ns)
                    .map(|(name, ns)| (name.clone(), json!(ns)))
                    .collect();
                json!({"name": part.name, "latency_ns": latency})
            })
            .collect();
        let round = |round: &Round| json!({"simulated": told(&round.simulated, Evidence::Simulation), "live": round.live.as_ref().map(|live| told(live, Evidence::Live))});
        let row = |row: &Placed| {
            let s = &row.schedule;
            json!({
                "encoder": name(s.encoder),
                "decoders": s.decoders.iter().map(|&p| name(p)).collect::<Vec<_>>(),
                "execution": row.execution(),
                "forecast": {"period_ns": s.period_ns, "latency_ns": s.latency_ns, "evidence": Evidence::CostModel},
                "simulated": row.over(|round| Some(&round.simulated), Evidence::Simulation),
                "live": row.over(|round| round.live.as_ref(), Evidence::Live),
                "rounds": row.rounds.iter().map(round).collect::<Vec<_>>(),
                "error": row.error(),
                "eta": row.eta(),
                "apart": row.median(|round| round.apart),
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        Ok(json!({
            "model": self.model.model, "parts": parts, "features_bytes": self.model.features_bytes, "engines": self.engines,
            "slowdown_side_by_side": self.slowdown, "placements": rows, "live_regret": self.regret().map(|r| r.0),
        }))
    }
}

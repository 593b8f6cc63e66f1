//! All placements of a multi-task model as a table, CSV and JSON.

use super::{
    super::{
        error::CliResult,
        output::{self, Report, Table},
    },
    dynamic,
    live::{check_results, difference, figures, outcome_json},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::{Graph, Latency};
use vitempo::plan::multitask::{Placed, Placements, Round, dynamic::Dynamic};
use vitempo::planners::{
    Evidence,
    cost::Interval,
    duration,
    energy::PlanFrame,
    pipeline::multitask::{Execution, Part, Schedule},
    simulator::StreamOutcome,
};

/// Placements, and the engines that ran them.
pub struct PlacementReport {
    pub placements: Placements,
    pub dynamic: Option<Dynamic>,
    pub engines: Option<String>,
    /// By placement, a whole frame on a device.
    pub frames: Option<Vec<PlanFrame>>,
    /// Lines below the table.
    pub notes: Vec<String>,
}

/// `encoder on a, decoders on b, pipelined`.
pub fn describe(placed: &Placed, processors: &[String]) -> String {
    described(&placed.schedule, processors)
}

fn described(schedule: &Schedule, processors: &[String]) -> String {
    let name = |processor: usize| processors.get(processor).map_or("", String::as_str);
    let names =
        |places: &[usize]| places.iter().map(|&p| name(p)).collect::<Vec<&str>>().join(" and ");
    let Schedule { encoder, decoders, postprocessing, .. } = schedule;
    let what = if decoders.len() > 1 { "decoders" } else { "decoder" };
    let mut text = format!("encoder on {}, {what} on {}", name(*encoder), names(decoders));
    if !postprocessing.is_empty() {
        let _ = write!(text, ", postprocessing on {}", names(postprocessing));
    }
    format!("{text}, {}", execution(schedule))
}

fn execution(schedule: &Schedule) -> &'static str {
    match schedule.execution {
        Execution::Sequential => "sequential",
        Execution::Pipelined => "pipelined",
    }
}

/// The results of a stream over the rounds, as JSON; null without any.
fn over(
    placed: &Placed,
    of: impl Fn(&Round) -> Option<&StreamOutcome>,
    evidence: Evidence,
) -> Value {
    let outcomes: Vec<&StreamOutcome> = placed.rounds.iter().filter_map(&of).collect();
    if outcomes.is_empty() {
        return Value::Null;
    }
    let latency_ns = [0.5, 0.99]
        .map(|share| placed.median(|round| Some(of(round)?.latency_quantile(share)? as f64)));
    let sum =
        |count: fn(&StreamOutcome) -> u64| outcomes.iter().map(|outcome| count(outcome)).sum();
    figures(
        placed.median(|round| of(round)?.period_ns()),
        latency_ns,
        [sum(|o| o.completed), sum(|o| o.late), sum(|o| o.dropped)],
        evidence,
    )
}

fn ms(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| Latency::from_ns(ns).to_string())
}

impl PlacementReport {
    /// Refuses results of engines that are not the whole model's.
    pub fn check(&self, model: &Graph) -> CliResult {
        let engines = self.engines.as_deref().unwrap_or_default();
        check_results(self.placements.apart(), model, engines)
    }

    fn notes(&self) -> String {
        let Placements { model, rows, simulation, search, .. } = &self.placements;
        let mut text = String::new();
        if let Some(chosen) = rows.first() {
            let proven = if search.is_complete {
                format!("least period of {} placements", search.placements)
            } else {
                format!(
                    "the budget ended before all {} placements were tried; the best has a period \
                    at most {} shorter",
                    search.placements,
                    output::percent(1.0 - 1.0 / (1.0 + search.gap(chosen.forecast_ns())))
                )
            };
            let chosen = describe(chosen, &model.processors);
            let _ = writeln!(text, "chosen: {chosen}; {proven}   ({})", Evidence::CostModel);
        }
        if let Some(regret) = self.placements.cost_regret {
            let _ = writeln!(
                text,
                "if times are anywhere in their intervals, another placement's period is shorter \
                by {} of this one's at most{}",
                output::percent(regret.share),
                if regret.is_bound { " (an upper bound)" } else { "" }
            );
        }
        if search.placements > rows.len() as u128 {
            let _ = writeln!(text, "the best {} are listed and simulated", rows.len());
        }
        let slower = model
            .processors
            .iter()
            .zip(&simulation.slowdown)
            .map(|(name, factor)| format!("{name} {factor:.2} times"));
        let slower: Vec<String> = slower.collect();
        if !slower.is_empty() {
            let _ = writeln!(
                text,
                "slowdown of an encoder beside other work, as the simulator models contention: {}",
                slower.join(", ")
            );
        }
        if let Some((mean, most)) = self.placements.errors() {
            let (mean, most) = (output::percent(mean), output::percent(most));
            let _ = writeln!(
                text,
                "difference of simulated and measured period: {mean} on average, {most} at most   \
                ({}, {})",
                Evidence::Simulation,
                Evidence::Live
            );
        }
        if let Some((regret, best)) = self.placements.regret() {
            let _ = writeln!(
                text,
                "live regret {}: the best one measured is {}",
                output::percent(regret),
                describe(best, &model.processors)
            );
        }
        if let Some(apart) = self.placements.apart() {
            let _ = writeln!(text, "{}", difference(apart));
        }
        if let Some(frame) = self.frames.iter().flatten().next() {
            let _ = writeln!(text, "chosen: {frame}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }
}

impl Report for PlacementReport {
    fn table(&self) -> String {
        let Placements { model, rows, .. } = &self.placements;
        let headings: Vec<&str> =
            std::iter::once("Part").chain(model.processors.iter().map(String::as_str)).collect();
        let mut parts = Table::new(&headings, 1);
        let mut row = |name: &str, times: &[Option<Interval>]| {
            let times = times.iter().map(|ns| ns.map_or_else(|| "-".to_owned(), duration));
            parts.row(std::iter::once(name.to_owned()).chain(times));
        };
        model.parts().for_each(|part| row(&part.name, &part.latency_ns));
        let sessions = self.placements.sessions();
        if !sessions.is_empty() {
            let sums: Vec<_> = sessions.iter().map(|s| s.map(|(sum, _)| sum)).collect();
            row(&format!("all {} sessions", model.parts().count()), &sums);
            row("whole model, one session", &self.placements.whole_ns);
        }
        let mut table = Table::new(
            &["Placement", "Forecast", "Simulated", "Live", "Error", "p50", "p99", "Late", "eta"],
            1,
        );
        for row in rows {
            table.row([
                describe(row, &model.processors),
                ms(Some(row.forecast_ns())),
                ms(row.simulated_ns()),
                ms(row.live_ns()),
                row.error().map_or_else(|| "-".to_owned(), output::percent),
                ms(row.latency_ns(0.5)),
                ms(row.latency_ns(0.99)),
                output::percent(row.late_share()),
                self.placements.eta(row).map_or_else(|| "-".to_owned(), |eta| format!("{eta:.2}")),
            ]);
        }
        let engines =
            self.engines.as_ref().map_or_else(String::new, |engines| format!("{engines}\n"));
        let dynamic = self.dynamic.as_ref().map_or_else(String::new, |dynamic| {
            format!("\n{}", dynamic::table(dynamic, |s| described(s, &model.processors)))
        });
        format!(
            "{}\n{engines}\n{}\nPeriods:\n{}\n{}{dynamic}",
            model.model,
            parts.to_text(),
            table.to_text(),
            self.notes()
        )
    }

    fn csv(&self) -> CliResult<String> {
        let Placements { model, rows, .. } = &self.placements;
        let headings = [
            "encoder",
            "decoders",
            "postprocessing",
            "execution",
            "forecast_ns",
            "simulated_ns",
            "live_ns",
            "p50_ns",
            "p99_ns",
            "late_share",
            "apart",
        ];
        let mut table = Table::new(&headings, 4);
        let optional = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        for row in rows {
            let name = |processor: usize| model.processors[processor].clone();
            let names = |places: &[usize]| {
                places.iter().map(|&p| name(p)).collect::<Vec<String>>().join(" ")
            };
            table.row([
                name(row.schedule.encoder),
                names(&row.schedule.decoders),
                names(&row.schedule.postprocessing),
                execution(&row.schedule).to_owned(),
                row.forecast_ns().to_string(),
                optional(row.simulated_ns()),
                optional(row.live_ns()),
                optional(row.latency_ns(0.5)),
                optional(row.latency_ns(0.99)),
                row.late_share().to_string(),
                optional(row.apart()),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let Placements { model, rows, simulation, search, whole_ns, cost_regret } =
            &self.placements;
        let name = |processor: usize| model.processors[processor].clone();
        let by_processor = |times: &[Option<Interval>]| -> Value {
            let times = model.processors.iter().cloned().zip(times.iter().map(|ns| json!(ns)));
            times.collect::<serde_json::Map<String, Value>>().into()
        };
        let part =
            |part: &Part| json!({"name": part.name, "latency_ns": by_processor(&part.latency_ns)});
        let parts: Vec<Value> = model.parts().map(part).collect();
        let predictions: Vec<u64> =
            model.postprocessing.iter().map(|after| after.prediction_bytes).collect();
        let round = |round: &Round| json!({"simulated": outcome_json(&round.simulated, Evidence::Simulation), "live": round.live.as_ref().map(|live| outcome_json(live, Evidence::Live))});
        let row = |(index, row): (usize, &Placed)| {
            let s = &row.schedule;
            json!({
                "chosen": index == 0,
                "encoder": name(s.encoder),
                "decoders": s.decoders.iter().map(|&p| name(p)).collect::<Vec<_>>(),
                "postprocessing": s.postprocessing.iter().map(|&p| name(p)).collect::<Vec<_>>(),
                "execution": execution(s),
                "forecast": {"period_ns": s.period_ns, "latency_ns": s.latency_ns, "evidence": Evidence::CostModel},
                "simulated": over(row, |round| Some(&round.simulated), Evidence::Simulation),
                "live": over(row, |round| round.live.as_ref(), Evidence::Live),
                "rounds": row.rounds.iter().map(round).collect::<Vec<_>>(),
                "error": row.error(),
                "eta": self.placements.eta(row),
                "apart": row.apart(),
                "frame": self.frames.as_ref().and_then(|frames| frames.get(index)),
            })
        };
        let placements: Vec<Value> = rows.iter().enumerate().map(row).collect();
        let names = |s: &Schedule| s.places().into_iter().map(name).collect();
        let dynamic = self.dynamic.as_ref().map(|dynamic| dynamic::json(dynamic, names));
        Ok(json!({
            "model": model.model, "dynamic": dynamic, "parts": parts, "features_bytes": model.features_bytes,
            "prediction_bytes": predictions, "whole_latency_ns": by_processor(whole_ns), "engines": self.engines,
            "slowdown_side_by_side": simulation.slowdown, "placements": placements, "regret": cost_regret, "live_regret": self.placements.regret().map(|r| r.0),
            "search": {"placements": search.placements.to_string(), "is_complete": search.is_complete, "at_least_ns": search.at_least_ns},
        }))
    }
}

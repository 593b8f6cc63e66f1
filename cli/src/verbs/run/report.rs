//! A run: figures measured beside the forecast.

use super::super::{
    error::CliResult,
    output::{Report, Table, percent, thousands},
    plan::live::{in_a_line, other_results, share},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::run::{EngineLoss, EngineMemory, LogProcessor, RunLog, Summary, TaskSummary};
use vitempo::planners::Evidence;

/// A log with its figures, to be printed.
pub struct Printed {
    pub log: RunLog,
    pub summary: Summary,
}

pub fn latency(ns: f64) -> String {
    Latency::from_ns(ns).to_string()
}

fn pair((measured, forecast): (u64, u64)) -> [String; 2] {
    [latency(measured as f64), latency(forecast as f64)]
}

impl Printed {
    /// Refuses results that are further from the whole model's than its precision explains.
    pub fn check(&self) -> CliResult {
        let deviation = |task: &TaskSummary| {
            task.deviation.clone().map(|deviation| (task.name.clone(), deviation))
        };
        let Some((task, found)) = self.summary.tasks.iter().find_map(deviation) else {
            return Ok(());
        };
        let engine =
            |p: &LogProcessor| (p.name.clone(), format!("{} on cores {:?}", p.engine, p.cores));
        let engines: Vec<_> = self.log.header.processors.iter().map(engine).collect();
        let shares = [found.share, found.most];
        Err(other_results(&found.output, shares, &in_a_line(&engines)).about(task))
    }

    fn tasks(&self) -> String {
        let headings = [
            "Task",
            "Queries",
            "Violated",
            "forecast",
            "p50",
            "forecast",
            "p99",
            "forecast",
            "Waiting",
            "Running",
            "Hand-over",
            "Loading",
            "Not done",
        ];
        let mut table = Table::new(&headings, 1);
        for task in &self.summary.tasks {
            let counts = [task.queries, task.violated.0, task.violated.1];
            let cells = [task.name.clone()].into_iter().chain(counts.map(|n| n.to_string()));
            let cells = cells.chain(pair(task.p50_ns)).chain(pair(task.p99_ns));
            let not_done = task.refused + task.lost + task.failed;
            table.row(cells.chain(task.means_ns.map(latency)).chain([not_done.to_string()]));
        }
        table.to_text()
    }

    fn notes(&self) -> String {
        let (summary, header) = (&self.summary, &self.log.header);
        let mut text = String::new();
        let (measured, forecast) = summary.violation_rate();
        let _ = writeln!(
            text,
            "{} of {} queries violate their objective, forecast {}; {:.1} queries/s, forecast {:.1}   ({})",
            percent(measured),
            summary.queries,
            percent(forecast),
            summary.queries_per_s.0,
            summary.queries_per_s.1,
            Evidence::Live
        );
        for processor in &header.processors {
            let _ = writeln!(
                text,
                "{}: {} {} on cores {:?}",
                processor.name, processor.engine, processor.engine_version, processor.cores
            );
        }
        if header.runs_first == Some(false) {
            text += "messages between engines may wait for a core: this system does not let their \
                threads run first\n";
        }
        if header.kept_awake {
            text += "the engines' cores were kept awake between queries\n";
        }
        let [(before, before_ns), (during, during_ns)] = summary.loads;
        let _ = writeln!(
            text,
            "subgraphs: {before} loaded before the run (mean {}), {during} in queries (mean {}), {} \
            evicted; at most {} kB at once",
            latency(before_ns),
            latency(during_ns),
            summary.evictions,
            thousands(summary.largest_bytes.div_ceil(1000))
        );
        summary.memory.iter().for_each(|memory| text += &resident(memory));
        for task in &summary.tasks {
            if let Some(apart) = task.apart {
                let _ = writeln!(
                    text,
                    "{}: results differ from the whole model's by {} of the largest value",
                    task.name,
                    share(apart)
                );
            }
            for (count, what) in [
                (task.refused, "refused: the queue was full"),
                (task.lost, "lost with their engine"),
                (task.failed, "failed or interrupted"),
                (task.fell_back, "fell back to a faster way of the plan"),
            ] {
                if count > 0 {
                    let _ = writeln!(text, "{}: {count} queries {what}", task.name);
                }
            }
        }
        for EngineLoss { processor, reason, queries, starts_again } in &summary.engines_lost {
            let again =
                if *starts_again { "; it was started again when it was needed" } else { "" };
            let _ = writeln!(
                text,
                "engine of {processor} ended, {queries} queries lost with it: {reason}{again}"
            );
        }
        if summary.interrupted {
            let _ = writeln!(text, "interrupted: not all queries arrived");
        }
        text
    }
}

/// `a: at most 45 000 kB resident, 20 000 kB more than with nothing loaded; ...`.
fn resident(memory: &EngineMemory) -> String {
    let kilobytes = |bytes: u64| format!("{} kB", thousands(bytes.div_ceil(1000)));
    let more = memory.added_bytes().map_or_else(String::new, |added| {
        format!(", {} more than with nothing loaded", kilobytes(added))
    });
    format!(
        "{}: at most {} resident{more}; weights {} at most\n",
        memory.processor,
        kilobytes(memory.resident_bytes),
        kilobytes(memory.loaded_bytes)
    )
}

fn memory_json(memory: &EngineMemory) -> Value {
    json!({
        "processor": memory.processor,
        "start_bytes": memory.start_bytes,
        "resident_bytes": memory.resident_bytes,
        "loaded_bytes": memory.loaded_bytes,
        "measurements": memory.measurements,
    })
}

fn task_json(task: &TaskSummary) -> Value {
    let [waiting, running, handover, loading] = task.means_ns;
    json!({
        "name": task.name,
        "queries": task.queries,
        "violated": {"measured": task.violated.0, "forecast": task.violated.1},
        "refused": task.refused,
        "lost": task.lost,
        "failed": task.failed,
        "switches": task.switches,
        "fell_back": task.fell_back,
        "latency_p50_ns": {"measured": task.p50_ns.0, "forecast": task.p50_ns.1},
        "latency_p99_ns": {"measured": task.p99_ns.0, "forecast": task.p99_ns.1},
        "mean_waiting_ns": waiting,
        "mean_running_ns": running,
        "mean_handover_ns": handover,
        "mean_loading_ns": loading,
        "apart": task.apart,
    })
}

impl Report for Printed {
    fn table(&self) -> String {
        format!("{}\n{}", self.tasks(), self.notes())
    }

    fn csv(&self) -> CliResult<String> {
        let headings = [
            "task",
            "queries",
            "violated",
            "violated_forecast",
            "refused",
            "lost",
            "failed",
            "p50_ns",
            "p50_forecast_ns",
            "p99_ns",
            "p99_forecast_ns",
        ];
        let mut table = Table::new(&headings, 1);
        for task in &self.summary.tasks {
            let counts = [
                task.queries,
                task.violated.0,
                task.violated.1,
                task.refused,
                task.lost,
                task.failed,
            ];
            let times = [task.p50_ns.0, task.p50_ns.1, task.p99_ns.0, task.p99_ns.1];
            let cells = [task.name.clone()].into_iter().chain(counts.map(|n| n.to_string()));
            table.row(cells.chain(times.map(|ns| ns.to_string())));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let (summary, header) = (&self.summary, &self.log.header);
        let [before, during] =
            summary.loads.map(|(count, ns)| json!({"count": count, "mean_ns": ns}));
        let lost = summary.engines_lost.iter().map(|loss| {
            json!({
                "processor": loss.processor,
                "reason": loss.reason,
                "queries": loss.queries,
                "starts_again": loss.starts_again,
            })
        });
        Ok(json!({
            "device": header.device,
            "processors": header.processors,
            "queries": summary.queries,
            "violated": {"measured": summary.violated.0, "forecast": summary.violated.1},
            "queries_per_s": {
                "measured": summary.queries_per_s.0,
                "forecast": summary.queries_per_s.1,
            },
            "tasks": summary.tasks.iter().map(task_json).collect::<Vec<_>>(),
            "loads": {"before": before, "in_queries": during},
            "evictions": summary.evictions,
            "largest_bytes": summary.largest_bytes,
            "memory": summary.memory.iter().map(memory_json).collect::<Vec<_>>(),
            "engines_lost": lost.collect::<Vec<_>>(),
            "engines_started": summary.engines_started,
            "interrupted": summary.interrupted,
            "evidence": Evidence::Live,
        }))
    }
}

//! A log in the simulator: simulated beside measured times.

use super::super::{
    error::CliResult,
    output::{Report, Table, percent},
};
use super::report::latency;
use serde_json::{Value, json};
use vitempo::plan::run::{ReplayedLog, ReplayedTask};
use vitempo::planners::Evidence;

/// A replayed log, to be printed.
pub struct Replayed(pub ReplayedLog);

fn name(task: &ReplayedTask) -> String {
    task.name.clone().unwrap_or_else(|| "all".to_owned())
}

/// `+1.2 %`; `-` where there is none.
fn signed(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:+.1} %", 100.0 * share))
}

impl Report for Replayed {
    fn table(&self) -> String {
        let headings = [
            "Task",
            "Queries",
            "p50",
            "simulated",
            "p99",
            "simulated",
            "Mean",
            "simulated",
            "Difference",
            "Period",
            "simulated",
            "Difference",
        ];
        let mut table = Table::new(&headings, 1);
        for task in &self.0.tasks {
            let period = |of: fn((f64, f64)) -> f64| {
                task.period_ns.map_or_else(|| "-".to_owned(), |both| latency(of(both)))
            };
            table.row([
                name(task),
                task.queries.to_string(),
                latency(task.p50_ns.0 as f64),
                latency(task.p50_ns.1 as f64),
                latency(task.p99_ns.0 as f64),
                latency(task.p99_ns.1 as f64),
                latency(task.mean_ns.0),
                latency(task.mean_ns.1),
                signed(Some(task.latency_error())),
                period(|both| both.0),
                period(|both| both.1),
                signed(task.period_error()),
            ]);
        }
        let ReplayedLog { left_out, out_of_order, pieces, switches, .. } = self.0;
        let share = percent(out_of_order as f64 / pieces.max(1) as f64);
        format!(
            "{}\nsimulated with the measured times of loading, input and running; hand-over is not \
            simulated   ({})\n{out_of_order} of {pieces} pieces ({share}) start at another place in \
            the order of their processor; {left_out} queries that did not complete are left out; tasks \
            changed their variants {switches} times\n",
            table.to_text(),
            Evidence::Simulation
        )
    }

    fn csv(&self) -> CliResult<String> {
        let headings =
            ["task", "queries", "mean_ns", "simulated_mean_ns", "period_ns", "simulated_period_ns"];
        let mut table = Table::new(&headings, 1);
        for task in &self.0.tasks {
            let period = task
                .period_ns
                .map_or([String::new(), String::new()], |(a, b)| [a, b].map(|ns| ns.to_string()));
            let means = [task.mean_ns.0, task.mean_ns.1].map(|ns| ns.to_string());
            let cells = [name(task), task.queries.to_string()].into_iter();
            table.row(cells.chain(means).chain(period));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let task = |task: &ReplayedTask| {
            json!({
                "name": task.name,
                "queries": task.queries,
                "latency_p50_ns": {"measured": task.p50_ns.0, "simulated": task.p50_ns.1},
                "latency_p99_ns": {"measured": task.p99_ns.0, "simulated": task.p99_ns.1},
                "mean_latency_ns": {"measured": task.mean_ns.0, "simulated": task.mean_ns.1},
                "latency_error": task.latency_error(),
                "period_ns": task.period_ns.map(|(measured, simulated)| {
                    json!({"measured": measured, "simulated": simulated})
                }),
                "period_error": task.period_error(),
            })
        };
        Ok(json!({
            "tasks": self.0.tasks.iter().map(task).collect::<Vec<_>>(),
            "left_out": self.0.left_out,
            "out_of_order": self.0.out_of_order,
            "pieces": self.0.pieces,
            "switches": self.0.switches,
            "evidence": Evidence::Simulation,
        }))
    }
}

//! The outcomes of systems on engines, as text, CSV and JSON.

use super::super::super::{
    super::{
        error::CliResult,
        output::{Report, Table},
    },
    live::in_a_line,
};
use serde_json::{Value, json};
use vitempo::plan::aria::live::{LiveOutcomes, SystemRun};
use vitempo::planners::Evidence;
use vitempo_report::aria::success;

/// The outcomes to print.
pub struct Outcomes(pub LiveOutcomes);

fn ms(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

impl Outcomes {
    fn rows(&self) -> Table {
        let headings = [
            "System",
            "In time",
            "Late",
            "Dropped",
            "Median",
            "99 %",
            "Longest",
            "Cycles",
            "Asked",
            "Full frames",
            "Full frame age",
        ];
        let mut table = Table::new(&headings, 1);
        for run in &self.0.runs {
            let latency = |share: f64| ms(run.quantile(share) as f64);
            table.row([
                run.system.name().to_owned(),
                success(run.success_rate(self.0.target_ns)),
                (run.latency_ns.len() - run.in_time(self.0.target_ns)).to_string(),
                run.dropped.to_string(),
                latency(0.5),
                latency(0.99),
                latency(1.0),
                format!("{:.2}", run.per_frame(run.cycles)),
                format!("{:.1}", run.per_frame(run.regions)),
                run.full_frames.to_string(),
                format!("{:.1}", run.per_frame(run.full_age)),
            ]);
        }
        table
    }
}

impl Report for Outcomes {
    fn table(&self) -> String {
        let live = &self.0;
        let mut text = format!("{}\ntarget {}\n\n", in_a_line(&live.engines), ms(live.target_ns));
        text += &format!(
            "A cycle: forecast {}, measured {} alone and {} beside full frames\nCycles per frame: \
            planned {}, really fit {}\nFull frames, lowest resolution first: {}\n\n",
            ms(live.forecast_cycle_ns),
            ms(live.cycle_ns[0] as f64),
            ms(live.cycle_ns[1] as f64),
            live.planned_cycles,
            live.cycles_that_fit(),
            live.full_ns.iter().map(|ns| ms(*ns as f64)).collect::<Vec<_>>().join(", "),
        );
        text += &self.rows().to_text();
        text + &format!("Evidence: {}\n", Evidence::Live)
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let live = &self.0;
        let system = |run: &SystemRun| {
            json!({
                "system": run.system,
                "frames": run.latency_ns.len(),
                "in_time": run.in_time(live.target_ns),
                "dropped": run.dropped,
                "latency_p50_ns": run.quantile(0.5),
                "latency_p99_ns": run.quantile(0.99),
                "latency_ns": run.latency_ns,
                "cycles": run.cycles,
                "full_frames": run.full_frames,
            })
        };
        Ok(json!({
            "engines": in_a_line(&live.engines),
            "target_ns": live.target_ns,
            "cycle_forecast_ns": live.forecast_cycle_ns,
            "cycle_alone_ns": live.cycle_ns[0],
            "cycle_beside_ns": live.cycle_ns[1],
            "full_frame_ns": live.full_ns,
            "planned_cycles": live.planned_cycles,
            "cycles_that_fit": live.cycles_that_fit(),
            "systems": live.runs.iter().map(system).collect::<Vec<_>>(),
            "evidence": Evidence::Live,
        }))
    }
}

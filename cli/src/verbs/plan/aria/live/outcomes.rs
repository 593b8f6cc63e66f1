//! The outcomes of systems on engines, as text, CSV and JSON.

use super::super::super::{
    super::{
        error::CliResult,
        output::{Report, Table},
    },
    live::in_a_line,
};
use serde_json::{Value, json};
use vitempo::plan::aria::live::{LiveOutcomes, Replayed, SystemRun};
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
        let seen = ["RMSE, m", "mIoU", "RMSE to reference", "mIoU to reference"];
        let seen =
            if self.0.runs.iter().any(|run| run.shown().is_some()) { &seen[..] } else { &[] };
        let mut table = Table::new(&[&headings, seen].concat(), 1);
        for run in &self.0.runs {
            let latency = |share: f64| ms(run.quantile(share) as f64);
            let row = [
                run.setup.system.name().to_owned(),
                success(run.success_rate(self.0.target_ns)),
                (run.frames.len() - run.in_time(self.0.target_ns)).to_string(),
                run.dropped.to_string(),
                latency(0.5),
                latency(0.99),
                latency(1.0),
                format!("{:.2}", run.mean(|frame| frame.cycles)),
                format!("{:.1}", run.mean(|frame| frame.regions)),
                run.full_frames.to_string(),
                format!("{:.1}", run.mean(|frame| frame.full_age)),
            ];
            let errors = run.shown().into_iter().flatten();
            let errors = errors.flat_map(|score| {
                let none = || "-".to_owned();
                [score.depth_rmse_m(), score.label_miou()]
                    .map(|error| error.map_or_else(none, |error| format!("{error:.4}")))
            });
            table.row(row.into_iter().chain(errors));
        }
        table
    }

    /// Simulated beside executed, before the throttling and after it.
    fn replayed(&self) -> Table {
        let headings =
            ["System", "Full frames", "In time", "Median", "Cycles", "Full frame age", "Evidence"];
        let mut table = Table::new(&headings, 2);
        for (run, simulated) in self.0.runs.iter().zip(&self.0.replayed) {
            for Replayed { frames, slowdown, outcome } in simulated {
                let half = run.within(frames);
                let full = if *slowdown > 1.0 { "throttled" } else { "as they are" };
                table.row([
                    run.setup.system.name().to_owned(),
                    full.to_owned(),
                    success(half.success_rate(self.0.target_ns)),
                    ms(half.quantile(0.5) as f64),
                    format!("{:.2}", half.mean(|frame| frame.cycles)),
                    format!("{:.1}", half.mean(|frame| frame.full_age)),
                    Evidence::Live.to_string(),
                ]);
                table.row([
                    String::new(),
                    String::new(),
                    success(outcome.success_rate()),
                    ms(outcome.latency_ns[0] as f64),
                    format!("{:.2}", outcome.cycles),
                    outcome
                        .full_frame_age
                        .map_or_else(|| "-".to_owned(), |age| format!("{age:.1}")),
                    outcome.evidence.to_string(),
                ]);
            }
        }
        table
    }

    /// The executed frames one by one.
    pub fn frames(&self) -> Table {
        let headings = [
            "system",
            "frame",
            "latency_ns",
            "cycles",
            "asked",
            "full_frame_age",
            "rmse_m",
            "miou",
            "rmse_to_reference_m",
            "miou_to_reference",
            "flow",
        ];
        let mut table = Table::new(&headings, 1);
        for run in &self.0.runs {
            for frame in &run.frames {
                let errors = frame.shown.map(|scores| {
                    scores.map(|score| {
                        [score.depth_rmse_m(), score.label_miou()]
                            .map(|error| error.map_or_else(String::new, |x| format!("{x:.5}")))
                    })
                });
                let [[rmse, miou], [off, same]] = errors.unwrap_or_default();
                table.row([
                    run.setup.system.name().to_owned(),
                    frame.frame.to_string(),
                    frame.latency_ns.to_string(),
                    frame.cycles.to_string(),
                    frame.regions.to_string(),
                    frame.full_age.to_string(),
                    rmse,
                    miou,
                    off,
                    same,
                    self.0.flow_of(run.setup.system).unwrap_or_default().to_owned(),
                ]);
            }
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
            planned {}, really fit {}\nFull frames, lowest resolution first: {}\n",
            ms(live.forecast_cycle_ns),
            ms(live.cycle_ns[0] as f64),
            ms(live.cycle_ns[1] as f64),
            live.planned_cycles,
            live.cycles_that_fit(),
            live.full_ns.iter().map(|ns| ms(*ns as f64)).collect::<Vec<_>>().join(", "),
        );
        text += &format!("ARIA warps full frames by: {}\n\n", live.flow.name());
        text += &self.rows().to_text();
        text += &format!("Evidence: {}\n\n", Evidence::Live);
        text += "The same frames, executed and simulated with the latencies measured alone:\n";
        text + &self.replayed().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let live = &self.0;
        let system = |(run, simulated): (&SystemRun, &Vec<Replayed>)| {
            json!({
                "system": run.setup.system,
                "flow": live.flow_of(run.setup.system),
                "frames": run.frames.len(),
                "in_time": run.in_time(live.target_ns),
                "dropped": run.dropped,
                "latency_p50_ns": run.quantile(0.5),
                "latency_p99_ns": run.quantile(0.99),
                "latency_ns": run.frames.iter().map(|frame| frame.latency_ns).collect::<Vec<_>>(),
                "cycles": run.frames.iter().map(|frame| frame.cycles).sum::<u64>(),
                "full_frames": run.full_frames,
                "errors": run.shown().map(|[truth, reference]| json!({
                    "rmse_m": truth.depth_rmse_m(),
                    "miou": truth.label_miou(),
                    "rmse_to_reference_m": reference.depth_rmse_m(),
                    "miou_to_reference": reference.label_miou(),
                })),
                "simulated": simulated.iter().map(|Replayed { outcome, .. }| json!({
                    "in_time": outcome.in_time,
                    "frames": outcome.executed,
                    "latency_p50_ns": outcome.latency_ns[0],
                    "cycles": outcome.cycles,
                    "full_frame_age": outcome.full_frame_age,
                })).collect::<Vec<_>>(),
            })
        };
        Ok(json!({
            "engines": in_a_line(&live.engines),
            "flow": live.flow.name(),
            "target_ns": live.target_ns,
            "cycle_forecast_ns": live.forecast_cycle_ns,
            "cycle_alone_ns": live.cycle_ns[0],
            "cycle_beside_ns": live.cycle_ns[1],
            "full_frame_ns": live.full_ns,
            "decoder_ns": live.decoder_ns,
            "planned_cycles": live.planned_cycles,
            "cycles_that_fit": live.cycles_that_fit(),
            "systems": live.runs.iter().zip(&live.replayed).map(system).collect::<Vec<_>>(),
            "evidence": Evidence::Live,
        }))
    }
}

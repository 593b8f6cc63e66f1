//! `--simulate`: every system over the same trace, and what comes of forecasts that are off.

use super::{
    super::super::{
        error::{CliError, CliResult, io_error},
        files,
        output::{self, Report, Table},
        progress,
    },
    AriaArgs, page,
    planned::{self, Planned},
};
use serde_json::{Value, json};
use std::path::Path;
pub use vitempo::plan::aria::PERTURBATION;
use vitempo::plan::aria::{TraceOutcomes, perturbed};
use vitempo::planners::aria::{
    AriaCosts, AriaDevice, AriaOutcome, AriaPlan, Requirements, Simulation, Trace, Truth,
    estimates::Perturbation, robustness::ForecastBias,
};

/// What is simulated on.
pub struct Stage<'a> {
    pub costs: &'a AriaCosts,
    pub device: &'a AriaDevice,
    pub requirements: Requirements,
    pub plan: &'a AriaPlan,
}

/// Everything that came out.
pub struct Simulated<'a> {
    pub stage: &'a Stage<'a>,
    pub trace: &'a Trace,
    pub trace_name: String,
    pub seed: u64,
    /// All systems at the target.
    pub outcomes: Vec<AriaOutcome>,
    /// The same at twice the target.
    pub relaxed: Vec<AriaOutcome>,
    pub plan_relaxed: AriaPlan,
    /// Forecasts that are off, at the target and at the tightest that the point forecasts allow.
    pub off: Vec<ForecastBias>,
    /// The device's estimates moved by [`PERTURBATION`] either way; only where a page is written.
    pub shaken: Vec<Perturbation>,
    /// The highest and the lowest resolution without end, as figure 7 has them.
    pub ends: [AriaOutcome; 2],
}

pub fn run(args: &AriaArgs, path: &Path, stage: &Stage) -> CliResult {
    let trace = Trace::read(path)?;
    let simulation = Simulation {
        trace: &trace,
        costs: stage.costs,
        device: stage.device,
        requirements: stage.requirements,
        truth: Truth::Deviations(0.0),
        seed: args.seed,
    };
    progress::say(format!("{} frames, {:.0} s, six systems", trace.frames.len(), trace.seconds()));
    let TraceOutcomes { outcomes, relaxed, plan_relaxed, off, ends } =
        TraceOutcomes::of(&simulation)?;
    let shaken = if args.out.is_some() { perturbed(&simulation)? } else { Vec::new() };
    let trace_name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let simulated = Simulated {
        stage,
        trace: &trace,
        trace_name,
        seed: args.seed,
        outcomes,
        relaxed,
        plan_relaxed,
        off,
        shaken,
        ends,
    };
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| io_error("create", folder, &e))?;
        for (name, contents) in page::files(&simulated).map_err(CliError::ours)? {
            files::write(&folder.join(name), contents.as_bytes())?;
        }
        progress::say(format!("wrote {}", folder.join("report.md").display()));
    }
    output::print(&simulated, args.format)
}

/// How far forecasts are off, in words.
pub fn really(truth: Truth) -> String {
    match truth {
        Truth::Longer(share) => format!("{:+.0} %", 100.0 * share),
        Truth::Deviations(z) => format!("{z:+.2} standard deviations"),
    }
}

impl Simulated<'_> {
    pub fn systems(outcomes: &[AriaOutcome]) -> Table {
        let headings = [
            "System",
            "In time",
            "Dropped",
            "Median",
            "99 %",
            "Cycles",
            "Stale",
            "Stale, fast",
            "Moved",
            "Full frame age",
            "Patches",
            "Slowdown",
            "Hottest",
            "Energy",
        ];
        let mut table = Table::new(&headings, 1);
        for o in outcomes {
            let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
            let stale = |class: usize| {
                o.staleness
                    .get(class)
                    .map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s.mean_frames))
            };
            table.row([
                o.system.name().to_owned(),
                planned::success(o.success_rate()),
                o.dropped.to_string(),
                ms(o.latency_ns[0]),
                ms(o.latency_ns[1]),
                format!("{:.2}", o.cycles),
                stale(o.staleness.len().saturating_sub(1)),
                stale(o.staleness.len().saturating_sub(2)),
                o.staleness
                    .last()
                    .map_or_else(|| "-".to_owned(), |s| format!("{:.2}", s.mean_patches)),
                format!("{:.1}", o.full_frame_age),
                format!("{:.0}", o.patches),
                o.throttled.map_or_else(|| "-".to_owned(), |t| format!("{t:.2} x")),
                format!("{:.0} C", o.hottest_c),
                format!("{:.0} J", o.energy_j),
            ]);
        }
        table
    }

    pub fn off_table(&self) -> Table {
        let mut table = Table::new(
            &[
                "Target",
                "Planned at",
                "Really",
                "Highest level",
                "Planned cycles",
                "Cycles run",
                "In time",
                "In time, plan held",
            ],
            3,
        );
        for off in &self.off {
            let target = format!("{:.1} ms", off.target_ns / 1e6);
            let height = off
                .planned_height
                .map_or_else(|| "none".to_owned(), |height| format!("{height} px"));
            let rates = [off.success, off.success_held].map(planned::success);
            let planned = [height, off.planned_cycles.to_string(), format!("{:.2}", off.cycles)];
            table.row(
                [target, planned_at(off.confidence), really(off.truth)]
                    .into_iter()
                    .chain(planned)
                    .chain(rates),
            );
        }
        table
    }
}

/// What was planned for, in words.
pub fn planned_at(confidence: Option<f64>) -> String {
    confidence
        .map_or_else(|| "point forecasts".to_owned(), |c| format!("{:.0} % confidence", 100.0 * c))
}

const LEGEND: &str = "Stale: frames since what is shown of a moving region was seen, mean (fast: \
    of regions that move 0.3 patches a frame or more); Moved: how far they went since,\n\
    in patches; Full frame age: frames; Patches: of what the background was last seen with; \
    Slowdown: of full frames by throttling.\n";

impl Report for Simulated<'_> {
    fn table(&self) -> String {
        let target = self.stage.requirements.target_ns / 1e6;
        let mut text = String::new();
        self.stage.costs.sources.iter().for_each(|source| text += &format!("{source}\n"));
        text += &format!(
            "\n{} frames of {} ({:.0} s), target {target:.1} ms\n\n",
            self.trace.frames.len(),
            self.trace_name,
            self.trace.seconds()
        );
        text += &Self::systems(&self.outcomes).to_text();
        text += &format!("\nTarget {:.1} ms\n\n", 2.0 * target);
        text += &Self::systems(&self.relaxed).to_text();
        text += LEGEND;
        text += "\nForecasts that are off: everything takes longer, or less, than forecast. \
            ARIA's scheduler follows what it sees; `plan held` does not.\n\
            Standard deviations are those of the forecasts' intervals, all in the same direction: \
            1.64 is the pessimistic end at 90 % confidence.\n\n";
        text += &self.off_table().to_text();
        text + "Evidence: simulation\n"
    }

    fn csv(&self) -> CliResult<String> {
        Self::systems(&self.outcomes).to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let plan = Planned { plan: self.stage.plan, costs: self.stage.costs }.json()?;
        Ok(
            json!({"plan": plan["plan"], "costs": self.stage.costs, "device": self.stage.device, "trace": self.trace_name, "seed": self.seed,
            "systems": self.outcomes, "systems_at_twice_the_target": self.relaxed, "forecasts_off": self.off}),
        )
    }
}

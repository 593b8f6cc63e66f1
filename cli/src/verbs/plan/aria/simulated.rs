//! `--simulate`: simulates every system over the same trace, also under a bias of the forecasts.

use super::{
    super::super::{
        error::{CliResult, io_error},
        files,
        output::{self, Report, Table},
        progress,
    },
    AriaArgs,
    planned::Planned,
};
use serde_json::{Value, json};
use std::path::Path;
use vitempo::plan::aria::{Scenario, Simulated};
use vitempo::planners::aria::{AriaOutcome, Trace};
use vitempo_report::aria::{page, planned_at, success, truth};

pub fn run(args: &AriaArgs, path: &Path, scenario: &Scenario) -> CliResult {
    let trace = Trace::read(path)?;
    progress::say(format!(
        "{} frames, {:.0} s, six systems and two orders",
        trace.frames.len(),
        trace.seconds()
    ));
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let simulated = Simulated::of(scenario, trace, name, args.seed)?;
    if let Some(folder) = &args.out {
        let files = page(&simulated, &simulated.details()?);
        std::fs::create_dir_all(folder).map_err(|e| io_error("create", folder, &e))?;
        for (name, contents) in files {
            files::write(&folder.join(name), contents.as_bytes())?;
        }
        progress::say(format!("wrote {}", folder.join("report.md").display()));
    }
    output::print(&Printed(simulated), args.format)
}

/// The simulation to print.
struct Printed<'a>(Simulated<'a>);

impl Printed<'_> {
    fn systems<'o>(outcomes: impl IntoIterator<Item = &'o AriaOutcome>) -> Table {
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
                success(o.success_rate()),
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

    fn biases(&self) -> Table {
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
        for bias in &self.0.outcomes.off {
            let target = format!("{:.1} ms", bias.target_ns / 1e6);
            let height = bias
                .planned_height
                .map_or_else(|| "none".to_owned(), |height| format!("{height} px"));
            let rates = [bias.success, bias.success_held].map(success);
            let planned = [height, bias.planned_cycles.to_string(), format!("{:.2}", bias.cycles)];
            table.row(
                [target, planned_at(bias.confidence), truth(bias.truth)]
                    .into_iter()
                    .chain(planned)
                    .chain(rates),
            );
        }
        table
    }
}

const LEGEND: &str = "ARIA serves the regions that waited longest, then the fastest; the paper's \
    order is speed, after regions carried over.\nStale: frames since what is shown of a moving \
    region was seen, mean (fast: of regions that move 0.3 patches a frame or more); Moved: how far \
    they went since,\nin patches; Full frame age: frames; Patches: of what the background was last \
    seen with; Slowdown: of full frames by throttling.\n";

impl Report for Printed<'_> {
    fn table(&self) -> String {
        let target = self.0.scenario.requirements.target_ns / 1e6;
        let mut text = String::new();
        self.0.scenario.costs.sources.iter().for_each(|source| text += &format!("{source}\n"));
        text += &format!(
            "\n{} frames of {} ({:.0} s), target {target:.1} ms\n\n",
            self.0.trace.frames.len(),
            self.0.trace_name,
            self.0.trace.seconds()
        );
        text += &Self::systems(self.0.outcomes.at_target()).to_text();
        text += &format!("\nTarget {:.1} ms\n\n", 2.0 * target);
        text += &Self::systems(self.0.outcomes.at_twice_the_target()).to_text();
        text += LEGEND;
        text += "\nForecasts that are off: everything takes longer, or less, than forecast. \
            ARIA's scheduler follows what it sees; `plan held` does not.\n\
            Standard deviations are those of the forecasts' intervals, all in the same direction: \
            1.64 is the pessimistic end at 90 % confidence.\n\n";
        text += &self.biases().to_text();
        text + "Evidence: simulation\n"
    }

    fn csv(&self) -> CliResult<String> {
        Self::systems(self.0.outcomes.at_target()).to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let Simulated { scenario, trace_name, seed, outcomes, .. } = &self.0;
        let plan = Planned(scenario).json()?;
        Ok(json!({
            "plan": plan["plan"],
            "costs": scenario.costs,
            "device": scenario.device,
            "trace": trace_name,
            "seed": seed,
            "systems": outcomes.at_target().collect::<Vec<_>>(),
            "systems_at_twice_the_target": outcomes.at_twice_the_target().collect::<Vec<_>>(),
            "forecasts_off": outcomes.off,
        }))
    }
}

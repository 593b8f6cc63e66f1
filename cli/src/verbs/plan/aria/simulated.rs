//! `--simulate`: simulates every system over the same trace, also under a bias of the forecasts.

use super::{
    super::super::{
        error::{CliError, CliResult, io_error},
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
use vitempo::planners::aria::{AriaOutcome, SimulationError, Trace};
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
    let of_device =
        |e: &SimulationError| !matches!(e, SimulationError::Plan(_) | SimulationError::Aria(_));
    let simulated =
        Simulated::of(scenario, trace, name, args.seed).map_err(|e| match &args.device {
            Some(device) if of_device(&e) => CliError::from(e).about(device.display()),
            _ => e.into(),
        })?;
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
struct Printed(Simulated);

impl Printed {
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
            "Unseen",
            "Full frame age",
            "Patches",
            "Slowdown",
            "Hottest",
            "Energy",
        ];
        let mut table = Table::new(&headings, 1);
        for o in outcomes {
            let number = |value: Option<f64>, digits: usize, unit: &str| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}{unit}"))
            };
            let ran = |value: f64| (o.executed > 0).then_some(value);
            let ms = |ns: u64| number(ran(ns as f64 / 1e6), 1, " ms");
            let (all, fast) = match &o.staleness[..] {
                [.., fast, all] => (all, fast),
                _ => continue,
            };
            table.row([
                o.system.name().to_owned(),
                success(ran(o.success_rate()).unwrap_or(f64::NAN)),
                o.dropped.to_string(),
                ms(o.latency_ns[0]),
                ms(o.latency_ns[1]),
                number(ran(o.cycles), 2, ""),
                number(all.mean_frames, 1, ""),
                number(fast.mean_frames, 1, ""),
                number(all.mean_patches, 2, ""),
                o.before_full_frames.to_string(),
                number(o.full_frame_age, 1, ""),
                number(o.patches, 0, ""),
                number(o.throttled, 2, " x"),
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
    they went since,\nin patches; Unseen: frames before the first full frame, which show nothing and \
    have no age; Full frame age: frames; Patches: of what the\nbackground was last seen with; \
    Slowdown: of full frames of one resolution by throttling; -: nothing to count.\n";

impl Report for Printed {
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

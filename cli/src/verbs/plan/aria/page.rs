//! The page on a simulation: figures 7, 12 and 15 to 19 of the paper in our own terms, every figure
//! with its level of evidence.

use super::simulated::{Simulated, planned_at, really};
use vitempo::planners::{
    Evidence,
    aria::{AriaOutcome, Moment, System},
};
use vitempo_report::{
    chart::{Axis, BarSeries, Chart, Mark, Series},
    draw,
    table::{Cell, Table},
};

/// What is written: tables and words as Markdown, plots as files beside it.
#[derive(Default)]
struct Page {
    text: String,
    files: Vec<(String, String)>,
}

impl Page {
    fn heading(&mut self, text: &str) {
        self.text += &format!("\n## {text}\n");
    }

    fn words(&mut self, text: &str) {
        self.text += &format!("\n{text}\n");
    }

    fn table(&mut self, table: &Table) {
        self.text += &format!("\n{}", table.markdown());
    }

    fn figure(&mut self, name: &str, caption: &str, chart: &Chart) -> Result<(), String> {
        let caption = format!("{caption} Evidence: {}.", Evidence::Simulation);
        if chart.is_empty() {
            self.words(&format!("Not shown: {caption} Nothing of it happened."));
            return Ok(());
        }
        self.text +=
            &format!("\n![{}]({name}.svg)\n\n{caption}\n", caption.replace(['[', ']'], ""));
        self.files.push((format!("{name}.svg"), draw::svg(chart)?));
        Ok(())
    }
}

/// Names and contents of the files of the page.
pub fn files(simulated: &Simulated) -> Result<Vec<(String, String)>, String> {
    let mut page = Page { text: "# ARIA on a simulated device\n".to_owned(), ..Page::default() };
    introduction(&mut page, simulated);
    deadline(&mut page, simulated)?;
    accuracy(&mut page, simulated)?;
    ablation(&mut page, simulated)?;
    over_time(&mut page, simulated)?;
    reaction(&mut page, simulated)?;
    priorities(&mut page, simulated)?;
    breakdown(&mut page, simulated)?;
    throttling(&mut page, simulated)?;
    off(&mut page, simulated);
    shaken(&mut page, simulated);
    let mut files = vec![("report.md".to_owned(), page.text)];
    files.append(&mut page.files);
    Ok(files)
}

fn of(outcomes: &[AriaOutcome], system: System) -> Option<&AriaOutcome> {
    outcomes.iter().find(|o| o.system == system)
}

fn simulation(what: &str) -> String {
    format!("{what} Evidence: {}.", Evidence::Simulation)
}

fn introduction(page: &mut Page, s: &Simulated) {
    let target = s.stage.requirements.target_ns / 1e6;
    page.words(&format!(
        "Made by `vitempo plan aria --simulate {} --seed {} --out FOLDER`: {} frames, {:.0} s, \
        target {target:.1} ms and twice that. Six systems run over the same trace on the same \
        model of a device: \
         processors with frequencies and power, two thermal nodes, a governor. Cycles, priorities \
         and resolutions of ARIA are chosen by the scheduler that ships (`vitempo-aria`); what \
         everything takes is this:",
        s.trace_name,
        s.seed,
        s.trace.frames.len(),
        s.trace.seconds(),
    ));
    let sources: String =
        s.stage.costs.sources.iter().map(|source| format!("- {source}\n")).collect();
    page.words(sources.trim_end());
    page.words(
        "Nothing here is the paper's accuracy (RMSE, mIoU): that needs its videos and networks. \
        What stands for it is how old what is shown of a moving region is, how far the region \
        went since, how many patches the \
         background was last seen with, and depth and labels of a stand-in model. Where the paper \
         prints a figure, it stands beside ours with its own level of evidence.",
    );
    let mut table = Table::new(
        "plan",
        format!(
            "The plan, from costs alone, at {:.0} % confidence. Evidence: {}.",
            100.0 * s.stage.requirements.confidence,
            Evidence::CostModel
        ),
        [
            "Target, ms",
            "Region, patches",
            "Cycles per frame",
            "Highest level",
            "Frames between full frames",
            "In time, to expect",
            "In time, pessimistic end",
        ],
    );
    for plan in [s.stage.plan, &s.plan_relaxed] {
        table.rows.push(vec![
            Cell::number(plan.requirements.target_ns / 1e6),
            Cell::text(format!("{} x {}", plan.region.rows, plan.region.cols)),
            Cell::Count(plan.cycles as usize),
            Cell::text(
                plan.usable()
                    .next_back()
                    .map_or_else(|| "none".to_owned(), |l| format!("{} x {}", l.height, l.width)),
            ),
            Cell::number(plan.interval_frames),
            Cell::text(
                plan.success
                    .map_or_else(|| "-".to_owned(), |x| super::planned::success(x.expected)),
            ),
            Cell::text(
                plan.success
                    .map_or_else(|| "-".to_owned(), |x| super::planned::success(x.at_upper)),
            ),
        ]);
    }
    page.table(&table);
}

/// Figure 12: deadline success rate and latency.
fn deadline(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Frames in time, and end-to-end latency (figure 12)");
    let printed = |system: System| match system {
        System::MobiSrLike => "misses 93.1 to 97.7 %",
        System::Base => "misses 2.4 % (S24), 5.0 % (S22) at 33.3 ms",
        System::S1 => "misses 0.009 % (S22)",
        System::Aria => "99.9 % in time, mean",
        System::NpuOnly | System::S2 => "-",
    };
    for (outcomes, factor) in [(&s.outcomes, 1.0), (&s.relaxed, 2.0)] {
        let target = factor * s.stage.requirements.target_ns / 1e6;
        let caption = simulation(&format!(
            "Target {target:.1} ms. The last column is printed in the paper, for its phones and \
            videos (evidence: {}).",
            Evidence::PaperTable
        ));
        let headings = [
            "System",
            "In time",
            "Late",
            "Not run",
            "Median, ms",
            "99 of 100, ms",
            "Longest, ms",
            "Cycles",
            "Printed",
        ];
        let mut table = Table::new("deadline", caption, headings);
        for o in outcomes {
            let [median, most, longest] = o.latency_ns.map(|ns| Cell::number(ns as f64 / 1e6));
            let late = Cell::Count(o.executed - o.in_time);
            let rate = Cell::text(super::planned::success(o.success_rate()));
            let printed = Cell::text(printed(o.system));
            table.rows.push(vec![
                Cell::text(o.system.name()),
                rate,
                late,
                Cell::Count(o.dropped as usize),
                median,
                most,
                longest,
                Cell::number(o.cycles),
                printed,
            ]);
        }
        page.table(&table);
    }
    shared_blocks(page, s);
    let bars = |name: &str, rank: usize, outcomes: &[AriaOutcome]| BarSeries {
        name: name.to_owned(),
        values: outcomes.iter().map(|o| Some(o.latency_ns[rank] as f64 / 1e6)).collect(),
        floors: Vec::new(),
    };
    let chart = Chart::Bars {
        value: "latency, ms".to_owned(),
        groups: s.outcomes.iter().map(|o| o.system.name().to_owned()).collect(),
        series: vec![bars("median", 0, &s.outcomes), bars("99 of 100", 1, &s.outcomes)],
        reference: Some(s.stage.requirements.target_ns / 1e6),
    };
    page.figure("latency", "End-to-end latency by system; the line is the target.", &chart)
}

/// Why MobiSR-like is late, or not: the only system whose frames wait for the processor that
/// throttles.
fn shared_blocks(page: &mut Page, s: &Simulated) {
    let told = |o: &AriaOutcome| {
        let ghz = || o.moments.iter().map(|m| m.full_frames_ghz);
        let (low, high) = (ghz().fold(f64::INFINITY, f64::min), ghz().fold(0.0, f64::max));
        let (target, worked) = (o.target_ns / 1e6, 100.0 * o.busy[1]);
        format!(
            "at {target:.1} ms that processor works {worked:.0} % of the time, and goes from \
            {high:.2} GHz down to {low:.2} GHz at up to {:.0} degrees Celsius",
            o.hottest_c
        )
    };
    let both: Vec<String> = [&s.outcomes, &s.relaxed]
        .into_iter()
        .filter_map(|outcomes| of(outcomes, System::MobiSrLike))
        .map(told)
        .collect();
    page.words(&format!(
        "MobiSR-like is the only system whose frames wait for the processor of full frames. \
        Blocks are shared out so that both processors are done soonest, the most dynamic ones on \
        that of regions, and it is planned as carefully as \
         the others: here {}. In the paper it is late in 93.1 to 97.7 % of frames because that \
         processor throttles; a frame that only just fits while it is cool cannot be in time \
         then. Whether it gets that hot is a matter of how long it works \
         and of thermal constants that nobody measured: MobiSR-like's row is a statement about \
         this model of a phone, not a repetition of the paper's.",
        both.join(", ")
    ));
}

/// Figure 13: accuracy, of a stand-in model.
fn accuracy(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Accuracy of a stand-in model (in the place of figure 13)");
    page.words(
        "Scenes rendered with known depth and labels are shown as the systems would show them: \
        full frames as often and cycles as many as in the simulation, regions and warping by \
        `vitempo-aria` itself. What stands in for \
         encoder and decoder answers with the median depth and the most frequent label of each \
         patch; it has no other error than the size of patches and age. MobiSR-like is left out: \
         what a network loses when a frame is cut \
         into blocks, the stand-in does not lose.",
    );
    super::accuracy::tables(s)?.iter().for_each(|table| page.table(table));
    Ok(())
}

/// Figure 15: what each part of ARIA brings.
fn ablation(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("What each part brings (figure 15)");
    page.words(
        "S1: dynamic regions by patch features instead of block matching on the CPU. S2: \
        windows that follow a region's way. S3: cycles, priorities and resolutions chosen anew \
        for every frame.",
    );
    let headings = [
        "System",
        "In time",
        "Stale, frames",
        "95 of 100, frames",
        "Moved since, patches",
        "Full frame age, frames",
        "Patches of full frames",
        "Slowdown of full frames",
        "Energy, J",
    ];
    let mut table = Table::new(
        "ablation",
        simulation("Stale: frames since what is shown of a moving region was seen."),
        headings,
    );
    for system in [System::Base, System::S1, System::S2, System::Aria] {
        let Some(o) = of(&s.outcomes, system) else { continue };
        let all = o.staleness.last();
        table.rows.push(vec![
            Cell::text(o.system.name()),
            Cell::text(super::planned::success(o.success_rate())),
            Cell::number(all.map(|x| x.mean_frames)),
            all.map_or(Cell::Blank, |x| Cell::Count(x.p95_frames as usize)),
            Cell::number(all.map(|x| x.mean_patches)),
            Cell::number(o.full_frame_age),
            Cell::number(o.patches),
            Cell::times(o.throttled),
            Cell::number(o.energy_j),
        ]);
    }
    page.table(&table);
    let systems = [System::Base, System::S1, System::S2, System::Aria];
    let chart = Chart::Bars {
        value: "patches that moving regions went since they were seen".to_owned(),
        groups: systems.iter().map(|system| system.name().to_owned()).collect(),
        series: vec![BarSeries {
            name: "mean".to_owned(),
            values: systems
                .iter()
                .map(|system| {
                    of(&s.outcomes, *system)
                        .and_then(|o| o.staleness.last())
                        .map(|x| x.mean_patches)
                })
                .collect(),
            floors: Vec::new(),
        }],
        reference: None,
    };
    page.figure("ablation", "How far what is shown of moving regions is behind.", &chart)
}

fn line(o: &AriaOutcome, name: &str, of: impl Fn(&Moment) -> Option<f64>) -> Series {
    Series::new(
        name,
        Mark::Line,
        o.moments.iter().filter_map(|m| Some((m.time_s, of(m)?))).collect(),
    )
}

fn time() -> Axis {
    Axis::linear("time, s")
}

/// Figure 16: temperature, frequency, resolution and latency over time.
fn over_time(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Over time: heat, frequency, resolution, latency (figure 16)");
    let systems = [System::Aria, System::Base];
    type Quantity = fn(&Moment) -> Option<f64>;
    let plots: [(&str, &str, &str, Quantity); 5] = [
        ("temperature", "Temperature of the chip.", "degrees Celsius", |m| {
            m.temperature_c.is_finite().then_some(m.temperature_c)
        }),
        ("frequency", "Frequency of the processor of full frames.", "GHz", |m| {
            Some(m.full_frames_ghz)
        }),
        ("resolution", "Height of the latest full frame.", "pixels", |m| Some(m.height as f64)),
        ("full-frame", "What the latest full frame took.", "ms", |m| m.full_frame_ms),
        ("frame", "Longest latency of the frames in each second.", "ms", |m| {
            m.latency_ms.map(|l| l[1])
        }),
    ];
    for (name, caption, unit, quantity) in plots {
        let series = systems
            .iter()
            .filter_map(|system| Some(line(of(&s.outcomes, *system)?, system.name(), quantity)))
            .collect();
        page.figure(name, caption, &Chart::Points { x: time(), y: Axis::linear(unit), series })?;
    }
    let headings = [
        "System",
        "Hottest, C",
        "Processor of full frames works",
        "Slowdown of full frames",
        "Resolutions of full frames",
    ];
    let mut table = Table::new(
        "heat",
        simulation(
            "Heat and what it does. The paper prints a slowdown of up to 3.7 for full frames \
            without a scheduler.",
        ),
        headings,
    );
    for o in &s.outcomes {
        let heights = o
            .heights
            .iter()
            .rev()
            .map(|(height, share)| format!("{height}: {:.0} %", 100.0 * share))
            .collect::<Vec<_>>()
            .join(", ");
        table.rows.push(vec![
            Cell::text(o.system.name()),
            Cell::number(o.hottest_c),
            Cell::share(o.busy[1]),
            Cell::times(o.throttled),
            Cell::text(if heights.is_empty() { "-".to_owned() } else { heights }),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// Figure 17: the camera's motion and the resolution that follows it.
fn reaction(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Camera motion and resolution (figure 17)");
    let Some(aria) = of(&s.outcomes, System::Aria) else { return Ok(()) };
    let motion = Series::new(
        "camera",
        Mark::Line,
        aria.moments.iter().map(|m| (m.time_s, m.rotation_rad * 1e3)).collect(),
    );
    page.figure(
        "motion",
        "How far the camera turned, mean over each second.",
        &Chart::Points { x: time(), y: Axis::linear("mrad per frame"), series: vec![motion] },
    )?;
    let mut by_height: std::collections::BTreeMap<usize, (f64, usize)> =
        std::collections::BTreeMap::new();
    for m in &aria.moments {
        let sum = by_height.entry(m.height).or_default();
        *sum = (sum.0 + m.rotation_rad * 1e3, sum.1 + 1);
    }
    let mut table = Table::new(
        "motion",
        simulation(
            "ARIA: how far the camera turned in the seconds that ended with each resolution.",
        ),
        ["Height, px", "Seconds", "mrad per frame"],
    );
    for (height, (sum, count)) in by_height {
        table.rows.push(vec![
            Cell::Count(height),
            Cell::Count(count),
            Cell::number(sum / count as f64),
        ]);
    }
    page.table(&table);
    Ok(())
}

/// Figure 18: who gets the cycles.
fn priorities(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Who gets the cycles: staleness by speed (figure 18)");
    page.words(
        "ARIA serves by waiting, then speed; base + S1 + S2 has the same windows and as \
        many cycles in a random order.",
    );
    let headings = [
        "Speed, patches per frame",
        "System",
        "Regions in frames",
        "Stale, frames",
        "95 of 100, frames",
        "Moved since, patches",
    ];
    let mut table = Table::new(
        "priority",
        simulation("Staleness of moving regions by how fast they are."),
        headings,
    );
    let systems = [System::Aria, System::S2, System::S1, System::Base];
    let classes = of(&s.outcomes, System::Aria).map_or(0, |o| o.staleness.len());
    let named = |speed: [f64; 2]| match speed {
        [0.0, to] if to.is_infinite() => "all".to_owned(),
        [from, to] if to.is_infinite() => format!("{from} and more"),
        [from, to] => format!("{from} to {to}"),
    };
    for class in 0..classes {
        for system in systems {
            let Some(x) = of(&s.outcomes, system).and_then(|o| o.staleness.get(class)) else {
                continue;
            };
            table.rows.push(vec![
                Cell::text(named(x.speed)),
                Cell::text(system.name()),
                Cell::Count(x.counted),
                Cell::number(x.mean_frames),
                Cell::Count(x.p95_frames as usize),
                Cell::number(x.mean_patches),
            ]);
        }
    }
    page.table(&table);
    let groups: Vec<String> = of(&s.outcomes, System::Aria)
        .map(|o| o.staleness.iter().map(|x| named(x.speed)).collect())
        .unwrap_or_default();
    let bars = |system: System| {
        let values = of(&s.outcomes, system)
            .map(|o| o.staleness.iter().map(|x| (x.counted > 0).then_some(x.mean_frames)).collect())
            .unwrap_or_default();
        BarSeries { name: system.name().to_owned(), values, floors: Vec::new() }
    };
    let chart = Chart::Bars {
        value: "frames".to_owned(),
        groups,
        series: vec![bars(System::Aria), bars(System::S2)],
        reference: None,
    };
    page.figure(
        "staleness",
        "Frames since what is shown of a moving region was seen, by its \
        speed in patches per frame.",
        &chart,
    )
}

/// Figure 19: where a frame's time goes.
fn breakdown(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Where a frame's time goes (figure 19)");
    let mut rows = Vec::new();
    let mut parts: Vec<(String, Vec<f64>)> = Vec::new();
    for (outcomes, factor) in [(&s.outcomes, 1.0), (&s.relaxed, 2.0)] {
        for system in [System::Aria, System::Base, System::NpuOnly, System::MobiSrLike] {
            let Some(o) = of(outcomes, system) else { continue };
            rows.push(format!(
                "{}, {:.1} ms",
                system.name(),
                factor * s.stage.requirements.target_ns / 1e6
            ));
            for (name, ns) in o.parts {
                match parts.iter_mut().find(|(known, _)| known == name) {
                    Some((_, values)) => values.push(ns / 1e6),
                    None => parts.push((name.to_owned(), vec![ns / 1e6])),
                }
            }
        }
    }
    let headings = ["System and target".to_owned()]
        .into_iter()
        .chain(parts.iter().map(|(name, _)| format!("{name}, ms")));
    let mut table = Table::new(
        "parts",
        simulation(
            "Mean over all frames. Blocks of MobiSR-like run on two processors at the same time: \
            their times add up to more than the frame's.",
        ),
        headings,
    );
    for (index, row) in rows.iter().enumerate() {
        let cells = parts.iter().map(|(_, values)| Cell::number(values.get(index).copied()));
        table.rows.push(std::iter::once(Cell::text(row)).chain(cells).collect());
    }
    page.table(&table);
    page.figure(
        "parts",
        "Mean parts of a frame.",
        &Chart::Stacked { value: "ms".to_owned(), rows, parts },
    )
}

/// Figure 7: latencies over time without a scheduler.
fn throttling(page: &mut Page, s: &Simulated) -> Result<(), String> {
    page.heading("Latencies over time without a scheduler (figure 7)");
    let [high, low] = &s.ends;
    let series = vec![
        line(high, "full frames, highest resolution", |m| m.full_frame_ms),
        line(low, "full frames, lowest resolution", |m| m.full_frame_ms),
        line(high, "frames beside the highest", |m| m.latency_ms.map(|l| l[0])),
    ];
    page.figure(
        "throttling",
        "Full frames without end at one resolution, in separate runs, and the camera's frames \
        beside them.",
        &Chart::Points { x: time(), y: Axis::linear("ms"), series },
    )?;
    let shown = |o: &AriaOutcome| {
        o.throttled.map_or_else(|| "none".to_owned(), |t| format!("{t:.2} times"))
    };
    page.words(&format!(
        "Slowdown of full frames: {} at the highest resolution, {} at the lowest (evidence: {}). \
        The paper prints up to 3.7 times (evidence: {}).",
        shown(high),
        shown(low),
        Evidence::Simulation,
        Evidence::PaperTable
    ));
    Ok(())
}

/// What forecasts that are off do.
fn off(page: &mut Page, s: &Simulated) {
    page.heading("When forecasts are off");
    page.words(
        "The plan is made from the forecasts; then everything really takes longer, or less. \
        ARIA's scheduler corrects what it counts with by what it sees; with the plan held fast \
        (base + S1 + S2) the plan's own margin is \
         all there is. Standard deviations are those of the forecasts' intervals, all in the same \
         direction: 1.64 of them are the pessimistic end at 90 % confidence, at which a plan at \
         90 % must hold. No plan knows of heat: what the CPU loses to it, the plan held fast \
         loses too. At the shorter target the \
         point forecasts just allow what they allow at the longer one: there is room for runs \
         that differ, but none for forecasts that are off, and the plan at 90 % does with less.",
    );
    let headings = [
        "Target, ms",
        "Planned at",
        "Really takes",
        "Highest level, px",
        "Planned cycles",
        "Cycles run",
        "In time",
        "In time, plan held",
    ];
    let mut table = Table::new("off", simulation("Deadline success rate."), headings);
    for off in &s.off {
        table.rows.push(vec![
            Cell::number(off.target_ns / 1e6),
            Cell::text(planned_at(off.confidence)),
            Cell::text(really(off.truth)),
            off.planned_height.map_or(Cell::Blank, Cell::Count),
            Cell::Count(off.planned_cycles as usize),
            Cell::number(off.cycles),
            Cell::text(super::planned::success(off.success)),
            Cell::text(super::planned::success(off.success_held)),
        ]);
    }
    page.table(&table);
}

/// Whether anything hangs on estimates of the device.
fn shaken(page: &mut Page, s: &Simulated) {
    page.heading("When heat and power are other than estimated");
    let share = s.stage.requirements.share;
    page.words(&format!(
        "Each constant of the device's model is moved by {:.0} % down and up, alone. The last \
        column: ARIA still has {:.1} % of frames in time, and of what else has, nothing shows \
        moving regions less far behind.",
        100.0 * super::simulated::PERTURBATION,
        100.0 * share
    ));
    let headings = [
        "Constant",
        "ARIA in time, low",
        "high",
        "Behind, patches, low",
        "high",
        "ARIA-base in time, low",
        "high",
        "Behind, patches, low",
        "high",
        "Holds",
    ];
    let mut table = Table::new(
        "estimates",
        simulation("Success rate and how far what is shown of moving regions is behind."),
        headings,
    );
    for shaken in &s.shaken {
        let mut row = vec![Cell::text(&shaken.constant)];
        for system in [System::Aria, System::Base] {
            let came = || {
                shaken
                    .outcomes
                    .iter()
                    .filter_map(|came| came.iter().find(|(other, ..)| *other == system))
            };
            row.extend(came().map(|(_, success, _)| Cell::text(super::planned::success(*success))));
            row.extend(came().map(|(.., behind)| Cell::number(*behind)));
        }
        row.push(Cell::text(if shaken.holds(share) { "yes" } else { "no" }));
        table.rows.push(row);
    }
    page.table(&table);
}

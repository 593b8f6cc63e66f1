//! The section on the paper's phone, simulated, where the network sees the frames: figures 12, 13, 15
//! to 17 and 19 in one run.

use super::super::print::Table;
use super::figures;
use vitempo::planners::aria::Moment;
use vitempo_report::{
    Hue,
    aria::resolutions,
    chart::{Axis, Chart, Mark, Part, Series},
    draw,
};
use vitempo_studies::aria::OnPhone;

/// A table with everything of a system in a row.
pub fn table(systems: &[OnPhone]) -> Table {
    let headings = [
        "System",
        "In time",
        "Not run",
        "Median, ms",
        "99 %, ms",
        "RMSE, m",
        "mIoU",
        "RMSE to reference",
        "mIoU to reference",
        "Age",
        "Cycles",
        "Hottest, C",
        "Slowdown",
        "Resolutions",
    ];
    let mut table = Table::new(&headings, 1);
    for system in systems {
        let (o, shown) = (&system.outcome, system.shown());
        let [[rmse, miou], [off, same]] = [&shown.score, &shown.against_reference].map(figures);
        table.row([
            system.name.clone(),
            format!("{:.2} %", 100.0 * o.success_rate()),
            o.dropped.to_string(),
            format!("{:.1}", o.latency_ns[0] as f64 / 1e6),
            format!("{:.1}", o.latency_ns[1] as f64 / 1e6),
            rmse,
            miou,
            off,
            same,
            o.full_frame_age.map_or_else(|| "-".to_owned(), |age| format!("{age:.2}")),
            format!("{:.2}", shown.cycles as f64 / shown.frames.max(1) as f64),
            format!("{:.1}", o.hottest_c),
            o.throttled.map_or_else(|| "-".to_owned(), |by| format!("{by:.2}")),
            resolutions(o),
        ]);
    }
    table
}

/// Mean time of each part of a frame (figure 19).
pub fn parts(systems: &[OnPhone]) -> Table {
    let names = systems.first().map_or([""; 5], |system| system.outcome.parts.map(|part| part.0));
    let headings: Vec<String> = std::iter::once("System".to_owned())
        .chain(names.iter().map(|name| format!("{name}, ms")))
        .collect();
    let mut table = Table::new(&headings, 1);
    for system in systems {
        let times = system.outcome.parts.iter().map(|(_, ns)| format!("{:.2}", ns / 1e6));
        table.row(std::iter::once(system.name.clone()).chain(times));
    }
    table
}

/// Systems that figures over time show.
const SHOWN: [&str; 3] = ["ARIA", "ARIA-base", "NPU-only"];

/// The figures, by name and caption.
pub fn charts(systems: &[OnPhone]) -> Vec<(&'static str, &'static str, Chart)> {
    let shown: Vec<&OnPhone> = SHOWN
        .iter()
        .filter_map(|name| systems.iter().find(|system| system.name == *name))
        .collect();
    let over_time = |unit: &str, value: &dyn Fn(&OnPhone, usize) -> Option<f64>| {
        let series = |system: &&OnPhone| {
            let points = (0..system.seconds.len())
                .filter_map(|second| Some((second as f64 + 1.0, value(system, second)?)));
            Series::new(system.name.clone(), Mark::Line, points.collect())
        };
        let series = shown.iter().map(series).collect();
        Chart::Points { x: Axis::linear("time, s"), y: Axis::linear(unit), series }
    };
    let moment = |of: fn(&Moment) -> Option<f64>| {
        move |system: &OnPhone, second: usize| system.outcome.moments.get(second).and_then(of)
    };
    let score = |of: fn(&vitempo::aria::scene::Score) -> Option<f64>| {
        move |system: &OnPhone, second: usize| of(&system.seconds.get(second)?.score)
    };
    vec![
        (
            "phone-rmse",
            "Error of depth in each second (figure 16)",
            over_time("RMSE, m", &score(|score| score.depth_rmse_m())),
        ),
        (
            "phone-miou",
            "Labels in each second (figure 16)",
            over_time("mIoU", &score(|score| score.label_miou())),
        ),
        (
            "phone-temperature",
            "Temperature of the chip (figure 16)",
            over_time("degrees Celsius", &moment(|m| Some(m.temperature_c))),
        ),
        (
            "phone-frequency",
            "Frequency of the processor of full frames (figure 16)",
            over_time("GHz", &moment(|m| Some(m.full_frames_ghz))),
        ),
        (
            "phone-resolution",
            "Height of the latest full frame (figure 17)",
            over_time("pixels", &moment(|m| Some(m.height? as f64))),
        ),
        (
            "phone-motion",
            "How far the camera turns, mean of each second (figure 17)",
            over_time("mrad per frame", &moment(|m| Some(1e3 * m.rotation_rad))),
        ),
        ("phone-parts", "Mean parts of a frame (figure 19)", stacked(systems)),
    ]
}

fn stacked(systems: &[OnPhone]) -> Chart {
    let rows = systems.iter().map(|system| system.name.clone()).collect();
    let part = |number: usize| Part {
        name: systems.first().map_or("", |system| system.outcome.parts[number].0).to_owned(),
        lengths: systems.iter().map(|system| system.outcome.parts[number].1 / 1e6).collect(),
        hue: Hue::Place,
    };
    Chart::Stacked { value: "ms".to_owned(), rows, parts: (0..5).map(part).collect() }
}

/// Figures as Markdown, and as files beside it.
pub fn drawn(systems: &[OnPhone]) -> (String, Vec<(String, String)>) {
    let (mut text, mut files) = (String::new(), Vec::new());
    for (name, caption, chart) in charts(systems) {
        text += &format!("![{caption}]({name}.svg)\n\n{caption}.\n\n");
        files.push((format!("{name}.svg"), draw::svg(&chart)));
    }
    (text, files)
}

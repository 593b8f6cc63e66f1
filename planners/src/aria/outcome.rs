//! [`AriaOutcome`]: the outcome of a system over a trace.

use super::{AriaCosts, Level, Requirements, Setup, System, Trace};
use crate::{
    Evidence,
    simulator::{Outcome, Reading, nearest_rank},
};
use serde::Serialize;

/// The time of each part of a frame, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// The step of a frame on the CPU: identification, tracking, warping, scheduling.
    pub step_ns: u64,
    /// Patch flow.
    pub flow_ns: u64,
    /// All cycles of the frame.
    pub cycles_ns: u64,
    /// Number of cycles.
    pub cycles: u64,
    /// The decoder.
    pub decoder_ns: u64,
    /// Whole frames or blocks on other processors.
    pub whole_ns: u64,
}

/// One executed frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameRecord {
    pub frame: usize,
    pub latency_ns: u64,
    /// Of the costs; `None` before the first full frame is done.
    pub level: Option<usize>,
    /// `None` before the first full frame is done.
    pub full_age: Option<usize>,
    pub parts: Parts,
}

/// A full frame that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullFrame {
    /// When it was done.
    pub done_ns: u64,
    /// Of the costs.
    pub level: usize,
    pub took_ns: u64,
}

/// A moving region in one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    pub region: u64,
    pub speed: f64,
    pub age_frames: u32,
}

/// The events of a simulation, as recorded.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub frames: Vec<FrameRecord>,
    pub full_frames: Vec<FullFrame>,
    pub served: Vec<Served>,
    pub cycles: u64,
    pub longest_wait: u32,
}

/// Staleness of moving regions in one range of speeds; ages are `None` where no region was counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Staleness {
    /// The range of speeds, patches per frame: from, to.
    pub speed: [f64; 2],
    /// Number of regions, counted once per frame.
    pub counted: usize,
    /// Mean age of the features shown for a region, frames.
    pub mean_frames: Option<f64>,
    /// The 95 % quantile of the same age.
    pub p95_frames: Option<u32>,
    /// Mean distance that a region moved in that time, patches.
    pub mean_patches: Option<f64>,
}

/// The full frames of one resolution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resolution {
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Share of all full frames.
    pub share: f64,
}

/// The state of the simulation, sampled once per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Time since the start.
    pub time_s: f64,
    /// Temperature of the chip.
    pub temperature_c: f64,
    /// Frequency of the processor of full frames.
    pub full_frames_ghz: f64,
    /// Height of the latest full frame, px; of all frames in a system without full frames. `None`
    /// before the first full frame.
    pub height: Option<usize>,
    /// Its width, px.
    pub width: Option<usize>,
    /// Latency of the latest full frame, ms.
    pub full_frame_ms: Option<f64>,
    /// Mean and longest latency of the frames in this second, ms.
    pub latency_ms: Option<[f64; 2]>,
    /// Mean rotation of the camera, rad per frame.
    pub rotation_rad: f64,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AriaOutcome {
    /// The simulated system.
    pub system: System,
    /// Rows and columns of the region encoder, patches.
    pub region: [usize; 2],
    /// The deadline, ns.
    pub target_ns: f64,
    /// Executed frames.
    pub executed: usize,
    /// Camera frames that were not executed, or not to their end.
    pub dropped: u64,
    /// Frames in time.
    pub in_time: usize,
    /// Latency, ns: median, 99 % quantile, longest.
    pub latency_ns: [u64; 3],
    /// Cycles per frame, mean.
    pub cycles: f64,
    /// Executed frames that began before the first full frame was done: they show no frame of the
    /// camera, and count in none of the ages below.
    pub before_full_frames: usize,
    /// Staleness of moving regions, by speed; the last entry covers all of them.
    pub staleness: Vec<Staleness>,
    /// Longest time that a region waited for an update, frames.
    pub longest_wait: u32,
    /// Mean age of the latest full frame, frames since its capture; `None` where no frame had one.
    pub full_frame_age: Option<f64>,
    /// Patches of the latest full frame, mean; `None` where no frame had one.
    pub patches: Option<f64>,
    /// Resolutions of full frames, rising.
    pub resolutions: Vec<Resolution>,
    /// Highest temperature of the chip, degrees Celsius.
    pub hottest_c: f64,
    /// The effect of throttling: the longest mean latency of ten full frames of one resolution over
    /// the shortest, maximum over all resolutions.
    pub throttled: Option<f64>,
    /// Utilisation of the CPU, of the processor of full frames and of the processor of regions.
    pub busy: [f64; 3],
    /// Energy of all processors and of the constant power, J.
    pub energy_j: f64,
    /// Mean time of each part of a frame, ns.
    pub parts: [(&'static str, f64); 5],
    /// The state, once per second.
    pub moments: Vec<Moment>,
    /// Always [`Evidence::Simulation`].
    pub evidence: Evidence,
}

/// Limits of the ranges of speeds, patches per frame.
const SPEEDS: [[f64; 2]; 3] = [[0.0, 0.1], [0.1, 0.3], [0.3, f64::INFINITY]];

impl AriaOutcome {
    /// Share of executed frames in time: the paper's deadline success rate.
    #[must_use]
    pub fn success_rate(&self) -> f64 {
        self.in_time as f64 / self.executed.max(1) as f64
    }

    pub(super) fn of(
        setup: &Setup,
        costs: &AriaCosts,
        trace: &Trace,
        requirements: &Requirements,
        record: &Record,
        simulated: &Outcome,
    ) -> Self {
        let mut latencies: Vec<u64> = record.frames.iter().map(|f| f.latency_ns).collect();
        latencies.sort_unstable();
        let rank = |share: f64| nearest_rank(&latencies, share).unwrap_or(0);
        let mean = |of: &dyn Fn(&FrameRecord) -> f64| {
            record.frames.iter().map(of).sum::<f64>() / record.frames.len().max(1) as f64
        };
        let shown = || record.frames.iter().filter_map(|frame| costs.levels.get(frame.level?));
        let patches: Vec<usize> = shown().map(|level| level.rows * level.cols).collect();
        let ages: Vec<usize> = record.frames.iter().filter_map(|frame| frame.full_age).collect();
        let classes = SPEEDS.iter().chain([&[0.0, f64::INFINITY]]);
        Self {
            system: setup.system,
            region: [setup.region.rows, setup.region.cols],
            target_ns: requirements.target_ns,
            executed: record.frames.len(),
            dropped: (trace.frames.len() - record.frames.len()) as u64,
            in_time: latencies.partition_point(|ns| *ns as f64 <= requirements.target_ns),
            latency_ns: [rank(0.5), rank(0.99), rank(1.0)],
            cycles: record.cycles as f64 / record.frames.len().max(1) as f64,
            before_full_frames: record.frames.len() - ages.len(),
            staleness: classes.map(|speed| staleness(&record.served, *speed)).collect(),
            longest_wait: record.longest_wait,
            full_frame_age: mean_of(ages.iter().map(|age| *age as f64)),
            patches: mean_of(patches.iter().map(|patches| *patches as f64)),
            resolutions: resolutions(costs, record),
            hottest_c: simulated
                .readings
                .iter()
                .map(|r| r.junction_c)
                .fold(f64::NEG_INFINITY, f64::max),
            throttled: throttled(record),
            busy: [0, 1, 2].map(|processor| {
                simulated
                    .processors
                    .get(processor)
                    .map_or(0.0, |p| p.busy_ns as f64 / simulated.duration_ns.max(1) as f64)
            }),
            energy_j: simulated.energy_j,
            parts: [
                ("frame step", mean(&|f| f.parts.step_ns as f64)),
                ("patch flow", mean(&|f| f.parts.flow_ns as f64)),
                ("region cycles", mean(&|f| f.parts.cycles_ns as f64)),
                ("decoder", mean(&|f| f.parts.decoder_ns as f64)),
                ("whole frames and blocks", mean(&|f| f.parts.whole_ns as f64)),
            ],
            moments: moments(trace, costs, requirements, record, &simulated.readings),
            evidence: Evidence::Simulation,
        }
    }
}

/// The mean; `None` of nothing.
fn mean_of(numbers: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = numbers.len();
    (count > 0).then(|| numbers.sum::<f64>() / count as f64)
}

fn staleness(served: &[Served], speed: [f64; 2]) -> Staleness {
    let of: Vec<&Served> =
        served.iter().filter(|s| s.speed >= speed[0] && s.speed < speed[1]).collect();
    let mut ages: Vec<u32> = of.iter().map(|s| s.age_frames).collect();
    ages.sort_unstable();
    Staleness {
        speed,
        counted: ages.len(),
        mean_frames: mean_of(ages.iter().map(|age| f64::from(*age))),
        p95_frames: ages.get((ages.len() * 95).div_ceil(100).max(1) - 1).copied(),
        mean_patches: mean_of(of.iter().map(|s| s.speed * f64::from(s.age_frames))),
    }
}

fn resolutions(costs: &AriaCosts, record: &Record) -> Vec<Resolution> {
    let of = |(index, level): (usize, &Level)| {
        let count = record.full_frames.iter().filter(|full| full.level == index).count();
        let share = count as f64 / record.full_frames.len().max(1) as f64;
        (count > 0).then_some(Resolution { height: level.height, width: level.width, share })
    };
    costs.levels.iter().enumerate().filter_map(of).collect()
}

/// The largest slowdown at one resolution: the mean of ten consecutive full frames, relative to the
/// fastest such mean. Resolutions of one height differ in their width, and so in their latency.
fn throttled(record: &Record) -> Option<f64> {
    let levels: std::collections::BTreeSet<usize> =
        record.full_frames.iter().map(|full| full.level).collect();
    let worst = |level: &usize| {
        let took: Vec<f64> = record
            .full_frames
            .iter()
            .filter(|full| full.level == *level)
            .map(|full| full.took_ns as f64)
            .collect();
        let means = || took.chunks_exact(10).map(|ten| ten.iter().sum::<f64>() / 10.0);
        let (shortest, longest) =
            (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
        (longest > 0.0).then(|| longest / shortest)
    };
    levels.iter().filter_map(worst).reduce(f64::max)
}

fn moments(
    trace: &Trace,
    costs: &AriaCosts,
    requirements: &Requirements,
    record: &Record,
    readings: &[Reading],
) -> Vec<Moment> {
    let seconds = (trace.frames.len() as f64 * requirements.frame_ns / 1e9).floor() as usize;
    let (mut frame, mut full, mut reading) = (0, 0, 0);
    let mut moments = Vec::with_capacity(seconds);
    for second in 1..=seconds {
        let end_ns = second as f64 * 1e9;
        let mut latencies: Vec<f64> = Vec::new();
        while let Some(f) = record
            .frames
            .get(frame)
            .filter(|f| (f.frame as f64 + 1.0) * requirements.frame_ns <= end_ns + 1.0)
        {
            latencies.push(f.latency_ns as f64 / 1e6);
            frame += 1;
        }
        let is_done = |full: &&FullFrame| full.done_ns as f64 <= end_ns;
        while record.full_frames.get(full + 1).as_ref().is_some_and(is_done) {
            full += 1;
        }
        while readings.get(reading + 1).is_some_and(|r| r.time_ns as f64 <= end_ns) {
            reading += 1;
        }
        let latest = record.full_frames.get(full).filter(is_done);
        let last = || record.frames.get(frame.saturating_sub(1))?.level;
        let level = latest.map(|full| full.level).or_else(last);
        let level = level.and_then(|index| costs.levels.get(index));
        let state = readings.get(reading);
        let from = ((second - 1) as f64 * 1e9 / requirements.frame_ns) as usize;
        let seen = trace
            .frames
            .get(from..((end_ns / requirements.frame_ns) as usize).min(trace.frames.len()))
            .unwrap_or(&[]);
        moments.push(Moment {
            time_s: second as f64,
            temperature_c: state.map_or(f64::NAN, |r| r.junction_c),
            full_frames_ghz: state.and_then(|r| r.ghz.get(1)).copied().unwrap_or(0.0),
            height: level.map(|level| level.height),
            width: level.map(|level| level.width),
            full_frame_ms: latest.map(|full| full.took_ns as f64 / 1e6),
            latency_ms: (!latencies.is_empty()).then(|| {
                [
                    latencies.iter().sum::<f64>() / latencies.len() as f64,
                    latencies.iter().copied().fold(0.0, f64::max),
                ]
            }),
            rotation_rad: seen.iter().map(|f| f.rotation_rad).sum::<f64>()
                / seen.len().max(1) as f64,
        });
    }
    moments
}

//! [`plan`]: computes from forecasts which resolutions and how many cycles fit a frame.
//!
//! `K` is the largest number of cycles with which, at the pessimistic end of the interval, the
//! required share of frames is in time: the paper's `floor((L_T - L_static) / c)` (section 4.4),
//! with a margin for the spread of runs. The planner tries every size of the region encoder; of
//! those that allow the highest level, it takes the one that updates the most patches per frame,
//! not counting the border that is only context. A level is usable if a cycle fits beside its
//! decoder and its full frames are frequent enough.

use super::{
    Advice, AriaCosts, AriaPlanError, Forecast, Level, RegionEncoder, Success, normal,
    success::FrameWork,
};
use crate::Evidence;
use serde::Serialize;
use vitempo_aria::scheduler::cycles;

/// Far above every number of cycles that fits, and exact as `f64`.
const MOST_CYCLES: u64 = 1 << 50;

/// Requirements of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Requirements {
    /// Longest latency of a frame, ns.
    pub target_ns: f64,
    /// Interval between camera frames, ns.
    pub frame_ns: f64,
    /// Probability that the true latencies lie in the forecast interval of the plan.
    pub confidence: f64,
    /// Share of frames that must be in time even at the pessimistic end.
    pub share: f64,
    /// Longest interval between full frames, in camera frames.
    pub interval_frames: u64,
    /// Coefficient of variation of run times.
    pub spread: f64,
}

impl Requirements {
    /// The paper's requirements for a target, 30 frames a second: 99.9 % in time, at 90 %
    /// confidence, a full frame at least every fourth frame.
    #[must_use]
    pub fn for_target(target_ns: f64) -> Self {
        Self {
            target_ns,
            frame_ns: 1e9 / 30.0,
            confidence: 0.9,
            share: 0.999,
            interval_frames: 4,
            spread: 0.05,
        }
    }

    fn check(&self) -> Result<(), AriaPlanError> {
        let above = |name, value: f64| {
            if value > 0.0 && value < 1e15 {
                Ok(())
            } else {
                Err(AriaPlanError::Requirement { name, value, must: "above 0" })
            }
        };
        let share = |name, value: f64| {
            if value > 0.0 && value < 1.0 {
                Ok(())
            } else {
                Err(AriaPlanError::Requirement { name, value, must: "between 0 and 1" })
            }
        };
        above("the target", self.target_ns)?;
        above("the time between camera frames", self.frame_ns)?;
        share("the confidence", self.confidence)?;
        share("the share of frames in time", self.share)?;
        above("the longest interval between full frames", self.interval_frames as f64)?;
        if (0.0..1.0).contains(&self.spread) {
            Ok(())
        } else {
            Err(AriaPlanError::Requirement {
                name: "the spread of run times",
                value: self.spread,
                must: "0 or more, below 1",
            })
        }
    }

    /// The case in which all forecasts are too short by the full width of the plan's interval.
    #[must_use]
    pub fn pessimistic(&self) -> super::Truth {
        super::Truth::Deviations(self.z())
    }

    /// The pessimistic end, in standard deviations.
    pub(super) fn z(&self) -> f64 {
        normal::quantile(0.5 + 0.5 * self.confidence)
    }
}

/// The plan for one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedLevel {
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Patches.
    pub rows: usize,
    /// Patches.
    pub cols: usize,
    /// Latency of a full frame.
    pub full_frame: Forecast,
    /// The interval of that latency at the stated confidence, ns.
    pub full_frame_ns: [f64; 2],
    /// Interval between full frames, in camera frames: lower end, point, upper end.
    pub interval_frames: [u64; 3],
    /// Per-frame overhead (the time without cycles), point forecast, ns.
    pub rest_ns: f64,
    /// Cycles per frame that fit at the stated confidence.
    pub cycles: u64,
    /// Cycles per frame that fit by the point forecasts.
    pub cycles_at_point: u64,
    /// Share of frames in time with those cycles.
    pub success: Success,
    /// The reason why the level is unusable, if it is.
    pub unusable: Option<String>,
}

/// The result for one size of the region encoder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// The size.
    pub region: RegionEncoder,
    /// Patches of the highest level at which a cycle fits; 0 if there is none.
    pub patches: usize,
    /// Cycles per frame that fit there.
    pub cycles: u64,
    /// Patches that these cycles update, without a border of one patch.
    pub updated: usize,
}

/// A plan for a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AriaPlan {
    /// The requirements of the plan.
    pub requirements: Requirements,
    /// The region encoder that updates the most patches; the first one tried where none fits.
    pub region: RegionEncoder,
    /// The results for all sizes of the region encoder.
    pub tried: Vec<Tried>,
    /// All levels, rising.
    pub levels: Vec<PlannedLevel>,
    /// Cycles per frame at the highest usable level; 0 if no level is usable.
    pub cycles: u64,
    /// Mean interval between full frames, in camera frames, if all usable levels are used equally
    /// often; the scheduler's levels are quantiles of the motion.
    pub interval_frames: Option<f64>,
    /// Share of frames in time at the highest usable level.
    pub success: Option<Success>,
    /// Changes that make a plan fit, or that help where only some levels are usable.
    pub advice: Vec<Advice>,
    /// Always [`Evidence::CostModel`].
    pub evidence: Evidence,
}

impl AriaPlan {
    /// The usable levels, rising.
    pub fn usable(&self) -> impl DoubleEndedIterator<Item = &PlannedLevel> {
        self.levels.iter().filter(|level| level.unusable.is_none())
    }
}

/// Plans for a device.
///
/// # Errors
/// [`AriaPlanError`] when costs or requirements are invalid. If no level is usable, the result is a
/// plan without cycles, with advice.
pub fn plan(costs: &AriaCosts, requirements: &Requirements) -> Result<AriaPlan, AriaPlanError> {
    costs.check()?;
    requirements.check()?;
    let tried: Vec<Tried> =
        costs.regions.iter().map(|region| tried(costs, region, requirements)).collect();
    let best = tried.iter().max_by_key(|t| (t.patches, t.updated, t.region.useful()));
    let region = best.map(|best| best.region.clone()).ok_or(AriaPlanError::NoRegion)?;
    let levels: Vec<PlannedLevel> =
        costs.levels.iter().map(|level| planned(costs, level, &region, requirements)).collect();
    let usable = || levels.iter().filter(|level| level.unusable.is_none());
    let top = usable().next_back();
    let (cycles, success) = (top.map_or(0, |level| level.cycles), top.map(|level| level.success));
    let interval_frames = (top.is_some()).then(|| {
        usable().map(|level| level.interval_frames[1] as f64).sum::<f64>() / usable().count() as f64
    });
    let advice = Advice::on(costs, requirements, &levels);
    Ok(AriaPlan {
        requirements: *requirements,
        region,
        tried,
        cycles,
        interval_frames,
        success,
        advice,
        levels,
        evidence: Evidence::CostModel,
    })
}

fn tried(costs: &AriaCosts, region: &RegionEncoder, requirements: &Requirements) -> Tried {
    let holds = |level: &&Level| {
        region.rows <= level.rows && region.cols <= level.cols && in_time(level, requirements)
    };
    let mut counts = costs
        .levels
        .iter()
        .rev()
        .filter(holds)
        .map(|level| (level.rows * level.cols, fitting(costs, level, region, requirements)));
    let (patches, cycles) = counts.find(|(_, count)| *count > 0).unwrap_or((0, 0));
    Tried {
        region: region.clone(),
        patches,
        cycles,
        updated: (cycles as usize).saturating_mul(region.useful()),
    }
}

/// The work of a frame at a level, without its cycles.
pub(super) fn work(
    costs: &AriaCosts,
    level: &Level,
    region: &RegionEncoder,
    cycles: u64,
    spread: f64,
) -> FrameWork {
    FrameWork::new(
        &[costs.frame_step, costs.patch_flow, level.decoder],
        &region.cycle,
        cycles,
        spread,
    )
}

/// The number of camera frames from the start of a full frame to the start of the next: full frames
/// start with a camera frame.
fn frames(ns: f64, frame_ns: f64) -> u64 {
    ((ns / frame_ns).ceil() as u64).max(1)
}

fn in_time(level: &Level, requirements: &Requirements) -> bool {
    frames(level.full_frame.interval(requirements.confidence)[1], requirements.frame_ns)
        <= requirements.interval_frames
}

/// The largest number of cycles with which the required share of frames is in time at the
/// pessimistic end, by bisection.
pub(super) fn fitting(
    costs: &AriaCosts,
    level: &Level,
    region: &RegionEncoder,
    requirements: &Requirements,
) -> u64 {
    let z = requirements.z();
    let fits = |count: u64| {
        work(costs, level, region, count, requirements.spread).success_at(requirements.target_ns, z)
            >= requirements.share
    };
    let mut above = 1;
    while above < MOST_CYCLES && fits(above) {
        above *= 2;
    }
    let mut fitting = above / 2;
    while above - fitting > 1 {
        let middle = fitting + (above - fitting) / 2;
        if fits(middle) { fitting = middle } else { above = middle }
    }
    fitting
}

fn planned(
    costs: &AriaCosts,
    level: &Level,
    region: &RegionEncoder,
    requirements: &Requirements,
) -> PlannedLevel {
    let count = fitting(costs, level, region, requirements);
    let rest_ns =
        costs.frame_step.point_ns() + costs.patch_flow.point_ns() + level.decoder.point_ns();
    let full_frame_ns = level.full_frame.interval(requirements.confidence);
    let interval_frames = [full_frame_ns[0], level.full_frame.point_ns(), full_frame_ns[1]]
        .map(|ns| frames(ns, requirements.frame_ns));
    let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
    let unusable = if !in_time(level, requirements) {
        Some(format!(
            "a full frame may take {}: {} camera frames, {} are allowed",
            ms(full_frame_ns[1]),
            interval_frames[2],
            requirements.interval_frames
        ))
    } else if region.rows > level.rows || region.cols > level.cols {
        Some(format!(
            "the region of {} x {} patches is larger than the frame",
            region.rows, region.cols
        ))
    } else if count == 0 {
        let least = work(costs, level, region, 1, requirements.spread)
            .least_target_ns(requirements.share, requirements.z());
        Some(format!("a frame with one cycle may take {}", ms(least)))
    } else {
        None
    };
    PlannedLevel {
        height: level.height,
        width: level.width,
        rows: level.rows,
        cols: level.cols,
        full_frame: level.full_frame,
        full_frame_ns,
        interval_frames,
        rest_ns,
        cycles: count,
        cycles_at_point: cycles(
            requirements.target_ns as u64,
            rest_ns as u64,
            region.cycle.point_ns() as u64,
        ),
        success: work(costs, level, region, count, requirements.spread)
            .success(requirements.target_ns, requirements.confidence),
        unusable,
    }
}

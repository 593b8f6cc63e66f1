//! [`Advice`]: changes that make a plan fit, or that let it use higher resolutions.

use super::{AriaCosts, Forecast, Level, PlannedLevel, RegionEncoder, Requirements, plan::work};
use serde::Serialize;

/// One change that would be enough by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Advice {
    /// A longer target for the frame, ns: with this level and region, one cycle fits.
    Target {
        /// The shortest target that is enough.
        target_ns: f64,
        /// Height of the level, px.
        height: usize,
        /// Width of the level, px.
        width: usize,
        /// Rows of the region, patches.
        rows: usize,
        /// Columns of the region, patches.
        cols: usize,
    },
    /// A faster processor of regions (another precision, another engine), with the same effect.
    Regions {
        /// Factor of the speed, at least 1.
        times: f64,
    },
    /// A faster processor of full frames.
    FullFrames {
        /// Factor of the speed, at least 1.
        times: f64,
    },
    /// More camera frames between full frames.
    Interval {
        /// Camera frames.
        frames: u64,
    },
    /// The point forecasts allow a plan that the stated confidence does not. Measure the parts on
    /// the device, or train on more data of it.
    Confidence,
}

impl Advice {
    /// Whether it makes full frames frequent enough; otherwise, it makes a frame fit the target.
    /// Where there is advice of both kinds, one of each is needed.
    #[must_use]
    pub fn is_for_full_frames(&self) -> bool {
        matches!(self, Self::FullFrames { .. } | Self::Interval { .. })
    }

    /// The changes that help at the lowest level; none where some level is usable.
    pub(super) fn on(
        costs: &AriaCosts,
        requirements: &Requirements,
        levels: &[PlannedLevel],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        if levels.iter().any(|level| level.unusable.is_none()) {
            return all;
        }
        let Some(slow) = levels.iter().map(|level| level.interval_frames[2]).min() else {
            return all;
        };
        if slow > requirements.interval_frames {
            let least = costs
                .levels
                .iter()
                .map(|level| level.full_frame.interval(requirements.confidence)[1])
                .fold(f64::INFINITY, f64::min);
            all.push(Self::Interval { frames: slow });
            all.push(Self::FullFrames {
                times: least / (requirements.frame_ns * requirements.interval_frames as f64),
            });
        }
        // Levels whose full frames are frequent enough, if need be with the advice above.
        let interval = slow.max(requirements.interval_frames);
        let frequent = costs.levels.iter().zip(levels);
        let pairs = frequent
            .filter(|(_, planned)| planned.interval_frames[2] <= interval)
            .map(|(level, _)| level)
            .flat_map(|level| costs.regions.iter().map(move |region| (level, region)));
        let pairs =
            pairs.filter(|(level, region)| region.rows <= level.rows && region.cols <= level.cols);
        let needed = |(level, region): &(&Level, &RegionEncoder)| {
            work(costs, level, region, 1, requirements.spread)
                .least_target_ns(requirements.share, requirements.z())
        };
        let Some((level, region)) = pairs.min_by(|a, b| needed(a).total_cmp(&needed(b))) else {
            return all;
        };
        let target_ns = needed(&(level, region));
        if target_ns > requirements.target_ns {
            let &Level { height, width, .. } = level;
            all.push(Self::Target {
                target_ns,
                height,
                width,
                rows: region.rows,
                cols: region.cols,
            });
            all.extend(Self::faster(costs, level, region, requirements));
            let likely = work(costs, level, region, 1, requirements.spread)
                .success_at(requirements.target_ns, 0.0);
            all.extend((likely >= requirements.share).then_some(Self::Confidence));
        }
        all
    }

    /// How much faster the processor of regions must be for one cycle, if that can be enough: the
    /// time on the CPU does not change.
    fn faster(
        costs: &AriaCosts,
        level: &Level,
        region: &RegionEncoder,
        requirements: &Requirements,
    ) -> Option<Self> {
        let fits = |times: f64| {
            let scaled = |f: &Forecast| f.faster(times);
            let faster = AriaCosts { patch_flow: scaled(&costs.patch_flow), ..costs.clone() };
            let (level, region) = (
                Level { decoder: scaled(&level.decoder), ..level.clone() },
                RegionEncoder { cycle: scaled(&region.cycle), ..region.clone() },
            );
            work(&faster, &level, &region, 1, requirements.spread)
                .success_at(requirements.target_ns, requirements.z())
                >= requirements.share
        };
        let (mut slow, mut fast) = (1.0, 1000.0);
        if !fits(fast) {
            return None;
        }
        for _ in 0..50 {
            let middle = 0.5 * (slow + fast);
            if fits(middle) { fast = middle } else { slow = middle }
        }
        Some(Self::Regions { times: fast })
    }
}

/// Rounded up to this many digits after the point: what is printed must be enough.
fn rounded_up(value: f64, digits: i32) -> f64 {
    let scale = 10.0_f64.powi(digits);
    (value * scale).ceil() / scale
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Target { target_ns, height, width, rows, cols } => {
                write!(
                    f,
                    "a target of {:.1} ms: then {height} x {width} pixels fit with one \
                    cycle of {rows} x {cols} patches",
                    rounded_up(target_ns / 1e6, 1)
                )
            }
            Self::Regions { times } => write!(
                f,
                "a processor of regions that is {:.2} times \
                as fast: another precision, engine or number of threads",
                rounded_up(*times, 2)
            ),
            Self::FullFrames { times } => write!(
                f,
                "a processor of full frames that is \
                {:.2} times as fast, or a lower level in the ladder",
                rounded_up(*times, 2)
            ),
            Self::Interval { frames } => write!(f, "{frames} camera frames between full frames"),
            Self::Confidence => f.write_str(
                "the forecasts themselves would allow it, their \
                intervals do not: measure the encoder and the decoder on the device, or accept a \
                lower confidence",
            ),
        }
    }
}

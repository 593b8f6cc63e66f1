//! [`System`]: ARIA, ARIA without some of its parts, and the baselines (sections 6.1 and 6.3), with
//! the processing of a frame in each.
//!
//! | system | dynamic regions by | region's window | full frames | cycles |
//! |---|---|---|---|---|
//! | NPU-only | - | - | every frame, at the highest resolution that is in time on the regions' processor | - |
//! | MobiSR-like | - | - | every frame, in blocks divided between both processors, the hardest at the highest resolution | - |
//! | ARIA-base | block matching on the CPU | whole blocks | highest resolution | a fixed count, no order |
//! | + S1 | patch features | one patch around | highest resolution | a fixed count, no order |
//! | + S2 | patch features | one patch around, and along its motion | highest resolution | a fixed count, no order |
//! | ARIA (+ S3) | patch features | one patch around, and along its motion | by camera motion, among those in time | as many as fit now, by waiting time and speed |
//!
//! ARIA also runs with the paper's order of regions, and with one of chance, which figure 18 compares
//! ([`System::ORDERS`]).

use super::{
    AriaCosts, AriaPlan, Level, PlannedLevel, RegionEncoder, Requirements, plan, success::FrameWork,
};
use serde::{Deserialize, Serialize};
use vitempo_aria::scheduler::Priority;

/// A system that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Every frame whole, on the processor of regions.
    NpuOnly,
    /// Every frame in blocks on both processors.
    MobiSrLike,
    /// Regions by block matching, in no order.
    Base,
    /// Base, with regions by patch features.
    S1,
    /// S1, with windows that follow the motion.
    S2,
    /// S2, with the scheduler.
    Aria,
    /// ARIA whose regions come in the paper's order: speed, after those carried over.
    PapersOrder,
    /// ARIA whose regions come in an order of chance.
    RandomRegions,
    /// ARIA without padding that shows all of a cycle's window, and gives cycles that no region asks
    /// for to the rest of the frame. Not the paper's.
    WholeWindows,
}

/// Of the order of chance.
const SEED: u64 = 7;

impl System {
    /// ARIA with each order of regions.
    pub const ORDERS: [Self; 3] = [Self::Aria, Self::PapersOrder, Self::RandomRegions];

    /// The systems of the paper, in its order.
    pub const ALL: [Self; 6] =
        [Self::NpuOnly, Self::MobiSrLike, Self::Base, Self::S1, Self::S2, Self::Aria];

    /// The name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NpuOnly => "NPU-only",
            Self::MobiSrLike => "MobiSR-like",
            Self::Base => "ARIA-base",
            Self::S1 => "base + S1",
            Self::S2 => "base + S1 + S2",
            Self::Aria => "ARIA",
            Self::PapersOrder => "ARIA, the paper's order",
            Self::RandomRegions => "ARIA, random regions",
            Self::WholeWindows => "ARIA, whole windows",
        }
    }

    /// Whether the scheduler chooses, in any order of regions.
    #[must_use]
    pub fn is_scheduled(self) -> bool {
        Self::ORDERS.contains(&self) || self.spends_all()
    }

    /// Whether every cycle that fits runs.
    #[must_use]
    pub fn spends_all(self) -> bool {
        self == Self::WholeWindows
    }

    /// Which regions come first, of a system that is scheduled.
    #[must_use]
    pub fn priority(self) -> Option<Priority> {
        match self {
            Self::Aria | Self::WholeWindows => Some(Priority::Waiting),
            Self::PapersOrder => Some(Priority::CarriedOver),
            Self::RandomRegions => Some(Priority::Shuffled(SEED)),
            _ => None,
        }
    }

    /// Whether full frames run beside the camera's frames.
    #[must_use]
    pub fn is_parallel(self) -> bool {
        !matches!(self, Self::NpuOnly | Self::MobiSrLike)
    }
}

/// The configuration of a system before the first frame: its plan from forecasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The configured system.
    pub system: System,
    /// The region encoder.
    pub region: RegionEncoder,
    /// Indices of the levels that it uses, rising: those of full frames, or the one resolution of
    /// all frames.
    pub levels: Vec<usize>,
    /// Cycles per frame at the highest of them.
    pub cycles: u64,
    /// Blocks on the processor of regions and on that of full frames.
    pub blocks: [u64; 2],
    /// Those of them that are encoded once more at the highest resolution, the hardest first; the
    /// rest of the frame is resampled to it.
    pub refined: u64,
    /// Margin for the spread of runs, as a share of the mean.
    pub margin: f64,
}

impl Setup {
    /// The configuration of a system from forecasts: no more work than is in time at the
    /// pessimistic end.
    #[must_use]
    pub fn of(
        system: System,
        costs: &AriaCosts,
        requirements: &Requirements,
        plan: &AriaPlan,
    ) -> Self {
        let base = Self {
            system,
            region: plan.region.clone(),
            levels: Vec::new(),
            cycles: 0,
            blocks: [0; 2],
            refined: 0,
            margin: margin(costs, plan, requirements),
        };
        match system {
            System::NpuOnly => Self {
                levels: vec![highest(costs, requirements, |level| alone(level, requirements))],
                ..base
            },
            System::MobiSrLike => {
                // The smallest blocks can be divided most evenly.
                let region = costs
                    .regions
                    .iter()
                    .min_by_key(|region| region.rows * region.cols)
                    .unwrap_or(&plan.region);
                let level = highest(costs, requirements, |level| {
                    shared(costs, level, region, requirements, 0).1
                });
                let divided = costs.levels.get(level).map(|level| {
                    let refined = refined(costs, level, region, requirements);
                    (shared(costs, level, region, requirements, refined).0, refined)
                });
                let (blocks, refined) = divided.unwrap_or_default();
                Self { region: region.clone(), levels: vec![level], blocks, refined, ..base }
            }
            System::Base => base.fixed(
                &AriaCosts {
                    frame_step: costs.baselines.block_matching,
                    patch_flow: super::Forecast::exact(1.0),
                    ..costs.clone()
                },
                requirements,
            ),
            System::S1 => base.fixed(
                &AriaCosts { patch_flow: super::Forecast::exact(1.0), ..costs.clone() },
                requirements,
            ),
            System::S2 => base.fixed(costs, requirements),
            System::Aria | System::PapersOrder | System::RandomRegions | System::WholeWindows => {
                let usable: Vec<usize> = plan
                    .levels
                    .iter()
                    .enumerate()
                    .filter(|(_, level)| level.unusable.is_none())
                    .map(|(index, _)| index)
                    .collect();
                Self {
                    levels: if usable.is_empty() { vec![0] } else { usable },
                    cycles: plan.cycles,
                    ..base
                }
            }
        }
    }

    /// Without a scheduler: the highest level at which a cycle fits, and the region encoder that
    /// updates the most patches there.
    fn fixed(self, costs: &AriaCosts, requirements: &Requirements) -> Self {
        let count = |level: &Level, region: &RegionEncoder| {
            plan::fitting(costs, level, region, requirements)
        };
        for (index, level) in costs.levels.iter().enumerate().rev() {
            let all = costs
                .regions
                .iter()
                .filter(|region| region.rows <= level.rows && region.cols <= level.cols);
            let best =
                all.map(|region| (region, count(level, region))).max_by_key(|(region, count)| {
                    ((*count as usize).saturating_mul(region.useful()), region.useful())
                });
            if let Some((region, cycles)) = best.filter(|(_, cycles)| *cycles > 0) {
                return Self { region: region.clone(), levels: vec![index], cycles, ..self };
            }
        }
        Self { levels: vec![0], ..self }
    }
}

/// The time that a frame may take beyond its mean, as a share of the mean, with one cycle at the
/// highest usable level.
fn margin(costs: &AriaCosts, plan: &AriaPlan, requirements: &Requirements) -> f64 {
    let top = plan.usable().next_back().map(|PlannedLevel { rows, cols, .. }| (*rows, *cols));
    let level = costs
        .levels
        .iter()
        .find(|level| Some((level.rows, level.cols)) == top)
        .or(costs.levels.first());
    level.map_or(0.0, |level| {
        let work = plan::work(costs, level, &plan.region, plan.cycles.max(1), requirements.spread);
        work.least_target_ns(requirements.share, 0.0) / work.least_target_ns(0.5, 0.0) - 1.0
    })
}

fn highest(
    costs: &AriaCosts,
    requirements: &Requirements,
    work: impl Fn(&Level) -> FrameWork,
) -> usize {
    let fits = |level: &Level| {
        work(level).success_at(requirements.target_ns, requirements.z()) >= requirements.share
    };
    costs.levels.iter().rposition(fits).unwrap_or(0)
}

fn alone(level: &Level, requirements: &Requirements) -> FrameWork {
    FrameWork::new(
        &[level.alone, level.decoder],
        &super::Forecast::exact(1.0),
        0,
        requirements.spread,
    )
}

/// Blocks of the region encoder's size that cover a level.
fn covering(level: &Level, region: &RegionEncoder) -> u64 {
    (level.rows.div_ceil(region.rows) * level.cols.div_ceil(region.cols)) as u64
}

/// Blocks that can be encoded at the highest resolution, too, in the time that is left.
fn refined(
    costs: &AriaCosts,
    level: &Level,
    region: &RegionEncoder,
    requirements: &Requirements,
) -> u64 {
    let most = costs.levels.last().filter(|top| top.rows * top.cols > level.rows * level.cols);
    let fits = |count: &u64| {
        let work = shared(costs, level, region, requirements, *count).1;
        work.success_at(requirements.target_ns, requirements.z()) >= requirements.share
    };
    let most = most.map_or(0, |top| covering(top, region));
    (1..=most).take_while(fits).last().unwrap_or(0)
}

/// Divides a frame into blocks of the region encoder's size, and `refined` more at the highest
/// resolution, so that the processor that ends last ends as early as possible; returns the blocks of
/// each processor and the resulting frame.
fn shared(
    costs: &AriaCosts,
    level: &Level,
    region: &RegionEncoder,
    requirements: &Requirements,
    refined: u64,
) -> ([u64; 2], FrameWork) {
    let blocks = covering(level, region) + refined;
    let decoder = costs.levels.last().filter(|_| refined > 0).unwrap_or(level).decoder;
    let longest = |here: u64| {
        (here as f64 * region.cycle.point_ns())
            .max((blocks - here) as f64 * region.elsewhere.point_ns())
    };
    let here = (0..=blocks).min_by(|a, b| longest(*a).total_cmp(&longest(*b))).unwrap_or(blocks);
    let elsewhere = blocks - here;
    let later = if here as f64 * region.cycle.point_ns()
        >= elsewhere as f64 * region.elsewhere.point_ns()
    {
        (region.cycle, here)
    } else {
        (region.elsewhere, elsewhere)
    };
    (
        [here, elsewhere],
        FrameWork::new(&[costs.frame_step, decoder], &later.0, later.1, requirements.spread),
    )
}

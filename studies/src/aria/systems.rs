//! [`Plan`]: what the planner lets each system do within a deadline, from forecasts; [`ways`]: the
//! systems, ablations and paddings that are compared.

use super::{AriaStudyError, LEVELS, REGIONS, Trained, top};
use vitempo::{
    Bundle,
    aria::{
        Criterion, Grid, Padding,
        scene::{Choices, Pace, PacedLevel, Show},
        scheduler::Priority,
    },
    plan::aria::{CostNote, CostsRequest, GivenTimes, Scenario, Sizes, forecast},
    planners::aria::{AriaDevice, Requirements, Setup, System},
};

/// Time of a frame's step on the CPU, ns: the runtime's, with a margin.
const FRAME_STEP_NS: u64 = 1_000_000;
/// Patches by which the picture has moved since the latest full frame, beyond which a frame is shown
/// whole: chosen among 0.25 to 4 on scenes that are not counted (`--first 100`).
const WHOLE_BEYOND: f32 = 0.5;

/// The systems' plans.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Costs, requirements and ARIA's plan.
    pub scenario: Scenario,
    /// Notes on forecasts.
    pub notes: Vec<CostNote>,
}

/// Something that is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// Resolutions, regions and cycles.
    pub pace: String,
    /// How.
    pub show: Show,
}

impl Plan {
    /// Plans for a deadline and a camera.
    ///
    /// # Errors
    /// [`AriaStudyError`] naming the size that has no forecast or the requirement that is invalid.
    pub fn new(
        trained: &Trained,
        [full_frames, regions]: [&Bundle; 2],
        requirements: Requirements,
    ) -> Result<Self, AriaStudyError> {
        let patch = trained.models.patch();
        let pixels = |[rows, cols]: [usize; 2]| (rows * patch, cols * patch);
        let request = CostsRequest {
            full_frames,
            regions,
            sizes: Sizes {
                levels: LEVELS.map(pixels).to_vec(),
                regions: REGIONS.map(pixels).to_vec(),
            },
            times: GivenTimes {
                frame_step_ns: FRAME_STEP_NS,
                patch_flow_ns: 0,
                decoder_ns: 0,
                source: "step of a frame: its bound".to_owned(),
            },
        };
        let mut notes = Vec::new();
        let mut costs = forecast(&trained.models, &request, &mut |note| notes.push(note))?;
        // The paper prints block matching for its phone and 33.3 ms; the share of a frame is kept.
        let share = 9.0 / 33.3;
        costs.baselines.block_matching =
            vitempo::planners::aria::Forecast::exact(share * requirements.target_ns);
        let device: AriaDevice = vitempo::planners::aria::AriaCosts::paper_phone()?.1;
        Ok(Self { scenario: Scenario::new(costs, device, requirements)?, notes })
    }

    fn setup(&self, system: System) -> Setup {
        let Scenario { costs, requirements, plan, .. } = &self.scenario;
        Setup::of(system, costs, requirements, plan)
    }

    fn grid(&self, level: usize) -> Result<Grid, AriaStudyError> {
        let levels = &self.scenario.costs.levels;
        let level = &levels[level.min(levels.len() - 1)];
        Ok(Grid::new(level.rows, level.cols)?)
    }

    fn pace(&self, setup: &Setup) -> Result<Pace, AriaStudyError> {
        let Scenario { costs, requirements, .. } = &self.scenario;
        let mut levels = Vec::new();
        for index in &setup.levels {
            let full_ns = costs.levels[*index].full_frame.point_ns() as u64;
            levels.push(PacedLevel { grid: self.grid(*index)?, full_ns });
        }
        Ok(Pace {
            frame_ns: requirements.frame_ns as u64,
            levels,
            region: [setup.region.rows, setup.region.cols],
            cycles: setup.cycles as usize,
        })
    }
}

/// What is compared: the reference without a deadline, the baselines, ARIA and what it consists of,
/// orders of regions, and paddings.
///
/// # Errors
/// [`AriaStudyError`] where a resolution is not a grid of patches.
pub fn ways(plan: &Plan, criterion: Criterion) -> Result<Vec<Way>, AriaStudyError> {
    let whole = |name: &str, grid: Grid| Way {
        name: name.to_owned(),
        pace: format!("every frame, {} x {}", grid.rows(), grid.cols()),
        show: Show::Whole(grid),
    };
    let mut all = vec![whole("reference, no deadline", top()?)];
    let alone = plan.setup(System::NpuOnly);
    let whole_level = plan.grid(alone.levels.first().copied().unwrap_or(0))?;
    all.push(whole("NPU-only", whole_level));
    let divided = plan.setup(System::MobiSrLike);
    let (level, block) = (
        plan.grid(divided.levels.first().copied().unwrap_or(0))?,
        [divided.region.rows, divided.region.cols],
    );
    let refined = match divided.refined {
        0 => String::new(),
        count => format!(", {count} of them at the highest resolution"),
    };
    let [rows, cols] = block;
    all.push(Way {
        name: "MobiSR-like".to_owned(),
        pace: format!(
            "every frame, {} x {} in blocks of {rows} x {cols}{refined}",
            level.rows(),
            level.cols(),
        ),
        show: Show::Blocks(level, block, divided.refined as usize),
    });
    let aria = plan.pace(&plan.setup(System::Aria))?;
    let highest =
        Pace { levels: aria.levels.iter().rev().take(1).copied().collect(), ..aria.clone() };
    let stale = Show::Stale(highest.clone());
    all.push(Way {
        name: "full frames as they are".to_owned(),
        pace: of(&highest, false),
        show: stale,
    });
    let base = plan.pace(&plan.setup(System::Base))?;
    let pace = of(&base, true);
    all.push(Way { name: "ARIA-base".to_owned(), pace, show: Show::MovedBlocks(base) });
    let s1 = Choices {
        warps_by_depth: false,
        padding: Padding::fixed(1),
        priority: Priority::Shuffled(1),
        follows_motion: false,
        criterion,
        zoom: 1,
        whole_beyond: None,
    };
    let s2 = Choices { warps_by_depth: true, padding: Padding::default(), ..s1 };
    let s3 = Choices { priority: Priority::Waiting, follows_motion: true, ..s2 };
    let mut regions = |name: &str, pace: &Pace, choices: Choices| {
        let show = Show::Regions(pace.clone(), choices);
        all.push(Way { name: name.to_owned(), pace: of(pace, true), show });
    };
    regions("base + S1", &plan.pace(&plan.setup(System::S1))?, s1);
    regions("base + S1 + S2", &plan.pace(&plan.setup(System::S2))?, s2);
    regions("ARIA (+ S3)", &aria, s3);
    regions("ARIA, the paper's order", &aria, Choices { priority: Priority::CarriedOver, ..s3 });
    regions("ARIA, random regions", &aria, Choices { priority: Priority::Shuffled(7), ..s3 });
    regions("ARIA, no padding", &aria, Choices { padding: Padding::NONE, ..s3 });
    regions("ARIA, padding 2", &aria, Choices { padding: Padding::fixed(2), ..s3 });
    // Not the paper's: full frames of the highest resolution, windows that zoom out, and whole frames
    // where the picture moved too far.
    let still = Choices { follows_motion: false, padding: Padding::NONE, ..s3 };
    regions("ARIA, highest resolution", &highest, still);
    regions("ARIA, highest, zoom", &highest, Choices { zoom: 2, ..still });
    let whole = Some((WHOLE_BEYOND, whole_level));
    regions("ARIA, highest, or whole", &highest, Choices { whole_beyond: whole, ..still });
    regions("ARIA, rotation alone", &aria, Choices { warps_by_depth: false, ..s3 });
    let none = Pace { cycles: 0, ..aria };
    regions("ARIA, no cycles", &none, s3);
    Ok(all)
}

fn of(pace: &Pace, cycles: bool) -> String {
    let sizes: Vec<String> = pace
        .levels
        .iter()
        .map(|level| {
            let frames = level.full_ns.div_ceil(pace.frame_ns.max(1)).max(1);
            format!("{} x {} every {frames}", level.grid.rows(), level.grid.cols())
        })
        .collect();
    let [rows, cols] = pace.region;
    let regions = format!(", {} cycles of {rows} x {cols}", pace.cycles);
    format!("{}{}", sizes.join(" / "), if cycles { regions } else { String::new() })
}

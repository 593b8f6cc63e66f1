//! [`Plan`]: what the planner lets each system do within a deadline, from forecasts; [`ways`]: the
//! systems, ablations and paddings that are compared.

use super::{AriaStudyError, LEVELS, REGIONS, Trained, top};
use vitempo::{
    Bundle,
    aria::{
        Criterion, FlowSource, Grid, Padding, WholeWindows,
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

/// How regions are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Find {
    /// Which patches are dynamic.
    pub criterion: Criterion,
    /// Fewest camera frames between full frames that are compared.
    pub apart: u64,
}

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

    /// A system's plan.
    #[must_use]
    pub fn setup(&self, system: System) -> Setup {
        let Scenario { costs, requirements, plan, .. } = &self.scenario;
        Setup::of(system, costs, requirements, plan)
    }

    fn grid(&self, level: usize) -> Result<Grid, AriaStudyError> {
        let levels = &self.scenario.costs.levels;
        let level = &levels[level.min(levels.len() - 1)];
        Ok(Grid::new(level.rows, level.cols)?)
    }

    /// How a system shows frames.
    ///
    /// # Errors
    /// [`AriaStudyError`] where a resolution is not a grid of patches.
    pub fn show(&self, system: System, find: Find) -> Result<Show, AriaStudyError> {
        let setup = self.setup(system);
        let level = || self.grid(setup.levels.first().copied().unwrap_or(0));
        Ok(match system {
            System::NpuOnly => Show::Whole(level()?),
            System::MobiSrLike => {
                let block = [setup.region.rows, setup.region.cols];
                Show::Blocks(level()?, block, setup.refined as usize)
            }
            System::Base => Show::MovedBlocks(self.pace(&setup)?),
            _ => Show::Regions(self.pace(&setup)?, choices(system, find)),
        })
    }

    /// Choices that are not the paper's, without padding: whole windows and spare cycles, with the
    /// paper's resolutions, with whole frames where the picture moved too far, and with full frames of
    /// the highest resolution alone.
    ///
    /// # Errors
    /// As [`Self::show`].
    pub fn ours(&self, find: Find) -> Result<Vec<(String, Setup, Show)>, AriaStudyError> {
        let all = self.setup(System::Aria);
        let top = Setup { levels: all.levels.last().into_iter().copied().collect(), ..all.clone() };
        let windows = windows(find);
        let whole = self.grid(self.setup(System::NpuOnly).levels.first().copied().unwrap_or(0))?;
        let or_whole = Choices { whole_beyond: Some((WHOLE_BEYOND, whole)), ..windows.clone() };
        let highest = Choices { follows_motion: false, ..windows.clone() };
        let mut ways = Vec::new();
        for (name, setup, choices) in [
            ("ARIA, whole windows", &all, windows),
            ("ARIA, whole windows, or frames whole", &all, or_whole),
            ("ARIA, whole windows, highest resolution", &top, highest),
        ] {
            ways.push((name.to_owned(), setup.clone(), Show::Regions(self.pace(setup)?, choices)));
        }
        Ok(ways)
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
/// flows, orders of regions, paddings, and choices that are not the paper's.
///
/// # Errors
/// [`AriaStudyError`] where a resolution is not a grid of patches.
pub fn ways(
    plan: &Plan,
    find: Find,
    learned: Option<FlowSource>,
) -> Result<Vec<Way>, AriaStudyError> {
    let mut all = vec![Way::new("reference, no deadline", Show::Whole(top()?))];
    let mut add = |name: &str, show: Show| all.push(Way::new(name, show));
    add("NPU-only", plan.show(System::NpuOnly, find)?);
    add("MobiSR-like", plan.show(System::MobiSrLike, find)?);
    let aria = plan.pace(&plan.setup(System::Aria))?;
    add("full frames as they are", Show::Stale(highest(&aria)));
    add("ARIA-base", plan.show(System::Base, find)?);
    add("base + S1", plan.show(System::S1, find)?);
    add("base + S1 + S2", plan.show(System::S2, find)?);
    add("ARIA (+ S3)", plan.show(System::Aria, find)?);
    let s3 = || choices(System::Aria, find);
    let mut with = |name: &str, choices: Choices| add(name, Show::Regions(aria.clone(), choices));
    with("ARIA, the paper's order", Choices { priority: Priority::CarriedOver, ..s3() });
    with("ARIA, random regions", Choices { priority: Priority::Shuffled(7), ..s3() });
    with("ARIA, no padding", Choices { padding: Padding::NONE, ..s3() });
    with("ARIA, padding 2", Choices { padding: Padding::fixed(2), ..s3() });
    let flows = [("rotation alone", Some(FlowSource::Rotation)), ("learned flow", learned)];
    for (name, flow) in flows.into_iter().filter_map(|(name, flow)| Some((name, flow?))) {
        with(&format!("ARIA, {name}"), Choices { flow: flow.clone(), ..s3() });
        with(&format!("ARIA, whole windows, {name}"), Choices { flow, ..windows(find) });
    }
    add("ARIA, no cycles", Show::Regions(Pace { cycles: 0, ..aria.clone() }, s3()));
    for (name, _, show) in plan.ours(find)? {
        add(&name, show);
    }
    let still = || Choices { follows_motion: false, padding: Padding::NONE, ..s3() };
    let mut with = |name: &str, choices| add(name, Show::Regions(highest(&aria), choices));
    let regions = WholeWindows { spare: false };
    with("ARIA, highest resolution", still());
    with("ARIA, highest resolution, windows", Choices { whole_windows: Some(regions), ..still() });
    with("ARIA, highest resolution, zoom", Choices { zoom: 2, ..still() });
    Ok(all)
}

/// ARIA that shows all that a cycle has seen.
fn windows(find: Find) -> Choices {
    Choices {
        padding: Padding::NONE,
        whole_windows: Some(WholeWindows::ALL),
        ..choices(System::Aria, find)
    }
}

/// What distinguishes the systems that find regions by features.
fn choices(system: System, find: Find) -> Choices {
    let s1 = Choices {
        flow: FlowSource::Rotation,
        padding: Padding::fixed(1),
        priority: Priority::Shuffled(1),
        follows_motion: false,
        criterion: find.criterion,
        apart: find.apart,
        zoom: 1,
        whole_windows: None,
        whole_beyond: None,
    };
    let s2 = Choices { flow: FlowSource::Depth, padding: Padding::default(), ..s1.clone() };
    match system {
        System::S1 => s1,
        System::S2 => s2,
        scheduled => Choices {
            priority: scheduled.priority().unwrap_or_default(),
            follows_motion: true,
            ..s2
        },
    }
}

/// A pace whose full frames have the highest resolution alone.
fn highest(pace: &Pace) -> Pace {
    Pace { levels: pace.levels.last().into_iter().copied().collect(), ..pace.clone() }
}

impl Way {
    fn new(name: &str, show: Show) -> Self {
        Self { name: name.to_owned(), pace: described(&show), show }
    }
}

fn described(show: &Show) -> String {
    let every = |grid: &Grid| format!("every frame, {} x {}", grid.rows(), grid.cols());
    match show {
        Show::Whole(grid) => every(grid),
        Show::Blocks(grid, [rows, cols], refined) => {
            let refined = match refined {
                0 => String::new(),
                count => format!(", {count} of them at the highest resolution"),
            };
            format!("{} in blocks of {rows} x {cols}{refined}", every(grid))
        }
        Show::Stale(pace) => of(pace, false),
        Show::MovedBlocks(pace) | Show::Regions(pace, _) => of(pace, true),
    }
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

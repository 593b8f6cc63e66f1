//! [`Runtime`]: the parts together, for an application that has two encoders and a decoder.
//!
//! The application calls [`Runtime::full_frame`] when the large encoder has finished a full frame.
//! For every camera frame, [`Runtime::frame`] returns the windows for the region encoder,
//! [`Runtime::update`] takes the encoder's output, and [`Runtime::aligned`] gives the decoder its
//! input. Every output belongs to the frame that it was captured in: a full frame may arrive many
//! frames late.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchSet, Window,
    candidates::Candidates,
    features::Part,
    flow::{CameraMotion, FlowEstimator, PatchFlow, Pose},
    identify::{Criterion, Identified, warp_and_identify},
    merged::Merged,
    scheduler::{Cycle, CyclePlanner, Priority, Request},
    simd::{SOON, prefetch_row},
    spare::Detail,
    tracking::{Arrival, Padding, Region, Tracker, Tracking},
    warp::WarpedQuantized,
};
use std::collections::VecDeque;

/// Camera frames between full frames that are compared, beyond which small networks show what moved:
/// [`Settings::apart`]. Chosen as [`Criterion::AROUND`].
pub const FAR_APART: u64 = 3;

/// Sizes and choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Patches of a full frame, at the resolution of the decoder.
    pub grid: Grid,
    /// Features per patch.
    pub width: usize,
    /// Rows and columns of patches that the region encoder takes.
    pub region_encoder: [usize; 2],
    /// Which patches are dynamic.
    pub criterion: Criterion,
    /// How regions are followed.
    pub tracking: Tracking,
    /// Padding around regions in the encoder's input.
    pub padding: Padding,
    /// Who is first.
    pub priority: Priority,
    /// Sides of the largest window of a cycle, in those of the region encoder: above 1, large regions
    /// are seen at a lower resolution where cycles are short ([`CyclePlanner::with_zoom`]).
    pub zoom: usize,
    /// Fewest camera frames between a full frame and the one it is compared with to find what moved,
    /// as far as there is one; 1: the latest two, as the paper has it. The farther things go, the
    /// better features show it.
    pub apart: u64,
    /// What else than regions the encoder's output replaces; as the paper has it, nothing.
    pub whole_windows: Option<WholeWindows>,
}

/// Merges all that a cycle has seen, not regions alone. Not the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeWindows {
    /// Cycles that no region asks for go to the rest of the frame, where it has most detail.
    pub spare: bool,
}

impl WholeWindows {
    /// All that a cycle has seen, and every cycle that fits.
    pub const ALL: Self = Self { spare: true };
}

impl Settings {
    /// The defaults for a grid, features and a region encoder.
    #[must_use]
    pub fn new(grid: Grid, width: usize, region_encoder: [usize; 2]) -> Self {
        Self {
            grid,
            width,
            region_encoder,
            criterion: Criterion::default(),
            tracking: Tracking::default(),
            padding: Padding::default(),
            priority: Priority::default(),
            zoom: 1,
            apart: 1,
            whole_windows: None,
        }
    }
}

/// What to do for a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePlan {
    /// Windows for the region encoder, the most urgent first.
    pub cycles: Vec<Cycle>,
    /// Regions and newly visible borders that requested an update.
    pub asked: usize,
}

/// Features of a frame, and when and from where it was captured.
#[derive(Clone, Debug)]
struct Captured {
    frame: u64,
    pose: Pose,
    features: FeatureMap,
}

/// An earlier full frame, and what its flow follows from.
#[derive(Clone, Debug)]
struct Earlier<F> {
    captured: Captured,
    estimator: F,
}

/// The requests of the current frame.
#[derive(Clone, Debug)]
struct Asked {
    region: u64,
    /// Where it is now.
    now: PatchSet,
    centre: Option<[f32; 2]>,
    /// The region and its path since the last update, which an update replaces.
    stale: PatchSet,
}

/// The last features of a region, which move with it until the next update.
#[derive(Clone, Debug)]
struct Kept {
    region: u64,
    frame: u64,
    centre: [f32; 2],
    /// The centre of each patch, and the length of its features.
    patches: Vec<([f32; 2], f32)>,
    values: Vec<f32>,
}

/// The parts together.
#[derive(Debug)]
pub struct Runtime<F> {
    settings: Settings,
    instructions: Instructions,
    estimator: F,
    latest: Option<Captured>,
    /// Full frames before the latest, the newest last: the one that it replaced, and those that the
    /// next is compared with.
    before: VecDeque<Earlier<F>>,
    /// Where the latest full frame differs from patch to patch, if cycles may be spare.
    detail: Detail,
    /// Number of the full frame that the latest was compared with.
    compared: u64,
    /// That full frame, warped into the latest.
    earlier: WarpedQuantized,
    /// The latest full frame, warped into the current frame, with later updates.
    merged: Merged,
    flow: PatchFlow,
    frame: u64,
    /// Frames between the full frame in `merged` and that.
    since: u64,
    found: Option<Identified>,
    tracker: Tracker,
    planner: CyclePlanner,
    asked: Vec<Asked>,
    kept: Vec<Kept>,
    /// Room for the next full frame.
    next: FeatureMap,
    /// Lengths of the features of one update.
    norms: Vec<f32>,
    /// Room of updates that are no longer kept.
    spare: Vec<Vec<f32>>,
}

/// Numbers of the borders that a turning camera brings into view count down from here.
const BORDERS: u64 = u64::MAX;
/// Patches around a window among which most searches for its patches end.
const NEAR: usize = 5;
/// Updates that are kept of one region, the oldest below the others.
const MOST_KEPT: usize = 8;
/// Full frames before the latest that are kept to compare with, however far apart they should be.
const MOST_EARLIER: usize = 8;

/// Whether a full frame lies so many camera frames before another.
fn far_apart(captured: &Captured, frame: u64, apart: u64) -> bool {
    frame.saturating_sub(captured.frame) >= apart
}

impl<F: FlowEstimator + Clone> Runtime<F> {
    /// A runtime without frames.
    ///
    /// # Errors
    /// When a setting is out of its range.
    pub fn new(settings: Settings, estimator: F) -> Result<Self, AriaError> {
        let Settings { grid, width, .. } = settings;
        Ok(Self {
            settings,
            instructions: Instructions::best(),
            estimator,
            latest: None,
            before: VecDeque::new(),
            detail: Detail::default(),
            merged: Merged::new(grid, width)?,
            compared: 0,
            earlier: WarpedQuantized::new(grid, width),
            flow: PatchFlow::still(grid),
            frame: 0,
            since: 0,
            found: None,
            tracker: Tracker::new(settings.tracking)?,
            planner: CyclePlanner::new(grid, settings.region_encoder, settings.priority)?
                .with_zoom(settings.zoom),
            asked: Vec::new(),
            kept: Vec::new(),
            next: FeatureMap::new(grid, width)?,
            norms: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// The same with other instructions.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Instructions) -> Self {
        self.instructions = instructions;
        self
    }

    /// The estimator, for what a decoder computes from the latest full frame.
    pub fn estimator_mut(&mut self) -> &mut F {
        &mut self.estimator
    }

    /// The flow from the latest full frame to a pose.
    ///
    /// # Errors
    /// Before the first full frame, and where the estimator fails.
    pub fn flow_to(&self, pose: &Pose) -> Result<PatchFlow, AriaError> {
        let latest = self.latest.as_ref().ok_or(AriaError::NoFullFrame)?;
        self.estimator.flow(&latest.features, &CameraMotion::between(&latest.pose, pose))
    }

    /// The regions of the latest full frame.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        self.tracker.regions()
    }

    /// Number of the full frame that the latest was compared with.
    #[must_use]
    pub fn compared_with(&self) -> u64 {
        self.compared
    }

    /// What moved between that and the latest full frame.
    #[must_use]
    pub fn found(&self) -> Option<&Identified> {
        self.found.as_ref()
    }

    /// Takes the features of a full frame that was captured as number `frame` from `pose`, and
    /// leaves a buffer for those of the next in their place: nothing is copied, and the contents of
    /// that buffer are undefined.
    ///
    /// # Errors
    /// When it is not later than the last full frame, or `features` are not finite or too many or
    /// few. Then nothing has changed.
    pub fn full_frame(
        &mut self,
        frame: u64,
        pose: &Pose,
        features: &mut Vec<f32>,
    ) -> Result<(), AriaError> {
        let (best, Settings { grid, width, criterion, .. }) = (self.instructions, self.settings);
        let Some(latest) = &mut self.latest else {
            self.latest = Some(Captured {
                frame,
                pose: *pose,
                features: FeatureMap::from_values(best, grid, width, features)?,
            });
            self.look_for_detail();
            return Ok(());
        };
        if frame <= latest.frame {
            return Err(AriaError::Order { frame, latest: latest.frame });
        }
        let flow =
            self.estimator.flow(&latest.features, &CameraMotion::between(&latest.pose, pose))?;
        let far_enough = |captured: &Captured| far_apart(captured, frame, self.settings.apart);
        let older = (!far_enough(latest) && !self.before.is_empty()).then(|| {
            self.before.iter().rposition(|earlier| far_enough(&earlier.captured)).unwrap_or(0)
        });
        let (compared, flow_of_compared) = match older {
            None => (&*latest, None),
            Some(older) => {
                let Earlier { captured, estimator } = &mut self.before[older];
                let motion = CameraMotion::between(&captured.pose, pose);
                let flow = estimator.flow(&captured.features, &motion)?;
                (&*captured, Some(flow))
            }
        };
        self.next.exchange(features)?;
        let found = warp_and_identify(
            best,
            &mut self.earlier,
            &compared.features,
            flow_of_compared.as_ref().unwrap_or(&flow),
            &mut self.next,
            criterion,
        );
        if found.is_err() {
            self.next.exchange(features)?;
        }
        let found = found?;
        self.compared = compared.frame;
        self.tracker.find_from(
            best,
            &mut Candidates::among(&mut self.earlier, &compared.features),
            Arrival { frame, frames: frame - compared.frame, flow: &flow, current: &self.next },
            &found,
        );
        self.found = Some(found);
        self.replace_latest(frame, *pose)?;
        let regions = self.tracker.regions();
        let stays = |kept: &mut Kept| {
            kept.frame > frame && regions.iter().any(|region| region.id == kept.region)
        };
        self.spare.extend(self.kept.extract_if(.., |kept| !stays(kept)).map(|kept| kept.values));
        self.look_for_detail();
        Ok(())
    }

    /// Makes the next full frame the latest, and what is no longer needed the room for another.
    fn replace_latest(&mut self, frame: u64, pose: Pose) -> Result<(), AriaError> {
        let Settings { grid, width, apart, .. } = self.settings;
        let (replaced, estimator) = (self.latest.take(), self.estimator.clone());
        self.before.extend(replaced.map(|captured| Earlier { captured, estimator }));
        let mut room = None;
        // The next full frame is later than this one.
        let is_enough =
            |second: &Earlier<F>| far_apart(&second.captured, frame.saturating_add(1), apart);
        while (self.before.len() > MOST_EARLIER || self.before.get(1).is_some_and(is_enough))
            && let Some(Earlier { captured, .. }) = self.before.pop_front()
        {
            if captured.frame + self.since == self.frame {
                self.merged.settle(self.instructions, &captured.features);
            }
            room = Some(captured.features);
        }
        let room = room.map_or_else(|| FeatureMap::new(grid, width), Ok)?;
        let features = std::mem::replace(&mut self.next, room);
        self.latest = Some(Captured { frame, pose, features });
        Ok(())
    }

    fn look_for_detail(&mut self) {
        if let (Some(latest), Some(WholeWindows { spare: true })) =
            (&self.latest, self.settings.whole_windows)
        {
            self.detail = Detail::of(self.instructions, &latest.features);
        }
    }

    /// Aligns the latest full frame to camera frame `frame`, seen from `pose`, and chooses at most
    /// `cycles` windows to update.
    ///
    /// # Errors
    /// Before the first full frame, and for a frame before the one that the latest full frame was
    /// captured in.
    pub fn frame(
        &mut self,
        frame: u64,
        pose: &Pose,
        cycles: usize,
    ) -> Result<FramePlan, AriaError> {
        let latest = self.latest.as_ref().ok_or(AriaError::NoFullFrame)?;
        if frame < latest.frame {
            return Err(AriaError::Order { frame, latest: latest.frame });
        }
        self.flow = self.flow_to(pose)?;
        self.merged.aim(self.instructions, &latest.features, &self.flow)?;
        (self.frame, self.since) = (frame, frame - latest.frame);
        let mut requests = Vec::new();
        self.asked.clear();
        for region in self.tracker.regions() {
            let age = region.age(frame);
            let since = age.min(self.planner.waited(region.id) as f32 + 1.0);
            let (now, stale) = region.now_and_swept(&self.flow, age, since);
            if let Some(window) = self.settings.padding.window(&now, region.velocity, since) {
                requests.push(Request { region: region.id, window, speed: region.speed() });
                self.asked.push(Asked { region: region.id, centre: centre(&now), now, stale });
            }
        }
        self.ask_for_borders(&mut requests);
        let mut planned = self.planner.plan(&requests, cycles);
        self.spend(&mut planned, cycles);
        self.warp_and_paste(&planned);
        Ok(FramePlan { cycles: planned, asked: requests.len() })
    }

    /// Gives cycles that no region asks for to the rest of the frame.
    fn spend(&self, cycles: &mut Vec<Cycle>, most: usize) {
        let Some(WholeWindows { spare: true }) = self.settings.whole_windows else {
            return;
        };
        let (grid, left) = (self.settings.grid, most.saturating_sub(cycles.len()));
        let mut fresh = PatchSet::new(grid);
        cycles.iter().for_each(|cycle| fresh.insert_all(cycle.window));
        let windows = self.detail.windows(&self.flow, &fresh, self.settings.region_encoder, left);
        cycles.extend(windows.into_iter().map(|window| Cycle { window, regions: Vec::new() }));
    }

    /// Patches that the latest full frame did not show: one request for each part of the frame that
    /// fits the region encoder's input.
    fn ask_for_borders(&mut self, requests: &mut Vec<Request>) {
        let grid = self.settings.grid;
        let [rows, cols] = self.settings.region_encoder;
        if self.merged.unseen().count() == 0 {
            return;
        }
        let corners = (0..grid.rows())
            .step_by(rows)
            .flat_map(|row| (0..grid.cols()).step_by(cols).map(move |col| (row, col)));
        for (number, (row, col)) in corners.enumerate() {
            let unseen = self.merged.unseen().within(Window { row, col, rows, cols });
            if let Some(window) = self.settings.padding.window(&unseen, [0.0; 2], 0.0) {
                let region = BORDERS - number as u64;
                requests.push(Request { region, window, speed: 0.0 });
                self.asked.push(Asked { region, centre: None, now: unseen.clone(), stale: unseen });
            }
        }
    }

    /// Warps the full frame, and moves the features of regions to their current positions; the
    /// latest update of a patch is used.
    fn warp_and_paste(&mut self, cycles: &[Cycle]) {
        let Some(latest) = &self.latest else { return };
        let (grid, width) = (self.settings.grid, self.settings.width);
        let (mut covered, mut pasted) = (PatchSet::new(grid), Vec::new());
        for kept in self.kept.iter().rev() {
            let Some(centre) = self
                .asked
                .iter()
                .find(|asked| asked.region == kept.region)
                .and_then(|asked| asked.centre)
            else {
                continue;
            };
            let shift = [centre[0] - kept.centre[0], centre[1] - kept.centre[1]].map(f32::round);
            for (([x, y], norm), features) in
                kept.patches.iter().zip(kept.values.chunks_exact(width))
            {
                if let Some(patch) =
                    grid.at([x + shift[0], y + shift[1]]).filter(|patch| !covered.contains(*patch))
                {
                    covered.insert(patch);
                    pasted.push((patch, features, *norm));
                }
            }
        }
        let mut near = PatchSet::new(grid);
        cycles.iter().for_each(|cycle| near.insert_all(cycle.window.grown(grid, [NEAR; 4])));
        self.merged.warp(self.instructions, &latest.features, covered, &near);
        for (number, (patch, features, norm)) in pasted.iter().enumerate() {
            if let Some((patch, features, _)) = pasted.get(number + SOON / 2) {
                prefetch_row(features);
                prefetch_row(self.merged.features().row(*patch));
            }
            self.merged.put(*patch, features, *norm);
        }
    }

    /// Merges the region encoder's output for a cycle of the current frame: `cycle.window` row by
    /// row, resampled ([`FeatureMap::resampled`]) where the window is larger than the encoder's
    /// input. Only stale patches are replaced, not the padding, unless whole windows are
    /// ([`Settings::whole_windows`]). Velocities of the cycle's regions are computed again.
    ///
    /// # Errors
    /// When `features` are not finite or too many or few.
    pub fn update(&mut self, cycle: &Cycle, features: &[f32]) -> Result<(), AriaError> {
        let (best, Settings { grid, width, criterion, .. }) = (self.instructions, self.settings);
        let window = cycle.window;
        if !grid.window().covers(window) {
            return Err(AriaError::Shapes {
                what: "a cycle and the frame",
                left: format!("{window:?}"),
                right: grid.to_string(),
            });
        }
        if self.latest.is_none() {
            return Err(AriaError::NoFullFrame);
        }
        // Newer full frames may have arrived since the current frame. Where the one that it shows is
        // gone, all that is asked of it was computed before.
        let mut all = self.latest.iter().chain(self.before.iter().map(|earlier| &earlier.captured));
        let full_frame = all
            .find(|captured| captured.frame + self.since == self.frame)
            .map_or(&self.next, |captured| &captured.features);
        let part = Part::new(best, grid, window, width, features, &mut self.norms)?;
        let served: Vec<&Asked> =
            self.asked.iter().filter(|asked| cycle.regions.contains(&asked.region)).collect();
        for asked in &served {
            let now = asked.now.within(window);
            self.tracker.refresh(
                best,
                asked.region,
                [&now, &asked.stale],
                &mut self.merged.full_frame(full_frame),
                &part,
                self.since,
            );
        }
        for asked in &served {
            let (mut patches, mut values) = (Vec::new(), self.spare.pop().unwrap_or_default());
            values.clear();
            let row = |patch: usize| (patch, part.row(patch).0, part.row(patch).1);
            let stale: Vec<_> = asked.stale.within(window).iter().map(row).collect();
            let similarities = self.merged.full_frame(full_frame).similarities(best, &stale);
            values.reserve(if asked.centre.is_some() { stale.len() * width } else { 0 });
            for ((patch, row, norm), similarity) in stale.into_iter().zip(similarities) {
                // Borders do not move, and patches that equal the full frame need not be stored.
                if asked.centre.is_some() && similarity < criterion.threshold {
                    patches.push((grid.centre(patch), norm));
                    values.extend_from_slice(row);
                }
                self.merged.put(patch, row, norm);
            }
            let Some(centre) = asked.centre else {
                self.spare.push(values);
                continue;
            };
            let older = self.kept.iter().filter(|kept| kept.region == asked.region).count();
            if older >= MOST_KEPT
                && let Some(oldest) = self.kept.iter().position(|kept| kept.region == asked.region)
            {
                self.spare.push(self.kept.remove(oldest).values);
            }
            self.kept.push(Kept {
                region: asked.region,
                frame: self.frame,
                centre,
                patches,
                values,
            });
        }
        if self.settings.whole_windows.is_some() {
            let mut rest = PatchSet::new(grid);
            rest.insert_all(window);
            served.iter().for_each(|asked| rest.exclude(&asked.stale));
            let rest: Vec<usize> = rest.iter().collect();
            // Later updates are compared with what lies below.
            self.merged.full_frame(full_frame).make_all(best, &rest);
            for patch in rest {
                let (row, norm) = part.row(patch);
                self.merged.put(patch, row, norm);
            }
        }
        Ok(())
    }

    /// A cycle of the current frame does not run, because the time is over: its regions come sooner in
    /// the next.
    pub fn left_out(&mut self, cycle: &Cycle) {
        self.planner.left_out(cycle);
    }

    /// The features of the current frame, for the decoder.
    #[must_use]
    pub fn aligned(&self) -> &FeatureMap {
        self.merged.features()
    }

    /// Patches of the current frame that the latest full frame did not show.
    #[must_use]
    pub fn unseen(&self) -> &PatchSet {
        self.merged.unseen()
    }
}

/// Mean of the patches' centres.
fn centre(patches: &PatchSet) -> Option<[f32; 2]> {
    let count = patches.count();
    let sum = patches
        .places()
        .map(|(row, col)| [col as f32 + 0.5, row as f32 + 0.5])
        .fold([0.0; 2], |sum, [x, y]| [sum[0] + x, sum[1] + y]);
    (count > 0).then(|| sum.map(|s| s / count as f32))
}

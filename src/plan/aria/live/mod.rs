//! Live runs of ARIA and the baselines: two engines on cores of their own are the two processors, a
//! rendered video is the camera. [`run`] measures the parts alone, then every system.
//!
//! Encoder and decoder run on the engines, resized to every size, with the weights of their files,
//! or seeded random ones where those have none: these do not affect latency, and hardly affect which
//! patches count as dynamic. A network that takes directions of pixels and says depth and labels
//! sees a scene that it was not trained on, and what it shows is scored frame by frame. Regions,
//! warping, merging and scheduling are those of `vitempo-aria`. Throttling is injected: an answer of
//! the processor of full frames counts as done only after a multiple of its latency.

mod decoded;
mod error;
mod flow;
mod frames;
mod outcomes;
mod replay;
mod session;
mod systems;
mod video;

pub use decoded::{DecodedError, decoded, decoder_inputs};
pub use error::AriaLiveError;
pub use flow::FlowChoice;
pub use outcomes::{LiveFrame, LiveOutcomes, SystemRun};
pub use replay::Replayed;

use super::{AriaModels, Scenario};
use crate::plan::live::{Engine, described};
use session::{Parts, REGIONS, Session};
use std::{
    ops::RangeInclusive,
    sync::{Arc, atomic::AtomicBool},
};
use video::Video;
use vitempo_aria::Grid;
use vitempo_planners::aria::System;
use vitempo_profiler::{live::Rig, pinning::Pinned};

/// Names of the engines: the processor of full frames, and that of regions.
pub const ENGINES: [&str; 2] = ["gpu", "npu"];

/// Frames of the video; it is played forwards and backwards in turn.
const RENDERED: usize = 90;
/// The systems for which the paper has figures, and ARIA with the paper's order of regions and with
/// whole windows.
const LIVE: [System; 6] = [
    System::NpuOnly,
    System::MobiSrLike,
    System::Base,
    System::Aria,
    System::PapersOrder,
    System::WholeWindows,
];

/// The options of a live run.
#[derive(Clone, Debug)]
pub struct LiveRequest {
    /// One engine for each name in [`ENGINES`].
    pub engines: Vec<Engine>,
    /// Camera frames that each system receives.
    pub frames: usize,
    /// Factor by which full frames take longer from the middle of a run on, at least 1.
    pub throttle: Option<f64>,
    /// What ARIA warps full frames by; by default the decoder's depth where it gives depth and labels,
    /// otherwise the camera's rotation.
    pub flow: Option<FlowChoice>,
    /// Set by the caller to stop between two frames.
    pub interrupted: Arc<AtomicBool>,
}

impl LiveRequest {
    /// The engines of the two processors.
    fn check(&self) -> Result<[Engine; 2], AriaLiveError> {
        if let Some(other) = self.engines.iter().find(|engine| !ENGINES.contains(&&*engine.name)) {
            return Err(AriaLiveError::UnknownEngine(other.name.clone()));
        }
        let one = |name: &'static str| {
            let mut found = self.engines.iter().filter(|engine| engine.name == name);
            let engine = found.next().ok_or(AriaLiveError::NoEngine(name))?;
            let second = found.next().map(|_| AriaLiveError::TwoEngines(name.to_owned()));
            second.map_or_else(|| Ok(engine.clone()), Err)
        };
        let throttle = self.throttle.filter(|factor| !(1.0..1e6).contains(factor));
        throttle.map_or(Ok(()), |factor| Err(AriaLiveError::Throttle(factor)))?;
        let [full_frames, regions] = ENGINES.map(one);
        Ok([full_frames?, regions?])
    }

    /// Frames before the throttling.
    fn unthrottled(&self) -> usize {
        self.frames / 2
    }

    /// Camera frames before the throttling and after it, and the factor by which full frames take
    /// longer in them; all frames where there is none.
    fn parts(&self) -> Vec<(RangeInclusive<u64>, f64)> {
        let (half, all) = (self.unthrottled() as u64, self.frames as u64);
        let parts = match self.throttle {
            None => vec![(1..=all, 1.0)],
            Some(factor) => vec![(1..=half, 1.0), (half + 1..=all, factor)],
        };
        parts.into_iter().filter(|(frames, _)| !frames.is_empty()).collect()
    }
}

/// The progress of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveStep {
    /// The video is being rendered.
    Rendering {
        /// Number of pictures.
        frames: usize,
        /// Patches of each picture.
        rows: usize,
        /// Patches of each picture.
        cols: usize,
    },
    /// A system is running.
    Running {
        /// The system.
        system: System,
        /// Number of its frames.
        frames: usize,
    },
}

/// Measures cycles and full frames alone, then runs the systems one after the other.
///
/// ```no_run
/// use vitempo::plan::{aria::{AriaModels, Scenario, live::{LiveRequest, run}}, live::Engine};
/// # fn of(scenario: &Scenario, models: &AriaModels) -> Result<(), Box<dyn std::error::Error>> {
/// let engine = |name: &str, core| Engine {
///     name: name.to_owned(),
///     backend: "onnxruntime".to_owned(),
///     cores: vec![core],
/// };
/// let request = LiveRequest {
///     engines: vec![engine("gpu", 0), engine("npu", 1)],
///     frames: 300,
///     throttle: Some(3.7),
///     flow: None,
///     interrupted: Default::default(),
/// };
/// let outcomes = run(scenario, models, &request, &mut |step| println!("{step:?}"))?;
/// println!("{} cycles fit, {} were planned", outcomes.cycles_that_fit(), outcomes.planned_cycles);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`AriaLiveError`] naming the engine, size or tensor that is wrong; also when the user
/// interrupts.
pub fn run(
    scenario: &Scenario,
    models: &AriaModels,
    request: &LiveRequest,
    say: &mut dyn FnMut(LiveStep),
) -> Result<LiveOutcomes, AriaLiveError> {
    let engines = request.check()?;
    let (plan, requirements) = (&scenario.plan, &scenario.requirements);
    let top_level = plan
        .usable()
        .next_back()
        .ok_or(AriaLiveError::NothingFits { target_ns: requirements.target_ns })?;
    let top = Grid::new(top_level.rows, top_level.cols)?;
    let (parts, graphs) = Parts::of(scenario, models, top)?;
    let scene = Video::scene(parts.channels, top, scenario.costs.patch)?;
    let flow = flow::source(request.flow.as_ref(), models, scene.camera(), parts.sees)?;
    say(LiveStep::Rendering { frames: RENDERED, rows: top.rows(), cols: top.cols() });
    let video = Video::of(scene, RENDERED);
    let rig = Rig::start(&engines.each_ref().map(Engine::processor), graphs)?;
    let described = described(&engines, &rig);
    let session = Session { rig, video: &video, scenario, parts, flow, request };
    let alone = session.alone()?;
    let references = session.references()?;
    let mut runs = Vec::new();
    // The application waits while regions are encoded: it shares their core, and full frames have
    // theirs for themselves. Where that is refused, it runs where the system puts it.
    let _core = Pinned::on(&engines[REGIONS].cores);
    for system in LIVE {
        say(LiveStep::Running { system, frames: request.frames });
        runs.push(systems::run(&session, system, &alone, &references)?);
    }
    Ok(LiveOutcomes {
        engines: described,
        flow: session.flow.clone(),
        replayed: replay::replayed(&session, &alone, &runs)?,
        runs,
        cycle_ns: alone.cycle_ns,
        full_ns: alone.full_ns.iter().map(|full| full[0]).collect(),
        decoder_ns: alone.decoder_ns,
        planned_cycles: plan.cycles,
        forecast_cycle_ns: plan.region.cycle.point_ns(),
        target_ns: requirements.target_ns,
        overhead_ns: top_level.rest_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::read;
    use vitempo_planners::aria::{AriaCosts, Requirements};

    #[test]
    fn engines_are_asked_for_by_name_and_plans_that_do_not_fit_are_refused() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/models/vit_tiny_patch16_224.onnx");
        let encoder = read(&path, &Default::default()).expect("a model that ships").graph;
        let models = AriaModels::new(encoder, None, None).expect("models");
        let (costs, device) = AriaCosts::paper_phone().expect("what ships");
        let scenario = Scenario::new(costs, device, Requirements::for_target(1e3)).expect("a plan");
        let engine = |name: &str| Engine {
            name: name.to_owned(),
            backend: "null".to_owned(),
            cores: Vec::new(),
        };
        let mut request = LiveRequest {
            engines: vec![engine("gpu")],
            frames: 1,
            throttle: None,
            flow: None,
            interrupted: Arc::default(),
        };
        let refused = run(&scenario, &models, &request, &mut |_| {});
        assert!(matches!(refused, Err(AriaLiveError::NoEngine("npu"))), "{refused:?}");
        request.engines.push(engine("npu"));
        let refused = run(&scenario, &models, &request, &mut |_| {});
        assert!(matches!(refused, Err(AriaLiveError::NothingFits { .. })), "{refused:?}");
        let refused = |change: &dyn Fn(&mut LiveRequest)| {
            let mut changed = request.clone();
            change(&mut changed);
            run(&scenario, &models, &changed, &mut |_| {}).map(|_| ()).map_err(|e| e.to_string())
        };
        let says = |refused: Result<(), String>, what: &str| {
            assert!(refused.as_ref().is_err_and(|e| e.contains(what)), "{refused:?}");
        };
        says(refused(&|request| request.engines.push(engine("gpu"))), "`gpu` has two engines");
        says(refused(&|request| request.engines.push(engine("tpu"))), "`tpu` is no processor");
        for factor in [0.5, f64::NAN] {
            says(refused(&|request| request.throttle = Some(factor)), "times as long");
        }
    }
}

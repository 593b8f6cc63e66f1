//! [`replayed`]: the simulator over the frames that were run, with the latencies that were measured.

use super::{
    AriaLiveError, SystemRun,
    session::{Alone, Session},
};
use std::ops::RangeInclusive;
use vitempo_planners::{
    aria::{
        AriaCosts, AriaDevice, AriaOutcome, Forecast, RegionEncoder, Setup, Simulation, System,
        Trace, Truth,
    },
    simulator::ProcessorModel,
};
use vitempo_profiler::statistics;

/// What the simulator says of a part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The camera frames.
    pub frames: RangeInclusive<u64>,
    /// Factor by which full frames took longer.
    pub slowdown: f64,
    /// Of the same plan on the same frames.
    pub outcome: AriaOutcome,
}

/// What the simulator says of each run: of its frames before the throttling, and of those after it.
pub fn replayed(
    session: &Session<'_>,
    alone: &Alone,
    runs: &[SystemRun],
) -> Result<Vec<Vec<Replayed>>, AriaLiveError> {
    let mut all = vec![Vec::new(); runs.len()];
    for (frames, slowdown) in session.request.parts() {
        let trace = Trace {
            grid: session.top(),
            frames_per_s: 1e9 / session.scenario.requirements.frame_ns,
            frames: frames.clone().map(|frame| session.video.motion(frame as usize)).collect(),
        };
        let costs = measured(session, alone, runs, slowdown);
        let device = AriaDevice {
            processors: ["cpu", "gpu", "npu"].map(ProcessorModel::named).to_vec(),
            spread: alone.spread,
            ..session.scenario.device.clone()
        };
        let simulation = Simulation {
            trace: &trace,
            costs: &costs,
            device: &device,
            requirements: session.scenario.requirements,
            truth: Truth::Deviations(0.0),
            seed: 0,
        };
        for (run, all) in runs.iter().zip(&mut all) {
            let outcome = simulation.run_planned(with_measured(&run.setup, alone, slowdown))?;
            all.push(Replayed { frames: frames.clone(), slowdown, outcome });
        }
    }
    Ok(all)
}

/// A plan whose region encoder takes what was measured: that of blocks, or that of cycles.
fn with_measured(setup: &Setup, alone: &Alone, slowdown: f64) -> Setup {
    let cycle_ns = match setup.system {
        System::MobiSrLike => alone.block_ns[0],
        _ => alone.cycle_ns[1],
    };
    let region = RegionEncoder {
        cycle: Forecast::exact(cycle_ns as f64),
        elsewhere: Forecast::exact(alone.block_ns[1] as f64 * slowdown),
        ..setup.region.clone()
    };
    Setup { region, ..setup.clone() }
}

/// The scenario's costs with what was measured in place of forecasts.
fn measured(session: &Session<'_>, alone: &Alone, runs: &[SystemRun], factor: f64) -> AriaCosts {
    let mut costs = session.scenario.costs.clone();
    for (level, (full, decoder)) in
        costs.levels.iter_mut().zip(alone.full_ns.iter().zip(&alone.decoder_ns))
    {
        level.full_frame = Forecast::exact(full[0] as f64 * factor);
        level.alone = Forecast::exact(full[1] as f64);
        level.decoder = Forecast::exact((*decoder as f64).max(1.0));
    }
    let top_decoder = alone.decoder_ns.last().copied().unwrap_or(0);
    let cycle = alone.cycle_ns[1];
    // What is left of a frame is its step on the CPU.
    let step = |system: System| {
        let run = runs.iter().find(|run| run.setup.system == system)?;
        let rests: Vec<u64> = run
            .frames
            .iter()
            .map(|f| f.latency_ns.saturating_sub(top_decoder + f.cycles * cycle))
            .collect();
        statistics::median(&rests).map(|ns| Forecast::exact(ns.max(1.0)))
    };
    costs.frame_step = step(System::Aria).unwrap_or(costs.frame_step);
    costs.baselines.block_matching = step(System::Base).unwrap_or(costs.baselines.block_matching);
    costs.patch_flow = Forecast::exact(1.0);
    costs
}

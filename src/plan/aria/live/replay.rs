//! [`replayed`]: the simulator over the frames that were run, with the latencies that were measured.

use super::{
    AriaLiveError, SystemRun,
    session::{Alone, Session},
};
use vitempo_planners::{
    aria::{
        AriaCosts, AriaDevice, AriaOutcome, Forecast, RegionEncoder, Requirements, Setup,
        Simulation, System, Trace, Truth,
    },
    simulator::ProcessorModel,
};
use vitempo_profiler::statistics;

/// What the simulator says of each run, with its plan: of frames before the throttling, and of those
/// after it.
pub fn replayed(
    session: &Session<'_>,
    alone: &Alone,
    runs: &[SystemRun],
) -> Result<Vec<Vec<AriaOutcome>>, AriaLiveError> {
    let parts = session.request.throttle.map_or(vec![1.0], |factor| vec![1.0, factor]);
    let mut all = Vec::new();
    for run in runs {
        let mut simulated = Vec::new();
        for (number, factor) in parts.iter().enumerate() {
            let frames = session.request.frames;
            let each = frames.div_ceil(parts.len());
            let within = (1 + number * each)..=((number + 1) * each).min(frames);
            let trace = Trace {
                grid: session.top(),
                frames_per_s: 1e9 / session.scenario.requirements.frame_ns,
                frames: within.map(|frame| session.video.motion(frame)).collect(),
            };
            simulated.push(simulation(session, alone, runs, &trace, *factor, &run.setup)?);
        }
        all.push(simulated);
    }
    Ok(all)
}

fn simulation(
    session: &Session<'_>,
    alone: &Alone,
    runs: &[SystemRun],
    trace: &Trace,
    factor: f64,
    setup: &Setup,
) -> Result<AriaOutcome, AriaLiveError> {
    let costs = measured(session, alone, runs, factor);
    let elsewhere = Forecast::exact(alone.block_ns[1] as f64 * factor);
    let (cycle, elsewhere) = match setup.system {
        System::MobiSrLike => (Forecast::exact(alone.block_ns[0] as f64), elsewhere),
        _ => (Forecast::exact(alone.cycle_ns[1] as f64), elsewhere),
    };
    let region = RegionEncoder { cycle, elsewhere, ..setup.region.clone() };
    let named = |name: &str| ProcessorModel::named(name);
    let device = AriaDevice {
        processors: vec![named("cpu"), named("gpu"), named("npu")],
        spread: alone.spread,
        ..session.scenario.device.clone()
    };
    let requirements = Requirements { spread: alone.spread, ..session.scenario.requirements };
    let simulation = Simulation {
        trace,
        costs: &costs,
        device: &device,
        requirements,
        truth: Truth::Deviations(0.0),
        seed: 0,
    };
    Ok(simulation.run_planned(Setup { region, ..setup.clone() })?)
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

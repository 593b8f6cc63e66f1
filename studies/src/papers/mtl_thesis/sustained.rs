//! The thesis's four placements for ten minutes on a phone that gets warm: a scenario in which
//! nearly every estimate of the simulator takes part, to find out on which of them a ranking of the
//! placements hangs.
//!
//! Stage times are the printed sequential ones: what sharing, contention, dispatching and heat make
//! of them is simulated. Nothing here is compared with a printed figure; the thesis ran for ten
//! seconds.

use super::{PAIRS, PaperError, SEQUENTIAL, SplitRow, Tables};
use serde::Serialize;
use vitempo::planners::simulator::{
    Camera, Contention, Dvfs, Gate, ProcessorModel, Scenario, ScenarioError, Source, StageModel,
    Stream, Task, Thermal, Throttle, constants::Constants, sensitivity::sweep, simulate,
};

const SECONDS: u64 = 600;
const AMBIENT_C: f64 = 25.0;
/// Frequencies of the processor of the AR energy study, which its power law is fitted to, GHz.
const CPU_GHZ: [f64; 6] = [0.3, 0.72, 1.19, 1.5, 2.26, 2.65];
/// Steps of an accelerator, as shares of its highest frequency.
const NPU_STEPS: [f64; 4] = [0.4, 0.6, 0.8, 1.0];

/// By how much estimates are moved.
const MOVED: f64 = 0.3;

/// A placement over ten minutes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sustained {
    /// Where the encoder and the decoders run.
    pub placement: String,
    /// With every constant as it is.
    pub frames_per_s: f64,
    /// The least with one estimate moved by 30 %.
    pub lowest: f64,
    /// The most with one estimate moved by 30 %.
    pub highest: f64,
}

/// [`sustained_rates`] of the four placements, as they are and over every estimate.
///
/// # Errors
/// [`PaperError`] when a file is damaged.
pub fn sustained() -> Result<Vec<Sustained>, PaperError> {
    let usual = sustained_rates(&Constants::default())?;
    let moved = sweep(&Constants::default(), MOVED, |c| sustained_rates(c).unwrap_or_default());
    let of = |(index, (encoder, decoders)): (usize, (&str, &str))| {
        let rates = moved.iter().flat_map(|m| [&m.low, &m.high]).filter_map(|r| r.get(index));
        let frames_per_s = usual.get(index).copied().unwrap_or(f64::NAN);
        Sustained {
            placement: format!("encoder on {encoder}, decoders on {decoders}"),
            frames_per_s,
            lowest: rates.clone().copied().fold(frames_per_s, f64::min),
            highest: rates.copied().fold(frames_per_s, f64::max),
        }
    };
    Ok(PAIRS.into_iter().enumerate().map(of).collect())
}

/// Frames per second of each placement (encoder on NPU or CPU, decoders on either, as in table
/// 4.6), overlapped, over ten minutes.
///
/// # Errors
/// [`PaperError`] when the tables are damaged.
pub fn sustained_rates(constants: &Constants) -> Result<Vec<f64>, PaperError> {
    let tables = Tables::read()?;
    PAIRS
        .iter()
        .map(|&(encoder, decoders)| {
            Ok(rate(tables.split(SEQUENTIAL, encoder, decoders)?, constants)?)
        })
        .collect()
}

fn rate(row: &SplitRow, constants: &Constants) -> Result<f64, ScenarioError> {
    let task = |processor: &str, ms: f64| Task {
        processor: usize::from(processor == "cpu"),
        compute_ns: (ms * 1e6) as u64,
        cv: constants.latency_cv,
        ..Task::default()
    };
    let stage = |name: &str, task: Task| StageModel {
        name: name.to_owned(),
        queue: 1,
        steps: vec![vec![task]],
    };
    let stages = vec![
        stage("encoder", task(&row.encoder, row.encoder_ms)),
        stage("decoders", task(&row.decoders, row.both_ms - row.encoder_ms)),
    ];
    let camera =
        Source::Camera(Camera { period_ns: (1e9 / constants.camera_fps) as u64, gate: Gate::Next });
    let streams = vec![Stream::new(format!("{}-{}", row.encoder, row.decoders), camera, stages)];
    let scenario = Scenario {
        contention: Contention {
            from: constants.contention_from,
            to: constants.contention_to,
            most: constants.contention_most,
        },
        base_w: constants.background_w,
        thermal: Some(thermal(constants)),
        ..Scenario::new(vec![npu(constants), cpu(constants)], streams, SECONDS * 1_000_000_000)
    };
    Ok(simulate(&scenario, 0)?.frames_per_s(0))
}

fn npu(constants: &Constants) -> ProcessorModel {
    ProcessorModel {
        dvfs: Some(Dvfs {
            levels_ghz: NPU_STEPS.to_vec(),
            a_w_per_ghz: constants.npu_w,
            b_w_per_ghz3: 0.0,
        }),
        dispatch_ns: constants.dispatch_npu_ns as u64,
        bandwidth_share: constants.npu_bandwidth_share,
        ..ProcessorModel::named("npu")
    }
}

fn cpu(constants: &Constants) -> ProcessorModel {
    ProcessorModel {
        dvfs: Some(Dvfs {
            levels_ghz: CPU_GHZ.to_vec(),
            a_w_per_ghz: constants.cpu_a_w_per_ghz,
            b_w_per_ghz3: constants.cpu_b_w_per_ghz3,
        }),
        dispatch_ns: constants.dispatch_cpu_ns as u64,
        bandwidth_share: constants.cpu_bandwidth_share,
        ..ProcessorModel::named("cpu")
    }
}

fn thermal(constants: &Constants) -> Thermal {
    let throttle = Throttle::PowerAllocator {
        switch_on_c: constants.throttle_on_c,
        desired_c: constants.throttle_desired_c,
        sustainable_w: constants.sustainable_w,
        k_p_w_per_k: constants.throttle_w_per_k,
        k_i_w_per_k: 0.0,
    };
    Thermal::estimated(constants, AMBIENT_C, throttle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_estimate_is_tried_and_the_two_best_placements_survive_them_all() {
        let rates = |constants: &Constants| sustained_rates(constants).expect("the tables");
        let usual = rates(&Constants::default());
        println!("frames/s of {PAIRS:?}: {usual:.2?}");
        let moved = sweep(&Constants::default(), MOVED, rates);
        for m in &moved {
            let part = if m.took_part { "" } else { "   took no part" };
            println!(
                "{:<26} low {:.2?} high {:.2?} ranking survives: {}{part}",
                m.constant.name, m.low, m.high, m.ranking_survives
            );
        }
        let idle: Vec<&str> =
            moved.iter().filter(|m| !m.took_part).map(|m| m.constant.name).collect();
        assert_eq!(idle, ["dispatch_gpu_ns"], "the thesis used no GPU");
        for m in &moved {
            for rates in [&m.low, &m.high] {
                let (best, second, others) = (rates[0], rates[1], &rates[2..]);
                assert!(
                    best > second && others.iter().all(|&other| second > other),
                    "{}: {rates:?}",
                    m.constant.name
                );
            }
        }
    }
}

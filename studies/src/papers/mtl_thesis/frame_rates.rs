//! The thesis's frame rates, simulated.
//!
//! The application takes the next frame of a 30 Hz camera when it has finished (sequential), or
//! when its encoder has handed over to the decoders' queue of one (pipelined). Stage times are the
//! printed ones of the same row: they were measured while the other stage ran, so they contain what
//! sharing a processor cost, and the stages are simulated side by side. Free constants (spread,
//! overhead per frame) are fitted on rows of other tables than those that are compared.

use super::{PIPELINED, PaperError, SEQUENTIAL, SplitRow, Tables};
use crate::papers::claim::{Basis, Reproduced, mape};
use vitempo::planners::{
    Evidence,
    simulator::{
        Camera, Gate, ProcessorModel, Scenario, ScenarioError, Source, StageModel, Stream, Task,
        constants::Constants, simulate,
    },
};

/// Constants that the tables do not print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// Spread of stage times.
    pub cv: f64,
    /// Per frame, beside the printed runtime.
    pub overhead_ms: f64,
}

/// One row to simulate: stage times in ms, and the printed frame rate.
struct Row {
    table: String,
    what: String,
    stages_ms: Vec<f64>,
    frames_per_s: f64,
}

fn sequential_rows(tables: &Tables) -> Vec<Row> {
    let whole = tables.whole.iter().map(|w| Row {
        table: w.table.clone(),
        what: format!("{} on {}", w.model, w.processor),
        stages_ms: vec![w.runtime_ms],
        frames_per_s: w.frames_per_s,
    });
    let split = tables.split.iter().filter(|s| s.table == SEQUENTIAL).map(|s| Row {
        table: s.table.clone(),
        what: format!("{}-{} sequential", s.encoder, s.decoders),
        stages_ms: vec![s.both_ms],
        frames_per_s: s.frames_per_s,
    });
    whole.chain(split).collect()
}

fn pipelined_rows(tables: &Tables) -> Vec<Row> {
    let row = |s: &SplitRow| Row {
        table: s.table.clone(),
        what: format!("{}-{} pipelined", s.encoder, s.decoders),
        stages_ms: vec![s.encoder_ms, s.both_ms - s.encoder_ms],
        frames_per_s: s.frames_per_s,
    };
    tables.split.iter().filter(|s| s.table == PIPELINED).map(row).collect()
}

/// The simulator's frame rate for one row: ten trials of ten seconds, as in the thesis; results per
/// second from the first result to the last.
fn frame_rate(row: &Row, camera_fps: f64, fitted: Fitted) -> Result<f64, ScenarioError> {
    const TRIALS: u64 = 10;
    const TRIAL_NS: u64 = 10_000_000_000;
    let stage = |(index, &ms): (usize, &f64)| {
        let overhead = if index == 0 { fitted.overhead_ms } else { 0.0 };
        let task = Task {
            processor: index,
            compute_ns: ((ms + overhead) * 1e6) as u64,
            cv: fitted.cv,
            ..Task::default()
        };
        StageModel { name: format!("stage {index}"), queue: 1, steps: vec![vec![task]] }
    };
    let stages: Vec<StageModel> = row.stages_ms.iter().enumerate().map(stage).collect();
    let processors =
        (0..stages.len()).map(|index| ProcessorModel::named(format!("lane {index}"))).collect();
    let camera = Source::Camera(Camera { period_ns: (1e9 / camera_fps) as u64, gate: Gate::Next });
    let scenario =
        Scenario::new(processors, vec![Stream::new(row.what.clone(), camera, stages)], TRIAL_NS);
    let trials: Result<Vec<f64>, ScenarioError> = (0..TRIALS)
        .map(|seed| {
            simulate(&scenario, seed).map(|o| o.streams[0].period_ns().map_or(0.0, |ns| 1e9 / ns))
        })
        .collect();
    trials.map(|rates| rates.iter().sum::<f64>() / TRIALS as f64)
}

fn simulated(
    rows: &[&Row],
    camera_fps: f64,
    fitted: Fitted,
) -> Result<Vec<Reproduced>, ScenarioError> {
    let one = |row: &&Row| -> Result<Reproduced, ScenarioError> {
        let modelled = frame_rate(row, camera_fps, fitted)?;
        Ok(Reproduced {
            what: row.what.clone(),
            printed: row.frames_per_s,
            modelled,
            evidence: Evidence::Simulation,
            basis: Basis::Predicted,
        })
    };
    rows.iter().map(one).collect()
}

/// The constants with the least mean error on some rows.
fn fit(rows: &[&Row], camera_fps: f64) -> Result<Fitted, ScenarioError> {
    let mut best = (f64::INFINITY, Fitted { cv: 0.0, overhead_ms: 0.0 });
    for cv in [0.05, 0.1, 0.15, 0.2, 0.3] {
        for overhead_ms in [0.0, 1.0, 2.0] {
            let fitted = Fitted { cv, overhead_ms };
            let error = mape(&simulated(rows, camera_fps, fitted)?);
            if error < best.0 {
                best = (error, fitted);
            }
        }
    }
    Ok(best.1)
}

/// The thesis's frame rates, printed and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameRates {
    /// 13 rows of tables 3.4, 3.6, 4.1 and 4.5; constants fitted on the other three tables each
    /// time.
    pub sequential: Vec<Reproduced>,
    /// Table 4.6; constants fitted on all sequential rows.
    pub pipelined: Vec<Reproduced>,
    /// What was fitted for `pipelined`.
    pub fitted: Fitted,
}

/// Simulates every frame rate of the thesis.
///
/// # Errors
/// [`PaperError`] when the tables are damaged.
pub fn frame_rates(constants: &Constants) -> Result<FrameRates, PaperError> {
    let tables = Tables::read()?;
    let rows = sequential_rows(&tables);
    let mut sequential = Vec::new();
    let mut names: Vec<&str> = rows.iter().map(|r| r.table.as_str()).collect();
    names.dedup();
    for table in names {
        let (test, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.table == table);
        sequential.extend(simulated(
            &test,
            constants.camera_fps,
            fit(&others, constants.camera_fps)?,
        )?);
    }
    let fitted = fit(&rows.iter().collect::<Vec<_>>(), constants.camera_fps)?;
    let pipelined = simulated(
        &pipelined_rows(&tables).iter().collect::<Vec<_>>(),
        constants.camera_fps,
        fitted,
    )?;
    Ok(FrameRates { sequential, pipelined, fitted })
}

/// Simulated frame rates of the four pipelined placements, for a sweep over the constants; nothing
/// is fitted.
///
/// # Errors
/// [`PaperError`] when the tables are damaged.
pub fn pipelined_rates(constants: &Constants) -> Result<Vec<f64>, PaperError> {
    let rows = pipelined_rows(&Tables::read()?);
    let fitted = Fitted { cv: constants.latency_cv, overhead_ms: 0.0 };
    rows.iter().map(|row| Ok(frame_rate(row, constants.camera_fps, fitted)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::planners::simulator::sensitivity::sweep;

    #[test]
    fn frame_rates_come_out_of_the_simulator() {
        let rates = frame_rates(&Constants::default()).expect("the tables");
        for row in rates.sequential.iter().chain(&rates.pipelined) {
            println!(
                "{:<24} printed {:5.2}  simulated {:5.2}  {:+5.1} %",
                row.what,
                row.printed,
                row.modelled,
                100.0 * row.error()
            );
        }
        println!("sequential MAPE {:.2} %, {:?}", 100.0 * mape(&rates.sequential), rates.fitted);
        assert_eq!((rates.sequential.len(), rates.pipelined.len()), (13, 4));
        assert!(mape(&rates.sequential) < 0.03);
        for row in &rates.pipelined {
            let allowed = if row.what.starts_with("npu-npu") { 0.15 } else { 0.06 };
            assert!(row.error().abs() < allowed, "{}: {:.3}", row.what, row.error());
        }
    }

    #[test]
    fn which_placements_are_fast_does_not_hang_on_an_estimate() {
        let rates = |constants: &Constants| pipelined_rates(constants).expect("the tables");
        for moved in sweep(&Constants::default(), 0.3, rates) {
            println!(
                "{:<26} low {:.2?} high {:.2?} best survives: {}",
                moved.constant.name, moved.low, moved.high, moved.best_survives
            );
            for rates in [&moved.low, &moved.high] {
                // Whatever the camera and the spread: the encoder on the NPU beats the encoder on
                // the CPU.
                assert!(
                    rates[..2].iter().all(|npu| rates[2..].iter().all(|cpu| npu > cpu)),
                    "{}: {rates:?}",
                    moved.constant.name
                );
            }
        }
    }
}

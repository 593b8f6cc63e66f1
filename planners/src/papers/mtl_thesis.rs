//! A. Funk, "Efficient Multi-Task Learning for Augmented Reality" (thesis, Brown University): multi-task models split over a phone's CPU and NPU.
//!
//! [`claims`] recomputes its percentages; [`frame_rates`] lets the simulator find its frame rates. What is simulated: an application that takes the next
//! frame of a 30 Hz camera when it has finished (sequential), or when its encoder has handed over to the decoders' queue of one (pipelined). Stage times
//! are the printed ones of the same row: they were measured while the other stage ran, so they contain what sharing a processor cost, and the stages are
//! simulated side by side. Free constants (spread, overhead per frame) are fitted on rows of other tables than those that are compared.

use super::claim::{Claim, Figure, Reproduced, mape};
use crate::{
    Evidence,
    pipeline::multitask::percent_of_maximum,
    simulator::{Camera, Gate, ProcessorModel, Scenario, ScenarioError, Source, StageModel, Stream, Task, constants::Constants, simulate},
};
use serde::Deserialize;

/// A model run as one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Whole {
    pub table: String,
    pub model: String,
    pub processor: String,
    pub inference_ms: f64,
    /// With postprocessing.
    pub runtime_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
    pub delta_c: f64,
}

/// A model run as encoder and decoders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SplitRow {
    pub table: String,
    pub encoder: String,
    pub decoders: String,
    pub encoder_ms: f64,
    /// Encoder, waiting, decoders and postprocessing.
    pub both_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
    pub delta_c: f64,
    /// Table 4.7, pipelined rows only.
    pub percent_of_both: Option<f64>,
    pub percent_of_twice_encoder: Option<f64>,
}

/// Ten seconds of the switching policy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Switching {
    pub processor: String,
    pub frames_per_s: f64,
    pub final_c: f64,
}

/// Tables 3.2 and 3.3.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Device {
    pub name: String,
    pub inference_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Tables {
    pub whole: Vec<Whole>,
    pub split: Vec<SplitRow>,
    pub switching: Vec<Switching>,
    pub device: Vec<Device>,
}

/// Why the paper's rows cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PaperError {
    #[error("the shipped table of the paper is damaged: {0}")]
    Table(#[from] toml::de::Error),
    #[error("the shipped table of the paper has no row for {0}")]
    Row(String),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl Tables {
    /// The tables as shipped.
    ///
    /// # Errors
    /// [`PaperError::Table`] when the shipped file is damaged.
    pub fn shipped() -> Result<Self, PaperError> {
        Ok(toml::from_str(include_str!("../../data/mtl_thesis.toml"))?)
    }

    fn whole(&self, model: &str, processor: &str) -> Result<&Whole, PaperError> {
        let found = self.whole.iter().find(|w| w.model == model && w.processor == processor);
        found.ok_or_else(|| PaperError::Row(format!("{model} on {processor}")))
    }

    fn split(&self, table: &str, encoder: &str, decoders: &str) -> Result<&SplitRow, PaperError> {
        let found = self.split.iter().find(|s| s.table == table && s.encoder == encoder && s.decoders == decoders);
        found.ok_or_else(|| PaperError::Row(format!("{encoder}-{decoders} in table {table}")))
    }
}

const PAIRS: [(&str, &str); 4] = [("npu", "cpu"), ("npu", "npu"), ("cpu", "cpu"), ("cpu", "npu")];
const SEQUENTIAL: &str = "4.5";
const PIPELINED: &str = "4.6";

fn two(value: f64) -> Figure {
    Figure::new(value, 2)
}

/// New over old, in percent of the old value.
fn more(x: &[f64]) -> f64 {
    100.0 * (x[0] / x[1] - 1.0)
}

/// Every percentage of chapters 3 and 4 that its tables allow to recompute.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn claims() -> Result<Vec<Claim>, PaperError> {
    let tables = Tables::shipped()?;
    let mut claims = pipelining(&tables)?;
    claims.extend(scheduling(&tables)?);
    claims.extend(whole_models(&tables)?);
    Ok(claims)
}

/// Section 4.2 with tables 4.6 and 4.7.
fn pipelining(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let mut claims = Vec::new();
    let base = tables.split(SEQUENTIAL, "cpu", "cpu")?;
    let gaps = [1.15, 6.31, 16.10, 19.86];
    let over_sequential = [39.8, 49.4, 33.0, 44.5];
    let over_base = [Some(79.3), Some(61.6), None, Some(22.8)];
    for (index, (encoder, decoders)) in PAIRS.into_iter().enumerate() {
        let pair = format!("{encoder}-{decoders}");
        let (sequential, pipelined) = (tables.split(SEQUENTIAL, encoder, decoders)?, tables.split(PIPELINED, encoder, decoders)?);
        let fps = two(pipelined.frames_per_s);
        let columns = [(pipelined.percent_of_both, 1.0, pipelined.both_ms, "E+D"), (pipelined.percent_of_twice_encoder, 2.0, pipelined.encoder_ms, "2 E")];
        for (printed, times, ms, longest) in columns {
            let printed = printed.ok_or_else(|| PaperError::Row(format!("{pair} in table 4.7")))?;
            let formula = |x: &[f64]| percent_of_maximum(x[0], times * x[1]);
            claims.push(Claim::new("table 4.7", format!("eq. 4.1 for {pair}, M = {longest}"), two(printed), &[fps, two(ms)], formula));
        }
        let percentages = [pipelined.percent_of_both, pipelined.percent_of_twice_encoder].map(|p| two(p.unwrap_or(f64::NAN)));
        claims.push(Claim::new("section 4.2", format!("gap between the columns for {pair}"), two(gaps[index]), &percentages, |x| x[0] - x[1]));
        let rates = [fps, two(sequential.frames_per_s)];
        claims.push(Claim::new("section 4.2", format!("{pair} pipelined over sequential, %"), Figure::new(over_sequential[index], 1), &rates, more));
        if let Some(printed) = over_base[index] {
            let rates = [fps, two(base.frames_per_s)];
            claims.push(Claim::new("section 4.2", format!("{pair} pipelined over cpu-cpu sequential, %"), Figure::new(printed, 1), &rates, more));
        }
    }
    let best = tables.split(PIPELINED, "npu", "cpu")?;
    for (model, printed) in [("ResNet-18", 19.04), ("SwinDS-Q", 17.11)] {
        let inputs = [two(tables.whole(model, "cpu")?.frames_per_s), two(best.frames_per_s), two(base.frames_per_s)];
        claims.push(Claim::new("section 4.2", format!("{model} if it gained as much, 1/s"), two(printed), &inputs, |x| x[0] * x[1] / x[2]));
    }
    Ok(claims)
}

/// Section 4.1.2 with table 4.5.
fn scheduling(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let row = |encoder, decoders| tables.split(SEQUENTIAL, encoder, decoders);
    let base = row("cpu", "cpu")?;
    let rate = |row: &SplitRow| [two(row.frames_per_s), two(base.frames_per_s)];
    let warming = [two(row("npu", "cpu")?.delta_c), two(row("cpu", "npu")?.delta_c)];
    let whole = tables.whole("SwinDS-T", "cpu")?;
    let runtimes = [two(base.both_ms), two(whole.runtime_ms)];
    Ok(vec![
        Claim::new("section 4.1.2", "npu-cpu over cpu-cpu, frame rate, %", Figure::new(28.2, 1), &rate(row("npu", "cpu")?), more),
        Claim::new("section 4.1.2", "npu-npu over cpu-cpu, frame rate, %", Figure::new(8.1, 1), &rate(row("npu", "npu")?), more),
        Claim::new("section 4.1.2", "npu-cpu behind cpu-npu, warming, %", Figure::new(11.4, 1), &warming, more),
        Claim::new("section 4.1.2", "cpu-cpu over the whole model, runtime, %", Figure::new(53.0, 0), &runtimes, more),
    ])
}

type Column = fn(&Whole) -> f64;

/// Chapter 3 and section 4.1.1.
fn whole_models(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let both = |model, of: Column| -> Result<[Figure; 2], PaperError> { Ok([two(of(tables.whole(model, "npu")?)), two(of(tables.whole(model, "cpu")?))]) };
    let [inference, fps, energy, delta]: [Column; 4] = [|w| w.inference_ms, |w| w.frames_per_s, |w| w.energy_mwh, |w| w.delta_c];
    let one = |value| Figure::new(value, 1);
    let less = |x: &[f64]| -more(x);
    let (fast, slow) = (tables.whole("ResNet-18", "cpu")?, tables.whole("ResNet-50", "cpu")?);
    let m4000 = tables.device.get(1).ok_or_else(|| PaperError::Row("the second device".to_owned()))?;
    let watts = [two(m4000.energy_mwh), two(m4000.inference_ms)];
    Ok(vec![
        Claim::new("section 3.1.3", "ResNet-18 faster than ResNet-50, runtime, %", Figure::new(52.0, 0), &[two(slow.runtime_ms), two(fast.runtime_ms)], more),
        Claim::new("section 4.1.1", "ResNet-18 on the NPU: slower, frame rate, %", one(10.0), &both("ResNet-18", fps)?, less),
        Claim::new("section 4.1.1", "ResNet-18 on the NPU: more energy, %", one(8.7), &both("ResNet-18", energy)?, more),
        Claim::new("section 4.1.1", "ResNet-18 on the NPU: less warming, %", one(34.5), &both("ResNet-18", delta)?, less),
        Claim::new("section 4.1.1", "ResNet-50 on the NPU: more execution time, %", one(14.8), &both("ResNet-50", inference)?, more),
        Claim::new("section 4.1.1", "ResNet-50 on the NPU: lower frame rate, %", one(6.4), &both("ResNet-50", fps)?, less),
        Claim::new("section 4.1.1", "ResNet-50 on the NPU: more energy, %", one(48.1), &both("ResNet-50", energy)?, more),
        Claim::new("section 4.1.1", "ResNet-50 on the NPU: more warming, %", one(141.2), &both("ResNet-50", delta)?, more),
        Claim::new("section 4.1.1", "SwinDS-T on the NPU: less execution time, %", one(3.0), &both("SwinDS-T", inference)?, less),
        Claim::new("section 4.1.1", "SwinDS-T on the NPU: higher frame rate, %", one(2.3), &both("SwinDS-T", fps)?, more),
        Claim::new("section 4.1.1", "SwinDS-T on the NPU: more energy, %", one(12.5), &both("SwinDS-T", energy)?, more),
        Claim::new("section 4.1.1", "SwinDS-T on the NPU: more warming, %", one(405.0), &both("SwinDS-T", delta)?, more),
        // The S24's rows imply some 10 W; energy in mWh over a time in ms.
        Claim::new("table 3.3", "the M4000's power while inferring, at most 20 W", Figure::new(20.0, 0), &watts, |x| x[0] * 3.6 / (x[1] / 1e3)),
    ])
}

/// Constants that the tables do not print.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
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

/// The simulator's frame rate for one row: ten trials of ten seconds, as in the thesis; results per second from the first result to the last.
fn frame_rate(row: &Row, camera_fps: f64, fitted: Fitted) -> Result<f64, ScenarioError> {
    const TRIALS: u64 = 10;
    const TRIAL_NS: u64 = 10_000_000_000;
    let stage = |(index, &ms): (usize, &f64)| {
        let overhead = if index == 0 { fitted.overhead_ms } else { 0.0 };
        let task = Task { processor: index, compute_ns: ((ms + overhead) * 1e6) as u64, cv: fitted.cv, ..Task::default() };
        StageModel { name: format!("stage {index}"), queue: 1, steps: vec![vec![task]] }
    };
    let stages: Vec<StageModel> = row.stages_ms.iter().enumerate().map(stage).collect();
    let processors = (0..stages.len()).map(|index| ProcessorModel::named(format!("lane {index}"))).collect();
    let camera = Source::Camera(Camera { period_ns: (1e9 / camera_fps) as u64, gate: Gate::Next });
    let scenario = Scenario::new(processors, vec![Stream::new(row.what.clone(), camera, stages)], TRIAL_NS);
    let trials: Result<Vec<f64>, ScenarioError> =
        (0..TRIALS).map(|seed| simulate(&scenario, seed).map(|o| o.streams[0].period_ns().map_or(0.0, |ns| 1e9 / ns))).collect();
    trials.map(|rates| rates.iter().sum::<f64>() / TRIALS as f64)
}

fn simulated(rows: &[&Row], camera_fps: f64, fitted: Fitted) -> Result<Vec<Reproduced>, ScenarioError> {
    let one = |row: &&Row| -> Result<Reproduced, ScenarioError> {
        let modelled = frame_rate(row, camera_fps, fitted)?;
        Ok(Reproduced { what: row.what.clone(), printed: row.frames_per_s, modelled, evidence: Evidence::Simulation })
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
    /// 13 rows of tables 3.4, 3.6, 4.1 and 4.5; constants fitted on the other three tables each time.
    pub sequential: Vec<Reproduced>,
    /// Table 4.6; constants fitted on all sequential rows.
    pub pipelined: Vec<Reproduced>,
    /// What was fitted for `pipelined`.
    pub fitted: Fitted,
}

/// Simulates every frame rate of the thesis.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn frame_rates(constants: &Constants) -> Result<FrameRates, PaperError> {
    let tables = Tables::shipped()?;
    let rows = sequential_rows(&tables);
    let mut sequential = Vec::new();
    let mut names: Vec<&str> = rows.iter().map(|r| r.table.as_str()).collect();
    names.dedup();
    for table in names {
        let (test, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.table == table);
        sequential.extend(simulated(&test, constants.camera_fps, fit(&others, constants.camera_fps)?)?);
    }
    let fitted = fit(&rows.iter().collect::<Vec<_>>(), constants.camera_fps)?;
    let pipelined = simulated(&pipelined_rows(&tables).iter().collect::<Vec<_>>(), constants.camera_fps, fitted)?;
    Ok(FrameRates { sequential, pipelined, fitted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_come_out_and_contradictions_are_listed() {
        let claims = claims().expect("the shipped tables");
        let contradicted: Vec<&str> = claims.iter().filter(|c| !c.holds()).map(|c| c.what.as_str()).collect();
        let expected = [
            "cpu-cpu over the whole model, runtime, %",
            "ResNet-18 faster than ResNet-50, runtime, %",
            "ResNet-18 on the NPU: slower, frame rate, %",
            "ResNet-50 on the NPU: more execution time, %",
            "ResNet-50 on the NPU: lower frame rate, %",
            "SwinDS-T on the NPU: less execution time, %",
            "SwinDS-T on the NPU: more warming, %",
            "the M4000's power while inferring, at most 20 W",
        ];
        assert_eq!(contradicted, expected);
        assert!(claims.iter().filter(|c| c.place == "table 4.7").count() == 8);
        assert_eq!(claims.len() - contradicted.len(), 30);
    }

    #[test]
    fn frame_rates_come_out_of_the_simulator() {
        let rates = frame_rates(&Constants::default()).expect("the shipped tables");
        for row in rates.sequential.iter().chain(&rates.pipelined) {
            println!("{:<24} printed {:5.2}  simulated {:5.2}  {:+5.1} %", row.what, row.printed, row.modelled, 100.0 * row.error());
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
    fn switching_by_temperature_lost_frames_in_the_thesis_too() {
        let tables = Tables::shipped().expect("the shipped tables");
        let rates: Vec<f64> = tables.switching.iter().map(|s| s.frames_per_s).collect();
        assert!(rates[2..].iter().all(|after| rates[..2].iter().all(|before| after < before)));
        assert!(tables.switching.windows(2).all(|w| w[1].final_c >= w[0].final_c));
    }
}

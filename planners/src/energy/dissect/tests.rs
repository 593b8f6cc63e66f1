//! Dissections of recordings by the phase model, and of traces that know nothing of it.

use super::*;
use crate::energy::{FrameEnergy, Phase, Recording};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const BASE_W: f64 = 0.6;
const CAMERA_W: f64 = 2.5;

/// Touched at 0.2 s; from 1 s on 20 frames of conversion (0.4 s, 2.2 W), something else (0.05
/// s, 0.4 W) and inference (0.5 s, 3 W); 5 kHz.
fn measured() -> (PowerTrace, EventLog) {
    let phase = |name: &str, seconds, watts| Phase { name: name.to_owned(), seconds, watts };
    let phases =
        vec![phase("conversion", 0.4, 2.2), phase(OTHERS, 0.05, 0.4), phase("inference", 0.5, 3.0)];
    let frame = FrameEnergy { phases, base_w: BASE_W, camera_w: CAMERA_W };
    let recording = Recording {
        start_s: 1.0,
        starting_w: 7.0,
        samples_per_s: 5000.0,
        noise_w: 0.0,
        ..Recording::of(frame, 20)
    };
    recording.record().expect("a recording")
}

fn settings() -> Settings {
    Settings {
        monitor_flag_s: None,
        quiet_s: 0.1,
        cooling_off_s: 2.0,
        base_w: BASE_W,
        preview_w: BASE_W + CAMERA_W,
        averaging: Averaging::Moment,
        removes_drift: false,
    }
}

#[test]
fn a_camera_that_takes_more_than_there_is_is_refused() {
    let (trace, log) = measured();
    let with = |preview_w| dissect(&trace, &log, &Settings { preview_w, ..settings() });
    let refused = with(9.0);
    assert!(
        matches!(refused, Err(TraceError::Powers { alone_w: 9.0, frames_w }) if frames_w < 9.0),
        "{refused:?}"
    );
    assert!(with(4.0).is_ok());
}

#[test]
fn known_powers_come_back() {
    let (trace, log) = measured();
    let found = dissect(&trace, &log, &settings()).expect("a dissection");
    assert!((found.monitor_flag_s - 0.2).abs() < 1e-3);
    // Frames that start before 2.2 s are left out.
    assert_eq!((found.frames, found.left_out), (18, 2));
    let close = |a: f64, b: f64| (a - b).abs() < 0.01 * b;
    for (phase, expected) in found.phases.iter().zip([
        ("conversion", 0.4, 0.88),
        ("inference", 0.5, 1.5),
        ("others", 0.05, 0.02),
    ]) {
        assert_eq!(phase.phase, expected.0);
        assert!(
            close(phase.seconds, expected.1) && (phase.joules - expected.2).abs() < 0.01,
            "{phase:?}"
        );
    }
    assert!(
        close(found.camera_j, CAMERA_W * 0.95)
            && close(found.base_j, BASE_W * 0.95)
            && close(found.latency_s, 0.95)
    );
    let parts: f64 =
        found.phases.iter().map(|p| p.joules).sum::<f64>() + found.camera_j + found.base_j;
    assert!((parts - found.energy_j).abs() < 1e-9);
}

#[test]
fn what_cannot_be_taken_apart_is_explained() {
    let (trace, log) = measured();
    let message = |trace: &PowerTrace, log: &EventLog, settings: Settings| {
        dissect(trace, log, &settings).map_or_else(|e| e.to_string(), |_| "done".to_owned())
    };
    assert!(
        message(&trace, &log, Settings { cooling_off_s: 1e3, ..settings() })
            .starts_with("no frame is left: 20 are logged")
    );
    assert!(
        message(&trace, &log, Settings { preview_w: 0.1, ..settings() })
            .contains("the latter contains the former")
    );
    let flat = PowerTrace::new(vec![0.0, 1.0, 2.0], vec![1.0; 3]).expect("a trace");
    assert!(message(&flat, &log, settings()).starts_with("the quiet beginning of the trace"));
    let time = (0..500).map(|i| 0.01 * f64::from(i)).collect();
    let flat = PowerTrace::new(time, vec![1.0; 500]).expect("a trace");
    assert!(message(&flat, &log, settings()).starts_with("no flag event in the trace"));
    let mut overlapping = log.clone();
    overlapping.phases[1].start_s -= 0.2;
    assert!(
        message(&trace, &overlapping, settings())
            .contains("frame 0: `inference` starts before `conversion` ends")
    );
}

/// A phone whose powers are curves over time: what it logs, and what it really drew. It has nothing
/// of the phase model: conversion climbs with the clock, the network pulses, drawing fades out.
struct Phone {
    frames: Vec<[f64; 4]>,
    flag_s: f64,
}

const NAMES: [&str; 3] = ["conversion", "inference", "rendering"];

impl Phone {
    /// Frames of changing length, from 4 s on; phases begin at the first three times, the last is
    /// the frame's end.
    fn new(frames: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut at_s = 4.0;
        let frames = (0..frames)
            .map(|_| {
                let mut next = |usual: f64| {
                    let start_s = at_s;
                    at_s += usual * (0.85 + 0.3 * random.random::<f64>());
                    start_s
                };
                let starts = [next(0.4), next(0.5), next(0.16)];
                let end_s = at_s;
                at_s += 0.03;
                [starts[0], starts[1], starts[2], end_s]
            })
            .collect();
        Self { frames, flag_s: 1.5637 }
    }

    /// Power of the running phase and its index.
    fn phase_w(&self, at_s: f64) -> (usize, f64) {
        let frame = self.frames.partition_point(|f| f[0] <= at_s).checked_sub(1);
        let Some(frame) = frame.map(|index| self.frames[index]) else { return (3, 0.0) };
        let Some(phase) = (0..3).rev().find(|&p| frame[p] <= at_s) else { return (3, 0.0) };
        let (start_s, end_s) = (frame[phase], frame[phase + 1]);
        if at_s >= end_s {
            return (3, 0.4);
        }
        let (within_s, share) = (at_s - start_s, (at_s - start_s) / (end_s - start_s));
        let watts = match phase {
            0 => 1.2 + 2.0 * share,
            1 => 1.5 + if (within_s * 37.0).fract() < 0.6 { 3.0 } else { 0.0 },
            _ => 0.5 + 2.5 * (-within_s / 0.04).exp(),
        };
        (phase, watts)
    }

    fn end_s(&self) -> f64 {
        self.frames[self.frames.len() - 1][3]
    }

    fn watts(&self, at_s: f64) -> f64 {
        // The camera draws more at the start of each of its frames.
        let camera_w = CAMERA_W * (1.0 + 0.3 * (std::f64::consts::TAU * 15.0 * at_s).sin());
        match at_s {
            t if t < self.flag_s => BASE_W,
            t if t < 4.0 => 6.0,
            t if t > self.end_s() => BASE_W + camera_w,
            t => BASE_W + camera_w + self.phase_w(t).1,
        }
    }

    /// Mean energy of each phase per frame among those that count, by integration.
    fn truth(&self, from_s: f64) -> [f64; 3] {
        let counted: Vec<&[f64; 4]> = self.frames.iter().filter(|f| f[0] >= from_s).collect();
        let mut sums = [0.0; 3];
        const STEP_S: f64 = 2e-5;
        for frame in &counted {
            for phase in 0..3 {
                let steps = ((frame[phase + 1] - frame[phase]) / STEP_S) as usize;
                let at = |i: usize| frame[phase] + (i as f64 + 0.5) * STEP_S;
                sums[phase] += (0..steps).map(|i| self.phase_w(at(i)).1 * STEP_S).sum::<f64>();
            }
        }
        sums.map(|sum| sum / counted.len() as f64)
    }

    /// The log on a clock that is ahead, and faster by `ppm`.
    fn log(&self, ppm: f64) -> EventLog {
        let device = |at_s: f64| 4716.0 + at_s * (1.0 + 1e-6 * ppm);
        let mut phases = Vec::new();
        for (number, frame) in self.frames.iter().enumerate() {
            for (index, name) in NAMES.into_iter().enumerate() {
                phases.push(LoggedPhase {
                    frame: number as u64,
                    phase: name.to_owned(),
                    start_s: device(frame[index]),
                    end_s: device(frame[index + 1]),
                });
            }
        }
        EventLog { flag_s: device(self.flag_s), phases }
    }
}

/// How a monitor sees the phone.
#[derive(Clone, Copy, Debug)]
struct Sensor {
    samples_per_s: f64,
    /// Whether a sample is the mean since the last one, or the power at its time.
    averages: bool,
    noise_w: f64,
    drift_w_per_s: f64,
    /// Share of samples that are missing, beside two seconds without any.
    missing: f64,
}

impl Sensor {
    fn record(self, phone: &Phone, seed: u64) -> PowerTrace {
        let mut random = StdRng::seed_from_u64(seed);
        let step_s = 1.0 / self.samples_per_s;
        let (mut time_s, mut power_w) = (Vec::new(), Vec::new());
        for index in 0..((phone.end_s() + 2.0) / step_s) as u64 {
            let at_s = index as f64 * step_s;
            let noise_w = self.noise_w * (2.0 * random.random::<f64>() - 1.0);
            let gap = self.missing > 0.0 && (20.0..22.0).contains(&at_s);
            if gap || random.random::<f64>() < self.missing {
                continue;
            }
            let fine = 1000;
            let within =
                |i: i32| phone.watts(at_s - step_s * (f64::from(i) + 0.5) / f64::from(fine));
            let watts = match self.averages {
                true => (0..fine).map(within).sum::<f64>() / f64::from(fine),
                false => phone.watts(at_s),
            };
            time_s.push(at_s);
            power_w.push(watts + self.drift_w_per_s * at_s + noise_w);
        }
        PowerTrace::new(time_s, power_w).expect("a trace")
    }
}

#[test]
fn phases_of_a_phone_that_follows_no_model_are_found_within_5_percent() {
    let fast = Sensor {
        samples_per_s: 5000.0,
        averages: false,
        noise_w: 0.2,
        drift_w_per_s: 0.0,
        missing: 0.0,
    };
    let slow = Sensor { samples_per_s: 10.0, averages: true, noise_w: 0.02, ..fast };
    let sampled = Sensor { averages: false, ..slow };
    let mut wrong = Vec::new();
    for (sensor, ppm, frames) in [
        (fast, 0.0, 40),
        (fast, 120.0, 150),
        (Sensor { missing: 0.15, ..fast }, 60.0, 40),
        (Sensor { drift_w_per_s: 0.004, ..fast }, 0.0, 60),
        (slow, 0.0, 120),
        (slow, -120.0, 150),
        (Sensor { missing: 0.15, ..slow }, 60.0, 150),
        (Sensor { drift_w_per_s: 0.004, ..slow }, 0.0, 150),
        (sampled, 0.0, 600),
    ] {
        let phone = Phone::new(frames, 7);
        let trace = sensor.record(&phone, 11);
        let found = dissect(
            &trace,
            &phone.log(ppm),
            &Settings {
                quiet_s: 1.4,
                cooling_off_s: 5.0,
                averaging: match sensor.averages {
                    true => Averaging::Over(1.0 / sensor.samples_per_s),
                    false => Averaging::Moment,
                },
                removes_drift: sensor.drift_w_per_s > 0.0,
                ..settings()
            },
        )
        .expect("a dissection");
        assert!(found.frames > frames - 10, "{found:?}");
        let truth = phone.truth(phone.flag_s + 5.0);
        for (phase, (name, joules)) in found.phases.iter().zip(NAMES.into_iter().zip(truth)) {
            assert_eq!(phase.phase, name);
            let error = phase.joules / joules - 1.0;
            let (offset_s, clock_ppm) = (found.monitor_flag_s - phone.flag_s, found.clock_ppm);
            let line = format!(
                "{name}: {error:+.3}; {:.0} Hz, drift {:?}, {ppm} ppm found as {clock_ppm:.0}, off by \
                {offset_s:.4} s",
                sensor.samples_per_s, found.drift_w_per_s
            );
            println!("{line}");
            wrong.extend((error.abs() >= 0.05).then_some(line));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_slow_sensor_whose_averaging_is_not_said_is_wrong_and_one_too_slow_is_refused() {
    let phone = Phone::new(120, 3);
    let sensor = Sensor {
        samples_per_s: 10.0,
        averages: true,
        noise_w: 0.0,
        drift_w_per_s: 0.0,
        missing: 0.0,
    };
    let trace = sensor.record(&phone, 1);
    let at = |averaging_s| Settings {
        quiet_s: 1.0,
        averaging: if averaging_s > 0.0 { Averaging::Over(averaging_s) } else { Averaging::Moment },
        ..settings()
    };
    let joules = |averaging_s| {
        let found = dissect(&trace, &phone.log(0.0), &at(averaging_s)).expect("a dissection");
        found.phases[2].joules / phone.truth(phone.flag_s + 2.0)[2] - 1.0
    };
    let (said, unsaid) = (joules(0.1), joules(0.0));
    assert!(said.abs() < 0.05 && unsaid.abs() > said.abs(), "{said:+.3}, {unsaid:+.3}");
    let few =
        PowerTrace::new(vec![0.0, 1.6, 10.0, 400.0], vec![1.0, 6.0, 4.0, 4.0]).expect("a trace");
    let refused =
        dissect(&few, &phone.log(0.0), &Settings { monitor_flag_s: Some(1.5), ..at(0.0) });
    assert!(refused.is_err_and(|e| e.to_string().contains("the sensor is too slow")));
}

/// The largest error of a phase's energy, as a share.
fn worst(found: &Dissection, truth: [f64; 3]) -> f64 {
    let pairs = found.phases.iter().zip(truth);
    pairs.map(|(phase, joules)| (phase.joules / joules - 1.0).abs()).fold(0.0, f64::max)
}

const FAST: Sensor = Sensor {
    samples_per_s: 1000.0,
    averages: false,
    noise_w: 0.05,
    drift_w_per_s: 0.0,
    missing: 0.0,
};

#[test]
fn means_are_over_time_where_samples_are_dense_at_high_power() {
    let phone = Phone::new(40, 5);
    let (trace, log) = (FAST.record(&phone, 1), phone.log(0.0));
    let (time_s, power_w) = trace.samples();
    // A monitor that records each tenth sample, and all of those while conversion draws most.
    let is_high = |at_s: f64| matches!(phone.phase_w(at_s), (0, watts) if watts > 2.2);
    let kept = |i: &usize| i.is_multiple_of(10) || is_high(time_s[*i]);
    let kept: Vec<usize> = (0..time_s.len()).filter(kept).collect();
    let of = |values: &[f64]| kept.iter().map(|&i| values[i]).collect::<Vec<f64>>();
    let trace = PowerTrace::new(of(time_s), of(power_w)).expect("a trace");
    let settings = Settings { monitor_flag_s: Some(phone.flag_s), ..settings() };
    let found = dissect(&trace, &log, &settings).expect("a dissection");
    let truth = phone.truth(phone.flag_s + 2.0);
    let error = found.phases[0].joules / truth[0] - 1.0;
    assert!(error.abs() < 0.05, "{error}: {found:?}");
}

#[test]
fn late_means_cover_the_time_since_the_sample_before() {
    let phone = Phone::new(60, 5);
    let (trace, log) = (Sensor { noise_w: 0.0, ..FAST }.record(&phone, 1), phone.log(0.0));
    let end_s = trace.span_s().1;
    let (mut time_s, mut power_w) = (vec![0.0], vec![BASE_W]);
    for index in 0.. {
        // Each tenth sample comes five times as late.
        let (from_s, step_s) = (time_s[index], if index % 10 == 7 { 0.1 } else { 0.02 });
        if from_s + step_s > end_s {
            break;
        }
        time_s.push(from_s + step_s);
        power_w.push(trace.energy_j(from_s, from_s + step_s) / step_s);
    }
    let late = PowerTrace::new(time_s, power_w).expect("a trace");
    let with = |averaging| Settings { quiet_s: 1.0, averaging, ..settings() };
    let of = |averaging| dissect(&late, &log, &with(averaging)).expect("a dissection");
    let found = of(Averaging::SinceLast);
    let error = worst(&found, phone.truth(phone.flag_s + 2.0));
    assert!(error < 0.03 && found.notes.is_empty(), "{error}: {found:?}");
    let notes = of(Averaging::Over(0.02)).notes;
    assert!(matches!(notes[..], [Note::Irregular { share }] if share > 0.05), "{notes:?}");
}

#[test]
fn an_event_logged_before_the_power_rises_is_noted_and_shifts_no_clock() {
    let phone = Phone::new(60, 5);
    let trace = FAST.record(&phone, 1);
    let settings = Settings { quiet_s: 1.0, ..settings() };
    for early_s in [0.02, 0.08] {
        let log = phone.log(0.0);
        let log = EventLog { flag_s: log.flag_s - early_s, ..log };
        let found = dissect(&trace, &log, &settings).expect("a dissection");
        let best_s = match found.notes[..] {
            [Note::Flag { best_s, .. }, ..] => best_s,
            _ => panic!("{found:?}"),
        };
        assert!((best_s - (phone.flag_s - early_s)).abs() < 2e-3, "{best_s}");
        let given = Settings { monitor_flag_s: Some(best_s), ..settings };
        let found = dissect(&trace, &log, &given).expect("a dissection");
        let error = worst(&found, phone.truth(phone.flag_s + 2.0));
        assert!(error < 0.05 && found.notes.is_empty(), "{error}: {found:?}");
    }
}

#[test]
fn clocks_beyond_the_search_are_noted_and_few_frames_have_no_rate() {
    let found = |frames, ppm| {
        let phone = Phone::new(frames, 5);
        let settings = Settings { quiet_s: 1.0, ..settings() };
        dissect(&FAST.record(&phone, 1), &phone.log(ppm), &settings).expect("a dissection")
    };
    let fast = found(60, 600.0);
    let is_noted = fast.notes.iter().any(|note| matches!(note, Note::Clocks { .. }));
    assert!(is_noted, "{fast:?}");
    assert!(found(60, 100.0).notes.is_empty());
    assert_eq!(found(3, 100.0).clock_ppm, 0.0);
}

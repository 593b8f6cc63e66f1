//! Attributes the energy of a measured power trace to the phases in an application's log (AR energy
//! study, section III-C).
//!
//! 1. Clocks: t_monitor = t_monitor(flag) + (t_device - t_device(flag)).
//! 2. Cooling-off: frames that start within a given time after the flag are dropped, because the
//!    start of the application affects them.
//! 3. Isolation: within a phase, P(phase) = P(total) - P(camera and preview) - P(base), the latter
//!    two measured alone.
//! 4. Energy: the integral of P(phase) over the phase. The time between a frame's phases is called
//!    "others".

use super::trace::{EventLog, LoggedPhase, PowerTrace, TraceError};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the time between a frame's logged phases.
pub const OTHERS: &str = "others";

/// Parameters beside trace and log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Time of the flag event on the monitor's clock, s; `None`: found in the trace.
    pub monitor_flag_s: Option<f64>,
    /// Length of the quiet start of the trace, s; used to find the flag.
    pub quiet_s: f64,
    /// Frames that start within this time after the flag are dropped, s.
    pub cooling_off_s: f64,
    /// Mean power of the idle device, W.
    pub base_w: f64,
    /// Mean power of the device with only camera and preview running, base included, W.
    pub preview_w: f64,
}

/// One phase, mean over frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseEnergy {
    /// Name of the phase.
    pub phase: String,
    /// Mean time in it per frame, s.
    pub seconds: f64,
    /// Energy above camera and base, J.
    pub joules: f64,
}

/// The energy of a frame by part; all values are means over frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dissection {
    /// Number of frames in the means.
    pub frames: usize,
    /// Number of dropped frames: in the cooling-off period, or outside the trace.
    pub left_out: usize,
    /// Time of the flag event on the monitor's clock, s.
    pub monitor_flag_s: f64,
    /// Time from the start of the first phase to the end of the last, s.
    pub latency_s: f64,
    /// Energy in that time, J.
    pub energy_j: f64,
    /// In the order in which phases first occur; "others" last.
    pub phases: Vec<PhaseEnergy>,
    /// Camera and preview, J.
    pub camera_j: f64,
    /// System and screen, J.
    pub base_j: f64,
}

/// Converts a time of the device's clock into one of the monitor's clock.
#[must_use]
pub fn to_monitor_s(monitor_flag_s: f64, device_flag_s: f64, device_s: f64) -> f64 {
    monitor_flag_s + (device_s - device_flag_s)
}

/// Attributes the energy of a trace to phases.
///
/// # Errors
/// [`TraceError::Dissection`] when no flag can be found, a frame's phases overlap, or no frame is
/// left.
pub fn dissect(
    trace: &PowerTrace,
    log: &EventLog,
    settings: &Settings,
) -> Result<Dissection, TraceError> {
    let refuse = |reason: String| TraceError::Dissection(reason);
    let powers = [settings.base_w, settings.preview_w, settings.cooling_off_s];
    if powers.iter().any(|p| !p.is_finite() || *p < 0.0) || settings.preview_w < settings.base_w {
        let (base, preview) = (settings.base_w, settings.preview_w);
        return Err(refuse(format!(
            "base power {base} W and preview power {preview} W: the latter contains the former, \
            and both are 0 or more"
        )));
    }
    let found = settings.monitor_flag_s.or_else(|| trace.first_rise_s(settings.quiet_s));
    let monitor_flag_s = found.ok_or_else(|| {
        refuse(format!(
            "no flag event in the trace: after {} s the power never rises; give its time",
            settings.quiet_s
        ))
    })?;
    let monitor = |device_s: f64| to_monitor_s(monitor_flag_s, log.flag_s, device_s);
    let mut frames: BTreeMap<u64, Vec<&LoggedPhase>> = BTreeMap::new();
    log.phases.iter().for_each(|phase| frames.entry(phase.frame).or_default().push(phase));
    let mut order: Vec<&str> = Vec::new();
    log.phases.iter().for_each(|p| {
        if !order.contains(&p.phase.as_str()) {
            order.push(&p.phase);
        }
    });
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let (mut count, mut latency_s, mut energy_j) = (0usize, 0.0, 0.0);
    let beside_w = settings.preview_w;
    for (number, phases) in &mut frames {
        phases.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        let (start, end) = (
            monitor(phases[0].start_s),
            phases.iter().map(|p| monitor(p.end_s)).fold(f64::MIN, f64::max),
        );
        if let Some(pair) = phases.windows(2).find(|w| w[1].start_s < w[0].end_s) {
            return Err(refuse(format!(
                "frame {number}: `{}` starts before `{}` ends; phases of a frame follow each other",
                pair[1].phase, pair[0].phase
            )));
        }
        let measured = trace.span_s().0 <= start && end <= trace.span_s().1;
        if start < monitor_flag_s + settings.cooling_off_s || !measured {
            continue;
        }
        let whole = trace.energy_j(start, end);
        let mut rest = (end - start, whole - beside_w * (end - start));
        for phase in phases.iter() {
            let seconds = phase.end_s - phase.start_s;
            let joules =
                trace.energy_j(monitor(phase.start_s), monitor(phase.end_s)) - beside_w * seconds;
            let sum = sums.entry(&phase.phase).or_default();
            *sum = (sum.0 + seconds, sum.1 + joules);
            rest = (rest.0 - seconds, rest.1 - joules);
        }
        let others = sums.entry(OTHERS).or_default();
        *others = (others.0 + rest.0, others.1 + rest.1);
        (count, latency_s, energy_j) = (count + 1, latency_s + end - start, energy_j + whole);
    }
    if count == 0 {
        return Err(refuse(format!(
            "no frame is left: {} are logged, none starts {} s after the flag within the trace",
            frames.len(),
            settings.cooling_off_s
        )));
    }
    let mean = |sum: f64| sum / count as f64;
    let names = order.into_iter().filter(|&name| name != OTHERS).chain(std::iter::once(OTHERS));
    let phase = |name: &str| {
        sums.get(name).map(|s| PhaseEnergy {
            phase: name.to_owned(),
            seconds: mean(s.0),
            joules: mean(s.1),
        })
    };
    Ok(Dissection {
        frames: count,
        left_out: frames.len() - count,
        monitor_flag_s,
        latency_s: mean(latency_s),
        energy_j: mean(energy_j),
        phases: names.filter_map(phase).collect(),
        camera_j: (settings.preview_w - settings.base_w) * mean(latency_s),
        base_j: settings.base_w * mean(latency_s),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::{FrameEnergy, Phase, Recording};

    const BASE_W: f64 = 0.6;
    const CAMERA_W: f64 = 2.5;

    /// Touched at 0.2 s; from 1 s on 20 frames of conversion (0.4 s, 2.2 W), something else (0.05
    /// s, 0.4 W) and inference (0.5 s, 3 W); 5 kHz.
    fn measured() -> (PowerTrace, EventLog) {
        let phase = |name: &str, seconds, watts| Phase { name: name.to_owned(), seconds, watts };
        let phases = vec![
            phase("conversion", 0.4, 2.2),
            phase(OTHERS, 0.05, 0.4),
            phase("inference", 0.5, 3.0),
        ];
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
        }
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
        assert!(message(&flat, &log, settings()).starts_with("no flag event in the trace"));
        let mut overlapping = log.clone();
        overlapping.phases[1].start_s -= 0.2;
        assert!(
            message(&trace, &overlapping, settings())
                .contains("frame 0: `inference` starts before `conversion` ends")
        );
    }
}

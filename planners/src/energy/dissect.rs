//! Attributes the energy of a measured power trace to the phases in an application's log (AR energy
//! study, section III-C).
//!
//! 1. Clocks: t_monitor = t_monitor(flag) + (t_device - t_device(flag)); then the offset and the
//!    difference in speed at which the phases explain the trace best (`alignment`).
//! 2. Cooling-off: frames that start within a given time after the flag are dropped, because the
//!    start of the application affects them.
//! 3. Isolation: within a phase, P(phase) = P(total) - P(camera and preview) - P(base), the latter
//!    two measured alone. P(phase) is the mean over the time in that phase; a sample of a slow
//!    sensor that covers several phases is divided among them by least squares (`regression`).
//! 4. Energy: P(phase) times the time in the phase. The time between a frame's phases is called
//!    "others".

mod alignment;
mod notes;
mod regression;
mod samples;
#[cfg(test)]
mod tests;

pub use notes::Note;

use super::trace::{Averaging, EventLog, LoggedPhase, PowerTrace, SeenRise, TraceError};
use alignment::Problem;
use regression::Segment;
use samples::Samples;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the time between a frame's logged phases.
pub const OTHERS: &str = "others";

/// Parts of a phase by a sensor that averages.
const SLICES: usize = 3;
/// Fewer frames, or a shorter time of them, do not tell the rates of the clocks apart.
const RATE_FRAMES: usize = 4;
const RATE_SPAN_S: f64 = 10.0;

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
    /// The time that each sample covers.
    pub averaging: Averaging,
    /// Whether a linear drift of the sensor since the flag is removed.
    pub removes_drift: bool,
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
    /// By how much the monitor's clock is faster than the device's, parts per million.
    pub clock_ppm: f64,
    /// Drift of the sensor, W/s; `None` if none was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_w_per_s: Option<f64>,
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
    /// What makes these values less certain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Converts a time of the device's clock into one of the monitor's clock.
#[must_use]
pub fn to_monitor_s(monitor_flag_s: f64, device_flag_s: f64, device_s: f64) -> f64 {
    monitor_flag_s + (device_s - device_flag_s)
}

/// Attributes the energy of a trace to phases.
///
/// # Errors
/// [`TraceError::Dissection`] when no flag can be found, a frame's phases overlap, no frame is left,
/// or samples do not tell a phase apart from others.
pub fn dissect(
    trace: &PowerTrace,
    log: &EventLog,
    settings: &Settings,
) -> Result<Dissection, TraceError> {
    settings.check()?;
    let SeenRise { at_s: flag_s, earlier_s, later_s } = settings.flag(trace)?;
    let logged = Logged::of(log, flag_s)?;
    let counted = logged.counted(trace, flag_s + settings.cooling_off_s);
    if counted.is_empty() {
        return Err(TraceError::Dissection(format!(
            "no frame is left: {} are logged, none starts {} s after the flag within the trace",
            logged.frames.len(),
            settings.cooling_off_s
        )));
    }
    let segments = logged.segments(&counted);
    let problem = Problem {
        parts: logged.names.len() + 2,
        preview_w: settings.preview_w,
        drift_from_s: settings.removes_drift.then_some(flag_s),
        pivot_s: flag_s,
        uncertainty_s: (earlier_s, later_s),
        searches_rate: is_long(&counted),
    };
    let samples = Samples::of(trace, settings.averaging);
    // Parts without any time are no unknowns.
    let (segments, used) = compact(segments, problem.parts);
    let problem = Problem { parts: used.len(), ..problem };
    let aligned = problem.align(&samples, &segments);
    let alignment = aligned.kept;
    let slices = if settings.averaging == Averaging::Moment { 1 } else { SLICES };
    let fit = problem
        .fit_changing(&samples, &alignment.apply(&segments, flag_s), slices)
        .map_err(|part| logged.undetermined(used.get(part).copied()))?;
    let watts = |part: usize| {
        used.iter().position(|&known| known == part).map_or(0.0, |index| fit.watts[index])
    };
    let frames = counted.len() as f64;
    let seconds = |part: usize| {
        let of = |frame: &&Frame| frame.seconds(part, &logged);
        counted.iter().map(of).sum::<f64>() / frames
    };
    let latency_s = counted.iter().map(|f| f.end_s - f.start_s).sum::<f64>() / frames;
    let phases: Vec<PhaseEnergy> = logged
        .names
        .iter()
        .map(String::as_str)
        .chain([OTHERS])
        .enumerate()
        .map(|(part, name)| PhaseEnergy {
            phase: name.to_owned(),
            seconds: seconds(part),
            joules: watts(part) * seconds(part),
        })
        .filter(|phase| phase.seconds > 0.0 || phase.phase == OTHERS)
        .collect();
    let camera_j = (settings.preview_w - settings.base_w) * latency_s;
    let base_j = settings.base_w * latency_s;
    let own_j = phases.iter().map(|p| p.joules).sum::<f64>();
    if own_j < 0.0 {
        let alone_w = settings.preview_w;
        return Err(TraceError::Powers { alone_w, frames_w: alone_w + own_j / latency_s });
    }
    Ok(Dissection {
        frames: counted.len(),
        left_out: logged.frames.len() - counted.len(),
        monitor_flag_s: flag_s + alignment.offset_s,
        clock_ppm: 1e6 * alignment.rate,
        drift_w_per_s: settings.removes_drift.then(|| fit.watts[used.len()]),
        latency_s,
        energy_j: own_j + camera_j + base_j,
        phases,
        camera_j,
        base_j,
        notes: notes::of(trace, settings.averaging, flag_s, aligned),
    })
}

impl Settings {
    /// The flag event on the monitor's clock: as given, which is as exact as a sample, or found.
    fn flag(&self, trace: &PowerTrace) -> Result<SeenRise, TraceError> {
        let Some(at_s) = self.monitor_flag_s else {
            return trace.flag_event(self.quiet_s, self.averaging);
        };
        let (time_s, _) = trace.samples();
        let after = time_s.partition_point(|&t| t < at_s).clamp(1, time_s.len() - 1);
        let step_s = time_s[after] - time_s[after - 1];
        Ok(SeenRise { at_s, earlier_s: step_s, later_s: step_s })
    }

    fn check(&self) -> Result<(), TraceError> {
        let averaging_s = match self.averaging {
            Averaging::Over(seconds) => seconds,
            Averaging::Moment | Averaging::SinceLast => 0.0,
        };
        let numbers = [self.base_w, self.preview_w, self.cooling_off_s, averaging_s];
        if numbers.iter().all(|p| p.is_finite() && *p >= 0.0) && self.preview_w >= self.base_w {
            return Ok(());
        }
        let (base, preview) = (self.base_w, self.preview_w);
        Err(TraceError::Dissection(format!(
            "base power {base} W and preview power {preview} W: the latter contains the former, \
            and both are 0 or more"
        )))
    }
}

/// Whether frames are enough to tell the rates of two clocks apart.
fn is_long(frames: &[&Frame]) -> bool {
    let span_s = frames.last().map_or(0.0, |f| f.end_s) - frames.first().map_or(0.0, |f| f.start_s);
    frames.len() >= RATE_FRAMES && span_s >= RATE_SPAN_S
}

/// One logged frame, on the monitor's clock.
struct Frame {
    start_s: f64,
    end_s: f64,
    /// Logged phases, ascending: start, end, index of the name.
    phases: Vec<(f64, f64, usize)>,
}

/// The log, on the monitor's clock.
struct Logged {
    /// Names of logged phases but "others", in the order in which they first occur.
    names: Vec<String>,
    /// In the order of their times.
    frames: Vec<Frame>,
}

impl Logged {
    fn of(log: &EventLog, flag_s: f64) -> Result<Self, TraceError> {
        let monitor = |device_s: f64| to_monitor_s(flag_s, log.flag_s, device_s);
        let mut names: Vec<String> = Vec::new();
        for phase in &log.phases {
            if phase.phase != OTHERS && !names.contains(&phase.phase) {
                names.push(phase.phase.clone());
            }
        }
        let mut by_number: BTreeMap<u64, Vec<&LoggedPhase>> = BTreeMap::new();
        log.phases.iter().for_each(|phase| by_number.entry(phase.frame).or_default().push(phase));
        let mut frames = Vec::new();
        for (number, phases) in &mut by_number {
            phases.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
            if let Some(pair) = phases.windows(2).find(|w| w[1].start_s < w[0].end_s) {
                return Err(TraceError::Dissection(format!(
                    "frame {number}: `{}` starts before `{}` ends; phases of a frame follow each \
                    other",
                    pair[1].phase, pair[0].phase
                )));
            }
            // "Others" has the index behind the names.
            let index = |name: &str| names.iter().position(|n| n == name).unwrap_or(names.len());
            let phase = |p: &&LoggedPhase| (monitor(p.start_s), monitor(p.end_s), index(&p.phase));
            let phases: Vec<(f64, f64, usize)> = phases.iter().map(phase).collect();
            let end_s = phases.iter().map(|p| p.1).fold(f64::MIN, f64::max);
            frames.push(Frame { start_s: phases[0].0, end_s, phases });
        }
        frames.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        if let Some(pair) = frames.windows(2).find(|w| w[1].start_s < w[0].end_s - 1e-9) {
            return Err(TraceError::Dissection(format!(
                "two frames overlap: one ends {:.3} s after the next one starts; frames follow each \
                other",
                pair[0].end_s - pair[1].start_s
            )));
        }
        Ok(Self { names, frames })
    }

    /// Frames that count: after the cooling-off, and within the trace.
    fn counted(&self, trace: &PowerTrace, from_s: f64) -> Vec<&Frame> {
        let (start_s, end_s) = trace.span_s();
        let counts = |f: &&Frame| f.start_s >= from_s.max(start_s) && f.end_s <= end_s;
        self.frames.iter().filter(counts).collect()
    }

    /// The time from the first counted frame to the last as parts: phases by the index of their
    /// name, then others, then the time between frames.
    fn segments(&self, counted: &[&Frame]) -> Vec<Segment> {
        let (others, between) = (self.names.len(), self.names.len() + 1);
        let mut segments: Vec<Segment> = Vec::new();
        let mut add = |start_s: f64, end_s: f64, part| {
            if end_s > start_s {
                segments.push(Segment { start_s, end_s, part });
            }
        };
        let mut at_s = counted.first().map_or(0.0, |frame| frame.start_s);
        for frame in counted {
            add(at_s, frame.start_s, between);
            at_s = at_s.max(frame.start_s);
            for &(start_s, end_s, part) in &frame.phases {
                add(at_s, start_s, others);
                add(start_s.max(at_s), end_s, part);
                at_s = at_s.max(end_s);
            }
        }
        segments
    }

    fn undetermined(&self, part: Option<usize>) -> TraceError {
        let name = part.and_then(|p| self.names.get(p)).map_or(OTHERS, String::as_str);
        TraceError::Dissection(format!(
            "the samples do not tell `{name}` apart from the other phases: the sensor is too slow, \
            or there are too few frames"
        ))
    }
}

impl Frame {
    /// Time in a part, s.
    fn seconds(&self, part: usize, logged: &Logged) -> f64 {
        let of = |wanted: usize| {
            let of = |p: &&(f64, f64, usize)| p.2 == wanted;
            self.phases.iter().filter(of).map(|p| p.1 - p.0).sum::<f64>()
        };
        match part == logged.names.len() {
            true => {
                let named: f64 = (0..logged.names.len()).map(of).sum();
                (self.end_s - self.start_s - named).max(0.0)
            }
            false => of(part),
        }
    }
}

/// Segments whose parts are numbered without those that do not occur, and the parts that do.
fn compact(mut segments: Vec<Segment>, parts: usize) -> (Vec<Segment>, Vec<usize>) {
    let occurs = |part: &usize| segments.iter().any(|segment| segment.part == *part);
    let used: Vec<usize> = (0..parts).filter(occurs).collect();
    for segment in &mut segments {
        segment.part = used.iter().position(|&part| part == segment.part).unwrap_or(0);
    }
    (segments, used)
}

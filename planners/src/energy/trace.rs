//! Power traces of a monitor, and event logs of an application: two CSV files, each with its own
//! clock.
//!
//! A trace has a column `time_s` (or `Time (s)`) and either `power_w`, `power_mw`, or `current_ma` with `voltage_v`
//! (the headings of a Monsoon monitor are accepted). A log has `frame`, `phase`, `start_s`, `end_s`
//! in the device's clock; its row `flag` is an event that the monitor recorded as well, such as a
//! touch.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// Why a file is not a trace or a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A table cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: csv::Error,
    },
    /// A column is missing.
    #[error("{path}: has no column {wanted}; columns are {found}")]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        wanted: &'static str,
        /// Columns of the file.
        found: String,
    },
    /// A row that is not a reading or a phase.
    #[error("{path}, line {line}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// Rows that do not fit together.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No flag event in the trace, and its time is not given.
    #[error("no flag event in the trace: after {quiet_s} s the power never rises; give its time")]
    NoFlag {
        /// Length of the quiet beginning, s.
        quiet_s: f64,
    },
    /// The quiet beginning has too few samples to tell a rise from noise.
    #[error(
        "the quiet beginning of the trace, {quiet_s} s, has {samples} samples: to find the flag \
        event it needs {LEAST_QUIET} or more, which take {enough_s:.3} s"
    )]
    Quiet {
        /// Length of the quiet beginning, s.
        quiet_s: f64,
        /// Its samples.
        samples: usize,
        /// The length with enough samples, s.
        enough_s: f64,
    },
    /// Powers of the device without the application that are above those of the trace.
    #[error(
        "camera and base alone would take {alone_w:.3} W, and the frames of the trace take \
        {frames_w:.3} W: the power of base or preview is too large, or the trace is of another run"
    )]
    Powers {
        /// Power of camera, preview and base, W.
        alone_w: f64,
        /// Mean power in frames, W.
        frames_w: f64,
    },
    /// Trace and log that do not fit together.
    #[error("{0}")]
    Dissection(String),
}

/// Samples that the quiet beginning of a trace needs.
pub const LEAST_QUIET: usize = 10;
/// A rise lasts for so many samples; a spike is shorter.
const LASTS: usize = 3;
/// A rise of means is placed as exactly as noise of this many standard deviations lets it.
const NOISE_SIGMAS: f64 = 2.0;

/// How a sensor's samples cover time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Averaging {
    /// A sample is the power at its time.
    #[default]
    Moment,
    /// A sample is the mean over this time before it, s.
    Over(f64),
    /// A sample is the mean since the sample before it.
    SinceLast,
}

/// A rise of the power as the trace shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenRise {
    /// Its time, s.
    pub at_s: f64,
    /// By how much it may be earlier, s.
    pub earlier_s: f64,
    /// By how much it may be later, s.
    pub later_s: f64,
}

/// Power over the monitor's time.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerTrace {
    time_s: Vec<f64>,
    power_w: Vec<f64>,
}

/// One phase of one frame, in the device's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedPhase {
    /// Number of the frame.
    pub frame: u64,
    /// Name of the phase.
    pub phase: String,
    /// Time on the device's clock, s.
    pub start_s: f64,
    /// Time on the device's clock, s.
    pub end_s: f64,
}

/// The phases of an application over time.
#[derive(Clone, Debug, PartialEq)]
pub struct EventLog {
    /// Time of the flag event on the device's clock, s.
    pub flag_s: f64,
    /// Phases, in the order of the file.
    pub phases: Vec<LoggedPhase>,
}

impl PowerTrace {
    /// A trace from samples; `None` unless there are at least two, all finite, with rising times.
    #[must_use]
    pub fn new(time_s: Vec<f64>, power_w: Vec<f64>) -> Option<Self> {
        let rising = time_s.windows(2).all(|w| w[0] < w[1]);
        let numbers = time_s.iter().chain(&power_w).all(|x| x.is_finite());
        (time_s.len() == power_w.len() && time_s.len() > 1 && rising && numbers)
            .then_some(Self { time_s, power_w })
    }

    /// Reads a monitor's CSV file.
    ///
    /// # Errors
    /// [`TraceError`] naming the file, and the column or line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let table = Columns::read(path)?;
        let time = table.find_seconds("time_s", &["time_s", "time (s)"], "time")?;
        let watts = table.find("power_w", &["power_w", "power (w)"]).map(|c| (c, 1.0));
        let milliwatts = table
            .find(
                "power_w",
                &["power_mw", "main avg power (mw)", "main avg power(mw)", "main power (mw)"],
            )
            .map(|c| (c, 1e-3));
        if let (Ok((a, _)), Ok((b, _))) = (&watts, &milliwatts) {
            let [a, b] = [a, b].map(|&column| &table.headings[column]);
            let reason = format!("columns {a} and {b} both have the power; keep one of them");
            return Err(TraceError::Content { path: path.to_owned(), reason });
        }
        let power = watts.or(milliwatts);
        let product = || -> Result<Vec<f64>, TraceError> {
            let current = table.numbers(
                table.find("power_w", &["current_ma", "main avg current (ma)", "main(ma)"])?,
            )?;
            let voltage = table.numbers(
                table
                    .find("voltage_v", &["voltage_v", "main avg voltage (v)", "main voltage(v)"])?,
            )?;
            Ok(current.iter().zip(voltage).map(|(ma, v)| ma * v * 1e-3).collect())
        };
        let power_w = match power {
            Ok((column, unit)) => table.numbers(column)?.into_iter().map(|p| p * unit).collect(),
            Err(_) => product()?,
        };
        let time_s = table.numbers(time)?;
        if let Some(index) = (1..time_s.len()).find(|&index| time_s[index] <= time_s[index - 1]) {
            let (before, at) = (time_s[index - 1], time_s[index]);
            let reason = format!("time is {at} s after {before} s; times of a trace rise");
            return Err(table.row_error(index, reason));
        }
        let refuse = || TraceError::Content {
            path: path.to_owned(),
            reason: format!("{} samples; a trace needs two or more", table.rows.len()),
        };
        Self::new(time_s, power_w).ok_or_else(refuse)
    }

    /// The trace in the format of [`PowerTrace::read`]; the comment states its origin.
    #[must_use]
    pub fn to_csv(&self, comment: &str) -> String {
        let mut text = format!("# {comment}\ntime_s,power_w\n");
        for (time, watts) in self.time_s.iter().zip(&self.power_w) {
            let _ = writeln!(text, "{time:.6},{watts:.6}");
        }
        text
    }

    /// Times (s) and powers (W).
    #[must_use]
    pub fn samples(&self) -> (&[f64], &[f64]) {
        (&self.time_s, &self.power_w)
    }

    /// First and last time, s.
    #[must_use]
    pub fn span_s(&self) -> (f64, f64) {
        (self.time_s[0], self.time_s[self.time_s.len() - 1])
    }

    /// Energy between two times of the monitor's clock, J, by linear interpolation between samples.
    /// Time outside the trace counts 0.
    #[must_use]
    pub fn energy_j(&self, from_s: f64, to_s: f64) -> f64 {
        let (from, to) = (from_s.max(self.span_s().0), to_s.min(self.span_s().1));
        if from >= to {
            return 0.0;
        }
        let first = self.time_s.partition_point(|&t| t <= from);
        let last = self.time_s.partition_point(|&t| t < to);
        let inner =
            self.time_s[first..last].iter().copied().zip(self.power_w[first..last].iter().copied());
        let points = std::iter::once((from, self.watts(from)))
            .chain(inner)
            .chain(std::iter::once((to, self.watts(to))));
        let mut before = None;
        let mut joules = 0.0;
        for (time, watts) in points {
            if let Some((t, w)) = before.replace((time, watts)) {
                joules += 0.5 * (w + watts) * (time - t);
            }
        }
        joules
    }

    /// Power at a time, W, interpolated between samples.
    #[must_use]
    pub fn watts(&self, at_s: f64) -> f64 {
        let after = self.time_s.partition_point(|&t| t < at_s).clamp(1, self.time_s.len() - 1);
        let (t, u) = (self.time_s[after - 1], self.time_s[after]);
        let share = ((at_s - t) / (u - t)).clamp(0.0, 1.0);
        self.power_w[after - 1] + share * (self.power_w[after] - self.power_w[after - 1])
    }

    /// Mean power, W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        let (from, to) = self.span_s();
        self.energy_j(from, to) / (to - from)
    }

    /// The first time at which the power is more than six standard deviations, and more than 5 %,
    /// above its mean over the first `quiet_s` seconds, and stays so for some samples.
    #[must_use]
    pub fn first_rise_s(&self, quiet_s: f64) -> Option<f64> {
        self.first_rise(quiet_s).map(|rise| self.time_s[rise.index])
    }

    /// That rise as a sensor sees it. A power at a moment shows it in the first sample after it. A
    /// mean says when it was in the time that the mean covers: how high each sample is that covers
    /// the rise beside the first one that begins after it.
    ///
    /// # Errors
    /// [`TraceError::Quiet`] where the quiet beginning has fewer than [`LEAST_QUIET`] samples,
    /// [`TraceError::NoFlag`] where the power never rises.
    pub fn flag_event(&self, quiet_s: f64, averaging: Averaging) -> Result<SeenRise, TraceError> {
        let samples = self.quiet_samples(quiet_s);
        if samples < LEAST_QUIET {
            let enough = LEAST_QUIET.min(self.time_s.len()) - 1;
            let enough_s = self.time_s[enough] - self.time_s[0];
            return Err(TraceError::Quiet { quiet_s, samples, enough_s });
        }
        let rise = self.first_rise(quiet_s).ok_or(TraceError::NoFlag { quiet_s })?;
        let before_s = self.time_s[rise.index - 1];
        let at_s = self.time_s[rise.index];
        let step_s = at_s - before_s;
        Ok(match averaging {
            Averaging::Moment => SeenRise { at_s, earlier_s: step_s, later_s: 0.0 },
            Averaging::Over(seconds) => {
                let whole_s = at_s + (1.0 - 1e-6) * seconds;
                let whole = self.time_s.partition_point(|&t| t < whole_s).max(rise.index + 1);
                self.rise_of_means(rise, whole, seconds, (step_s - seconds).max(0.0))
            }
            Averaging::SinceLast => self.rise_of_means(rise, rise.index + 1, step_s, 0.0),
        })
    }

    /// A rise by means over `averaging_s`: samples before `whole` cover the rise itself. No sample
    /// covers `unseen_s` before the first high one.
    fn rise_of_means(&self, rise: Rise, whole: usize, averaging_s: f64, unseen_s: f64) -> SeenRise {
        let Rise { index, quiet_w, spread_w } = rise;
        let high_w = self.power_w.get(whole).unwrap_or(&self.power_w[index]) - quiet_w;
        let time_of = |i: usize| {
            let share = (self.power_w[i] - quiet_w) / high_w;
            self.time_s[i] - share.clamp(0.0, 1.0) * averaging_s
        };
        if high_w <= 0.0 {
            let at_s = self.time_s[index] - averaging_s;
            return SeenRise { at_s, earlier_s: unseen_s, later_s: averaging_s };
        }
        let times: Vec<f64> = (index..whole.min(self.time_s.len())).map(time_of).collect();
        let mean_s = times.iter().sum::<f64>() / times.len() as f64;
        let apart_s = times.iter().map(|t| (t - mean_s).abs()).fold(0.0, f64::max);
        let noise_s = averaging_s * NOISE_SIGMAS * spread_w / high_w;
        let later_s = noise_s.max(apart_s);
        SeenRise { at_s: mean_s, earlier_s: later_s + unseen_s, later_s }
    }

    /// The number of samples in the first `quiet_s` seconds.
    fn quiet_samples(&self, quiet_s: f64) -> usize {
        let end_s = self.time_s[0] + quiet_s;
        self.time_s.partition_point(|&t| t <= end_s)
    }

    /// The first sample of those that stay high, and the power before.
    fn first_rise(&self, quiet_s: f64) -> Option<Rise> {
        let samples = self.quiet_samples(quiet_s);
        let quiet = &self.power_w[..samples];
        let quiet_w = quiet.iter().sum::<f64>() / samples as f64;
        let squares = quiet.iter().map(|w| (w - quiet_w).powi(2)).sum::<f64>();
        let spread_w = (squares / samples as f64).sqrt();
        let threshold = quiet_w + (6.0 * spread_w).max(0.05 * quiet_w);
        let lasts = |&index: &usize| {
            self.power_w[index..].iter().take(LASTS).all(|&watts| watts > threshold)
        };
        let index = (samples..self.power_w.len()).find(lasts)?;
        Some(Rise { index, quiet_w, spread_w })
    }
}

/// The first sample of a rise, and mean and standard deviation of the power before.
#[derive(Clone, Copy)]
struct Rise {
    index: usize,
    quiet_w: f64,
    spread_w: f64,
}

impl EventLog {
    /// The log in the format of [`EventLog::read`]; the comment states its origin.
    #[must_use]
    pub fn to_csv(&self, comment: &str) -> String {
        let flag = self.flag_s;
        let mut text =
            format!("# {comment}\nframe,phase,start_s,end_s\n,flag,{flag:.6},{flag:.6}\n");
        for LoggedPhase { frame, phase, start_s, end_s } in &self.phases {
            let _ = writeln!(
                text,
                "{frame},\"{}\",{start_s:.6},{end_s:.6}",
                phase.replace('"', "\"\"")
            );
        }
        text
    }

    /// Reads an application's log.
    ///
    /// # Errors
    /// [`TraceError`] naming the file, and the column or line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let table = Columns::read(path)?;
        let phase = table.find("phase", &["phase", "event"])?;
        let [start, end] = [
            table.numbers(table.find_seconds("start_s", &["start_s"], "start")?)?,
            table.numbers(table.find_seconds("end_s", &["end_s"], "end")?)?,
        ];
        let frame_column = table.find("frame", &["frame"])?;
        let mut flag_s = None;
        let mut phases = Vec::new();
        for (index, (start_s, end_s)) in start.into_iter().zip(end).enumerate() {
            let name = table.rows[index].1.get(phase).unwrap_or_default();
            if end_s < start_s {
                return Err(table.row_error(
                    index,
                    format!("`{name}` ends at {end_s} s, before it starts at {start_s} s"),
                ));
            }
            if name == "flag" {
                if let Some(first) = flag_s.replace(start_s) {
                    let reason = format!("a second row `flag`: the first is at {first} s");
                    return Err(table.row_error(index, reason));
                }
                continue;
            }
            let frame = table.rows[index].1.get(frame_column).unwrap_or_default();
            let frame = frame
                .parse()
                .map_err(|_| table.row_error(index, format!("`{frame}` is no frame number")))?;
            phases.push(LoggedPhase { frame, phase: name.to_owned(), start_s, end_s });
        }
        let refuse =
            |reason: &str| TraceError::Content { path: path.to_owned(), reason: reason.to_owned() };
        let flag_s = flag_s.ok_or_else(|| {
            refuse(
                "no row `flag`: the log must say when the event happened that the monitor saw too",
            )
        })?;
        if phases.is_empty() {
            Err(refuse("no phase is logged"))
        } else {
            Ok(Self { flag_s, phases })
        }
    }
}

/// A CSV file whose columns are looked up by name.
struct Columns {
    path: PathBuf,
    headings: Vec<String>,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl Columns {
    fn read(path: &Path) -> Result<Self, TraceError> {
        let refuse = |source| TraceError::Csv { path: path.to_owned(), source };
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_path(path)
            .map_err(refuse)?;
        let headings = reader.headers().map_err(refuse)?.iter().map(str::to_lowercase).collect();
        let row = |record: csv::Result<csv::StringRecord>| {
            record.map(|r| (r.position().map_or(0, csv::Position::line), r))
        };
        let rows = reader.records().map(row).collect::<csv::Result<_>>().map_err(refuse)?;
        Ok(Self { path: path.to_owned(), headings, rows })
    }

    fn find(&self, wanted: &'static str, names: &[&str]) -> Result<usize, TraceError> {
        let found = self.headings.iter().position(|h| names.contains(&h.as_str()));
        found.ok_or_else(|| TraceError::Column {
            path: self.path.clone(),
            wanted,
            found: self.headings.join(", "),
        })
    }

    /// A column of times in seconds; one without a unit may be in any.
    fn find_seconds(
        &self,
        wanted: &'static str,
        names: &[&str],
        without_unit: &str,
    ) -> Result<usize, TraceError> {
        let found = self.find(wanted, names);
        if found.is_err() && self.headings.iter().any(|heading| heading == without_unit) {
            return Err(TraceError::Content {
                path: self.path.clone(),
                reason: format!(
                    "column {without_unit} has no unit; a column of times in seconds is {}",
                    names.join(" or ")
                ),
            });
        }
        found
    }

    fn numbers(&self, column: usize) -> Result<Vec<f64>, TraceError> {
        let number = |(index, (_, record)): (usize, &(u64, csv::StringRecord))| {
            let text = record.get(column).unwrap_or_default();
            let value = text.parse::<f64>().ok().filter(|v| v.is_finite());
            value.ok_or_else(|| {
                self.row_error(
                    index,
                    format!("`{text}` in column {} is not a number", self.headings[column]),
                )
            })
        };
        self.rows.iter().enumerate().map(number).collect()
    }

    fn row_error(&self, index: usize, reason: String) -> TraceError {
        TraceError::Row { path: self.path.clone(), line: self.rows[index].0, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_take_in_parts_of_samples() {
        let trace =
            PowerTrace::new(vec![0.0, 1.0, 2.0, 4.0], vec![0.0, 2.0, 2.0, 0.0]).expect("a trace");
        for (from, to, joules) in [
            (0.0, 4.0, 5.0),
            (0.5, 1.5, 0.75 + 1.0),
            (1.2, 1.4, 0.4),
            (3.0, 9.0, 0.5),
            (5.0, 6.0, 0.0),
            (2.0, 1.0, 0.0),
        ] {
            assert!(
                (trace.energy_j(from, to) - joules).abs() < 1e-12,
                "{from} {to}: {}",
                trace.energy_j(from, to)
            );
        }
        assert!((trace.mean_w() - 1.25).abs() < 1e-12);
        assert_eq!(PowerTrace::new(vec![0.0, 0.0], vec![1.0, 1.0]), None);
    }

    #[test]
    fn the_first_rise_is_found_above_the_noise() {
        let time: Vec<f64> = (0..1000).map(|i| f64::from(i) * 1e-3).collect();
        let power = time
            .iter()
            .map(|&t| 1.0 + 0.01 * (t * 7e3).sin() + if t >= 0.192 { 1.5 } else { 0.0 })
            .collect();
        let trace = PowerTrace::new(time, power).expect("a trace");
        assert!(trace.first_rise_s(0.1).is_some_and(|t| (t - 0.192).abs() < 1.5e-3));
        let flat = PowerTrace::new(vec![0.0, 1.0, 2.0], vec![1.0; 3]).expect("a trace");
        assert_eq!(flat.first_rise_s(0.5), None);
    }

    /// Means over `averaging_s`, every `step_s`, of 1 W until `rise_s` and 5 W from there.
    fn means(step_s: f64, averaging_s: f64, rise_s: f64) -> PowerTrace {
        let time: Vec<f64> = (0..60).map(|i| f64::from(i) * step_s).collect();
        let high = |t: &f64| ((t - rise_s) / averaging_s).clamp(0.0, 1.0);
        let power = time.iter().map(|t| 1.0 + 4.0 * high(t)).collect();
        PowerTrace::new(time, power).expect("a trace")
    }

    #[test]
    fn a_rise_is_placed_within_the_time_of_a_mean() {
        for (step_s, averaging_s, rise_s) in
            [(0.1, 0.1, 2.03), (0.1, 1.0, 2.03), (0.05, 0.2, 1.51), (0.1, 0.02, 2.09)]
        {
            let trace = means(step_s, averaging_s, rise_s);
            let seen = trace.flag_event(1.2, Averaging::Over(averaging_s)).expect("a rise");
            let is_within = seen.at_s - seen.earlier_s - 1e-9 <= rise_s
                && rise_s <= seen.at_s + seen.later_s + 1e-9;
            let is_close = (seen.at_s - rise_s).abs() < 1e-9 || averaging_s < step_s;
            assert!(is_within && is_close, "{step_s}, {averaging_s}: {seen:?}");
        }
        let since = means(0.1, 0.1, 2.03).flag_event(1.2, Averaging::SinceLast);
        assert!(since.is_ok_and(|seen| (seen.at_s - 2.03).abs() < 1e-9));
    }

    #[test]
    fn a_short_spike_is_no_rise_and_few_quiet_samples_are_refused() {
        let mut trace = means(0.1, 0.1, 2.0);
        trace.power_w[15] = 4.0;
        let seen = trace.flag_event(1.2, Averaging::Moment).expect("a rise");
        assert!((seen.at_s - 2.1).abs() < 1e-9, "{seen:?}");
        let message = |quiet_s| {
            let seen = trace.flag_event(quiet_s, Averaging::Moment);
            seen.map_or_else(|e| e.to_string(), |_| "found".to_owned())
        };
        assert_eq!(
            message(0.1),
            "the quiet beginning of the trace, 0.1 s, has 2 samples: to find the flag event it \
            needs 10 or more, which take 0.900 s"
        );
        assert_eq!(message(1.0), "found");
    }
}

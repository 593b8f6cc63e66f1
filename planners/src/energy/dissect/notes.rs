//! What makes a dissection less certain.

use super::{
    alignment::{Aligned, RATE},
    samples::step_s,
};
use crate::energy::trace::{Averaging, PowerTrace};
use serde::{Serialize, Serializer};
use std::fmt;

/// An offset beyond what the event allows counts from here on, s, and from this share of the time
/// between samples or the time of a mean.
const BEYOND_S: f64 = 0.005;
const BEYOND_SHARE: f64 = 0.2;
/// A step between samples is irregular where it differs from the usual one by this share.
const IRREGULAR: f64 = 0.1;
/// The share of irregular steps from which on they count.
const OFTEN: f64 = 0.02;

/// What makes the values of a dissection less certain.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The phases explain the trace better with another time of the flag event than the trace
    /// allows: what is logged as the event is not what the monitor shows.
    Flag {
        /// The time that explains the trace best, on the monitor's clock, s.
        best_s: f64,
        /// The time that is used, s.
        used_s: f64,
    },
    /// The rates of the clocks differ by as much as the search allows, or more.
    Clocks {
        /// The rate that was found, parts per million.
        ppm: f64,
    },
    /// Means over a fixed time, with irregular times between them.
    Irregular {
        /// Share of the samples that come after another time than usual.
        share: f64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag { best_s, used_s } => write!(
                f,
                "the phases fit the trace best with the flag event at {best_s:.3} s, but the trace \
                shows it at {used_s:.3} s: the energies are of shifted phases if the log has the \
                event earlier or later than the power rises"
            ),
            Self::Clocks { ppm } => write!(
                f,
                "the clocks of trace and log differ by {ppm:.0} ppm, the end of the search ({:.0} \
                ppm): the energies are wrong if they differ by more",
                1e6 * RATE
            ),
            Self::Irregular { share } => write!(
                f,
                "{:.0} % of the samples come early or late, or others are missing: each is taken as \
                a mean over the given time, not since the sample before",
                100.0 * share
            ),
        }
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The notes on a dissection with the event at `flag_s` of the trace.
pub(super) fn of(
    trace: &PowerTrace,
    averaging: Averaging,
    flag_s: f64,
    aligned: Aligned,
) -> Vec<Note> {
    let (time_s, _) = trace.samples();
    let step_s = step_s(time_s, 0.5);
    let mean_s = if let Averaging::Over(seconds) = averaging { seconds } else { 0.0 };
    let Aligned { kept, best_offset_s } = aligned;
    let mut notes = Vec::new();
    let allowed_s = BEYOND_S.max(BEYOND_SHARE * step_s.max(mean_s));
    if (best_offset_s - kept.offset_s).abs() > allowed_s {
        let (best_s, used_s) = (flag_s + best_offset_s, flag_s + kept.offset_s);
        notes.push(Note::Flag { best_s, used_s });
    }
    if kept.rate.abs() >= 0.99 * RATE {
        notes.push(Note::Clocks { ppm: 1e6 * kept.rate });
    }
    // Means over much more or less than a step are of a sensor with a time of its own.
    if (mean_s / step_s - 1.0).abs() < 0.5 {
        let is_irregular = |pair: &&[f64]| ((pair[1] - pair[0]) / step_s - 1.0).abs() > IRREGULAR;
        let count = time_s.windows(2).filter(is_irregular).count();
        let share = count as f64 / (time_s.len() - 1) as f64;
        notes.extend((share > OFTEN).then_some(Note::Irregular { share }));
    }
    notes
}

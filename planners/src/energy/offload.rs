//! Chooses between the device and a server, a frequency, an input size and a camera rate: the
//! Pareto front of choices, and the best one.
//!
//! Choices are measured (a table, [`read_choices`]) or come from an [`OffloadModel`], which
//! evaluates every combination; both go through the same [`pareto`] and [`best`].

mod files;
mod frame;
mod model;
mod options;

pub use files::read_choices;
pub use frame::{Clock, EnergyParts, Frame, Moment, Use};
pub use model::{BySize, OffloadModel, SizeLaw, Sized};
pub use options::{BREAK_EVEN_STEPS, Modelled, Settings};

use serde::{Deserialize, Serialize};
use std::{cmp::Ordering, path::PathBuf};

/// Where the network runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On the device.
    Local,
    /// On a server.
    Remote,
}

/// One way to run, with its costs and its accuracy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Where the network runs.
    pub place: Place,
    /// Governor, or frequency.
    pub setting: String,
    /// Side of the square input, pixels.
    pub size_px: u32,
    /// Camera frames per second, if the camera rate is part of the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera_fps: Option<f64>,
    /// Latency of one frame, s; of a modelled choice from the capture of the image on.
    pub latency_s: f64,
    /// Energy of the device from one detected frame to the next, J.
    pub energy_j: f64,
    /// Mean average precision, %; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// What else a model says; a file of measured choices does not have it.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub modelled: Option<Modelled>,
}

/// The quantity to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// Latency, s.
    Latency,
    /// Energy, J.
    Energy,
    /// Energy times latency, J s.
    EnergyDelay,
    /// Mean power, W.
    Power,
}

/// Bounds that a choice must satisfy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Mean average precision, %.
    pub accuracy_at_least: f64,
    /// Latency, s.
    pub latency_at_most_s: f64,
    /// Energy, J.
    pub energy_at_most_j: f64,
}

/// Why no choice can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// A file of constants cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A constant outside its range.
    #[error("`{field}` is {value}; it must be {wanted}")]
    Constant {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The expected range.
        wanted: &'static str,
    },
    /// There are no networks to choose from.
    #[error(
        "no network is listed, neither under `local` nor under `remote`, and there is no `by_size`"
    )]
    NoNetwork,
    /// Networks are only given by size, and no size is chosen.
    #[error("no network is listed under `local` or `remote`: choose input sizes for `by_size`")]
    NoNetworkListed,
    /// Images cannot be converted.
    #[error("`conversion` lists no method of converting images")]
    NoConversion,
    /// A governor needs frequencies and loads.
    #[error("a governor needs the frequencies and loads of the device, and `processor` is missing")]
    NoProcessor,
    /// A frequency outside the device's range.
    #[error("the device does not run at {ghz} GHz: its frequencies are {lowest} to {highest} GHz")]
    Frequency {
        /// The given frequency.
        ghz: f64,
        /// The lowest of the device.
        lowest: f64,
        /// The highest of the device.
        highest: f64,
    },
    /// A setting that the device does not have.
    #[error("the device has no {what} {name}: it has {known}")]
    Unknown {
        /// Conversion, or input size.
        what: &'static str,
        /// The given name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl Default for Bounds {
    /// No bounds.
    fn default() -> Self {
        Self {
            accuracy_at_least: 0.0,
            latency_at_most_s: f64::INFINITY,
            energy_at_most_j: f64::INFINITY,
        }
    }
}

impl Bounds {
    /// Whether a choice satisfies the bounds. An accuracy that is not known satisfies no bound.
    #[must_use]
    pub fn keep(&self, choice: &Choice) -> bool {
        choice.accuracy.unwrap_or(0.0) >= self.accuracy_at_least
            && choice.latency_s <= self.latency_at_most_s
            && choice.energy_j <= self.energy_at_most_j
    }
}

impl Choice {
    /// Mean power, W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.energy_j / self.modelled.as_ref().map_or(self.latency_s, |m| m.period_s)
    }

    /// Whether its accuracy is known to be no less than another's.
    fn is_as_accurate_as(&self, other: &Self) -> bool {
        match (self.accuracy, other.accuracy) {
            (Some(mine), Some(theirs)) => mine >= theirs,
            _ => (self.place, self.size_px) == (other.place, other.size_px),
        }
    }
}

impl Least {
    /// The value of a choice that is minimised: s, J, J s or W.
    #[must_use]
    pub fn of(self, choice: &Choice) -> f64 {
        match self {
            Self::Latency => choice.latency_s,
            Self::Energy => choice.energy_j,
            Self::EnergyDelay => choice.energy_j * choice.latency_s,
            Self::Power => choice.mean_w(),
        }
    }
}

/// The Pareto front of energy, latency and accuracy, least energy first. A choice whose accuracy is
/// not known is compared with those of the same place and size only.
#[must_use]
pub fn pareto(choices: &[Choice]) -> Vec<Choice> {
    let no_worse = |a: &Choice, b: &Choice| {
        a.energy_j <= b.energy_j && a.latency_s <= b.latency_s && a.is_as_accurate_as(b)
    };
    let beaten = |c: &Choice| choices.iter().any(|other| no_worse(other, c) && !no_worse(c, other));
    let mut front: Vec<Choice> = choices.iter().filter(|c| !beaten(c)).cloned().collect();
    front.sort_by(|a, b| {
        a.energy_j.total_cmp(&b.energy_j).then(a.latency_s.total_cmp(&b.latency_s))
    });
    front
}

/// The best choice within the bounds; `None` when there is none. Among equals the one of least
/// latency, then least energy, then highest accuracy, so that no other choice dominates it.
#[must_use]
pub fn best<'a>(choices: &'a [Choice], least: Least, bounds: &Bounds) -> Option<&'a Choice> {
    let key = |c: &Choice| [least.of(c), c.latency_s, c.energy_j, -c.accuracy.unwrap_or(0.0)];
    let order = |a: &&Choice, b: &&Choice| {
        let pairs = key(a).into_iter().zip(key(b));
        pairs.map(|(a, b)| a.total_cmp(&b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    };
    choices.iter().filter(|c| bounds.keep(c)).min_by(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(latency_s: f64, energy_j: f64, accuracy: f64) -> Choice {
        Choice {
            place: Place::Local,
            setting: String::new(),
            size_px: 300,
            camera_fps: None,
            latency_s,
            energy_j,
            accuracy: Some(accuracy),
            modelled: None,
        }
    }

    #[test]
    fn an_unknown_accuracy_is_neither_better_nor_worse() {
        let unknown = Choice { accuracy: None, ..choice(1.0, 1.0, 0.0) };
        let small = Choice { size_px: 100, ..unknown.clone() };
        let slower = Choice { latency_s: 2.0, ..unknown.clone() };
        let known = Choice { size_px: 320, ..choice(2.0, 3.0, 20.0) };
        let all = [unknown.clone(), small, slower, known];
        assert_eq!(pareto(&all).len(), 3, "only the slower one of the same size is beaten");
        assert!(!Bounds { accuracy_at_least: 1.0, ..Bounds::default() }.keep(&unknown));
        assert!(Bounds::default().keep(&unknown));
    }

    #[test]
    fn bounds_leave_out_and_the_front_is_what_nobody_beats() {
        let choices = [
            choice(1.0, 5.0, 20.0),
            choice(2.0, 3.0, 20.0),
            choice(2.0, 6.0, 20.0),
            choice(3.0, 9.0, 50.0),
        ];
        let front = pareto(&choices);
        assert_eq!(front, [choices[1].clone(), choices[0].clone(), choices[3].clone()]);
        let least = |least, bounds: Bounds| {
            best(&choices, least, &bounds).map(|c| (c.latency_s, c.energy_j))
        };
        assert_eq!(least(Least::Energy, Bounds::default()), Some((2.0, 3.0)));
        assert_eq!(
            least(Least::Energy, Bounds { latency_at_most_s: 1.5, ..Bounds::default() }),
            Some((1.0, 5.0))
        );
        assert_eq!(
            least(Least::Latency, Bounds { accuracy_at_least: 30.0, ..Bounds::default() }),
            Some((3.0, 9.0))
        );
        assert_eq!(
            least(Least::Latency, Bounds { energy_at_most_j: 4.0, ..Bounds::default() }),
            Some((2.0, 3.0))
        );
        assert_eq!(
            least(Least::Latency, Bounds { energy_at_most_j: 1.0, ..Bounds::default() }),
            None
        );
        let tied = [choice(1.0, 5.0, 19.3), choice(1.0, 2.0, 19.3), choice(1.0, 2.0, 51.5)];
        assert_eq!(best(&tied, Least::Latency, &Bounds::default()), Some(&tied[2]));
        assert_eq!(least(Least::Power, Bounds::default()), Some((2.0, 3.0)));
        assert_eq!(least(Least::EnergyDelay, Bounds::default()), Some((1.0, 5.0)));
    }
}

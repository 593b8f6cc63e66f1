//! Here or on the server, at which frequency, how large an input, how fast a camera: which choices
//! are worth considering, and which is the best.
//!
//! Choices are measured (a table, [`read_choices`]) or come from an [`OffloadModel`], which
//! evaluates every combination; both go through the same [`pareto`] and [`best`].

mod files;
mod model;

pub use files::read_choices;
pub use model::{Background, OffloadModel, Sized};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a frame is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On the device.
    Local,
    /// On a server.
    Remote,
}

/// One way to run, and what it costs and gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Where the network runs.
    pub place: Place,
    /// Governor, or frequency.
    pub setting: String,
    /// Side of the square input, pixels.
    pub size_px: u32,
    /// Camera frames per second, where they are chosen too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera_fps: Option<f64>,
    /// Of one frame, s.
    pub latency_s: f64,
    /// Of the device for one frame, J.
    pub energy_j: f64,
    /// Mean average precision, %.
    pub accuracy: f64,
}

/// What is minimised among choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// s.
    Latency,
    /// J.
    Energy,
    /// Energy times latency, J s.
    EnergyDelay,
    /// Mean power.
    Power,
}

/// What a choice must keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Mean average precision, %.
    pub accuracy_at_least: f64,
    /// s.
    pub latency_at_most_s: f64,
    /// J.
    pub energy_at_most_j: f64,
}

/// Why there are no choices.
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
        /// What it must be.
        wanted: &'static str,
    },
    /// There is nothing to choose from.
    #[error("no network is listed, neither under `local` nor under `remote`")]
    NoNetwork,
}

impl Default for Bounds {
    /// Anything goes.
    fn default() -> Self {
        Self {
            accuracy_at_least: 0.0,
            latency_at_most_s: f64::INFINITY,
            energy_at_most_j: f64::INFINITY,
        }
    }
}

impl Bounds {
    /// Whether a choice keeps them.
    #[must_use]
    pub fn keep(&self, choice: &Choice) -> bool {
        choice.accuracy >= self.accuracy_at_least
            && choice.latency_s <= self.latency_at_most_s
            && choice.energy_j <= self.energy_at_most_j
    }
}

impl Least {
    /// What of a choice is minimised: s, J, J s or W.
    #[must_use]
    pub fn of(self, choice: &Choice) -> f64 {
        match self {
            Self::Latency => choice.latency_s,
            Self::Energy => choice.energy_j,
            Self::EnergyDelay => choice.energy_j * choice.latency_s,
            Self::Power => choice.energy_j / choice.latency_s,
        }
    }
}

/// The choices that no other beats in energy, latency and accuracy together, least energy first.
#[must_use]
pub fn pareto(choices: &[Choice]) -> Vec<Choice> {
    let no_worse = |a: &Choice, b: &Choice| {
        a.energy_j <= b.energy_j && a.latency_s <= b.latency_s && a.accuracy >= b.accuracy
    };
    let beaten = |c: &Choice| choices.iter().any(|other| no_worse(other, c) && !no_worse(c, other));
    let mut front: Vec<Choice> = choices.iter().filter(|c| !beaten(c)).cloned().collect();
    front.sort_by(|a, b| {
        a.energy_j.total_cmp(&b.energy_j).then(a.latency_s.total_cmp(&b.latency_s))
    });
    front
}

/// The best choice within the bounds; `None` when there is none.
#[must_use]
pub fn best<'a>(choices: &'a [Choice], least: Least, bounds: &Bounds) -> Option<&'a Choice> {
    choices.iter().filter(|c| bounds.keep(c)).min_by(|a, b| least.of(a).total_cmp(&least.of(b)))
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
            accuracy,
        }
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
        assert_eq!(least(Least::Power, Bounds::default()), Some((2.0, 3.0)));
        assert_eq!(least(Least::EnergyDelay, Bounds::default()), Some((1.0, 5.0)));
    }
}

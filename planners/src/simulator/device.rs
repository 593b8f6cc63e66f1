//! The model of a processor: time of a task by frequency and contention, and power.
//!
//! | model | equation | source |
//! |---|---|---|
//! | time | dispatch + switch + (compute f0 / f + memory) x slowdown | cycles / frequency: AR energy study, Tables I and III |
//! | power while busy | a f + b f^3, f in GHz | fitted to phase powers of the AR energy study, Tables I and II |
//! | slowdown | 1 up to x1; 1 + m (x - x1) up to x2; constant beyond; x: share of peak bandwidth that other processors demand | three regions as PCCS, MICRO 2021 |

use serde::{Deserialize, Serialize};

/// Frequencies of a processor, and its power by frequency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dvfs {
    /// Frequencies, GHz, rising; task times are for the last.
    pub levels_ghz: Vec<f64>,
    /// Power per frequency, W/GHz.
    pub a_w_per_ghz: f64,
    /// Power per cubed frequency, W/GHz^3.
    pub b_w_per_ghz3: f64,
}

/// A single server: a processor, or a link (then its tasks are transfers).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorModel {
    /// Unique name.
    pub name: String,
    /// Power while busy, W, where there is no frequency model.
    #[serde(default)]
    pub active_w: f64,
    /// Power while idle, W.
    #[serde(default)]
    pub idle_w: f64,
    /// The frequency model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dvfs: Option<Dvfs>,
    /// Time added once per task, ns.
    #[serde(default)]
    pub dispatch_ns: u64,
    /// Time added whenever a task belongs to another model than the task before it, ns.
    #[serde(default)]
    pub switch_ns: u64,
    /// Share of the memory's peak bandwidth that it demands while busy, 0 to 1.
    #[serde(default)]
    pub bandwidth_share: f64,
}

impl ProcessorModel {
    /// A processor without power, frequencies or overheads.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Highest frequency level.
    pub(super) fn top_level(&self) -> usize {
        self.dvfs.as_ref().map_or(0, |d| d.levels_ghz.len().saturating_sub(1))
    }

    /// Frequency at a level, GHz; 0 where there is no frequency model.
    pub(super) fn ghz(&self, level: usize) -> f64 {
        self.dvfs.as_ref().and_then(|d| d.levels_ghz.get(level)).copied().unwrap_or(0.0)
    }

    /// The factor by which computing takes longer at a level than at the highest.
    pub(super) fn stretch(&self, level: usize) -> f64 {
        let ghz = self.ghz(level);
        if ghz > 0.0 { self.ghz(self.top_level()) / ghz } else { 1.0 }
    }

    /// Power while busy at a level, W.
    #[must_use]
    pub fn busy_w(&self, level: usize) -> f64 {
        let ghz = self.ghz(level);
        self.dvfs
            .as_ref()
            .map_or(self.active_w, |d| d.a_w_per_ghz * ghz + d.b_w_per_ghz3 * ghz.powi(3))
    }
}

/// The slowdown of a task by other busy processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Share of peak bandwidth demanded by others up to which there is no slowdown.
    pub from: f64,
    /// Share from which on the slowdown is constant.
    pub to: f64,
    /// The largest slowdown.
    pub most: f64,
}

impl Contention {
    /// No slowdown.
    pub const NONE: Self = Self { from: 0.0, to: 0.0, most: 1.0 };

    /// The slowdown factor for a share demanded by others.
    #[must_use]
    pub fn slowdown(&self, share: f64) -> f64 {
        let within = if self.to > self.from {
            ((share - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
        } else {
            f64::from(share > self.from)
        };
        1.0 + (self.most - 1.0) * within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_regions() {
        let contention = Contention { from: 0.3, to: 0.8, most: 1.36 };
        for (share, factor) in [(0.0, 1.0), (0.3, 1.0), (0.55, 1.18), (0.8, 1.36), (1.5, 1.36)] {
            assert!((contention.slowdown(share) - factor).abs() < 1e-12, "{share}");
        }
        assert_eq!(Contention::NONE.slowdown(0.9), 1.0);
    }

    #[test]
    fn power_and_time_follow_the_frequency() {
        let dvfs = Dvfs { levels_ghz: vec![1.0, 2.0], a_w_per_ghz: 0.3, b_w_per_ghz3: 0.1 };
        let processor = ProcessorModel { dvfs: Some(dvfs), ..ProcessorModel::named("cpu") };
        assert_eq!((processor.stretch(0), processor.stretch(1)), (2.0, 1.0));
        assert!(
            (processor.busy_w(0) - 0.4).abs() < 1e-12 && (processor.busy_w(1) - 1.4).abs() < 1e-12
        );
    }
}

//! What was measured: [`Measurement`] is one operator, [`ModelProfile`] one run of the protocol over one model.
//!
//! All times are nanoseconds. Raw samples are kept; summaries are computed from them and never stored instead of them.

use crate::{Environment, OpSpec};
use serde::{Deserialize, Serialize};

/// Where a number comes from. Numbers of different origins never mix unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Timed by vitempo on the device itself.
    Measured,
    /// Taken over from someone else's data.
    Imported,
    /// Computed by a model of a device.
    Simulated,
}

/// Whether a measurement succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Samples are there.
    Ok,
    /// No usable samples, for this reason.
    Failed(String),
}

/// Samples of one quantity: wall-clock time and, where it is known, CPU time of the threads that computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Wall-clock time of each repeat, ns, in the order taken.
    pub wall_ns: Vec<u64>,
    /// CPU time of each repeat, ns; empty where the engine does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_ns: Vec<u64>,
}

/// How samples were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Runs thrown away before the first sample.
    pub warmups: usize,
    /// Fewest end-to-end samples per visit.
    pub min_repeats: usize,
    /// Most end-to-end samples per visit.
    pub max_repeats: usize,
    /// Sampling of a visit stops once the relative half-width of the 95 % interval of the median is below this.
    pub target_spread: f64,
    /// Visits per model: the sweep goes round all models that often.
    pub rounds: usize,
    /// Seed of weights and inputs.
    pub seed: u64,
    /// Values fed to the model's inputs, e.g. `uniform(-1,1)`.
    pub input_distribution: String,
}

/// One operator that ran, measured in place inside a model's run (`model` and `node` are set) or on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What ran.
    pub op: OpSpec,
    /// Name of the node as the framework reports it; empty when measured on its own.
    pub node: String,
    /// The framework's own name of the kernel.
    pub kernel: String,
    /// Raw samples.
    pub samples: Samples,
    /// Usable or not.
    pub status: Status,
}

/// What a model is, apart from its file name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Name for people: the file's stem.
    pub name: String,
    /// Digest of the graph (structure and shapes, not weights): equal architectures have equal digests.
    pub architecture: String,
    /// Search space it was sampled from; `None` for a real model.
    pub space: Option<String>,
    /// Its compact encoding in that space.
    pub encoding: Option<String>,
}

/// Everything one visit to a model brought: end-to-end samples and every operator in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// Which model.
    pub model: ModelIdentity,
    /// Where it ran.
    pub environment: Environment,
    /// Name of the sitting (one start of a sweep).
    pub sitting: String,
    /// 0 for the first round over all models, then 1, ...; repeated rounds give the noise floor.
    pub round: usize,
    /// When the visit started, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Where these numbers come from.
    pub origin: Origin,
    /// How they were taken.
    pub protocol: Protocol,
    /// End-to-end samples, profiling off.
    pub e2e: Samples,
    /// End-to-end samples of the runs in which operators were timed: their difference from `e2e` is what profiling costs.
    pub e2e_profiled: Samples,
    /// Samples of the reference workload run next to this visit; empty where there is none.
    #[serde(default)]
    pub reference: Samples,
    /// Every operator in place, in execution order.
    pub operators: Vec<Measurement>,
    /// Usable or not.
    pub status: Status,
}

impl ModelIdentity {
    /// The space of small networks around single operators: always training data, never judged end to end.
    pub const OPERATORS: &'static str = "operators";

    /// Whether this is a network around a single operator.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.space.as_deref() == Some(Self::OPERATORS)
    }
}

impl Samples {
    /// Median wall-clock time in ns; `None` without samples.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        median(&self.wall_ns)
    }

    /// Median CPU time in ns; `None` without samples.
    #[must_use]
    pub fn median_cpu_ns(&self) -> Option<f64> {
        median(&self.cpu_ns)
    }
}

fn median(samples: &[u64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle] as f64),
        _ => Some((sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3, 1, 2]), Some(2.0));
        assert_eq!(median(&[4, 1, 2, 3]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}

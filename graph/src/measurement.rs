//! What was measured: [`Measurement`] is one operator, [`ModelProfile`] one run of the protocol
//! over one model.
//!
//! All times are nanoseconds. Raw samples are stored; summaries are computed from them and are not
//! stored.

use crate::{Environment, LoadRecord, MemoryFormat, OpSpec, Precision};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Where a number comes from. Numbers of different origins never mix silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Timed by vitempo on the device itself.
    Measured,
    /// Imported from published data.
    Imported,
    /// Computed by a model of a device.
    Simulated,
}

/// Whether a measurement succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The model ran and has samples.
    Ok,
    /// No usable samples, for this reason.
    Failed(String),
}

/// Samples of one quantity: wall-clock time and, where it is known, CPU time of the threads that
/// computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Wall-clock time of each repeat, ns, in the order taken.
    pub wall_ns: Vec<u64>,
    /// CPU time of each repeat, ns; empty where the engine does not report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_ns: Vec<u64>,
}

/// How samples were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Runs thrown away before the first sample.
    pub warmups: usize,
    /// Fewest end-to-end samples per model run.
    pub min_repeats: usize,
    /// Most end-to-end samples per model run.
    pub max_repeats: usize,
    /// Sampling of a model run stops once the relative half-width of the 95 % interval of the
    /// median is below this.
    pub target_spread: f64,
    /// Model runs per model: the sweep goes round all models that often.
    pub rounds: usize,
    /// Seed of weights and inputs.
    pub seed: u64,
    /// Values fed to the model's inputs, e.g. `uniform(-1,1)`.
    pub input_distribution: String,
}

/// One operator that ran, measured in place inside a model's run (`model` and `node` are set) or on
/// its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The operator; shared by the measurements of equal operators that were read together.
    #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
    pub op: Arc<OpSpec>,
    /// Name of the node as the framework reports it; empty when measured on its own.
    pub node: String,
    /// The framework's own name of the kernel.
    pub kernel: String,
    /// Raw samples.
    pub samples: Samples,
    /// Memory the framework says it took for this operator, bytes; `None` where it does not report
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Usable or not.
    pub status: Status,
}

/// What a run actually used: precision and memory format of the operators that took the most time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// Precision in which most of the time of convolutions and matrix products (of everything,
    /// where there are none) was spent.
    pub precision: Precision,
    /// Memory format in which most of the time of convolutions and pooling was spent; channels
    /// first where there are none.
    pub memory_format: MemoryFormat,
}

/// The identity of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Readable name: the file's stem.
    pub name: String,
    /// Digest of the graph (structure and shapes, not weights): equal architectures have equal
    /// digests.
    pub architecture: String,
    /// Search space it was sampled from; `None` for a real model.
    pub space: Option<String>,
    /// Its compact encoding in that space.
    pub encoding: Option<String>,
}

/// Everything one run of a model brought: end-to-end samples and every operator in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// Which model.
    pub model: ModelIdentity,
    /// Where it ran.
    pub environment: Environment,
    /// Name of the session (one start of a sweep).
    #[serde(rename = "sitting")]
    pub session: String,
    /// 0 for the first round over all models, then 1, ...; repeated rounds give the noise floor.
    pub round: usize,
    /// When the model run started, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Where these numbers come from.
    pub origin: Origin,
    /// Of imported numbers: who published them and under which licence, e.g.
    /// `https://example.org/data, MIT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How they were taken.
    pub protocol: Protocol,
    /// End-to-end samples, profiling off.
    pub e2e: Samples,
    /// End-to-end samples of the runs in which operators were timed: their difference from `e2e` is
    /// what profiling costs.
    pub e2e_profiled: Samples,
    /// Samples of the reference workload run next to this model run; empty where there is none.
    #[serde(default)]
    pub reference: Samples,
    /// Every operator in place, in execution order.
    pub operators: Vec<Measurement>,
    /// Executed precision and format; `None` if no operator was timed.
    #[serde(default)]
    pub executed: Option<Executed>,
    /// Largest resident memory of a process that loaded and ran nothing but this model, less its
    /// resident memory before, bytes; `None` where it was not measured, where the system does not
    /// report it, or where it has a [`PeakFault`](crate::PeakFault).
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    /// The same after the model was loaded, bytes: loading can take more than running.
    #[serde(default)]
    pub running_memory_bytes: Option<u64>,
    /// Energy of one end-to-end sample, their mean, uJ; of the whole processor package or GPU
    /// board. `None` where the machine does not count it.
    #[serde(default)]
    pub energy_per_inference_uj: Option<u64>,
    /// What the load on other cores did meanwhile; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadRecord>,
    /// Usable or not.
    pub status: Status,
}

fn write_shared<S: Serializer>(op: &Arc<OpSpec>, serializer: S) -> Result<S::Ok, S::Error> {
    OpSpec::serialize(op, serializer)
}

fn read_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<OpSpec>, D::Error> {
    OpSpec::deserialize(deserializer).map(Arc::new)
}

impl Executed {
    /// Of these operators, each counted with its median time; `None` when none was timed.
    #[must_use]
    pub fn of<'a>(operators: impl IntoIterator<Item = &'a Measurement>) -> Option<Self> {
        let timed: Vec<(&OpSpec, f64)> =
            operators.into_iter().filter_map(|m| Some((&*m.op, m.samples.median_ns()?))).collect();
        let products = timed.iter().filter(|(op, _)| op.kind.is_product());
        let windows = timed.iter().filter(|(op, _)| op.kind.is_window());
        let by_time = |(op, ns): &(&OpSpec, f64)| (op.precision_computed(), *ns);
        let precision =
            most_time(products.map(by_time)).or_else(|| most_time(timed.iter().map(by_time)))?;
        let memory_format =
            most_time(windows.map(|(op, ns)| (op.format(), *ns))).unwrap_or_default();
        Some(Self { precision, memory_format })
    }
}

/// The value on which most time was spent.
fn most_time<T: Ord + Copy>(timed: impl Iterator<Item = (T, f64)>) -> Option<T> {
    let mut sums = std::collections::BTreeMap::<T, f64>::new();
    timed.for_each(|(value, ns)| *sums.entry(value).or_default() += ns);
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(value, _)| value)
}

impl Protocol {
    /// The least that shows how much memory a model takes: one run to warm up, in which engines plan
    /// their memory, and two more.
    #[must_use]
    pub fn of_memory_alone(self) -> Self {
        Self { warmups: 1, min_repeats: 2, max_repeats: 2, ..self }
    }

    /// Whether a model run of this protocol measured memory alone: it has the repeats of
    /// [`Protocol::of_memory_alone`], no timed operator and no reference workload. No column of a
    /// dataset says so. Its two end-to-end samples are not a measurement of latency.
    #[must_use]
    pub fn measured_memory_alone(&self, operators: usize, reference: &Samples) -> bool {
        let repeats = (self.warmups, self.min_repeats, self.max_repeats);
        repeats == (1, 2, 2) && operators == 0 && reference.wall_ns.is_empty()
    }
}

impl ModelProfile {
    /// Whether memory alone was measured ([`Protocol::measured_memory_alone`]), also where the run
    /// failed or the system reported no memory.
    #[must_use]
    pub fn is_of_memory_alone(&self) -> bool {
        self.protocol.measured_memory_alone(self.operators.len(), &self.reference)
    }
}

impl ModelIdentity {
    /// The space of small networks around single operators: always training data, never evaluated
    /// end to end.
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

/// The middle of the sorted samples; the mean of the two middle ones of an even number. `None`
/// without samples.
#[must_use]
pub fn median(samples: &[u64]) -> Option<f64> {
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
    use crate::{OpKind, Operand, TensorSpec};

    #[test]
    fn what_ran_is_where_the_time_went() {
        let timed = |kind: OpKind, precision, format, ns| {
            let tensor = TensorSpec::new([1, 8, 4, 4], precision).with_format(format);
            let op = OpSpec {
                kind,
                attributes: Default::default(),
                inputs: vec![Operand { tensor: tensor.clone(), constant: false }],
                outputs: vec![tensor],
            };
            let samples = Samples { wall_ns: vec![ns], cpu_ns: Vec::new() };
            Measurement {
                op: op.into(),
                node: String::new(),
                kernel: String::new(),
                samples,
                memory_bytes: None,
                status: Status::Ok,
            }
        };
        use MemoryFormat::{Blocked, ChannelsFirst};
        let conv = timed(OpKind::Conv, Precision::I8, Blocked, 50);
        let relu = timed(OpKind::Relu, Precision::F32, ChannelsFirst, 90);
        let blocked = Executed { precision: Precision::I8, memory_format: Blocked };
        let plain = Executed { precision: Precision::F32, memory_format: ChannelsFirst };
        assert_eq!(Executed::of(&[conv, relu.clone()]), Some(blocked));
        assert_eq!(Executed::of(&[relu]), Some(plain));
        assert_eq!(Executed::of(&[]), None);
    }

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3, 1, 2]), Some(2.0));
        assert_eq!(median(&[4, 1, 2, 3]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}

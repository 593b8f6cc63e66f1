//! How one run of a model samples: warm-ups, then repeats until the interval of the median is
//! narrow enough or the model run's time is used up, then runs in which the operators are timed.

use crate::{backends::RunOptions, statistics};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vitempo_graph::{Protocol, Samples};

/// The protocol of a model run: the fields that every row stores, and those that only control the
/// sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProtocol {
    /// Warm-ups, repeats, target spread, rounds, seed, inputs.
    pub protocol: Protocol,
    /// Most runs in which operators are timed; slow models have fewer
    /// ([`RunProtocol::profiled_runs`]).
    pub profiled_repeats: usize,
    /// Runs of the reference workload before, and again after, each model run; 0: none.
    pub reference_repeats: usize,
    /// No further end-to-end sample starts after this time, if there are the fewest samples.
    pub sampling_budget: Duration,
    /// Whether the model's outputs are returned too.
    #[serde(default)]
    pub outputs: bool,
    /// Whether memory that the engine frees stays with the process. In a network around an operator
    /// large buffers would be new to the process in each run; a model takes them from operators
    /// before.
    #[serde(default)]
    pub keeps_memory: bool,
    /// Whether the model runs in a process of its own, which reads it from a file with its weights:
    /// only then is the memory of the process that of the model.
    #[serde(default)]
    pub fresh: bool,
}

impl Default for RunProtocol {
    /// 3 warm-ups, 8 to 30 repeats, target spread 2 %, one round, 10 profiled repeats, 1.2 s: about
    /// 3 s a model run for a model of 50 ms.
    fn default() -> Self {
        let protocol = Protocol {
            warmups: 3,
            min_repeats: 8,
            max_repeats: 30,
            target_spread: 0.02,
            rounds: 1,
            seed: 0,
            input_distribution: crate::InputDistribution::default().to_string(),
        };
        Self {
            protocol,
            profiled_repeats: 10,
            reference_repeats: 5,
            sampling_budget: Duration::from_millis(1200),
            outputs: false,
            keeps_memory: false,
            fresh: false,
        }
    }
}

impl RunProtocol {
    /// The protocol as it is written with rows measured with these options: with the seed and
    /// inputs that were used.
    #[must_use]
    pub fn recorded(&self, options: &RunOptions) -> Protocol {
        Protocol {
            seed: options.seed,
            input_distribution: options.inputs.to_string(),
            ..self.protocol.clone()
        }
    }

    /// Warm-ups and repeats of the runs in which operators are timed, for a model of this latency:
    /// as many as fit into three sampling budgets, but at least one warm-up and three repeats.
    #[must_use]
    pub fn profiled_runs(&self, e2e_ns: f64) -> (usize, usize) {
        let fitting = (3.0 * self.sampling_budget.as_nanos() as f64 / e2e_ns.max(1.0)) as usize;
        (self.protocol.warmups.min(fitting.max(1)), self.profiled_repeats.min(fitting.max(3)))
    }

    /// The same end to end, without timing operators and without the reference workload.
    #[must_use]
    pub fn end_to_end_alone(&self) -> Self {
        Self { profiled_repeats: 0, reference_repeats: 0, outputs: false, ..self.clone() }
    }

    /// The least that shows how much memory a model takes ([`Protocol::of_memory_alone`]), in a
    /// process of its own.
    #[must_use]
    pub fn memory_alone(&self) -> Self {
        let runs = self.protocol.clone().of_memory_alone();
        Self { protocol: runs, fresh: true, keeps_memory: false, ..self.end_to_end_alone() }
    }

    /// Whether sampling continues after these samples and this time.
    #[must_use]
    pub fn wants_more(&self, samples: &Samples, elapsed: Duration) -> bool {
        let taken = samples.wall_ns.len();
        if taken < self.protocol.min_repeats.max(1) {
            return true;
        }
        let precise = statistics::relative_half_width(&samples.wall_ns)
            .is_some_and(|width| width <= self.protocol.target_spread);
        taken < self.protocol.max_repeats && !precise && elapsed < self.sampling_budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(wall_ns: Vec<u64>) -> Samples {
        Samples { wall_ns, cpu_ns: Vec::new() }
    }

    #[test]
    fn slow_models_are_profiled_less() {
        let protocol = RunProtocol::default();
        for (e2e_ns, runs) in
            [(0.0, (3, 10)), (50e6, (3, 10)), (600e6, (3, 6)), (2e9, (1, 3)), (60e9, (1, 3))]
        {
            assert_eq!(protocol.profiled_runs(e2e_ns), runs, "{e2e_ns}");
        }
    }

    #[test]
    fn sampling_stops_when_it_should() {
        let protocol = RunProtocol::default();
        let (short, long) = (Duration::ZERO, Duration::from_secs(9));
        let noisy: Vec<u64> = (0..30).map(|i| 100 + 10 * i).collect();
        for (taken, elapsed, more) in [
            (vec![], long, true),
            (vec![100; 7], long, true),
            (vec![100; 8], short, false),
            (noisy[..8].to_vec(), short, true),
            (noisy[..8].to_vec(), long, false),
            (noisy.clone(), short, false),
        ] {
            assert_eq!(
                protocol.wants_more(&samples(taken.clone()), elapsed),
                more,
                "{taken:?} {elapsed:?}"
            );
        }
    }
}

//! One encoder and several decoders on a few processors: placements, with frames one after the
//! other or overlapped (thesis of A. Funk, Brown University, sections 4.1.2 and 4.2).
//!
//! Decoders on different processors run at the same time, those on one processor one after the
//! other. ER is the encoder's time, DR that of the slowest processor's decoders and the transfers
//! to them.
//!
//! | execution | period | latency |
//! |---|---|---|
//! | sequential | ER + DR | ER + DR |
//! | pipelined | the busiest processor's load: max(ER, DR) where nothing is shared | ER + DR, plus waiting (simulate) |
//!
//! The thesis calls max(ER, DR) an amortised latency; it is a period.

use crate::{
    Evidence, Optimality, Plan, Predicted, Regret, Stage, Transfer,
    cost::{CostError, End, Interval},
};
use std::collections::BTreeSet;

mod enumeration;

pub use enumeration::{Leading, STEPS, default_budget};

/// Whether the next frame's encoder may run while this frame's decoders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// One frame after the other: encoder, then decoders.
    Sequential,
    /// The encoder works on the next frame while decoders work on this one.
    Pipelined,
}

/// One of the parts of a multi-task model.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Unique name.
    pub name: String,
    /// Latency on each processor, ns; `None` where it cannot run.
    pub latency_ns: Vec<Option<Interval>>,
}

/// Costs of a multi-task model.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiTask {
    /// The model's name.
    pub model: String,
    /// Names of the processors.
    pub processors: Vec<String>,
    /// The encoder, which runs first.
    pub encoder: Part,
    /// The decoders, which read the encoder's outputs.
    pub decoders: Vec<Part>,
    /// Size of the encoder's outputs (the features), bytes.
    pub features_bytes: u64,
    /// `[from][to]`: time of transferring the features, ns; `None` where that is impossible.
    pub hand_over_ns: Vec<Vec<Option<Interval>>>,
}

/// A placement with its predicted cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Processor of the encoder.
    pub encoder: usize,
    /// Processor of each decoder.
    pub decoders: Vec<usize>,
    /// Whether frames overlap.
    pub execution: Execution,
    /// ER: time of the encoder.
    pub encoder_ns: Interval,
    /// DR: time of transfers and decoders.
    pub decoders_ns: Interval,
    /// Time between two results.
    pub period_ns: Interval,
    /// Time from frame to result.
    pub latency_ns: Interval,
}

impl MultiTask {
    /// A model of these parts, the encoder first, without processors yet.
    #[must_use]
    pub fn of_parts(model: &str, names: &[String]) -> Self {
        let part = |name: &String| Part { name: name.clone(), latency_ns: Vec::new() };
        let encoder = names.first().map_or_else(|| part(&String::new()), part);
        let decoders = names.iter().skip(1).map(part).collect();
        Self {
            model: model.to_owned(),
            processors: Vec::new(),
            encoder,
            decoders,
            features_bytes: 0,
            hand_over_ns: Vec::new(),
        }
    }

    /// Adds a processor: the latency of every part on it, the encoder first, and the time of
    /// transferring the features to or from any other processor, ns.
    pub fn add_processor(
        &mut self,
        name: &str,
        latency_ns: &[Option<Interval>],
        hand_over_ns: Option<Interval>,
    ) {
        for (index, part) in
            std::iter::once(&mut self.encoder).chain(&mut self.decoders).enumerate()
        {
            part.latency_ns.push(latency_ns.get(index).copied().flatten());
        }
        self.hand_over_ns.iter_mut().for_each(|row| row.push(hand_over_ns));
        let own = std::iter::repeat_n(hand_over_ns, self.processors.len())
            .chain([Some(Interval::ZERO)])
            .collect();
        self.hand_over_ns.push(own);
        self.processors.push(name.to_owned());
    }

    /// # Errors
    /// [`CostError`] when a part or a link does not fit the processors, or one is listed twice.
    pub fn check(&self) -> Result<(), CostError> {
        let count = self.processors.len();
        if count == 0 {
            return Err(CostError::Empty { what: "processor" });
        }
        if self.decoders.is_empty() {
            return Err(CostError::Empty { what: "decoder" });
        }
        let refuse =
            |node: &str, reason: String| Err(CostError::Node { node: node.to_owned(), reason });
        for part in std::iter::once(&self.encoder).chain(&self.decoders) {
            if part.latency_ns.len() != count {
                return refuse(
                    &part.name,
                    format!("{} latencies for {count} processors", part.latency_ns.len()),
                );
            }
            if part.latency_ns.iter().all(Option::is_none) {
                return refuse(&part.name, "it can run nowhere".to_owned());
            }
        }
        if self.hand_over_ns.len() != count
            || self.hand_over_ns.iter().any(|row| row.len() != count)
        {
            return refuse(
                &self.encoder.name,
                format!("handing over must be known from and to each of {count} processors"),
            );
        }
        let mut seen = BTreeSet::new();
        match self.processors.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(CostError::Twice { what: "processor", name: name.clone() }),
            None => Ok(()),
        }
    }

    /// The predicted cost of one placement; `None` when it cannot run.
    #[must_use]
    pub fn schedule(
        &self,
        encoder: usize,
        decoders: &[usize],
        execution: Execution,
    ) -> Option<Schedule> {
        let encoder_ns = (*self.encoder.latency_ns.get(encoder)?)?;
        let mut load = vec![Interval::ZERO; self.processors.len()];
        for (part, &processor) in self.decoders.iter().zip(decoders) {
            let own = (*part.latency_ns.get(processor)?)?;
            let first = load[processor] == Interval::ZERO;
            let received = if first && processor != encoder {
                self.hand_over_ns[encoder][processor]?
            } else {
                Interval::ZERO
            };
            load[processor] = load[processor] + received + own;
        }
        let busiest = |load: &[Interval]| load.iter().copied().fold(Interval::ZERO, Interval::max);
        let decoders_ns = busiest(&load);
        let latency_ns = encoder_ns + decoders_ns;
        let period_ns = match execution {
            Execution::Sequential => latency_ns,
            Execution::Pipelined => {
                load[encoder] = load[encoder] + encoder_ns;
                busiest(&load)
            }
        };
        Some(Schedule {
            encoder,
            decoders: decoders.to_vec(),
            execution,
            encoder_ns,
            decoders_ns,
            period_ns,
            latency_ns,
        })
    }

    /// A placement as a plan to print. Its gap is against all placements of the same execution.
    ///
    /// # Errors
    /// As [`MultiTask::check`].
    pub fn plan(&self, schedule: &Schedule) -> Result<Plan, CostError> {
        self.check()?;
        let (mut least, mut lower) = (u64::MAX, u64::MAX);
        let is_complete = self.each(schedule.execution, &default_budget(), |other| {
            least = least.min(other.period_ns.point());
            lower = lower.min(other.period_ns.at(End::Lower));
        });
        if !is_complete {
            (least, lower) = (self.period_at_least(schedule.execution), 0);
        }
        let gap = schedule.period_ns.point().saturating_sub(least) as f64 / least.max(1) as f64;
        let name = |processor: usize| self.processors[processor].clone();
        let stage = |part: &Part, processor: usize| Stage {
            processor: name(processor),
            nodes: vec![part.name.clone()],
            latency_ns: part.latency_ns[processor].unwrap_or_default(),
            memory_bytes: 0,
        };
        let decoders = self
            .decoders
            .iter()
            .zip(&schedule.decoders)
            .map(|(part, &processor)| stage(part, processor));
        let mut receivers: Vec<usize> =
            schedule.decoders.iter().copied().filter(|&p| p != schedule.encoder).collect();
        receivers.sort_unstable();
        receivers.dedup();
        let hand_over = |to: usize| Transfer {
            from: name(schedule.encoder),
            to: name(to),
            tensors: vec!["features".to_owned()],
            size_bytes: self.features_bytes,
            latency_ns: self.hand_over_ns[schedule.encoder][to].unwrap_or_default(),
        };
        let predicted = Predicted {
            latency_ns: schedule.latency_ns,
            period_ns: Some(schedule.period_ns),
            device_energy_nj: None,
        };
        Ok(Plan {
            model: self.model.clone(),
            stages: std::iter::once(stage(&self.encoder, schedule.encoder))
                .chain(decoders)
                .collect(),
            transfers: receivers.into_iter().map(hand_over).collect(),
            predicted,
            optimal: Optimality {
                minimised: "period".to_owned(),
                bounds: Vec::new(),
                cost_model: "decoders on one processor run one after the other, on several at the \
                    same time; nothing slows down what runs beside it"
                    .to_owned(),
                gap,
            },
            // An upper bound: this placement at its upper end, every other placement at its lower
            // end.
            regret: Some(Regret::of(
                schedule.period_ns.at(End::Upper).saturating_sub(lower),
                schedule.period_ns.at(End::Upper),
            )),
            evidence: Evidence::CostModel,
        })
    }
}

/// Eq. 4.1 of the thesis, in percent: P = 100 (1000 / frame rate) / M, for a frame rate in 1/s and
/// the longest time M in ms. Less is better: 50 is an ideal pipeline of two stages, 100 is no gain.
#[must_use]
pub fn percent_of_maximum(frames_per_s: f64, longest_ms: f64) -> f64 {
    100.0 * (1000.0 / frames_per_s) / longest_ms
}

/// The share of an ideal halving of the time from result to result that a pipeline of two stages
/// attains: eta = 2 (1 - P / 100).
#[must_use]
pub fn eta(percent_of_maximum: f64) -> f64 {
    2.0 * (1.0 - percent_of_maximum / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Budget, Limits};

    fn ms(value: u64) -> Option<Interval> {
        Some(Interval::exact(value * 1_000_000))
    }

    fn model() -> MultiTask {
        let part = |name: &str, latency_ns: [Option<Interval>; 3]| Part {
            name: name.to_owned(),
            latency_ns: latency_ns.to_vec(),
        };
        let free = |i: usize| (0..3).map(|j| if i == j { ms(0) } else { ms(5) }).collect();
        MultiTask {
            model: "two tasks".to_owned(),
            processors: ["cpu", "gpu", "npu"].map(str::to_owned).to_vec(),
            encoder: part("encoder", [ms(90), ms(60), ms(40)]),
            decoders: vec![
                part("depth", [ms(30), ms(20), None]),
                part("segmentation", [ms(50), ms(25), ms(45)]),
            ],
            features_bytes: 1 << 20,
            hand_over_ns: (0..3).map(free).collect(),
        }
    }

    #[test]
    fn every_placement_that_can_run_is_tried() {
        let model = model();
        let all = model.all(Execution::Sequential).expect("placements");
        assert_eq!(all.len(), 3 * 2 * 3);
        let cpu_only = model.schedule(0, &[0, 0], Execution::Sequential).expect("a placement");
        assert_eq!(
            (cpu_only.period_ns, cpu_only.latency_ns),
            (Interval::exact(170_000_000), Interval::exact(170_000_000))
        );
        assert_eq!(model.schedule(0, &[2, 0], Execution::Sequential), None);
    }

    #[test]
    fn a_pipeline_gains_only_where_parts_are_apart() {
        let model = model();
        let pipelined = |e, d: [usize; 2]| {
            model.schedule(e, &d, Execution::Pipelined).expect("a placement").period_ns.point()
                / 1_000_000
        };
        assert_eq!(pipelined(0, [0, 0]), 170); // One processor: its load is everything.
        assert_eq!(pipelined(2, [1, 1]), 5 + 20 + 25); // Two stages: max(ER, DR).
        assert_eq!(pipelined(2, [1, 0]), 5 + 50); // Decoders side by side.
        assert_eq!(pipelined(2, [1, 2]), 40 + 45); // The encoder's processor decodes too.
        let best = model.best(Execution::Pipelined).expect("an answer").expect("a placement");
        assert_eq!((best.encoder, best.decoders), (2, vec![0, 1]));
    }

    #[test]
    fn the_leading_placements_are_the_first_of_all() {
        let model = model();
        for execution in [Execution::Sequential, Execution::Pipelined] {
            let mut all = model.all(execution).expect("placements");
            all.sort_by_key(Schedule::rank);
            for most in [1, 3, 100] {
                let found = model.leading(execution, most, &default_budget()).expect("placements");
                let expected = &all[..most.min(all.len())];
                assert!(found.is_complete && found.schedules == expected, "{most}");
                assert_eq!(found.at_least, all[0].period_ns.point());
            }
        }
    }

    #[test]
    fn many_decoders_end_with_a_true_bound() {
        let part = |n: u64| Part {
            name: format!("decoder {n}"),
            latency_ns: (0..4).map(|p| ms(3 + (7 * n + 5 * p) % 11)).collect(),
        };
        let free = |i: usize| (0..4).map(|j| if i == j { ms(0) } else { ms(1) }).collect();
        let model = MultiTask {
            model: "many".to_owned(),
            processors: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            encoder: part(0),
            decoders: (1..=20).map(part).collect(),
            features_bytes: 1,
            hand_over_ns: (0..4).map(free).collect(),
        };
        assert_eq!(model.placements(), 4u128.pow(21));
        let budget = Budget::new(Limits { steps: 1 << 16, ..Limits::NONE });
        let found = model.leading(Execution::Pipelined, 5, &budget).expect("placements");
        assert!(!found.is_complete && budget.steps_spent() <= 1 << 16);
        let best = found.schedules[0].period_ns.point();
        assert!(best >= found.at_least && best < 2 * found.at_least, "{best}, {}", found.at_least);
    }

    #[test]
    fn plans_name_their_parts() {
        let model = model();
        let best = model.best(Execution::Sequential).expect("an answer").expect("a placement");
        let plan = model.plan(&best).expect("a plan");
        assert_eq!(plan.optimal.gap, 0.0);
        assert_eq!(
            plan.stages.iter().map(|s| s.nodes[0].as_str()).collect::<Vec<_>>(),
            ["encoder", "depth", "segmentation"]
        );
        let worse = model.schedule(0, &[0, 0], Execution::Sequential).expect("a placement");
        assert!(model.plan(&worse).expect("a plan").optimal.gap > 0.5);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut model = model();
        model.decoders[0].latency_ns.pop();
        assert!(
            model
                .check()
                .is_err_and(|e| e.to_string() == "node `depth`: 2 latencies for 3 processors")
        );
        let mut model = self::model();
        model.processors[2] = "cpu".to_owned();
        assert!(model.check().is_err_and(|e| e.to_string() == "processor `cpu` is listed twice"));
    }

    #[test]
    fn an_ideal_pipeline_halves_the_longest_time() {
        assert_eq!(percent_of_maximum(20.0, 100.0), 50.0);
        assert_eq!((eta(50.0), eta(100.0)), (1.0, 0.0));
    }
}

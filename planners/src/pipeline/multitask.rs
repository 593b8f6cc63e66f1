//! One encoder and several decoders on a few processors: placements, with frames one after the
//! other or overlapped (thesis of A. Funk, Brown University, sections 4.1.2 and 4.2). A decoder may
//! have postprocessing, a part of its own that makes a result of its prediction: a picture of a
//! depth map, or the classes with the highest scores.
//!
//! Decoders on different processors run at the same time, those on one processor one after the
//! other; so does postprocessing, after all decoders. ER is the encoder's time, DR that of the
//! slowest processor's decoders and the transfers to them, PR that of postprocessing likewise.
//!
//! | execution | period | latency |
//! |---|---|---|
//! | sequential | ER + DR + PR | ER + DR + PR |
//! | pipelined | the busiest processor's load: max(ER, DR, PR) where nothing is shared | ER + DR + PR, plus waiting (simulate) |
//!
//! The thesis calls max(ER, DR) an amortised latency; it is a period.

use super::Tasks;
use crate::cost::{CostError, Interval};
use std::{collections::BTreeSet, ops::Range};

mod enumeration;
mod plan;
mod regret;

pub use enumeration::{Leading, STEPS, default_budget};

/// By processor, and processor: the time of a transfer from one to the other, ns; `None` where that
/// is impossible.
pub type TransferTimes = Vec<Vec<Option<Interval>>>;

/// Whether the next frame's encoder may run while this frame's decoders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// One frame after the other: encoder, then decoders, then postprocessing.
    Sequential,
    /// The encoder works on the next frame while decoders work on this one, and postprocessing on
    /// the one before.
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

/// What makes a result of a decoder's prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Postprocessing {
    /// Index of the decoder.
    pub decoder: usize,
    /// The work itself.
    pub part: Part,
    /// Size of the prediction, bytes.
    pub prediction_bytes: u64,
    /// Time of transferring the prediction.
    pub hand_over_ns: TransferTimes,
}

/// Inputs of the model that the same parts read. They arrive on the first processor.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInputs {
    /// Indices of the parts in [`MultiTask::parts`], rising.
    pub readers: Vec<usize>,
    /// Their size, bytes.
    pub size_bytes: u64,
    /// By processor: the time of their transfer from the first one, ns; `None` where that is
    /// impossible.
    pub arrival_ns: Vec<Option<Interval>>,
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
    /// Of the decoders that have some.
    pub postprocessing: Vec<Postprocessing>,
    /// Size of the encoder's outputs (the features), bytes.
    pub features_bytes: u64,
    /// Time of transferring the features.
    pub hand_over_ns: TransferTimes,
    /// Inputs of the model; none where they arrive on every processor.
    pub inputs: Vec<ModelInputs>,
}

/// A placement with its predicted cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Processor of the encoder.
    pub encoder: usize,
    /// Processor of each decoder.
    pub decoders: Vec<usize>,
    /// Processor of each postprocessing.
    pub postprocessing: Vec<usize>,
    /// Whether frames overlap.
    pub execution: Execution,
    /// ER: time of transfers to the encoder and of the encoder.
    pub encoder_ns: Interval,
    /// DR: time of transfers and decoders.
    pub decoders_ns: Interval,
    /// PR: time of transfers and postprocessing.
    pub postprocessing_ns: Interval,
    /// Time between two results.
    pub period_ns: Interval,
    /// Time from frame to result.
    pub latency_ns: Interval,
}

impl Schedule {
    /// The processor of each part, in the order of [`MultiTask::parts`].
    #[must_use]
    pub fn places(&self) -> Vec<usize> {
        let others = self.decoders.iter().chain(&self.postprocessing);
        std::iter::once(&self.encoder).chain(others).copied().collect()
    }
}

impl MultiTask {
    /// The parts of a model, without processors and sizes yet.
    #[must_use]
    pub fn of_tasks(model: &str, tasks: &Tasks) -> Self {
        let mut names = tasks.names.iter();
        let mut part =
            || Part { name: names.next().cloned().unwrap_or_default(), latency_ns: Vec::new() };
        let encoder = part();
        let decoders = (0..tasks.decoders()).map(|_| part()).collect();
        let postprocessing = |&decoder: &usize| Postprocessing {
            decoder,
            part: part(),
            prediction_bytes: 0,
            hand_over_ns: Vec::new(),
        };
        Self {
            model: model.to_owned(),
            processors: Vec::new(),
            encoder,
            decoders,
            postprocessing: tasks.postprocessing.iter().map(postprocessing).collect(),
            features_bytes: 0,
            hand_over_ns: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// The encoder, the decoders, postprocessing.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        let after = self.postprocessing.iter().map(|p| &p.part);
        std::iter::once(&self.encoder).chain(&self.decoders).chain(after)
    }

    /// The same parts, to change.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        let after = self.postprocessing.iter_mut().map(|p| &mut p.part);
        std::iter::once(&mut self.encoder).chain(&mut self.decoders).chain(after)
    }

    /// Adds a processor: the latency of every part on it, in the order of [`MultiTask::parts`], and
    /// the time of a transfer of so many bytes to or from any other processor, ns.
    pub fn add_processor(
        &mut self,
        name: &str,
        latency_ns: &[Option<Interval>],
        transfer_ns: &dyn Fn(u64) -> Option<Interval>,
    ) {
        for (index, part) in self.parts_mut().enumerate() {
            part.latency_ns.push(latency_ns.get(index).copied().flatten());
        }
        add_transfers(&mut self.hand_over_ns, transfer_ns(self.features_bytes));
        for after in &mut self.postprocessing {
            add_transfers(&mut after.hand_over_ns, transfer_ns(after.prediction_bytes));
        }
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
        for part in self.parts() {
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
        let after = self.postprocessing.iter().map(|p| (&p.part, &p.hand_over_ns));
        for (part, times) in std::iter::once((&self.encoder, &self.hand_over_ns)).chain(after) {
            if times.len() != count || times.iter().any(|row| row.len() != count) {
                return refuse(
                    &part.name,
                    format!("handing over must be known from and to each of {count} processors"),
                );
            }
        }
        let arrives = |inputs: &&ModelInputs| inputs.arrival_ns.len() != count;
        if let Some(reader) = self.inputs.iter().find(arrives).and_then(|i| i.readers.first()) {
            let name = self.part(*reader).map_or("inputs", |part| &part.name);
            let reason =
                format!("when its inputs arrive must be known for each of {count} processors");
            return refuse(name, reason);
        }
        let lost = |p: &&Postprocessing| p.decoder >= self.decoders.len();
        if let Some(after) = self.postprocessing.iter().find(lost) {
            return refuse(&after.part.name, format!("there is no decoder {}", after.decoder));
        }
        let mut seen = BTreeSet::new();
        match self.processors.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(CostError::Twice { what: "processor", name: name.clone() }),
            None => Ok(()),
        }
    }

    /// The predicted cost of one placement: `places` has the processor of each part, in the order of
    /// [`MultiTask::parts`]. `None` when it cannot run.
    #[must_use]
    pub fn schedule(&self, places: &[usize], execution: Execution) -> Option<Schedule> {
        let (&encoder, others) = places.split_first()?;
        let (decoders, postprocessing) = others.split_at_checked(self.decoders.len())?;
        let encoder_ns = self.received_ns(places, 0)? + (*self.encoder.latency_ns.get(encoder)?)?;
        let first_after = 1 + self.decoders.len();
        let mut load = self.load(places, 1..first_after)?;
        let after = self.load(places, first_after..first_after + self.postprocessing.len())?;
        let busiest = |load: &[Interval]| load.iter().copied().fold(Interval::ZERO, Interval::max);
        let (decoders_ns, postprocessing_ns) = (busiest(&load), busiest(&after));
        let latency_ns = encoder_ns + decoders_ns + postprocessing_ns;
        let period_ns = match execution {
            Execution::Sequential => latency_ns,
            Execution::Pipelined => {
                load[encoder] = load[encoder] + encoder_ns;
                load.iter_mut().zip(after).for_each(|(own, more)| *own = *own + more);
                busiest(&load)
            }
        };
        Some(Schedule {
            encoder,
            decoders: decoders.to_vec(),
            postprocessing: postprocessing.to_vec(),
            execution,
            encoder_ns,
            decoders_ns,
            postprocessing_ns,
            period_ns,
            latency_ns,
        })
    }

    /// Time of some parts, with what they receive, on each processor.
    fn load(&self, places: &[usize], parts: Range<usize>) -> Option<Vec<Interval>> {
        let mut load = vec![Interval::ZERO; self.processors.len()];
        for index in parts {
            let &processor = places.get(index)?;
            let own = (*self.part(index)?.latency_ns.get(processor)?)?;
            let sum = load.get_mut(processor)?;
            *sum = *sum + self.received_ns(places, index)? + own;
        }
        Some(load)
    }

    /// A part by its index in [`MultiTask::parts`].
    pub(super) fn part(&self, index: usize) -> Option<&Part> {
        let Some(index) = index.checked_sub(1) else { return Some(&self.encoder) };
        match index.checked_sub(self.decoders.len()) {
            None => self.decoders.get(index),
            Some(after) => self.postprocessing.get(after).map(|p| &p.part),
        }
    }

    /// The time of receiving what a part reads, before it runs: inputs of the model, once per
    /// processor other than the first, before the first part that reads them; the features, once per
    /// processor other than the encoder's, before its first decoder; a prediction, where
    /// postprocessing is on another processor than its decoder. `None` where it cannot be sent.
    pub(super) fn received_ns(&self, places: &[usize], part: usize) -> Option<Interval> {
        let &to = places.get(part)?;
        let arrival = |inputs: &ModelInputs| *inputs.arrival_ns.get(to)?;
        let inputs = self.inputs.iter().filter(|inputs| inputs.arrive_for(places, part));
        let inputs: Option<Interval> = inputs.map(arrival).sum();
        Some(inputs? + self.received_from_parts_ns(places, part)?)
    }

    /// The same of other parts alone.
    fn received_from_parts_ns(&self, places: &[usize], part: usize) -> Option<Interval> {
        let &to = places.get(part)?;
        let Some(decoder) = part.checked_sub(1) else { return Some(Interval::ZERO) };
        let (from, times) = match decoder.checked_sub(self.decoders.len()) {
            None if places[1..part].contains(&to) => return Some(Interval::ZERO),
            None => (places[0], &self.hand_over_ns),
            Some(after) => {
                let after = self.postprocessing.get(after)?;
                (*places.get(1 + after.decoder)?, &after.hand_over_ns)
            }
        };
        if from == to { Some(Interval::ZERO) } else { *times.get(from)?.get(to)? }
    }
}

impl ModelInputs {
    /// Whether a part is the first on its processor that reads them, which is not the one on which
    /// they arrive.
    pub(super) fn arrive_for(&self, places: &[usize], part: usize) -> bool {
        let is_here = |reader: &&usize| places.get(**reader) == places.get(part);
        self.readers.iter().find(is_here) == Some(&part) && places.get(part) != Some(&0)
    }
}

/// Adds a processor with the time of a transfer to or from any other.
fn add_transfers(times: &mut TransferTimes, ns: Option<Interval>) {
    times.iter_mut().for_each(|row| row.push(ns));
    let own = std::iter::repeat_n(ns, times.len()).chain([Some(Interval::ZERO)]).collect();
    times.push(own);
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
            postprocessing: Vec::new(),
            features_bytes: 1 << 20,
            hand_over_ns: (0..3).map(free).collect(),
            inputs: Vec::new(),
        }
    }

    #[test]
    fn inputs_are_sent_once_to_each_processor_that_reads_them() {
        let inputs = |readers: &[usize], arrival_ns: [Option<Interval>; 3]| ModelInputs {
            readers: readers.to_vec(),
            size_bytes: 8,
            arrival_ns: arrival_ns.to_vec(),
        };
        let image = inputs(&[0, 2], [ms(0), ms(7), ms(9)]);
        let hint = inputs(&[1], [ms(0), None, ms(1)]);
        let model = MultiTask { inputs: vec![image, hint], ..model() };
        let placed = |places: &[usize], execution| {
            let schedule = model.schedule(places, execution)?;
            let ms = |ns: Interval| ns.point() / 1_000_000;
            Some((ms(schedule.encoder_ns), ms(schedule.decoders_ns), ms(schedule.period_ns)))
        };
        assert_eq!(placed(&[0, 0, 0], Execution::Sequential), Some((90, 80, 170)));
        // The image to the encoder on `gpu`, which has it for the second decoder as well.
        assert_eq!(placed(&[1, 0, 1], Execution::Sequential), Some((67, 35, 102)));
        assert_eq!(placed(&[1, 0, 1], Execution::Pipelined), Some((67, 35, 67 + 25)));
        // The image and the features to the decoder.
        assert_eq!(placed(&[0, 0, 2], Execution::Sequential), Some((90, 9 + 5 + 45, 149)));
        assert_eq!(placed(&[0, 1, 0], Execution::Sequential), None, "no way for the hint");
        let schedule = model.schedule(&[1, 0, 1], Execution::Sequential).expect("a placement");
        let sent = model.running(&schedule).transfers;
        let sent: Vec<(&str, &str)> =
            sent.iter().map(|t| (t.tensors[0].as_str(), t.to.as_str())).collect();
        assert_eq!(sent, [("inputs", "gpu"), ("features", "cpu")]);
    }

    #[test]
    fn every_placement_that_can_run_is_tried() {
        let model = model();
        let all = model.all(Execution::Sequential).expect("placements");
        assert_eq!(all.len(), 3 * 2 * 3);
        let cpu_only = model.schedule(&[0, 0, 0], Execution::Sequential).expect("a placement");
        assert_eq!(
            (cpu_only.period_ns, cpu_only.latency_ns),
            (Interval::exact(170_000_000), Interval::exact(170_000_000))
        );
        assert_eq!(model.schedule(&[0, 2, 0], Execution::Sequential), None);
    }

    #[test]
    fn a_pipeline_gains_only_where_parts_are_apart() {
        let model = model();
        let pipelined = |e, d: [usize; 2]| {
            model
                .schedule(&[e, d[0], d[1]], Execution::Pipelined)
                .expect("a placement")
                .period_ns
                .point()
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
    fn postprocessing_is_placed_and_its_prediction_is_sent() {
        let latency_ns = vec![ms(6), ms(1), None];
        let part = Part { name: "picture".to_owned(), latency_ns };
        let free = |i: usize| (0..3).map(|j| if i == j { ms(0) } else { ms(2) }).collect();
        let hand_over_ns = (0..3).map(free).collect();
        let after = Postprocessing { decoder: 1, part, prediction_bytes: 9, hand_over_ns };
        let model = MultiTask { postprocessing: vec![after], ..model() };
        let all = model.all(Execution::Sequential).expect("placements");
        assert_eq!(all.len(), 3 * 2 * 3 * 2);
        let placed = |places: &[usize], execution| {
            let schedule = model.schedule(places, execution)?;
            let ms = |ns: Interval| ns.point() / 1_000_000;
            Some((ms(schedule.latency_ns), ms(schedule.period_ns), ms(schedule.postprocessing_ns)))
        };
        assert_eq!(placed(&[0, 0, 0, 0], Execution::Sequential), Some((176, 176, 6)));
        assert_eq!(placed(&[2, 0, 1, 0], Execution::Sequential), Some((83, 83, 2 + 6)));
        assert_eq!(placed(&[2, 0, 1, 0], Execution::Pipelined), Some((83, 5 + 30 + 2 + 6, 8)));
        assert_eq!(placed(&[2, 0, 1, 2], Execution::Sequential), None);
        let schedule = model.schedule(&[2, 0, 1, 0], Execution::Pipelined).expect("a placement");
        assert_eq!(schedule.places(), [2, 0, 1, 0]);
        let plan = model.plan(&schedule).expect("a plan");
        let sent: Vec<(&str, &str, u64)> =
            plan.transfers.iter().map(|t| (t.from.as_str(), t.to.as_str(), t.size_bytes)).collect();
        assert_eq!(sent, [("npu", "cpu", 1 << 20), ("npu", "gpu", 1 << 20), ("gpu", "cpu", 9)]);
        assert_eq!(plan.stages.len(), 4);
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
            postprocessing: Vec::new(),
            features_bytes: 1,
            hand_over_ns: (0..4).map(free).collect(),
            inputs: Vec::new(),
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
        let worse = model.schedule(&[0, 0, 0], Execution::Sequential).expect("a placement");
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

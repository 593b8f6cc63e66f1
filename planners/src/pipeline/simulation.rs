//! [`Simulation`]: simulates an encoder with decoders, including effects that the cost model leaves
//! out: queues, spread, and contention between processors.

use super::multitask::{Execution, MultiTask, Schedule};
use crate::{
    cost::Interval,
    simulator::{Camera, Gate, ProcessorModel, Scenario, Source, StageModel, Stream, Task},
};

/// Duration of one simulation, in frames; a frame counts as the longer of the schedule's latency
/// and the camera's interval.
const FRAMES: u64 = 400;

/// Parameters of a simulation beside the costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Frames that may wait before the decoders, in pipelined execution.
    pub queue: usize,
    /// Spread of latencies: coefficient of variation.
    pub cv: f64,
    /// For each processor, the factor by which tasks are slower while all other processors are
    /// busy; 1: no slowdown.
    pub slowdown: Vec<f64>,
    /// Frames per second of a camera; `None`: another frame as soon as there is room.
    pub camera_fps: Option<f64>,
    /// A frame is late when its results come more than this after it was captured, ns.
    pub deadline_ns: Option<u64>,
}

impl Simulation {
    /// A simulation of the costs alone, with a queue of one frame.
    #[must_use]
    pub fn plain() -> Self {
        Self { queue: 1, cv: 0.0, slowdown: Vec::new(), camera_fps: None, deadline_ns: None }
    }

    /// The scenario of one schedule: its only stream is the frames.
    #[must_use]
    pub fn scenario(&self, model: &MultiTask, schedule: &Schedule) -> Scenario {
        let processors: Vec<ProcessorModel> =
            model.processors.iter().map(ProcessorModel::named).collect();
        let slowdown = slowdown_by_pairs(&self.slowdown, processors.len());
        let places = schedule.places();
        let point = |time: Option<Interval>| time.map_or(0, Interval::point);
        let task = |&(part, processor): &(usize, usize)| Task {
            processor,
            compute_ns: point(model.part(part).and_then(|p| *p.latency_ns.get(processor)?)),
            memory_ns: point(model.received_ns(&places, part)),
            cv: self.cv,
            model: 0,
        };
        let stage = |steps: &Vec<Vec<(usize, usize)>>| {
            let step = |tasks: &Vec<(usize, usize)>| tasks.iter().map(task).collect();
            StageModel {
                name: if steps.len() > 1 { "frame" } else { "stage" }.to_owned(),
                queue: self.queue,
                steps: steps.iter().map(step).collect(),
            }
        };
        let interval_ns = self.camera_fps.map(|fps| (1e9 / fps) as u64);
        let source = interval_ns.map_or(Source::Closed, |period_ns| {
            Source::Camera(Camera { period_ns, gate: Gate::Next })
        });
        let stages = schedule.stages().iter().map(stage).collect();
        let stream =
            Stream { deadline_ns: self.deadline_ns, ..Stream::new("frames", source, stages) };
        let frame_ns = schedule.latency_ns.point().max(interval_ns.unwrap_or(0)).max(1);
        let duration_ns = frame_ns.saturating_mul(FRAMES).min(1 << 60);
        Scenario { slowdown, ..Scenario::new(processors, vec![stream], duration_ns) }
    }
}

impl Schedule {
    /// Stages, each a list of steps, each a list of (part, processor) that run at the same time;
    /// parts are those of [`MultiTask::parts`].
    #[must_use]
    pub fn stages(&self) -> Vec<Vec<Vec<(usize, usize)>>> {
        let mut parts = self.places().into_iter().enumerate();
        let lengths = [1, self.decoders.len(), self.postprocessing.len()];
        let steps: Vec<Vec<(usize, usize)>> = lengths
            .into_iter()
            .map(|length| parts.by_ref().take(length).collect())
            .filter(|step: &Vec<_>| !step.is_empty())
            .collect();
        match self.execution {
            Execution::Sequential => vec![steps],
            Execution::Pipelined => steps.into_iter().map(|step| vec![step]).collect(),
        }
    }
}

/// The factor by which each processor is slower beside each other one, so that every processor has
/// the given slowdown while all others are busy: each of the others adds the same. Empty where no
/// processor is slower.
fn slowdown_by_pairs(slowdown: &[f64], processors: usize) -> Vec<Vec<f64>> {
    if processors < 2 || !slowdown.iter().any(|factor| *factor > 1.0) {
        return Vec::new();
    }
    let row = |processor: usize| {
        let all = slowdown.get(processor).map_or(1.0, |factor| factor.max(1.0));
        vec![1.0 + (all - 1.0) / (processors - 1) as f64; processors]
    };
    (0..processors).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::multitask::{Part, Postprocessing};
    use super::*;
    use crate::simulator::simulate;
    use std::collections::BTreeSet;

    fn ms(value: u64) -> Option<Interval> {
        Some(Interval::exact(value * 1_000_000))
    }

    fn model() -> MultiTask {
        let part = |name: &str, latency_ns: [Option<Interval>; 2]| Part {
            name: name.to_owned(),
            latency_ns: latency_ns.to_vec(),
        };
        MultiTask {
            model: "two tasks".to_owned(),
            processors: vec!["a".to_owned(), "b".to_owned()],
            encoder: part("encoder", [ms(40), ms(60)]),
            decoders: vec![part("depth", [ms(20), ms(30)]), part("segmentation", [ms(25), ms(15)])],
            postprocessing: Vec::new(),
            features_bytes: 0,
            hand_over_ns: vec![vec![ms(0), ms(5)], vec![ms(5), ms(0)]],
            inputs: Vec::new(),
        }
    }

    /// The same, with a picture of the segmentation made of it.
    fn with_postprocessing() -> MultiTask {
        let part = Part { name: "picture".to_owned(), latency_ns: vec![ms(7), ms(9)] };
        let hand_over_ns = vec![vec![ms(0), ms(2)], vec![ms(3), ms(0)]];
        let after = Postprocessing { decoder: 1, part, prediction_bytes: 0, hand_over_ns };
        MultiTask { postprocessing: vec![after], ..model() }
    }

    fn period_ms(simulation: &Simulation, schedule: &Schedule) -> f64 {
        period_of(&model(), simulation, schedule)
    }

    fn period_of(model: &MultiTask, simulation: &Simulation, schedule: &Schedule) -> f64 {
        let outcome =
            simulate(&simulation.scenario(model, schedule), 1).expect("a scenario that fits");
        outcome.streams[0].period_ns().expect("frames") / 1e6
    }

    #[test]
    fn without_spread_and_contention_the_simulator_agrees_with_the_cost_model() {
        let both = [Execution::Sequential, Execution::Pipelined];
        let cases =
            [model(), with_postprocessing()].into_iter().flat_map(|m| both.map(|e| (m.clone(), e)));
        for (model, execution) in cases {
            let all = model.all(execution).expect("placements");
            assert_eq!(all.len(), if model.postprocessing.is_empty() { 8 } else { 16 });
            for schedule in all {
                let (simulated, predicted) = (
                    period_of(&model, &Simulation::plain(), &schedule),
                    schedule.period_ns.point() as f64 / 1e6,
                );
                // Parts of one stage on two processors, one of them another stage's, wait for each
                // other: the period of a shared processor is a lower bound.
                let mut stages = schedule.stages().into_iter().map(|steps| {
                    steps.into_iter().flatten().map(|(_, at)| at).collect::<BTreeSet<usize>>()
                });
                let first = stages.next().unwrap_or_default();
                let shared = execution == Execution::Pipelined
                    && stages
                        .try_fold(first, |seen, own| seen.is_disjoint(&own).then(|| &seen | &own))
                        .is_none();
                let agree = if shared {
                    simulated >= predicted - 1e-6
                } else {
                    (simulated - predicted).abs() < 1e-6
                };
                assert!(agree, "{schedule:?}: {simulated} instead of {predicted}");
            }
        }
    }

    #[test]
    fn processors_slow_each_other_as_measured() {
        for measured in [vec![1.1, 1.4], vec![2.0, 1.0, 1.0], vec![1.3, 0.9, 1.6]] {
            let pairs = slowdown_by_pairs(&measured, measured.len());
            for (own, factor) in measured.iter().enumerate() {
                let others = (0..measured.len()).filter(|other| *other != own);
                let simulated = 1.0 + others.map(|other| pairs[own][other] - 1.0).sum::<f64>();
                assert!((simulated - factor.max(1.0)).abs() < 1e-12, "{measured:?}: {simulated}");
            }
        }
        assert!(slowdown_by_pairs(&[1.0, 0.9], 2).is_empty());
        let schedule = model().schedule(&[0, 1, 1], Execution::Pipelined).expect("a placement");
        // 40 ms of encoder beside 50 ms of decoders: both are busy for most of the time.
        let slowed =
            period_ms(&Simulation { slowdown: vec![1.0, 1.2], ..Simulation::plain() }, &schedule);
        assert!((50.0..60.0).contains(&slowed) && slowed > 55.0, "{slowed}");
        assert_eq!(
            period_ms(&Simulation { slowdown: vec![1.0, 1.0], ..Simulation::plain() }, &schedule),
            50.0
        );
    }

    #[test]
    fn one_of_three_busy_processors_is_slowed_as_measured() {
        let alone = |name: &str, own: usize, of: u64| Part {
            name: name.to_owned(),
            latency_ns: (0..3).map(|at| if at == own { ms(of) } else { None }).collect(),
        };
        let model = MultiTask {
            processors: ["a", "b", "c"].map(str::to_owned).to_vec(),
            encoder: alone("encoder", 0, 50),
            decoders: vec![alone("depth", 1, 80), alone("segmentation", 2, 80)],
            hand_over_ns: vec![vec![ms(0); 3]; 3],
            ..model()
        };
        let schedule = model.schedule(&[0, 1, 2], Execution::Pipelined).expect("a placement");
        let period = |slowdown: &[f64]| {
            let simulation = Simulation { slowdown: slowdown.to_vec(), ..Simulation::plain() };
            period_of(&model, &simulation, &schedule)
        };
        assert_eq!(period(&[1.0; 3]), 80.0);
        // The encoder is the longest stage then, a little less slow while a decoder waits for it.
        let slowed = period(&[2.0, 1.0, 1.0]);
        assert!((85.0..100.0).contains(&slowed), "{slowed}");
        assert_eq!(period(&[1.0, 2.0, 1.0]), period(&[1.0, 1.0, 2.0]));
    }

    #[test]
    fn a_camera_slower_than_the_model_still_brings_frames() {
        let schedule = model().schedule(&[0, 0, 0], Execution::Pipelined).expect("a placement");
        for fps in [0.01, 1.0, 10.0, 300.0] {
            let simulation = Simulation { camera_fps: Some(fps), ..Simulation::plain() };
            let outcome = simulate(&simulation.scenario(&model(), &schedule), 1).expect("frames");
            let frames = outcome.streams[0].completed;
            assert!((FRAMES / 2..=FRAMES).contains(&frames), "{frames} frames at {fps} frames/s");
        }
    }

    #[test]
    fn a_camera_rounds_the_period_up() {
        let schedule = model().schedule(&[0, 0, 0], Execution::Sequential).expect("a placement");
        let period =
            period_ms(&Simulation { camera_fps: Some(25.0), ..Simulation::plain() }, &schedule);
        assert!((period - 120.0).abs() < 1e-6, "{period}");
    }
}

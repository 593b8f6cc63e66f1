//! Evaluates systems in the simulator: violated objectives over all orders of arrival, and
//! completed queries.
//!
//! Every processor is a queue; a task's subgraphs pass through the processors of its order; a whole
//! variant takes one of them. A subgraph that is not loaded is compiled and loaded first, on its
//! processor.

use super::{
    Slo, StitchError,
    orders::arrivals,
    systems::{Chosen, Selection, Setting, System},
};
use crate::{
    Evidence,
    simulator::{Outcome, ProcessorModel, Scenario, Source, StageModel, Stream, Task, simulate},
};

/// The number of violated objectives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violations {
    /// Tasks that violated accuracy or latency, over configurations and orders of arrival.
    pub violated: usize,
    /// Number of objectives.
    pub of: usize,
    /// Whether the search for variants ended, and every order of arrival was simulated, before the
    /// budget ended.
    pub is_complete: bool,
    /// Always [`Evidence::Simulation`].
    pub evidence: Evidence,
}

impl Violations {
    /// Violation rate, a share; 0 without objectives.
    #[must_use]
    pub fn rate(self) -> f64 {
        self.violated as f64 / self.of.max(1) as f64
    }
}

/// Steps of a budget for each simulated stage of a query.
const STEPS_OF_A_STAGE: u64 = 64;

/// The queries of one task and their stages.
struct Job {
    /// Arrival times, ns, rising.
    arrivals: Vec<u64>,
    /// Processor, fetching (ns), running (ns).
    stages: Vec<(usize, u64, u64)>,
}

impl Setting<'_> {
    /// Violations when each task has one query, `spacing_ns` after the one before it, in each order
    /// of arrival, for each configuration. With 0, all queries arrive at once and queue for
    /// processors; with more than the longest latency, each has the chip to itself.
    ///
    /// # Errors
    /// [`StitchError`] when a task cannot run, a configuration does not match the tasks, or the time
    /// of loading a subgraph is not known.
    pub fn violations(
        &self,
        system: System,
        configurations: &[Vec<Slo>],
        spacing_ns: u64,
    ) -> Result<Violations, StitchError> {
        let (mut violated, mut of) = (0, 0);
        let arrivals = arrivals(self.zoo.tasks().len())?;
        let (chosen, left) = match system.selection {
            Selection::Stitched => self.stitched(configurations)?,
            _ => (self.choose(system, configurations)?, 0),
        };
        let mut is_complete = left == 0;
        'simulated: for (slos, chosen) in configurations.iter().zip(chosen) {
            for arriving in &arrivals {
                if of > 0 && self.is_over(arriving.len()) {
                    is_complete = false;
                    break 'simulated;
                }
                let jobs = self.once_each(system, &chosen, arriving, spacing_ns)?;
                let outcome = self.simulated(&jobs)?;
                for (stream, &task) in outcome.streams.iter().zip(arriving) {
                    let latency_ns = stream.latency_ns.first().copied().unwrap_or(u64::MAX);
                    violated +=
                        usize::from(!slos[task].is_met_by(chosen[task].accuracy_bp, latency_ns));
                    of += 1;
                }
            }
        }
        Ok(Violations { violated, of, is_complete, evidence: Evidence::Simulation })
    }

    /// Queries per second when each task has `queries` queries, all waiting from the start, in the
    /// order of tasks; everything loaded.
    ///
    /// # Errors
    /// As [`Setting::violations`].
    pub fn throughput(
        &self,
        system: System,
        slos: &[Slo],
        queries: usize,
    ) -> Result<f64, StitchError> {
        let configurations = [slos.to_vec()];
        let chosen = self.choose(system, &configurations)?.pop().unwrap_or_default();
        let mut jobs: Vec<Job> = Vec::new();
        let mut free = vec![0; self.zoo.processors().len()];
        for query in 0..queries * chosen.len() {
            let task = query % chosen.len();
            let stages = self.stages(task, &chosen[task], 0, &mut free)?;
            // Queries with the same stages follow each other in one stream.
            match jobs.iter_mut().find(|job| job.stages == stages) {
                Some(job) => job.arrivals.push(0),
                None => jobs.push(Job { arrivals: vec![0], stages }),
            }
        }
        if jobs.is_empty() {
            return Ok(0.0);
        }
        let outcome = self.simulated(&jobs)?;
        let done = outcome
            .streams
            .iter()
            .filter_map(|s| s.completed_ns.last())
            .max()
            .copied()
            .unwrap_or(0);
        let completed: u64 = outcome.streams.iter().map(|s| s.completed).sum();
        Ok(if done == 0 { 0.0 } else { completed as f64 / (done as f64 / 1e9) })
    }

    /// Whether the budget ends before the simulation of so many queries.
    fn is_over(&self, queries: usize) -> bool {
        let steps = (queries * self.zoo.positions()) as u64 * STEPS_OF_A_STAGE;
        self.budget.is_some_and(|budget| budget.steps(steps).is_err())
    }

    fn once_each(
        &self,
        system: System,
        chosen: &[Chosen],
        arriving: &[usize],
        spacing_ns: u64,
    ) -> Result<Vec<Job>, StitchError> {
        let mut free = vec![0; self.zoo.processors().len()];
        let job = |(index, &task): (usize, &usize)| {
            let at = spacing_ns.saturating_mul(index as u64);
            let mut stages = self.stages(task, &chosen[task], at, &mut free)?;
            if let (Selection::Stitched, Some((_, loaded))) = (system.selection, self.loaded) {
                for (position, (stage, &variant)) in
                    stages.iter_mut().zip(&chosen[task].variants).enumerate()
                {
                    if !loaded.holds(task, position, variant) {
                        stage.1 = self.zoo.fetch_ns((task, position, variant), stage.0)?;
                    }
                }
            }
            Ok(Job { arrivals: vec![at], stages })
        };
        arriving.iter().enumerate().map(job).collect()
    }

    /// The stages of one query that arrives at a given time. A whole variant runs on the processor
    /// on which it ends first, given the time at which each becomes idle.
    fn stages(
        &self,
        task: usize,
        chosen: &Chosen,
        at: u64,
        free: &mut [u64],
    ) -> Result<Vec<(usize, u64, u64)>, StitchError> {
        let impossible = || StitchError::Impossible {
            task: self.zoo.tasks()[task].name.clone(),
            orders: "the processors it was given".to_owned(),
        };
        if let Some(order) = &chosen.order {
            let step = |(position, (&variant, &processor)): (usize, (&usize, &usize))| {
                self.zoo
                    .step_ns(task, order, position, variant)
                    .map(|ns| (processor, 0, ns.point()))
            };
            let steps = chosen.variants.iter().zip(order.processors()).enumerate().map(step);
            return steps.collect::<Option<_>>().ok_or_else(impossible);
        }
        let done = |(processor, free): (usize, &u64)| {
            let ns = self.whole_ns(task, &chosen.variants, processor)?;
            Some(((*free).max(at).saturating_add(ns), processor, ns))
        };
        let (done, processor, ns) =
            free.iter().enumerate().filter_map(done).min().ok_or_else(impossible)?;
        free[processor] = done;
        Ok(vec![(processor, 0, ns)])
    }

    fn simulated(&self, jobs: &[Job]) -> Result<Outcome, StitchError> {
        let stream = |(index, job): (usize, &Job)| {
            let stage = |&(processor, fetching, running): &(usize, u64, u64)| {
                let task = |memory_ns| vec![Task { processor, memory_ns, ..Task::default() }];
                let steps = if fetching > 0 {
                    vec![task(fetching), task(running)]
                } else {
                    vec![task(running)]
                };
                StageModel {
                    name: self.zoo.processors()[processor].clone(),
                    queue: job.arrivals.len(),
                    steps,
                }
            };
            Stream::new(
                format!("queries {index}"),
                Source::Arrivals(job.arrivals.clone()),
                job.stages.iter().map(stage).collect(),
            )
        };
        let streams = jobs.iter().enumerate().map(stream).collect();
        let processors = self.zoo.processors().iter().map(ProcessorModel::named).collect();
        // An upper bound on the duration: all queries one after the other.
        let serial = jobs.iter().flat_map(|j| {
            j.stages.iter().map(|s| s.1.saturating_add(s.2).saturating_mul(j.arrivals.len() as u64))
        });
        let last = jobs.iter().filter_map(|j| j.arrivals.last()).max().copied().unwrap_or(0);
        let duration_ns = serial.fold(last.saturating_add(1), u64::saturating_add);
        Ok(simulate(&Scenario::new(processors, streams, duration_ns), 0)?)
    }
}

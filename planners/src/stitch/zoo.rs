//! [`Zoo`]: tasks with their variants, cut into subgraphs, and the cost of each subgraph on each
//! processor.
//!
//! Latency of a stitched variant in an order (eq. 5): the sum of its subgraphs' latencies, each on
//! its position's processor. Where links are given, the transfer to the next processor is added
//! (the paper leaves it out, and measures nearly 5 %). Formats belong to processors, so conversion
//! is a property of the link; the size of a transfer belongs to the subgraph that produces the
//! tensor. Where a [`HandOver`] is given, each subgraph has that of its processor too.

use super::{Accuracy, HandOver, Order, Slo, StitchError};
use crate::cost::{Interval, Link};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Largest number of positions.
pub const MOST_POSITIONS: usize = 32;

/// One position of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subgraph {
    /// Latency on each processor, ns; `None` where it cannot run.
    pub latency_ns: Vec<Option<Interval>>,
    /// Memory while loaded, bytes.
    pub memory_bytes: u64,
    /// Size of the tensors for the next position, bytes.
    pub boundary_bytes: u64,
    /// Number of these tensors.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub boundary_tensors: u64,
    /// Time of reading, compiling and loading it on each processor, ns; empty: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_ns: Vec<Option<u64>>,
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_one(count: &u64) -> bool {
    *count == 1
}

impl Subgraph {
    /// Time to send its tensors over a link, ns, with the link's setup; `None` over a link that is
    /// down.
    fn sent_ns(&self, link: &Link) -> Option<Interval> {
        let Some(more) = self.boundary_tensors.checked_sub(1) else { return Some(Interval::ZERO) };
        let messages_ns = link.message_ns.saturating_mul(more);
        let fixed = Interval::exact(messages_ns.saturating_add(link.setup_ns));
        Some(link.transfer_ns(self.boundary_bytes)? + fixed)
    }

    /// Time of reading, compiling and loading it on a processor, ns; 0 where it cannot run, `None`
    /// where the time is not known.
    #[must_use]
    pub fn fetch_ns(&self, processor: usize) -> Option<u64> {
        match self.latency_ns.get(processor).copied().flatten() {
            None => Some(0),
            Some(_) => self.load_ns.get(processor).copied().flatten(),
        }
    }
}

impl Task {
    /// The latency of the fastest subgraph of each position on its fastest processor, in sum, ns: no
    /// stitched variant is faster in any order.
    pub(super) fn at_least_ns(&self) -> u64 {
        let fastest = |row: &Vec<Subgraph>| {
            let times = row.iter().flat_map(|subgraph| subgraph.latency_ns.iter().flatten());
            times.map(|ns| ns.point()).min().unwrap_or(u64::MAX)
        };
        self.subgraphs.iter().map(fastest).fold(0, u64::saturating_add)
    }
}

/// Where times of loading come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loading {
    /// Not known for every subgraph wherever it runs.
    #[default]
    Unknown,
    /// Forecast.
    Forecast,
    /// Stated in a costs file.
    Stated,
    /// Measured.
    Measured,
}

/// One task: a model in several variants.
#[derive(Clone, Debug)]
pub struct Task {
    /// Unique name.
    pub name: String,
    /// Names of the original variants.
    pub variants: Vec<String>,
    /// Subgraphs by position, then variant.
    pub subgraphs: Vec<Vec<Subgraph>>,
    /// Accuracies of the stitched variants.
    pub accuracy: Arc<dyn Accuracy>,
}

/// A stitched variant in some order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stitched {
    /// The variant of each position.
    pub variants: Vec<usize>,
    /// Latency by eq. 5, ns.
    pub latency_ns: u64,
    /// Accuracy, basis points.
    pub accuracy_bp: u32,
}

/// One subgraph, in the form for searches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub variant: usize,
    pub latency_ns: u64,
    /// Latency in a second order that is bounded as well; 0 where there is none.
    pub other_ns: u64,
}

/// Checked tasks on one chip.
#[derive(Clone, Debug)]
pub struct Zoo {
    processors: Vec<String>,
    links: BTreeMap<(usize, usize), Link>,
    pub(super) tasks: Vec<Task>,
    positions: usize,
    /// Where times of loading come from, where they are known.
    loads_from: Loading,
    pub(super) hand_over: HandOver,
}

impl Zoo {
    /// Checks and assembles tasks. `links` go from one processor index to another; without any,
    /// transfers cost nothing (eq. 5 as printed).
    ///
    /// # Errors
    /// [`StitchError`] naming the invalid task.
    pub fn new(
        processors: Vec<String>,
        links: BTreeMap<(usize, usize), Link>,
        tasks: Vec<Task>,
    ) -> Result<Self, StitchError> {
        let positions = tasks.first().map_or(0, |t| t.subgraphs.len());
        let (loads_from, hand_over) = (Loading::Measured, HandOver::Unknown);
        let zoo = Self { processors, links, tasks, positions, loads_from, hand_over };
        if zoo.processors.is_empty() || zoo.tasks.is_empty() {
            return Err(StitchError::zoo("a zoo needs a processor and a task"));
        }
        for (what, names) in [
            ("processor", zoo.processors.iter().collect::<Vec<_>>()),
            ("task", zoo.tasks.iter().map(|t| &t.name).collect()),
        ] {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.into_iter().find(|name| !seen.insert(*name)) {
                return Err(StitchError::zoo(format!("{what} `{twice}` is listed twice")));
            }
        }
        if let Some((from, to)) =
            zoo.links.keys().find(|(from, to)| from.max(to) >= &zoo.processors.len())
        {
            return Err(StitchError::zoo(format!(
                "the link from {from} to {to} names a processor that is not listed; there are {}",
                zoo.processors.len()
            )));
        }
        zoo.tasks.iter().try_for_each(|task| zoo.check_task(task))?;
        Ok(zoo)
    }

    fn check_task(&self, task: &Task) -> Result<(), StitchError> {
        let refuse = |reason: String| Err(StitchError::Task { task: task.name.clone(), reason });
        let (positions, variants) = (task.subgraphs.len(), task.variants.len());
        if positions == 0 || positions > MOST_POSITIONS || variants == 0 {
            return refuse(format!(
                "{variants} variants of {positions} subgraphs; it needs at least one, of 1 to \
                {MOST_POSITIONS} subgraphs"
            ));
        }
        if positions != self.positions {
            return refuse(format!(
                "it is cut into {positions} subgraphs, the first task into {}: all tasks share \
                one order of processors",
                self.positions
            ));
        }
        if let Some(position) = task.subgraphs.iter().position(|row| row.len() != variants) {
            return refuse(format!(
                "position {position} has not one subgraph for each of the {variants} variants"
            ));
        }
        if task.subgraphs.iter().flatten().any(|s| s.latency_ns.len() != self.processors.len()) {
            return refuse(format!(
                "a subgraph has not one latency for each of the {} processors",
                self.processors.len()
            ));
        }
        if task.accuracy.shape() != (positions, variants) {
            let (p, v) = task.accuracy.shape();
            return refuse(format!(
                "accuracies are for {v} variants of {p} subgraphs, there are {variants} of \
                {positions}"
            ));
        }
        Ok(())
    }

    /// The same, whose times of loading are forecast.
    #[must_use]
    pub const fn with_forecast_loads(mut self) -> Self {
        self.loads_from = Loading::Forecast;
        self
    }

    /// The same, whose times of loading are those of a costs file.
    #[must_use]
    pub const fn with_stated_loads(mut self) -> Self {
        self.loads_from = Loading::Stated;
        self
    }

    /// Where the times of loading come from.
    #[must_use]
    pub fn loading(&self) -> Loading {
        let is_known = |subgraph: &Subgraph| {
            (0..self.processors.len()).all(|p| subgraph.fetch_ns(p).is_some())
        };
        let mut subgraphs = self.tasks.iter().flat_map(|task| task.subgraphs.iter().flatten());
        if subgraphs.all(is_known) { self.loads_from } else { Loading::Unknown }
    }

    /// Time of loading a subgraph on a processor, ns; 0 where it cannot run.
    ///
    /// # Errors
    /// [`StitchError::LoadingUnknown`].
    pub fn fetch_ns(
        &self,
        (task, position, variant): (usize, usize, usize),
        processor: usize,
    ) -> Result<u64, StitchError> {
        let found = self.tasks.get(task);
        let subgraph = found.and_then(|task| task.subgraphs.get(position)?.get(variant));
        let ns = subgraph.and_then(|subgraph| subgraph.fetch_ns(processor));
        ns.ok_or_else(|| {
            let variant = found.and_then(|t| t.variants.get(variant)).map_or("?", String::as_str);
            let processor = self.processors.get(processor).map_or("?", String::as_str);
            let position = position + 1;
            StitchError::LoadingUnknown {
                task: found.map_or_else(String::new, |task| task.name.clone()),
                subgraph: format!("variant `{variant}` at position {position} on `{processor}`"),
            }
        })
    }

    /// Names of the processors.
    #[must_use]
    pub fn processors(&self) -> &[String] {
        &self.processors
    }

    /// The tasks.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Number of subgraphs of every variant.
    #[must_use]
    pub const fn positions(&self) -> usize {
        self.positions
    }

    /// Number of stitched variants of a task, V^S; `None` above 2^128.
    #[must_use]
    pub fn stitched_variants(&self, task: usize) -> Option<u128> {
        let variants = self.tasks.get(task).map_or(0, |t| t.variants.len());
        (variants as u128).checked_pow(u32::try_from(self.positions).ok()?)
    }

    /// Latency of one subgraph in an order, with the transfer of its output, ns; without hand-over.
    /// `None` where it cannot run or there is no link.
    pub(super) fn subgraph_ns(
        &self,
        task: usize,
        order: &Order,
        position: usize,
        variant: usize,
    ) -> Option<Interval> {
        let subgraph = self.tasks.get(task)?.subgraphs.get(position)?.get(variant)?;
        let here = *order.processors().get(position)?;
        let run = (*subgraph.latency_ns.get(here)?)?;
        match order.processors().get(position + 1) {
            Some(&next) if next != here && !self.links.is_empty() => {
                let link = self.links.get(&(here, next))?;
                Some(run + subgraph.sent_ns(link)?)
            }
            _ => Some(run),
        }
    }

    /// Latency of a stitched variant in an order, ns (eq. 5); `None` where some subgraph cannot
    /// run.
    #[must_use]
    pub fn latency_ns(&self, task: usize, order: &Order, stitched: &[usize]) -> Option<Interval> {
        let steps = stitched
            .iter()
            .enumerate()
            .map(|(position, &variant)| self.step_ns(task, order, position, variant));
        if stitched.len() == self.positions { steps.sum() } else { None }
    }

    /// The subgraphs that can run at each position in an order.
    pub(super) fn parts(&self, task: usize, order: &Order) -> Vec<Vec<Part>> {
        let variants = self.tasks.get(task).map_or(0, |t| t.variants.len());
        let part = |position, variant| {
            self.step_ns(task, order, position, variant).map(|ns| Part {
                variant,
                latency_ns: ns.point(),
                other_ns: 0,
            })
        };
        (0..self.positions)
            .map(|position| (0..variants).filter_map(|variant| part(position, variant)).collect())
            .collect()
    }

    /// An order as text: `GPU-CPU-NPU`.
    #[must_use]
    pub fn named(&self, order: &Order) -> String {
        let name = |&p: &usize| self.processors.get(p).map_or("?", String::as_str);
        order.processors().iter().map(name).collect::<Vec<_>>().join("-")
    }

    /// Checks that each configuration has one objective per task.
    pub(super) fn check_configurations(
        &self,
        configurations: &[Vec<Slo>],
    ) -> Result<(), StitchError> {
        let tasks = self.tasks.len();
        match configurations.iter().enumerate().find(|(_, slos)| slos.len() != tasks) {
            Some((index, slos)) => Err(StitchError::zoo(format!(
                "configuration {index} has {} objectives for {tasks} tasks",
                slos.len()
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn check_order(&self, order: &Order) -> Result<(), StitchError> {
        let fits = order.processors().len() == self.positions
            && order.processors().iter().all(|&p| p < self.processors.len());
        let reason = || {
            format!(
                "an order of processors {:?} for {} positions and {} processors",
                order.processors(),
                self.positions,
                self.processors.len()
            )
        };
        if fits { Ok(()) } else { Err(StitchError::zoo(reason())) }
    }
}

//! [`Problem`]: the input of a plan for several models on one device.

use super::{Arrivals, MultiDnnError};
use crate::stitch::{Order, Slo, StitchError, Zoo, preload::Loaded};

/// The objective; further criteria decide between equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Fewest objectives violated; then most queries per second when saturated; then least energy;
    /// then least latency.
    #[default]
    Violations,
    /// Most queries per second when saturated; then fewest violated; then least energy; then least
    /// latency.
    Throughput,
}

/// How busy processors slow each other down.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Contention {
    /// Not measured: plans assume no contention.
    #[default]
    Unknown,
    /// By processor, then other processor: the factor by which the first is slower while the other
    /// is busy, at least 1. With several busy processors, the excesses over 1 add up.
    Known(Vec<Vec<f64>>),
}

impl Contention {
    /// The factors, where they are known.
    #[must_use]
    pub fn factors(&self) -> &[Vec<f64>] {
        match self {
            Self::Unknown => &[],
            Self::Known(factors) => factors,
        }
    }
}

/// Time of compiling and loading each subgraph before its first run; 0 where it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetches {
    /// By task, position, variant and processor, ns.
    ns: Vec<Vec<Vec<Vec<u64>>>>,
}

impl Fetches {
    /// From times of each subgraph on each processor: task, position, variant and processor to ns.
    #[must_use]
    pub fn new(zoo: &Zoo, mut ns: impl FnMut(usize, usize, usize, usize) -> u64) -> Self {
        let mut of = |task: usize, position: usize, variant: usize| {
            (0..zoo.processors().len()).map(|p| ns(task, position, variant, p)).collect()
        };
        let mut rows = |task: usize, found: &crate::stitch::Task| {
            let row = |(position, row): (usize, &Vec<_>)| {
                (0..row.len()).map(|variant| of(task, position, variant)).collect()
            };
            found.subgraphs.iter().enumerate().map(row).collect()
        };
        Self { ns: zoo.tasks().iter().enumerate().map(|(task, found)| rows(task, found)).collect() }
    }

    /// The times of loading subgraphs that are not loaded on the processor of their position in an
    /// order.
    ///
    /// # Errors
    /// [`StitchError::LoadingUnknown`] naming a subgraph whose time is not known.
    pub fn missing(zoo: &Zoo, order: &Order, loaded: &Loaded) -> Result<Self, StitchError> {
        let mut unknown = None;
        let fetches = Self::new(zoo, |task, position, variant, processor| {
            let here = order.processors().get(position) == Some(&processor);
            if here && loaded.holds(task, position, variant) {
                return 0;
            }
            let ns = zoo.fetch_ns((task, position, variant), processor);
            ns.unwrap_or_else(|error| {
                unknown.get_or_insert(error);
                0
            })
        });
        unknown.map_or(Ok(fetches), Err)
    }

    pub(super) fn ns(&self, task: usize, position: usize, variant: usize, processor: usize) -> u64 {
        let row = self.ns.get(task).and_then(|t| t.get(position)?.get(variant));
        row.and_then(|row| row.get(processor)).copied().unwrap_or(0)
    }
}

/// Several models on one device.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// Tasks with their variants, processors and links.
    pub zoo: &'a Zoo,
    /// One SLO per task.
    pub slos: Vec<Slo>,
    /// The arrivals of queries.
    pub arrivals: Arrivals,
    /// How busy processors slow each other down.
    pub contention: Contention,
    /// Power of each processor while busy, above idle, W; without it, energy is not a criterion.
    pub active_w: Option<Vec<f64>>,
    /// Times of compiling and loading; without them, everything is loaded.
    pub fetches: Option<Fetches>,
    /// Memory that all subgraphs of a plan must fit into, bytes.
    pub memory_bytes: Option<u64>,
    /// The objective.
    pub objective: Objective,
    /// Queries of each task that wait from the start, for queries per second.
    pub saturation: usize,
}

impl<'a> Problem<'a> {
    /// Everything loaded, contention and power unknown, fewest violations first, queries per second
    /// over 100 queries of each task.
    #[must_use]
    pub fn new(zoo: &'a Zoo, slos: Vec<Slo>, arrivals: Arrivals) -> Self {
        Self {
            zoo,
            slos,
            arrivals,
            contention: Contention::Unknown,
            active_w: None,
            fetches: None,
            memory_bytes: None,
            objective: Objective::Violations,
            saturation: 100,
        }
    }

    pub(super) fn check(&self) -> Result<(), MultiDnnError> {
        let (tasks, processors) = (self.zoo.tasks().len(), self.zoo.processors().len());
        if self.slos.len() != tasks {
            let reason = format!("{} objectives for {tasks} tasks", self.slos.len());
            return Err(MultiDnnError::invalid("objectives", reason));
        }
        if !(1..=1000).contains(&self.saturation) {
            let reason = format!("{} queries of each task; 1 to 1000", self.saturation);
            return Err(MultiDnnError::invalid("saturation", reason));
        }
        let factors = self.contention.factors();
        let known = self.contention != Contention::Unknown;
        let square = factors.len() == processors && factors.iter().all(|r| r.len() == processors);
        if known && !square {
            let reason = format!("it has a row and a column for each of {processors} processors");
            return Err(MultiDnnError::invalid("contention", reason));
        }
        if let Some(factor) = factors.iter().flatten().find(|f| !(f.is_finite() && **f >= 1.0)) {
            let reason = format!("a factor of {factor}; neighbours slow down, 1 or more");
            return Err(MultiDnnError::invalid("contention", reason));
        }
        let Some(watts) = &self.active_w else { return Ok(()) };
        if watts.len() != processors || watts.iter().any(|w| !(w.is_finite() && *w >= 0.0)) {
            let reason = format!("one number for each of {processors} processors, 0 or more");
            return Err(MultiDnnError::invalid("power", reason));
        }
        Ok(())
    }
}

//! [`Desk`]: a bundle's tables over search spaces, for clients that ask for architectures by the
//! thousand.
//!
//! Tables learn while they answer, so one request at a time has them: a batch of it, which takes
//! milliseconds once they have learned. They pay from some thousand architectures on; before that,
//! and with frameworks whose kernels do not fall apart by stages, graphs answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use vitempo::graph::{Graph, OpSpec, PredictionSource};
use vitempo::predictors::{Estimate, PredictorBundle, Tally, WorkingSet, WorkingSetBytes};
use vitempo::query::{Amount, Latencies, Meter, QueryError, Tables};
use vitempo::search_space::{Architecture, Space};

/// Architectures from which on tables are made: making them takes about as long as so many graphs.
const WORTHWHILE: usize = 1000;

/// What an architecture's kernels come to, and how many of them are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Latencies.
    pub tally: Tally,
    /// Kernels by fallback.
    pub fallback: i64,
    /// Kernels by a trained predictor outside its training data.
    pub extrapolating: i64,
}

impl Sum {
    fn of(estimate: Estimate) -> Self {
        let fallback = estimate.source == PredictionSource::Fallback;
        Self {
            tally: Tally::default().with(estimate, 1),
            fallback: fallback.into(),
            extrapolating: (estimate.extrapolating && !fallback).into(),
        }
    }
}

impl Amount for Sum {
    fn plus(self, other: &Self, times: i64) -> Self {
        Self {
            tally: self.tally.plus(&other.tally, times),
            fallback: self.fallback + times * other.fallback,
            extrapolating: self.extrapolating + times * other.extrapolating,
        }
    }

    fn agrees(&self, other: &Self) -> bool {
        self.tally.agrees(&other.tally)
            && (self.fallback, self.extrapolating) == (other.fallback, other.extrapolating)
    }
}

/// Forecasts of a bundle, with their marks.
#[derive(Clone, Debug)]
struct Marked(Arc<PredictorBundle>);

impl Meter for Marked {
    type Amount = Sum;
    type Context = WorkingSet;

    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError> {
        Latencies(&self.0).kernels(graph)
    }

    fn is_local(&self) -> bool {
        Latencies(&self.0).is_local()
    }

    fn context(&self, bytes: &WorkingSetBytes) -> WorkingSet {
        Latencies(&self.0).context(bytes)
    }

    fn contexts(&self, kernels: &[OpSpec]) -> Vec<WorkingSet> {
        Latencies(&self.0).contexts(kernels)
    }

    fn measure(&self, kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, WorkingSet))) -> Vec<Sum> {
        Latencies(&self.0).estimates(kernels).into_iter().map(Sum::of).collect()
    }
}

/// What was asked about one space.
#[derive(Debug, Default)]
struct Drawer {
    asked: usize,
    tables: Option<Tables<Marked>>,
}

/// Tables of one bundle, by space.
#[derive(Debug, Default)]
pub struct Desk(Mutex<BTreeMap<String, Drawer>>);

impl Desk {
    /// The sums of architectures of a space, in their order; `None` where graphs are the better
    /// way, or tell what is wrong with one of them.
    pub fn sums(
        &self,
        bundle: &Arc<PredictorBundle>,
        space: &Space,
        architectures: &[Architecture],
    ) -> Option<Vec<Sum>> {
        let meter = Marked(bundle.clone());
        if architectures.is_empty() || !meter.is_local() {
            return None;
        }
        let mut drawers = self.0.lock().unwrap_or_else(|poisoned| {
            // Whoever failed left tables behind that are half changed.
            self.0.clear_poison();
            let mut drawers = poisoned.into_inner();
            drawers.clear();
            drawers
        });
        let drawer = drawers.entry(space.name().to_owned()).or_default();
        drawer.asked = drawer.asked.saturating_add(architectures.len());
        if drawer.asked < WORTHWHILE {
            return None;
        }
        drawer
            .tables
            .get_or_insert_with(|| Tables::new(space, meter))
            .sums_where(architectures, true)
            .ok()
    }
}

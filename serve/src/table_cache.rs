//! [`TableCache`]: a bundle's tables over search spaces, for clients that send thousands of
//! architectures.
//!
//! Lookups extend the tables, so one batch of one request uses them at a time; a batch takes
//! milliseconds once the tables are filled. Below about a thousand architectures, and for
//! frameworks whose kernels cannot be separated by stages, forecasts are made from graphs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use vitempo::graph::{Graph, OpSpec, PredictionSource};
use vitempo::predictors::{Estimate, PredictorBundle, Tally, WorkingSet, WorkingSetBytes};
use vitempo::query::{Amount, Latencies, Meter, QueryError, Tables};
use vitempo::search_space::{Architecture, Space};

/// Number of architectures from which tables are made; making them takes about as long as this many
/// graphs.
const WORTHWHILE: usize = 1000;

/// Sums over an architecture's kernels, and how many of them are marked.
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

/// Tables of one space, and how many architectures were requested.
#[derive(Debug, Default)]
struct Entry {
    asked: usize,
    tables: Option<Tables<Marked>>,
}

/// Tables of one bundle, by space.
#[derive(Debug, Default)]
pub struct TableCache(Mutex<BTreeMap<String, Entry>>);

impl TableCache {
    /// The sums of architectures of a space, in their order. `None` if graphs are faster, or if an
    /// architecture is invalid: the graph's error names the reason.
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
        let mut entries = self.0.lock().unwrap_or_else(|poisoned| {
            // A panic may have left a table half changed.
            self.0.clear_poison();
            let mut entries = poisoned.into_inner();
            entries.clear();
            entries
        });
        let entry = entries.entry(space.name().to_owned()).or_default();
        entry.asked = entry.asked.saturating_add(architectures.len());
        if entry.asked < WORTHWHILE {
            return None;
        }
        entry
            .tables
            .get_or_insert_with(|| Tables::new(space, meter))
            .sums_where(architectures, true)
            .ok()
    }
}

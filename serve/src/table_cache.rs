//! [`TableCache`]: a bundle's tables over search spaces, for clients that send thousands of
//! architectures.
//!
//! Lookups extend the tables, so one batch of one request uses them at a time; a batch takes
//! milliseconds once the tables are filled. Below about a thousand architectures, while tables are
//! made, and for frameworks whose kernels cannot be separated by stages, forecasts are made from
//! graphs; so are those of a few architectures while another batch uses the tables. Tables that
//! have grown large are dropped, and made anew when they are asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};
use vitempo::graph::{Graph, OpSpec, PredictionSource};
use vitempo::predictors::{Estimate, PredictorBundle, Tally, WorkingSet, WorkingSetBytes};
use vitempo::query::{Amount, Latencies, Meter, QueryError, Tables};
use vitempo::search_space::{Architecture, Space};

/// Number of architectures from which tables are made; making them takes about as long as this many
/// graphs.
const WORTHWHILE: usize = 1000;
/// Architectures whose graphs are made sooner than a batch that extends the tables ends.
const FEW: usize = 4;
/// Rows that the tables of one space may have, about 128 bytes each.
const MOST_ROWS: u64 = 1 << 20;

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
        Self {
            tally: Tally::default().with(estimate, 1),
            fallback: (estimate.source == PredictionSource::Fallback).into(),
            extrapolating: estimate.is_extrapolating().into(),
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
struct Marked(Latencies<Arc<PredictorBundle>>);

impl Meter for Marked {
    type Amount = Sum;
    type Context = WorkingSet;

    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError> {
        self.0.kernels(graph)
    }

    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    fn context(&self, bytes: &WorkingSetBytes) -> WorkingSet {
        self.0.context(bytes)
    }

    fn contexts(&self, kernels: &[OpSpec]) -> Vec<WorkingSet> {
        self.0.contexts(kernels)
    }

    fn measure(&self, kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, WorkingSet))) -> Vec<Sum> {
        self.0.estimates(kernels).into_iter().map(Sum::of).collect()
    }
}

/// Tables of one space.
#[derive(Debug, Default)]
enum Entry {
    /// None yet; so many architectures were requested.
    #[default]
    New,
    Asked(usize),
    /// A request makes them.
    Building,
    Ready(Box<Tables<Marked>>),
}

/// Tables of one bundle, by space.
#[derive(Debug, Default)]
pub struct TableCache(Mutex<BTreeMap<String, Entry>>);

type Entries<'a> = MutexGuard<'a, BTreeMap<String, Entry>>;

/// Ends the making of tables, also where it fails.
struct Building<'a> {
    cache: &'a TableCache,
    space: &'a str,
    made: Entry,
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        let made = std::mem::take(&mut self.made);
        self.cache.entries().insert(self.space.to_owned(), made);
    }
}

impl TableCache {
    fn entries(&self) -> Entries<'_> {
        self.0.lock().unwrap_or_else(|poisoned| self.emptied(poisoned))
    }

    /// `None` where others use them.
    fn free_entries(&self) -> Option<Entries<'_>> {
        match self.0.try_lock() {
            Ok(entries) => Some(entries),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.emptied(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A panic may have left a table half changed.
    fn emptied<'a>(&self, poisoned: PoisonError<Entries<'a>>) -> Entries<'a> {
        self.0.clear_poison();
        let mut entries = poisoned.into_inner();
        entries.clear();
        entries
    }

    /// The sums of architectures of a space, in their order. `None` if graphs are faster, or if an
    /// architecture is invalid: the graph's error names the reason.
    pub fn sums(
        &self,
        bundle: &Arc<PredictorBundle>,
        space: &Space,
        architectures: &[Architecture],
    ) -> Option<Vec<Sum>> {
        let meter = Marked(Latencies(bundle.clone()));
        if architectures.is_empty() || !meter.is_local() {
            return None;
        }
        let mut entries = match architectures.len() {
            ..=FEW => self.free_entries()?,
            _ => self.entries(),
        };
        let entry = entries.entry(space.name().to_owned()).or_default();
        let before = match entry {
            Entry::Ready(tables) => {
                let sums = tables.sums_where(architectures, true).ok();
                if tables.rows() > MOST_ROWS {
                    *entry = Entry::Asked(WORTHWHILE);
                }
                return sums;
            }
            Entry::Building => return None,
            Entry::Asked(asked) => *asked,
            Entry::New => 0,
        };
        let asked = before.saturating_add(architectures.len());
        if asked < WORTHWHILE {
            *entry = Entry::Asked(asked);
            return None;
        }
        *entry = Entry::Building;
        drop(entries);
        self.build(space, meter, architectures)
    }

    /// Makes tables while others are answered by graphs.
    fn build(
        &self,
        space: &Space,
        meter: Marked,
        architectures: &[Architecture],
    ) -> Option<Vec<Sum>> {
        let mut building = Building { cache: self, space: space.name(), made: Entry::New };
        let mut tables = Box::new(Tables::new(space, meter));
        let sums = tables.sums_where(architectures, true).ok();
        building.made = Entry::Ready(tables);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Arc<PredictorBundle> {
        let name = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-onnxruntime-f32-1t.vtb");
        Arc::new(PredictorBundle::load(name.as_ref()).unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn tables_are_made_once_and_nobody_waits_for_them() {
        let space = Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"));
        let some = space.sample_many(4, 3).unwrap_or_else(|e| panic!("{e}"));
        let (cache, bundle) = (TableCache::default(), bundle());
        assert_eq!(cache.sums(&bundle, &space, &some), None, "graphs are faster");
        let is = |expected: &Entry| {
            let kind = std::mem::discriminant(expected);
            cache.entries().get(space.name()).is_some_and(|e| std::mem::discriminant(e) == kind)
        };
        assert!(is(&Entry::Asked(4)));
        cache.entries().insert(space.name().to_owned(), Entry::Building);
        assert_eq!(cache.sums(&bundle, &space, &some), None, "graphs answer meanwhile");
        assert!(is(&Entry::Building));
        cache.entries().insert(space.name().to_owned(), Entry::Asked(WORTHWHILE));
        let made = cache.sums(&bundle, &space, &some);
        assert!(made.is_some() && !is(&Entry::Building) && !is(&Entry::Asked(0)));
        assert_eq!(cache.sums(&bundle, &space, &some), made, "the same tables");
        let used = cache.entries();
        assert_eq!(cache.sums(&bundle, &space, &some), None, "a few do not wait for others");
        drop(used);
        drop(Building { cache: &cache, space: space.name(), made: Entry::New });
        assert!(is(&Entry::New), "a failure leaves none");
    }
}

//! [`Rows`]: sums over the kernels of parts, by the numbers they depend on. Each is computed when
//! it is first needed, many together, and cached.
//!
//! A row belongs to a group of patterns and is the sum of their kernels. Each pattern has rows of
//! its own, by the fewer numbers that it depends on, which groups share. One buffer holds the
//! kernels in turn, so that no kernel needs memory of its own.

use super::{
    Amount, Meter,
    numbers::Numbers,
    pattern::Pattern,
    table::{Group, Key, Place, Table},
    template::Counted,
};
use std::collections::HashMap;
use vitempo_graph::OpSpec;
use vitempo_predictors::WorkingSetBytes;

/// Rows that are computed together.
const TOGETHER: usize = 2048;
/// Rows kept at most, about a gigabyte.
const MOST: usize = 1 << 23;
/// Bytes of amounts kept at most outside of the rows.
const MOST_HEAP_BYTES: usize = 1 << 29;

/// A pattern, and room for its kernels.
struct Part {
    pattern: Pattern,
    mask: u128,
    /// To write numbers into.
    kernel: OpSpec,
}

impl Part {
    /// The row of its kernel at these numbers; `part` is itself.
    fn key(&self, part: Group, Numbers(bits): Numbers) -> Key {
        Key { group: part, numbers: Numbers(bits & self.mask) }
    }

    fn kernel(&mut self, numbers: Numbers) -> &OpSpec {
        self.pattern.write(numbers, &mut self.kernel);
        &self.kernel
    }
}

/// Parts, and how often each counts.
type Sum = Vec<(Group, i64)>;

/// A kernel that is yet to be measured, and its row.
struct Missing<C> {
    part: Group,
    numbers: Numbers,
    context: C,
    place: Place,
}

/// The rows of all groups.
pub(super) struct Rows<M: Meter> {
    parts: Vec<Part>,
    part_of: HashMap<Pattern, Group>,
    groups: Vec<Sum>,
    group_of: HashMap<(u128, Sum), Group>,
    /// Of single kernels, by part.
    kernels: Table<M>,
    /// Of groups.
    rows: Table<M>,
}

impl<M: Meter> Rows<M> {
    pub(super) fn new() -> Self {
        Self {
            parts: Vec::new(),
            part_of: HashMap::new(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            kernels: Table::new(),
            rows: Table::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.rows()
    }

    /// Bytes that amounts take outside of the rows.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes() + self.kernels.heap_bytes()
    }

    /// Forgets all rows when there are too many; groups stay.
    pub(super) fn make_room(&mut self) {
        if self.rows.len() + self.kernels.len() > MOST || self.heap_bytes() > MOST_HEAP_BYTES {
            (self.kernels, self.rows) = (Table::new(), Table::new());
        }
    }

    /// The group of these patterns, which depend on the bits of `mask`.
    pub(super) fn group(&mut self, mask: u128, patterns: Counted) -> Group {
        let parts: Sum =
            patterns.into_iter().map(|(pattern, times)| (self.part(pattern), times)).collect();
        let fresh = self.groups.len() as Group;
        let index = *self.group_of.entry((mask, parts.clone())).or_insert(fresh);
        if index == fresh {
            self.groups.push(parts);
        }
        index
    }

    fn part(&mut self, pattern: Pattern) -> Group {
        let fresh = self.parts.len() as Group;
        let index = *self.part_of.entry(pattern.clone()).or_insert(fresh);
        if index == fresh {
            self.parts.push(Part { mask: pattern.mask(), kernel: pattern.blank(), pattern });
        }
        index
    }

    /// Adds where rows are to `places`, in the order of `keys`.
    pub(super) fn find(&mut self, keys: &[Key], places: &mut Vec<Place>) {
        let Self { parts, groups, kernels, rows, .. } = self;
        rows.find(keys, places, |key| {
            groups[key.group as usize].iter().fold(
                WorkingSetBytes::default(),
                |bytes, &(part, times)| {
                    let place = kernel(part, parts, key.numbers, kernels);
                    bytes.plus(kernels.bytes(place), times)
                },
            )
        });
    }

    /// What a row adds to the working set.
    pub(super) fn bytes(&self, place: Place) -> &WorkingSetBytes {
        self.rows.bytes(place)
    }

    /// What rows come to in contexts, in the order of the questions; `None` where that is yet to be
    /// computed.
    pub(super) fn amounts(
        &self,
        questions: &[(Place, M::Context)],
    ) -> impl Iterator<Item = Option<&M::Amount>> {
        self.rows.amounts(questions)
    }

    /// Computes what rows come to in contexts where that is not known.
    pub(super) fn fill(&mut self, meter: &M, mut wanted: Vec<(Place, M::Context)>) {
        wanted.retain(|&(row, context)| self.rows.amount(row, context).is_none());
        wanted.sort_unstable();
        wanted.dedup();
        for some in wanted.chunks(TOGETHER) {
            let places = self.measured(meter, some);
            let mut places = places.iter();
            for &(row, context) in some {
                let mut sum = M::Amount::default();
                for ((_, times), &place) in
                    self.groups[self.rows.key(row).group as usize].iter().zip(places.by_ref())
                {
                    if let Some(amount) = self.kernels.amount(place, context) {
                        sum = sum.plus(amount, *times);
                    }
                }
                self.rows.keep(row, context, sum);
            }
        }
    }

    /// Where the kernels of rows are, row by row; those that have no amount in a context are
    /// measured.
    fn measured(&mut self, meter: &M, wanted: &[(Place, M::Context)]) -> Vec<Place> {
        let Self { parts, groups, kernels, rows, .. } = self;
        let (mut keys, mut contexts) = (Vec::new(), Vec::new());
        for &(row, context) in wanted {
            let Key { group, numbers } = rows.key(row);
            keys.extend(
                groups[group as usize]
                    .iter()
                    .map(|&(part, _)| parts[part as usize].key(part, numbers)),
            );
            contexts.resize(keys.len(), context);
        }
        let mut places = Vec::with_capacity(keys.len());
        kernels.find(&keys, &mut places, |key| {
            WorkingSetBytes::of(parts[key.group as usize].kernel(key.numbers))
        });
        let mut missing = Vec::new();
        for ((&Key { group: part, numbers }, &place), context) in
            keys.iter().zip(&places).zip(contexts)
        {
            if kernels.amount(place, context).is_none() {
                // A placeholder, so that the row is requested once.
                kernels.keep(place, context, M::Amount::default());
                missing.push(Missing { part, numbers, context, place });
            }
        }
        // Kernels of one pattern mostly have one predictor.
        missing.sort_unstable_by_key(|kernel| (kernel.part, kernel.place));
        let amounts = meter.measure(|each| {
            missing.iter().for_each(|kernel| {
                each(parts[kernel.part as usize].kernel(kernel.numbers), kernel.context);
            });
        });
        missing
            .iter()
            .zip(amounts)
            .for_each(|(kernel, amount)| kernels.keep(kernel.place, kernel.context, amount));
        places
    }
}

/// Where the row of a part's kernel is.
fn kernel<M: Meter>(
    part: Group,
    parts: &mut [Part],
    numbers: Numbers,
    kernels: &mut Table<M>,
) -> Place {
    let own = &mut parts[part as usize];
    let key = own.key(part, numbers);
    kernels.place(key, || WorkingSetBytes::of(own.kernel(key.numbers)))
}

//! [`Rows`]: what parts of stages come to, by the numbers they depend on. Each is computed when it is first needed, many together, and kept.
//!
//! A row belongs to a group of patterns and adds up their kernels. Each pattern has rows of its own, by the fewer numbers that it depends on, which
//! groups share. Kernels are written into one place after the other: none is kept, and none needs memory of its own.

use super::{Amount, Meter, numbers::Numbers, pattern::Pattern, template::Counted};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};
use vitempo_graph::OpSpec;
use vitempo_predictors::Span;

/// Rows that are computed together.
const TOGETHER: usize = 2048;
/// Rows kept at most, about a gigabyte.
const MOST: usize = 1 << 23;

/// Where rows are, by numbers.
type Places = HashMap<u128, usize, BuildHasherDefault<NumbersHasher>>;

/// A pattern, and where the rows of its kernels are.
struct Part {
    pattern: Pattern,
    mask: u128,
    /// To write numbers into.
    kernel: OpSpec,
    places: Places,
}

impl Part {
    fn kernel(&mut self, numbers: Numbers) -> &OpSpec {
        self.pattern.write(numbers, &mut self.kernel);
        &self.kernel
    }

    /// Where the row of the kernel at these numbers is.
    fn place<M: Meter>(&mut self, numbers: Numbers, kernels: &mut Vec<Row<M>>) -> usize {
        match self.places.entry(numbers.0 & self.mask) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(fresh) => {
                self.pattern.write(numbers, &mut self.kernel);
                kernels.push(Row::new(Span::of(&self.kernel)));
                *fresh.insert(kernels.len() - 1)
            }
        }
    }
}

/// Parts, how often each counts, and where the rows that add them up are.
struct Group {
    mask: u128,
    parts: Vec<(usize, i64)>,
    places: Places,
}

/// What kernels come to: in most cases in one context, in few they are asked for in others. A cache line of its own.
#[repr(align(64))]
struct Row<M: Meter> {
    span: Span,
    first: Option<M::Context>,
    amount: M::Amount,
    others: Box<[(M::Context, M::Amount)]>,
}

impl<M: Meter> Row<M> {
    fn new(span: Span) -> Self {
        Self { span, first: None, amount: M::Amount::default(), others: Box::default() }
    }

    fn amount(&self, context: M::Context) -> Option<&M::Amount> {
        if self.first == Some(context) {
            return Some(&self.amount);
        }
        self.others.iter().find(|(own, _)| *own == context).map(|(_, amount)| amount)
    }

    fn keep(&mut self, context: M::Context, amount: M::Amount) {
        if self.first.is_none_or(|first| first == context) {
            (self.first, self.amount) = (Some(context), amount);
            return;
        }
        match self.others.iter_mut().find(|(own, _)| *own == context) {
            Some((_, known)) => *known = amount,
            None => self.others = self.others.iter().copied().chain([(context, amount)]).collect(),
        }
    }
}

/// A kernel that is yet to be measured, and its row.
struct Missing<C> {
    part: usize,
    numbers: Numbers,
    context: C,
    place: usize,
}

/// The rows of all groups.
pub(super) struct Rows<M: Meter> {
    parts: Vec<Part>,
    part_of: HashMap<Pattern, usize>,
    groups: Vec<Group>,
    group_of: HashMap<(u128, Vec<(usize, i64)>), usize>,
    /// Of single kernels.
    kernels: Vec<Row<M>>,
    /// Of groups.
    rows: Vec<Row<M>>,
    /// The group and the numbers of each of `rows`.
    origins: Vec<(usize, Numbers)>,
}

impl<M: Meter> Rows<M> {
    pub(super) fn new() -> Self {
        Self {
            parts: Vec::new(),
            part_of: HashMap::new(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            kernels: Vec::new(),
            rows: Vec::new(),
            origins: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets all rows when there are too many; groups stay.
    pub(super) fn make_room(&mut self) {
        if self.rows.len() + self.kernels.len() > MOST {
            self.kernels.clear();
            self.rows.clear();
            self.origins.clear();
            self.parts.iter_mut().for_each(|part| part.places.clear());
            self.groups.iter_mut().for_each(|group| group.places.clear());
        }
    }

    /// The group of these patterns, which depend on the bits of `mask`.
    pub(super) fn group(&mut self, mask: u128, patterns: Counted) -> usize {
        let parts: Vec<(usize, i64)> = patterns.into_iter().map(|(pattern, times)| (self.part(pattern), times)).collect();
        let fresh = self.groups.len();
        let index = *self.group_of.entry((mask, parts.clone())).or_insert(fresh);
        if index == fresh {
            self.groups.push(Group { mask, parts, places: HashMap::default() });
        }
        index
    }

    fn part(&mut self, pattern: Pattern) -> usize {
        let fresh = self.parts.len();
        let index = *self.part_of.entry(pattern.clone()).or_insert(fresh);
        if index == fresh {
            self.parts.push(Part { mask: pattern.mask(), kernel: pattern.blank(), pattern, places: HashMap::default() });
        }
        index
    }

    /// Where the row of a group at these numbers is, and what its kernels add to the footprint.
    pub(super) fn row(&mut self, group: usize, numbers: Numbers) -> (usize, &Span) {
        let Self { parts, groups, kernels, rows, origins, .. } = self;
        let group_of = &mut groups[group];
        let key = Numbers(numbers.0 & group_of.mask);
        let place = match group_of.places.entry(key.0) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(fresh) => {
                let mut span = Span::default();
                for &(part, times) in &group_of.parts {
                    let place = parts[part].place(key, kernels);
                    span = span.plus(&kernels[place].span, times);
                }
                rows.push(Row::new(span));
                origins.push((group, key));
                *fresh.insert(rows.len() - 1)
            }
        };
        (place, &rows[place].span)
    }

    /// The sum over rows, each so many times; `None` where one has no amount in this context yet. Those are added to `wanted`.
    pub(super) fn sum(&self, places: &[(usize, i64)], context: M::Context, wanted: &mut Vec<(usize, M::Context)>) -> Option<M::Amount> {
        let (mut sum, known) = (M::Amount::default(), wanted.len());
        for &(place, times) in places {
            match self.rows[place].amount(context) {
                Some(amount) => sum = sum.plus(amount, times),
                None => wanted.push((place, context)),
            }
        }
        (wanted.len() == known).then_some(sum)
    }

    /// Computes what rows come to in contexts.
    pub(super) fn fill(&mut self, meter: &M, mut wanted: Vec<(usize, M::Context)>) {
        wanted.sort_unstable();
        wanted.dedup();
        for some in wanted.chunks(TOGETHER) {
            let places = self.measured(meter, some);
            let mut places = places.iter();
            for &(row, context) in some {
                let mut sum = M::Amount::default();
                for ((_, times), &place) in self.groups[self.origins[row].0].parts.iter().zip(places.by_ref()) {
                    sum = self.kernels[place].amount(context).map_or(sum, |amount| sum.plus(amount, *times));
                }
                self.rows[row].keep(context, sum);
            }
        }
    }

    /// Where the kernels of rows are, row by row; those that have no amount in a context are measured.
    fn measured(&mut self, meter: &M, wanted: &[(usize, M::Context)]) -> Vec<usize> {
        let Self { parts, groups, kernels, origins, .. } = self;
        let (mut places, mut missing) = (Vec::new(), Vec::new());
        for &(row, context) in wanted {
            let (group, numbers) = origins[row];
            for &(part, _) in &groups[group].parts {
                let place = parts[part].place(numbers, kernels);
                if kernels[place].amount(context).is_none() {
                    // Holds the place, so that it is not missed twice.
                    kernels[place].keep(context, M::Amount::default());
                    missing.push(Missing { part, numbers, context, place });
                }
                places.push(place);
            }
        }
        // Kernels of one pattern mostly have one predictor.
        missing.sort_unstable_by_key(|kernel| (kernel.part, kernel.place));
        let amounts = meter.measure(|each| missing.iter().for_each(|kernel| each(parts[kernel.part].kernel(kernel.numbers), kernel.context)));
        missing.iter().zip(amounts).for_each(|(kernel, amount)| kernels[kernel.place].keep(kernel.context, amount));
        places
    }
}

/// Mixes numbers: folded products.
#[derive(Default)]
struct NumbersHasher(u64);

impl Hasher for NumbersHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let mut padded = [0; 16];
            padded[..chunk.len()].copy_from_slice(chunk);
            self.write_u128(u128::from_le_bytes(padded));
        }
    }

    fn write_u128(&mut self, bits: u128) {
        let (low, high) = (bits as u64 ^ self.0 ^ 0x9e37_79b9_7f4a_7c15, (bits >> 64) as u64 ^ 0xbf58_476d_1ce4_e5b9);
        let product = u128::from(low) * u128::from(high);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

//! [`Table`]: rows by group and numbers, found many at a time.
//!
//! Hundreds of thousands of rows fit no near cache, so a lookup costs what waiting for memory costs. A row is one line of it, its key included; an index
//! of a few bytes a row tells where rows are; and questions come many together, so that one step over all of them reads the index and the next one
//! the rows: the processor waits for many at the same time.

use super::{Meter, numbers::Numbers};
use std::{
    hash::{Hash, Hasher},
    hint::black_box,
};
use vitempo_predictors::Span;

/// What tells rows apart beside their numbers.
pub(super) type Group = u32;

/// Where a row is, or an amount of one.
pub(super) type Place = u32;

/// Stands where the index has nothing.
const NOWHERE: Place = Place::MAX;
const FIRST_SLOTS: usize = 1 << 10;

/// Which row is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub group: Group,
    pub numbers: Numbers,
}

impl Key {
    fn hash(self) -> u64 {
        let Numbers(bits) = self.numbers;
        folded(bits as u64 ^ u64::from(self.group).wrapping_mul(0x9e37_79b9_7f4a_7c15), (bits >> 64) as u64)
    }
}

/// Of a row in a context.
fn other_hash(row: Place, context: impl Hash) -> u64 {
    let mut bits = Folding(u64::from(row));
    context.hash(&mut bits);
    folded(bits.0, 0)
}

/// Shifts in what it is given: contexts are small.
struct Folding(u64);

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
}

/// Mixes two numbers: their folded product.
fn folded(low: u64, high: u64) -> u64 {
    let product = u128::from(low ^ 0x94d0_49bb_1331_11eb) * u128::from(high ^ 0xbf58_476d_1ce4_e5b9);
    product as u64 ^ (product >> 64) as u64
}

/// Where things are, by hash: open addressing, at most half full.
struct Index {
    slots: Vec<Place>,
    used: usize,
}

impl Index {
    fn new() -> Self {
        Self { slots: vec![NOWHERE; FIRST_SLOTS], used: 0 }
    }

    /// The slot where things of this hash are looked for first.
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// What is there; mostly that which is looked for.
    fn guess(&self, hash: u64) -> Place {
        self.slots[self.home(hash)]
    }

    /// The first place with this hash that `is` it.
    fn find(&self, hash: u64, is: impl Fn(Place) -> bool) -> Option<Place> {
        let last = self.slots.len() - 1;
        let mut slot = self.home(hash);
        while self.slots[slot] != NOWHERE {
            if is(self.slots[slot]) {
                return Some(self.slots[slot]);
            }
            slot = (slot + 1) & last;
        }
        None
    }

    fn insert(&mut self, hash: u64, place: Place, hash_of: impl Fn(Place) -> u64) {
        if 2 * (self.used + 1) > self.slots.len() {
            let wider = vec![NOWHERE; 2 * self.slots.len()];
            for known in std::mem::replace(&mut self.slots, wider).into_iter().filter(|place| *place != NOWHERE) {
                self.put(hash_of(known), known);
            }
        }
        self.put(hash, place);
        self.used += 1;
    }

    fn put(&mut self, hash: u64, place: Place) {
        let mut slot = self.home(hash);
        while self.slots[slot] != NOWHERE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = place;
    }
}

/// What kernels come to, in the context in which it was first asked. A cache line.
#[repr(align(64))]
struct Row<M: Meter> {
    numbers: Numbers,
    group: Group,
    context: Option<M::Context>,
    span: Span,
    amount: M::Amount,
}

impl<M: Meter> Row<M> {
    fn key(&self) -> Key {
        Key { group: self.group, numbers: self.numbers }
    }
}

/// What a row comes to in another context.
struct Other<M: Meter> {
    row: Place,
    context: M::Context,
    amount: M::Amount,
}

impl<M: Meter> Other<M> {
    fn is(&self, row: Place, context: M::Context) -> bool {
        (self.row, self.context) == (row, context)
    }
}

/// Has things brought near, all at the same time: a loop that does nothing else waits for more of them at once than one that looks at them.
fn bring<T>(things: &[T], places: &[Place], some: impl Fn(&T) -> u32) {
    black_box(places.iter().filter_map(|place| things.get(*place as usize)).fold(0, |all, thing| all ^ some(thing)));
}

/// Rows and what they come to.
pub(super) struct Table<M: Meter> {
    rows: Vec<Row<M>>,
    index: Index,
    others: Vec<Other<M>>,
    others_index: Index,
}

impl<M: Meter> Table<M> {
    pub(super) fn new() -> Self {
        Self { rows: Vec::new(), index: Index::new(), others: Vec::new(), others_index: Index::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() + self.others.len()
    }

    /// Number of rows, in whatever contexts.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn key(&self, place: Place) -> Key {
        self.rows[place as usize].key()
    }

    pub(super) fn span(&self, place: Place) -> &Span {
        &self.rows[place as usize].span
    }

    /// Adds the places of rows to `places`, in the order of `keys`; rows that are not there are made, with the span that `span` tells.
    pub(super) fn find(&mut self, keys: &[Key], places: &mut Vec<Place>, mut span: impl FnMut(Key) -> Span) {
        let start = places.len();
        places.extend(keys.iter().map(|key| self.index.home(key.hash()) as Place));
        places[start..].iter_mut().for_each(|place| *place = self.index.slots[*place as usize]);
        bring(&self.rows, &places[start..], |row| row.group);
        for (place, key) in places[start..].iter_mut().zip(keys) {
            if self.rows.get(*place as usize).is_none_or(|row| row.key() != *key) {
                *place = self.place(*key, || span(*key));
            }
        }
    }

    /// Where one row is.
    pub(super) fn place(&mut self, key: Key, span: impl FnOnce() -> Span) -> Place {
        let rows = &self.rows;
        if let Some(known) = self.index.find(key.hash(), |place| rows[place as usize].key() == key) {
            return known;
        }
        let place = self.rows.len() as Place;
        self.rows.push(Row { numbers: key.numbers, group: key.group, context: None, span: span(), amount: M::Amount::default() });
        let rows = &self.rows;
        self.index.insert(key.hash(), place, |place| rows[place as usize].key().hash());
        place
    }

    /// What a row comes to in a context, where that is known.
    pub(super) fn amount(&self, place: Place, context: M::Context) -> Option<&M::Amount> {
        let row = &self.rows[place as usize];
        if row.context == Some(context) {
            return Some(&row.amount);
        }
        let found = self.others_index.find(other_hash(place, context), |at| self.others[at as usize].is(place, context))?;
        Some(&self.others[found as usize].amount)
    }

    /// Tells `each` what rows come to in contexts, in the order of the questions; `None` where that is not known.
    pub(super) fn amounts(&self, questions: &[(Place, M::Context)], mut each: impl FnMut(Option<&M::Amount>)) {
        let own = |(place, context): (Place, M::Context)| self.rows[place as usize].context == Some(context);
        let guess = |&question: &(Place, M::Context)| if own(question) { NOWHERE } else { self.others_index.guess(other_hash(question.0, question.1)) };
        let guesses: Vec<Place> = questions.iter().map(guess).collect();
        bring(&self.others, &guesses, |other| other.row);
        for (&(place, context), guess) in questions.iter().zip(guesses) {
            match self.others.get(guess as usize) {
                Some(other) if other.is(place, context) => each(Some(&other.amount)),
                _ => each(self.amount(place, context)),
            }
        }
    }

    /// Notes what a row comes to in a context.
    pub(super) fn keep(&mut self, place: Place, context: M::Context, amount: M::Amount) {
        let row = &mut self.rows[place as usize];
        if row.context.is_none_or(|own| own == context) {
            (row.context, row.amount) = (Some(context), amount);
            return;
        }
        let (hash, others) = (other_hash(place, context), &self.others);
        if let Some(known) = self.others_index.find(hash, |at| others[at as usize].is(place, context)) {
            self.others[known as usize].amount = amount;
            return;
        }
        let at = self.others.len() as Place;
        self.others.push(Other { row: place, context, amount });
        let others = &self.others;
        self.others_index.insert(hash, at, |at| other_hash(others[at as usize].row, others[at as usize].context));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Latencies, Sizes};
    use super::*;

    #[test]
    fn a_row_is_a_cache_line() {
        assert_eq!(size_of::<Row<Latencies<'_>>>(), 64);
    }

    #[test]
    fn rows_are_found_again_and_made_once() {
        let key = |i: u32| Key { group: i % 7, numbers: Numbers(u128::from(i / 3) << (i % 100)) };
        let keys: Vec<Key> = (0..5000).map(key).collect();
        let mut table = Table::<Sizes>::new();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        table.find(&keys, &mut first, |key| Span { weights: key.numbers.0 as f64, largest: key.group.into() });
        table.find(&keys, &mut again, |key| panic!("{key:?} is there"));
        assert_eq!(first, again);
        for (key, place) in keys.iter().zip(&first) {
            assert_eq!((table.key(*place), table.span(*place).weights), (*key, key.numbers.0 as f64));
        }
        let distinct: std::collections::HashSet<(u32, u128)> = keys.iter().map(|key| (key.group, key.numbers.0)).collect();
        assert_eq!(table.rows(), distinct.len());
    }
}

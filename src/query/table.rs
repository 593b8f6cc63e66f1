//! [`Table`]: rows by group and numbers, found many at a time.
//!
//! Hundreds of thousands of rows fit into no inner cache, so the time of a lookup is the latency of
//! memory. A row with its key is one cache line. An index of a few bytes per row gives the
//! positions of rows, and which of the neighbours matches. Lookups come many together: one pass
//! reads the index for all of them and the next one the rows, so that their memory accesses
//! overlap.

use super::{Amount, Meter, numbers::Numbers};
use std::{
    hash::{Hash, Hasher},
    hint::black_box,
};
use vitempo_predictors::WorkingSetBytes;

/// What distinguishes rows beside their numbers.
pub(super) type Group = u32;

/// Where a row is, or an amount of one.
pub(super) type Place = u32;

/// All places are below it, as `rows::MOST` bounds them; the bits above are some of the hash.
const LAST_PLACE: Place = (1 << 24) - 1;
/// Stands where the index has nothing.
const NOWHERE: u32 = u32::MAX;
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
        folded(
            bits as u64 ^ u64::from(self.group).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            (bits >> 64) as u64,
        )
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
    let product =
        u128::from(low ^ 0x94d0_49bb_1331_11eb) * u128::from(high ^ 0xbf58_476d_1ce4_e5b9);
    product as u64 ^ (product >> 64) as u64
}

/// Where things are, by hash: open addressing, at most half full. A slot is a place and, above it,
/// some bits of the hash: whatever else stands near has others and is not looked at.
struct Index {
    slots: Vec<u32>,
    used: usize,
}

impl Index {
    fn new() -> Self {
        Self { slots: vec![NOWHERE; FIRST_SLOTS], used: 0 }
    }

    /// Where slots of this hash begin.
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// The places that may have this hash.
    fn places(&self, hash: u64) -> impl Iterator<Item = Place> {
        let last = self.slots.len() - 1;
        let slots = (self.home(hash)..)
            .map(move |slot| self.slots[slot & last])
            .take_while(|slot| *slot != NOWHERE);
        slots
            .filter(move |slot| (*slot ^ hash as u32) & !LAST_PLACE == 0)
            .map(|slot| slot & LAST_PLACE)
    }

    /// The first place that may have each hash, mostly the one that is looked for; [`NOWHERE`]
    /// where there is none.
    fn guesses(&self, hashes: &[u64]) -> impl Iterator<Item = Place> {
        bring(&self.slots, hashes.iter().map(|hash| self.home(*hash)), |slot| *slot);
        hashes.iter().map(|hash| self.places(*hash).next().unwrap_or(NOWHERE))
    }

    fn insert(&mut self, hash: u64, place: Place, hash_of: impl Fn(Place) -> u64) {
        if 2 * (self.used + 1) > self.slots.len() {
            let wider = vec![NOWHERE; 2 * self.slots.len()];
            for known in std::mem::replace(&mut self.slots, wider)
                .into_iter()
                .filter(|slot| *slot != NOWHERE)
                .map(|slot| slot & LAST_PLACE)
            {
                self.put(hash_of(known), known);
            }
        }
        self.put(hash, place);
        self.used += 1;
    }

    fn put(&mut self, hash: u64, place: Place) {
        debug_assert!(place < LAST_PLACE);
        let mut slot = self.home(hash);
        while self.slots[slot] != NOWHERE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (hash as u32 & !LAST_PLACE) | place;
    }
}

/// What kernels come to, in the context in which it was first asked. A cache line.
#[repr(align(64))]
struct Row<M: Meter> {
    numbers: Numbers,
    group: Group,
    context: Option<M::Context>,
    bytes: WorkingSetBytes,
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

/// Has things brought near, all at the same time: a loop that does nothing else waits for more of
/// them at once than one that looks at them.
fn bring<T>(things: &[T], places: impl Iterator<Item = usize>, some: impl Fn(&T) -> u32) {
    black_box(places.filter_map(|place| things.get(place)).fold(0, |all, thing| all ^ some(thing)));
}

/// Rows and what they come to.
pub(super) struct Table<M: Meter> {
    rows: Vec<Row<M>>,
    index: Index,
    others: Vec<Other<M>>,
    others_index: Index,
    /// Bytes of amounts outside of the rows.
    heap_bytes: usize,
}

impl<M: Meter> Table<M> {
    pub(super) fn new() -> Self {
        Self {
            rows: Vec::new(),
            index: Index::new(),
            others: Vec::new(),
            others_index: Index::new(),
            heap_bytes: 0,
        }
    }

    /// Bytes that amounts take outside of the rows, those of replaced ones included.
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
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

    pub(super) fn bytes(&self, place: Place) -> &WorkingSetBytes {
        &self.rows[place as usize].bytes
    }

    /// Adds the places of rows to `places`, in the order of `keys`; rows that are not there are
    /// made, with the bytes that `bytes` returns.
    pub(super) fn find(
        &mut self,
        keys: &[Key],
        places: &mut Vec<Place>,
        mut bytes: impl FnMut(Key) -> WorkingSetBytes,
    ) {
        let start = places.len();
        let hashes: Vec<u64> = keys.iter().map(|key| key.hash()).collect();
        places.extend(self.index.guesses(&hashes));
        bring(&self.rows, places[start..].iter().map(|place| *place as usize), |row| row.group);
        for (place, key) in places[start..].iter_mut().zip(keys) {
            if self.rows.get(*place as usize).is_none_or(|row| row.key() != *key) {
                *place = self.place(*key, || bytes(*key));
            }
        }
    }

    /// Where one row is.
    pub(super) fn place(&mut self, key: Key, bytes: impl FnOnce() -> WorkingSetBytes) -> Place {
        let (hash, rows) = (key.hash(), &self.rows);
        if let Some(known) =
            self.index.places(hash).find(|place| rows[*place as usize].key() == key)
        {
            return known;
        }
        let place = self.rows.len() as Place;
        self.rows.push(Row {
            numbers: key.numbers,
            group: key.group,
            context: None,
            bytes: bytes(),
            amount: M::Amount::default(),
        });
        let rows = &self.rows;
        self.index.insert(hash, place, |place| rows[place as usize].key().hash());
        place
    }

    /// What a row comes to in a context, where that is known.
    pub(super) fn amount(&self, place: Place, context: M::Context) -> Option<&M::Amount> {
        self.own(place, context)
            .or_else(|| self.other(place, context).map(|at| &self.others[at as usize].amount))
    }

    /// The same, where it is the row's own context.
    fn own(&self, place: Place, context: M::Context) -> Option<&M::Amount> {
        let row = &self.rows[place as usize];
        (row.context == Some(context)).then_some(&row.amount)
    }

    /// Where it is kept, where it is not.
    fn other(&self, place: Place, context: M::Context) -> Option<Place> {
        self.others_index
            .places(other_hash(place, context))
            .find(|at| self.others[*at as usize].is(place, context))
    }

    /// What rows come to in contexts, in the order of the questions; `None` where that is not
    /// known.
    pub(super) fn amounts(
        &self,
        questions: &[(Place, M::Context)],
    ) -> impl Iterator<Item = Option<&M::Amount>> {
        let elsewhere =
            questions.iter().filter(|(place, context)| self.own(*place, *context).is_none());
        let hashes: Vec<u64> =
            elsewhere.map(|&(place, context)| other_hash(place, context)).collect();
        let guesses: Vec<Place> = self.others_index.guesses(&hashes).collect();
        bring(&self.others, guesses.iter().map(|guess| *guess as usize), |other| other.row);
        let mut guesses = guesses.into_iter();
        questions.iter().map(move |&(place, context)| {
            self.own(place, context).or_else(|| match self.others.get(guesses.next()? as usize) {
                Some(other) if other.is(place, context) => Some(&other.amount),
                _ => self.amount(place, context),
            })
        })
    }

    /// Notes what a row comes to in a context.
    pub(super) fn keep(&mut self, place: Place, context: M::Context, amount: M::Amount) {
        self.heap_bytes += amount.heap_bytes();
        let row = &mut self.rows[place as usize];
        if row.context.is_none_or(|own| own == context) {
            (row.context, row.amount) = (Some(context), amount);
            return;
        }
        if let Some(known) = self.other(place, context) {
            self.others[known as usize].amount = amount;
            return;
        }
        let at = self.others.len() as Place;
        self.others.push(Other { row: place, context, amount });
        let others = &self.others;
        self.others_index.insert(other_hash(place, context), at, |at| {
            other_hash(others[at as usize].row, others[at as usize].context)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Latencies, Sizes};
    use super::*;
    use vitempo_predictors::PredictorBundle;

    #[test]
    fn a_row_is_a_cache_line() {
        assert_eq!(size_of::<Row<Latencies<&PredictorBundle>>>(), 64);
    }

    #[test]
    fn rows_are_found_again_and_made_once() {
        let key = |i: u32| Key { group: i % 7, numbers: Numbers(u128::from(i / 3) << (i % 100)) };
        let keys: Vec<Key> = (0..5000).map(key).collect();
        let mut table = Table::<Sizes>::new();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        table.find(&keys, &mut first, |key| WorkingSetBytes {
            weights: key.numbers.0 as f64,
            largest: key.group.into(),
        });
        table.find(&keys, &mut again, |key| panic!("{key:?} is there"));
        assert_eq!(first, again);
        for (key, place) in keys.iter().zip(&first) {
            assert_eq!(
                (table.key(*place), table.bytes(*place).weights),
                (*key, key.numbers.0 as f64)
            );
        }
        let distinct: std::collections::HashSet<(u32, u128)> =
            keys.iter().map(|key| (key.group, key.numbers.0)).collect();
        assert_eq!(table.rows(), distinct.len());
    }
}

//! [`Asked`]: a batch of row queries to the tables; [`Found`]: the state of an architecture in
//! them.

use super::table::{Key, Place};

/// The state of an architecture in the tables.
pub(super) enum Found {
    /// All its rows; and whether its answer is yet to be compared.
    Rows(bool),
    /// Templates of classes must be made first.
    Waiting,
    /// Tables cannot answer.
    Irregular,
}

/// The rows of several architectures, and what is asked of them.
pub(super) struct Asked<C> {
    pub keys: Vec<Key>,
    /// How often each row counts.
    pub times: Vec<i64>,
    /// Which architecture, and where its rows end.
    pub of: Vec<(usize, usize)>,
    /// Where rows are.
    pub places: Vec<Place>,
    /// Which amounts of theirs are wanted.
    pub questions: Vec<(Place, C)>,
}

impl<C> Asked<C> {
    pub(super) fn new() -> Self {
        Self {
            keys: Vec::new(),
            times: Vec::new(),
            of: Vec::new(),
            places: Vec::new(),
            questions: Vec::new(),
        }
    }

    /// Clears everything and keeps the allocations.
    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.take_back();
        self.places.clear();
        self.questions.clear();
    }

    /// Removes the queries after the last complete architecture.
    pub(super) fn take_back(&mut self) {
        let whole = self.of.last().map_or(0, |(_, end)| *end);
        self.keys.truncate(whole);
        self.times.truncate(whole);
    }
}

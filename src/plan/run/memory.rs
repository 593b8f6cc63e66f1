//! [`Memory`]: the subgraphs that are loaded on each processor, within a budget, and which of them
//! make room for others.

use std::collections::BTreeMap;

/// Which subgraph makes room first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The one that was used longest ago.
    #[default]
    LeastRecentlyUsed,
    /// The one that the fewest planned queries use; among equals, the one used longest ago.
    LeastPlanned,
}

/// A subgraph on a processor, both by index.
pub type Place = (usize, usize);

/// Whether there is room for subgraphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// Once these parts of the same processor are unloaded.
    Now(Vec<usize>),
    /// Once these, of other processors, are unloaded.
    Elsewhere(Vec<Place>),
    /// When other work has ended, or what is being unloaded is gone.
    Later,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    used: u64,
    pins: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Memory {
    budget: Option<u64>,
    eviction: Eviction,
    held: BTreeMap<Place, Held>,
    /// Subgraphs that are being unloaded, with their bytes, which count until they are gone.
    leaving: BTreeMap<Place, u64>,
    planned: BTreeMap<Place, u64>,
    bytes: u64,
    largest: u64,
    uses: u64,
}

impl Memory {
    /// Nothing loaded; without a budget there is always room. `planned` has the number of planned
    /// queries of each subgraph.
    #[must_use]
    pub const fn new(
        budget: Option<u64>,
        eviction: Eviction,
        planned: BTreeMap<Place, u64>,
    ) -> Self {
        let held = BTreeMap::new();
        let leaving = BTreeMap::new();
        Self { budget, eviction, held, leaving, planned, bytes: 0, largest: 0, uses: 0 }
    }

    /// Subgraphs in the order in which they are loaded before a run: those with most planned queries
    /// first, as long as they fit; `sizes` has their bytes.
    #[must_use]
    pub fn first(&self, sizes: &BTreeMap<Place, u64>) -> Vec<Place> {
        let mut places: Vec<Place> = self.planned.keys().copied().collect();
        places.sort_by_key(|place| (std::cmp::Reverse(self.planned[place]), *place));
        let mut left = self.budget.unwrap_or(u64::MAX);
        places.retain(|place| {
            let bytes = sizes.get(place).copied().unwrap_or(0);
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            fits
        });
        places
    }

    /// Whether a subgraph is loaded.
    #[must_use]
    pub fn holds(&self, place: Place) -> bool {
        self.held.contains_key(&place)
    }

    /// Room for subgraphs of one processor, with their bytes. Only subgraphs that nothing uses, on
    /// processors that are `idle`, make room. What processors that `answer` are unloading is waited
    /// for; the others are left out, so that one that does not answer holds up nobody for whom
    /// there is other room.
    #[must_use]
    pub fn room(
        &self,
        processor: usize,
        parts: &[(usize, u64)],
        idle: impl Fn(usize) -> bool,
        answers: impl Fn(usize) -> bool,
    ) -> Room {
        let Some(budget) = self.budget else { return Room::Now(Vec::new()) };
        let is_new = |(part, _): &&(usize, u64)| !self.holds((processor, *part));
        let needed: u64 = parts.iter().filter(is_new).map(|(_, bytes)| *bytes).sum();
        let all = self.bytes.saturating_add(needed).saturating_sub(budget);
        let leaving = self.leaving.iter().filter(|(place, _)| answers(place.0));
        let mut over = all.saturating_sub(leaving.map(|(_, bytes)| *bytes).sum());
        let waits = over < all;
        let is_own =
            |place: &Place| place.0 == processor && parts.iter().any(|(part, _)| *part == place.1);
        let mut free: Vec<(&Place, &Held)> = self
            .held
            .iter()
            .filter(|(place, held)| {
                let is_free = place.0 == processor || (idle(place.0) && answers(place.0));
                held.pins == 0 && !is_own(place) && is_free
            })
            .collect();
        free.sort_by_key(|(place, held)| (self.rank(**place), held.used));
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (place, held) in free {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(held.bytes);
            if place.0 == processor {
                own.push(place.1);
            } else {
                others.push(*place);
            }
        }
        match (over, others.is_empty()) {
            (0, false) => Room::Elsewhere(others),
            (0, true) if !waits => Room::Now(own),
            _ => Room::Later,
        }
    }

    fn rank(&self, place: Place) -> u64 {
        match self.eviction {
            Eviction::LeastRecentlyUsed => 0,
            Eviction::LeastPlanned => self.planned.get(&place).copied().unwrap_or(0),
        }
    }

    /// A subgraph is unloaded; returns its bytes.
    pub fn forget(&mut self, place: Place) -> u64 {
        let bytes = self.held.remove(&place).map_or(0, |held| held.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        bytes
    }

    /// A subgraph is being unloaded. Its bytes count until it is gone ([`Self::left`]).
    pub fn leave(&mut self, place: Place) {
        if let Some(held) = self.held.remove(&place) {
            self.leaving.insert(place, held.bytes);
        }
    }

    /// A subgraph that was being unloaded is gone.
    pub fn left(&mut self, place: Place) {
        let bytes = self.leaving.remove(&place).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Bytes of the subgraphs that a processor holds.
    #[must_use]
    pub fn bytes_on(&self, processor: usize) -> u64 {
        let own = self.held.iter().filter(|(place, _)| place.0 == processor);
        own.map(|(_, held)| held.bytes).sum()
    }

    /// Subgraphs are about to run on a processor, and stay until they have; returns those that have
    /// to be loaded.
    pub fn pin(&mut self, processor: usize, parts: &[(usize, u64)]) -> Vec<usize> {
        self.uses += 1;
        let mut new = Vec::new();
        for &(part, bytes) in parts {
            let held = self.held.entry((processor, part)).or_insert_with(|| {
                new.push(part);
                self.bytes = self.bytes.saturating_add(bytes);
                Held { bytes, used: 0, pins: 0 }
            });
            (held.used, held.pins) = (self.uses, held.pins + 1);
        }
        self.largest = self.largest.max(self.bytes);
        new
    }

    /// Subgraphs have run.
    pub fn unpin(&mut self, processor: usize, parts: &[(usize, u64)]) {
        for (part, _) in parts {
            if let Some(held) = self.held.get_mut(&(processor, *part)) {
                held.pins = held.pins.saturating_sub(1);
            }
        }
    }

    /// A processor is gone, with all that it held.
    pub fn lose(&mut self, processor: usize) {
        self.restarted(processor, &[]);
    }

    /// A processor is gone, and will be started again by the work that it has: subgraphs of this
    /// work are loaded then.
    pub fn lose_unused(&mut self, processor: usize) {
        let own = self.held.iter().filter(|(place, held)| place.0 == processor && held.pins > 0);
        let used: Vec<(usize, u64)> = own.map(|(place, held)| (place.1, held.bytes)).collect();
        self.restarted(processor, &used);
    }

    /// A processor was started again, and only these subgraphs are loaded.
    pub fn restarted(&mut self, processor: usize, parts: &[(usize, u64)]) {
        let is_kept = |place: &Place| parts.iter().any(|(part, _)| *part == place.1);
        let held = self.held.keys().filter(|place| place.0 == processor && !is_kept(place));
        for place in held.copied().collect::<Vec<Place>>() {
            self.forget(place);
        }
        let leaving = self.leaving.keys().filter(|place| place.0 == processor);
        for place in leaving.copied().collect::<Vec<Place>>() {
            self.left(place);
        }
    }

    /// The most bytes that were loaded at the same time.
    #[must_use]
    pub const fn largest_bytes(&self) -> u64 {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(eviction: Eviction) -> Memory {
        let planned = BTreeMap::from([((0, 0), 9), ((0, 1), 1), ((1, 2), 5)]);
        let mut memory = Memory::new(Some(30), eviction, planned);
        for (processor, part) in [(0, 0), (0, 1), (1, 2)] {
            assert_eq!(memory.pin(processor, &[(part, 10)]), [part]);
            memory.unpin(processor, &[(part, 10)]);
        }
        memory
    }

    #[test]
    fn the_least_recently_used_or_least_planned_makes_room() {
        let room = |memory: &Memory| memory.room(1, &[(3, 10)], |_| true, |_| true);
        assert_eq!(room(&filled(Eviction::LeastRecentlyUsed)), Room::Elsewhere(vec![(0, 0)]));
        assert_eq!(room(&filled(Eviction::LeastPlanned)), Room::Elsewhere(vec![(0, 1)]));
        let mut memory = filled(Eviction::LeastRecentlyUsed);
        assert_eq!(memory.pin(0, &[(0, 10)]), [0usize; 0], "it is loaded");
        assert_eq!(room(&memory), Room::Elsewhere(vec![(0, 1)]), "what runs stays");
        assert_eq!(memory.room(1, &[(3, 10)], |p| p == 1, |_| true), Room::Now(vec![2]));
        assert_eq!(memory.room(1, &[(3, 30)], |_| true, |_| true), Room::Later);
        assert_eq!(memory.forget((0, 1)), 10);
        assert_eq!(room(&memory), Room::Now(vec![]));
        assert_eq!(memory.largest_bytes(), 30);
        memory.pin(0, &[(5, 10)]);
        memory.restarted(0, &[(5, 10)]);
        assert!(memory.holds((0, 5)) && !memory.holds((0, 0)));
        memory.lose(0);
        assert!(!memory.holds((0, 5)));
        assert!(!memory.holds((0, 0)) && memory.holds((1, 2)));
        assert_eq!(memory.room(0, &[(4, 20)], |_| true, |_| true), Room::Now(vec![]));
    }

    #[test]
    fn what_is_being_unloaded_counts_until_it_is_gone() {
        let mut memory = filled(Eviction::LeastRecentlyUsed);
        let room = |memory: &Memory, bytes: u64, answers: &dyn Fn(usize) -> bool| {
            memory.room(1, &[(3, bytes)], |_| true, answers)
        };
        memory.leave((0, 0));
        assert_eq!((memory.bytes_on(0), memory.holds((0, 0))), (10, false));
        assert_eq!(room(&memory, 10, &|_| true), Room::Later, "it is about to be gone");
        assert_eq!(
            room(&memory, 20, &|_| true),
            Room::Elsewhere(vec![(0, 1)]),
            "one is not enough"
        );
        // A processor that does not answer is not waited for, and nothing else of it is unloaded.
        assert_eq!(room(&memory, 10, &|p| p != 0), Room::Now(vec![2]));
        assert_eq!(room(&memory, 20, &|p| p != 0), Room::Later);
        memory.left((0, 0));
        assert_eq!(room(&memory, 10, &|_| true), Room::Now(vec![]));
        memory.leave((0, 1));
        memory.lose(0);
        assert_eq!(room(&memory, 20, &|_| true), Room::Now(vec![]), "nothing of it is left");
    }

    #[test]
    fn a_processor_that_has_work_keeps_what_that_uses() {
        let mut memory = filled(Eviction::LeastRecentlyUsed);
        memory.pin(0, &[(1, 10)]);
        memory.lose_unused(0);
        assert!(memory.holds((0, 1)) && !memory.holds((0, 0)) && memory.holds((1, 2)));
    }

    #[test]
    fn most_planned_subgraphs_are_loaded_first_as_far_as_they_fit() {
        let planned = BTreeMap::from([((0, 0), 1), ((0, 1), 7), ((1, 0), 3)]);
        let sizes = BTreeMap::from([((0, 0), 5), ((0, 1), 20), ((1, 0), 20)]);
        let first =
            |budget| Memory::new(budget, Eviction::default(), planned.clone()).first(&sizes);
        assert_eq!(first(None), [(0, 1), (1, 0), (0, 0)]);
        assert_eq!(first(Some(30)), [(0, 1), (0, 0)]);
        assert!(first(Some(4)).is_empty());
    }

    #[test]
    fn without_a_budget_there_is_always_room() {
        let memory = Memory::new(None, Eviction::default(), BTreeMap::new());
        assert_eq!(memory.room(0, &[(0, u64::MAX)], |_| false, |_| true), Room::Now(vec![]));
    }
}

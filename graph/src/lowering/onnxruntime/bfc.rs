//! [`Arena`]: ONNX Runtime's allocator of blocks that it keeps, after its description in
//! `onnxruntime/core/framework/bfc_arena.h`, version 1.31: best fit with coalescing, in regions that
//! grow by powers of two. In bytes.

use super::free_blocks::{FreeBlocks, Place};
use std::collections::HashMap;

/// Sizes are multiples of this.
const GRANULE_BYTES: u64 = 256;
/// Size of the first region.
const FIRST_REGION_BYTES: u64 = 1 << 20;
/// A chunk that is larger than asked for is split where it leaves as much as it gives, or this.
const MOST_WASTED_BYTES: u64 = 128 << 20;

/// An arena that is empty at first.
#[derive(Debug)]
pub(super) struct Arena {
    next_region_bytes: u64,
    /// Bytes of the chunks in use.
    used: HashMap<Place, u64>,
    free: FreeBlocks,
    /// How far each region was ever written to: more of it is not resident.
    touched_bytes: Vec<u64>,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self {
            next_region_bytes: FIRST_REGION_BYTES,
            used: HashMap::new(),
            free: FreeBlocks::new(),
            touched_bytes: Vec::new(),
        }
    }

    /// Bytes of all regions that were ever written to.
    pub(super) fn touched_bytes(&self) -> u64 {
        self.touched_bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// A chunk of at least so many bytes.
    pub(super) fn allocate(&mut self, bytes: u64) -> Place {
        let rounded = bytes.max(1).checked_next_multiple_of(GRANULE_BYTES).unwrap_or(u64::MAX);
        let (place, size) = self.free.take_fit(rounded).unwrap_or_else(|| self.extend(rounded));
        let is_split = size / 2 >= rounded || size - rounded >= MOST_WASTED_BYTES;
        let taken = if is_split { rounded } else { size };
        self.used.insert(place, taken);
        if is_split {
            self.free.insert((place.0, place.1 + taken), size - taken);
        }
        let touched = &mut self.touched_bytes[place.0];
        *touched = (*touched).max(place.1.saturating_add(bytes));
        place
    }

    /// Gives a chunk back; it becomes one with free neighbours.
    pub(super) fn release(&mut self, place: Place) {
        if let Some(bytes) = self.used.remove(&place) {
            let (start, bytes) = self.free.joined(place, bytes);
            self.free.insert(start, bytes);
        }
    }

    /// A new region that is large enough.
    fn extend(&mut self, rounded: u64) -> (Place, u64) {
        let is_enough = rounded <= self.next_region_bytes;
        while self.next_region_bytes < rounded {
            self.next_region_bytes = self.next_region_bytes.saturating_mul(2);
        }
        let (bytes, place) = (self.next_region_bytes, (self.touched_bytes.len(), 0));
        if is_enough {
            self.next_region_bytes = bytes.saturating_mul(2);
        }
        self.touched_bytes.push(0);
        (place, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn regions_double_and_only_what_is_written_to_counts() {
        let mut arena = Arena::new();
        assert_eq!(arena.allocate(100 * KIB), (0, 0));
        assert_eq!(arena.allocate(100 * KIB), (0, 100 * KIB));
        assert_eq!(arena.allocate(3 << 20), (1, 0), "it does not fit in 1 MiB");
        assert_eq!(arena.next_region_bytes, 4 << 20);
        assert_eq!(arena.touched_bytes(), 200 * KIB + (3 << 20));
        // The rest of the second region is too small.
        assert_eq!(arena.allocate(2 << 20), (2, 0));
        assert_eq!(arena.next_region_bytes, 8 << 20);
    }

    #[test]
    fn the_best_fit_is_used_and_neighbours_are_joined() {
        let mut arena = Arena::new();
        let places: Vec<Place> = (0..4).map(|_| arena.allocate(100 * KIB)).collect();
        arena.release(places[0]);
        arena.release(places[2]);
        arena.release(places[1]);
        let joined = [(300 * KIB, (0, 0)), (624 * KIB, (0, 400 * KIB))];
        assert_eq!(arena.free.by_size.iter().copied().collect::<Vec<_>>(), joined);
        // More than half of it is used: it is not split.
        assert_eq!(arena.allocate(200 * KIB), (0, 0));
        assert_eq!(arena.free.by_size.len(), 1);
        assert_eq!(arena.touched_bytes(), 400 * KIB);
    }
}

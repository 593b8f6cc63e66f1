//! [`Arena`]: ONNX Runtime's allocator of blocks that it keeps, after its description in
//! `onnxruntime/core/framework/bfc_arena.h`, version 1.31: best fit with coalescing, in regions that
//! grow by powers of two. In bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Sizes are multiples of this.
const GRANULE_BYTES: u64 = 256;
/// Size of the first region.
const FIRST_REGION_BYTES: u64 = 1 << 20;
/// A chunk that is larger than asked for is split where it leaves as much as it gives, or this.
const MOST_WASTED_BYTES: u64 = 128 << 20;

/// Where a chunk begins: number of the region, and offset in it.
pub(super) type Place = (usize, u64);

#[derive(Clone, Copy, Debug)]
struct Chunk {
    bytes: u64,
    is_free: bool,
}

/// An arena that is empty at first.
#[derive(Debug)]
pub(super) struct Arena {
    next_region_bytes: u64,
    chunks: BTreeMap<Place, Chunk>,
    /// Free chunks by size.
    free: BTreeSet<(u64, Place)>,
    /// How far each region was ever written to: more of it is not resident.
    touched_bytes: Vec<u64>,
}

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            next_region_bytes: FIRST_REGION_BYTES,
            chunks: BTreeMap::new(),
            free: BTreeSet::new(),
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
        let fits = |arena: &Self| arena.free.range((rounded, (0, 0))..).next().copied();
        let (size, place) = fits(self).unwrap_or_else(|| self.extend(rounded));
        self.free.remove(&(size, place));
        let is_split = size / 2 >= rounded || size - rounded >= MOST_WASTED_BYTES;
        let taken = if is_split { rounded } else { size };
        self.chunks.insert(place, Chunk { bytes: taken, is_free: false });
        if is_split {
            self.insert_free((place.0, place.1 + taken), size - taken);
        }
        let touched = &mut self.touched_bytes[place.0];
        *touched = (*touched).max(place.1.saturating_add(bytes));
        place
    }

    /// Gives a chunk back; it becomes one with free neighbours.
    pub(super) fn release(&mut self, place: Place) {
        let Some(mut bytes) = self.chunks.remove(&place).map(|chunk| chunk.bytes) else { return };
        let mut start = place;
        if let Some(next) = self.take_free((place.0, place.1 + bytes)) {
            bytes += next;
        }
        let before = self.chunks.range((place.0, 0)..place).next_back().map(|(at, _)| *at);
        if let Some((at, previous)) = before.and_then(|at| Some((at, self.take_free(at)?))) {
            (start, bytes) = (at, bytes + previous);
        }
        self.insert_free(start, bytes);
    }

    fn extend(&mut self, rounded: u64) -> (u64, Place) {
        let is_enough = rounded <= self.next_region_bytes;
        while self.next_region_bytes < rounded {
            self.next_region_bytes = self.next_region_bytes.saturating_mul(2);
        }
        let (bytes, place) = (self.next_region_bytes, (self.touched_bytes.len(), 0));
        if is_enough {
            self.next_region_bytes = bytes.saturating_mul(2);
        }
        self.touched_bytes.push(0);
        self.insert_free(place, bytes);
        (bytes, place)
    }

    fn insert_free(&mut self, place: Place, bytes: u64) {
        self.chunks.insert(place, Chunk { bytes, is_free: true });
        self.free.insert((bytes, place));
    }

    /// Removes the chunk at a place if it is free; its bytes.
    fn take_free(&mut self, place: Place) -> Option<u64> {
        let chunk = self.chunks.get(&place).copied().filter(|chunk| chunk.is_free)?;
        self.chunks.remove(&place);
        self.free.remove(&(chunk.bytes, place));
        Some(chunk.bytes)
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
        assert_eq!(arena.free.iter().copied().collect::<Vec<_>>(), joined);
        // More than half of it is used: it is not split.
        assert_eq!(arena.allocate(200 * KIB), (0, 0));
        assert_eq!(arena.free.len(), 1);
        assert_eq!(arena.touched_bytes(), 400 * KIB);
    }
}

//! [`FreeBlocks`]: free memory as the engine's arena and the C library keep it, by place and by size.
//! In bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Where a block begins: number of the region, and offset in it.
pub(super) type Place = (usize, u64);

/// Blocks that lie apart from each other.
#[derive(Debug)]
pub(super) struct FreeBlocks {
    pub(super) by_place: BTreeMap<Place, u64>,
    pub(super) by_size: BTreeSet<(u64, Place)>,
}

impl FreeBlocks {
    pub(super) const fn new() -> Self {
        Self { by_place: BTreeMap::new(), by_size: BTreeSet::new() }
    }

    pub(super) fn insert(&mut self, place: Place, bytes: u64) {
        self.by_place.insert(place, bytes);
        self.by_size.insert((bytes, place));
    }

    /// Takes out the smallest block of at least so many bytes, of equal ones the first.
    pub(super) fn take_fit(&mut self, bytes: u64) -> Option<(Place, u64)> {
        let (_, place) = *self.by_size.range((bytes, (0, 0))..).next()?;
        Some((place, self.take(place)?))
    }

    /// A block that is given back, and the free neighbours on both sides, which are taken out.
    pub(super) fn joined(&mut self, place: Place, bytes: u64) -> (Place, u64) {
        let (mut start, mut bytes) = (place, bytes);
        bytes += self.take((start.0, start.1 + bytes)).unwrap_or(0);
        let before = self.by_place.range((start.0, 0)..start).next_back();
        let before = before.map(|(at, size)| (*at, *size));
        if let Some((at, size)) = before.filter(|(at, size)| at.1 + size == start.1) {
            self.take(at);
            (start, bytes) = (at, bytes + size);
        }
        (start, bytes)
    }

    fn take(&mut self, place: Place) -> Option<u64> {
        let bytes = self.by_place.remove(&place)?;
        self.by_size.remove(&(bytes, place));
        Some(bytes)
    }
}

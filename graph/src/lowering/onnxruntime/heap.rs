//! [`Heap`]: what the C library (glibc) keeps of memory that is freed. In bytes.
//!
//! After its documentation (`mallopt(3)`, `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD`): a block at or
//! above a threshold is a mapping of its own, which goes back to the system when it is freed, and
//! raises the threshold to its size, up to 32 MiB. Any other block lies in one heap, at the best fit
//! among free ones or at its end. The heap shrinks only from its end.

use super::free_blocks::FreeBlocks;

const ALIGNMENT_BYTES: u64 = 16;
const PAGE_BYTES: u64 = 4096;
/// Threshold for a mapping of its own at first, and the most it is raised to.
const LEAST_THRESHOLD_BYTES: u64 = 128 << 10;
const MOST_THRESHOLD_BYTES: u64 = 32 << 20;
/// How much more the heap grows than what is asked for.
const PADDING_BYTES: u64 = 128 << 10;
/// No block counts as larger, so that sums of sizes stay numbers.
const LARGEST_BLOCK_BYTES: u64 = 1 << 40;
/// A free block smaller than this is not split off.
const LEAST_BLOCK_BYTES: u64 = 32;

/// A block that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Of its own.
    Mapped { bytes: u64 },
    /// Of the heap.
    Inside { offset: u64, bytes: u64 },
}

/// A process's heap and mappings, empty at first.
#[derive(Debug)]
pub(super) struct Heap {
    threshold_bytes: u64,
    /// Of the heap, which is one region.
    free: FreeBlocks,
    /// End of the blocks, and of the heap.
    top: u64,
    end: u64,
    mapped_bytes: u64,
    most_bytes: u64,
}

impl Heap {
    pub(super) const fn new() -> Self {
        Self {
            threshold_bytes: LEAST_THRESHOLD_BYTES,
            free: FreeBlocks::new(),
            top: 0,
            end: 0,
            mapped_bytes: 0,
            most_bytes: 0,
        }
    }

    /// The most that was resident.
    pub(super) const fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    pub(super) fn allocate(&mut self, bytes: u64) -> Block {
        let bytes = rounded(bytes.min(LARGEST_BLOCK_BYTES) + ALIGNMENT_BYTES, ALIGNMENT_BYTES);
        if let Some(((_, offset), size)) = self.free.take_fit(bytes) {
            return self.reuse(offset, size, bytes);
        }
        let is_beyond = self.top + bytes > self.end;
        if is_beyond && bytes >= self.threshold_bytes {
            let bytes = rounded(bytes, PAGE_BYTES);
            self.mapped_bytes += bytes;
            self.note();
            return Block::Mapped { bytes };
        }
        let offset = self.top;
        self.top = offset + bytes;
        if is_beyond {
            self.end = rounded(self.top + PADDING_BYTES, PAGE_BYTES);
            self.note();
        }
        Block::Inside { offset, bytes }
    }

    pub(super) fn release(&mut self, block: Block) {
        match block {
            Block::Mapped { bytes } => {
                self.mapped_bytes -= bytes;
                if bytes <= MOST_THRESHOLD_BYTES {
                    self.threshold_bytes = self.threshold_bytes.max(bytes);
                }
            }
            Block::Inside { offset, bytes } => self.release_inside(offset, bytes),
        }
    }

    fn reuse(&mut self, offset: u64, size: u64, bytes: u64) -> Block {
        if size - bytes < LEAST_BLOCK_BYTES {
            return Block::Inside { offset, bytes: size };
        }
        self.free.insert((0, offset + bytes), size - bytes);
        Block::Inside { offset, bytes }
    }

    fn release_inside(&mut self, offset: u64, bytes: u64) {
        let ((_, start), bytes) = self.free.joined((0, offset), bytes);
        if start + bytes != self.top {
            return self.free.insert((0, start), bytes);
        }
        self.top = start;
        let is_trimmed = self.end - start >= 2 * self.threshold_bytes;
        if is_trimmed {
            self.end = rounded(start + PADDING_BYTES, PAGE_BYTES);
        }
    }

    fn note(&mut self) {
        self.most_bytes = self.most_bytes.max(self.end + self.mapped_bytes);
    }
}

const fn rounded(bytes: u64, to: u64) -> u64 {
    bytes.next_multiple_of(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn free(heap: &Heap) -> BTreeMap<u64, u64> {
        heap.free.by_place.iter().map(|((_, offset), bytes)| (*offset, *bytes)).collect()
    }

    #[test]
    fn large_blocks_go_back_until_the_threshold_rises() {
        let mut heap = Heap::new();
        let first = heap.allocate(1 << 20);
        assert!(matches!(first, Block::Mapped { .. }));
        heap.release(first);
        // The threshold is its size now: a block just below lies in the heap.
        let second = heap.allocate((1 << 20) - 4096);
        assert_eq!(second, Block::Inside { offset: 0, bytes: (1 << 20) - 4080 });
        assert!(matches!(heap.allocate(2 << 20), Block::Mapped { .. }));
        assert_eq!(heap.most_bytes(), (1 << 20) + PADDING_BYTES + (2 << 20) + PAGE_BYTES);
    }

    #[test]
    fn free_neighbours_are_one_block_and_the_best_fit_is_used() {
        let mut heap = Heap::new();
        let blocks: Vec<Block> = (0..5).map(|_| heap.allocate(1008)).collect();
        heap.release(blocks[0]);
        heap.release(blocks[2]);
        heap.release(blocks[3]);
        assert_eq!(free(&heap), BTreeMap::from([(0, 1024), (2048, 2048)]));
        assert_eq!(heap.allocate(1000), Block::Inside { offset: 0, bytes: 1024 });
        assert_eq!(heap.allocate(2000), Block::Inside { offset: 2048, bytes: 2016 });
        assert_eq!(free(&heap), BTreeMap::from([(4064, 32)]));
    }

    #[test]
    fn the_heap_shrinks_from_its_end_alone() {
        let mut heap = Heap::new();
        let blocks: Vec<Block> = (0..40).map(|_| heap.allocate(100 << 10)).collect();
        let full = heap.end;
        blocks.iter().skip(1).take(30).for_each(|block| heap.release(*block));
        assert_eq!(heap.end, full, "a hole stays");
        blocks.iter().skip(31).for_each(|block| heap.release(*block));
        assert!(heap.end < 200 << 10 << 1, "what is free at the end goes back: {}", heap.end);
        assert!(heap.most_bytes() >= full);
    }
}

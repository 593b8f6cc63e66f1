//! [`RowMasks`]: small trees, up to 512 rows per operation. Every node of a tree is evaluated for
//! every row, without a branch.
//!
//! 1. Each distinct threshold of the forest is compared once with a block of rows, one bit per row
//!    ([`Thresholds`]).
//! 2. From the root down, the rows that reach a node are split into those that reach its children:
//!    two logical operations.
//! 3. The rows that reach each leaf give each row the number of its leaf, whose value is added in
//!    f64: tree after tree, as the training library does.

use super::{
    column::Column,
    instructions::Instructions,
    leaves::{self, FEW, MANY},
    thresholds::{Mask, Thresholds},
    tree::Resolved,
};

/// Words of 64 rows in a block: of many rows, and of few.
const WIDE: usize = 8;
const NARROW: usize = 1;
/// The time of a block depends little on its number of rows. From these numbers of rows on, a wide
/// block is faster than narrow ones, and a narrow block faster than single rows (measured with a
/// forest outside the L1 and L2 caches, as in a search, which evaluates a few rows at a time).
const WORTH_WIDE: usize = 240;
const WORTH_NARROW: usize = 6;
/// Most distinct thresholds of the forest: 4 MiB of masks.
const MOST_MASKS: usize = 1 << 16;

/// Slots of a tree: its leaves and its nodes, numbered in a byte.
const SLOTS: usize = 2 * MANY;

/// The rows that reach each slot; each in a cache line of its own where it fills one.
#[repr(align(64))]
struct Slots<const N: usize>([Mask<N>; SLOTS]);

/// Rows that reach it and are above threshold `test` reach slot `right`, the others slot `left`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    test: u32,
    left: u8,
    right: u8,
}

/// Small trees. A tree has slots: one per leaf, then, from `most` on, one per node, level by level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowMasks {
    thresholds: Vec<Thresholds>,
    nodes: Vec<Node>,
    /// Nodes of each tree: one less than its leaves.
    sizes: Vec<u8>,
    /// `most` values per tree.
    values: Vec<f64>,
    most: usize,
}

/// Rows of `width` features and where their sums go.
pub(super) struct Rows<'a> {
    pub columns: &'a [Column],
    pub rows: &'a [f64],
    pub width: usize,
    pub sums: &'a mut [f64],
}

impl Rows<'_> {
    fn split(self, at: usize) -> [Self; 2] {
        let (first, second) = self.sums.split_at_mut(at);
        let (columns, width) = (self.columns, self.width);
        let rows = self.rows.split_at(at * width);
        [
            Self { columns, rows: rows.0, width, sums: first },
            Self { columns, rows: rows.1, width, sums: second },
        ]
    }
}

impl RowMasks {
    /// The trees, or `None` if one of them or all together are too large.
    pub fn new(trees: &[Vec<Resolved>], columns: usize) -> Option<Self> {
        let leaves = trees.iter().map(|tree| tree.len().div_ceil(2)).max().unwrap_or(0);
        if leaves > MANY {
            return None;
        }
        let mut values = vec![Vec::new(); columns];
        for node in trees.iter().flatten() {
            node.column.into_iter().for_each(|column| values[column].push(node.value));
        }
        let thresholds: Vec<Thresholds> = values.into_iter().map(Thresholds::new).collect();
        if thresholds.iter().map(Thresholds::masks).sum::<usize>() > MOST_MASKS {
            return None;
        }
        let firsts: Vec<usize> = thresholds
            .iter()
            .scan(0, |next, c| Some(std::mem::replace(next, *next + c.masks())))
            .collect();
        let most = if leaves <= FEW { FEW } else { MANY };
        let mut masks =
            Self { thresholds, nodes: Vec::new(), sizes: Vec::new(), values: Vec::new(), most };
        trees.iter().for_each(|tree| masks.push(tree, &firsts));
        Some(masks)
    }

    /// Adds a tree, its splits level by level, so that no node reads the value that was written
    /// just before it, as in preorder.
    fn push(&mut self, tree: &[Resolved], firsts: &[usize]) {
        let mut slots = vec![0; tree.len()];
        let leaves = tree.iter().enumerate().filter(|(_, node)| node.column.is_none());
        for (number, (index, leaf)) in leaves.enumerate() {
            slots[index] = number as u8;
            self.values.push(leaf.value);
        }
        let mut splits: Vec<usize> = if tree.len() > 1 { vec![0] } else { Vec::new() };
        let mut next = 0;
        while let Some(&index) = splits.get(next) {
            slots[index] = (self.most + next) as u8;
            splits.extend(
                [index + 1, tree[index].right]
                    .into_iter()
                    .filter(|&child| tree[child].column.is_some()),
            );
            next += 1;
        }
        for (index, column) in splits.iter().filter_map(|&index| Some((index, tree[index].column?)))
        {
            let test = (firsts[column] + self.thresholds[column].place(tree[index].value)) as u32;
            self.nodes.push(Node { test, left: slots[index + 1], right: slots[tree[index].right] });
        }
        self.sizes.push(splits.len() as u8);
        self.values.resize(self.sizes.len() * self.most, 0.0);
    }

    /// The thresholds of each column.
    pub fn thresholds(&self) -> &[Thresholds] {
        &self.thresholds
    }

    /// Number of the last of `rows` rows that are evaluated faster one by one than as a block.
    pub fn better_alone(rows: usize) -> usize {
        let (rest, last) = (rows % (64 * WIDE), rows % (64 * NARROW));
        if rest < WORTH_WIDE && last < WORTH_NARROW { last } else { 0 }
    }

    /// Sums over the trees for rows of `width` features.
    pub fn many(&self, instructions: Instructions, rows: Rows<'_>) {
        let wide = 64 * WIDE;
        let rest = rows.sums.len() % wide;
        let at = if rest >= WORTH_WIDE { rows.sums.len() } else { rows.sums.len() - rest };
        let [many, few] = rows.split(at);
        self.blocks::<WIDE>(instructions, many);
        self.blocks::<NARROW>(instructions, few);
    }

    fn blocks<const N: usize>(
        &self,
        instructions: Instructions,
        Rows { columns, rows, width, sums }: Rows<'_>,
    ) {
        if sums.is_empty() {
            return;
        }
        let words: usize = self.thresholds.iter().map(Thresholds::masks).sum::<usize>() * N;
        // From a multiple of 64 bytes on, where there is one.
        let mut space = vec![0u64; words + 7];
        let start = space.as_ptr().align_offset(64).min(7);
        let masks = space[start..start + words].as_chunks_mut::<N>().0;
        let mut slots = Slots([[0; N]; SLOTS]);
        for (rows, sums) in rows.chunks(64 * N * width).zip(sums.chunks_mut(64 * N)) {
            let mut values = [[0.0; 64]; N];
            // Of a wide block every word is full, or nearly so.
            let used = if N == NARROW { sums.len() } else { 64 };
            let mut masks_left = &mut *masks;
            for (thresholds, column) in self.thresholds.iter().zip(columns) {
                let (these, others) = masks_left.split_at_mut(thresholds.masks());
                masks_left = others;
                column.fill(rows, width, values.as_flattened_mut());
                thresholds.fill_masks(instructions, &values, used, these);
            }
            let mut totals = [[0.0; 64]; N];
            match instructions {
                // SAFETY: `Instructions` says Avx512 only where the processor has them.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => unsafe {
                    self.trees_avx512(masks, &mut slots.0, used, &mut totals);
                },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => unsafe {
                    self.trees_avx2(masks, &mut slots.0, used, &mut totals);
                },
                Instructions::Portable => {
                    self.trees(masks, &mut slots.0, used, &mut totals, leaves::add, leaves::add);
                }
            }
            sums.copy_from_slice(&totals.as_flattened()[..sums.len()]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    fn trees_avx512<const N: usize>(
        &self,
        masks: &[Mask<N>],
        slots: &mut [Mask<N>; SLOTS],
        rows: usize,
        sums: &mut [[f64; 64]; N],
    ) {
        self.trees(
            masks,
            slots,
            rows,
            sums,
            |planes, values, rows, sums| leaves::add_avx512(planes, values, rows, sums),
            leaves::add,
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn trees_avx2<const N: usize>(
        &self,
        masks: &[Mask<N>],
        slots: &mut [Mask<N>; SLOTS],
        rows: usize,
        sums: &mut [[f64; 64]; N],
    ) {
        // A closure has the instructions of the function that it is in.
        #[allow(clippy::redundant_closure)]
        self.trees(
            masks,
            slots,
            rows,
            sums,
            |planes, values, rows, sums| leaves::add(planes, values, rows, sums),
            leaves::add,
        );
    }

    #[inline(always)]
    fn trees<const N: usize>(
        &self,
        masks: &[Mask<N>],
        slots: &mut [Mask<N>; SLOTS],
        rows: usize,
        sums: &mut [[f64; 64]; N],
        add_few: impl Fn(&[Mask<N>; 7], &[f64; FEW], usize, &mut [[f64; 64]; N]),
        add_many: impl Fn(&[Mask<N>; 7], &[f64; MANY], usize, &mut [[f64; 64]; N]),
    ) {
        let mut nodes = &self.nodes[..];
        for (size, values) in self.sizes.iter().zip(self.values.chunks_exact(self.most)) {
            let size = usize::from(*size);
            let (these, others) = nodes.split_at(size);
            nodes = others;
            let leaves = size + 1;
            slots[leaves..leaves.next_power_of_two()].fill([0; N]);
            slots[if size == 0 { 0 } else { self.most }] = [u64::MAX; N];
            for (i, node) in these.iter().enumerate() {
                let (above, here) = (&masks[node.test as usize], slots[(self.most + i) % SLOTS]);
                let left = &mut slots[usize::from(node.left)];
                (0..N).for_each(|w| left[w] = here[w] & !above[w]);
                let right = &mut slots[usize::from(node.right)];
                (0..N).for_each(|w| right[w] = here[w] & above[w]);
            }
            let planes = leaves::numbers(slots, leaves);
            if let Ok(values) = values.try_into() {
                add_few(&planes, values, rows, sums);
            } else if let Ok(values) = values.try_into() {
                add_many(&planes, values, rows, sums);
            }
        }
    }
}

//! [`LeafMasks`]: small trees, one row at a time, by QuickScorer (Lucchese et al., SIGIR 2015,
//! doi:10.1145/2766462.2767733).
//!
//! Every tree has a bitmask of its live leaves. A threshold below the row's value clears the bits
//! of the leaves to the left of its nodes. The leftmost live leaf is the tree's result. The masks
//! of a column's thresholds are combined beforehand for all trees, one prepared row of words after
//! every [`STEP`] nodes, so that a row of features needs one row of words per column and the few
//! nodes after it.

use super::{
    column::Column, instructions::Instructions, leaves::FEW, thresholds::Thresholds, tree::Resolved,
};

/// Most nodes between a prepared row of words and the value.
const STEP: usize = 64;
/// Trees whose words are in registers.
const TREES: usize = 32;
/// Most prepared words: 8 MiB.
const MOST_WORDS: usize = 1 << 21;

/// Leaves of `tree` that a threshold leaves live, one bit each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LeafMask {
    tree: u32,
    live: u32,
}

/// The masks of the thresholds below a value: one prepared row of words, if there is one yet, and
/// `masks[from..to]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MaskRange {
    row: Option<u32>,
    from: u32,
    to: u32,
}

/// Small trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeafMasks {
    /// For each column, by the number of thresholds below the value.
    columns: Vec<Vec<MaskRange>>,
    masks: Vec<LeafMask>,
    /// Rows of one word per tree.
    prepared: Vec<[u32; TREES]>,
    /// Leaf values, [`FEW`] per tree.
    values: Vec<[f64; FEW]>,
}

impl LeafMasks {
    /// The trees, or `None` if one of them or all together are too large; `thresholds` are the
    /// thresholds of each column.
    pub fn new(trees: &[Vec<Resolved>], thresholds: &[Thresholds]) -> Option<Self> {
        let values = trees.iter().map(|tree| values(tree)).collect::<Option<Vec<_>>>()?;
        let rows = trees.iter().map(Vec::len).sum::<usize>() / STEP + thresholds.len();
        if rows.saturating_mul(trees.len()) > MOST_WORDS {
            return None;
        }
        let mut found = vec![Vec::new(); thresholds.len()];
        for (number, tree) in trees.iter().enumerate() {
            leaf_masks(tree, number as u32, thresholds, &mut found);
        }
        let mut masks =
            Self { columns: Vec::new(), masks: Vec::new(), prepared: Vec::new(), values };
        found
            .into_iter()
            .zip(thresholds)
            .for_each(|(found, thresholds)| masks.push(found, thresholds.count()));
        Some(masks)
    }

    /// Adds a column with `count` thresholds and its masks by threshold.
    fn push(&mut self, mut found: Vec<(usize, LeafMask)>, count: usize) {
        found.sort_by_key(|(threshold, _)| *threshold);
        let first = self.masks.len();
        self.masks.extend(found.iter().map(|(_, mask)| *mask));
        let width = self.values.len().div_ceil(TREES);
        let mut words = vec![[u32::MAX; TREES]; width];
        let (mut row, mut from) = (None, first);
        let range = |rank| {
            let to = first + found.partition_point(|(threshold, _)| *threshold < rank);
            if to - from > STEP {
                for mask in &self.masks[from..to] {
                    words[mask.tree as usize / TREES][mask.tree as usize % TREES] &= mask.live;
                }
                row = Some(self.prepared.len() as u32);
                from = to;
                self.prepared.extend_from_slice(&words);
            }
            MaskRange { row, from: from as u32, to: to as u32 }
        };
        let column = (0..=count).map(range).collect();
        self.columns.push(column);
    }

    /// Sum over the trees for one row.
    pub fn one(
        &self,
        instructions: Instructions,
        thresholds: &[Thresholds],
        columns: &[Column],
        row: &[f64],
    ) -> f64 {
        let values: Vec<f64> = columns.iter().map(|column| column.value(row)).collect();
        match instructions {
            // SAFETY: `Instructions` says Avx512 only where the processor has them.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { self.sum_avx512(thresholds, &values) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { self.sum_avx2(thresholds, &values) },
            Instructions::Portable => self.sum(&Thresholds::rank_each(thresholds, &values)),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,popcnt")]
    fn sum_avx512(&self, thresholds: &[Thresholds], values: &[f64]) -> f64 {
        self.sum(
            &thresholds
                .iter()
                .zip(values)
                .map(|(thresholds, value)| thresholds.rank_avx512(*value))
                .collect::<Vec<_>>(),
        )
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sum_avx2(&self, thresholds: &[Thresholds], values: &[f64]) -> f64 {
        self.sum(&Thresholds::rank_each(thresholds, values))
    }

    /// `ranks` has the number of thresholds below the row's value in each column.
    #[inline(always)]
    fn sum(&self, ranks: &[usize]) -> f64 {
        let width = self.values.len().div_ceil(TREES);
        let mut live = vec![[u32::MAX; TREES]; width];
        let mut prepared = Vec::with_capacity(self.columns.len());
        let mut masks = Vec::with_capacity(self.columns.len());
        for (column, rank) in self.columns.iter().zip(ranks) {
            let MaskRange { row, from, to } = column[*rank];
            prepared.extend(row.map(|row| &self.prepared[row as usize..][..width]));
            masks.push(&self.masks[from as usize..to as usize]);
        }
        for (i, live) in live.iter_mut().enumerate() {
            let mut words = *live;
            for prepared in &prepared {
                let row = &prepared[i];
                words = std::array::from_fn(|t| words[t] & row[t]);
            }
            *live = words;
        }
        let live = live.as_flattened_mut();
        for mask in masks.into_iter().flatten() {
            live[mask.tree as usize] &= mask.live;
        }
        self.values.iter().zip(live).fold(0.0, |sum, (values, live)| {
            sum + values[(*live | 1 << (FEW - 1)).trailing_zeros() as usize]
        })
    }
}

/// Leaf values from left to right.
fn values(tree: &[Resolved]) -> Option<[f64; FEW]> {
    let mut values = [0.0; FEW];
    let mut places = values.iter_mut();
    for leaf in tree.iter().filter(|node| node.column.is_none()) {
        *places.next()? = leaf.value;
    }
    Some(values)
}

/// The mask of each node: it clears the leaves between the node and its right child.
fn leaf_masks(
    tree: &[Resolved],
    number: u32,
    thresholds: &[Thresholds],
    found: &mut [Vec<(usize, LeafMask)>],
) {
    let before: Vec<u32> = tree
        .iter()
        .scan(0, |next, node| {
            Some(std::mem::replace(next, *next + u32::from(node.column.is_none())))
        })
        .collect();
    for (i, node) in tree.iter().enumerate() {
        if let Some(column) = node.column {
            let left = (before[i]..before[node.right]).fold(0, |bits, leaf| bits | 1 << leaf);
            found[column].push((
                thresholds[column].rank(node.value),
                LeafMask { tree: number, live: !left },
            ));
        }
    }
}

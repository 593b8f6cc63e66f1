//! [`Survivors`]: small trees, one row at a time. Which leaves of each tree remain possible, given
//! what the row says about each column?
//!
//! A threshold below the row's value rules out the leaves to the left of every node that asks for
//! it. The row ends in the leftmost leaf of a tree that nothing rules out (Lucchese et al.,
//! QuickScorer, SIGIR 2015). What a column's thresholds rule out is and-ed together beforehand, for
//! all trees at once and from time to time, so that a row of features needs one row of words per
//! column and the few nodes after it.

use super::{column::Column, cuts::Cuts, instructions::Instructions, leaves::FEW, tree::Resolved};

/// Most nodes between a prepared row of words and the value.
const STEP: usize = 64;
/// Trees whose words are in registers.
const TREES: usize = 32;
/// Most prepared words: 8 MiB.
const MOST_WORDS: usize = 1 << 21;

/// Leaves of `tree` that survive a threshold, one bit each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Verdict {
    tree: u32,
    survivors: u32,
}

/// What the thresholds below a value rule out: one prepared row of words, if there is one yet, and
/// `verdicts[from..to]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ruled {
    row: Option<u32>,
    from: u32,
    to: u32,
}

/// Small trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Survivors {
    /// For each column, by the number of thresholds below the value.
    columns: Vec<Vec<Ruled>>,
    verdicts: Vec<Verdict>,
    /// Rows of one word per tree.
    prepared: Vec<[u32; TREES]>,
    /// Leaf values, [`FEW`] per tree.
    values: Vec<[f64; FEW]>,
}

impl Survivors {
    /// The trees, or `None` if one of them or all together are too large; `cuts` are the thresholds
    /// of each column.
    pub fn new(trees: &[Vec<Resolved>], cuts: &[Cuts]) -> Option<Self> {
        let values = trees.iter().map(|tree| values(tree)).collect::<Option<Vec<_>>>()?;
        let rows = trees.iter().map(Vec::len).sum::<usize>() / STEP + cuts.len();
        if rows.saturating_mul(trees.len()) > MOST_WORDS {
            return None;
        }
        let mut found = vec![Vec::new(); cuts.len()];
        for (number, tree) in trees.iter().enumerate() {
            verdicts(tree, number as u32, cuts, &mut found);
        }
        let mut survivors =
            Self { columns: Vec::new(), verdicts: Vec::new(), prepared: Vec::new(), values };
        found.into_iter().zip(cuts).for_each(|(found, cuts)| survivors.push(found, cuts.count()));
        Some(survivors)
    }

    /// Adds a column with `count` thresholds and its verdicts by threshold.
    fn push(&mut self, mut found: Vec<(usize, Verdict)>, count: usize) {
        found.sort_by_key(|(threshold, _)| *threshold);
        let first = self.verdicts.len();
        self.verdicts.extend(found.iter().map(|(_, verdict)| *verdict));
        let width = self.values.len().div_ceil(TREES);
        let mut words = vec![[u32::MAX; TREES]; width];
        let (mut row, mut from) = (None, first);
        let ruled = |rank| {
            let to = first + found.partition_point(|(threshold, _)| *threshold < rank);
            if to - from > STEP {
                for verdict in &self.verdicts[from..to] {
                    words[verdict.tree as usize / TREES][verdict.tree as usize % TREES] &=
                        verdict.survivors;
                }
                row = Some(self.prepared.len() as u32);
                from = to;
                self.prepared.extend_from_slice(&words);
            }
            Ruled { row, from: from as u32, to: to as u32 }
        };
        let column = (0..=count).map(ruled).collect();
        self.columns.push(column);
    }

    /// Sum over the trees for one row.
    pub fn one(
        &self,
        instructions: Instructions,
        cuts: &[Cuts],
        columns: &[Column],
        row: &[f64],
    ) -> f64 {
        let values: Vec<f64> = columns.iter().map(|column| column.value(row)).collect();
        match instructions {
            // SAFETY: `Instructions` says Avx512 only where the processor has them.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { self.sum_avx512(cuts, &values) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { self.sum_avx2(cuts, &values) },
            Instructions::Portable => self.sum(&Cuts::rank_each(cuts, &values)),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,popcnt")]
    fn sum_avx512(&self, cuts: &[Cuts], values: &[f64]) -> f64 {
        self.sum(
            &cuts
                .iter()
                .zip(values)
                .map(|(cuts, value)| cuts.rank_avx512(*value))
                .collect::<Vec<_>>(),
        )
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sum_avx2(&self, cuts: &[Cuts], values: &[f64]) -> f64 {
        self.sum(&Cuts::rank_each(cuts, values))
    }

    /// `ranks` has the number of thresholds below the row's value in each column.
    #[inline(always)]
    fn sum(&self, ranks: &[usize]) -> f64 {
        let width = self.values.len().div_ceil(TREES);
        let mut alive = vec![[u32::MAX; TREES]; width];
        let mut prepared = Vec::with_capacity(self.columns.len());
        let mut verdicts = Vec::with_capacity(self.columns.len());
        for (column, rank) in self.columns.iter().zip(ranks) {
            let Ruled { row, from, to } = column[*rank];
            prepared.extend(row.map(|row| &self.prepared[row as usize..][..width]));
            verdicts.push(&self.verdicts[from as usize..to as usize]);
        }
        for (i, alive) in alive.iter_mut().enumerate() {
            let mut words = *alive;
            for prepared in &prepared {
                let row = &prepared[i];
                words = std::array::from_fn(|t| words[t] & row[t]);
            }
            *alive = words;
        }
        let alive = alive.as_flattened_mut();
        for verdict in verdicts.into_iter().flatten() {
            alive[verdict.tree as usize] &= verdict.survivors;
        }
        self.values.iter().zip(alive).fold(0.0, |sum, (values, alive)| {
            sum + values[(*alive | 1 << (FEW - 1)).trailing_zeros() as usize]
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

/// What each node rules out: the leaves between it and its right child.
fn verdicts(tree: &[Resolved], number: u32, cuts: &[Cuts], found: &mut [Vec<(usize, Verdict)>]) {
    let before: Vec<u32> = tree
        .iter()
        .scan(0, |next, node| {
            Some(std::mem::replace(next, *next + u32::from(node.column.is_none())))
        })
        .collect();
    for (i, node) in tree.iter().enumerate() {
        if let Some(column) = node.column {
            let left = (before[i]..before[node.right]).fold(0, |bits, leaf| bits | 1 << leaf);
            found[column]
                .push((cuts[column].rank(node.value), Verdict { tree: number, survivors: !left }));
        }
    }
}

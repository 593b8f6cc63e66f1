//! [`Survivors`]: small trees, one row at a time. Which leaves of each tree remain possible, given what the row says about each column?
//!
//! A threshold below the row's value rules out the leaves to the left of every node that asks for it. The row ends in the leftmost leaf of a tree that
//! nothing rules out (Lucchese et al., QuickScorer, SIGIR 2015). What all thresholds up to every 16th rule out is and-ed together beforehand, for all
//! trees at once, so that a row needs one row of words per column and the few thresholds after it.

use super::{cuts::Cuts, leaves::FEW, tree::Resolved};

/// Thresholds from one prepared row of words to the next.
const STEP: usize = 16;
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

#[derive(Clone, Debug, PartialEq)]
struct Column {
    /// Where in `prepared` its first row begins.
    prepared: usize,
    /// Verdicts of threshold `i` are `verdicts[ends[i]..ends[i + 1]]`.
    ends: Vec<u32>,
    verdicts: Vec<Verdict>,
}

/// Small trees.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Survivors {
    columns: Vec<Column>,
    /// Rows of one word per tree.
    prepared: Vec<[u32; TREES]>,
    /// Leaf values, [`FEW`] per tree.
    values: Vec<[f64; FEW]>,
}

impl Survivors {
    /// The trees, or `None` if one of them or all together are too large; `cuts` are the thresholds of each column.
    pub fn new(trees: &[Vec<Resolved>], cuts: &[Cuts]) -> Option<Self> {
        let values = trees.iter().map(|tree| values(tree)).collect::<Option<Vec<_>>>()?;
        let rows: usize = cuts.iter().map(|c| c.count() / STEP + 1).sum();
        if rows.saturating_mul(trees.len()) > MOST_WORDS {
            return None;
        }
        let mut found = vec![Vec::new(); cuts.len()];
        for (number, tree) in trees.iter().enumerate() {
            verdicts(tree, number as u32, cuts, &mut found);
        }
        let mut survivors = Self { columns: Vec::new(), prepared: Vec::new(), values };
        found.into_iter().zip(cuts).for_each(|(found, cuts)| survivors.push(found, cuts.count()));
        Some(survivors)
    }

    /// Adds a column with its verdicts by threshold.
    fn push(&mut self, mut found: Vec<(usize, Verdict)>, count: usize) {
        found.sort_by_key(|(threshold, _)| *threshold);
        let ends = (0..=count).map(|i| found.partition_point(|(threshold, _)| *threshold < i) as u32).collect();
        self.columns.push(Column { prepared: self.prepared.len(), ends, verdicts: found.iter().map(|(_, verdict)| *verdict).collect() });
        let mut words = vec![[u32::MAX; TREES]; self.values.len().div_ceil(TREES)];
        let mut waiting = found.iter().peekable();
        for start in (0..=count).step_by(STEP) {
            while let Some((_, verdict)) = waiting.next_if(|(threshold, _)| *threshold < start) {
                words[verdict.tree as usize / TREES][verdict.tree as usize % TREES] &= verdict.survivors;
            }
            self.prepared.extend_from_slice(&words);
        }
    }

    /// Sum over the trees; `ranks` has the number of thresholds below the row's value in each column.
    pub fn one(&self, ranks: impl Iterator<Item = usize>) -> f64 {
        let width = self.values.len().div_ceil(TREES);
        let mut alive = vec![[u32::MAX; TREES]; width];
        let mut prepared = Vec::with_capacity(self.columns.len());
        let mut verdicts = Vec::with_capacity(self.columns.len());
        for (column, rank) in self.columns.iter().zip(ranks) {
            let start = rank / STEP;
            prepared.push(&self.prepared[column.prepared + start * width..][..width]);
            verdicts.push(&column.verdicts[column.ends[start * STEP] as usize..column.ends[rank] as usize]);
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
        self.values.iter().zip(alive).fold(0.0, |sum, (values, alive)| sum + values[alive.trailing_zeros() as usize % FEW])
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
    let before: Vec<u32> = tree.iter().scan(0, |next, node| Some(std::mem::replace(next, *next + u32::from(node.column.is_none())))).collect();
    for (i, node) in tree.iter().enumerate() {
        if let Some(column) = node.column {
            let left = (before[i]..before[node.right]).fold(0, |bits, leaf| bits | 1 << leaf);
            found[column].push((cuts[column].rank(node.value), Verdict { tree: number, survivors: !left }));
        }
    }
}

//! [`Walk`]: trees of any size, from root to leaf, several walks at a time so that their loads
//! overlap.
//!
//! Siblings share a half cache line. A leaf is its own child: it compares minus infinity with its
//! value and remains there, so that a walk needs no test for leaves.

use super::{column::Column, tree::Resolved};

/// Walks at a time.
const WALKS: usize = 8;
/// Steps between two looks whether every walk has arrived.
const STRIDE: usize = 4;
/// Rows that visit a tree while it is in the cache.
const ROWS: usize = 256;

/// 16 bytes: go to `child`, or to its sibling if the row's `column` is more than `value`. A leaf
/// has column 0 and its own place as child.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Node {
    value: f64,
    child: u32,
    column: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(align(32))]
struct Siblings([Node; 2]);

/// Trees of any size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Walk {
    pairs: Vec<Siblings>,
    roots: Vec<u32>,
}

impl Walk {
    /// Trees with at most [`MOST_NODES`](super::MOST_NODES) nodes in all.
    pub fn new(trees: &[Vec<Resolved>]) -> Self {
        let mut walk = Self::default();
        trees.iter().for_each(|tree| walk.push(tree));
        walk
    }

    fn push(&mut self, tree: &[Resolved]) {
        let root = self.reserve();
        self.roots.push(root);
        let mut waiting = vec![(0, root)];
        while let Some((index, place)) = waiting.pop() {
            let source = &tree[index];
            let node = match source.column {
                None => Node { value: source.value, child: place, column: 0 },
                Some(column) => {
                    let child = self.reserve();
                    waiting.extend([(source.right, child + 1), (index + 1, child)]);
                    Node { value: source.value, child, column: column as u32 + 1 }
                }
            };
            self.pairs[place as usize / 2].0[place as usize % 2] = node;
        }
    }

    fn reserve(&mut self) -> u32 {
        self.pairs.push(Siblings::default());
        2 * (self.pairs.len() as u32 - 1)
    }

    #[inline(always)]
    fn node(&self, place: usize) -> &Node {
        &self.pairs[place / 2].0[place % 2]
    }

    /// Walks from `places` to leaves; `values(i)` are the columns of walk `i`, after a leading
    /// minus infinity.
    #[inline(always)]
    fn arrive<'a>(
        &self,
        mut places: [usize; WALKS],
        values: impl Fn(usize) -> &'a [f64],
    ) -> [f64; WALKS] {
        loop {
            for _ in 0..STRIDE {
                for (i, place) in places.iter_mut().enumerate() {
                    let node = self.node(*place);
                    *place = node.child as usize
                        + usize::from(values(i)[node.column as usize] > node.value);
                }
            }
            if places.iter().all(|p| self.node(*p).column == 0) {
                return places.map(|p| self.node(p).value);
            }
        }
    }

    /// Sum over the trees for one row: several trees at a time.
    pub fn one(&self, columns: &[Column], row: &[f64]) -> f64 {
        let values = look(columns, row);
        let mut sum = 0.0;
        for roots in self.roots.chunks(WALKS) {
            let places = std::array::from_fn(|i| *roots.get(i).unwrap_or(&roots[0]) as usize);
            self.arrive(places, |_| &values).iter().take(roots.len()).for_each(|leaf| sum += leaf);
        }
        sum
    }

    /// Sums over the trees for rows of `width` features: several rows at a time, one tree after the
    /// other.
    pub fn many(&self, columns: &[Column], rows: &[f64], width: usize, sums: &mut [f64]) {
        let stride = columns.len() + 1;
        for (rows, sums) in rows.chunks(ROWS * width).zip(sums.chunks_mut(ROWS)) {
            let values: Vec<f64> =
                rows.chunks_exact(width).flat_map(|row| look(columns, row)).collect();
            sums.fill(0.0);
            for root in &self.roots {
                for (values, sums) in values.chunks(WALKS * stride).zip(sums.chunks_mut(WALKS)) {
                    let last = sums.len() - 1;
                    let leaves = self.arrive([*root as usize; WALKS], |i| {
                        &values[i.min(last) * stride..][..stride]
                    });
                    sums.iter_mut().zip(leaves).for_each(|(sum, leaf)| *sum += leaf);
                }
            }
        }
    }
}

fn look(columns: &[Column], row: &[f64]) -> Vec<f64> {
    std::iter::once(f64::NEG_INFINITY).chain(columns.iter().map(|c| c.value(row))).collect()
}

//! [`Trees`]: an ensemble of regression trees from any library: plain nodes as a bundle stores
//! them, and compiled for evaluation.
//!
//! Nodes lie in preorder, so the left child is always the next node and the right child's index is
//! larger than its parent's. A row goes left when its feature is at most the threshold. Output:
//! latency in ns = baseline x exp(scale x sum of leaf values).

#[cfg(feature = "train")]
use super::FitData;
use crate::forest::{CompiledForest, ForestError, MOST_NODES, Missing, Resolved, Rule, TreeNode};
use std::sync::OnceLock;

const LEAF: u16 = u16::MAX;
/// Leaves are whole multiples of one over this: as fine as the sum of hundreds of them needs, and
/// short in a file.
const QUANTA: f64 = (1 << 24) as f64;
/// No leaf is larger.
const LARGEST_LEAF: f64 = 100.0;
/// Factor by which trees may move a forecast away from its baseline, as a logarithm.
const LARGEST_LOG_RATIO: f64 = 5.0;

/// One node: a split (`feature` at most `value` goes to the next node, else to `right`) or a leaf
/// with `value`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    feature: u16,
    right: u32,
    value: f64,
}

/// An ensemble of regression trees.
#[derive(Clone, Debug)]
pub struct Trees {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    scale: f64,
    columns: usize,
    compiled: OnceLock<Box<CompiledForest>>,
}

/// Whether they are the same trees, compiled or not.
impl PartialEq for Trees {
    fn eq(&self, other: &Self) -> bool {
        let parts = |t: &Self| (t.scale, t.columns);
        parts(self) == parts(other) && self.roots == other.roots && self.nodes == other.nodes
    }
}

impl Trees {
    /// Trees with numerical splits over `columns` features that are never missing.
    ///
    /// # Errors
    /// A sentence when there are other splits, or something is no tree.
    pub(crate) fn new(trees: &[Vec<TreeNode>], columns: usize, scale: f64) -> Result<Self, String> {
        let (mut nodes, mut roots) = (Vec::new(), Vec::new());
        for tree in trees {
            roots.push(u32::try_from(nodes.len()).map_err(|e| e.to_string())?);
            flatten(tree, &mut nodes)?;
        }
        Self::checked(nodes, roots, columns, scale)
    }

    fn checked(
        nodes: Vec<Node>,
        roots: Vec<u32>,
        columns: usize,
        scale: f64,
    ) -> Result<Self, String> {
        let trees = Self { nodes, roots, scale, columns, compiled: OnceLock::new() };
        if !scale.is_finite() {
            return Err(format!("its trees are scaled by {scale}"));
        }
        if trees.nodes.len() > MOST_NODES {
            return Err(ForestError::TooLarge.to_string());
        }
        trees
            .each()
            .try_for_each(|(root, nodes)| check(nodes.ok_or(ForestError::NotATree)?, root, columns))
            .map_err(|e| e.to_string())?;
        Ok(trees)
    }

    /// Every tree's root and nodes.
    fn each(&self) -> impl Iterator<Item = (usize, Option<&[Node]>)> {
        let ends = self.roots.iter().skip(1).map(|r| *r as usize).chain([self.nodes.len()]);
        self.roots
            .iter()
            .zip(ends)
            .map(|(root, end)| (*root as usize, self.nodes.get(*root as usize..end)))
    }

    /// Compiled on first use: a forecast of one model needs few of a bundle's forests.
    fn compiled(&self) -> &CompiledForest {
        self.compiled.get_or_init(|| {
            let resolved = |(root, nodes): (usize, Option<&[Node]>)| {
                nodes.unwrap_or_default().iter().map(|node| node.resolved(root)).collect()
            };
            Box::new(CompiledForest::from_preorder(
                self.each().map(resolved).collect(),
                self.columns,
                self.scale,
            ))
        })
    }

    /// Number of trees.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there is no tree.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Number of nodes of all trees.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Scaled sum of leaf values: the logarithm of latency over baseline.
    #[must_use]
    pub fn log_ratio(&self, x: &[f64]) -> f64 {
        self.compiled().predict(x)
    }

    /// Latency in ns of one row, given its baseline latency.
    #[must_use]
    pub fn predict(&self, x: &[f64], baseline_ns: f64) -> f64 {
        latency(baseline_ns, self.log_ratio(x))
    }

    /// Latencies in ns of rows that lie one after the other, given their baseline latencies;
    /// exactly those of [`Trees::predict`].
    ///
    /// # Errors
    /// [`ForestError::Shape`] unless there are as many rows as baselines.
    pub fn predict_batch(&self, x: &[f64], baseline_ns: &[f64]) -> Result<Vec<f64>, ForestError> {
        let mut out = vec![0.0; baseline_ns.len()];
        self.compiled().predict_batch(x, &mut out)?;
        out.iter_mut().zip(baseline_ns).for_each(|(out, baseline)| *out = latency(*baseline, *out));
        Ok(out)
    }

    /// Of boosted trees, by column: how much its splits lower the weighted squared error of the
    /// residuals of earlier trees.
    #[cfg(feature = "train")]
    pub(crate) fn impurity_decrease(&self, data: &FitData<'_>) -> Vec<f64> {
        let mut rest = data.log_ratios();
        let mut sums = vec![(0.0, 0.0); self.nodes.len()];
        for &root in &self.roots {
            for ((x, rest), weight) in
                data.x.chunks_exact(data.columns.max(1)).zip(&mut rest).zip(data.weights)
            {
                let mut index = root as usize;
                while let Some((node, sum)) = self.nodes.get(index).zip(sums.get_mut(index)) {
                    *sum = (sum.0 + weight, sum.1 + weight * *rest);
                    if node.feature == LEAF {
                        *rest -= self.scale * node.value;
                        break;
                    }
                    let value = x.get(usize::from(node.feature)).copied().unwrap_or(0.0);
                    index = if value <= node.value { index + 1 } else { node.right as usize };
                }
            }
        }
        let explained = |index: usize| {
            sums.get(index)
                .map_or(0.0, |(weight, sum)| if *weight > 0.0 { sum * sum / weight } else { 0.0 })
        };
        let mut decrease = vec![0.0; data.columns];
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(column) = decrease.get_mut(usize::from(node.feature)) {
                *column += (explained(index + 1) + explained(node.right as usize)
                    - explained(index))
                .max(0.0);
            }
        }
        decrease
    }

    /// Bytes, little endian: scale (f64), number of trees, of nodes (u32); of every node its column
    /// plus one, or 0 for a leaf; the thresholds of each column: their number (u32), then they
    /// (f64) in ascending order; of every split the place of its threshold; of every leaf its value
    /// in [`QUANTA`]. Where children are follows from preorder. Whole numbers lie as [`planes`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut thresholds = vec![Vec::new(); self.columns];
        for node in &self.nodes {
            thresholds
                .get_mut(usize::from(node.feature))
                .into_iter()
                .for_each(|of| of.push(node.value));
        }
        for of in &mut thresholds {
            of.sort_by(f64::total_cmp);
            of.dedup_by(|a, b| a.to_bits() == b.to_bits());
        }
        out.extend_from_slice(&self.scale.to_le_bytes());
        out.extend_from_slice(&(self.roots.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.nodes.len() as u32).to_le_bytes());
        planes(
            &self
                .nodes
                .iter()
                .map(|node| u32::from(node.feature.wrapping_add(1)))
                .collect::<Vec<_>>(),
            out,
        );
        for of in &thresholds {
            out.extend_from_slice(&(of.len() as u32).to_le_bytes());
            of.iter().for_each(|threshold| out.extend_from_slice(&threshold.to_le_bytes()));
        }
        let place = |node: &Node| {
            thresholds
                .get(usize::from(node.feature))
                .map(|of| of.partition_point(|t| t.total_cmp(&node.value).is_lt()) as u32)
        };
        planes(&self.nodes.iter().filter_map(place).collect::<Vec<_>>(), out);
        planes(
            &self
                .nodes
                .iter()
                .filter(|node| node.feature == LEAF)
                .map(|leaf| zigzag((leaf.value * QUANTA) as i32))
                .collect::<Vec<_>>(),
            out,
        );
    }

    /// Reads what [`Trees::encode`] wrote from the front of `bytes` and checks everything.
    pub(crate) fn decode(bytes: &mut &[u8], columns: usize) -> Result<Self, String> {
        let scale = f64::from_le_bytes(take(bytes)?);
        let trees = u32::from_le_bytes(take(bytes)?) as usize;
        let count = u32::from_le_bytes(take(bytes)?) as usize;
        let features = read_planes(bytes, count)?;
        let mut thresholds = Vec::with_capacity(columns);
        for _ in 0..columns {
            let count = u32::from_le_bytes(take(bytes)?);
            thresholds.push(
                (0..count)
                    .map(|_| take(bytes).map(f64::from_le_bytes))
                    .collect::<Result<Vec<_>, _>>()?,
            );
        }
        let splits = features.iter().filter(|feature| **feature > 0).count();
        let (mut places, mut leaves) = (
            read_planes(bytes, splits)?.into_iter(),
            read_planes(bytes, count - splits)?.into_iter(),
        );
        let mut node = |feature: u32| match feature.checked_sub(1) {
            None => leaves.next().map(|value| Node {
                feature: LEAF,
                right: 0,
                value: f64::from(unzigzag(value)) / QUANTA,
            }),
            Some(feature) => {
                let value = *thresholds.get(feature as usize)?.get(places.next()? as usize)?;
                Some(Node { feature: u16::try_from(feature).ok()?, right: 0, value })
            }
        };
        let mut nodes = features
            .into_iter()
            .map(|feature| node(feature).ok_or("it splits at a threshold that it does not have"))
            .collect::<Result<Vec<_>, _>>()?;
        let roots = join(&mut nodes);
        if roots.len() != trees {
            return Err(format!("it has {} trees and says {trees}", roots.len()));
        }
        Self::checked(nodes, roots, columns, scale)
    }
}

/// Gives every split of trees that lie in preorder its right child, and finds the roots.
fn join(nodes: &mut [Node]) -> Vec<u32> {
    let (mut roots, mut waiting) = (Vec::new(), Vec::<usize>::new());
    let mut begins = true;
    for here in 0..nodes.len() {
        if begins {
            roots.push(here as u32);
        }
        if nodes[here].feature == LEAF {
            let parent = waiting.pop();
            parent.into_iter().for_each(|parent| nodes[parent].right = here as u32 + 1);
            begins = parent.is_none();
        } else {
            waiting.push(here);
            begins = false;
        }
    }
    roots
}

impl Node {
    /// As the compiler reads it, in a tree that begins at node `root`.
    fn resolved(&self, root: usize) -> Resolved {
        match self.feature {
            LEAF => Resolved { value: self.value, column: None, right: 0 },
            feature => Resolved {
                value: self.value,
                column: Some(feature.into()),
                right: (self.right as usize).saturating_sub(root),
            },
        }
    }
}

/// Whether `nodes`, of which the first is node `root`, are one tree in preorder over `columns`
/// features.
fn check(nodes: &[Node], root: usize, columns: usize) -> Result<(), ForestError> {
    let end = root + nodes.len();
    // Right children yet to come, the next one last.
    let mut waiting = Vec::new();
    for (here, node) in (root..).zip(nodes) {
        if !node.value.is_finite() || (node.feature == LEAF && node.value.abs() > LARGEST_LEAF) {
            return Err(ForestError::Leaf(node.value));
        }
        if node.feature != LEAF {
            if usize::from(node.feature) >= columns {
                return Err(ForestError::Feature {
                    feature: node.feature.into(),
                    features: columns,
                });
            }
            waiting.push(node.right as usize);
        } else if waiting.pop().unwrap_or(end) != here + 1 {
            return Err(ForestError::NotATree);
        }
        if waiting.last().is_some_and(|right| *right >= end) {
            return Err(ForestError::NotATree);
        }
    }
    if nodes.is_empty() || !waiting.is_empty() { Err(ForestError::NotATree) } else { Ok(()) }
}

/// Appends a tree in preorder.
fn flatten(tree: &[TreeNode], nodes: &mut Vec<Node>) -> Result<(), String> {
    let start = nodes.len();
    let mut waiting: Vec<(usize, Option<usize>)> = vec![(0, None)];
    while let Some((index, parent)) = waiting.pop() {
        let here = nodes.len();
        if here - start == tree.len() {
            return Err(ForestError::NotATree.to_string());
        }
        if let Some(parent) = parent {
            let parent: &mut Node = &mut nodes[parent];
            parent.right = u32::try_from(here).map_err(|e| e.to_string())?;
        }
        match tree.get(index).ok_or(ForestError::NotATree.to_string())? {
            TreeNode::Leaf(value) => nodes.push(Node {
                feature: LEAF,
                right: 0,
                value: (value * QUANTA).round() / QUANTA,
            }),
            TreeNode::Split {
                feature,
                rule: Rule::AtMost(threshold, Missing::Never | Missing::Nan { left: false }),
                left,
                right,
            } => {
                let feature = u16::try_from(*feature)
                    .ok()
                    .filter(|f| *f != LEAF)
                    .ok_or("too many features")?;
                nodes.push(Node { feature, right: 0, value: *threshold });
                waiting.extend([(*right, Some(here)), (*left, None)]);
            }
            TreeNode::Split { .. } => {
                return Err(
                    "it has a split that is categorical or expects missing values".to_owned()
                );
            }
        }
    }
    Ok(())
}

/// Trees move a forecast away from its baseline only so far.
fn latency(baseline_ns: f64, log_ratio: f64) -> f64 {
    baseline_ns * log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
}

/// Appends the lowest bytes of all values, then the next ones, and so on: high bytes are mostly
/// zero and pack to nothing.
fn planes(values: &[u32], out: &mut Vec<u8>) {
    (0..4).for_each(|byte| out.extend(values.iter().map(|value| value.to_le_bytes()[byte])));
}

fn read_planes(bytes: &mut &[u8], count: usize) -> Result<Vec<u32>, String> {
    let planes = count.checked_mul(4).and_then(|size| bytes.split_at_checked(size));
    let (planes, rest) =
        planes.ok_or_else(|| format!("{count} numbers do not fit its {} bytes", bytes.len()))?;
    *bytes = rest;
    let value =
        |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| planes[byte * count + index]));
    Ok((0..count).map(value).collect())
}

/// Small numbers of either sign as small numbers.
fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or("it ends too early")?;
    *bytes = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(feature: usize, threshold: f64, left: usize, right: usize) -> TreeNode {
        TreeNode::Split { feature, rule: Rule::AtMost(threshold, Missing::Never), left, right }
    }

    fn stump() -> Trees {
        let nodes = vec![
            split(1, 3.0, 2, 1),
            TreeNode::Leaf(2.0),
            split(0, 1.0, 3, 4),
            TreeNode::Leaf(-1.0),
            TreeNode::Leaf(1.0),
        ];
        Trees::new(&[nodes], 2, 0.5).expect("a tree")
    }

    #[test]
    fn follows_the_branches() {
        for (x, sum) in [([0.0, 9.0], 2.0), ([1.0, 3.0], -1.0), ([1.5, 3.0], 1.0)] {
            assert!((stump().log_ratio(&x) - 0.5 * sum).abs() < 1e-15);
        }
    }

    #[cfg(feature = "train")]
    #[test]
    fn impurity_decreases_by_hand() {
        // Four rows with targets 0, 0, 2, 6 (as logarithms): splitting feature 1 at 3 separates {0,
        // 0, 2} from {6}, feature 0 at 1 then {0, 0} from {2}.
        let nodes = vec![
            split(1, 3.0, 1, 2),
            split(0, 1.0, 3, 4),
            TreeNode::Leaf(6.0),
            TreeNode::Leaf(0.0),
            TreeNode::Leaf(2.0),
        ];
        let trees = Trees::new(&[nodes], 2, 1.0).expect("a tree");
        let targets = [0.0f64, 0.0, 2.0, 6.0].map(f64::exp);
        let x = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 0.0, 9.0];
        let data = FitData {
            columns: 2,
            x: &x,
            y_ns: &targets,
            baseline_ns: &[1.0; 4],
            weights: &[1.0; 4],
            groups: &[0; 4],
        };
        let decrease = trees.impurity_decrease(&data);
        // Squared errors about the mean: 24 at the root; 8/3 and 0 below it; 0 and 0 below that.
        assert!(
            (decrease[1] - (24.0 - 8.0 / 3.0)).abs() < 1e-9
                && (decrease[0] - 8.0 / 3.0).abs() < 1e-9,
            "{decrease:?}"
        );
    }

    #[test]
    fn bytes_round_trip_and_every_changed_byte_is_refused_or_harmless() {
        let mut bytes = Vec::new();
        stump().encode(&mut bytes);
        assert_eq!(Trees::decode(&mut &bytes[..], 2).as_ref(), Ok(&stump()));
        assert!(Trees::decode(&mut &bytes[..], 1).is_err(), "feature 1 of 1 column");
        for i in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[i] ^= 1 << bit;
                if let Ok(trees) = Trees::decode(&mut &broken[..], 2) {
                    let _ = trees.predict(&[0.5, 0.5], 1.0);
                }
            }
            assert!(Trees::decode(&mut &bytes[..i], 2).is_err());
        }
    }

    /// One tree, from feature (or none for a leaf) and right child of each node.
    fn joined(nodes: &[(Option<u16>, u32)]) -> Result<Trees, String> {
        let node = |&(feature, right): &(Option<u16>, u32)| Node {
            feature: feature.unwrap_or(LEAF),
            right,
            value: 1.0,
        };
        Trees::checked(nodes.iter().map(node).collect(), vec![0], 2, 1.0)
    }

    #[test]
    fn nodes_that_are_no_tree_are_refused() {
        let leaf = (None, 0);
        assert!(
            joined(&[(Some(1), 2), leaf, leaf])
                .is_ok_and(|trees| trees.log_ratio(&[0.0, 0.0]) == 1.0)
        );
        let split = |right| (Some(0), right);
        for nodes in [
            &[split(2), leaf][..],
            &[split(1), leaf, leaf],
            &[split(3), leaf, leaf],
            &[split(2), leaf, leaf, leaf],
            &[split(2), leaf],
            &[split(4), split(4), leaf, leaf, leaf],
            &[split(3), split(3), leaf, leaf, leaf],
            &[(Some(2), 2), leaf, leaf],
            &[split(u32::MAX), leaf, leaf],
            &[],
        ] {
            assert!(joined(nodes).is_err(), "{nodes:?}");
        }
    }

    #[test]
    fn several_trees_round_trip_with_their_children() {
        let leaf = TreeNode::Leaf(0.25);
        let deep = vec![
            split(0, -1.5, 1, 2),
            split(1, 1e300, 3, 4),
            leaf.clone(),
            TreeNode::Leaf(-99.5),
            leaf.clone(),
        ];
        let trees = Trees::new(&[vec![leaf.clone()], deep, vec![leaf]], 3, 0.1).expect("trees");
        let mut bytes = Vec::new();
        trees.encode(&mut bytes);
        assert_eq!(Trees::decode(&mut &bytes[..], 3), Ok(trees));
        assert!([i32::MIN, -1, 0, 1, i32::MAX].iter().all(|v| unzigzag(zigzag(*v)) == *v));
    }

    #[test]
    fn leaves_too_large_to_keep_are_refused() {
        for value in [f64::NAN, f64::INFINITY, -101.0] {
            assert!(Trees::new(&[vec![TreeNode::Leaf(value)]], 1, 1.0).is_err(), "{value}");
        }
    }

    #[test]
    fn a_cycle_is_refused() {
        assert!(Trees::new(&[vec![split(0, 0.0, 0, 0); 10]], 1, 1.0).is_err());
        assert!(Trees::new(&[vec![]], 1, 1.0).is_err());
    }
}

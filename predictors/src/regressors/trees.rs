//! [`Trees`]: an ensemble of regression trees, whoever grew it: plain nodes as a bundle keeps them, and compiled to be evaluated.
//!
//! Nodes lie in preorder, so the left child is always the next node and the right child's index is larger than its parent's.
//! A row goes left when its feature is at most the threshold. Output: latency in ns = baseline x exp(scale x sum of leaf values).

use super::FitData;
use crate::forest::{CompiledForest, ForestError, MOST_NODES, Missing, Resolved, Rule, TreeNode};
use std::sync::OnceLock;

const LEAF: u16 = u16::MAX;
const NODE_BYTES: usize = 14;
/// Factor by which trees may move a forecast away from its baseline, as a logarithm.
const LARGEST_LOG_RATIO: f64 = 5.0;

/// One node: a split (`feature` at most `value` goes to the next node, else to `right`) or a leaf with `value`.
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
    pub(super) fn new(trees: &[Vec<TreeNode>], columns: usize, scale: f64) -> Result<Self, String> {
        let (mut nodes, mut roots) = (Vec::new(), Vec::new());
        for tree in trees {
            roots.push(u32::try_from(nodes.len()).map_err(|e| e.to_string())?);
            flatten(tree, &mut nodes)?;
        }
        Self::checked(nodes, roots, columns, scale)
    }

    fn checked(nodes: Vec<Node>, roots: Vec<u32>, columns: usize, scale: f64) -> Result<Self, String> {
        let trees = Self { nodes, roots, scale, columns, compiled: OnceLock::new() };
        if !scale.is_finite() {
            return Err(format!("its trees are scaled by {scale}"));
        }
        if trees.nodes.len() > MOST_NODES {
            return Err(ForestError::TooLarge.to_string());
        }
        trees.each().try_for_each(|(root, nodes)| check(nodes.ok_or(ForestError::NotATree)?, root, columns)).map_err(|e| e.to_string())?;
        Ok(trees)
    }

    /// Every tree's root and nodes.
    fn each(&self) -> impl Iterator<Item = (usize, Option<&[Node]>)> {
        let ends = self.roots.iter().skip(1).map(|r| *r as usize).chain([self.nodes.len()]);
        self.roots.iter().zip(ends).map(|(root, end)| (*root as usize, self.nodes.get(*root as usize..end)))
    }

    /// Compiled on first use: a forecast of one model needs few of a bundle's forests.
    fn compiled(&self) -> &CompiledForest {
        self.compiled.get_or_init(|| {
            let resolved = |(root, nodes): (usize, Option<&[Node]>)| nodes.unwrap_or_default().iter().map(|node| node.resolved(root)).collect();
            Box::new(CompiledForest::from_preorder(self.each().map(resolved).collect(), self.columns, self.scale))
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

    /// Latencies in ns of rows that lie one after the other, given their baseline latencies; exactly those of [`Trees::predict`].
    ///
    /// # Errors
    /// [`ForestError::Shape`] unless there are as many rows as baselines.
    pub fn predict_batch(&self, x: &[f64], baseline_ns: &[f64]) -> Result<Vec<f64>, ForestError> {
        let mut out = vec![0.0; baseline_ns.len()];
        self.compiled().predict_batch(x, &mut out)?;
        out.iter_mut().zip(baseline_ns).for_each(|(out, baseline)| *out = latency(*baseline, *out));
        Ok(out)
    }

    /// Of boosted trees, by column: how much its splits lower the weighted squared error of what the trees before each have left of the targets.
    pub(crate) fn impurity_decrease(&self, data: &FitData<'_>) -> Vec<f64> {
        let mut rest = data.log_ratios();
        let mut sums = vec![(0.0, 0.0); self.nodes.len()];
        for &root in &self.roots {
            for ((x, rest), weight) in data.x.chunks_exact(data.columns.max(1)).zip(&mut rest).zip(data.weights) {
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
        let explained = |index: usize| sums.get(index).map_or(0.0, |(weight, sum)| if *weight > 0.0 { sum * sum / weight } else { 0.0 });
        let mut decrease = vec![0.0; data.columns];
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(column) = decrease.get_mut(usize::from(node.feature)) {
                *column += (explained(index + 1) + explained(node.right as usize) - explained(index)).max(0.0);
            }
        }
        decrease
    }

    /// Bytes: scale, number of trees, number of nodes, roots, nodes; little endian.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.scale.to_le_bytes());
        out.extend_from_slice(&(self.roots.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.nodes.len() as u32).to_le_bytes());
        self.roots.iter().for_each(|r| out.extend_from_slice(&r.to_le_bytes()));
        for node in &self.nodes {
            out.extend_from_slice(&node.feature.to_le_bytes());
            out.extend_from_slice(&node.right.to_le_bytes());
            out.extend_from_slice(&node.value.to_le_bytes());
        }
    }

    /// Reads what [`Trees::encode`] wrote from the front of `bytes` and checks every index against `columns` and the nodes.
    pub(crate) fn decode(bytes: &mut &[u8], columns: usize) -> Result<Self, String> {
        let scale = f64::from_le_bytes(take(bytes)?);
        let trees = u32::from_le_bytes(take(bytes)?) as usize;
        let count = u32::from_le_bytes(take(bytes)?) as usize;
        let needed = trees.checked_mul(4).and_then(|t| count.checked_mul(NODE_BYTES).and_then(|n| n.checked_add(t)));
        if needed.is_none_or(|n| n > bytes.len()) {
            return Err(format!("{trees} trees of {count} nodes do not fit its {} bytes", bytes.len()));
        }
        let roots = (0..trees).map(|_| take(bytes).map(u32::from_le_bytes)).collect::<Result<Vec<_>, _>>()?;
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            nodes.push(Node { feature: u16::from_le_bytes(take(bytes)?), right: u32::from_le_bytes(take(bytes)?), value: f64::from_le_bytes(take(bytes)?) });
        }
        Self::checked(nodes, roots, columns, scale)
    }
}

impl Node {
    /// As the compiler reads it, in a tree that begins at node `root`.
    fn resolved(&self, root: usize) -> Resolved {
        match self.feature {
            LEAF => Resolved { value: self.value, column: None, right: 0 },
            feature => Resolved { value: self.value, column: Some(feature.into()), right: (self.right as usize).saturating_sub(root) },
        }
    }
}

/// Whether `nodes`, of which the first is node `root`, are one tree in preorder over `columns` features.
fn check(nodes: &[Node], root: usize, columns: usize) -> Result<(), ForestError> {
    let end = root + nodes.len();
    // Right children yet to come, the next one last.
    let mut waiting = Vec::new();
    for (here, node) in (root..).zip(nodes) {
        if !node.value.is_finite() {
            return Err(ForestError::Leaf(node.value));
        }
        if node.feature != LEAF {
            if usize::from(node.feature) >= columns {
                return Err(ForestError::Feature { feature: node.feature.into(), features: columns });
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
            TreeNode::Leaf(value) => nodes.push(Node { feature: LEAF, right: 0, value: *value }),
            TreeNode::Split { feature, rule: Rule::AtMost(threshold, Missing::Never | Missing::Nan { left: false }), left, right } => {
                let feature = u16::try_from(*feature).ok().filter(|f| *f != LEAF).ok_or("too many features")?;
                nodes.push(Node { feature, right: 0, value: *threshold });
                waiting.extend([(*right, Some(here)), (*left, None)]);
            }
            TreeNode::Split { .. } => return Err("it has a split that is categorical or expects missing values".to_owned()),
        }
    }
    Ok(())
}

/// Trees move a forecast away from its baseline only so far.
fn latency(baseline_ns: f64, log_ratio: f64) -> f64 {
    baseline_ns * log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
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
        let nodes = vec![split(1, 3.0, 2, 1), TreeNode::Leaf(2.0), split(0, 1.0, 3, 4), TreeNode::Leaf(-1.0), TreeNode::Leaf(1.0)];
        Trees::new(&[nodes], 2, 0.5).expect("a tree")
    }

    #[test]
    fn follows_the_branches() {
        for (x, sum) in [([0.0, 9.0], 2.0), ([1.0, 3.0], -1.0), ([1.5, 3.0], 1.0)] {
            assert!((stump().log_ratio(&x) - 0.5 * sum).abs() < 1e-15);
        }
    }

    #[test]
    fn impurity_decreases_by_hand() {
        // Four rows with targets 0, 0, 2, 6 (as logarithms): splitting feature 1 at 3 separates {0, 0, 2} from {6}, feature 0 at 1 then {0, 0} from {2}.
        let nodes = vec![split(1, 3.0, 1, 2), split(0, 1.0, 3, 4), TreeNode::Leaf(6.0), TreeNode::Leaf(0.0), TreeNode::Leaf(2.0)];
        let trees = Trees::new(&[nodes], 2, 1.0).expect("a tree");
        let targets = [0.0f64, 0.0, 2.0, 6.0].map(f64::exp);
        let x = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 0.0, 9.0];
        let data = FitData { columns: 2, x: &x, y_ns: &targets, baseline_ns: &[1.0; 4], weights: &[1.0; 4], groups: &[0; 4] };
        let decrease = trees.impurity_decrease(&data);
        // Squared errors about the mean: 24 at the root; 8/3 and 0 below it; 0 and 0 below that.
        assert!((decrease[1] - (24.0 - 8.0 / 3.0)).abs() < 1e-9 && (decrease[0] - 8.0 / 3.0).abs() < 1e-9, "{decrease:?}");
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

    /// Bytes of one tree, from feature (or none for a leaf) and right child of each node.
    fn decoded(nodes: &[(Option<u16>, u32)]) -> Result<Trees, String> {
        let node = |&(feature, right): &(Option<u16>, u32)| Node { feature: feature.unwrap_or(LEAF), right, value: 1.0 };
        let trees = Trees { nodes: nodes.iter().map(node).collect(), roots: vec![0], scale: 1.0, columns: 2, compiled: OnceLock::new() };
        let mut bytes = Vec::new();
        trees.encode(&mut bytes);
        Trees::decode(&mut &bytes[..], 2)
    }

    #[test]
    fn nodes_that_are_no_tree_are_refused() {
        let leaf = (None, 0);
        assert!(decoded(&[(Some(1), 2), leaf, leaf]).is_ok_and(|trees| trees.log_ratio(&[0.0, 0.0]) == 1.0));
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
            assert!(decoded(nodes).is_err(), "{nodes:?}");
        }
    }

    #[test]
    fn a_cycle_is_refused() {
        assert!(Trees::new(&[vec![split(0, 0.0, 0, 0); 10]], 1, 1.0).is_err());
        assert!(Trees::new(&[vec![]], 1, 1.0).is_err());
    }
}

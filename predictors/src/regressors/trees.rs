//! [`Trees`]: an ensemble of regression trees, whoever grew it: plain nodes as a bundle keeps them, and compiled to be evaluated.
//!
//! Nodes lie in preorder, so the left child is always the next node and the right child's index is larger than its parent's.
//! A row goes left when its feature is at most the threshold. Output: latency in ns = baseline x exp(scale x sum of leaf values).

use crate::forest::{CompiledForest, ForestError, Missing, Rule, TreeNode};

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
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    scale: f64,
    compiled: Box<CompiledForest>,
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
        Self::compile(nodes, roots, columns, scale)
    }

    fn compile(nodes: Vec<Node>, roots: Vec<u32>, columns: usize, scale: f64) -> Result<Self, String> {
        let ends = roots.iter().skip(1).map(|r| *r as usize).chain([nodes.len()]);
        let tree = |(root, end): (&u32, usize)| {
            let root = *root as usize;
            let nodes = nodes.get(root..end).ok_or(ForestError::NotATree)?;
            nodes.iter().enumerate().map(|(i, node)| node.described(i, root)).collect::<Result<Vec<_>, _>>()
        };
        let trees = roots.iter().zip(ends).map(tree).collect::<Result<Vec<_>, _>>();
        let compiled = trees.and_then(|trees| CompiledForest::new(&trees, columns, scale)).map_err(|e| e.to_string())?;
        Ok(Self { nodes, roots, scale, compiled: Box::new(compiled) })
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
        self.compiled.predict(x)
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
        self.compiled.predict_batch(x, &mut out)?;
        out.iter_mut().zip(baseline_ns).for_each(|(out, baseline)| *out = latency(*baseline, *out));
        Ok(out)
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
        if !scale.is_finite() {
            return Err(format!("its trees are scaled by {scale}"));
        }
        Self::compile(nodes, roots, columns, scale)
    }
}

impl Node {
    /// As the compiler reads it; `self` is node `index` of the tree that begins at node `root`.
    fn described(&self, index: usize, root: usize) -> Result<TreeNode, ForestError> {
        if self.feature == LEAF {
            return Ok(TreeNode::Leaf(self.value));
        }
        let right = (self.right as usize).checked_sub(root).filter(|right| *right > index + 1).ok_or(ForestError::NotATree)?;
        Ok(TreeNode::Split { feature: usize::from(self.feature), rule: Rule::AtMost(self.value, Missing::Never), left: index + 1, right })
    }
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

    #[test]
    fn a_cycle_is_refused() {
        assert!(Trees::new(&[vec![split(0, 0.0, 0, 0); 10]], 1, 1.0).is_err());
        assert!(Trees::new(&[vec![]], 1, 1.0).is_err());
    }
}

//! [`Nodes`]: trees in preorder, so that the left child is the next node and the right child's
//! index is larger than its parent's. A row goes left when its feature is at most the threshold.

use crate::forest::{ForestError, MOST_NODES, Missing, Resolved, Rule, TreeNode};

/// The feature of a leaf.
pub(super) const LEAF: u16 = u16::MAX;
/// Leaves are whole multiples of one over this: as fine as the sum of hundreds of them needs, and
/// short in a file.
pub(super) const QUANTA: f64 = (1 << 24) as f64;
/// No leaf is larger.
pub(super) const LARGEST_LEAF: f64 = 100.0;

/// One node: a split (`feature` at most `value` goes to the next node, else to `right`) or a leaf
/// with `value`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Node {
    pub feature: u16,
    pub right: u32,
    pub value: f64,
}

/// Trees one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nodes {
    pub nodes: Vec<Node>,
    pub roots: Vec<u32>,
}

impl Nodes {
    /// Trees with numerical splits whose features are never missing.
    pub fn flat(trees: &[Vec<TreeNode>]) -> Result<Self, String> {
        let mut flat = Self::default();
        for tree in trees {
            flat.roots.push(u32::try_from(flat.nodes.len()).map_err(|e| e.to_string())?);
            flatten(tree, &mut flat.nodes)?;
        }
        Ok(flat)
    }

    /// Trees in preorder, whose right children and roots are found.
    pub fn joined(mut nodes: Vec<Node>) -> Self {
        let roots = join(&mut nodes);
        Self { nodes, roots }
    }

    /// Checks that they are trees over `columns` features.
    pub fn check(&self, columns: usize) -> Result<(), ForestError> {
        if self.nodes.len() > MOST_NODES {
            return Err(ForestError::TooLarge);
        }
        self.each()
            .try_for_each(|(root, nodes)| check(nodes.ok_or(ForestError::NotATree)?, root, columns))
    }

    /// Every tree's root and nodes.
    fn each(&self) -> impl Iterator<Item = (usize, Option<&[Node]>)> {
        let ends = self.roots.iter().skip(1).map(|r| *r as usize).chain([self.nodes.len()]);
        self.roots
            .iter()
            .zip(ends)
            .map(|(root, end)| (*root as usize, self.nodes.get(*root as usize..end)))
    }

    /// As the compiler of forests reads them.
    pub fn resolved(&self) -> Vec<Vec<Resolved>> {
        let resolved = |(root, nodes): (usize, Option<&[Node]>)| {
            nodes.unwrap_or_default().iter().map(|node| node.resolved(root)).collect()
        };
        self.each().map(resolved).collect()
    }

    /// Sum of one leaf per tree, in the order of the trees; `x` has no NaN.
    pub fn sum(&self, x: &[f64]) -> f64 {
        self.roots.iter().fold(0.0, |sum, root| sum + self.leaf(*root, x))
    }

    fn leaf(&self, root: u32, x: &[f64]) -> f64 {
        let mut index = root as usize;
        while let Some(node) = self.nodes.get(index) {
            if node.feature == LEAF {
                return node.value;
            }
            let value = x.get(usize::from(node.feature)).copied().unwrap_or(0.0);
            index = if value > node.value { node.right as usize } else { index + 1 };
        }
        0.0
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
    /// A leaf with this value, rounded.
    pub fn leaf(value: f64) -> Self {
        Self { feature: LEAF, right: 0, value: (value * QUANTA).round() / QUANTA }
    }

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
            TreeNode::Leaf(value) => nodes.push(Node::leaf(*value)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One tree, from feature (or none for a leaf) and right child of each node.
    fn joined(nodes: &[(Option<u16>, u32)]) -> Result<Nodes, ForestError> {
        let node = |&(feature, right): &(Option<u16>, u32)| Node {
            feature: feature.unwrap_or(LEAF),
            right,
            value: 1.0,
        };
        let nodes = Nodes { nodes: nodes.iter().map(node).collect(), roots: vec![0] };
        nodes.check(2).map(|()| nodes)
    }

    #[test]
    fn nodes_that_are_no_tree_are_refused() {
        let leaf = (None, 0);
        assert!(
            joined(&[(Some(1), 2), leaf, leaf]).is_ok_and(|trees| trees.sum(&[0.0, 0.0]) == 1.0)
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
}

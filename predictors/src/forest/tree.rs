//! Trees as training libraries describe them, from which a
//! [`CompiledForest`](super::CompiledForest) is made, and the form that the layouts take.

use super::ForestError;

/// Values this close to zero are zero (LightGBM's `kZeroThreshold`).
pub(super) const NEARLY_ZERO: f64 = 1e-35_f32 as f64;

/// A node; children are indices into their tree, whose root is node 0.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeNode {
    /// The value that the tree adds to the sum; finite.
    Leaf(f64),
    /// A decision about one feature.
    Split {
        /// Column of the row.
        feature: usize,
        /// Which rows go left.
        rule: Rule,
        /// Child of the rows that fulfil the rule.
        left: usize,
        /// Child of the others.
        right: usize,
    },
}

/// Which values of a feature go left.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Values up to and including a threshold, which may be infinite; missing ones as [`Missing`]
    /// says.
    AtMost(f64, Missing),
    /// Whole numbers whose bit is set, bit `i % 32` of word `i / 32`; NaN, negative and absent
    /// numbers go right.
    OneOf(Box<[u32]>),
}

/// How a split handles NaN and zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Missing {
    /// NaN counts as 0.
    Never,
    /// Zero and NaN are missing and go left or not.
    Zero {
        /// Whether missing values go left.
        left: bool,
    },
    /// NaN is missing and goes left or not.
    Nan {
        /// Whether missing values go left.
        left: bool,
    },
}

/// A node of a checked tree in preorder: a row goes right where `column` is more than `value`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Threshold, or value of a leaf.
    pub value: f64,
    /// `None` for a leaf.
    pub column: Option<usize>,
    /// Place of the right child; the left one is the next node.
    pub right: usize,
}

/// Indices of the nodes of a tree in preorder; checked to be a tree over `features` columns with
/// numbers that can be added and compared.
pub(super) fn preorder(tree: &[TreeNode], features: usize) -> Result<Vec<usize>, ForestError> {
    let mut order = Vec::with_capacity(tree.len());
    let mut seen = vec![false; tree.len()];
    let mut waiting = vec![0];
    while let Some(index) = waiting.pop() {
        if seen.get_mut(index).is_none_or(|seen| std::mem::replace(seen, true)) {
            return Err(ForestError::NotATree);
        }
        order.push(index);
        match tree.get(index).ok_or(ForestError::NotATree)? {
            TreeNode::Leaf(value) if !value.is_finite() => return Err(ForestError::Leaf(*value)),
            TreeNode::Split { rule: Rule::AtMost(threshold, _), .. }
                if threshold.is_nan() || *threshold == f64::MAX =>
            {
                return Err(ForestError::Threshold(*threshold));
            }
            TreeNode::Split { feature, .. } if *feature >= features => {
                return Err(ForestError::Feature { feature: *feature, features });
            }
            TreeNode::Split { left, right, .. } => waiting.extend([*right, *left]),
            TreeNode::Leaf(_) => {}
        }
    }
    Ok(order)
}

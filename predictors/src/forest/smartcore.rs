//! smartcore's random forest regressor as trees.
//!
//! Its trees are private, so they are read through serde. The rule is `feature <= split_value` goes
//! to `true_child`, so NaN goes right.

use super::{ForestError, Missing, Rule, TreeNode};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Exported {
    forest_regressor: ExportedForest,
}

#[derive(Deserialize)]
struct ExportedForest {
    trees: Vec<ExportedTree>,
}

#[derive(Deserialize)]
struct ExportedTree {
    nodes: Vec<ExportedNode>,
}

#[derive(Deserialize)]
struct ExportedNode {
    output: f64,
    split_feature: usize,
    split_value: Option<f64>,
    true_child: Option<usize>,
    false_child: Option<usize>,
}

impl From<ExportedNode> for TreeNode {
    fn from(node: ExportedNode) -> Self {
        match (node.split_value, node.true_child, node.false_child) {
            (Some(threshold), Some(left), Some(right)) => Self::Split {
                feature: node.split_feature,
                rule: Rule::AtMost(threshold, Missing::Nan { left: false }),
                left,
                right,
            },
            _ => Self::Leaf(node.output),
        }
    }
}

/// The trees of a forest.
pub(crate) fn trees(forest: &impl Serialize) -> Result<Vec<Vec<TreeNode>>, ForestError> {
    let unreadable = |e: serde_json::Error| ForestError::Smartcore(e.to_string());
    let json = serde_json::to_vec(forest).map_err(unreadable)?;
    let exported: Exported = serde_json::from_slice(&json).map_err(unreadable)?;
    let tree = |tree: ExportedTree| tree.nodes.into_iter().map(TreeNode::from).collect();
    Ok(exported.forest_regressor.trees.into_iter().map(tree).collect())
}

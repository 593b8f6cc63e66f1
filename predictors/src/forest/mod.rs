//! [`CompiledForest`]: fast evaluation of boosted trees and random forests, with the same sums as
//! the library that trained them.
//!
//! In: rows of f64 features. Out: the scaled sum of one leaf value per tree, added in f64 in the
//! order of the trees: the same bits on every processor, in a batch or alone. The layout that is
//! evaluated depends on the size of the trees and on the number of rows:
//!
//! | trees | many rows | one row |
//! |---|---|---|
//! | up to 32 leaves | `row_mask` | `leaf_mask` |
//! | up to 128 leaves | `row_mask` | `walk` |
//! | larger | `walk` | `walk` |
//!
//! All of them compare the columns that [`column`] computes from features; missing values and
//! categories are encoded there.

mod column;
mod instructions;
mod leaf_mask;
mod leaves;
mod lightgbm;
mod row_mask;
mod smartcore;
mod thresholds;
mod tree;
mod walk;

pub use instructions::Instructions;
pub use tree::{Missing, Rule, TreeNode};

pub(crate) use column::ordinary;
#[cfg(feature = "train")]
pub(crate) use lightgbm::trees as lightgbm_trees;
#[cfg(feature = "train")]
pub(crate) use smartcore::trees as smartcore_trees;
pub(crate) use tree::Resolved;

use column::Columns;
use leaf_mask::LeafMasks;
use row_mask::{RowMasks, Rows};
use serde::Serialize;
use walk::Walk;

/// Most nodes of a forest: they are numbered in 32 bits.
pub(crate) const MOST_NODES: usize = 1 << 30;

/// Why trees cannot be compiled or evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ForestError {
    /// Nodes and children do not form a tree.
    #[error("a tree has a node that is missing or has two parents")]
    NotATree,
    /// A leaf is not finite.
    #[error("the value of a leaf is {0}; it must be finite")]
    Leaf(f64),
    /// A threshold is out of range.
    #[error("a tree has the threshold {0}; it must be a number below the largest f64")]
    Threshold(f64),
    /// A node compares a feature that rows do not have.
    #[error("a tree reads feature {feature}, but rows have {features} features")]
    Feature {
        /// Index of the feature.
        feature: usize,
        /// Number of features of a row.
        features: usize,
    },
    /// There are more nodes than indices.
    #[error("the forest has too many nodes to number")]
    TooLarge,
    /// A matrix has another number of values than its shape.
    #[error("{values} values are not {rows} rows of {features} features")]
    Shape {
        /// Number of values.
        values: usize,
        /// Number of rows.
        rows: usize,
        /// Number of features of a row.
        features: usize,
    },
    /// A LightGBM model has a feature that is not supported.
    #[error("the LightGBM model cannot be compiled: {0}")]
    LightGbm(String),
    /// A smartcore forest is invalid.
    #[error("the smartcore forest cannot be read: {0}")]
    Smartcore(String),
}

/// Trees in the layouts that evaluate them fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledForest {
    features: usize,
    trees: usize,
    scale: f64,
    columns: Columns,
    row_masks: Option<RowMasks>,
    leaf_masks: Option<LeafMasks>,
    /// Only without leaf masks.
    walk: Option<Walk>,
    instructions: Instructions,
}

impl CompiledForest {
    /// Compiles trees whose sum is multiplied by `scale`; rows have `features` features.
    ///
    /// # Errors
    /// [`ForestError`] when one is not a tree, reads a feature that rows do not have, or has a leaf
    /// or threshold that is not a valid number.
    pub fn new(trees: &[Vec<TreeNode>], features: usize, scale: f64) -> Result<Self, ForestError> {
        if trees.iter().map(Vec::len).sum::<usize>() > MOST_NODES {
            return Err(ForestError::TooLarge);
        }
        let mut columns = Columns::default();
        let resolved = trees
            .iter()
            .map(|tree| columns.resolve(tree, features))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::compile(&resolved, columns, features, scale))
    }

    /// Compiles trees in preorder that were checked, at most [`MOST_NODES`] nodes in all; a column
    /// is a feature that is never missing.
    pub(crate) fn from_preorder(
        mut trees: Vec<Vec<Resolved>>,
        features: usize,
        scale: f64,
    ) -> Self {
        let columns = Columns::plain(&mut trees, features);
        Self::compile(&trees, columns, features, scale)
    }

    fn compile(trees: &[Vec<Resolved>], columns: Columns, features: usize, scale: f64) -> Self {
        let row_masks = RowMasks::new(trees, columns.as_slice().len());
        let leaf_masks =
            row_masks.as_ref().and_then(|row_masks| LeafMasks::new(trees, row_masks.thresholds()));
        let walk = if leaf_masks.is_none() { Some(Walk::new(trees)) } else { None };
        Self {
            features,
            trees: trees.len(),
            scale,
            columns,
            row_masks,
            leaf_masks,
            walk,
            instructions: Instructions::best(),
        }
    }

    /// Compiles LightGBM's model text. One output that is the sum of the trees or their mean:
    /// regression on the identity, quantiles, custom objectives.
    ///
    /// # Errors
    /// [`ForestError::LightGbm`] for classes, transformed outputs, linear trees and damaged text.
    pub fn from_lightgbm(text: &str) -> Result<Self, ForestError> {
        let model = lightgbm::read(text)?;
        let scale = if model.mean { 1.0 / model.trees.len().max(1) as f64 } else { 1.0 };
        Self::new(&model.trees, model.features, scale)
    }

    /// Compiles smartcore's random forest regressor, for rows of `features` features; the forecast
    /// is the mean of the trees.
    ///
    /// # Errors
    /// [`ForestError::Smartcore`] when it is not one.
    pub fn from_smartcore(forest: &impl Serialize, features: usize) -> Result<Self, ForestError> {
        let trees = smartcore::trees(forest)?;
        Self::new(&trees, features, 1.0 / trees.len().max(1) as f64)
    }

    /// The same forest, evaluated with other instructions; with the best there are if this
    /// processor lacks them.
    #[must_use]
    pub fn with_instructions(mut self, instructions: Instructions) -> Self {
        self.instructions = if Instructions::available().contains(&instructions) {
            instructions
        } else {
            Instructions::best()
        };
        self
    }

    /// Features per row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of trees.
    #[must_use]
    pub fn len(&self) -> usize {
        self.trees
    }

    /// Whether there is no tree.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trees == 0
    }

    /// The scaled sum of the trees for one row; features that it lacks are 0.
    #[must_use]
    pub fn predict(&self, row: &[f64]) -> f64 {
        let columns = self.columns.as_slice();
        let sum = match (&self.leaf_masks, &self.row_masks, &self.walk) {
            (Some(leaf_masks), Some(row_masks), _) => {
                leaf_masks.one(self.instructions, row_masks.thresholds(), columns, row)
            }
            (_, _, Some(walk)) => walk.one(columns, row),
            _ => 0.0,
        };
        self.scale * sum
    }

    /// The scaled sums of the trees for rows that lie one after the other.
    ///
    /// # Errors
    /// [`ForestError::Shape`] unless `rows` holds as many rows as `out` has places.
    pub fn predict_batch(&self, rows: &[f64], out: &mut [f64]) -> Result<(), ForestError> {
        if out.len().checked_mul(self.features) != Some(rows.len()) {
            return Err(ForestError::Shape {
                values: rows.len(),
                rows: out.len(),
                features: self.features,
            });
        }
        if self.features == 0 {
            out.fill(self.predict(&[]));
            return Ok(());
        }
        let columns = self.columns.as_slice();
        match (&self.row_masks, &self.walk) {
            (Some(row_masks), _) => {
                let alone =
                    if self.leaf_masks.is_some() { RowMasks::better_alone(out.len()) } else { 0 };
                let (many, few) = out.split_at_mut(out.len() - alone);
                let (many_rows, few_rows) = rows.split_at(many.len() * self.features);
                row_masks.many(
                    self.instructions,
                    Rows { columns, rows: many_rows, width: self.features, sums: many },
                );
                many.iter_mut().for_each(|sum| *sum *= self.scale);
                few.iter_mut()
                    .zip(few_rows.chunks_exact(self.features))
                    .for_each(|(out, row)| *out = self.predict(row));
            }
            (None, Some(walk)) => {
                walk.many(columns, rows, self.features, out);
                out.iter_mut().for_each(|sum| *sum *= self.scale);
            }
            (None, None) => {}
        }
        Ok(())
    }
}

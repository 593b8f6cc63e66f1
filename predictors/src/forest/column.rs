//! [`Columns`]: features as numbers that every split compares with a threshold.
//!
//! Missing values and categories are encoded here, once per row, so that evaluating a tree needs
//! one comparison per node: a missing value becomes minus infinity where it goes left and infinity
//! where it goes right, a category 0 (left) or 1 (right).

use super::{
    ForestError, Missing, Rule, TreeNode,
    tree::{NEARLY_ZERO, Resolved, preorder},
};
use std::collections::HashMap;

/// How a column is made from its feature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum View {
    Ordered(Missing),
    Category(Box<[u32]>),
}

/// A feature as one kind of splits reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Column {
    feature: usize,
    view: View,
}

impl Column {
    /// The number that splits compare; never NaN. A feature that the row lacks is 0.
    pub fn value(&self, row: &[f64]) -> f64 {
        self.view.of(row.get(self.feature).copied().unwrap_or(0.0))
    }

    /// The column of rows of `width` features.
    pub fn fill(&self, rows: &[f64], width: usize, values: &mut [f64]) {
        let feature = rows.get(self.feature..).unwrap_or_default().iter().step_by(width);
        match &self.view {
            View::Ordered(Missing::Never) => {
                values.iter_mut().zip(feature).for_each(|(value, x)| *value = ordinary(*x));
            }
            view => values.iter_mut().zip(feature).for_each(|(value, x)| *value = view.of(*x)),
        }
    }
}

impl View {
    fn of(&self, x: f64) -> f64 {
        match self {
            Self::Ordered(Missing::Zero { left }) if ordinary(x) == 0.0 => missing(*left),
            Self::Ordered(Missing::Nan { left }) if x.is_nan() => missing(*left),
            Self::Ordered(_) => ordinary(x),
            Self::Category(members) => f64::from(u8::from(!contains(members, x))),
        }
    }
}

/// A value that is not missing: finite upwards, and 0 if it is NaN or as near to 0 as LightGBM's
/// predictor does not distinguish.
pub(crate) fn ordinary(x: f64) -> f64 {
    if x.abs() > NEARLY_ZERO { x.min(f64::MAX) } else { 0.0 }
}

fn missing(left: bool) -> f64 {
    if left { f64::NEG_INFINITY } else { f64::INFINITY }
}

fn contains(members: &[u32], x: f64) -> bool {
    // Towards zero, as LightGBM converts; a value outside the range of i32 is in no set.
    let category = usize::try_from(x as i32).ok().filter(|_| !x.is_nan());
    category
        .and_then(|c| members.get(c / 32).map(|word| word >> (c % 32) & 1 == 1))
        .unwrap_or(false)
}

/// The distinct columns of a forest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    all: Vec<Column>,
    places: HashMap<Column, usize>,
}

impl Columns {
    /// Makes a column for each feature of `trees`; afterwards the trees refer to columns.
    pub fn plain(trees: &mut [Vec<Resolved>], features: usize) -> Self {
        let mut columns = Self::default();
        let mut places = vec![None; features];
        for column in trees.iter_mut().flatten().filter_map(|node| node.column.as_mut()) {
            let feature = *column;
            *column = *places[feature].get_or_insert_with(|| {
                columns.all.push(Column { feature, view: View::Ordered(Missing::Never) });
                columns.all.len() - 1
            });
        }
        columns
    }

    /// `tree` in preorder, asking for columns.
    pub fn resolve(
        &mut self,
        tree: &[TreeNode],
        features: usize,
    ) -> Result<Vec<Resolved>, ForestError> {
        let order = preorder(tree, features)?;
        let mut places = vec![0; tree.len()];
        order.iter().enumerate().for_each(|(place, &index)| places[index] = place);
        let node = |&index: &usize| match &tree[index] {
            TreeNode::Leaf(value) => Resolved { value: *value, column: None, right: 0 },
            TreeNode::Split { feature, rule, right, .. } => {
                let (column, value) = self.ask(*feature, rule);
                Resolved { value, column: Some(column), right: places[*right] }
            }
        };
        Ok(order.iter().map(node).collect())
    }

    /// The column and the threshold by which `rule` decides about `feature`: more than the
    /// threshold goes right.
    fn ask(&mut self, feature: usize, rule: &Rule) -> (usize, f64) {
        let (view, threshold) = match rule {
            // Nothing but a missing value is more than an infinite threshold.
            Rule::AtMost(threshold, missing) => (View::Ordered(*missing), threshold.min(f64::MAX)),
            Rule::OneOf(members) => (View::Category(members.clone()), 0.5),
        };
        let column = Column { feature, view };
        let next = self.all.len();
        let place = *self.places.entry(column.clone()).or_insert(next);
        if place == next {
            self.all.push(column);
        }
        (place, threshold)
    }

    pub fn as_slice(&self) -> &[Column] {
        &self.all
    }
}

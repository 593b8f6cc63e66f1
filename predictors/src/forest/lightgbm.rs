//! LightGBM's model text as trees: numerical splits with every kind of missing value, and
//! categorical splits.
//!
//! Meaning of the fields: `src/io/tree.cpp` and `include/LightGBM/tree.h` of LightGBM 4.

use super::{ForestError, Missing, Rule, TreeNode};
use std::{collections::HashMap, str::FromStr};

/// Objectives whose output is the sum of the trees itself.
const IDENTITY: [&str; 7] =
    ["regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom"];

/// The contents of a model text.
pub(super) struct Model {
    pub trees: Vec<Vec<TreeNode>>,
    pub features: usize,
    /// Whether the output is the mean of the trees instead of their sum.
    pub mean: bool,
}

/// Lines of one section, by name.
struct Section<'a>(HashMap<&'a str, &'a str>);

impl<'a> Section<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.lines().map(|line| line.split_once('=').unwrap_or((line, ""))).collect())
    }

    fn text(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default().trim()
    }

    fn numbers<T: FromStr>(&self, name: &str) -> Result<Vec<T>, ForestError> {
        let number = |n: &str| n.parse().map_err(|_| refused(format!("`{name}` holds `{n}`")));
        self.text(name).split_ascii_whitespace().map(number).collect()
    }
}

fn refused(reason: impl Into<String>) -> ForestError {
    ForestError::LightGbm(reason.into())
}

/// The trees of a model text.
pub(crate) fn trees(text: &str) -> Result<Vec<Vec<TreeNode>>, ForestError> {
    read(text).map(|model| model.trees)
}

/// Reads a model text.
pub(super) fn read(text: &str) -> Result<Model, ForestError> {
    let body = text.split("\nend of trees").next().unwrap_or_default();
    let mut sections = body.split("\nTree=");
    let head = Section::new(sections.next().unwrap_or_default());
    if !["", "1"].contains(&head.text("num_tree_per_iteration")) {
        return Err(refused("it has several outputs; only one is supported"));
    }
    let objective = head.text("objective").split_ascii_whitespace().collect::<Vec<_>>();
    if objective.first().is_some_and(|name| !IDENTITY.contains(name)) || objective.contains(&"sqrt")
    {
        return Err(refused(format!(
            "its objective `{}` transforms the sum of the trees; train on transformed targets \
            instead",
            objective.join(" ")
        )));
    }
    let last: usize = head
        .numbers("max_feature_idx")?
        .first()
        .copied()
        .ok_or_else(|| refused("it has no `max_feature_idx`"))?;
    let trees = sections.map(tree).collect::<Result<Vec<_>, _>>()?;
    Ok(Model {
        trees,
        features: last.checked_add(1).ok_or(ForestError::TooLarge)?,
        mean: head.0.contains_key("average_output"),
    })
}

/// One tree: its splits in their order, then its leaves.
fn tree(text: &str) -> Result<Vec<TreeNode>, ForestError> {
    let section = Section::new(text);
    if section.text("is_linear") == "1" {
        return Err(refused("it has linear trees; train with linear_tree=false"));
    }
    let values: Vec<f64> = section.numbers("leaf_value")?;
    let features: Vec<usize> = section.numbers("split_feature")?;
    let thresholds: Vec<f64> = section.numbers("threshold")?;
    let decisions: Vec<u8> = section.numbers("decision_type")?;
    let (left, right): (Vec<i64>, Vec<i64>) =
        (section.numbers("left_child")?, section.numbers("right_child")?);
    let splits = features.len();
    if [thresholds.len(), decisions.len(), left.len(), right.len(), values.len().wrapping_sub(1)]
        != [splits; 5]
    {
        return Err(refused("the fields of a tree have different lengths"));
    }
    // Leaves are counted -1, -2, ...
    let place = |child: i64| {
        usize::try_from(child)
            .or_else(|_| usize::try_from(!child).map(|leaf| leaf + splits))
            .map_err(|_| ForestError::NotATree)
    };
    let mut nodes = Vec::with_capacity(splits + values.len());
    for i in 0..splits {
        let rule = rule(decisions[i], thresholds[i], &section)?;
        nodes.push(TreeNode::Split {
            feature: features[i],
            rule,
            left: place(left[i])?,
            right: place(right[i])?,
        });
    }
    nodes.extend(values.into_iter().map(TreeNode::Leaf));
    Ok(nodes)
}

/// Bit 0: categorical; bit 1: missing values go left; bits 2 and 3: which values are missing.
fn rule(decision: u8, threshold: f64, section: &Section<'_>) -> Result<Rule, ForestError> {
    let left = decision & 0b10 != 0;
    match (decision & 1, decision >> 2) {
        (0, 0) => Ok(Rule::AtMost(threshold, Missing::Never)),
        (0, 1) => Ok(Rule::AtMost(threshold, Missing::Zero { left })),
        (0, 2) => Ok(Rule::AtMost(threshold, Missing::Nan { left })),
        (1, _) => categories(threshold, section),
        _ => Err(refused(format!("decision_type {decision} is unknown"))),
    }
}

/// The set number `set` of a tree's category sets.
fn categories(set: f64, section: &Section<'_>) -> Result<Rule, ForestError> {
    let bounds: Vec<usize> = section.numbers("cat_boundaries")?;
    let words: Vec<u32> = section.numbers("cat_threshold")?;
    let range = bounds
        .get(set as usize)
        .zip(bounds.get((set as usize).saturating_add(1)))
        .and_then(|(from, to)| words.get(*from..*to));
    range
        .map(|words| Rule::OneOf(words.into()))
        .ok_or_else(|| refused("a categorical split has no categories"))
}

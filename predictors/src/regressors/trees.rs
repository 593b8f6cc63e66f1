//! [`Trees`]: an ensemble of regression trees from any library: plain nodes, and compiled for
//! evaluation. Output: latency in ns = baseline x exp(scale x sum of leaf values).
//!
//! What is read from a bundle is checked at once, and made when a forecast needs it: nodes from a
//! bundle's bytes for the first row, the compiled form when there are so many rows that compiling
//! takes less time than following the nodes. All of them give the same bits.

mod encoded;
mod nodes;

#[cfg(feature = "train")]
use super::FitData;
use crate::{
    elementary::exp,
    forest::{CompiledForest, ForestError, TreeNode, ordinary},
};
use encoded::Encoded;
use nodes::Nodes;
#[cfg(feature = "train")]
use nodes::{LEAF, Node};
use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Factor by which trees may move a forecast away from its baseline, as a logarithm.
const LARGEST_LOG_RATIO: f64 = 5.0;
/// Rows that are evaluated node by node before trees are compiled: compiling takes about as long.
const WALKED: usize = 128;

/// An ensemble of regression trees.
#[derive(Debug)]
pub struct Trees {
    scale: f64,
    columns: usize,
    trees: usize,
    size: usize,
    source: Option<Source>,
    nodes: OnceLock<Nodes>,
    compiled: OnceLock<Box<CompiledForest>>,
    /// Rows that were evaluated node by node.
    walked: AtomicUsize,
}

/// Where a bundle's body has the bytes of trees that are sound.
#[derive(Clone, Debug)]
struct Source {
    body: Arc<Vec<u8>>,
    range: Range<usize>,
    /// Features that there were when they were written.
    columns: usize,
}

impl Source {
    fn nodes(&self) -> Option<Nodes> {
        Encoded::read(&mut self.body.get(self.range.clone())?, self.columns).ok()?.decode().ok()
    }
}

impl Clone for Trees {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            nodes: self.nodes.clone(),
            compiled: self.compiled.clone(),
            walked: AtomicUsize::default(),
            ..*self
        }
    }
}

/// Whether they are the same trees, compiled or not.
impl PartialEq for Trees {
    fn eq(&self, other: &Self) -> bool {
        let parts = |t: &Self| (t.scale, t.columns);
        parts(self) == parts(other) && self.decoded() == other.decoded()
    }
}

impl Trees {
    /// Trees with numerical splits over `columns` features that are never missing.
    ///
    /// # Errors
    /// A sentence when there are other splits, or something is no tree.
    pub(crate) fn new(trees: &[Vec<TreeNode>], columns: usize, scale: f64) -> Result<Self, String> {
        Self::checked(Nodes::flat(trees)?, columns, scale)
    }

    fn checked(nodes: Nodes, columns: usize, scale: f64) -> Result<Self, String> {
        if !scale.is_finite() {
            return Err(format!("its trees are scaled by {scale}"));
        }
        nodes.check(columns).map_err(|e| e.to_string())?;
        Ok(Self {
            scale,
            columns,
            trees: nodes.roots.len(),
            size: nodes.nodes.len(),
            source: None,
            nodes: nodes.into(),
            compiled: OnceLock::new(),
            walked: AtomicUsize::new(0),
        })
    }

    /// Reads what [`Trees::encode`] wrote from byte `at` of a bundle's body on, checks everything,
    /// and moves `at` behind it.
    pub(crate) fn read(
        body: &Arc<Vec<u8>>,
        at: &mut usize,
        columns: usize,
    ) -> Result<Self, String> {
        let mut bytes = body.get(*at..).unwrap_or_default();
        let encoded = Encoded::read(&mut bytes, columns)?;
        let range = *at..body.len() - bytes.len();
        *at = range.end;
        if !encoded.is_sound() {
            return Self::checked(encoded.decode()?, columns, encoded.scale);
        }
        Ok(Self {
            scale: encoded.scale,
            columns,
            trees: encoded.trees,
            size: encoded.nodes(),
            source: Some(Source { body: body.clone(), range, columns }),
            nodes: OnceLock::new(),
            compiled: OnceLock::new(),
            walked: AtomicUsize::new(0),
        })
    }

    /// These trees and more, whose sums add up.
    ///
    /// # Errors
    /// A sentence when leaves are too large to keep, or the trees too many.
    #[cfg(feature = "train")]
    pub(crate) fn followed_by(&self, more: &Self) -> Result<Self, String> {
        let scale = more.scale / self.scale;
        let scaled = |node: &Node| match node.feature {
            LEAF => Node::leaf(scale * node.value),
            _ => *node,
        };
        let own = self.decoded().nodes.iter().copied();
        let nodes = own.chain(more.decoded().nodes.iter().map(scaled)).collect();
        Self::checked(Nodes::joined(nodes), self.columns.max(more.columns), self.scale)
    }

    /// The same trees over rows to which features were appended.
    pub(crate) fn widened(self, columns: usize) -> Self {
        Self { columns: self.columns.max(columns), ..self }
    }

    /// Appends the trees as [`encoded`] describes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encoded::encode(self.decoded(), self.scale, self.columns, out);
    }

    fn decoded(&self) -> &Nodes {
        // The bytes are sound.
        let nodes = || self.source.as_ref()?.nodes();
        self.nodes.get_or_init(|| nodes().unwrap_or_default())
    }

    fn compiled(&self) -> &CompiledForest {
        self.compiled.get_or_init(|| {
            let trees = self.decoded().resolved();
            Box::new(CompiledForest::from_preorder(trees, self.columns, self.scale))
        })
    }

    /// The compiled trees, where these rows and all before them are too many to be evaluated node
    /// by node.
    fn compiled_for(&self, rows: usize) -> Option<&CompiledForest> {
        if let Some(compiled) = self.compiled.get() {
            return Some(compiled);
        }
        let before = self.walked.fetch_add(rows, Ordering::Relaxed);
        (before.saturating_add(rows) > WALKED).then(|| self.compiled())
    }

    /// What [`CompiledForest::predict`] returns.
    fn walk(&self, x: &[f64]) -> f64 {
        let x: Vec<f64> = x.iter().map(|x| ordinary(*x)).collect();
        self.scale * self.decoded().sum(&x)
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

    /// Number of nodes of all trees.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.size
    }

    /// Scaled sum of leaf values: the logarithm of latency over baseline.
    #[must_use]
    pub fn log_ratio(&self, x: &[f64]) -> f64 {
        match self.compiled_for(1) {
            Some(compiled) => compiled.predict(x),
            None => self.walk(x),
        }
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
        let (rows, features) = (baseline_ns.len(), self.columns);
        if rows.checked_mul(features) != Some(x.len()) {
            return Err(ForestError::Shape { values: x.len(), rows, features });
        }
        let mut out = vec![0.0; rows];
        match self.compiled_for(rows) {
            Some(compiled) => compiled.predict_batch(x, &mut out)?,
            None => {
                for (row, out) in out.iter_mut().enumerate() {
                    *out = self.walk(&x[row * features..][..features]);
                }
            }
        }
        out.iter_mut().zip(baseline_ns).for_each(|(out, baseline)| *out = latency(*baseline, *out));
        Ok(out)
    }

    /// Of boosted trees, by column: how much its splits lower the weighted squared error of the
    /// residuals of earlier trees.
    #[cfg(feature = "train")]
    pub(crate) fn impurity_decrease(&self, data: &FitData<'_>) -> Vec<f64> {
        let Nodes { nodes, roots } = self.decoded();
        let mut rest = data.log_ratios();
        let mut sums = vec![(0.0, 0.0); nodes.len()];
        for &root in roots {
            for ((x, rest), weight) in
                data.x.chunks_exact(data.columns.max(1)).zip(&mut rest).zip(data.weights)
            {
                let mut index = root as usize;
                while let Some((node, sum)) = nodes.get(index).zip(sums.get_mut(index)) {
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
        for (index, node) in nodes.iter().enumerate() {
            if let Some(column) = decrease.get_mut(usize::from(node.feature)) {
                *column += (explained(index + 1) + explained(node.right as usize)
                    - explained(index))
                .max(0.0);
            }
        }
        decrease
    }
}

/// Trees move a forecast away from its baseline only so far.
fn latency(baseline_ns: f64, log_ratio: f64) -> f64 {
    baseline_ns * exp(log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{Missing, Rule};
    use proptest::prelude::*;

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
    fn sums_of_trees_add_up() {
        let more = Trees::new(&[vec![TreeNode::Leaf(3.0)], vec![TreeNode::Leaf(-1.0)]], 2, 0.1);
        let both = stump().followed_by(&more.expect("trees")).expect("trees");
        assert_eq!(both.len(), 3);
        assert_eq!(read(&encoded(&both), 2).as_ref(), Ok(&both));
        for x in [[0.0, 9.0], [1.0, 3.0], [1.5, 3.0]] {
            assert!((both.log_ratio(&x) - stump().log_ratio(&x) - 0.2).abs() < 1e-6);
        }
        let large = Trees::new(&[vec![TreeNode::Leaf(90.0)]], 2, 1.0).expect("a tree");
        assert!(stump().followed_by(&large).is_err());
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
            inseparable: &[],
            constant_per: None,
            per_call: &[],
        };
        let decrease = trees.impurity_decrease(&data);
        // Squared errors about the mean: 24 at the root; 8/3 and 0 below it; 0 and 0 below that.
        assert!(
            (decrease[1] - (24.0 - 8.0 / 3.0)).abs() < 1e-9
                && (decrease[0] - 8.0 / 3.0).abs() < 1e-9,
            "{decrease:?}"
        );
    }

    fn encoded(trees: &Trees) -> Vec<u8> {
        let mut bytes = Vec::new();
        trees.encode(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8], columns: usize) -> Result<Trees, String> {
        Trees::read(&Arc::new(bytes.to_vec()), &mut 0, columns)
    }

    /// The same, by making the nodes and checking them.
    fn read_eagerly(mut bytes: &[u8], columns: usize) -> Result<Trees, String> {
        let encoded = Encoded::read(&mut bytes, columns)?;
        Trees::checked(encoded.decode()?, columns, encoded.scale)
    }

    #[test]
    fn bytes_round_trip_and_every_changed_byte_is_refused_or_harmless() {
        let bytes = encoded(&stump());
        assert_eq!(read(&bytes, 2).as_ref(), Ok(&stump()));
        assert!(read(&bytes, 1).is_err(), "feature 1 of 1 column");
        for i in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[i] ^= 1 << bit;
                let trees = read(&broken, 2);
                assert_eq!(trees, read_eagerly(&broken, 2), "bit {bit} of byte {i}");
                if let Ok(trees) = trees {
                    let _ = trees.predict(&[0.5, 0.5], 1.0);
                }
            }
            assert!(read(&bytes[..i], 2).is_err());
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
        assert_eq!(read(&encoded(&trees), 3), Ok(trees));
    }

    #[test]
    fn trees_follow_one_another_in_a_body() {
        let (mut body, mut at) = (vec![9; 5], 5);
        let more = Trees::new(&[vec![TreeNode::Leaf(1.0)]], 2, 1.0).expect("a tree");
        [&stump(), &more].iter().for_each(|trees| trees.encode(&mut body));
        let body = Arc::new(body);
        assert_eq!(Trees::read(&body, &mut at, 2), Ok(stump()));
        assert_eq!(Trees::read(&body, &mut at, 2), Ok(more));
        assert_eq!(at, body.len());
        assert!(Trees::read(&body, &mut at, 2).is_err());
    }

    #[test]
    fn no_trees_and_no_columns() {
        let none = Trees::new(&[], 2, 1.0).expect("no trees");
        assert_eq!(read(&encoded(&none), 2).as_ref(), Ok(&none));
        let leaf = Trees::new(&[vec![TreeNode::Leaf(1.0)]], 0, 1.0).expect("a tree");
        let leaf = read(&encoded(&leaf), 0).expect("a tree");
        assert_eq!(leaf.predict_batch(&[], &[1.0, 2.0]), Ok(vec![exp(1.0), 2.0 * exp(1.0)]));
    }

    const COLUMNS: usize = 3;

    /// A tree with splits at few thresholds, so that values meet them.
    fn tree() -> impl Strategy<Value = Vec<TreeNode>> {
        let number = || prop_oneof![-2i32..3, any::<i32>()].prop_map(|v| f64::from(v) / 2.0);
        let splits = prop::collection::vec((0..COLUMNS, number(), any::<u32>()), 0..40);
        let leaf = (-1000i32..1000).prop_map(|v| f64::from(v) / 64.0);
        (splits, prop::collection::vec(leaf, 41)).prop_map(|(splits, leaves)| {
            let mut tree = vec![TreeNode::Leaf(leaves[0])];
            let mut open = vec![0];
            for ((feature, threshold, at), value) in splits.into_iter().zip(&leaves[1..]) {
                let at = open.swap_remove(at as usize % open.len());
                let (left, right) = (tree.len(), tree.len() + 1);
                tree.extend([tree[at].clone(), TreeNode::Leaf(*value)]);
                tree[at] = split(feature, threshold, left, right);
                open.extend([left, right]);
            }
            tree
        })
    }

    fn trees() -> impl Strategy<Value = Trees> {
        prop::collection::vec(tree(), 0..12)
            .prop_map(|trees| Trees::new(&trees, COLUMNS, 0.7).expect("trees"))
    }

    fn value() -> impl Strategy<Value = f64> {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-40, f64::MAX];
        prop_oneof![
            4 => (-5i32..6).prop_map(|v| f64::from(v) / 2.0),
            1 => prop::sample::select(special.to_vec()),
            1 => any::<f64>(),
        ]
    }

    proptest! {
        #[test]
        fn following_nodes_gives_the_bits_of_compiled_trees(
            trees in trees(),
            rows in prop::collection::vec(prop::array::uniform3(value()), 1..20),
        ) {
            let read = read(&encoded(&trees), COLUMNS).expect("trees");
            prop_assert!(read.source.is_some(), "what is written is sound");
            prop_assert_eq!(&read, &trees);
            for row in &rows {
                let walked = read.log_ratio(row);
                prop_assert_eq!(walked.to_bits(), trees.compiled().predict(row).to_bits());
            }
            prop_assert!(read.compiled.get().is_none());
            let ones = vec![1.0; rows.len()];
            let walked = read.predict_batch(rows.as_flattened(), &ones).expect("rows");
            let compiled = trees.predict_batch(rows.as_flattened(), &ones).expect("rows");
            for (walked, compiled) in walked.iter().zip(&compiled) {
                prop_assert_eq!(walked.to_bits(), compiled.to_bits());
            }
            while read.compiled.get().is_none() {
                let _ = read.predict_batch(rows.as_flattened(), &ones);
            }
            prop_assert_eq!(read.predict_batch(rows.as_flattened(), &ones), Ok(compiled));
        }

        #[test]
        fn damage_is_refused_as_if_every_node_was_made(
            trees in trees(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = encoded(&trees);
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] ^= byte;
            }
            prop_assert_eq!(read(&bytes, COLUMNS), read_eagerly(&bytes, COLUMNS));
        }
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

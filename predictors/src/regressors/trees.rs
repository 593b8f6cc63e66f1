//! [`Trees`]: an ensemble of regression trees, whoever grew it, as plain nodes: checked once, evaluated without any library.
//!
//! Nodes lie in preorder, so the left child is always the next node and the right child's index is larger than its parent's: evaluation always ends.
//! A row goes left when its feature is at most the threshold. Output: latency in ns = baseline x exp(scale x sum of leaf values).

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

/// A node as the libraries describe it, with indices within its tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// Feature, threshold, child if at most, child if larger.
    Split(usize, f64, usize, usize),
    /// Value.
    Leaf(f64),
}

/// An ensemble of regression trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trees {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    scale: f64,
}

impl Trees {
    pub(super) fn new(scale: f64) -> Self {
        Self { nodes: Vec::new(), roots: Vec::new(), scale }
    }

    /// Adds one tree given as a function from index to node; index 0 or `root` is its root.
    pub(super) fn push(&mut self, root: usize, nodes: &dyn Fn(usize) -> Option<Source>, most: usize) -> Result<(), String> {
        self.roots.push(u32::try_from(self.nodes.len()).map_err(|e| e.to_string())?);
        let mut waiting: Vec<(usize, Option<usize>)> = vec![(root, None)];
        let start = self.nodes.len();
        while let Some((index, parent)) = waiting.pop() {
            let here = self.nodes.len();
            if here - start > most {
                return Err("a tree with a cycle".to_owned());
            }
            if let Some(parent) = parent {
                self.nodes[parent].right = u32::try_from(here).map_err(|e| e.to_string())?;
            }
            match nodes(index).ok_or("a tree with a missing node")? {
                Source::Leaf(value) => self.nodes.push(Node { feature: LEAF, right: 0, value }),
                Source::Split(feature, value, left, right) => {
                    let feature = u16::try_from(feature).ok().filter(|f| *f != LEAF).ok_or("too many features")?;
                    self.nodes.push(Node { feature, right: 0, value });
                    waiting.push((right, Some(here)));
                    waiting.push((left, None));
                }
            }
        }
        Ok(())
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
        self.scale * self.roots.iter().map(|&root| self.leaf(root as usize, x)).sum::<f64>()
    }

    /// Latency in ns of one row, given its baseline latency.
    #[must_use]
    pub fn predict(&self, x: &[f64], baseline_ns: f64) -> f64 {
        baseline_ns * self.log_ratio(x).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
    }

    fn leaf(&self, root: usize, x: &[f64]) -> f64 {
        let mut index = root;
        while let Some(node) = self.nodes.get(index) {
            if node.feature == LEAF {
                return node.value;
            }
            let value = x.get(usize::from(node.feature)).copied().unwrap_or(0.0);
            index = if value <= node.value { index + 1 } else { node.right as usize };
        }
        0.0
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
        let decoded = Self { nodes, roots, scale };
        decoded.check(columns)?;
        Ok(decoded)
    }

    fn check(&self, columns: usize) -> Result<(), String> {
        let count = self.nodes.len();
        if !self.scale.is_finite() || self.roots.iter().any(|r| *r as usize >= count) {
            return Err("a tree without a root".to_owned());
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let fits = node.feature == LEAF || (usize::from(node.feature) < columns && node.right as usize > index + 1 && (node.right as usize) < count);
            if !fits || !node.value.is_finite() {
                return Err(format!("tree node {index} makes no sense"));
            }
        }
        Ok(())
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or("it ends too early")?;
    *bytes = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stump() -> Trees {
        let mut trees = Trees::new(0.5);
        let nodes = [Source::Split(1, 3.0, 2, 1), Source::Leaf(2.0), Source::Split(0, 1.0, 3, 4), Source::Leaf(-1.0), Source::Leaf(1.0)];
        trees.push(0, &|i| nodes.get(i).copied(), nodes.len()).expect("a tree");
        trees
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
        assert!(Trees::new(1.0).push(0, &|_| Some(Source::Split(0, 0.0, 0, 0)), 10).is_err());
    }
}

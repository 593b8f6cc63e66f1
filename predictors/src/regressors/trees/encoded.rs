//! [`Encoded`]: trees as a bundle stores them. Everything is checked when they are read; the nodes
//! are made from them when a forecast first needs them, because a forecast of one model needs few
//! of a bundle's trees.
//!
//! Bytes, little endian: scale (f64), number of trees, of nodes (u32); of every node its column
//! plus one, or 0 for a leaf; the thresholds of each column: their number (u32), then they (f64) in
//! ascending order; of every split the place of its threshold; of every leaf its value in
//! [`QUANTA`]. Where children are follows from preorder. Whole numbers lie as [`Planes`].

use super::nodes::{LARGEST_LEAF, LEAF, Node, Nodes, QUANTA};
use crate::forest::MOST_NODES;

/// The parts of encoded trees; their lengths fit each other.
pub(super) struct Encoded<'a> {
    pub scale: f64,
    pub trees: usize,
    features: Planes<'a>,
    thresholds: Vec<&'a [[u8; 8]]>,
    places: Planes<'a>,
    leaves: Planes<'a>,
}

impl<'a> Encoded<'a> {
    /// Divides the front of `bytes`, and leaves what follows.
    pub fn read(bytes: &mut &'a [u8], columns: usize) -> Result<Self, String> {
        let scale = f64::from_le_bytes(take(bytes)?);
        let trees = u32::from_le_bytes(take(bytes)?) as usize;
        let count = u32::from_le_bytes(take(bytes)?) as usize;
        let features = Planes::read(bytes, count)?;
        let mut thresholds = Vec::with_capacity(columns);
        for _ in 0..columns {
            let size = (u32::from_le_bytes(take(bytes)?) as usize).checked_mul(8);
            let of = size.and_then(|size| bytes.split_at_checked(size));
            let (of, rest) = of.ok_or("it ends too early")?;
            thresholds.push(of.as_chunks().0);
            *bytes = rest;
        }
        let splits = count - features.zeros();
        let places = Planes::read(bytes, splits)?;
        let leaves = Planes::read(bytes, count - splits)?;
        Ok(Self { scale, trees, features, thresholds, places, leaves })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.features.count
    }

    /// Whether these are trees for certain: then [`Encoded::decode`] decodes them, and they pass
    /// [`Nodes::check`]. It makes no nodes and takes a fraction of the time. `false` says nothing,
    /// for example of trees over more than 255 columns.
    pub fn is_sound(&self) -> bool {
        let Some(features) = self.features.bytes() else { return false };
        self.scale.is_finite()
            && self.nodes() <= MOST_NODES
            && trees_in_preorder(features) == Some(self.trees)
            && self.thresholds.iter().copied().flatten().all(|t| f64::from_le_bytes(*t).is_finite())
            && self.has_every_threshold(features)
            && self.leaves.highest().iter().all(|byte| *byte < LEAF_BOUND)
    }

    /// Whether every split has a column and a threshold of it; `features` are one per node.
    fn has_every_threshold(&self, features: &[u8]) -> bool {
        // Of a leaf none is asked, and of a column that does not exist there is none.
        let mut counts = [0; 256];
        for (count, of) in counts.iter_mut().skip(1).zip(&self.thresholds) {
            *count = u32::try_from(of.len()).unwrap_or(u32::MAX);
        }
        let splits = features.iter().filter(|feature| **feature > 0);
        splits.zip(self.places.iter()).all(|(feature, place)| place < counts[usize::from(*feature)])
    }

    /// The trees, of which [`Nodes::check`] is still to be asked.
    pub fn decode(&self) -> Result<Nodes, String> {
        let (mut places, mut leaves) = (self.places.iter(), self.leaves.iter());
        let mut node = |feature: u32| match feature.checked_sub(1) {
            None => leaves.next().map(|value| Node {
                feature: LEAF,
                right: 0,
                value: f64::from(unzigzag(value)) / QUANTA,
            }),
            Some(feature) => {
                let of = self.thresholds.get(feature as usize)?;
                let value = f64::from_le_bytes(*of.get(places.next()? as usize)?);
                Some(Node { feature: u16::try_from(feature).ok()?, right: 0, value })
            }
        };
        let mut nodes = Vec::with_capacity(self.nodes());
        for feature in self.features.iter() {
            nodes.push(node(feature).ok_or("it splits at a threshold that it does not have")?);
        }
        let nodes = Nodes::joined(nodes);
        if nodes.roots.len() != self.trees {
            return Err(format!("it has {} trees and says {}", nodes.roots.len(), self.trees));
        }
        Ok(nodes)
    }
}

/// The highest byte of a leaf is less, where the leaf is less than [`LARGEST_LEAF`] either way: its
/// value in [`QUANTA`], as [`zigzag`] writes it, is less than this times 2^24.
const LEAF_BOUND: u8 = (2.0 * LARGEST_LEAF * QUANTA / (1 << 24) as f64) as u8;

/// How many trees lie one after the other in preorder, where every tree is whole; 0 is a leaf.
fn trees_in_preorder(features: &[u8]) -> Option<usize> {
    // Subtrees of the current tree that are yet to come.
    let (mut trees, mut open) = (0, 0_usize);
    for feature in features {
        trees += usize::from(open == 0);
        open = open.max(1);
        open = if *feature == 0 { open - 1 } else { open + 1 };
    }
    (open == 0).then_some(trees)
}

/// Appends what [`Encoded::read`] reads.
pub(super) fn encode(nodes: &Nodes, scale: f64, columns: usize, out: &mut Vec<u8>) {
    let Nodes { nodes, roots } = nodes;
    let mut thresholds = vec![Vec::new(); columns];
    for node in nodes {
        thresholds
            .get_mut(usize::from(node.feature))
            .into_iter()
            .for_each(|of| of.push(node.value));
    }
    for of in &mut thresholds {
        of.sort_by(f64::total_cmp);
        of.dedup_by(|a, b| a.to_bits() == b.to_bits());
    }
    out.extend_from_slice(&scale.to_le_bytes());
    out.extend_from_slice(&(roots.len() as u32).to_le_bytes());
    out.extend_from_slice(&(nodes.len() as u32).to_le_bytes());
    let features = nodes.iter().map(|node| u32::from(node.feature.wrapping_add(1)));
    planes(&features.collect::<Vec<_>>(), out);
    for of in &thresholds {
        out.extend_from_slice(&(of.len() as u32).to_le_bytes());
        of.iter().for_each(|threshold| out.extend_from_slice(&threshold.to_le_bytes()));
    }
    let place = |node: &Node| {
        thresholds
            .get(usize::from(node.feature))
            .map(|of| of.partition_point(|t| t.total_cmp(&node.value).is_lt()) as u32)
    };
    planes(&nodes.iter().filter_map(place).collect::<Vec<_>>(), out);
    let leaves = nodes.iter().filter(|node| node.feature == LEAF);
    planes(&leaves.map(|leaf| zigzag((leaf.value * QUANTA) as i32)).collect::<Vec<_>>(), out);
}

/// Whole numbers: the lowest bytes of all of them, then the next ones, and so on. High bytes are
/// mostly zero and pack to nothing.
#[derive(Clone, Copy)]
struct Planes<'a> {
    planes: [&'a [u8]; 4],
    count: usize,
}

impl<'a> Planes<'a> {
    fn read(bytes: &mut &'a [u8], count: usize) -> Result<Self, String> {
        let planes = count.checked_mul(4).and_then(|size| bytes.split_at_checked(size));
        let (planes, rest) = planes
            .ok_or_else(|| format!("{count} numbers do not fit its {} bytes", bytes.len()))?;
        *bytes = rest;
        let plane = |byte: usize| &planes[byte * count..(byte + 1) * count];
        Ok(Self { planes: std::array::from_fn(plane), count })
    }

    fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        let [lowest, low, high, highest] = self.planes;
        let each = lowest.iter().zip(low).zip(high).zip(highest);
        each.map(|(((a, b), c), d)| u32::from_le_bytes([*a, *b, *c, *d]))
    }

    /// The highest byte of each number.
    fn highest(self) -> &'a [u8] {
        self.planes[3]
    }

    /// The numbers, where each of them is one byte.
    fn bytes(self) -> Option<&'a [u8]> {
        let [bytes, above @ ..] = self.planes;
        let small = above.iter().all(|plane| plane.iter().fold(0, |all, byte| all | byte) == 0);
        small.then_some(bytes)
    }

    /// How many numbers are 0.
    fn zeros(self) -> usize {
        match self.bytes() {
            Some(bytes) => bytes.iter().filter(|byte| **byte == 0).count(),
            None => self.iter().filter(|number| *number == 0).count(),
        }
    }
}

fn planes(values: &[u32], out: &mut Vec<u8>) {
    (0..4).for_each(|byte| out.extend(values.iter().map(|value| value.to_le_bytes()[byte])));
}

/// Small numbers of either sign as small numbers.
fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or("it ends too early")?;
    *bytes = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_either_sign_round_trip() {
        assert!([i32::MIN, -1, 0, 1, i32::MAX].iter().all(|v| unzigzag(zigzag(*v)) == *v));
    }

    #[test]
    fn leaves_below_the_bound_are_less_than_the_largest() {
        let largest = u32::from_le_bytes([255, 255, 255, LEAF_BOUND - 1]);
        for value in [largest, largest - 1] {
            assert!((f64::from(unzigzag(value)) / QUANTA).abs() <= LARGEST_LEAF);
        }
        assert!((f64::from(unzigzag(largest + 2)) / QUANTA).abs() >= LARGEST_LEAF);
    }

    #[test]
    fn whole_trees_are_counted() {
        for (features, trees) in [
            (&[][..], Some(0)),
            (&[0, 0], Some(2)),
            (&[1, 0, 0], Some(1)),
            (&[0, 1, 2, 0, 0, 3, 0, 0], Some(2)),
            (&[1, 0], None),
            (&[0, 1], None),
            (&[1, 1, 0, 0], None),
        ] {
            assert_eq!(trees_in_preorder(features), trees, "{features:?}");
        }
    }
}

//! Cells of NAS-Bench-201 (Dong and Yang, ICLR 2020) for images of 32 x 32: a stem, three stages of
//! five equal cells with 16, 32 and 64 channels, a residual block between stages, a classifier.
//!
//! A cell has four nodes; every node sums one edge from each node before it. As written, every edge
//! runs, absent ones as a product with zero. A framework that removes dead code runs only the edges
//! that are present and that lead to the output.

use super::layer::{Layer, LayerKind as Kind, Shape};

/// Image, and classes of CIFAR-10.
const IMAGE: Shape = [3, 32, 32];
const CLASSES: usize = 10;
const STAGES: [Shape; 3] = [[16, 32, 32], [32, 16, 16], [64, 8, 8]];
const CELLS: usize = 5;
const NODES: usize = 4;

/// The operation of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    None,
    Skip,
    Convolution(usize),
    Pool,
}

/// A cell: by node, from which node comes what.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell(Vec<Vec<(usize, Edge)>>);

impl Cell {
    /// Reads `|nor_conv_3x3~0|+|none~0|skip_connect~1|+|...|`.
    pub fn parse(text: &str) -> Option<Self> {
        let edge = |text: &str| {
            let (name, from) = text.split_once('~')?;
            let edge = match name {
                "none" => Edge::None,
                "skip_connect" => Edge::Skip,
                "nor_conv_1x1" => Edge::Convolution(1),
                "nor_conv_3x3" => Edge::Convolution(3),
                "avg_pool_3x3" => Edge::Pool,
                _ => return None,
            };
            Some((from.parse::<usize>().ok()?, edge))
        };
        let node = |(index, text): (usize, &str)| -> Option<Vec<(usize, Edge)>> {
            let edges: Vec<_> =
                text.trim_matches('|').split('|').map(edge).collect::<Option<_>>()?;
            edges.iter().all(|(from, _)| *from <= index).then_some(edges)
        };
        let nodes: Vec<_> = text.split('+').enumerate().map(node).collect::<Option<_>>()?;
        (nodes.len() == NODES - 1).then_some(Self(nodes))
    }

    /// Present edges: from, to.
    fn present(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let of = |(index, edges): (usize, &Vec<(usize, Edge)>)| {
            let present = edges.iter().filter(|(_, edge)| *edge != Edge::None);
            present.map(|(from, _)| (*from, index + 1)).collect::<Vec<_>>()
        };
        self.0.iter().enumerate().flat_map(of).collect::<Vec<_>>().into_iter()
    }

    /// Whether a path leads from the input to the output.
    pub fn is_connected(&self) -> bool {
        let mut reached = [true, false, false, false];
        self.present().for_each(|(from, to)| reached[to] |= reached[from]);
        reached[NODES - 1]
    }

    /// All layers of the network as written.
    pub fn as_written(&self) -> Vec<Layer> {
        network(|shape| self.layers(shape, [true; NODES], true))
    }

    /// All layers without those that the output does not depend on.
    pub fn without_dead_edges(&self) -> Vec<Layer> {
        let mut live = [false, false, false, true];
        self.present().rev().for_each(|(from, to)| live[from] |= live[to]);
        network(|shape| self.layers(shape, live, false))
    }

    fn layers(&self, shape: Shape, live: [bool; NODES], with_absent: bool) -> Vec<Layer> {
        let mut layers = Vec::new();
        for (edges, _) in self.0.iter().zip(&live[1..]).filter(|(_, live)| **live) {
            let runs = |edge: &&(usize, Edge)| with_absent || edge.1 != Edge::None;
            for (_, edge) in edges.iter().filter(runs) {
                match edge {
                    Edge::None => layers.push(Layer::same(Kind::Zero, shape)),
                    Edge::Skip => {}
                    Edge::Convolution(kernel) => layers.extend(rectified(shape, *kernel)),
                    Edge::Pool => {
                        layers.push(Layer { kernel: 3, ..Layer::same(Kind::AveragePool, shape) });
                    }
                }
            }
            let sums = edges.iter().filter(runs).count().saturating_sub(1);
            layers.extend(std::iter::repeat_n(Layer::same(Kind::Add, shape), sums));
        }
        layers
    }
}

fn rectified(shape: Shape, kernel: usize) -> [Layer; 2] {
    let convolution = Layer::convolution(shape, shape[0], kernel, 1);
    [Layer::same(Kind::Rectifier, shape), convolution]
}

fn network(cell: impl Fn(Shape) -> Vec<Layer>) -> Vec<Layer> {
    let mut layers = vec![Layer::convolution(IMAGE, STAGES[0][0], 3, 1)];
    let mut before = None;
    for stage in STAGES {
        layers.extend(before.into_iter().flat_map(|before| reduction(before, stage)));
        (0..CELLS).for_each(|_| layers.extend(cell(stage)));
        before = Some(stage);
    }
    let [.., last] = STAGES;
    let pooled = [last[0], 1, 1];
    layers.extend([Kind::BatchNorm, Kind::Rectifier].map(|kind| Layer::same(kind, last)));
    let pool =
        Layer { output: pooled, kernel: last[1], ..Layer::same(Kind::GlobalAveragePool, last) };
    let classifier = Layer { output: [CLASSES, 1, 1], ..Layer::same(Kind::Classifier, pooled) };
    layers.extend([pool, classifier]);
    layers
}

/// The residual block between two stages.
fn reduction(before: Shape, after: Shape) -> Vec<Layer> {
    let halved = [before[0], after[1], after[2]];
    let pool =
        Layer { output: halved, kernel: 2, stride: 2, ..Layer::same(Kind::AveragePool, before) };
    let mut layers =
        vec![Layer::same(Kind::Rectifier, before), Layer::convolution(before, after[0], 3, 2)];
    layers.extend(rectified(after, 3));
    layers.extend([
        pool,
        Layer::convolution(halved, after[0], 1, 1),
        Layer::same(Kind::Add, after),
    ]);
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_by_hand() {
        let cell = Cell::parse("|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")
            .expect("a cell");
        let count = |layers: &[Layer], kind: Kind| layers.iter().filter(|l| l.kind == kind).count();
        let (all, live) = (cell.as_written(), cell.without_dead_edges());
        assert!(cell.is_connected());
        assert_eq!((count(&all, Kind::Zero), count(&live, Kind::Zero)), (15 * 4, 0));
        assert_eq!((count(&all, Kind::Add), count(&live, Kind::Add)), (15 * 3 + 2, 2));
        assert_eq!(
            (count(&all, Kind::Convolution), count(&live, Kind::Convolution)),
            (15 + 7, 7),
            "the stem and two residual blocks remain"
        );
        let cut = Cell::parse("|none~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|");
        assert_eq!(cut.map(|c| c.is_connected()), Some(false));
    }

    #[test]
    fn what_is_no_cell_is_none() {
        for text in [
            "",
            "|a~0|+|none~0|none~1|+|none~0|none~1|none~2|",
            "|none~0|",
            "|none~1|+|none~0|+|none~0|",
            "~",
        ] {
            assert_eq!(Cell::parse(text), None, "{text}");
        }
    }
}

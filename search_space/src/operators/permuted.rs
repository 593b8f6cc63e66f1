//! What reads a permuted tensor: linear layers and reshapes, which an engine that only turned strides around must first lay out anew.

use super::{Built, MOST_ELEMENTS, Network, Template, between, pick, unary, written};
use crate::Generator;

pub(super) const TEMPLATES: &[(&str, Template)] = &[("permuted-linear", permuted_linear), ("permuted-reshape", permuted_reshape)];

/// The orders in which attention and mixing over tokens, channels and windows leave four dimensions.
const ORDERS: [[usize; 4]; 5] = [[0, 1, 3, 2], [0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2], [0, 3, 2, 1]];

/// One of these orders, and extents that it suits: of the first of them heads or windows, of the last channels of a head or a token.
fn drawn(g: &mut Generator) -> ([usize; 4], [usize; 4]) {
    let order = ORDERS[g.below(ORDERS.len() as u64) as usize];
    let few = between(g, 2, 64);
    let last = between(g, 4, 384);
    let middle = between(g, 7, (MOST_ELEMENTS / 4 / (few * last)).clamp(7, 1024));
    let mut shape = if g.unit() < 0.5 { [1, few, middle, last] } else { [1, middle, few, last] };
    if g.unit() < 0.3 {
        shape.swap(2, 3);
    }
    (shape, order)
}

fn permuted(n: &mut Network, shape: [usize; 4], order: [usize; 4]) -> Built {
    let x = written(n, shape)?;
    let name = n.name();
    n.b.transpose(&name, x, &order)
}

fn permuted_linear(n: &mut Network, g: &mut Generator) -> Built {
    let (shape, order) = drawn(g);
    let x = permuted(n, shape, order)?;
    let rows: usize = order[..3].iter().map(|axis| shape[*axis]).product();
    let (features, name) = (shape[order[3]], n.name());
    let most = ((1usize << 30) / (rows * features)).min(4 * MOST_ELEMENTS / rows).clamp(2, 512);
    let out = if g.unit() < 0.3 { features.min(most) } else { between(g, 2, most) };
    let y = n.b.linear(&name, x, out, g.unit() < 0.7)?;
    unary(n, vitempo_graph::OpKind::Abs, y)
}

/// Two dimensions of a permuted tensor become one; what reads it next is as often a linear layer as an elementwise operator.
fn permuted_reshape(n: &mut Network, g: &mut Generator) -> Built {
    let (shape, order) = drawn(g);
    let x = permuted(n, shape, order)?;
    let [_, a, b, c] = order.map(|axis| shape[axis]);
    let joined = if pick(g, &[0, 1]) == 0 { [1, a * b, c] } else { [1, a, b * c] };
    let name = n.name();
    let y = n.b.reshape(&name, x, &joined)?;
    if g.unit() < 0.5 {
        return unary(n, vitempo_graph::OpKind::Abs, y);
    }
    let most = ((1usize << 28) / (a * b * c)).clamp(2, 256);
    let name = n.name();
    n.b.linear(&name, y, between(g, 2, most), true)
}

//! The order in which XNNPACK runs the operators of a part: that of the file, unless it multiplies
//! floats by 8-bit integers.
//!
//! A DEQUANTIZE whose zero point is 0 and that only feeds the right side of a product becomes a
//! conversion between two kinds of integers, and the product reads those (`QC8W` in its name). Such
//! a conversion is a new operator after all others, and operators are then ordered by repeated
//! passes, in which each one whose inputs exist comes next. Whether a zero point is 0 depends on
//! weights and is read from the names that were executed.

use vitempo_graph::{Graph, ValueId, ValueSource};

/// A part's operators as they were executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The operators.
    pub operators: Vec<usize>,
    /// DEQUANTIZE operators that give integers.
    pub integers: Vec<usize>,
    /// Products that read them.
    pub products: Vec<usize>,
}

/// The order of `part`, an XNNPACK part of a model whose kernels had these `names`.
pub(super) fn order(operators: &Graph, codes: &[&str], part: &[usize], names: &[&str]) -> Order {
    let kernels: Vec<&str> =
        names.iter().copied().filter(|name| name.starts_with("Batch Matrix Multiply")).collect();
    let mut found = Order { operators: part.to_vec(), integers: Vec::new(), products: Vec::new() };
    // Which product a name belongs to depends on the order, of which each round makes sure one
    // product more.
    for _ in 0..=kernels.len() {
        let all: Vec<usize> = found
            .operators
            .iter()
            .copied()
            .filter(|&o| codes.get(o) == Some(&"BATCH_MATMUL"))
            .collect();
        if all.len() != kernels.len() {
            break;
        }
        let by_integers =
            |(&product, name): (&usize, &&str)| name.contains("QC8W").then_some(product);
        let products: Vec<usize> = all.iter().zip(&kernels).filter_map(by_integers).collect();
        if products == found.products {
            break;
        }
        let dequantize = |o: &usize| codes.get(*o) == Some(&"DEQUANTIZE") && part.contains(o);
        let right = |&product: &usize| {
            producer(operators, *operators.nodes()[product].inputs.get(1)?).filter(dequantize)
        };
        let mut integers: Vec<usize> = products.iter().filter_map(right).collect();
        integers.sort_unstable();
        integers.dedup();
        found = Order { operators: sorted(operators, part, &integers), integers, products };
    }
    found
}

fn sorted(operators: &Graph, part: &[usize], last: &[usize]) -> Vec<usize> {
    let mut open: Vec<usize> =
        part.iter().copied().filter(|o| !last.contains(o)).chain(last.iter().copied()).collect();
    let mut waits = vec![false; operators.nodes().len()];
    open.iter().for_each(|&o| waits[o] = true);
    let mut order = Vec::with_capacity(open.len());
    while !open.is_empty() {
        let before = open.len();
        open.retain(|&o| {
            let ready = operators.nodes()[o]
                .inputs
                .iter()
                .all(|&input| producer(operators, input).is_none_or(|p| !waits[p]));
            if ready {
                waits[o] = false;
                order.push(o);
            }
            !ready
        });
        if open.len() == before {
            order.append(&mut open);
        }
    }
    order
}

fn producer(operators: &Graph, value: ValueId) -> Option<usize> {
    match operators.value(value).source {
        ValueSource::Node(index) => Some(index as usize),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

    /// A product of two dequantised tensors, and the operators that do not depend on it.
    fn model() -> (Graph, [&'static str; 5]) {
        let mut b = GraphBuilder::new("m");
        let [q, k] = ["q", "k"].map(|name| b.input(name, TensorSpec::f32([1, 4, 4])));
        let mut unary = |name: &str, of| b.op(name, OpKind::Abs, Attributes::new(), &[of]).unwrap();
        let (left, right) = (unary("left", q), unary("right", k));
        let y = b.op("product", OpKind::MatMul, Attributes::new(), &[left, right]).unwrap();
        let y =
            b.op("softmax", OpKind::Softmax, Attributes::new().with_int("axis", -1), &[y]).unwrap();
        let other = b.op("other", OpKind::Abs, Attributes::new(), &[q]).unwrap();
        (
            b.finish(vec![y, other]).unwrap(),
            ["DEQUANTIZE", "DEQUANTIZE", "BATCH_MATMUL", "SOFTMAX", "QUANTIZE"],
        )
    }

    #[test]
    fn conversions_to_integers_come_behind_what_does_not_wait_for_them() {
        let (graph, codes) = model();
        let part = [0, 1, 2, 3, 4];
        let integers = order(
            &graph,
            &codes,
            &part,
            &["Convert (NC)", "Batch Matrix Multiply (NC, F32, QC8W) GEMM"],
        );
        assert_eq!(
            integers,
            Order { operators: vec![0, 4, 1, 2, 3], integers: vec![1], products: vec![2] }
        );
        let floats =
            order(&graph, &codes, &part, &["Convert (NC)", "Batch Matrix Multiply (NC, F32) GEMM"]);
        assert_eq!(
            floats,
            Order { operators: part.to_vec(), integers: Vec::new(), products: Vec::new() }
        );
    }
}

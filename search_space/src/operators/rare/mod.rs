//! Rare operators: those that few models have, and that take much of the time of these few.
//!
//! The inventory of single operators leaves them out, or has a few sizes and modes of them. Here
//! are sampling at coordinates, resizing by any factor, wide windows of pooling, long
//! concatenations, padding in every mode, products by subscripts, elements picked and scattered by
//! index, sorting, running sums, choices, broadcasts of every rank, and operands far beyond the
//! last-level cache.

mod large;
mod picked;
mod sampled;

use super::{OperatorSample, Template, draw};
use vitempo_graph::GraphError;

/// The name that `vitempo sample --space` takes for them.
pub const RARE: &str = "rare-operators";

fn templates() -> Vec<(&'static str, Template)> {
    [sampled::TEMPLATES, picked::TEMPLATES, large::TEMPLATES].concat()
}

/// Draws `count` networks, the templates in turn; the i-th does not depend on `count`.
///
/// # Errors
/// [`GraphError`] when a template contradicts itself, which its test rules out.
pub fn rare(count: usize, seed: u64) -> Result<Vec<OperatorSample>, GraphError> {
    draw(&templates(), count, seed)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{blocks, sample, series},
        *,
    };
    use std::collections::BTreeSet;
    use vitempo_graph::OpKind;

    /// Kinds that no inventory has, and why.
    const NOT_SAMPLED: &[(&str, &[OpKind])] = &[
        (
            "engines make them of sequences that are sampled, or of their own conversions",
            &[
                OpKind::Attention,
                OpKind::Elementwise,
                OpKind::Gelu,
                OpKind::GeluTanh,
                OpKind::GroupNorm,
                OpKind::Identity,
                OpKind::Mish,
                OpKind::Reorder,
                OpKind::RmsNorm,
                OpKind::Silu,
            ],
        ),
        (
            "models in int8 have them, which quantising makes of sampled ones",
            &[OpKind::Quantize, OpKind::Dequantize, OpKind::DynamicQuantize],
        ),
        (
            "computed when a model is read, or on a few integers of shapes and positions",
            &[OpKind::Shape, OpKind::ConstantOfShape, OpKind::Range, OpKind::Mod],
        ),
        ("the shape of its output depends on values", &[OpKind::NonZero]),
    ];

    #[test]
    fn every_kind_of_operator_is_sampled_or_listed() {
        let inventories = [sample(800, 1), blocks(400, 1), series(), rare(1600, 1)];
        let mut sampled: BTreeSet<OpKind> = BTreeSet::new();
        for networks in inventories {
            for network in networks.unwrap_or_else(|e| panic!("{e}")) {
                sampled.extend(network.graph.nodes().iter().map(|node| node.op.kind.clone()));
            }
        }
        for kind in OpKind::ALL {
            let listed = NOT_SAMPLED.iter().any(|(_, kinds)| kinds.contains(kind));
            assert!(
                listed != sampled.contains(kind),
                "{kind}: listed {listed}, sampled {}",
                sampled.contains(kind)
            );
        }
    }

    #[test]
    fn every_template_builds_within_its_bounds_and_varies() {
        let samples = rare(2000, 5).unwrap_or_else(|e| panic!("{e}"));
        for s in &samples {
            let tensors = s.graph.values().iter().filter_map(|v| v.tensor.as_ref());
            let largest = tensors.map(|t| t.elements()).max();
            assert!(
                largest.is_some_and(|n| n <= large::MOST as u64),
                "{}: {largest:?} elements",
                s.encoding
            );
            assert_eq!(s.graph.unsupported().count(), 0, "{}", s.encoding);
        }
        let architectures: BTreeSet<String> =
            samples.iter().map(|s| s.graph.architecture()).collect();
        assert!(architectures.len() > 1900, "only {} distinct networks", architectures.len());
    }
}

//! Maps OpenVINO's names of kernels to those of vitempo, for the rules and for readers of the
//! executed graph.
//!
//! An executed node has a layer type and the names of the operators it was made of. Operators keep
//! their ONNX names through fusions; those that a transformation made carry their type and a number
//! (`Multiply_38`). Both identify the contents where the type alone does not.

use crate::{Graph, Node, OpKind};
use std::collections::HashMap;

/// Kinds of operators by OpenVINO's names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    kinds: HashMap<String, OpKind>,
}

impl Names {
    /// The names of a graph's nodes and of their outputs: an ONNX node without a name has that of
    /// its output.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let mut kinds = HashMap::new();
        for node in graph.nodes() {
            for output in &node.outputs {
                kinds.insert(graph.value(*output).name.clone(), node.op.kind.clone());
            }
        }
        for node in graph.nodes() {
            kinds.insert(
                node.name.clone(),
                reduced(graph, node).unwrap_or_else(|| node.op.kind.clone()),
            );
        }
        Self { kinds }
    }

    /// The operator behind one name: the graph's, or the one a transformation named after its type.
    #[must_use]
    pub fn operator(&self, name: &str) -> Option<OpKind> {
        let own = self
            .kinds
            .get(name)
            .or_else(|| self.kinds.get(name.strip_suffix("/WithoutBiases")?))
            .cloned();
        own.or_else(|| {
            made(
                name.rsplit_once('_')
                    .filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()))
                    .map_or(name, |(kind, _)| kind),
            )
        })
    }

    /// The kind of an executed node: its layer type, its own name, and the comma-separated names of
    /// its original operators.
    #[must_use]
    pub fn kind(&self, layer_type: &str, name: &str, originals: &str) -> OpKind {
        let inside: Vec<OpKind> = originals
            .split(',')
            .chain([name])
            .filter(|n| !n.is_empty())
            .filter_map(|n| self.operator(n))
            .collect();
        kind(layer_type, &inside)
    }
}

/// The reduction before a Reshape that restores its dimensions: the two run as one, under the name
/// of the second.
fn reduced(graph: &Graph, node: &Node) -> Option<OpKind> {
    let before =
        graph.producer(*node.inputs.first()?).filter(|_| node.op.kind == OpKind::Reshape)?;
    before.op.kind.name().starts_with("reduce").then(|| before.op.kind.clone())
}

/// The kind of a kernel of this layer type made of these operators.
#[must_use]
pub fn kind(layer_type: &str, inside: &[OpKind]) -> OpKind {
    use OpKind as K;
    let first = |kinds: &[K]| inside.iter().find(|k| kinds.contains(k)).cloned();
    match layer_type {
        "Convolution" | "GroupConvolution" => K::Conv,
        "Deconvolution" => K::ConvTranspose,
        "FullyConnected"
        | "FullyConnectedCompressed"
        | "FullyConnectedQuantized"
        | "FullyConnectedQuantizedLegacy" => K::Linear,
        "MatMul" => K::MatMul,
        "ScaledDotProductAttention" | "MHA" => K::Attention,
        "Subgraph" => subgraph(inside),
        "Eltwise" | "PReLU" | "Math" | "FakeQuantize" => K::Elementwise,
        "Softmax" | "LogSoftmax" => K::Softmax,
        "MVN" => K::LayerNorm,
        "RMS" | "RMSNorm" => K::RmsNorm,
        "NormalizeL2" => K::LpNorm,
        "GroupNormalization" => K::GroupNorm,
        "Pooling" | "AdaptivePooling" if first(&[K::MaxPool, K::GlobalMaxPool]).is_some() => {
            K::MaxPool
        }
        "Pooling" | "AdaptivePooling" => K::AveragePool,
        "Reduce" => first(&[K::ReduceSum, K::ReduceMax, K::ReduceMin, K::ReduceL2, K::ReduceProd])
            .unwrap_or(K::ReduceMean),
        "TopK" => first(&[K::ArgMax]).unwrap_or(K::TopK),
        "CumSum" => K::CumSum,
        "Concatenation" => K::Concat,
        "Split" => K::Split,
        "StridedSlice" => K::Slice,
        "Gather" => K::Gather,
        "GatherND" => K::GatherNd,
        "GatherElements" => K::GatherElements,
        "ScatterNDUpdate" | "ScatterUpdate" | "ScatterElementsUpdate" => K::ScatterNd,
        "Transpose" => K::Transpose,
        "Reshape" => K::Reshape,
        "Pad" => K::Pad,
        "Interpolate" => K::Resize,
        "GridSample" => K::GridSample,
        "DepthToSpace" => K::DepthToSpace,
        "SpaceToDepth" => K::SpaceToDepth,
        "Col2Im" => K::Col2Im,
        "Tile" => K::Tile,
        "Broadcast" => K::Expand,
        "Convert" => K::Cast,
        "Reorder" => K::Reorder,
        "ShapeOf" => K::Shape,
        "Range" => K::Range,
        "NonZero" => K::NonZero,
        other => K::Unsupported(other.to_owned()),
    }
}

/// A Subgraph is called after the most expensive thing in it. Of the two products around a softmax,
/// one may have lost its name.
fn subgraph(inside: &[OpKind]) -> OpKind {
    let products = inside
        .iter()
        .filter(|k| matches!(k, OpKind::MatMul | OpKind::Einsum | OpKind::Linear))
        .count();
    match (products, inside.contains(&OpKind::Softmax)) {
        (0, true) => OpKind::Softmax,
        (0, false) => OpKind::Elementwise,
        (1, false) => OpKind::MatMul,
        _ => OpKind::Attention,
    }
}

/// The operator that a transformation made, from its type.
fn made(operator: &str) -> Option<OpKind> {
    use OpKind as K;
    Some(match operator {
        "MatMul" => K::MatMul,
        "Softmax" => K::Softmax,
        "MaxPool" => K::MaxPool,
        "AvgPool" => K::AveragePool,
        "ReduceMean" => K::ReduceMean,
        "ReduceSum" => K::ReduceSum,
        "ReduceMax" => K::ReduceMax,
        "ReduceMin" => K::ReduceMin,
        "ReduceL2" => K::ReduceL2,
        "Multiply" => K::Mul,
        "Add" => K::Add,
        "Subtract" => K::Sub,
        "Divide" => K::Div,
        "Power" => K::Pow,
        "Sqrt" => K::Sqrt,
        "Swish" => K::Silu,
        "HSwish" => K::HardSwish,
        "HSigmoid" => K::HardSigmoid,
        "Gelu" => K::Gelu,
        "Clamp" => K::Clip,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_executed_nodes() {
        let mut b = crate::GraphBuilder::new("names");
        let x = b.input("x", crate::TensorSpec::f32([1, 3, 8, 8]));
        let Ok(y) = b.unary("pool", OpKind::GlobalMaxPool, x) else { panic!("pools") };
        let Ok(z) = b.unary("softmax_1", OpKind::Softmax, y) else { panic!("a softmax") };
        let Ok(graph) = b.finish(vec![z]) else { panic!("a chain is a graph") };
        let names = Names::of(&graph);
        let cases = [
            ("Pooling", "pool", "pool", OpKind::MaxPool),
            ("Pooling", "AvgPool_3", "", OpKind::AveragePool),
            ("Reduce", "ReduceMax_71", "ReduceMax_71", OpKind::ReduceMax),
            ("Reduce", "unheard", "of", OpKind::ReduceMean),
            ("Subgraph", "softmax_1", "Multiply_2,softmax_1", OpKind::Softmax),
            ("Subgraph", "b", "Multiply_1,softmax_1,MatMul_2,", OpKind::Attention),
            ("Subgraph", "b", "a,b", OpKind::Elementwise),
            ("Mystery", "m", "m", OpKind::Unsupported("Mystery".to_owned())),
        ];
        for (layer, name, originals, kind) in cases {
            assert_eq!(names.kind(layer, name, originals), kind, "{layer} {name}");
        }
    }
}

//! Activations that ONNX Runtime fuses at its second level: Gelu, BiasGelu, QuickGelu, and
//! HardSwish, which it decomposes where it cannot fuse it.

use crate::{
    Attribute, Attributes, OpKind, ValueId,
    patterns::{
        activation,
        rewriter::{NodeIndex, Rewriter},
    },
};

/// Marks a kernel of ONNX Runtime's own, which its transpose optimizer does not handle. Gone at the
/// end of lowering.
pub(super) const FUSED: &str = "fused";

fn fused() -> Attributes {
    Attributes::new().with_int(FUSED, 1)
}

/// `x / 2 * (1 + erf(x / sqrt 2))` becomes the engine's own Gelu. Whether anything changed.
pub(super) fn gelu(graph: &mut Rewriter) -> bool {
    fuse_gelu(graph, &fused())
}

/// The same with ONNX's Gelu, where the file's operator set has it.
pub(super) fn onnx_gelu(graph: &mut Rewriter) -> bool {
    fuse_gelu(graph, &Attributes::new())
}

fn fuse_gelu(graph: &mut Rewriter, attributes: &Attributes) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some(span) = activation::erf_gelu(graph, index, true)
            .filter(|s| engine_fuses(graph, index, s.input))
        else {
            continue;
        };
        changed |= graph
            .fuse("gelu", OpKind::Gelu, attributes.clone(), vec![span.input], span.output)
            .is_some();
    }
    changed
}

/// Of the possible orders of a decomposed GELU, the engine fuses `x * (1 + erf) * 0.5`, unless x
/// itself comes from a Mul, and `(x * 0.5) * (1 + erf)`.
fn engine_fuses(graph: &Rewriter, erf: NodeIndex, x: ValueId) -> bool {
    let factor = graph
        .ends(erf)
        .and_then(|(_, v)| graph.only_consumer(v))
        .and_then(|add| graph.ends(add))
        .map(|(_, factor)| factor);
    let other =
        factor.and_then(|f| graph.only_consumer(f).and_then(|mul| graph.other_input(mul, f)));
    other.is_some_and(|v| {
        graph.scalar(v).is_none() && (v != x || graph.producer_of(v, &OpKind::Mul).is_none())
    })
}

/// A Gelu of x plus a vector becomes BiasGelu. Whether anything changed.
pub(super) fn bias_gelu(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some((sum, output)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Gelu))
        else {
            continue;
        };
        let Some(add) = graph
            .producer_of(sum, &OpKind::Add)
            .filter(|_| graph.only_consumer(sum) == Some(index))
        else {
            continue;
        };
        let Some([a, b]) =
            graph.node(add).and_then(|n| <[ValueId; 2]>::try_from(n.inputs.as_slice()).ok())
        else {
            continue;
        };
        let is_bias = |v: ValueId, x: ValueId| {
            graph.shape(v).len() == 1
                && graph.shape(x).len() > 1
                && graph.shape(v).last() == graph.shape(x).last()
        };
        let (x, bias) = match (is_bias(b, a), is_bias(a, b)) {
            (true, _) => (a, b),
            (_, true) => (b, a),
            _ => continue,
        };
        changed |= graph
            .fuse("bias_gelu", OpKind::Gelu, fused().with_int("bias", 1), vec![x, bias], output)
            .is_some();
    }
    changed
}

/// `x * sigmoid(x)` and `x * sigmoid(alpha * x)` become QuickGelu, vitempo's SiLU. Whether anything
/// changed.
pub(super) fn quick_gelu(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if graph.is(index, &OpKind::Sigmoid) {
            changed |= fuse_quick_gelu(graph, index).is_some();
        }
    }
    changed
}

fn fuse_quick_gelu(graph: &mut Rewriter, sigmoid: NodeIndex) -> Option<()> {
    let (gate, gated) = graph.ends(sigmoid)?;
    let mul = graph.only_consumer(gated).filter(|&n| graph.is(n, &OpKind::Mul))?;
    let (x, (_, output)) = (graph.other_input(mul, gated)?, graph.ends(mul)?);
    let attributes = if x == gate {
        Attributes::new()
    } else {
        let scale = graph
            .producer_of(gate, &OpKind::Mul)
            .filter(|_| graph.only_consumer(gate) == Some(sigmoid))?;
        let (alpha, _) = graph.scalar_operand(scale).filter(|&(_, scaled)| scaled == x)?;
        Attributes::new().with("alpha", Attribute::Float(f64::from(alpha as f32)))
    };
    graph.fuse("silu", OpKind::Silu, attributes, vec![x], output).map(|_| ())
}

/// There is no kernel for HardSwish: it runs as HardSigmoid and Mul.
pub(super) fn spell_out_hard_swish(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((x, output)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::HardSwish))
        else {
            continue;
        };
        let tensor = graph.tensor(x).cloned();
        graph.remove(index);
        let sixth = Attribute::Float(f64::from(1.0f32 / 6.0));
        let attributes = Attributes::new().with("alpha", sixth).with("beta", Attribute::Float(0.5));
        let gate =
            graph.add_with_output("hard_sigmoid", OpKind::HardSigmoid, attributes, vec![x], tensor);
        graph.add("hard_swish", OpKind::Mul, Attributes::new(), vec![x, gate], vec![output]);
    }
}

//! The kernels LiteRT 2.3 runs for a graph on the CPU, derived from the .tflite model that is
//! written for it ([`crate::tflite`]).
//!
//! `litert-builtin`: one kernel per operator of that model. `litert`: the operators XNNPACK takes
//! (`delegation`) in the parts the interpreter cuts the model into ([`partition`]), one kernel per
//! operator except those that XNNPACK fuses into a neighbour (`elision`, [`fusion`]), and one per
//! operator that it does not take. Half precision is XNNPACK's own: its parts compute in it and are
//! surrounded by conversions.
//!
//! In int8, attention's products read floats. XNNPACK lets them read the integers where the zero
//! point of the right side is 0, which depends on the weights: only the precision of that input
//! changes then.

mod delegation;
pub mod elision;
pub mod fusion;
pub mod partition;
mod readership;

use crate::tflite::{self, TfliteError};
use crate::{
    Attribute, Attributes, Budget, Graph, Node, OpKind, OpSpec, Operand, Precision, TensorSpec,
    ValueId, ValueSource,
};
use fusion::Fused;
use readership::{Inside, Readership};
use std::{borrow::Cow, collections::HashSet};

/// Steps of the budget for cutting a model into parts and fusing them, per operator.
const STEPS_PER_OPERATOR: u64 = 8;

/// A kernel with the name of its node or value.
pub type Named = (String, OpSpec);

/// The kernels for `graph`; `xnnpack`: not the interpreter's own.
///
/// # Errors
/// [`TfliteError`] where the graph has no .tflite form.
pub fn lower(graph: &Graph, xnnpack: bool, precision: Precision) -> Result<Graph, TfliteError> {
    lower_within(graph, xnnpack, precision, &Budget::default())
}

/// [`lower`] within a budget.
///
/// # Errors
/// As [`lower`], and [`TfliteError::Exceeded`] when the budget is spent.
pub fn lower_within(
    graph: &Graph,
    xnnpack: bool,
    precision: Precision,
    budget: &Budget,
) -> Result<Graph, TfliteError> {
    let (operators, codes) = tflite::plan_within(graph, precision, budget)?;
    if !xnnpack {
        return Ok(operators);
    }
    budget.steps(STEPS_PER_OPERATOR * codes.len() as u64)?;
    let readership = Readership::of(&operators);
    let builtin = delegation::builtin(&operators, &codes);
    let mut kernels = Vec::with_capacity(codes.len());
    for part in partition::sequence(&operators, &builtin) {
        if part.builtin {
            kernels.extend(
                part.operators
                    .into_iter()
                    .map(|i| &operators.nodes()[i])
                    .map(|node| (node.name.clone(), node.op.clone())),
            );
        } else {
            let half = precision == Precision::F16;
            kernels.extend(part_kernels(&operators, &readership, &codes, &part.operators, half));
        }
    }
    listed(graph.name(), kernels)
}

/// The kernels of one part XNNPACK runs.
fn part_kernels(
    operators: &Graph,
    readership: &Readership,
    codes: &[&str],
    part: &[usize],
    half: bool,
) -> Vec<(String, OpSpec)> {
    let with_kernels = elision::with_kernels_among(operators, readership, codes, part, half);
    let readers = Cow::Borrowed(readership);
    let fused = Fused::among(operators, readers, codes, part, &with_kernels);
    let one =
        |&index: &usize| Some((operators.nodes()[index].name.clone(), fused.spec(index)?.clone()));
    let kernels: Vec<(String, OpSpec)> = with_kernels.iter().filter_map(one).collect();
    if !half {
        return kernels;
    }
    let (before, after) = casts_among(operators, readership, part);
    let halves = kernels.into_iter().map(|(name, spec)| (name, halved(spec)));
    before.into_iter().chain(halves).chain(after).collect()
}

/// The conversions around a part that computes in half precision, each with the name of the value:
/// of its inputs, and of its outputs with other readers.
#[must_use]
pub fn casts(operators: &Graph, part: &[usize]) -> (Vec<Named>, Vec<Named>) {
    casts_among(operators, &Readership::of(operators), part)
}

fn casts_among(
    operators: &Graph,
    readership: &Readership,
    part: &[usize],
) -> (Vec<Named>, Vec<Named>) {
    let (read, written) = rim(&Inside::of(operators, readership, part), part);
    let all = |ids: Vec<ValueId>, to: Precision| {
        ids.into_iter().filter_map(|id| cast(operators, id, to)).collect()
    };
    (all(read, Precision::F16), all(written, Precision::F32))
}

/// The computed values a part reads from outside, and those others read of it.
fn rim(inside: &Inside<'_>, part: &[usize]) -> (Vec<ValueId>, Vec<ValueId>) {
    let nodes = inside.operators.nodes();
    let outside = |id: &ValueId| match inside.operators.value(*id).source {
        ValueSource::Node(index) => !inside.has(index as usize),
        ValueSource::Input => true,
        ValueSource::Constant(_) => false,
    };
    let mut seen = HashSet::new();
    let read = part
        .iter()
        .flat_map(|&i| nodes[i].inputs.iter().copied())
        .filter(|id| outside(id) && seen.insert(*id))
        .collect();
    let wanted = |id: &ValueId| {
        inside.readership.is_returned(*id)
            || inside.readership.readers(*id).iter().any(|&reader| !inside.has(reader))
    };
    let written =
        part.iter().flat_map(|&i| nodes[i].outputs.iter().copied()).filter(wanted).collect();
    (read, written)
}

fn cast(operators: &Graph, id: ValueId, to: Precision) -> Option<(String, OpSpec)> {
    let value = operators.value(id);
    let tensor = value.tensor.as_ref().filter(|t| t.precision == Precision::F32)?;
    let from = if to == Precision::F32 { Precision::F16 } else { Precision::F32 };
    let typed = |precision| TensorSpec { precision, ..tensor.clone() };
    let attributes = Attributes::new().with("to", Attribute::Text(to.name().to_owned()));
    let inputs = vec![Operand { tensor: typed(from), constant: false }];
    Some((
        value.name.clone(),
        OpSpec { kind: OpKind::Cast, attributes, inputs, outputs: vec![typed(to)] },
    ))
}

/// The same kernel in half precision.
#[must_use]
pub fn halved(mut spec: OpSpec) -> OpSpec {
    let tensors = spec.inputs.iter_mut().map(|i| &mut i.tensor).chain(&mut spec.outputs);
    tensors.filter(|t| t.precision == Precision::F32).for_each(|t| t.precision = Precision::F16);
    spec
}

/// A graph of kernels without connections: fused operators have no values of their own.
fn listed(name: &str, kernels: Vec<(String, OpSpec)>) -> Result<Graph, TfliteError> {
    let mut values = Vec::new();
    let (mut nodes, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut value = |name: String, tensor: TensorSpec, source: ValueSource| {
        values.push(crate::Value { name, tensor: Some(tensor), source });
        ValueId(values.len() as u32 - 1)
    };
    for (index, (name, op)) in kernels.into_iter().enumerate() {
        let read: Vec<ValueId> = op
            .inputs
            .iter()
            .enumerate()
            .map(|(i, o)| {
                value(
                    format!("{index}/in{i}"),
                    o.tensor.clone(),
                    if o.constant { ValueSource::Constant(None) } else { ValueSource::Input },
                )
            })
            .collect();
        inputs.extend(read.iter().zip(&op.inputs).filter(|(_, o)| !o.constant).map(|(id, _)| *id));
        let made: Vec<ValueId> = op
            .outputs
            .iter()
            .enumerate()
            .map(|(i, t)| {
                value(format!("{index}/out{i}"), t.clone(), ValueSource::Node(index as u32))
            })
            .collect();
        outputs.extend(&made);
        nodes.push(Node { name, op, written: None, inputs: read, outputs: made });
    }
    Ok(Graph::new(name, values, nodes, inputs, outputs)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::GraphBuilder;

    /// An image through a padded convolution with ReLU, a sum with ReLU, a resize by nearest that
    /// XNNPACK does not take, and a mean.
    fn model() -> Graph {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4, 8, 8]));
        let y = b.conv("conv", x, 4, 3, 2, 1, 1, true).unwrap();
        let y = b.op("relu", OpKind::Relu, Attributes::new(), &[y]).unwrap();
        let sum = b.binary("sum", OpKind::Add, y, y).unwrap();
        let y = b.op("relu2", OpKind::Relu, Attributes::new(), &[sum]).unwrap();
        let text = |t: &str| Attribute::Text(t.to_owned());
        let nearest = Attributes::new()
            .with("mode", text("nearest"))
            .with("coordinate_transformation_mode", text("asymmetric"))
            .with("nearest_mode", text("floor"));
        let y = b.op("up", OpKind::Resize, nearest.with_ints("sizes", [1, 4, 8, 8]), &[y]).unwrap();
        let y = b.op("pool", OpKind::GlobalAveragePool, Attributes::new(), &[y]).unwrap();
        b.finish(vec![y]).unwrap()
    }

    fn names(graph: &Graph) -> Vec<String> {
        graph.nodes().iter().map(|n| format!("{} {}", n.name, n.op.kind)).collect()
    }

    #[test]
    fn xnnpack_fuses_padding_and_clamps_of_products_only() {
        let kernels = lower(&model(), true, Precision::F32).unwrap();
        assert_eq!(
            names(&kernels),
            ["conv conv", "sum add", "relu2 relu", "up resize", "pool reduce_mean"]
        );
        let conv = &kernels.nodes()[0].op;
        assert_eq!(
            (conv.attributes.ints("pads"), conv.attributes.text("activation")),
            (&[1, 1, 1, 1][..], Some("relu"))
        );
        assert_eq!(conv.inputs[0].tensor.shape[..], [1, 4, 8, 8]);
    }

    #[test]
    fn its_own_kernels_are_the_operators_of_the_file() {
        let kernels = lower(&model(), false, Precision::F32).unwrap();
        assert_eq!(
            names(&kernels),
            ["conv pad", "conv conv", "sum add", "relu2 relu", "up resize", "pool reduce_mean"]
        );
    }

    #[test]
    fn integers_are_converted_where_floats_begin() {
        let kernels = lower(&model(), true, Precision::I8).unwrap();
        let kinds: Vec<String> =
            kernels.nodes().iter().map(|n| format!("{} {}", n.op.kind, n.op.precision())).collect();
        assert_eq!(
            kinds[..4],
            ["quantize i8", "conv i8", "add i8", "dequantize f32"].map(str::to_owned)
        );
        assert!(kinds[4..].iter().all(|k| k.ends_with("f32")), "{kinds:?}");
    }

    #[test]
    fn parts_in_half_precision_are_surrounded_by_casts() {
        let kernels = lower(&model(), true, Precision::F16).unwrap();
        let kinds: Vec<String> =
            kernels.nodes().iter().map(|n| format!("{} {}", n.op.kind, n.op.precision())).collect();
        assert_eq!(
            kinds,
            [
                "cast f16",
                "pad f16",
                "conv f16",
                "add f16",
                "relu f16",
                "cast f32",
                "resize f32",
                "cast f16",
                "reduce_mean f16",
                "cast f32"
            ]
        );
    }
}

//! Normalisations: MVN with a scale and a shift after it where the plugin has such an MVN,
//! otherwise mean, difference and RMS.

use crate::{
    Attribute, Attributes, ConstantData, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Decomposes all normalisations.
pub(super) fn spell_out(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let _ = match node.op.kind {
            OpKind::LayerNorm => layer_norm(graph, index),
            OpKind::InstanceNorm => instance_norm(graph, index),
            OpKind::GroupNorm => group_norm(graph, index),
            OpKind::BatchNorm => batch_norm(graph, index),
            _ => None,
        };
    }
}

/// Whether the plugin normalises all dimensions from `axis` on in one kernel.
fn has_kernel(rank: usize, axis: usize) -> bool {
    match rank {
        1 => axis == 0,
        2 => axis == 1,
        3..=5 => axis == 1 || axis == 2,
        _ => false,
    }
}

/// A scale or shift after `x`; returns its output.
fn affine(
    graph: &mut Rewriter,
    name: &str,
    kind: OpKind,
    x: ValueId,
    parameter: ValueId,
) -> ValueId {
    let tensor = graph.tensor(x).cloned();
    graph.add_with_output(name, kind, Attributes::new(), vec![x, parameter], tensor)
}

/// The same parameter in another shape.
fn reshaped(graph: &mut Rewriter, parameter: ValueId, shape: Vec<usize>) -> ValueId {
    let data = graph.data(parameter).cloned();
    graph.constant("parameter", TensorSpec::f32(shape), data)
}

fn ones(graph: &Rewriter, value: ValueId, number: f64) -> bool {
    matches!(graph.data(value), Some(ConstantData::Floats(v)) if !v.is_empty() && v.iter().all(|&x| x == number))
}

fn layer_norm(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?.clone();
    let (x, output) = graph.ends(index)?;
    let axis = usize::try_from(node.op.attributes.int("axis")?).ok()?;
    let shape = graph.shape(x).to_vec();
    let tensor = graph.tensor(x)?.clone();
    let (scale, bias) = (node.inputs.get(1).copied(), node.inputs.get(2).copied());
    if node.outputs.len() > 1 || axis >= shape.len() {
        return None;
    }
    let parameter: Vec<usize> =
        shape.iter().enumerate().map(|(i, &d)| if i < axis { 1 } else { d }).collect();
    let scale =
        scale.filter(|&v| !ones(graph, v, 1.0)).map(|v| reshaped(graph, v, parameter.clone()));
    let bias = bias.filter(|&v| !ones(graph, v, 0.0)).map(|v| reshaped(graph, v, parameter));
    graph.remove(index);
    let attributes = Attributes::new()
        .with_int("axis", axis as i64)
        .with("epsilon", Attribute::Float(node.op.attributes.float("epsilon").unwrap_or(1e-5)));
    let mut last = if has_kernel(shape.len(), axis) {
        let mvn =
            graph.add_with_output(&node.name, OpKind::LayerNorm, attributes, vec![x], Some(tensor));
        scale.map_or(mvn, |s| affine(graph, &format!("{}/scale", node.name), OpKind::Mul, mvn, s))
    } else {
        let axes: Vec<i64> = (axis..shape.len()).map(|a| a as i64).collect();
        let mut reduced = tensor.clone();
        reduced.shape[axis..].fill(1);
        let keep = Attributes::new().with_ints("axes", axes).with_int("keepdims", 1);
        let mean = graph.add_with_output(
            &format!("{}/mean", node.name),
            OpKind::ReduceMean,
            keep,
            vec![x],
            Some(reduced),
        );
        let centred = graph.add_with_output(
            &format!("{}/centred", node.name),
            OpKind::Sub,
            Attributes::new(),
            vec![x, mean],
            Some(tensor.clone()),
        );
        let inputs = [Some(centred), scale].into_iter().flatten().collect();
        graph.add_with_output(&node.name, OpKind::RmsNorm, attributes, inputs, Some(tensor))
    };
    if let Some(bias) = bias {
        last = affine(graph, &format!("{}/shift", node.name), OpKind::Add, last, bias);
    }
    graph.replace_value(output, last);
    Some(())
}

fn instance_norm(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?.clone();
    let (x, output) = graph.ends(index)?;
    let shape = graph.shape(x).to_vec();
    let per_channel: Vec<usize> =
        shape.iter().enumerate().map(|(i, &d)| if i == 1 { d } else { 1 }).collect();
    let tensor = graph.tensor(x).cloned();
    graph.remove(index);
    let attributes = Attributes::new()
        .with_int("axis", 2)
        .with("epsilon", Attribute::Float(node.op.attributes.float("epsilon").unwrap_or(1e-5)));
    let mut last =
        graph.add_with_output(&node.name, OpKind::LayerNorm, attributes, vec![x], tensor);
    for (kind, parameter, neutral) in
        [(OpKind::Mul, node.inputs.get(1), 1.0), (OpKind::Add, node.inputs.get(2), 0.0)]
    {
        if let Some(&parameter) = parameter.filter(|&&v| !ones(graph, v, neutral)) {
            let parameter = reshaped(graph, parameter, per_channel.clone());
            last = affine(graph, &format!("{}/{kind}", node.name), kind, last, parameter);
        }
    }
    graph.replace_value(output, last);
    Some(())
}

fn group_norm(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?.clone();
    let (x, output) = graph.ends(index)?;
    let tensor = graph.tensor(x)?.clone();
    let groups = usize::try_from(node.op.attributes.int("groups")?).ok().filter(|&g| g > 0)?;
    let batch = *tensor.shape.first()?;
    let grouped = vec![batch, groups, tensor.shape.iter().skip(1).product::<usize>() / groups];
    let per_channel: Vec<usize> =
        tensor.shape.iter().enumerate().map(|(i, &d)| if i == 1 { d } else { 1 }).collect();
    let [scale, bias] =
        [1, 2].map(|i| node.inputs.get(i).map(|&v| reshaped(graph, v, per_channel.clone())));
    graph.remove(index);
    let view = |shape: &[usize]| {
        Attributes::new().with_ints("shape", shape.iter().map(|&d| d as i64).collect::<Vec<_>>())
    };
    let attributes = Attributes::new()
        .with_int("axis", 2)
        .with("epsilon", Attribute::Float(node.op.attributes.float("epsilon").unwrap_or(1e-5)));
    let inner = Some(TensorSpec::f32(grouped.clone()));
    let split = graph.add_with_output(
        &format!("{}/groups", node.name),
        OpKind::Reshape,
        view(&grouped),
        vec![x],
        inner.clone(),
    );
    let mvn = graph.add_with_output(&node.name, OpKind::LayerNorm, attributes, vec![split], inner);
    let mut last = graph.add_with_output(
        &format!("{}/whole", node.name),
        OpKind::Reshape,
        view(&tensor.shape),
        vec![mvn],
        Some(tensor),
    );
    for (kind, parameter) in [(OpKind::Mul, scale), (OpKind::Add, bias)] {
        if let Some(parameter) = parameter {
            last = affine(graph, &format!("{}/{kind}", node.name), kind, last, parameter);
        }
    }
    graph.replace_value(output, last);
    Some(())
}

/// A batch norm is a scale and a shift per channel; convolutions before it take these in.
fn batch_norm(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?.clone();
    let (x, output) = graph.ends(index)?;
    let shape = graph.shape(x).to_vec();
    let per_channel: Vec<usize> =
        shape.iter().enumerate().map(|(i, &d)| if i == 1 { d } else { 1 }).collect();
    graph.remove(index);
    let scale = graph.constant("scale", TensorSpec::f32(per_channel.clone()), None);
    let shift = graph.constant("shift", TensorSpec::f32(per_channel), None);
    let scaled = affine(graph, &format!("{}/scale", node.name), OpKind::Mul, x, scale);
    let last = affine(graph, &node.name, OpKind::Add, scaled, shift);
    graph.replace_value(output, last);
    Some(())
}

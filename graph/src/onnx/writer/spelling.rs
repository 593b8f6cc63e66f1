//! The ONNX operator of a reshape or padding as its file had it ([`Written`]): an engine's
//! optimizer treats Squeeze, Unsqueeze, Flatten and Reshape differently. And operators that operator
//! set 20 has in another form: Softmax as it was before 13, GroupNormalization as it is since 21.
//!
//! Axes are not part of a graph. They follow from the shapes; where the shapes no longer fit the
//! file's form, because the graph was changed since, a plain Reshape is written.

use super::operators::{Emitter, attribute};
use super::tensors;
use crate::shape::ones_added;
use crate::{Attribute, Node, OpKind, OpSpec, TensorSpec, Written};

/// The input of a Pad that is its value.
const PAD_VALUE: usize = 2;

/// The form in which a reshape or padding is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Takes these dimensions of the input away.
    Squeeze(Vec<i64>),
    /// Adds these dimensions of the output.
    Unsqueeze(Vec<i64>),
    /// The dimensions before this one become the first, the others the second.
    Flatten(i64),
    /// With the attribute `allowzero`.
    ReshapeAllowingZero,
    /// Input 2, the value, is listed without a name.
    PadWithEmptyValue,
    /// Over all dimensions from this one on, as before operator set 13: on a matrix.
    SoftmaxOfMatrix(i64),
    /// With a scale per channel, as since operator set 21.
    GroupNormByChannel(i64),
}

/// The form of a node, if it is another than that of its kind.
pub(super) fn of(node: &Node) -> Option<Spelling> {
    let op = &node.op;
    match op.kind {
        OpKind::Softmax if op.attributes.int("coerce") == Some(1) => {
            return op.attributes.int("axis").map(Spelling::SoftmaxOfMatrix);
        }
        OpKind::GroupNorm if scales(op) == Some(Scales::Channels) => {
            return op.attributes.int("groups").map(Spelling::GroupNormByChannel);
        }
        _ => {}
    }
    let shape = |tensor: Option<&TensorSpec>| tensor.map(|t| t.shape.to_vec());
    let (from, to) = (shape(op.inputs.first().map(|i| &i.tensor))?, shape(op.outputs.first())?);
    let axes = |axes: Vec<usize>| axes.into_iter().map(|axis| axis as i64).collect();
    match (&op.kind, node.written?) {
        (OpKind::Reshape, Written::Squeeze) => {
            ones_added(&to, &from).map(|taken| Spelling::Squeeze(axes(taken)))
        }
        (OpKind::Reshape, Written::Unsqueeze) => {
            ones_added(&from, &to).map(|added| Spelling::Unsqueeze(axes(added)))
        }
        (OpKind::Reshape, Written::Flatten) => flattened(&from, &to).map(Spelling::Flatten),
        (OpKind::Reshape, Written::ReshapeAllowingZero) => {
            let is_open = op.attributes.ints("shape").contains(&-1);
            (!is_open).then_some(Spelling::ReshapeAllowingZero)
        }
        (OpKind::Pad, Written::PadWithEmptyValue) => {
            (!op.attributes.has("value")).then_some(Spelling::PadWithEmptyValue)
        }
        _ => None,
    }
}

/// What a GroupNorm has one scale for, where groups and channels are not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scales {
    Groups,
    Channels,
}

pub(super) fn scales(op: &OpSpec) -> Option<Scales> {
    let [x, scale, ..] = op.inputs.as_slice() else { return None };
    let channels = *x.tensor.shape.get(1)? as u64;
    let groups = u64::try_from(op.attributes.int("groups")?).ok()?;
    let found = scale.tensor.elements();
    match found {
        _ if op.kind != OpKind::GroupNorm || groups == channels => None,
        _ if found == channels => Some(Scales::Channels),
        _ if found == groups => Some(Scales::Groups),
        _ => None,
    }
}

/// Refuses attributes that the form of an operator does not have.
fn only(op: &OpSpec, known: &[&str]) -> Result<(), String> {
    match op.attributes.0.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("ONNX has no attribute `{name}` for it")),
        None => Ok(()),
    }
}

/// The axis of a Flatten between these shapes: 1, which is ONNX's default, if that fits.
fn flattened(from: &[usize], to: &[usize]) -> Option<i64> {
    let product = |dims: &[usize]| dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let fits = |&at: &usize| {
        let (before, behind) = from.split_at(at);
        to.len() == 2 && product(before) == Some(to[0]) && product(behind) == Some(to[1])
    };
    let default = 1.min(from.len());
    std::iter::once(default).chain(0..=from.len()).find(fits).map(|axis| axis as i64)
}

impl Emitter {
    /// A reshape or padding in the form that its file had.
    pub(super) fn spelled(
        &mut self,
        node: &Node,
        spelling: Spelling,
        mut inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Result<(), String> {
        match spelling {
            Spelling::SoftmaxOfMatrix(axis) => {
                return self.softmax_of_matrix(node, axis, inputs, outputs);
            }
            Spelling::GroupNormByChannel(groups) => {
                only(&node.op, &["groups", "epsilon"])?;
                let epsilon = node.op.attributes.float("epsilon");
                let mut attributes = vec![attribute("num_groups", &Attribute::Int(groups))];
                attributes.extend(epsilon.map(|e| attribute("epsilon", &Attribute::Float(e))));
                self.push(node.name.clone(), "GroupNormalization", inputs, outputs, attributes);
                return Ok(());
            }
            _ => {}
        }
        let axes_of = outputs.first().cloned().unwrap_or_else(|| node.name.clone());
        let axes = |axes: &[i64]| tensors::integers(format!("{axes_of}/axes"), axes, false);
        let (op_type, attributes) = match spelling {
            Spelling::Squeeze(taken) => {
                self.steer(&mut inputs, 1, axes(&taken));
                ("Squeeze", Vec::new())
            }
            Spelling::Unsqueeze(added) => {
                self.steer(&mut inputs, 1, axes(&added));
                ("Unsqueeze", Vec::new())
            }
            Spelling::Flatten(axis) => ("Flatten", vec![attribute("axis", &Attribute::Int(axis))]),
            _ => {
                self.one(node, inputs, outputs)?;
                let Some(written) = self.nodes.last_mut() else { return Ok(()) };
                if spelling == Spelling::PadWithEmptyValue {
                    written.input.resize(PAD_VALUE + 1, String::new());
                } else {
                    written.attribute.push(attribute("allowzero", &Attribute::Int(1)));
                }
                return Ok(());
            }
        };
        self.push(node.name.clone(), op_type, inputs, outputs, attributes);
        Ok(())
    }

    /// Flatten, Softmax or LogSoftmax, and a Reshape to the input's shape.
    fn softmax_of_matrix(
        &mut self,
        node: &Node,
        axis: i64,
        inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Result<(), String> {
        let op = &node.op;
        only(op, &["axis", "coerce", "log"])?;
        let ([output], Some(tensor)) = (outputs.as_slice(), op.outputs.first()) else {
            return Err("its output is not known".to_owned());
        };
        let op_type = if op.attributes.int("log") == Some(1) { "LogSoftmax" } else { "Softmax" };
        let [matrix, result] = ["flatten", "softmax"].map(|step| format!("{output}/{step}"));
        let along = |axis: i64| vec![attribute("axis", &Attribute::Int(axis))];
        let shape: Vec<i64> = tensor.shape.iter().map(|&d| d as i64).collect();
        let shape = tensors::integers(format!("{output}/shape"), &shape, false);
        let mut reshaped = vec![result.clone()];
        self.push(
            format!("{}/flatten", node.name),
            "Flatten",
            inputs,
            vec![matrix.clone()],
            along(axis),
        );
        self.push(node.name.clone(), op_type, vec![matrix], vec![result], along(1));
        self.steer(&mut reshaped, 1, shape);
        self.push(format!("{}/reshape", node.name), "Reshape", reshaped, outputs, Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_a_flatten_follows_from_the_shapes() {
        let cases: [(&[usize], &[usize], Option<i64>); 7] = [
            (&[1, 192, 1, 1], &[1, 192], Some(1)),
            (&[2, 3, 4], &[2, 12], Some(1)),
            (&[2, 3, 4], &[6, 4], Some(2)),
            (&[2, 3, 4], &[1, 24], Some(0)),
            (&[2, 3, 4], &[24, 1], Some(3)),
            (&[2, 3, 4], &[4, 6], None),
            (&[], &[1, 1], Some(0)),
        ];
        for (from, to, axis) in cases {
            assert_eq!(flattened(from, to), axis, "{from:?} {to:?}");
        }
    }
}

//! The ONNX operator of a reshape or padding as its file had it ([`Written`]): an engine's
//! optimizer treats Squeeze, Unsqueeze, Flatten and Reshape differently.
//!
//! Axes are not part of a graph. They follow from the shapes; where the shapes no longer fit the
//! file's form, because the graph was changed since, a plain Reshape is written.

use super::operators::{Emitter, attribute};
use super::tensors;
use crate::shape::ones_added;
use crate::{Attribute, Node, OpKind, TensorSpec, Written};

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
}

/// The form of a node, if it is another than that of its kind.
pub(super) fn of(node: &Node) -> Option<Spelling> {
    let op = &node.op;
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
            Spelling::ReshapeAllowingZero | Spelling::PadWithEmptyValue => {
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

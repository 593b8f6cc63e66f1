//! One node of a file as the operator maps read it: its attributes, and its inputs with the values
//! of those that parametrise it.

use super::domain::Mapped;
use super::payload::Limits;
use super::view::NodeView;
use crate::{Attribute, Attributes, ConstantData, OpKind, TensorSpec, Value, ValueSource};

/// A node and its inputs.
pub(super) struct Call<'a> {
    pub node: &'a NodeView<'a>,
    pub opset: i64,
    /// Parallel to `node.input`; `None` for an omitted optional input. Every tensor is known.
    pub inputs: &'a [Option<&'a Value>],
    /// Parallel to `inputs`: whether it is constant, also as a quantised weight behind its
    /// DequantizeLinear.
    pub constant: &'a [bool],
    pub limits: Limits,
}

/// The operator of a node.
pub(super) enum Mapping {
    Operator(Mapped),
    /// Known before the model runs.
    Constant(TensorSpec, Option<ConstantData>),
}

/// Why a node cannot be understood.
pub(super) enum Refusal {
    /// It is wrong.
    Invalid(String),
    /// Its output's shape is decided while the model runs.
    RunTime(String),
    /// A form of a supported operator that is not followed; its output is known.
    Form(String, TensorSpec),
    /// Its output's shape depends on a constant whose values are not in the file.
    Absent(String),
}

/// `None`: not an operator that vitempo supports.
pub(super) type Outcome = Result<Option<Mapping>, Refusal>;

/// An operator with these attributes, reading the present inputs of `operands`.
pub(super) fn operator(
    call: &Call<'_>,
    kind: OpKind,
    attributes: Attributes,
    operands: impl IntoIterator<Item = usize>,
) -> Outcome {
    let operands = operands.into_iter().filter(|&i| call.input(i).is_some()).collect();
    Ok(Some(Mapping::Operator(Mapped { kind, attributes, operands, outputs: None })))
}

impl<'a> Call<'a> {
    pub fn input(&self, index: usize) -> Option<&'a Value> {
        self.inputs.get(index).copied().flatten()
    }

    pub fn tensor(&self, index: usize) -> Result<&'a TensorSpec, Refusal> {
        self.input(index)
            .and_then(|v| v.tensor.as_ref())
            .ok_or_else(|| Refusal::Invalid(format!("input {index} is missing")))
    }

    pub fn is_constant(&self, index: usize) -> bool {
        self.constant.get(index).copied().unwrap_or(false)
    }

    /// The attributes of these names that the node has, unchanged. A `*` in front marks floats, a
    /// `$` text, a `#` lists of integers.
    pub fn attributes(&self, names: &[&str]) -> Attributes {
        let mut attributes = Attributes::new();
        for marked in names {
            let name = marked.trim_start_matches(['*', '$', '#']);
            let Some(a) = self.node.attribute(name) else { continue };
            let value = match marked.as_bytes().first() {
                Some(b'*') => Attribute::Float(f64::from(a.f)),
                Some(b'$') => Attribute::Text(String::from_utf8_lossy(a.s).into_owned()),
                Some(b'#') => Attribute::Ints(a.ints.as_slice().into()),
                _ => Attribute::Int(a.i),
            };
            attributes.set(name, value);
        }
        attributes
    }

    /// The values of input `index`, which decides about `what`; `None` when the input is omitted.
    fn steer(&self, index: usize, what: &str) -> Result<Option<&'a ConstantData>, Refusal> {
        let Some(value) = self.input(index) else { return Ok(None) };
        match &value.source {
            ValueSource::Constant(Some(data)) => Ok(Some(data)),
            ValueSource::Constant(None) => Err(Refusal::Absent(value.name.clone())),
            _ => Err(Refusal::RunTime(format!(
                "its {what} `{}` is computed while the model runs",
                value.name
            ))),
        }
    }

    /// The integers of input `index`.
    pub fn steer_ints(&self, index: usize, what: &str) -> Result<Option<Vec<i64>>, Refusal> {
        match self.steer(index, what)? {
            None => Ok(None),
            Some(ConstantData::Ints(v)) => Ok(Some(v.clone())),
            Some(ConstantData::Floats(_)) => {
                Err(Refusal::Invalid(format!("its {what} must be integers")))
            }
        }
    }

    /// The numbers of input `index`.
    pub fn steer_floats(&self, index: usize, what: &str) -> Result<Option<Vec<f64>>, Refusal> {
        Ok(self.steer(index, what)?.map(|data| match data {
            ConstantData::Ints(v) => v.iter().map(|&i| i as f64).collect(),
            ConstantData::Floats(v) => v.clone(),
        }))
    }

    /// The only integer of input `index`.
    pub fn steer_int(&self, index: usize, what: &str) -> Result<Option<i64>, Refusal> {
        match self.steer_ints(index, what)?.as_deref() {
            None => Ok(None),
            Some([one]) => Ok(Some(*one)),
            Some(many) => {
                Err(Refusal::Invalid(format!("its {what} must be one integer, not {}", many.len())))
            }
        }
    }

    /// A list of integers that older operator sets have as attribute `name`, newer ones as input
    /// `index`.
    pub fn ints_or_input(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>, Refusal> {
        match self.node.attribute(name) {
            Some(a) => Ok(Some(a.ints.clone())),
            None => self.steer_ints(index, name),
        }
    }

    /// A number that matters for the result only, not for a shape: an attribute or input `index`;
    /// `None` when it is not known.
    pub fn number(&self, name: &str, index: usize) -> Option<f64> {
        self.node.float(name).or_else(|| match &self.input(index)?.source {
            ValueSource::Constant(Some(ConstantData::Floats(v))) => v.first().copied(),
            ValueSource::Constant(Some(ConstantData::Ints(v))) => v.first().map(|&i| i as f64),
            _ => None,
        })
    }
}

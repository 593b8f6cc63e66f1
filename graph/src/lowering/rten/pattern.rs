//! Patterns over a [`Program`], matched as rten does: sums and products in any order and
//! bracketing, constants within 1e-4.

use super::program::{Op, Program};
use crate::{Attribute, Attributes, OpKind, ValueId};

/// rten's absolute tolerance for constants.
const TOLERANCE: f32 = 1e-4;

/// A pattern of a value.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Made by rten's operator of that name from such inputs; the name after it marks the operator.
    Op(&'static str, Vec<Pattern>, Option<&'static str>),
    /// A constant float of one element, within the tolerance.
    Number(f32),
    /// Anything; the same wherever the name comes up.
    Any(&'static str),
    /// Any constant; the same wherever the name comes up.
    Constant(&'static str),
    /// The first of these that fits.
    Either(Vec<Pattern>),
}

/// The bindings of a pattern's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Match {
    values: Vec<(&'static str, ValueId)>,
    ops: Vec<(&'static str, usize)>,
}

/// An operator of one input.
pub(super) fn unary(name: &'static str, x: Pattern) -> Pattern {
    Pattern::Op(name, vec![x], None)
}

/// An operator of two inputs.
pub(super) fn binary(name: &'static str, a: Pattern, b: Pattern) -> Pattern {
    Pattern::Op(name, vec![a, b], None)
}

/// A number, within rten's tolerance.
pub(super) fn number(value: f32) -> Pattern {
    Pattern::Number(value)
}

impl Match {
    /// The value bound to a name.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// The operator bound to a name.
    pub fn op<'p>(&self, name: &str, program: &'p Program) -> Option<&'p Op> {
        self.ops.iter().find(|(n, _)| *n == name).and_then(|(_, index)| program.op(*index))
    }
}

impl Pattern {
    /// The same pattern, its operator marked by a name.
    pub fn named(self, name: &'static str) -> Self {
        match self {
            Self::Op(op, inputs, _) => Self::Op(op, inputs, Some(name)),
            other => other,
        }
    }

    /// Whether the operator with this index is the last one of the pattern.
    pub fn test(&self, program: &Program, index: usize) -> Option<Match> {
        let mut found = Match::default();
        self.fits_op(program, index, &mut found).then_some(found)
    }

    fn fits_op(&self, program: &Program, index: usize, found: &mut Match) -> bool {
        match self {
            Self::Op(name, patterns, mark) => {
                let fits = program.op(index).is_some_and(|op| {
                    engine_name(op) == *name && inputs_fit(name, patterns, op, program, found)
                });
                if let (true, Some(mark)) = (fits, mark) {
                    found.ops.push((mark, index));
                }
                fits
            }
            Self::Either(patterns) => patterns
                .iter()
                .any(|pattern| attempt(found, |found| pattern.fits_op(program, index, found))),
            _ => false,
        }
    }

    fn fits(&self, program: &Program, value: ValueId, found: &mut Match) -> bool {
        match self {
            Self::Op(..) => {
                program.source(value).is_some_and(|(index, _)| self.fits_op(program, index, found))
            }
            Self::Number(wanted) => {
                program.scalar(value).is_some_and(|v| (v - wanted).abs() <= TOLERANCE)
            }
            Self::Constant(_) if !program.is_constant(value) => false,
            Self::Any(name) | Self::Constant(name) => match found.value(name) {
                Some(known) => known == value,
                None => {
                    found.values.push((name, value));
                    true
                }
            },
            Self::Either(patterns) => patterns
                .iter()
                .any(|pattern| attempt(found, |found| pattern.fits(program, value, found))),
        }
    }
}

/// Runs `test`, and drops its bindings if it fails.
fn attempt(found: &mut Match, test: impl FnOnce(&mut Match) -> bool) -> bool {
    let (values, ops) = (found.values.len(), found.ops.len());
    let fits = test(found);
    if !fits {
        found.values.truncate(values);
        found.ops.truncate(ops);
    }
    fits
}

fn inputs_fit(
    name: &'static str,
    patterns: &[Pattern],
    op: &Op,
    program: &Program,
    found: &mut Match,
) -> bool {
    if let (OpKind::Pow, [x], [pattern, Pattern::Number(wanted)]) =
        (&op.kind, op.inputs.as_slice(), patterns)
    {
        let exponent =
            op.attributes.float("exponent").is_some_and(|e| (e as f32 - wanted).abs() <= TOLERANCE);
        return exponent && pattern.fits(program, *x, found);
    }
    if patterns.len() != op.inputs.len() {
        return false;
    }
    let commutes = matches!(name, "Add" | "Mul");
    let ([first, second], [a, b]) = (patterns, op.inputs.as_slice()) else {
        return patterns
            .iter()
            .zip(&op.inputs)
            .all(|(pattern, &input)| pattern.fits(program, input, found));
    };
    if commutes && chain_fits(name, patterns, op, program, found) {
        return true;
    }
    let (a, b) = (*a, *b);
    attempt(found, |found| first.fits(program, a, found) && second.fits(program, b, found))
        || commutes
            && attempt(found, |found| {
                second.fits(program, a, found) && first.fits(program, b, found)
            })
}

/// Nested sums or products as one set of terms, when the pattern has three or more.
fn chain_fits(
    name: &'static str,
    patterns: &[Pattern],
    op: &Op,
    program: &Program,
    found: &mut Match,
) -> bool {
    let mut terms = Vec::new();
    patterns.iter().for_each(|pattern| flatten_pattern(pattern, name, &mut terms));
    if terms.len() < 3 {
        return false;
    }
    let Some(values) = flatten_values(op, name, program, terms.len()) else { return false };
    assign(&terms, &values, &mut vec![false; values.len()], program, found)
}

fn flatten_pattern<'a>(pattern: &'a Pattern, name: &str, terms: &mut Vec<&'a Pattern>) {
    match pattern {
        Pattern::Op(op, inputs, None) if *op == name && inputs.len() == 2 => {
            inputs.iter().for_each(|input| flatten_pattern(input, name, terms));
        }
        other => terms.push(other),
    }
}

/// The terms of a nested sum or product, if it has this many.
fn flatten_values(op: &Op, name: &str, program: &Program, count: usize) -> Option<Vec<ValueId>> {
    let mut values = Vec::with_capacity(count);
    let mut open: Vec<ValueId> = op.inputs.iter().rev().copied().collect();
    while let Some(value) = open.pop() {
        match program.source(value) {
            Some((_, op)) if engine_name(op) == name && op.inputs.len() == 2 => {
                open.extend(op.inputs.iter().rev());
            }
            _ => values.push(value),
        }
        // Each value that is open is a term at least.
        if values.len() + open.len() > count {
            return None;
        }
    }
    (values.len() == count).then_some(values)
}

fn assign(
    terms: &[&Pattern],
    values: &[ValueId],
    used: &mut [bool],
    program: &Program,
    found: &mut Match,
) -> bool {
    let Some((term, rest)) = terms.split_first() else { return true };
    (0..values.len()).any(|i| {
        !used[i]
            && attempt(found, |found| {
                used[i] = true;
                let fits = term.fits(program, values[i], found)
                    && assign(rest, values, used, program, found);
                used[i] = fits;
                fits
            })
    })
}

/// The name of rten's operator.
pub(super) fn engine_name(op: &Op) -> &str {
    if !op.permuted.is_empty() {
        return "TransformInputs";
    }
    if let Some(name) = op.fused {
        return name;
    }
    let integer = op.attributes.int("integer") == Some(1);
    match &op.kind {
        OpKind::Conv if integer => "ConvInteger",
        OpKind::MatMul | OpKind::Linear if integer => "MatMulInteger",
        OpKind::Cast => "Cast",
        OpKind::MatMul => "MatMul",
        OpKind::Linear => {
            let gemm = op.inputs.len() > 2
                || ["trans_a", "trans_b", "alpha", "beta"]
                    .iter()
                    .any(|name| op.attributes.has(name));
            if gemm { "Gemm" } else { "MatMul" }
        }
        OpKind::Conv => "Conv",
        OpKind::Add => "Add",
        OpKind::Sub => "Sub",
        OpKind::Mul => "Mul",
        OpKind::Div => "Div",
        OpKind::Pow => "Pow",
        OpKind::Erf => "Erf",
        OpKind::Tanh => "Tanh",
        OpKind::Sqrt => "Sqrt",
        OpKind::Sigmoid => "Sigmoid",
        OpKind::Reciprocal => "Reciprocal",
        OpKind::ReduceMean => "ReduceMean",
        OpKind::Softmax if op.attributes.int("log").is_none() => "Softmax",
        OpKind::BatchNorm => "BatchNormalization",
        OpKind::Transpose => "Transpose",
        OpKind::Concat => "Concat",
        OpKind::Expand => "Expand",
        OpKind::Slice => "Slice",
        OpKind::Split => "Split",
        OpKind::Where => "Where",
        OpKind::Identity => "Identity",
        OpKind::Unsupported(name) => name,
        _ => "",
    }
}

/// Adds a number, unless its value is not known.
pub(super) fn with_number(attributes: Attributes, name: &str, value: f32) -> Attributes {
    if value.is_finite() {
        attributes.with(name, Attribute::Float(f64::from(value)))
    } else {
        attributes
    }
}

//! [`Pattern`]: a kernel whose extents and attributes are formulas in the encoding's numbers, found
//! from examples of the same kernel.

use super::{
    formula::{Examples, Formula},
    numbers::Numbers,
};
use std::ops::ControlFlow;
use vitempo_graph::{Attribute, OpSpec, Operand, TensorSpec};

/// One number of a kernel, to be read or written.
enum Number<'a> {
    Extent(&'a mut usize),
    Whole(&'a mut i64),
    Real(&'a mut f64),
}

/// Calls `see` with the numbers of a kernel, in a fixed order, until it has seen enough.
fn each_number(
    op: &mut OpSpec,
    mut see: impl FnMut(Number<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for extent in op
        .inputs
        .iter_mut()
        .map(|input| &mut input.tensor)
        .chain(&mut op.outputs)
        .flat_map(|tensor| &mut tensor.shape)
    {
        see(Number::Extent(extent))?;
    }
    for (_, attribute) in op.attributes.0.iter_mut() {
        match attribute {
            Attribute::Int(number) => see(Number::Whole(number))?,
            Attribute::Ints(numbers) => {
                numbers.iter_mut().try_for_each(|n| see(Number::Whole(n)))?;
            }
            Attribute::Float(number) => see(Number::Real(number))?,
            Attribute::Floats(numbers) => {
                numbers.iter_mut().try_for_each(|n| see(Number::Real(n)))?;
            }
            Attribute::Text(_) => {}
        }
    }
    ControlFlow::Continue(())
}

/// The numbers of a kernel; fractions are kept apart, a zero in their place.
struct Values {
    whole: Vec<i64>,
    real: Vec<f64>,
}

/// Takes the numbers out of a kernel: what is left is its form.
fn take_numbers(op: &mut OpSpec) -> Values {
    let mut values = Values { whole: Vec::new(), real: Vec::new() };
    let _ = each_number(op, |number| {
        let (whole, real) = match number {
            Number::Extent(n) => (i64::try_from(std::mem::take(n)).unwrap_or(i64::MAX), 0.0),
            Number::Whole(n) => (std::mem::take(n), 0.0),
            Number::Real(n) => (0, std::mem::take(n)),
        };
        values.whole.push(whole);
        values.real.push(real);
        ControlFlow::Continue(())
    });
    values
}

/// Whether kernels have the same form: they differ in extents and numerical attributes alone.
pub(super) fn same_form(a: &OpSpec, b: &OpSpec) -> bool {
    let tensors = |a: &TensorSpec, b: &TensorSpec| {
        (a.shape.len(), a.precision, a.format) == (b.shape.len(), b.precision, b.format)
    };
    let operands =
        |(a, b): (&Operand, &Operand)| a.constant == b.constant && tensors(&a.tensor, &b.tensor);
    a.kind == b.kind
        && (a.inputs.len(), a.outputs.len(), a.attributes.0.len())
            == (b.inputs.len(), b.outputs.len(), b.attributes.0.len())
        && a.inputs.iter().zip(&b.inputs).all(operands)
        && a.outputs.iter().zip(&b.outputs).all(|(a, b)| tensors(a, b))
        && a.attributes
            .0
            .iter()
            .zip(b.attributes.0.iter())
            .all(|((name, a), (other, b))| name == other && same_kind(a, b))
}

/// Whether attributes differ in numbers alone.
fn same_kind(a: &Attribute, b: &Attribute) -> bool {
    match (a, b) {
        (Attribute::Int(_), Attribute::Int(_)) | (Attribute::Float(_), Attribute::Float(_)) => true,
        (Attribute::Ints(a), Attribute::Ints(b)) => a.len() == b.len(),
        (Attribute::Floats(a), Attribute::Floats(b)) => a.len() == b.len(),
        (Attribute::Text(a), Attribute::Text(b)) => a == b,
        _ => false,
    }
}

/// A kernel some of whose numbers follow from the encoding's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    /// With zeros where a formula goes.
    op: OpSpec,
    /// Position of a number, and what it is.
    formulas: Vec<(usize, Formula)>,
}

impl Pattern {
    /// The pattern of kernels of one form, one for each example; `None` when a number follows no
    /// formula.
    pub(super) fn fit(kernels: &[&OpSpec], examples: &Examples) -> Option<Self> {
        let values: Vec<Values> =
            kernels.iter().map(|op| take_numbers(&mut (*op).clone())).collect();
        let mut formulas = Vec::new();
        for position in 0..values.first()?.whole.len() {
            let whole: Vec<i64> =
                values.iter().filter_map(|v| v.whole.get(position).copied()).collect();
            let real: Vec<f64> =
                values.iter().filter_map(|v| v.real.get(position).copied()).collect();
            if whole.iter().any(|n| *n != whole[0]) {
                formulas.push((position, examples.whole(&whole)?));
            } else if real.iter().any(|n| n.to_bits() != real[0].to_bits()) {
                formulas.push((position, examples.real(&real)?));
            }
        }
        let mut pattern = Self { op: (*kernels.first()?).clone(), formulas };
        let mut blank = pattern.op.clone();
        pattern.fill(&mut blank, |_| 0, |_| 0.0);
        pattern.op = blank;
        Some(pattern)
    }

    /// A kernel to [write](Self::write) numbers into.
    pub(super) fn blank(&self) -> OpSpec {
        self.op.clone()
    }

    /// Makes `op`, a blank or what was written into one, the kernel at these numbers.
    pub(super) fn write(&self, numbers: Numbers, op: &mut OpSpec) {
        self.fill(op, |formula| formula.whole(numbers), |formula| formula.real(numbers));
    }

    /// The kernel at these numbers.
    #[cfg(test)]
    pub(super) fn at(&self, numbers: Numbers) -> OpSpec {
        let mut op = self.blank();
        self.write(numbers, &mut op);
        op
    }

    /// The bits of the atoms it depends on.
    pub(super) fn mask(&self) -> u128 {
        self.formulas.iter().fold(0, |mask, (_, formula)| mask | formula.mask())
    }

    /// Puts numbers where formulas go.
    fn fill(&self, op: &mut OpSpec, whole: impl Fn(Formula) -> i64, real: impl Fn(Formula) -> f64) {
        let (mut position, mut formulas) = (0, self.formulas.iter());
        let mut next = formulas.next();
        if next.is_none() {
            return;
        }
        let _ = each_number(op, |number| {
            if let Some((_, formula)) = next.filter(|(at, _)| *at == position) {
                match number {
                    Number::Extent(n) => *n = usize::try_from(whole(*formula)).unwrap_or(0),
                    Number::Whole(n) => *n = whole(*formula),
                    Number::Real(n) => *n = real(*formula),
                }
                next = formulas.next();
            }
            position += 1;
            if next.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbers::Quantity;
    use super::*;
    use vitempo_graph::{Attributes, OpKind};

    fn product(tokens: usize, channels: usize, heads: usize) -> OpSpec {
        let operand =
            |shape: [usize; 4]| Operand { tensor: TensorSpec::f32(shape), constant: false };
        let scale = f64::from(((channels / heads) as f32).sqrt().recip());
        OpSpec {
            kind: OpKind::MatMul,
            attributes: Attributes::new()
                .with_int("trans_b", 1)
                .with("alpha", Attribute::Float(scale)),
            inputs: vec![
                operand([1, heads, tokens, channels / heads]),
                operand([1, heads, tokens, channels / heads]),
            ],
            outputs: vec![TensorSpec::f32([1, heads, tokens, tokens])],
        }
    }

    #[test]
    fn a_kernel_of_attention_is_found_and_holds_elsewhere() {
        let numbers =
            |c, h, w, heads, m| Numbers::new([16, 2 * h, 2 * w], [c, h, w], [heads, 1, m]);
        let known = [
            numbers(48, 28, 32, 3, 2),
            numbers(96, 14, 12, 4, 1),
            numbers(64, 7, 9, 2, 4),
            numbers(120, 28, 9, 5, 4),
        ];
        let kernels =
            [product(896, 48, 3), product(168, 96, 4), product(63, 64, 2), product(252, 120, 5)];
        let pattern = Pattern::fit(
            &kernels.iter().collect::<Vec<_>>(),
            &Examples::new(&known, Quantity::of_attention()),
        )
        .expect("a pattern");
        assert_eq!(pattern.at(numbers(144, 16, 24, 9, 3)), product(384, 144, 9));
        let needed = Numbers(numbers(144, 16, 24, 9, 3).0 & pattern.mask());
        assert_eq!(pattern.at(needed), product(384, 144, 9));
        assert_eq!(
            needed.get(super::super::numbers::Atom::MlpRatio),
            0,
            "it does not depend on the MLP"
        );
        assert!(same_form(&kernels[0], &kernels[1]));
        let mut other = [0, 1, 2].map(|_| kernels[0].clone());
        other[0].attributes.set("activation", Attribute::Text("relu".to_owned()));
        other[1].inputs[1].constant = true;
        other[2].outputs[0].shape.push(1);
        assert!(other.iter().all(|other| !same_form(&kernels[0], other)));
    }

    #[test]
    fn a_number_without_a_law_makes_no_pattern() {
        let numbers = |c| Numbers::new([16, 28, 28], [c, 14, 14], [1, 1, 1]);
        let known =
            Examples::new(&[numbers(48), numbers(96), numbers(64)], Quantity::of_attention());
        let kernels = [product(17, 48, 1), product(91, 96, 1), product(5, 64, 1)];
        assert_eq!(Pattern::fit(&kernels.iter().collect::<Vec<_>>(), &known), None);
    }
}

//! [`Pattern`]: a kernel whose extents and attributes are formulas in the encoding's numbers, found from examples of the same kernel.

use super::{
    formula::{Examples, Formula},
    numbers::Numbers,
};
use vitempo_graph::{Attribute, OpSpec};

/// One number of a kernel, to be read or written.
enum Number<'a> {
    Extent(&'a mut usize),
    Whole(&'a mut i64),
    Real(&'a mut f64),
}

/// Calls `see` with every number of a kernel, in a fixed order.
fn each_number(op: &mut OpSpec, see: &mut dyn FnMut(Number<'_>)) {
    for extent in op.inputs.iter_mut().map(|input| &mut input.tensor).chain(&mut op.outputs).flat_map(|tensor| &mut tensor.shape) {
        see(Number::Extent(extent));
    }
    for attribute in op.attributes.0.values_mut() {
        match attribute {
            Attribute::Int(number) => see(Number::Whole(number)),
            Attribute::Ints(numbers) => numbers.iter_mut().for_each(|n| see(Number::Whole(n))),
            Attribute::Float(number) => see(Number::Real(number)),
            Attribute::Floats(numbers) => numbers.iter_mut().for_each(|n| see(Number::Real(n))),
            Attribute::Text(_) => {}
        }
    }
}

/// The numbers of a kernel; fractions are kept apart, a zero in their place.
struct Values {
    whole: Vec<i64>,
    real: Vec<f64>,
}

/// Takes the numbers out of a kernel: what is left is its form.
fn take_numbers(op: &mut OpSpec) -> Values {
    let mut values = Values { whole: Vec::new(), real: Vec::new() };
    each_number(op, &mut |number| {
        let (whole, real) = match number {
            Number::Extent(n) => (i64::try_from(std::mem::take(n)).unwrap_or(i64::MAX), 0.0),
            Number::Whole(n) => (std::mem::take(n), 0.0),
            Number::Real(n) => (0, std::mem::take(n)),
        };
        values.whole.push(whole);
        values.real.push(real);
    });
    values
}

/// A kernel without its numbers: kernels of the same form differ in extents and numerical attributes alone.
pub(super) fn form(op: &OpSpec) -> OpSpec {
    let mut form = op.clone();
    take_numbers(&mut form);
    form
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
    /// The pattern of kernels of one form, one for each example; `None` when a number follows no formula.
    pub(super) fn fit(kernels: &[&OpSpec], examples: &Examples) -> Option<Self> {
        let values: Vec<Values> = kernels.iter().map(|op| take_numbers(&mut (*op).clone())).collect();
        let mut formulas = Vec::new();
        for position in 0..values.first()?.whole.len() {
            let whole: Vec<i64> = values.iter().filter_map(|v| v.whole.get(position).copied()).collect();
            let real: Vec<f64> = values.iter().filter_map(|v| v.real.get(position).copied()).collect();
            if whole.iter().any(|n| *n != whole[0]) {
                formulas.push((position, examples.whole(&whole)?));
            } else if real.iter().any(|n| n.to_bits() != real[0].to_bits()) {
                formulas.push((position, examples.real(&real)?));
            }
        }
        let mut pattern = Self { op: (*kernels.first()?).clone(), formulas };
        pattern.op = pattern.written(|_, _| (0, 0.0));
        Some(pattern)
    }

    /// The kernel at these numbers.
    pub(super) fn at(&self, numbers: Numbers) -> OpSpec {
        self.written(|formula, real| if real { (0, formula.real(numbers)) } else { (formula.whole(numbers), 0.0) })
    }

    /// The bits of the atoms it depends on.
    pub(super) fn mask(&self) -> u128 {
        self.formulas.iter().fold(0, |mask, (_, formula)| mask | formula.mask())
    }

    /// The kernel with the given numbers where formulas go; `value` is told whether a fraction is wanted.
    fn written(&self, value: impl Fn(Formula, bool) -> (i64, f64)) -> OpSpec {
        let mut op = self.op.clone();
        let (mut position, mut formulas) = (0, self.formulas.iter().peekable());
        each_number(&mut op, &mut |number| {
            if let Some((_, formula)) = formulas.next_if(|(at, _)| *at == position) {
                match number {
                    Number::Extent(n) => *n = usize::try_from(value(*formula, false).0).unwrap_or(0),
                    Number::Whole(n) => *n = value(*formula, false).0,
                    Number::Real(n) => *n = value(*formula, true).1,
                }
            }
            position += 1;
        });
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, OpKind, Operand, TensorSpec};

    fn product(tokens: usize, channels: usize, heads: usize) -> OpSpec {
        let operand = |shape: [usize; 4]| Operand { tensor: TensorSpec::f32(shape), constant: false };
        let scale = f64::from(((channels / heads) as f32).sqrt().recip());
        OpSpec {
            kind: OpKind::MatMul,
            attributes: Attributes::new().with_int("trans_b", 1).with("alpha", Attribute::Float(scale)),
            inputs: vec![operand([1, heads, tokens, channels / heads]), operand([1, heads, tokens, channels / heads])],
            outputs: vec![TensorSpec::f32([1, heads, tokens, tokens])],
        }
    }

    #[test]
    fn a_kernel_of_attention_is_found_and_holds_elsewhere() {
        let numbers = |c, h, w, heads, m| Numbers::new([16, 2 * h, 2 * w], [c, h, w], [heads, 1, m]);
        let known = [numbers(48, 28, 32, 3, 2), numbers(96, 14, 12, 4, 1), numbers(64, 7, 9, 2, 4), numbers(120, 28, 9, 5, 4)];
        let kernels = [product(896, 48, 3), product(168, 96, 4), product(63, 64, 2), product(252, 120, 5)];
        let pattern = Pattern::fit(&kernels.iter().collect::<Vec<_>>(), &Examples::new(&known, true)).expect("a pattern");
        assert_eq!(pattern.at(numbers(144, 16, 24, 9, 3)), product(384, 144, 9));
        let needed = Numbers(numbers(144, 16, 24, 9, 3).0 & pattern.mask());
        assert_eq!(pattern.at(needed), product(384, 144, 9));
        assert_eq!(needed.get(super::super::numbers::Atom::MlpRatio), 0, "it does not depend on the MLP");
        assert_eq!(form(&kernels[0]), form(&kernels[1]));
    }

    #[test]
    fn a_number_without_a_law_makes_no_pattern() {
        let numbers = |c| Numbers::new([16, 28, 28], [c, 14, 14], [1, 1, 1]);
        let known = Examples::new(&[numbers(48), numbers(96), numbers(64)], true);
        let kernels = [product(17, 48, 1), product(91, 96, 1), product(5, 64, 1)];
        assert_eq!(Pattern::fit(&kernels.iter().collect::<Vec<_>>(), &known), None);
    }
}

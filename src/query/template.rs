//! [`Template`]: the kernels that a class of parts adds, as patterns in groups that depend on the
//! same numbers. A group is a row of a table: its value is cached by the numbers it depends on, so
//! that common kernels of different parts are computed once.

use super::{
    formula::Examples,
    numbers::{ATOMS, Atom, Numbers, Quantity},
    pattern::{Pattern, same_form},
};
use std::collections::HashMap;
use vitempo_graph::OpSpec;

/// Fewest examples that a template is made of.
pub(super) const FEWEST: usize = 5;

/// What a part adds, found by lowering: its numbers, and kernels with +1 or -1.
pub(super) struct Example {
    pub numbers: Numbers,
    pub kernels: Vec<(OpSpec, i64)>,
}

/// Patterns and how often each counts.
pub(super) type Counted = Vec<(Pattern, i64)>;

/// The kernels of a class of parts.
#[derive(Debug)]
pub(super) struct Template {
    /// Numbers that were the same in all examples: bits and values. It says nothing of parts where
    /// they differ.
    pub fixed: (u128, u128),
    /// Groups of patterns, each with the bits it depends on.
    pub groups: Vec<(u128, Counted)>,
}

impl Template {
    /// The template of examples of one class, the last `held_out` of which only check it; `None`
    /// when they are too few, differ in form, or disagree.
    pub(super) fn fit(
        mut examples: Vec<Example>,
        held_out: usize,
        quantities: Vec<Quantity>,
    ) -> Option<Self> {
        let checks = examples
            .split_off(examples.len().saturating_sub(held_out).max(FEWEST).min(examples.len()));
        if examples.len() < FEWEST
            || !examples.iter().chain(&checks).all(|other| is_same_form(&examples[0], other))
        {
            return None;
        }
        let numbers: Vec<Numbers> = examples.iter().map(|e| e.numbers).collect();
        let known = Examples::new(&numbers, quantities);
        let mut counts: Counted = Vec::new();
        let mut place: HashMap<Pattern, usize> = HashMap::new();
        for (position, (_, times)) in examples.first()?.kernels.iter().enumerate() {
            let kernels: Vec<&OpSpec> =
                examples.iter().filter_map(|e| e.kernels.get(position)).map(|(op, _)| op).collect();
            let pattern = Pattern::fit(&kernels, &known)?;
            let mut kernel = pattern.blank();
            let mut holds = |numbers: Numbers, op: &OpSpec| {
                pattern.write(numbers, &mut kernel);
                kernel == *op
            };
            if !checks.iter().all(|check| {
                check.kernels.get(position).is_some_and(|(op, _)| holds(check.numbers, op))
            }) {
                return None;
            }
            match place.get(&pattern).and_then(|&at| counts.get_mut(at)) {
                Some((_, count)) => *count += times,
                None => {
                    place.insert(pattern.clone(), counts.len());
                    counts.push((pattern, *times));
                }
            }
        }
        counts.retain(|(_, times)| *times != 0);
        Some(Self { fixed: fixed(&numbers), groups: grouped(counts) })
    }

    /// Whether it covers a part with these numbers.
    pub(super) fn covers(&self, numbers: Numbers) -> bool {
        numbers.0 & self.fixed.0 == self.fixed.1
    }
}

/// Whether two parts add kernels of the same forms, in the same order.
pub(super) fn is_same_form(one: &Example, other: &Example) -> bool {
    let same = |((a, times), (b, other)): (&(OpSpec, i64), &(OpSpec, i64))| {
        times == other && same_form(a, b)
    };
    one.kernels.len() == other.kernels.len() && one.kernels.iter().zip(&other.kernels).all(same)
}

/// Bits and values of the atoms that are the same in all examples.
fn fixed(numbers: &[Numbers]) -> (u128, u128) {
    let Some(first) = numbers.first() else { return (0, 0) };
    let same = |atom: &Atom| numbers.iter().all(|n| n.get(*atom) == first.get(*atom));
    let mask = ATOMS.iter().filter(|atom| same(atom)).fold(0, |mask, atom| mask | atom.mask());
    (mask, first.0 & mask)
}

const PIXELS: u128 =
    Atom::Height.mask() | Atom::Width.mask() | Atom::HeightBefore.mask() | Atom::WidthBefore.mask();
const CHOICES: u128 = Atom::First.mask() | Atom::Second.mask() | Atom::MlpRatio.mask();

/// Patterns by what they depend on. Few groups are few lookups, but a group over more numbers has
/// more rows: so a group joins another where that only adds pixels, or, inside of mixer and MLP,
/// choices.
fn grouped(counts: Counted) -> Vec<(u128, Counted)> {
    let mut masks: Vec<u128> = counts.iter().map(|(pattern, _)| pattern.mask()).collect();
    masks.sort_unstable_by_key(|mask| (mask.count_ones(), *mask));
    masks.dedup();
    let joins = |from: u128, to: u128| {
        let added = to & !from;
        from & !to == 0
            && added != 0
            && (from == 0
                || added & !PIXELS == 0
                || (from & CHOICES != 0 && added & !(PIXELS | CHOICES) == 0))
    };
    let last = |mut mask: u128| {
        while let Some(to) = masks.iter().copied().find(|to| joins(mask, *to)) {
            mask = to;
        }
        mask
    };
    let mut groups: Vec<(u128, Counted)> = Vec::new();
    for (pattern, times) in counts {
        let mask = last(pattern.mask());
        match groups.iter_mut().find(|(m, _)| *m == mask) {
            Some((_, group)) => group.push((pattern, times)),
            None => groups.push((mask, vec![(pattern, times)])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, OpKind, Operand, TensorSpec};

    fn relu(shape: [usize; 3]) -> OpSpec {
        let tensor = TensorSpec::f32(shape);
        OpSpec {
            kind: OpKind::Relu,
            attributes: Attributes::new(),
            inputs: vec![Operand { tensor: tensor.clone(), constant: false }],
            outputs: vec![tensor],
        }
    }

    fn example(c: u16, h: u16, w: u16, m: u8) -> Example {
        let [wide, channels, height, width] =
            [usize::from(c) * usize::from(m), c.into(), h.into(), w.into()];
        let kernels = vec![
            (relu([channels, height, width]), 1),
            (relu([wide, height, width]), 1),
            (relu([1, 1, channels]), 1),
            (relu([1, 1, channels]), -1),
        ];
        Example { numbers: Numbers::new([8, 2 * h, 2 * w], [c, h, w], [1, 3, m]), kernels }
    }

    fn examples() -> Vec<Example> {
        vec![
            example(16, 7, 9, 2),
            example(24, 14, 12, 3),
            example(40, 28, 14, 4),
            example(32, 9, 7, 3),
            example(72, 12, 28, 5),
        ]
    }

    #[test]
    fn kernels_that_cancel_go_and_the_rest_is_grouped_by_what_it_depends_on() {
        let template =
            Template::fit(examples(), 0, Quantity::of_convolution()).expect("a template");
        assert_eq!(template.groups.len(), 2, "{template:?}");
        let numbers = example(56, 18, 24, 6).numbers;
        assert!(
            template.covers(numbers)
                && !template.covers(Numbers::new([16, 36, 48], [56, 18, 24], [1, 3, 6]))
        );
        let mut kernels: Vec<OpSpec> = template
            .groups
            .iter()
            .flat_map(|(mask, g)| g.iter().map(move |(p, _)| p.at(Numbers(numbers.0 & mask))))
            .collect();
        kernels.sort();
        assert_eq!(kernels, [relu([56, 18, 24]), relu([336, 18, 24])]);
    }

    #[test]
    fn examples_that_differ_or_disagree_or_are_too_few_make_no_template() {
        let with = |kernels, held_out| {
            let odd = Example { kernels, ..example(48, 7, 8, 2) };
            Template::fit(
                examples().into_iter().chain([odd]).collect(),
                held_out,
                Quantity::of_convolution(),
            )
        };
        assert!(with(example(48, 7, 8, 2).kernels, 1).is_some());
        assert!(with(example(48, 7, 8, 3).kernels, 1).is_none(), "the check disagrees");
        assert!(
            with(vec![(relu([1, 2, 3]), 1)], 0).is_none()
                && with(vec![(relu([1, 2, 3]), 1)], 1).is_none(),
            "another form"
        );
        assert!(
            Template::fit(
                examples().into_iter().take(FEWEST - 1).collect(),
                0,
                Quantity::of_convolution()
            )
            .is_none()
        );
    }
}

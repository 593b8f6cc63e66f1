//! [`Formula`]: one number of a kernel as a function of the encoding's [`Numbers`], found from
//! examples.

use super::numbers::{Numbers, Quantity};

/// Largest whole factor of a product: query, key and value together are three.
const LARGEST_FACTOR: i64 = 4;

/// How a number of a kernel follows from those of the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Formula {
    /// A whole number: a factor and two quantities.
    Product(i64, [Quantity; 2]),
    /// The scale of attention, 1 / sqrt(x), as single precision gives it.
    InverseRoot(Quantity),
}

impl Formula {
    pub(super) fn whole(self, numbers: Numbers) -> i64 {
        match self {
            Self::Product(factor, [a, b]) => factor * a.of(numbers) * b.of(numbers),
            Self::InverseRoot(_) => 0,
        }
    }

    pub(super) fn real(self, numbers: Numbers) -> f64 {
        match self {
            Self::Product(..) => self.whole(numbers) as f64,
            Self::InverseRoot(quantity) => inverse_root(quantity.of(numbers)),
        }
    }

    /// The bits of the atoms it needs.
    pub(super) fn mask(self) -> u128 {
        match self {
            Self::Product(_, [a, b]) => a.mask() | b.mask(),
            Self::InverseRoot(quantity) => quantity.mask(),
        }
    }
}

fn inverse_root(value: i64) -> f64 {
    f64::from((value as f32).sqrt().recip())
}

/// The quantities of several examples, to look for formulas in.
pub(super) struct Examples {
    quantities: Vec<Quantity>,
    /// By quantity, then by example.
    values: Vec<Vec<i64>>,
}

impl Examples {
    /// Of examples that have these quantities, the plainest first.
    pub(super) fn new(examples: &[Numbers], quantities: Vec<Quantity>) -> Self {
        let values =
            quantities.iter().map(|q| examples.iter().map(|n| q.of(*n)).collect()).collect();
        Self { quantities, values }
    }

    /// The plainest formula that gives each example's whole number: quantities before products,
    /// small factors first.
    pub(super) fn whole(&self, wanted: &[i64]) -> Option<Formula> {
        let fits = |factor: i64, a: &[i64], b: &[i64]| {
            wanted.iter().zip(a.iter().zip(b)).all(|(w, (a, b))| *w == factor * a * b)
        };
        for widest in [1, self.values.len()] {
            for factor in 1..=LARGEST_FACTOR {
                for (i, a) in self.values.iter().enumerate() {
                    for (j, b) in self.values.iter().enumerate().take(widest.min(i + 1)) {
                        if fits(factor, a, b) {
                            return Some(Formula::Product(
                                factor,
                                [self.quantities[i], self.quantities[j]],
                            ));
                        }
                    }
                }
            }
        }
        None
    }

    /// The formula that gives each example's fraction, to the last bit.
    pub(super) fn real(&self, wanted: &[f64]) -> Option<Formula> {
        let fits = |values: &Vec<i64>| {
            wanted.iter().zip(values).all(|(w, v)| w.to_bits() == inverse_root(*v).to_bits())
        };
        let found = self.values.iter().position(fits)?;
        Some(Formula::InverseRoot(self.quantities[found]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Numbers> {
        let stage =
            |c, h, w, heads, r, m| Numbers::new([16, 2 * h + 1, 2 * w], [c, h, w], [heads, r, m]);
        vec![
            stage(48, 28, 32, 3, 2, 4),
            stage(72, 14, 12, 4, 1, 2),
            stage(96, 28, 14, 2, 4, 7),
            stage(40, 7, 9, 1, 2, 3),
        ]
    }

    #[test]
    fn formulas_are_found_and_hold_elsewhere() {
        let known = examples();
        let elsewhere = Numbers::new([24, 36, 48], [120, 18, 24], [5, 3, 6]);
        let of = |f: &dyn Fn(i64, i64, i64, i64, i64, i64) -> i64, n: Numbers| {
            let [c, h, w] =
                [Quantity::Channels, Quantity::Height, Quantity::Width].map(|q| q.of(n));
            let [heads, r, hidden] =
                [Quantity::Heads, Quantity::Reduction, Quantity::MlpChannels].map(|q| q.of(n));
            f(c, h, w, heads, r, hidden)
        };
        type Relation<'a> = &'a dyn Fn(i64, i64, i64, i64, i64, i64) -> i64;
        let relations: [Relation<'_>; 6] = [
            &|c, _, _, _, _, _| 3 * c,
            &|_, h, w, _, _, _| h * w,
            &|c, _, _, heads, _, _| c / heads,
            &|_, h, w, _, r, _| (h / r) * (w / r),
            &|c, h, w, _, _, _| c * h * w,
            &|_, _, _, _, _, hidden| (hidden + 15) / 16 * 16,
        ];
        for relation in relations {
            let wanted: Vec<i64> = known.iter().map(|n| of(relation, *n)).collect();
            let formula =
                Examples::new(&known, Quantity::of_attention()).whole(&wanted).expect("a formula");
            assert_eq!(formula.whole(elsewhere), of(relation, elsewhere), "{formula:?}");
            assert_eq!(
                formula.whole(Numbers(elsewhere.0 & formula.mask())),
                formula.whole(elsewhere),
                "{formula:?}"
            );
        }
    }

    #[test]
    fn unrelated_numbers_have_no_formula() {
        let known = Examples::new(&examples(), Quantity::of_attention());
        assert_eq!(known.whole(&[5, 17, 3, 11]), None);
        assert_eq!(known.real(&[0.5, 0.25, 0.1, 0.2]), None);
        let scales: Vec<f64> =
            [16, 18, 48, 40].map(|d: u16| f64::from(f32::from(d).sqrt().recip())).to_vec();
        assert_eq!(known.real(&scales), Some(Formula::InverseRoot(Quantity::HeadChannels)));
    }
}

//! [`Catalogue`]: operators that are charged for the same things in like amounts cost alike, also
//! beyond what unit costs say of them.
//!
//! By how much an operator costs more than its unit costs say is a Gaussian process over operators,
//! in logarithms: covariance `0.8 exp(-d^2 / 2)`, `d` the distance between the logarithms of the
//! amounts, and 0.2 more between equal ones; none between operators charged for different things. A
//! model's latency moves by the mean over its operators, weighed by their shares of its time.

use super::charge::{Charge, Group, UnitCost, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The part of the covariance that only equal operators have.
const EQUAL: f64 = 0.2;
/// Likenesses below this are none.
const LEAST: f64 = 1e-9;

/// Distinct operators, to be compared with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    /// By what they are charged for: index and logarithms of the amounts.
    kinds: BTreeMap<String, Vec<(usize, Vec<f64>)>>,
    operators: usize,
}

/// How alike each operator of a model is to operators of a catalogue: indices and likenesses.
pub(crate) struct Compared(Vec<Vec<(usize, f64)>>);

impl Catalogue {
    /// Number of operators.
    pub fn operators(&self) -> usize {
        self.operators
    }

    /// Whether an operator here is charged for these unit costs, whether it stays on chip or not.
    pub fn has_costs(&self, costs: &[UnitCost]) -> bool {
        let wanted: String = costs.iter().map(|cost| letter(*cost)).collect();
        let spill = letter(UnitCost::Spill);
        self.kinds.keys().any(|kind| kind.chars().filter(|c| *c != spill).eq(wanted.chars()))
    }

    /// Takes in a model's operators.
    pub fn add(&mut self, workload: &Workload) {
        for (charge, _) in &workload.charges {
            let amounts = logarithms(charge);
            let of_kind = self.kinds.entry(kind(charge)).or_default();
            if !of_kind.iter().any(|(_, known)| *known == amounts) {
                of_kind.push((self.operators, amounts));
                self.operators += 1;
            }
        }
    }

    /// Compares a model's operators with those here.
    pub fn compare(&self, workload: &Workload) -> Compared {
        let alike = |(charge, _): &(Charge, f64)| {
            let amounts = logarithms(charge);
            let known = self.kinds.get(&kind(charge)).into_iter().flatten();
            known
                .map(|(index, of)| (*index, likeness(of, &amounts)))
                .filter(|(_, alike)| *alike > LEAST)
                .collect()
        };
        Compared(workload.charges.iter().map(alike).collect())
    }
}

impl Compared {
    /// Likeness of a whole model to each of a catalogue's operators, given the shares of its
    /// operators in its time.
    pub fn weigh(&self, shares: &[f64], operators: usize) -> Vec<f64> {
        let mut out = vec![0.0; operators];
        for (alike, share) in self.0.iter().zip(shares) {
            alike.iter().for_each(|(index, likeness)| out[*index] += share * likeness);
        }
        out
    }

    /// The sum over a catalogue's operators of values times the likeness of a whole model.
    pub fn dot(&self, shares: &[f64], values: &[f64]) -> f64 {
        let of = |alike: &Vec<(usize, f64)>| -> f64 {
            alike
                .iter()
                .map(|(index, likeness)| likeness * values.get(*index).copied().unwrap_or(0.0))
                .sum()
        };
        self.0.iter().zip(shares).map(|(alike, share)| share * of(alike)).sum()
    }

    /// Shares of a model's time by operator of the catalogue; operators that it lacks are left out.
    pub fn shares(&self, shares: &[f64], operators: usize) -> Vec<f64> {
        let mut out = vec![0.0; operators];
        for (alike, share) in self.0.iter().zip(shares) {
            alike
                .iter()
                .filter(|(_, likeness)| *likeness >= 1.0)
                .for_each(|(index, _)| out[*index] += share);
        }
        out
    }
}

fn likeness(a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    if square == 0.0 { 1.0 } else { (1.0 - EQUAL) * (-0.5 * square).exp() }
}

fn kind(charge: &[(UnitCost, f64)]) -> String {
    compared(charge).map(|(cost, _)| letter(*cost)).collect()
}

/// A unit cost in the name of a kind.
fn letter(cost: UnitCost) -> char {
    char::from(b'!' + cost as u8)
}

fn logarithms(charge: &[(UnitCost, f64)]) -> Vec<f64> {
    compared(charge).map(|(_, amount)| amount.ln()).collect()
}

/// Padding apart: an operator that needs some is like one that needs none.
fn compared(charge: &[(UnitCost, f64)]) -> impl Iterator<Item = &(UnitCost, f64)> {
    charge.iter().filter(|(cost, _)| cost.group() != Group::Padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_by_hand() {
        let model = |amount: f64, cost| Workload {
            charges: vec![(vec![(UnitCost::LaunchConvolution, 1.0), (cost, amount)], 3.0)],
        };
        let mut catalogue = Catalogue::default();
        [
            model(1e6, UnitCost::Spatial),
            model(1e6, UnitCost::Spatial),
            model(1e6, UnitCost::Pointwise),
        ]
        .iter()
        .for_each(|m| catalogue.add(m));
        assert_eq!(catalogue.operators(), 2, "equal operators count once");
        let padded = Workload {
            charges: vec![(
                vec![
                    (UnitCost::LaunchConvolution, 1.0),
                    (UnitCost::Spatial, 1e6),
                    (UnitCost::Tiles, 0.5),
                ],
                1.0,
            )],
        };
        assert_eq!(
            catalogue.compare(&padded).shares(&[1.0], 2),
            [1.0, 0.0],
            "padding sets no operators apart"
        );
        let near = catalogue.compare(&model(1e6 * std::f64::consts::E, UnitCost::Spatial));
        let weighed = near.weigh(&[0.5], 2);
        assert!(
            (weighed[0] - 0.5 * 0.8 * (-0.5_f64).exp()).abs() < 1e-12 && weighed[1] == 0.0,
            "{weighed:?}"
        );
        assert_eq!(near.shares(&[0.5], 2), [0.0, 0.0], "it is none of them");
        assert_eq!(
            catalogue.compare(&model(1e6, UnitCost::Pointwise)).shares(&[0.5], 2),
            [0.0, 0.5]
        );
    }
}

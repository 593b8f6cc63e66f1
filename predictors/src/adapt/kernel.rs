//! The covariance of operators' residuals: the kernel of a Gaussian process over operators
//! ([`Catalogue`]).
//!
//! The residual of an operator is the logarithm of its latency over the latency that its unit costs
//! explain. Operators that demand the same resources in similar amounts have similar residuals:
//! covariance `0.8 exp(-d^2 / 2)`, `d` the distance between the logarithms of the amounts, and 0.2
//! more between equal operators; 0 between operators that demand different resources. A model's
//! residual is the mean over its operators, weighted by their shares of its time.

use super::resource_demand::{Group, ResourceDemand, UnitCost, Workload};
use crate::elementary::{exp, ln};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Covariance that only equal operators have.
const EQUAL: f64 = 0.2;
/// Smaller covariances count as 0.
const LEAST: f64 = 1e-9;
/// Squared distance of equal operators: another platform rounds the logarithms of a file in another
/// way. The nearest distinct amounts, integers up to 1e12, are further apart.
const ROUNDING: f64 = 1e-24;

/// Distinct operators with residuals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    /// By the resources that they demand: index and logarithms of the amounts.
    kinds: BTreeMap<String, Vec<(usize, Vec<f64>)>>,
    operators: usize,
}

/// Covariances of a model's operators with operators of a catalogue: by operator of the model,
/// indices and values.
pub(crate) struct Covariances(Vec<Vec<(usize, f64)>>);

impl Catalogue {
    /// Number of operators.
    pub fn operators(&self) -> usize {
        self.operators
    }

    /// Whether an operator here demands these resources, whether it stays on chip or not.
    pub fn has_costs(&self, costs: &[UnitCost]) -> bool {
        let wanted: String = costs.iter().map(|cost| letter(*cost)).collect();
        let spill = letter(UnitCost::Spill);
        self.kinds.keys().any(|kind| kind.chars().filter(|c| *c != spill).eq(wanted.chars()))
    }

    /// Adds a model's operators.
    pub fn add(&mut self, workload: &Workload) {
        for (demand, _) in &workload.demands {
            let amounts = logarithms(demand);
            let of_kind = self.kinds.entry(kind(demand)).or_default();
            if !of_kind.iter().any(|(_, known)| covariance(known, &amounts) >= 1.0) {
                of_kind.push((self.operators, amounts));
                self.operators += 1;
            }
        }
    }

    /// Covariances of a model's operators with the operators of the catalogue.
    pub fn covariances(&self, workload: &Workload) -> Covariances {
        Covariances(
            workload.demands.iter().map(|(demand, _)| self.covariances_of(demand)).collect(),
        )
    }

    /// Covariances of one operator with operators of the catalogue: their indices, and values.
    pub fn covariances_of(&self, demand: &ResourceDemand) -> Vec<(usize, f64)> {
        let amounts = logarithms(demand);
        let known = self.kinds.get(&kind(demand)).into_iter().flatten();
        known
            .map(|(index, of)| (*index, covariance(of, &amounts)))
            .filter(|(_, value)| *value > LEAST)
            .collect()
    }
}

impl Covariances {
    /// Covariance of a whole model with each of the catalogue's operators, given the shares of its
    /// operators in its time.
    pub fn weighted(&self, shares: &[f64], operators: usize) -> Vec<f64> {
        let mut out = vec![0.0; operators];
        for (row, share) in self.0.iter().zip(shares) {
            row.iter().for_each(|(index, value)| out[*index] += share * value);
        }
        out
    }

    /// The sum over the catalogue's operators of values times the covariance of a whole model.
    pub fn dot(&self, shares: &[f64], values: &[f64]) -> f64 {
        self.0.iter().zip(shares).map(|(row, share)| share * residual(row, values)).sum()
    }

    /// Shares of a model's time by operator of the catalogue; operators that it lacks are left out.
    pub fn shares(&self, shares: &[f64], operators: usize) -> Vec<f64> {
        let mut out = vec![0.0; operators];
        for (row, share) in self.0.iter().zip(shares) {
            row.iter()
                .filter(|(_, value)| *value >= 1.0)
                .for_each(|(index, _)| out[*index] += share);
        }
        out
    }
}

/// The residual of an operator: its covariances with operators of the catalogue, times the factors
/// of these.
pub(crate) fn residual(covariances: &[(usize, f64)], factors: &[f64]) -> f64 {
    let factor = |index: &usize| factors.get(*index).copied().unwrap_or(0.0);
    covariances.iter().map(|(index, value)| value * factor(index)).sum()
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    if square < ROUNDING { 1.0 } else { (1.0 - EQUAL) * exp(-0.5 * square) }
}

fn kind(demand: &[(UnitCost, f64)]) -> String {
    without_padding(demand).map(|(cost, _)| letter(*cost)).collect()
}

/// A unit cost in the name of a kind.
fn letter(cost: UnitCost) -> char {
    char::from(b'!' + cost as u8)
}

fn logarithms(demand: &[(UnitCost, f64)]) -> Vec<f64> {
    without_padding(demand).map(|(_, amount)| ln(*amount)).collect()
}

/// Padding is left out: operators that differ in padding only count as equal.
fn without_padding(demand: &[(UnitCost, f64)]) -> impl Iterator<Item = &(UnitCost, f64)> {
    demand.iter().filter(|(cost, _)| cost.group() != Group::Padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_stay_equal_where_logarithms_are_rounded_in_another_way() {
        let ours = [ln(110_985_216.0), ln(1_204_224.0)];
        let theirs = ours.map(|log| f64::from_bits(log.to_bits() + 1));
        assert_eq!(covariance(&ours, &theirs), 1.0);
        let next = [ln(110_985_217.0), ours[1]];
        assert!(covariance(&ours, &next) <= 1.0 - EQUAL, "one multiply-accumulate more");
    }

    #[test]
    fn covariances_by_hand() {
        let model = |amount: f64, cost| Workload {
            demands: vec![(vec![(UnitCost::LaunchConvolution, 1.0), (cost, amount)], 3.0)],
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
            demands: vec![(
                vec![
                    (UnitCost::LaunchConvolution, 1.0),
                    (UnitCost::Spatial, 1e6),
                    (UnitCost::Tiles, 0.5),
                ],
                1.0,
            )],
        };
        assert_eq!(
            catalogue.covariances(&padded).shares(&[1.0], 2),
            [1.0, 0.0],
            "padding does not distinguish operators"
        );
        let similar = catalogue.covariances(&model(1e6 * std::f64::consts::E, UnitCost::Spatial));
        let weighted = similar.weighted(&[0.5], 2);
        assert!(
            (weighted[0] - 0.5 * 0.8 * (-0.5_f64).exp()).abs() < 1e-12 && weighted[1] == 0.0,
            "{weighted:?}"
        );
        assert_eq!(similar.shares(&[0.5], 2), [0.0, 0.0], "it equals none of them");
        assert_eq!(
            catalogue.covariances(&model(1e6, UnitCost::Pointwise)).shares(&[0.5], 2),
            [0.0, 0.5]
        );
    }
}

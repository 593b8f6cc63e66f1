//! Latency of a workload at given unit costs: per operator its launch and the longest of arithmetic
//! (times padding), weights and traffic; all operators and a run add up.
//!
//! The longest of three is smooth, the 4-norm, so that its derivative shows which of them
//! determines a latency. Williams, Waterman, Patterson: Roofline (2009) is the limit of a norm
//! without end and one unit cost per group.

use super::resource_demand::{COSTS, Group, UnitCost, Workload};
use crate::elementary::{exp, ln};

/// Order of the norm.
const NORM: i32 = 4;
/// Most unit costs that an operator demands.
pub(crate) const DEMANDED: usize = 8;

/// Logarithms of unit costs, ns per unit, in the order of [`UnitCost::ALL`].
pub(crate) type LogCosts = Vec<f64>;

/// Time of one operator and the share of each unit cost in it, both in ns.
pub(crate) fn operator(
    demand: &[(UnitCost, f64)],
    costs: &[f64],
    share: &mut [(UnitCost, f64)],
) -> f64 {
    let mut groups = [0.0_f64; 5];
    for ((cost, amount), part) in demand.iter().zip(share.iter_mut()) {
        *part = (*cost, amount * costs[*cost as usize]);
        groups[cost.group() as usize] += part.1;
    }
    let padding = exp(groups[Group::Padding as usize]);
    groups[Group::Compute as usize] *= padding;
    let overlapping = &groups[1..4];
    let longest = overlapping.iter().copied().fold(0.0, f64::max);
    if longest <= 0.0 {
        return groups[0];
    }
    let time =
        longest * overlapping.iter().map(|g| (g / longest).powi(NORM)).sum::<f64>().sqrt().sqrt();
    let decides = |group: Group| (groups[group as usize] / time).powi(NORM - 1);
    for (cost, part) in share.iter_mut() {
        *part *= match cost.group() {
            Group::Launch => 1.0,
            Group::Compute => padding * decides(Group::Compute),
            Group::Padding => groups[Group::Compute as usize] * decides(Group::Compute),
            group => decides(group),
        };
    }
    groups[0] + time
}

/// Logarithm of the latency in ns, and its derivative by each logarithm of a unit cost: shares that
/// add up to one, and what padding adds.
pub(crate) fn log_latency(workload: &Workload, log_costs: &[f64]) -> (f64, Vec<f64>) {
    let (log, shares, _) = log_latency_by_operator(workload, log_costs);
    (log, shares)
}

/// The same, and the share of each of the workload's operators in the time.
pub(crate) fn log_latency_by_operator(
    workload: &Workload,
    log_costs: &[f64],
) -> (f64, Vec<f64>, Vec<f64>) {
    let costs: Vec<f64> = log_costs.iter().map(|c| exp(*c)).collect();
    let mut operators = Vec::with_capacity(workload.demands.len());
    let mut shares = vec![0.0; COSTS];
    let run = costs[UnitCost::Run as usize];
    shares[UnitCost::Run as usize] = run;
    let mut total = run;
    let mut parts = [(UnitCost::Run, 0.0); DEMANDED];
    for (demand, count) in &workload.demands {
        let length = demand.len().min(parts.len());
        let parts = &mut parts[..length];
        let time = count * operator(demand, &costs, parts);
        operators.push(time);
        total += time;
        parts.iter().for_each(|(cost, part)| shares[*cost as usize] += count * part);
    }
    shares.iter_mut().chain(&mut operators).for_each(|s| *s /= total);
    (ln(total), shares, operators)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_derivative() {
        let mut demand = vec![
            (UnitCost::LaunchConvolution, 1.0),
            (UnitCost::Spatial, 3e5),
            (UnitCost::Weights, 2e4),
            (UnitCost::ConvolutionBytes, 4e5),
        ];
        demand.extend([(UnitCost::Vectors, 0.4), (UnitCost::Tiles, 0.3)]);
        let workload = Workload {
            demands: vec![
                (demand, 7.0),
                (vec![(UnitCost::LaunchOther, 1.0), (UnitCost::PoolingBytes, 5e5)], 2.0),
            ],
        };
        let costs: Vec<f64> = (0..COSTS).map(|i| -3.0 - 0.1 * (i % 7) as f64).collect();
        let (at, shares) = log_latency(&workload, &costs);
        let padding = UnitCost::Vectors as usize;
        assert!(
            (shares[..padding].iter().sum::<f64>() - 1.0).abs() < 1e-12
                && shares[padding..].iter().all(|s| *s > 1e-4),
            "{shares:?}"
        );
        for i in 0..COSTS {
            let mut moved = costs.clone();
            moved[i] += 1e-6;
            let slope = (log_latency(&workload, &moved).0 - at) / 1e-6;
            assert!(
                (slope - shares[i]).abs() < 1e-5,
                "{:?}: {slope} and {}",
                UnitCost::ALL[i],
                shares[i]
            );
        }
    }

    #[test]
    fn padding_counts_with_the_devices_exponent() {
        let with = |power: f64| {
            let demand = vec![(UnitCost::Spatial, 1e6), (UnitCost::Tiles, 4.0_f64.ln())];
            let mut costs = [0.0; COSTS];
            costs[UnitCost::Tiles as usize] = power.ln();
            log_latency(&Workload { demands: vec![(demand, 1.0)] }, &costs).0.exp()
        };
        let times = [0.0, 0.5, 1.0].map(|power| (with(power) / 1e6).round());
        assert_eq!(times, [1.0, 2.0, 4.0], "a quarter of the tiles is filled");
    }

    #[test]
    fn the_longest_part_counts() {
        let demand = vec![(UnitCost::Spatial, 1e6), (UnitCost::ConvolutionBytes, 1.0)];
        let (log, shares) = log_latency(&Workload { demands: vec![(demand, 1.0)] }, &[0.0; COSTS]);
        assert!((log.exp() - 1e6 - 1.0).abs() < 1e-3 && shares[UnitCost::Spatial as usize] > 0.999);
    }
}

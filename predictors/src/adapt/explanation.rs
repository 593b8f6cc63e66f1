//! [`AdaptedBundle::demands`]: what one operator demands of an adapted device, and which of that
//! its time consists of.

use super::{
    AdaptedBundle,
    resource_demand::{Group, UnitCost, Workload, resource_demand},
    roofline::log_latency,
};
use serde::Serialize;
use vitempo_graph::OpSpec;

/// A part of the resource demand of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// The unit cost that it is charged at.
    pub cost: UnitCost,
    /// Launches, multiply-accumulates or bytes; of padding, the logarithm of what arithmetic grows
    /// by.
    pub amount: f64,
    /// Share of the operator's time, 0 to 1: the mean over the hypotheses about the device. `None`
    /// of padding, which multiplies arithmetic.
    pub share: Option<f64>,
}

impl AdaptedBundle {
    /// The resource demand of one operator; empty where it costs nothing.
    #[must_use]
    pub fn demands(&self, op: &OpSpec) -> Vec<Demand> {
        let workload = Workload::of_operator(op);
        let hypotheses = &self.adapted.hypotheses;
        let shares: Vec<(f64, Vec<f64>)> =
            hypotheses.iter().map(|h| (h.weight, log_latency(&workload, &h.theta).1)).collect();
        let share = |cost: UnitCost| {
            let of = |shares: &[f64]| {
                let alone = 1.0 - shares.get(UnitCost::Run as usize).copied().unwrap_or(0.0);
                let part = shares.get(cost as usize).copied().unwrap_or(0.0);
                if alone > 0.0 { part / alone } else { 0.0 }
            };
            shares.iter().map(|(weight, shares)| weight * of(shares)).sum::<f64>()
        };
        let demand = |(cost, amount): (UnitCost, f64)| Demand {
            cost,
            amount,
            share: (cost.group() != Group::Padding).then(|| share(cost)),
        };
        resource_demand(op).into_iter().map(demand).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vitempo_graph::{Attributes, OpKind, Operand, TensorSpec};

    #[test]
    fn shares_of_an_operator_add_up_to_its_time() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb");
        let bundle = AdaptedBundle::load(&file).expect("a file").expect("an adapted bundle");
        let operand =
            |shape: &[usize], constant| Operand { tensor: TensorSpec::f32(shape), constant };
        let linear = OpSpec {
            kind: OpKind::Linear,
            attributes: Attributes::new(),
            inputs: vec![operand(&[1, 197, 192], false), operand(&[192, 768], true)],
            outputs: vec![TensorSpec::f32([1, 197, 768])],
        };
        let demands = bundle.demands(&linear);
        let total: f64 = demands.iter().filter_map(|d| d.share).sum();
        assert!((total - 1.0).abs() < 1e-6, "{demands:?}");
        let macs = demands.iter().find(|d| d.cost == UnitCost::Linear).expect("arithmetic");
        assert!((macs.amount - 197.0 * 192.0 * 768.0).abs() < 0.5, "{macs:?}");
        let free = OpSpec { kind: OpKind::Identity, ..linear };
        assert!(bundle.demands(&free).is_empty());
    }
}

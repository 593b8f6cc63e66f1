//! [`PredictorBundle::explain`]: how the forecast of one kernel comes about: its features beside
//! the range of the training rows, the regressor or fallback, and the parts of its latency.

use crate::{
    Estimate, KeyPredictor, PredictorBundle, PredictorKey, Predictors,
    features::{FeatureSchema, WorkingSet, kin},
    refined::Correction,
    regressors::Baseline,
};
use serde::Serialize;
use vitempo_graph::OpSpec;

/// How the forecast of one kernel comes about.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The key of the regressor that kernels of this class have.
    pub key: PredictorKey,
    /// The forecast.
    pub estimate: Estimate,
    /// What it was computed by.
    pub basis: Basis,
    /// The columns that were read, in the order of the schema.
    pub features: Vec<Feature>,
    /// What measuring the kernel after training corrects the parts by; `None` where it was not.
    pub correction: Option<Correction>,
    /// The kernel has no bias, but every training row of its class has one: it was forecast as if
    /// it had one.
    pub with_bias: bool,
}

/// One column of a kernel's features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Name of the column.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Smallest and largest value among the training rows; `None` for a fallback.
    pub trained: Option<(f64, f64)>,
}

/// What a forecast was computed by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Basis {
    /// The regressor of its key.
    Regressor {
        /// Rows it was fitted to.
        rows: usize,
        /// The work-and-bytes baseline, ns.
        baseline_ns: f64,
        /// The linear model, ns.
        linear_ns: f64,
        /// The trees, ns; equal to the linear model where there are none.
        trees_ns: f64,
        /// Weight of the trees against the linear model, 0 to 1.
        trees_weight: f64,
        /// Whether a whole training model has a kernel of this size.
        in_distribution: bool,
    },
    /// A fallback: the work-and-bytes baseline of its class in other formats.
    Class,
    /// A fallback: the work-and-bytes baseline of its kind, over all classes and formats.
    Kind,
    /// A fallback: the baseline of related kinds.
    Kin {
        /// Name of the group.
        kin: &'static str,
    },
    /// A fallback: the roofline of the environment.
    Roofline,
}

impl Predictors {
    /// The baseline that stands in for a missing regressor, and what it is one of.
    pub(crate) fn stand_in(&self, op: &OpSpec, key: &PredictorKey) -> (Basis, &Baseline) {
        let kin = kin(&op.kind);
        if !self.fallbacks.classes.is_empty()
            && let Some(baseline) = self.fallbacks.classes.get(&key.class_name())
        {
            return (Basis::Class, baseline);
        }
        if let Some(baseline) = self.fallbacks.kinds.get(&*key.kind) {
            return (Basis::Kind, baseline);
        }
        match self.fallbacks.kin.get(kin) {
            Some(baseline) => (Basis::Kin { kin }, baseline),
            None => (Basis::Roofline, &self.fallbacks.roofline),
        }
    }

    fn explain(&self, op: &OpSpec, working_set: WorkingSet) -> Explanation {
        let key = PredictorKey::of(op);
        let estimate = self.estimate(op, working_set);
        let correction = self.refinements.kernels().get(op).copied();
        let Some(predictor) = self.keys.get(&key) else {
            let features = FeatureSchema::extract_within(op, working_set);
            let columns = features.family.columns().zip(features.values);
            let feature = |(name, value)| Feature { name, value, trained: None };
            let features = columns.map(feature).collect();
            let (basis, _) = self.stand_in(op, &key);
            return Explanation { key, estimate, basis, features, correction, with_bias: false };
        };
        let trained = predictor.as_trained(op);
        let x = FeatureSchema::extract_within(&trained, working_set).values;
        let in_distribution = predictor.support.contains(&x);
        let baseline_ns = predictor.baseline.predict(&x);
        let [linear_ns, trees_ns] = predictor.fitted.linear_and_tree_ns(&x, baseline_ns);
        let basis = Basis::Regressor {
            rows: predictor.rows,
            baseline_ns,
            linear_ns,
            trees_ns,
            trees_weight: if in_distribution { 1.0 } else { predictor.blend_weight },
            in_distribution,
        };
        let read = |(_, range): &(_, &(f64, f64))| **range != KeyPredictor::UNREAD;
        let columns = predictor.family.columns().zip(&x).zip(&predictor.ranges).filter(read);
        let feature = |((name, value), range): ((_, &f64), &_)| Feature {
            name,
            value: *value,
            trained: Some(*range),
        };
        let with_bias = matches!(trained, std::borrow::Cow::Owned(_));
        Explanation {
            key,
            estimate,
            basis,
            features: columns.map(feature).collect(),
            correction,
            with_bias,
        }
    }
}

impl PredictorBundle {
    /// How the forecast of one kernel, as the framework runs it in a model of that working set,
    /// comes about.
    #[must_use]
    pub fn explain(&self, op: &OpSpec, working_set: WorkingSet) -> Explanation {
        self.predictors.explain(op, working_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vitempo_graph::{Attributes, LatencyModel, OpKind, Operand, PredictionSource, TensorSpec};

    fn op(kind: OpKind, shape: &[usize]) -> OpSpec {
        let tensor = TensorSpec::f32(shape);
        let input = Operand { tensor: tensor.clone(), constant: false };
        OpSpec { kind, attributes: Attributes::new(), inputs: vec![input], outputs: vec![tensor] }
    }

    #[test]
    fn the_parts_of_an_explanation_are_those_of_the_forecast() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/epyc-rten-f32-1t.vtb");
        let bundle = PredictorBundle::load(&file).expect("a bundle that ships");
        let softmax = op(OpKind::Softmax, &[1, 3, 197, 197]);
        let found = bundle.explain(&softmax, WorkingSet::LARGE);
        let (latency, source) = bundle.predict_operator(&softmax);
        assert_eq!(found.estimate.latency_ns.to_bits(), latency.ns().to_bits());
        assert_eq!(source, PredictionSource::Model);
        let Basis::Regressor { rows, linear_ns, trees_ns, trees_weight, .. } = found.basis else {
            panic!("a regressor: {:?}", found.basis)
        };
        assert!(rows > 10);
        let blended = (trees_weight * trees_ns.ln() + (1.0 - trees_weight) * linear_ns.ln()).exp();
        let log = (found.estimate.latency_ns / blended).ln().abs();
        assert!(log < 0.5, "{blended} beside {}", found.estimate.latency_ns);
        let ranges = found.features.iter().filter_map(|f| f.trained.map(|range| (f.value, range)));
        let outside = ranges.clone().any(|(v, (low, high))| v < low / 1.25 || v > high * 1.25);
        assert_eq!(found.estimate.extrapolating, outside);
        assert_eq!(ranges.count(), found.features.len());
    }

    #[test]
    fn a_fallback_names_what_stands_in() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/epyc-rten-f32-1t.vtb");
        let bundle = PredictorBundle::load(&file).expect("a bundle that ships");
        let strange = op(OpKind::Unsupported("Strange".to_owned()), &[1, 8]);
        let found = bundle.explain(&strange, WorkingSet::LARGE);
        assert_eq!(found.estimate.source, PredictionSource::Fallback);
        assert_eq!(found.basis, Basis::Roofline);
        assert!(found.features.iter().all(|f| f.trained.is_none()) && !found.features.is_empty());
    }
}

//! [`BundleEvaluation`]: one bundle on models that it was not trained on, for the section on
//! accuracy.

use super::group::Group;
use std::collections::BTreeMap;
use vitempo::predictors::{Evaluation, Method};

/// One bundle, and its errors.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleEvaluation {
    /// What was fitted.
    pub method: Method,
    /// Synthetic models it was trained on.
    pub models: usize,
    /// Networks around single operators it was trained on as well.
    pub operators: usize,
    /// Models never trained on, the same for every bundle of an environment.
    pub sets: BTreeMap<Group, Evaluation>,
}

impl BundleEvaluation {
    /// End to end from the models' files; from executed kernels where there is no file.
    pub fn mape(&self, group: Group) -> Option<f64> {
        let evaluation = self.sets.get(&group)?;
        evaluation.e2e.as_ref().or(evaluation.e2e_executed.as_ref()).map(|e| e.mape)
    }
}

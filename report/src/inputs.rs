//! The effect of input values on operators: the same operators, measured with other input values.

use std::collections::{BTreeMap, HashMap};
use vitempo::graph::{ModelProfile, OpFamily, OpKind, OpSpec};
use vitempo::predictors::{TrainingRow, TrainingRows};

/// One kind of operator with one distribution of input values, against the usual one.
#[derive(Clone, Debug, PartialEq)]
pub struct InputEffect {
    pub kind: OpKind,
    /// As the protocol names it, e.g. `constant(2)`.
    pub distribution: String,
    /// Latency with these values over latency with the usual ones, one for each operator in each
    /// model.
    pub ratios: Vec<f64>,
}

/// Activations of `others`, one effect per kind and distribution, held against the same operators
/// of the same models in `usual`.
pub fn effects(usual: &TrainingRows, others: &[ModelProfile]) -> Vec<InputEffect> {
    let mut by_distribution: BTreeMap<&str, Vec<ModelProfile>> = BTreeMap::new();
    for p in others {
        by_distribution.entry(&p.protocol.input_distribution).or_default().push(p.clone());
    }
    let known = latencies(usual);
    let mut ratios: BTreeMap<(OpKind, &str), Vec<f64>> = BTreeMap::new();
    for (distribution, profiles) in &by_distribution {
        let Ok(rows) = TrainingRows::with_drift(profiles, usual.drift) else { continue };
        for (key, latency_ns) in latencies(&rows) {
            if let Some(before) = known.get(&key) {
                ratios
                    .entry((key.1.kind.clone(), distribution))
                    .or_default()
                    .push(latency_ns / before);
            }
        }
    }
    let effect = |((kind, distribution), mut ratios): ((OpKind, &str), Vec<f64>)| {
        ratios.sort_unstable_by(f64::total_cmp);
        InputEffect { kind, distribution: distribution.to_owned(), ratios }
    };
    ratios.into_iter().map(effect).collect()
}

/// Activations by architecture and operator.
fn latencies(rows: &TrainingRows) -> HashMap<(&str, &OpSpec), f64> {
    let key = |r: &'_ TrainingRow| rows.models.get(r.model).map(|m| m.architecture.as_str());
    let activations = rows.rows.iter().filter(|r| r.op.kind.family() == OpFamily::Activation);
    activations
        .filter_map(|r| -> Option<((&str, &OpSpec), f64)> {
            Some(((key(r)?, &r.op), r.latency_ns))
        })
        .collect()
}

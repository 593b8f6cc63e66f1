//! The accuracy of lowering: the share of kernel time that lowering predicted, model by model.
//!
//! Each model runs in a worker with operator timing, a few repeats; the executed kernels are
//! compared with those of [`vitempo_graph::lowering::lower`] for the same environment
//! ([`vitempo_graph::lowering::compare`]). A model that does not run has no share; it is listed
//! with its reason.

use crate::sweep::{Hooks, Progress, Sweep, SweepError, SweepModel};
use serde::Serialize;
use std::{collections::HashMap, fmt, sync::atomic::AtomicBool};
use vitempo_graph::{
    Environment, Graph, ModelIdentity, OpKind, Status,
    lowering::{
        LoweringError,
        compare::{Comparison, compare, share},
        lower,
    },
};

/// Family of a model; figures are reported per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Sampled from a search space, as the folder's index says.
    Synthetic,
    /// Has attention: a softmax whose result goes into a matrix product.
    Vit,
    /// Everything else.
    Cnn,
}

/// One model's part of a [`LoweringAccuracy`].
#[derive(Clone, Debug)]
pub struct ModelAccuracy {
    /// Which model.
    pub model: ModelIdentity,
    /// Its family.
    pub family: Family,
    /// What prediction and run have in common, or why it did not run.
    pub outcome: Result<Comparison, String>,
}

/// The accuracy of lowering for a set of models.
#[derive(Clone, Debug)]
pub struct LoweringAccuracy {
    /// Where the models ran.
    pub environment: Environment,
    /// One per model, in the order given.
    pub models: Vec<ModelAccuracy>,
    /// The run was interrupted: models are missing.
    pub interrupted: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringAccuracyError {
    /// There are no rules for the engine.
    #[error("there are no lowering rules for engine `{0}`")]
    NoRules(String),
    /// The models cannot be measured.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

impl Family {
    /// Every family, in the order they are reported.
    pub const ALL: [Self; 3] = [Self::Synthetic, Self::Vit, Self::Cnn];

    /// That of a model.
    #[must_use]
    pub fn of(identity: &ModelIdentity, graph: &Graph) -> Self {
        match identity.space {
            Some(_) => Self::Synthetic,
            None if has_attention(graph) => Self::Vit,
            None => Self::Cnn,
        }
    }

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Vit => "vit",
            Self::Cnn => "cnn",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a softmax feeds a matrix product, directly or through operators that only move, scale or
/// mask.
fn has_attention(graph: &Graph) -> bool {
    use OpKind as K;
    let passes = |kind: &K| {
        matches!(
            kind,
            K::Reshape
                | K::Transpose
                | K::Cast
                | K::Slice
                | K::Split
                | K::Concat
                | K::Expand
                | K::Gather
                | K::Mul
                | K::Div
                | K::Add
                | K::Identity
        )
    };
    let consumers = graph.consumers();
    let reaches_product = |start: usize| {
        let mut seen = vec![false; graph.nodes().len()];
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            for &next in graph.nodes()[index].outputs.iter().flat_map(|v| &consumers[v.0 as usize])
            {
                let kind = &graph.nodes()[next].op.kind;
                if matches!(kind, K::MatMul | K::Einsum) {
                    return true;
                }
                if passes(kind) && !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
            }
        }
        false
    };
    graph.nodes().iter().enumerate().any(|(index, node)| {
        node.op.kind == K::Attention || (node.op.kind == K::Softmax && reaches_product(index))
    })
}

/// Runs the models of `sweep` and compares.
///
/// # Errors
/// [`LoweringAccuracyError`] when the engine cannot run at all or there are no rules for it. A
/// model that fails is no error.
pub fn evaluate(
    sweep: &Sweep,
    progress: &mut dyn FnMut(&Progress<'_>),
    interrupted: &AtomicBool,
) -> Result<LoweringAccuracy, LoweringAccuracyError> {
    let environment = sweep.target.probe(&sweep.backend, &sweep.options)?;
    let key = |identity: &ModelIdentity| (identity.architecture.clone(), identity.name.clone());
    let models: HashMap<_, &SweepModel> =
        sweep.models.iter().map(|m| (key(&m.identity), m)).collect();
    let mut outcomes = HashMap::new();
    let mut rules = true;
    let summary = sweep.run(Hooks {
        done: &|_, _| false,
        sink: &mut |profile| {
            let Some(model) = models.get(&key(&profile.model)) else { return Ok(()) };
            let outcome = match &profile.status {
                Status::Failed(reason) => Err(reason.clone()),
                Status::Ok => lower(&model.graph, &profile.environment)
                    .map(|kernels| compare(&kernels, &profile.operators))
                    .map_err(|error| {
                        rules &= !matches!(error, LoweringError::NoRules { .. });
                        error.to_string()
                    }),
            };
            outcomes.insert(key(&profile.model), outcome);
            if rules { Ok(()) } else { Err("no lowering rules".to_owned()) }
        },
        progress,
        interrupted,
    });
    if !rules {
        return Err(LoweringAccuracyError::NoRules(sweep.backend.clone()));
    }
    let interrupted = summary?.interrupted;
    let model = |m: &SweepModel| {
        let outcome = outcomes.remove(&key(&m.identity))?;
        Some(ModelAccuracy {
            model: m.identity.clone(),
            family: Family::of(&m.identity, &m.graph),
            outcome,
        })
    };
    Ok(LoweringAccuracy {
        environment,
        models: sweep.models.iter().filter_map(model).collect(),
        interrupted,
    })
}

/// Time over several models; nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// How many models.
    pub models: usize,
    /// Time of all kernels that ran.
    pub executed_ns: f64,
    /// Of that, of kernels predicted in kind and shapes.
    pub matched_ns: f64,
    /// Of that, of kernels predicted in everything.
    pub equal_ns: f64,
}

impl Time {
    /// Share predicted in kind and shapes.
    #[must_use]
    pub fn matched(&self) -> f64 {
        share(self.matched_ns, self.executed_ns)
    }

    /// Share predicted in everything.
    #[must_use]
    pub fn equal(&self) -> f64 {
        share(self.equal_ns, self.executed_ns)
    }
}

impl LoweringAccuracy {
    /// Comparisons of the models that ran, of one family or of all.
    pub fn compared(
        &self,
        family: Option<Family>,
    ) -> impl Iterator<Item = (&ModelAccuracy, &Comparison)> {
        self.models
            .iter()
            .filter(move |m| family.is_none_or(|f| f == m.family))
            .filter_map(|m| Some((m, m.outcome.as_ref().ok()?)))
    }

    /// Their time, added up.
    #[must_use]
    pub fn time(&self, family: Option<Family>) -> Time {
        self.compared(family).fold(Time::default(), |t, (_, c)| Time {
            models: t.models + 1,
            executed_ns: t.executed_ns + c.executed_ns,
            matched_ns: t.matched_ns + c.matched_ns,
            equal_ns: t.equal_ns + c.equal_ns,
        })
    }

    /// Families of which a model ran.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|&f| self.compared(Some(f)).next().is_some())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::reference;
    use vitempo_graph::{GraphBuilder, TensorSpec};

    #[test]
    fn families_are_told_by_origin_and_attention() {
        let mut b = GraphBuilder::new("cnn");
        let image = b.input("x", TensorSpec::f32([1, 3, 8, 8]));
        let x = b.conv("conv", image, 4, 3, 1, 1, 1, true).unwrap();
        let x = b.softmax("probabilities", x, 1).unwrap();
        let cnn = b.finish(vec![x]).unwrap();
        let of = |graph: &Graph, space: Option<&str>| {
            let identity = ModelIdentity {
                name: "m".into(),
                architecture: graph.architecture(),
                space: space.map(str::to_owned),
                encoding: None,
            };
            Family::of(&identity, graph)
        };
        assert_eq!(of(&cnn, None), Family::Cnn);
        assert_eq!(of(&reference::graph().unwrap(), None), Family::Vit);
        assert_eq!(of(&cnn, Some("hybrid-vit")), Family::Synthetic);
    }
}

//! The accuracy of lowering: the share of kernel time that lowering predicted, model by model.
//!
//! Each model runs in a worker with operator timing, a few repeats; the executed kernels are
//! compared with those of [`vitempo_graph::lowering::lower`] for the same environment
//! ([`vitempo_graph::lowering::compare`]). A model that does not run has no share; it is listed
//! with its reason.

use crate::{
    RunProtocol,
    probe::SweepError,
    sweep::{Hooks, Progress, Sweep, SweepModel},
};
use serde::Serialize;
use std::{collections::HashMap, fmt, sync::atomic::AtomicBool};
use vitempo_graph::{
    Environment, Graph, ModelIdentity, OpKind, Status,
    lowering::{
        LoweringError,
        compare::{Comparison, Mismatch, compare, share},
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

/// Why an accuracy of lowering does not pass.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum LoweringShortfall {
    /// The user interrupted.
    #[error("interrupted: some models were not evaluated")]
    Interrupted,
    /// No model ran; the reason of the first.
    #[error("no model ran; {0}")]
    NothingRan(String),
    /// Too little of a family's time was predicted.
    #[error("{percent:.2} % of the time of family {family} was predicted, less than {least} %")]
    BelowLimit {
        /// The family.
        family: Family,
        /// What was predicted, percent of its time.
        percent: f64,
        /// What was asked, percent.
        least: f64,
    },
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

/// The protocol of a sweep that is only compared: operators are timed in so many repeats, and
/// models run once end to end.
#[must_use]
pub fn protocol(repeats: usize) -> RunProtocol {
    let mut run =
        RunProtocol { profiled_repeats: repeats, reference_repeats: 0, ..RunProtocol::default() };
    run.protocol.warmups = 1;
    (run.protocol.min_repeats, run.protocol.max_repeats) = (1, 1);
    run
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

    /// Kernels that one of the lists of a comparison holds, longest first over all models, with the
    /// model's name and the share of that model's time.
    #[must_use]
    pub fn missed(&self, list: fn(&Comparison) -> &[Mismatch]) -> Vec<(&str, f64, &Mismatch)> {
        let mut rows: Vec<(&str, f64, &Mismatch)> = Vec::new();
        for (model, comparison) in self.compared(None) {
            let name = model.model.name.as_str();
            for missed in list(comparison) {
                rows.push((name, share(missed.ns, comparison.executed_ns), missed));
            }
        }
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows
    }

    /// The model of a family, or of all, of whose time the least share was predicted.
    #[must_use]
    pub fn lowest(&self, family: Option<Family>) -> Option<(&ModelAccuracy, &Comparison)> {
        let compared = self.compared(family);
        compared.min_by(|a, b| a.1.time_matched().total_cmp(&b.1.time_matched()))
    }

    /// The gate: all models were evaluated, some ran, and at least `least` percent of the time of
    /// every family was predicted.
    ///
    /// # Errors
    /// [`LoweringShortfall`] for the first of these that does not hold.
    pub fn check(&self, least: Option<f64>) -> Result<(), LoweringShortfall> {
        if self.interrupted {
            return Err(LoweringShortfall::Interrupted);
        }
        if self.compared(None).next().is_none() {
            let reason = self
                .models
                .iter()
                .find_map(|m| Some(format!("`{}`: {}", m.model.name, m.outcome.as_ref().err()?)));
            return Err(LoweringShortfall::NothingRan(reason.unwrap_or_default()));
        }
        for family in self.families() {
            let percent = 100.0 * self.time(Some(family)).matched();
            if let Some(least) = least.filter(|&least| percent < least) {
                return Err(LoweringShortfall::BelowLimit { family, percent, least });
            }
        }
        Ok(())
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

    #[test]
    fn the_gate_names_what_does_not_hold() {
        let identity = |name: &str| ModelIdentity {
            name: name.into(),
            architecture: name.into(),
            space: None,
            encoding: None,
        };
        let model = |name: &str, outcome| ModelAccuracy {
            model: identity(name),
            family: Family::Cnn,
            outcome,
        };
        let ran =
            |matched_ns| Comparison { executed_ns: 100.0, matched_ns, ..Comparison::default() };
        let environment = Environment {
            device: "here".into(),
            processor: vitempo_graph::Processor::Cpu,
            cores_available: 1,
            cores: vec![0],
            framework: "rten".into(),
            framework_version: "0".into(),
            threads: 1,
            precision: vitempo_graph::Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
            beside: None,
            settings: Vec::new(),
            host: None,
        };
        let accuracy = |models, interrupted| LoweringAccuracy {
            environment: environment.clone(),
            models,
            interrupted,
        };
        let good = accuracy(vec![model("a", Ok(ran(100.0))), model("b", Ok(ran(80.0)))], false);
        assert_eq!(good.check(Some(90.0)), Ok(()));
        assert_eq!(good.lowest(None).map(|(m, _)| m.model.name.as_str()), Some("b"));
        let shortfall = good.check(Some(90.5));
        assert!(matches!(shortfall, Err(LoweringShortfall::BelowLimit { percent, .. })
            if (percent - 90.0).abs() < 1e-9));
        let failed = accuracy(vec![model("a", Err("no kernel".to_owned()))], false);
        assert_eq!(
            failed.check(None),
            Err(LoweringShortfall::NothingRan("`a`: no kernel".to_owned()))
        );
        let stopped = accuracy(Vec::new(), true);
        assert_eq!(stopped.check(None), Err(LoweringShortfall::Interrupted));
    }
}

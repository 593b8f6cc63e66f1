//! Operators measured on their own, for kinds that the measured models lack or have too few of:
//! `vitempo profile --ops KINDS` and `vitempo sample --space operators`.
//!
//! Each distinct kernel of these kinds that the engine would run for the given models becomes a
//! small model around one operator. Its operator times are kept; its end-to-end time is not,
//! because it is no model that anybody would ask about.

use super::{
    error::{CliError, CliResult},
    models::Model,
    progress,
};
use std::collections::BTreeMap;
use vitempo_graph::{Environment, ModelIdentity, ModelProfile, OpKind, Samples, lowering};
use vitempo_profiler::{Source, SweepModel, single};

/// Reads `--ops`.
pub fn parse_kind(text: &str) -> Result<OpKind, String> {
    match OpKind::from(text.to_owned()) {
        OpKind::Unsupported(_) => Err(format!(
            "`{text}` is no operator kind; `vitempo inspect MODEL` shows the kinds of a model"
        )),
        kind => Ok(kind),
    }
}

/// One small model per distinct kernel of these kinds.
pub fn models(
    models: &[Model],
    kinds: &[OpKind],
    environment: &Environment,
) -> CliResult<Vec<SweepModel>> {
    let mut found = BTreeMap::new();
    for model in models {
        let kernels = lowering::lower(&model.graph, environment)
            .map_err(|error| CliError::user(error).about("--ops"))?;
        for node in kernels.nodes().iter().filter(|n| kinds.contains(&n.op.kind)) {
            found.entry(node.op.id()).or_insert_with(|| node.op.clone());
        }
    }
    if found.is_empty() {
        return Err(CliError::user("no operator of these kinds in these models (--ops)")
            .hint("`vitempo inspect MODELS --framework NAME` shows the kinds"));
    }
    let mut singles = Vec::new();
    for (id, op) in found {
        match single::graph_of(&op) {
            Ok(graph) => {
                let name = format!("{}-{id}", op.kind);
                let identity = ModelIdentity {
                    name,
                    architecture: graph.architecture(),
                    space: Some(ModelIdentity::OPERATORS.to_owned()),
                    encoding: None,
                };
                singles.push(SweepModel { identity, graph, source: Source::Graph });
            }
            Err(error) => progress::say(format!("warning: left out {}: {error}", op.kind)),
        }
    }
    Ok(singles)
}

/// The profile as it is kept.
pub fn without_e2e(profile: &ModelProfile) -> ModelProfile {
    let mut kept = profile.clone();
    if kept.model.is_operator() {
        kept.e2e = Samples::default();
    }
    kept
}

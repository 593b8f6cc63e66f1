//! Measures single operators on their own, for operators that no model contains.
//!
//! A single operator would read inputs that are not in the caches and write to fresh memory, and
//! would be slower than inside a model. It is therefore placed between two cheap operators: an
//! `Abs` computes each float input inside the graph, and another `Abs` reads each float output, so
//! that both are intermediate tensors. Few engines fuse anything with `Abs`. All other kernels that
//! the engine runs are reported.

use crate::{
    backends::options::RunOptions,
    probe::SweepError,
    protocol::RunProtocol,
    source::Source,
    sweep::{Hooks, MemoryRuns, Sweep, SweepModel},
    worker::WorkerCommand,
};
use std::{sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::{
    Attributes, Graph, GraphBuilder, GraphError, Measurement, MemoryFormat, ModelIdentity, OpKind,
    OpSpec, Samples, Status, TensorSpec,
};

/// Start of the names of the operators put around the one that is measured.
const AROUND: &str = "vitempo_around";

/// Measures each operator on its own: for each, one measurement per kernel that the engine runs for
/// it, `node` empty. An operator that cannot be measured is one failed measurement with its reason.
///
/// # Errors
/// [`SweepError`] as [`Sweep::run`].
pub fn profile_operators(
    operators: &[OpSpec],
    backend: &str,
    options: &RunOptions,
    protocol: &RunProtocol,
    worker: &WorkerCommand,
    interrupted: &AtomicBool,
) -> Result<Vec<Measurement>, SweepError> {
    let mut measured: Vec<Vec<Measurement>> = vec![Vec::new(); operators.len()];
    let mut models = Vec::new();
    for (index, op) in operators.iter().enumerate() {
        match graph_of(op) {
            Ok(graph) => {
                let identity = ModelIdentity {
                    name: index.to_string(),
                    architecture: graph.architecture(),
                    space: None,
                    encoding: None,
                };
                models.push(SweepModel { identity, graph, source: Source::Graph });
            }
            Err(error) => measured[index] = vec![failed(op, error.to_string())],
        }
    }
    let sweep = Sweep {
        models,
        backend: backend.to_owned(),
        options: options.clone(),
        protocol: protocol.clone(),
        only_round: None,
        budget: None,
        run_timeout: Duration::from_secs(60),
        target: worker.clone().into(),
        session: "single operators".to_owned(),
        beside: None,
        memory: MemoryRuns::Never,
    };
    let mut sink = |profile: &vitempo_graph::ModelProfile| {
        if let Some((slot, op)) = profile
            .model
            .name
            .parse()
            .ok()
            .and_then(|i: usize| Some((measured.get_mut(i)?, operators.get(i)?)))
        {
            match &profile.status {
                Status::Failed(reason) => slot.push(failed(op, reason.clone())),
                Status::Ok => {
                    slot.extend(inside(&profile.operators, &op.kind));
                }
            }
        }
        Ok(())
    };
    sweep.run(Hooks {
        done: &|_, _| false,
        sink: &mut sink,
        progress: &mut |_| {},
        interrupted,
    })?;
    Ok(measured.into_iter().flatten().collect())
}

/// All kernels except the surrounding ones: any `Abs`, because an engine may swap it with the
/// operator.
fn inside(measured: &[Measurement], kind: &OpKind) -> impl Iterator<Item = Measurement> {
    let kind = kind.clone();
    let around =
        move |m: &Measurement| is_abs(&m.op) && (kind != OpKind::Abs || m.node.contains(AROUND));
    measured
        .iter()
        .filter(move |m| !around(m))
        .map(|m| Measurement { node: String::new(), ..m.clone() })
}

fn is_abs(op: &OpSpec) -> bool {
    let only_abs = |ops: &str| ops.split('+').all(|op| op == OpKind::Abs.name());
    op.kind == OpKind::Abs
        || (op.kind == OpKind::Elementwise && op.attributes.text("ops").is_some_and(only_abs))
}

fn failed(op: &OpSpec, reason: String) -> Measurement {
    Measurement {
        op: op.clone().into(),
        node: String::new(),
        kernel: op.kind.name().to_owned(),
        samples: Samples::default(),
        memory_bytes: None,
        status: Status::Failed(reason),
    }
}

/// A small model around one operator. Tensors are channels first: an engine that likes another
/// order makes it itself.
///
/// # Errors
/// [`GraphError::Node`] when the operator has no known outputs or these are not what its inputs and
/// attributes give.
pub fn graph_of(op: &OpSpec) -> Result<Graph, GraphError> {
    let refuse = |reason: String| GraphError::Node { node: op.kind.name().to_owned(), reason };
    let mut b = GraphBuilder::new(format!("single_{}", op.kind.name()));
    let mut inputs = Vec::with_capacity(op.inputs.len());
    for (i, operand) in op.inputs.iter().enumerate() {
        let tensor = channels_first(&operand.tensor);
        inputs.push(match (operand.constant, tensor.precision.is_float()) {
            (true, _) => b.weight(format!("weight{i}"), tensor),
            (false, false) => b.input(format!("input{i}"), tensor),
            (false, true) => {
                let outside = b.input(format!("input{i}"), tensor);
                b.op(&format!("{AROUND}_input{i}"), OpKind::Abs, Attributes::new(), &[outside])?
            }
        });
    }
    let outputs = b.op_many("operator", op.kind.clone(), op.attributes.clone(), &inputs)?;
    let given: Vec<TensorSpec> = outputs.iter().filter_map(|&id| b.tensor(id).cloned()).collect();
    let said: Vec<TensorSpec> = op.outputs.iter().map(channels_first).collect();
    if given != said || given.is_empty() {
        return Err(refuse("its inputs and attributes do not give its outputs".to_owned()));
    }
    let mut ends = Vec::with_capacity(outputs.len());
    for (i, (&id, tensor)) in outputs.iter().zip(&given).enumerate() {
        let float = tensor.precision.is_float();
        ends.push(if float {
            b.op(&format!("{AROUND}_output{i}"), OpKind::Abs, Attributes::new(), &[id])?
        } else {
            id
        });
    }
    b.finish(ends)
}

fn channels_first(tensor: &TensorSpec) -> TensorSpec {
    tensor.clone().with_format(MemoryFormat::ChannelsFirst)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_of_the_reference_can_stand_alone() {
        for node in crate::reference::graph().unwrap().nodes() {
            let graph = graph_of(&node.op).unwrap_or_else(|e| panic!("{}: {e}", node.name));
            let inside: Vec<_> =
                graph.nodes().iter().filter(|n| !n.name.contains(AROUND)).collect();
            assert_eq!(inside.len(), 1);
            assert_eq!(inside[0].op, node.op);
        }
    }

    #[test]
    fn an_operator_that_contradicts_itself_is_refused() {
        let mut op = crate::reference::graph().unwrap().nodes()[0].op.clone();
        op.outputs[0].shape[1] += 1;
        assert!(graph_of(&op).is_err());
        op.kind = OpKind::Unsupported("Foo".into());
        assert!(graph_of(&op).is_err());
    }
}

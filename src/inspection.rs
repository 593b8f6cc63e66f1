//! The contents of a model: [`kinds`] counts its operators by kind, `kernels` lowers it to the
//! kernels that a framework would run on this machine.

use std::cmp::Reverse;
use vitempo_graph::{Graph, Work};
#[cfg(feature = "profile")]
use vitempo_graph::{
    MemoryFormat, Precision,
    lowering::{self, LoweringError},
};
#[cfg(feature = "profile")]
use vitempo_profiler::{
    BackendError, Capabilities, RunOptions, WorkerCommand, backends, environment,
    pinning::PinningError, probe,
};

/// The operators of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindRow {
    /// Name of the kind.
    pub kind: String,
    /// How many there are.
    pub count: usize,
    /// Their total work.
    pub flops: u64,
    /// The bytes that they read and write.
    pub bytes_moved: u64,
}

/// Why the kernels of a model are not known.
#[cfg(feature = "profile")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The framework has no rules, or not for this model.
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    /// This machine has no core to run on.
    #[error(transparent)]
    Machine(#[from] PinningError),
}

/// Operators by kind, those with the most FLOPs first.
#[must_use]
pub fn kinds(graph: &Graph) -> Vec<KindRow> {
    grouped(graph, |_, kind| kind)
}

/// Operators by a name of their group, from the place of the node and the name of its kind; those
/// with the most FLOPs first.
pub(crate) fn grouped<'a>(
    graph: &'a Graph,
    group: impl Fn(usize, &'a str) -> &'a str,
) -> Vec<KindRow> {
    let mut rows: Vec<KindRow> = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let work = Work::of_operator(&node.op);
        let bytes_moved = work.bytes_read.saturating_add(work.bytes_written);
        let kind = group(index, node.op.kind.name());
        match rows.iter_mut().find(|row| row.kind == kind) {
            Some(row) => {
                row.count += 1;
                row.flops = row.flops.saturating_add(work.flops);
                row.bytes_moved = row.bytes_moved.saturating_add(bytes_moved);
            }
            None => rows.push(KindRow {
                kind: kind.to_owned(),
                count: 1,
                flops: work.flops,
                bytes_moved,
            }),
        }
    }
    rows.sort_by_key(|row| Reverse((row.flops, row.count)));
    rows
}

/// Refuses a precision or a memory format that the engine of a framework does not offer here. An
/// engine that is not here refuses nothing.
///
/// # Errors
/// [`BackendError::Option`] with what it offers.
#[cfg(feature = "profile")]
pub fn check(
    worker: &WorkerCommand,
    framework: &str,
    precision: Precision,
    memory_format: Option<MemoryFormat>,
) -> Result<(), BackendError> {
    let options = RunOptions { precision, memory_format, ..RunOptions::default() };
    let Ok(backend) = backends::by_name(framework) else { return Ok(()) };
    match probe::capabilities(worker, framework, &options) {
        Ok(capabilities) => capabilities.check(backend.name(), &options),
        Err(_) => Ok(()),
    }
}

/// The kernels that a framework would run for a model on this machine, whose instruction set
/// counts.
///
/// # Errors
/// [`KernelError::Lowering`] where the framework has no rules for the model.
#[cfg(feature = "profile")]
pub fn kernels(
    graph: &Graph,
    framework: &str,
    precision: Precision,
    memory_format: Option<MemoryFormat>,
) -> Result<Graph, KernelError> {
    let options = RunOptions { precision, memory_format, ..RunOptions::default() };
    let capabilities = Capabilities {
        version: String::new(),
        path: None,
        devices: Vec::new(),
        precisions: Vec::new(),
        memory_formats: Vec::new(),
        settings: Vec::new(),
        operator_timing: false,
    };
    let environment = environment::detect(framework, &capabilities, &options)?;
    Ok(lowering::lower(graph, &environment)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{onnx, patterns};

    #[test]
    fn kinds_add_up_to_the_model() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/mobilevit_xxs.onnx");
        let graph = onnx::read_file(file.as_ref(), &onnx::ReadOptions::default()).expect("a model");
        let graph = patterns::canonicalize(&graph);
        let rows = kinds(&graph);
        assert_eq!(rows.iter().map(|row| row.count).sum::<usize>(), graph.nodes().len());
        assert_eq!(rows.iter().map(|row| row.flops).sum::<u64>(), Work::of_graph(&graph).flops);
        assert!(rows.is_sorted_by(|a, b| a.flops >= b.flops));
    }
}

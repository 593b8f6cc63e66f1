//! Every operator of a model, as a table, CSV and JSON.

use super::{
    super::{
        error::CliResult,
        output::{Table, si},
    },
    Inspected,
};
use serde_json::json;
use vitempo::graph::{Graph, Node, TensorSpec, Work};

fn joined<'a>(tensors: impl Iterator<Item = &'a TensorSpec>) -> String {
    tensors.map(TensorSpec::to_string).collect::<Vec<_>>().join(", ")
}

fn words(node: &Node) -> [String; 4] {
    [
        node.name.clone(),
        node.op.kind.name().to_owned(),
        joined(node.op.activations()),
        joined(node.op.outputs.iter()),
    ]
}

pub fn table(graph: &Graph) -> String {
    let mut table = Table::new(&["Node", "Kind", "Inputs", "Outputs", "FLOPs"], 4);
    for node in graph.nodes() {
        let flops = si(Work::of_operator(&node.op).flops);
        table.row(words(node).into_iter().chain([flops]));
    }
    table.to_text()
}

/// A row per operator of each model.
pub fn csv(models: &[Inspected]) -> CliResult<String> {
    let mut table = Table::new(
        &[
            "model",
            "node",
            "kind",
            "inputs",
            "outputs",
            "macs",
            "flops",
            "params",
            "bytes_read",
            "bytes_written",
        ],
        5,
    );
    for model in models {
        for node in model.listed().nodes() {
            let Work { macs, flops, params, bytes_read, bytes_written, .. } =
                Work::of_operator(&node.op);
            let counts = [macs, flops, params, bytes_read, bytes_written];
            let name = std::iter::once(model.model.identity.name.clone());
            table.row(name.chain(words(node)).chain(counts.map(|count| count.to_string())));
        }
    }
    table.to_csv()
}

pub fn json(graph: &Graph) -> serde_json::Value {
    let row = |node: &Node| {
        let work = Work::of_operator(&node.op);
        json!({
            "name": node.name,
            "kind": node.op.kind,
            "inputs": node.op.activations().collect::<Vec<_>>(),
            "outputs": node.op.outputs,
            "macs": work.macs,
            "flops": work.flops,
            "params": work.params,
            "bytes_read": work.bytes_read,
            "bytes_written": work.bytes_written,
        })
    };
    graph.nodes().iter().map(row).collect()
}

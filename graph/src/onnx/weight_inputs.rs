//! Finds weights that a file lists as graph inputs without values, as torch writes them with
//! `export_params=False`.
//!
//! An input is a weight if all of its readers, directly or through operators that only rearrange
//! it, read it as a weight. [`Use::Weight`] proves that by itself; [`Use::Operand`] (of an
//! addition, of a matrix product) also fits data, so that the input's name or its place behind
//! other weights has to confirm it. Exporters list data before weights. In a file that stores
//! weights only names count: an input in the place of a weight is a dynamic filter there.

use super::view::{GraphView, NodeView, ValueInfoView};
use super::{ReadOptions, dimensions};
use crate::TensorSpec;
use foldhash::{HashMap, HashMapExt, HashSet};

/// How a node reads an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// In a place that only weights have.
    Weight,
    /// In a place that weights and data have.
    Operand,
    /// In a place that weights do not have, or that masks have.
    Data,
}

/// A graph input that may be a weight.
struct Candidate<'a> {
    name: &'a str,
    tensor: TensorSpec,
    uses: Vec<Use>,
}

impl Candidate<'_> {
    fn is_read_as(&self, sought: Use) -> bool {
        self.uses.contains(&sought)
    }
}

/// The inputs that are weights; none where no input would be left.
pub(super) fn find<'a>(graph: &GraphView<'a>) -> HashMap<&'a str, TensorSpec> {
    let initializers: HashSet<&str> = graph.initializer.iter().map(|t| t.name).collect();
    let given = || graph.input.iter().filter(|info| !initializers.contains(info.name));
    let inputs = given().count();
    if inputs < 2 {
        return HashMap::new();
    }
    let mut candidates: Vec<Candidate<'a>> = given().filter_map(candidate).collect();
    note_uses(graph, &mut candidates);
    let stores_weights = stores_weights(graph, &initializers);
    let mut behind_weights = false;
    let mut weights = HashMap::new();
    for candidate in candidates {
        let named = is_parameter_name(candidate.name);
        let proven = candidate.is_read_as(Use::Weight) || behind_weights;
        let is_weight = !candidate.uses.is_empty()
            && !candidate.is_read_as(Use::Data)
            && (named || (proven && !stores_weights));
        behind_weights |= is_weight && candidate.is_read_as(Use::Weight);
        if is_weight {
            weights.insert(candidate.name, candidate.tensor);
        }
    }
    if weights.len() < inputs { weights } else { HashMap::new() }
}

/// A floating-point tensor of known shape.
fn candidate<'a>(info: &ValueInfoView<'a>) -> Option<Candidate<'a>> {
    let tensor = dimensions::declared(info, &ReadOptions::default())?;
    let fits = tensor.precision.is_float() && tensor.elements() > 0;
    fits.then(|| Candidate { name: info.name, tensor, uses: Vec::new() })
}

fn note_uses<'a>(graph: &GraphView<'a>, candidates: &mut [Candidate<'a>]) {
    let mut sources: HashMap<&str, usize> = HashMap::with_capacity(2 * candidates.len());
    sources.extend(candidates.iter().enumerate().map(|(index, c)| (c.name, index)));
    let masked: HashSet<&str> = graph
        .node
        .iter()
        .filter(|node| node.op_type == "Softmax")
        .flat_map(|node| node.input.iter().copied())
        .collect();
    let biases: HashSet<&str> =
        candidates.iter().filter(|c| c.tensor.rank() == 1).map(|c| c.name).collect();
    for node in &graph.node {
        let has_bias = node.input.get(2).is_some_and(|bias| biases.contains(bias));
        for (position, input) in node.input.iter().enumerate() {
            let Some(&index) = sources.get(input) else { continue };
            if position == 0 && rearranges(node.op_type) {
                sources.extend(node.output.iter().map(|output| (*output, index)));
                continue;
            }
            let candidate = &mut candidates[index];
            let is_mask = matches!(node.op_type, "Add" | "Sub" | "Where")
                && node.output.iter().any(|output| masked.contains(output))
                && !is_parameter_name(candidate.name);
            let read_as = if is_mask {
                Use::Data
            } else {
                how_read(node, position, candidate.tensor.rank(), has_bias)
            };
            candidate.uses.push(read_as);
        }
    }
    for output in &graph.output {
        if let Some(&index) = sources.get(output.name) {
            candidates[index].uses.push(Use::Data);
        }
    }
}

/// Operators between a weight and its reader.
fn rearranges(op_type: &str) -> bool {
    matches!(
        op_type,
        "Transpose"
            | "Reshape"
            | "Squeeze"
            | "Unsqueeze"
            | "Flatten"
            | "Cast"
            | "Identity"
            | "Expand"
    )
}

/// `has_bias`: the third input may be a bias without values.
fn how_read(node: &NodeView<'_>, position: usize, rank: usize, has_bias: bool) -> Use {
    match (node.op_type, position) {
        ("Conv" | "ConvTranspose", 1) if rank > 2 => Use::Weight,
        ("Conv" | "ConvTranspose", 2) if rank == 1 => Use::Weight,
        ("BatchNormalization", 1..=4) if rank == 1 => Use::Weight,
        ("InstanceNormalization" | "GroupNormalization", 1 | 2) if rank == 1 => Use::Weight,
        ("LayerNormalization", 1 | 2) | ("RMSNormalization", 1) => Use::Weight,
        ("PRelu", 1) => Use::Weight,
        ("Gemm", 2) if rank == 1 => Use::Weight,
        ("Gemm", 1) if rank == 2 && has_bias => Use::Weight,
        ("Gemm", 1 | 2) if rank <= 2 => Use::Operand,
        ("MatMul", 1) if rank == 2 => Use::Operand,
        ("Add" | "Sub" | "Mul" | "Div" | "Concat" | "Where", _) => Use::Operand,
        ("Gather", 0) => Use::Operand,
        ("Einsum", 1..) => Use::Operand,
        _ => Use::Data,
    }
}

/// Whether the file has values, or their place, of a weight of a product or a normalisation;
/// quantised ones stand behind a DequantizeLinear, or are integers themselves.
fn stores_weights(graph: &GraphView<'_>, initializers: &HashSet<&str>) -> bool {
    let dequantized: HashSet<&str> = graph
        .node
        .iter()
        .filter(|node| node.op_type == "DequantizeLinear")
        .filter(|node| node.input.first().is_some_and(|stored| initializers.contains(stored)))
        .flat_map(|node| node.output.iter().copied())
        .collect();
    let weight = |node: &NodeView<'_>| match node.op_type {
        "Conv" | "ConvTranspose" | "Gemm" | "MatMul" | "ConvInteger" | "MatMulInteger" => Some(1),
        "QLinearConv" | "QLinearMatMul" => Some(3),
        normalization if normalization.ends_with("Normalization") => Some(1),
        _ => None,
    };
    graph.node.iter().any(|node| {
        weight(node)
            .and_then(|position| node.input.get(position))
            .is_some_and(|weight| initializers.contains(weight) || dequantized.contains(weight))
    })
}

/// What parameters of modules are called.
const PARAMETERS: [&str; 14] = [
    "weight",
    "bias",
    "kernel",
    "gamma",
    "beta",
    "running_mean",
    "running_var",
    "moving_mean",
    "moving_variance",
    "cls_token",
    "dist_token",
    "pos_embed",
    "position_embedding",
    "position_embeddings",
];

/// Whether a name is that of a module's parameter: a path that ends with its name
/// (`blocks.0.gamma`), or torch's form of one (`p_blocks_0_gamma`).
fn is_parameter_name(name: &str) -> bool {
    let (last, is_flat) = (name.rsplit(['.', '/']).next().unwrap_or(name), name.starts_with("p_"));
    let last = last.split(':').next().unwrap_or(last);
    PARAMETERS.iter().any(|parameter| {
        last == *parameter
            || (is_flat && last.strip_suffix(parameter).is_some_and(|path| path.ends_with('_')))
    })
}

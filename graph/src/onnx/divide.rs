//! [`divide`]: cuts parts of a model out of its file.
//!
//! Nodes, initializers and descriptions of values are copied byte for byte, and so is everything
//! else that the file says (operator sets, metadata, documentation, functions), so that no field is
//! lost. A value that one part computes and another reads becomes an output of the first and an
//! input of the second, under its name. Initializers that several parts read are in all of them.
//!
//! Nodes that the reader folded away are in each part that needs them. A node that reads the shape
//! of another part's tensor becomes a constant, so that the tensor need not be sent for that.

mod types;

use super::proto::{TensorProto, ValueInfoProto};
use super::view::{self, NodeView, SparseTensorView, ValueInfoView};
use super::wire::{self, FieldValue, Fields};
use super::writer::tensors;
use super::{OnnxError, weights};
use crate::{Graph, TensorSpec, ValueId};
use prost::Message;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// Fields of `GraphProto`.
mod field {
    pub const NODE: u64 = 1;
    pub const INITIALIZER: u64 = 5;
    pub const INPUT: u64 = 11;
    pub const OUTPUT: u64 = 12;
    pub const VALUE_INFO: u64 = 13;
    pub const ANNOTATION: u64 = 14;
    pub const SPARSE_INITIALIZER: u64 = 15;
}
/// Fields of `ModelProto`: the graph, and how it is trained, which concerns the whole graph.
const GRAPH: u64 = 7;
const TRAINING: u64 = 20;

/// The model of a file as one file per name. `graph` is what was read from the file; `part_of` has
/// the index of its part for every node. Present external data is embedded; references to absent
/// data remain.
///
/// # Errors
/// [`OnnxError`] when the file cannot be read, does not have the nodes of `graph`, or cannot be
/// divided like this: naming the node or tensor.
pub fn divide(
    path: &Path,
    graph: &Graph,
    part_of: &[usize],
    names: &[&str],
) -> Result<Vec<Vec<u8>>, OnnxError> {
    let file = weights::read(path)?;
    let whole = |bytes: Vec<u8>| Ok(weights::with_stored(path, &bytes)?.unwrap_or(bytes));
    divide_bytes(&file, graph, part_of, names)
        .map_err(|reason| OnnxError::Format { path: path.to_owned(), reason })?
        .into_iter()
        .map(whole)
        .collect()
}

fn divide_bytes(
    file: &[u8],
    graph: &Graph,
    part_of: &[usize],
    names: &[&str],
) -> Result<Vec<Vec<u8>>, String> {
    let written = Written::read(file)?;
    let division = Division::new(&written, graph, part_of, names)?;
    let parts = (0..names.len()).map(|part| division.part(part)).collect::<Result<Vec<_>, _>>()?;
    (0..names.len()).map(|part| division.file(&parts, part)).collect()
}

/// A graph as the file has it.
#[derive(Default)]
struct Written<'a> {
    file: &'a [u8],
    nodes: Vec<WrittenNode<'a>>,
    /// The node that provides a value.
    producer: HashMap<&'a str, usize>,
    initializers: HashMap<&'a str, Range<usize>>,
    inputs: HashSet<&'a str>,
    /// In the file's order.
    outputs: Vec<&'a str>,
    /// Inputs and outputs.
    edge: HashSet<&'a str>,
    /// How values are described.
    infos: HashMap<&'a str, Range<usize>>,
    /// How values between inputs and outputs are described, and how they are quantised: in the
    /// file's order.
    between: Vec<(u64, &'a str, Range<usize>)>,
    /// The contents of every part.
    others: Vec<Range<usize>>,
}

struct WrittenNode<'a> {
    whole: Range<usize>,
    op_type: &'a str,
    /// Values it reads, those that graphs inside it take from around them included.
    reads: Vec<&'a str>,
    outputs: Vec<&'a str>,
    range: Range<usize>,
}

impl<'a> Written<'a> {
    fn read(file: &'a [u8]) -> Result<Self, String> {
        let mut written = Self { file, ..Self::default() };
        for field in Fields::new(file, 0..file.len()) {
            let field = field?;
            if let (GRAPH, FieldValue::Bytes(range)) = (field.number, field.value) {
                written.take(range)?;
            }
        }
        Ok(written)
    }

    fn take(&mut self, range: Range<usize>) -> Result<(), String> {
        for field in Fields::new(self.file, range) {
            let field = field?;
            let FieldValue::Bytes(inner) = field.value else {
                self.others.push(field.whole);
                continue;
            };
            match field.number {
                field::NODE => self.node(field.whole, inner)?,
                field::INITIALIZER => {
                    let name = text(self.file, inner, 8)?;
                    self.initializers.insert(name, field.whole);
                }
                field::SPARSE_INITIALIZER => {
                    let sparse: SparseTensorView<'_> = view::decode_at(self.file, inner)?;
                    self.initializers.insert(sparse.values.name, field.whole);
                }
                field::INPUT | field::OUTPUT => {
                    let name = text(self.file, inner.clone(), 1)?;
                    self.infos.insert(name, inner);
                    self.edge.insert(name);
                    if field.number == field::INPUT {
                        self.inputs.insert(name);
                    } else {
                        self.outputs.push(name);
                    }
                }
                field::VALUE_INFO | field::ANNOTATION => {
                    let name = text(self.file, inner.clone(), 1)?;
                    if field.number == field::VALUE_INFO {
                        self.infos.entry(name).or_insert(inner);
                    }
                    self.between.push((field.number, name, field.whole));
                }
                _ => self.others.push(field.whole),
            }
        }
        Ok(())
    }

    fn node(&mut self, whole: Range<usize>, range: Range<usize>) -> Result<(), String> {
        let node: NodeView<'_> = view::decode_at(self.file, range.clone())?;
        let reads = node.reads().collect();
        let outputs: Vec<&str> =
            node.output.iter().copied().filter(|name| !name.is_empty()).collect();
        let index = self.nodes.len();
        self.producer.extend(outputs.iter().map(|&name| (name, index)));
        self.nodes.push(WrittenNode { whole, op_type: node.op_type, reads, outputs, range });
        Ok(())
    }
}

/// The text in a field of a message; empty without one.
fn text(file: &[u8], range: Range<usize>, number: u64) -> Result<&str, String> {
    let mut found = "";
    for field in Fields::new(file, range) {
        let field = field?;
        if let (true, FieldValue::Bytes(bytes)) = (field.number == number, field.value) {
            found = utf8(file, bytes)?;
        }
    }
    Ok(found)
}

fn utf8(file: &[u8], range: Range<usize>) -> Result<&str, String> {
    let start = range.start;
    std::str::from_utf8(&file[range])
        .map_err(|e| format!("the text at byte {start} is invalid ({e})"))
}

/// Who computes what.
struct Division<'a> {
    written: &'a Written<'a>,
    graph: &'a Graph,
    names: &'a [&'a str],
    /// For each node of the file, its part; `None` where the reader folded it away.
    part_of: Vec<Option<usize>>,
    /// Values of the graph by name.
    values: HashMap<&'a str, ValueId>,
    /// Dimensions that inputs of the model leave open.
    symbols: HashSet<&'a str>,
}

/// The contents of one part, each in the file's order.
#[derive(Default)]
struct Part<'a> {
    nodes: BTreeSet<usize>,
    initializers: BTreeSet<&'a str>,
    /// Its inputs from earlier parts: the node, and the value.
    received: BTreeSet<(usize, &'a str)>,
    /// Inputs of the model that it reads.
    given: BTreeSet<&'a str>,
    /// Shapes of values that are not here, by the name under which they are read.
    constants: Vec<TensorProto>,
}

impl<'a> Division<'a> {
    fn new(
        written: &'a Written<'a>,
        graph: &'a Graph,
        part_of: &[usize],
        names: &'a [&'a str],
    ) -> Result<Self, String> {
        if part_of.len() != graph.nodes().len() {
            let nodes = graph.nodes().len();
            return Err(format!("{} places for {nodes} nodes", part_of.len()));
        }
        let mut own = vec![None; written.nodes.len()];
        for (node, &part) in graph.nodes().iter().zip(part_of) {
            if part >= names.len() {
                let count = names.len();
                return Err(format!("node `{}` is in part {part}, of {count}", node.name));
            }
            let found = node
                .outputs
                .iter()
                .find_map(|&id| written.producer.get(graph.value(id).name.as_str()).copied());
            let found = found.ok_or_else(|| format!("it has no node `{}`", node.name))?;
            own[found] = Some(part);
        }
        if let Some(empty) = (0..names.len()).find(|part| !part_of.contains(part)) {
            return Err(format!("no node is in the part `{}`", names[empty]));
        }
        let values = graph.values().iter().enumerate();
        let values = values.map(|(i, v)| (v.name.as_str(), ValueId(i as u32))).collect();
        let symbols = written
            .inputs
            .iter()
            .filter_map(|name| written.info(name))
            .flat_map(|info| symbols(&info))
            .collect();
        Ok(Self { written, graph, names, part_of: own, values, symbols })
    }

    /// What part number `part` holds.
    fn part(&self, part: usize) -> Result<Part<'a>, String> {
        let nodes = &self.written.nodes;
        let own = |index: &usize| self.part_of[*index] == Some(part);
        let mut found = Part { nodes: (0..nodes.len()).filter(own).collect(), ..Part::default() };
        let here: HashSet<&str> = found
            .nodes
            .iter()
            .flat_map(|&index| nodes[index].reads.iter().chain(&nodes[index].outputs).copied())
            .collect();
        let mut open: Vec<&str> = here.iter().copied().collect();
        open.sort_unstable();
        open.extend(self.results(part));
        let mut seen = HashSet::new();
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                open.extend(self.need(part, name, &here, &mut found)?);
            }
        }
        found.constants.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Outputs of the model that the part provides; the last one has those that no part computes.
    fn results(&self, part: usize) -> impl Iterator<Item = &'a str> {
        let last = self.names.len() - 1;
        let outputs = self.written.outputs.iter().copied();
        outputs.filter(move |name| self.provider(name).unwrap_or(last) == part)
    }

    /// The part that computes a value.
    fn provider(&self, name: &str) -> Option<usize> {
        self.part_of[*self.written.producer.get(name)?]
    }

    /// Adds the producers of a value to the part, and returns their inputs.
    fn need(
        &self,
        part: usize,
        name: &'a str,
        here: &HashSet<&str>,
        found: &mut Part<'a>,
    ) -> Result<Vec<&'a str>, String> {
        let written = self.written;
        if let Some((&name, _)) = written.initializers.get_key_value(name) {
            found.initializers.insert(name);
            return Ok(Vec::new());
        }
        let Some(&producer) = written.producer.get(name) else {
            if !written.inputs.contains(name) {
                return Err(format!("nothing provides `{name}`"));
            }
            found.given.insert(name);
            return Ok(Vec::new());
        };
        match self.part_of[producer] {
            Some(provider) if provider == part => {}
            Some(provider) if provider > part => {
                let (part, later) = (self.names[part], self.names[provider]);
                return Err(format!(
                    "the part `{part}` reads `{name}`, which the later part `{later}` computes"
                ));
            }
            Some(_) => found.received.extend([(producer, name)]),
            None => match self.known_shape(producer, name, here)? {
                Some(constant) => found.constants.push(constant),
                None => {
                    found.nodes.insert(producer);
                    return Ok(written.nodes[producer].reads.clone());
                }
            },
        }
        Ok(Vec::new())
    }

    /// The result of a node that reads the shape of a value that is not `here`.
    fn known_shape(
        &self,
        node: usize,
        name: &str,
        here: &HashSet<&str>,
    ) -> Result<Option<TensorProto>, String> {
        let node = &self.written.nodes[node];
        let [asked] = node.reads[..] else { return Ok(None) };
        let elsewhere = self.provider(asked).is_some() || self.written.inputs.contains(asked);
        let asks = matches!(node.op_type, "Shape" | "Size") && elsewhere && !here.contains(asked);
        let value = self.values.get(asked).map(|&id| self.graph.value(id));
        let Some(tensor) = value.and_then(|v| v.tensor.as_ref()).filter(|_| asks) else {
            return Ok(None);
        };
        let ints = if node.op_type == "Size" {
            vec![i64::try_from(tensor.elements()).unwrap_or(i64::MAX)]
        } else {
            self.extents(node, tensor)?
        };
        let dims = if node.op_type == "Size" { Vec::new() } else { vec![ints.len() as i64] };
        let int64 = super::payload::data_type(crate::Precision::I64);
        Ok(Some(TensorProto {
            name: name.to_owned(),
            dims,
            data_type: int64,
            int64_data: ints,
            ..TensorProto::default()
        }))
    }

    /// The result of a Shape node.
    fn extents(&self, node: &WrittenNode<'_>, tensor: &TensorSpec) -> Result<Vec<i64>, String> {
        let node: NodeView<'_> = view::decode(&self.written.file[node.range.clone()])?;
        let range = node.shape_range(tensor.rank());
        let extents = tensor.shape.get(range).unwrap_or_default();
        Ok(extents.iter().map(|&extent| extent as i64).collect())
    }

    /// The file of one of the parts.
    fn file(&self, parts: &[Part<'a>], part: usize) -> Result<Vec<u8>, String> {
        let graph = self.graph_of(parts, part)?;
        let mut out = Vec::with_capacity(graph.len() + 1024);
        let file = self.written.file;
        let mut graph = Some(graph);
        for field in Fields::new(file, 0..file.len()) {
            let field = field?;
            match field.number {
                GRAPH => graph.take().into_iter().for_each(|graph| put(&mut out, GRAPH, &graph)),
                TRAINING => {}
                _ => out.extend_from_slice(&file[field.whole]),
            }
        }
        Ok(out)
    }

    fn graph_of(&self, parts: &[Part<'a>], index: usize) -> Result<Vec<u8>, String> {
        let (written, part) = (self.written, &parts[index]);
        let mut out = Vec::new();
        let mut copy = |range: &Range<usize>| out.extend_from_slice(&written.file[range.clone()]);
        part.nodes.iter().for_each(|&node| copy(&written.nodes[node].whole));
        written.others.iter().for_each(&mut copy);
        part.initializers.iter().for_each(|name| copy(&written.initializers[name]));
        let received: Vec<&str> = part.received.iter().map(|(_, name)| *name).collect();
        let sent: BTreeSet<(usize, &str)> = parts[index + 1..]
            .iter()
            .flat_map(|later| later.received.iter().copied())
            .filter(|(node, _)| self.part_of[*node] == Some(index))
            .collect();
        let sent: Vec<&str> = sent.into_iter().map(|(_, name)| name).collect();
        let results = self.results(index).filter(|name| !sent.contains(name));
        let outputs: Vec<&str> = sent.iter().copied().chain(results).collect();
        // Old files list initializers among the inputs, too.
        let given = written
            .inputs
            .iter()
            .copied()
            .filter(|name| part.given.contains(name) || part.initializers.contains(name));
        let inputs: Vec<&str> = received.into_iter().chain(given).collect();
        let inside = part.nodes.iter().flat_map(|&node| &written.nodes[node].outputs);
        let inside: HashSet<&str> = inside.chain(&part.initializers).copied().collect();
        for (number, name, range) in &written.between {
            let twice = *number == field::VALUE_INFO && outputs.contains(name);
            if inside.contains(name) && !twice {
                copy(range);
            }
        }
        for constant in &part.constants {
            put(&mut out, field::INITIALIZER, &constant.encode_to_vec());
        }
        for (list, number) in [(inputs, field::INPUT), (outputs, field::OUTPUT)] {
            for name in list {
                put(&mut out, number, &self.info(name)?);
            }
        }
        Ok(out)
    }

    /// How a value at the edge of a part is described: as in the file, where that says its shape.
    fn info(&self, name: &str) -> Result<Vec<u8>, String> {
        let written = self.written;
        let at_the_edge = written.edge.contains(name);
        let range = written.infos.get(name);
        let known = |info: &ValueInfoView<'_>| {
            let dims = info.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?.dim.as_slice();
            let said = |d: &view::DimensionView<'_>| {
                d.dim_value.is_some() || d.dim_param.is_some_and(|s| self.symbols.contains(s))
            };
            Some(dims.iter().all(said))
        };
        let said = at_the_edge || written.info(name).is_some_and(|info| known(&info) == Some(true));
        if let Some(range) = range.filter(|_| said) {
            return Ok(written.file[range.clone()].to_vec());
        }
        let value = self.values.get(name).map(|&id| self.graph.value(id));
        let value = value.filter(|value| value.tensor.is_some());
        match (value.map(tensors::info), range) {
            (Some(mut info), _) => {
                let described = info.r#type.as_mut().and_then(|t| t.tensor_type.as_mut());
                if let (Some(described), Some(found)) = (described, self.element_type(name)) {
                    described.elem_type = found;
                }
                Ok(ValueInfoProto::encode_to_vec(&info))
            }
            (None, Some(range)) => Ok(written.file[range.clone()].to_vec()),
            (None, None) => Err(format!("the type and shape of `{name}` are not known")),
        }
    }
}

impl<'a> Written<'a> {
    /// How the file describes a value.
    fn info(&self, name: &str) -> Option<ValueInfoView<'a>> {
        view::decode(&self.file[self.infos.get(name)?.clone()]).ok()
    }
}

/// Dimensions of a tensor that have a name instead of an extent.
fn symbols<'a>(info: &ValueInfoView<'a>) -> Vec<&'a str> {
    let shape = info.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()?.shape.as_ref());
    shape.map_or(Vec::new(), |shape| shape.dim.iter().filter_map(|d| d.dim_param).collect())
}

/// Appends a message as a field.
fn put(out: &mut Vec<u8>, number: u64, message: &[u8]) {
    out.extend(wire::header(number, message.len() as u64));
    out.extend_from_slice(message);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

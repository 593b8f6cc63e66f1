//! Builds a [`Graph`] from a decoded ONNX file: nodes in topological order, with inferred shapes
//! and folded constants.

mod attention;
mod mean;
mod outputs;
mod spelling;
mod swish;

use super::call::{Call, Mapping, Outcome, Refusal};
use super::domain::{DomainNode, Mapped};
use super::external::Beside;
use super::fold::{self, Known};
use super::payload::Limits;
use super::prune::Copies;
use super::view::{self, EntryView, GraphView, ModelView, NodeView, TensorView, ValueInfoView};
use super::writer::COPY_OF;
use super::{
    OnnxError, Place, ReadModel, ReadNote, ReadOptions, dimensions, operators, order, payload,
    prune, quantized, types, weight_inputs,
};
use crate::spending::Spending;
use crate::{
    Attribute, Attributes, Budget, ConstantData, Exceeded, Graph, GraphError, Node, OpKind, OpSpec,
    Operand, TensorSpec, Value, ValueId, ValueSource, Written, shape,
};
use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::path::Path;

/// Operator sets that the reader supports.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;

/// Turns a decoded file into a graph named `name`. Small external data is read from `folder`.
pub(super) fn read(
    (path, folder): (&Path, Option<&Path>),
    name: &str,
    model: &ModelView<'_>,
    (options, limits, budget): (&ReadOptions, Limits, Budget),
) -> Result<ReadModel, OnnxError> {
    let format = |reason: String| OnnxError::Format { path: path.to_owned(), reason };
    let graph = model.graph.as_ref().ok_or_else(|| format("the model has no graph".to_owned()))?;
    let opset = model
        .opset_import
        .iter()
        .find(|o| is_onnx(o.domain))
        .map_or(*OPSETS.start(), |o| o.version);
    if !OPSETS.contains(&opset) {
        return Err(format(format!(
            "operator set {opset} is not supported, only {} to {}",
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let beside = Beside::new(folder, limits);
    let mut reader = Reader::new(path, graph, opset, beside, (options, limits, budget));
    reader.functions = model.functions.iter().map(|f| (f.domain, f.name)).collect();
    reader.initializers()?;
    reader.copies_by_name(&model.metadata);
    let mut notes: Vec<ReadNote> = reader.inputs()?.into_iter().collect();
    reader.nodes()?;
    notes.extend(reader.unused_dimensions()?);
    let outputs = reader.outputs()?;
    let kept = (&reader.copies, limits.kept_floats);
    let pruned = prune::prune(reader.values, reader.nodes, reader.inputs, outputs, kept);
    Graph::new(name, pruned.values, pruned.nodes, pruned.inputs, pruned.outputs)
        .map(|graph| ReadModel { graph: graph.with_copies(pruned.copies), notes })
        .map_err(|source| OnnxError::Graph { path: path.to_owned(), source })
}

/// Where the decoding of a file ended.
pub(super) fn last_decoded(model: &ModelView<'_>) -> Place {
    let Some(graph) = &model.graph else { return Place::Beginning };
    if let Some(tensor) = graph.initializer.last() {
        return Place::Initializer(tensor.name.to_owned());
    }
    match graph.node.len().checked_sub(1) {
        Some(last) => Place::Node(label(graph, last)),
        None => Place::Beginning,
    }
}

/// How messages name a node.
fn label(graph: &GraphView<'_>, index: usize) -> String {
    let node = &graph.node[index];
    if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.to_owned() }
}

fn is_onnx(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// What a `Constant` holds whose data is in another file.
fn external_value<'v, 'a>(node: &'v NodeView<'a>) -> Option<&'v TensorView<'a>> {
    let is_constant = is_onnx(node.domain) && node.op_type == "Constant";
    let value = node.attribute.first().filter(|a| is_constant && a.name == "value")?;
    value.t.as_deref().filter(|tensor| tensor.external)
}

struct Reader<'a> {
    path: &'a Path,
    graph: &'a GraphView<'a>,
    opset: i64,
    beside: Beside<'a>,
    options: &'a ReadOptions,
    limits: Limits,
    ids: HashMap<&'a str, ValueId>,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    /// Values that no node provides: those before all others.
    given: usize,
    /// Node names of the file, and whether each is unique.
    names: HashMap<&'a str, bool>,
    generated: HashSet<String>,
    /// Constants that the file computes from another one without new numbers, and that one.
    copies: Copies,
    /// The remaining budget of this read.
    budget: Budget,
    /// Elements of values folded so far.
    folded: usize,
    /// The file's declarations of values, read on first use.
    infos: Option<HashMap<&'a str, ValueInfoView<'a>>>,
    /// Domain and name of each function of the file.
    functions: HashSet<(&'a str, &'a str)>,
    /// Output names of the file's nodes, filled when an operator is first decomposed.
    provided: Option<HashSet<&'a str>>,
}

impl<'a> Reader<'a> {
    fn new(
        path: &'a Path,
        graph: &'a GraphView<'a>,
        opset: i64,
        beside: Beside<'a>,
        (options, limits, budget): (&'a ReadOptions, Limits, Budget),
    ) -> Self {
        let mut names = HashMap::with_capacity(graph.node.len());
        for node in graph.node.iter().filter(|n| !n.name.is_empty()) {
            names.entry(node.name).and_modify(|once| *once = false).or_insert(true);
        }
        let count = graph.initializer.len()
            + graph.input.len()
            + graph.node.iter().map(|n| n.output.len()).sum::<usize>();
        let (ids, values) = (HashMap::with_capacity(count), Vec::with_capacity(count));
        let nodes = Vec::with_capacity(graph.node.len());
        Self {
            path,
            graph,
            opset,
            beside,
            options,
            limits,
            ids,
            values,
            nodes,
            inputs: Vec::new(),
            given: 0,
            names,
            generated: HashSet::new(),
            copies: Copies::default(),
            budget,
            folded: 0,
            infos: None,
            functions: HashSet::new(),
            provided: None,
        }
    }

    fn format(&self, reason: String) -> OnnxError {
        OnnxError::Format { path: self.path.to_owned(), reason }
    }

    fn graph_error(&self, source: GraphError) -> OnnxError {
        OnnxError::Graph { path: self.path.to_owned(), source }
    }

    fn add(
        &mut self,
        name: &'a str,
        tensor: Option<TensorSpec>,
        source: ValueSource,
    ) -> Result<ValueId, OnnxError> {
        let id = self.value(name.to_owned(), tensor, source)?;
        if self.ids.insert(name, id).is_some() {
            return Err(self.graph_error(GraphError::Duplicate { value: name.to_owned() }));
        }
        Ok(id)
    }

    /// Adds a value; nodes of the file do not find it by its name.
    fn value(
        &mut self,
        name: String,
        tensor: Option<TensorSpec>,
        source: ValueSource,
    ) -> Result<ValueId, OnnxError> {
        let id = u32::try_from(self.values.len())
            .map_err(|_| self.format("it has too many values".to_owned()))?;
        self.values.push(Value { name, tensor, source });
        Ok(ValueId(id))
    }

    fn initializers(&mut self) -> Result<(), OnnxError> {
        for tensor in &self.graph.initializer {
            let wrong = |reason: String| OnnxError::Format {
                path: self.path.to_owned(),
                reason: format!("initializer `{}`: {reason}", tensor.name),
            };
            let spec = payload::spec(tensor).map_err(wrong)?;
            let place = || Place::Initializer(tensor.name.to_owned());
            self.within(place, self.budget.steps(1 + self.decoded(tensor)))?;
            let data = match &spec {
                Some(spec) if tensor.external => self.beside.values(tensor, spec).map_err(wrong)?,
                Some(spec) => payload::values(tensor, spec, self.limits.elements).map_err(wrong)?,
                None => None,
            };
            self.add(tensor.name, spec, ValueSource::Constant(data))?;
        }
        self.sparse_initializers()
    }

    /// Weights that the file holds in a sparse form: engines make dense tensors of them. Their
    /// values are not read.
    fn sparse_initializers(&mut self) -> Result<(), OnnxError> {
        let graph = self.graph;
        for sparse in &graph.sparse_initializer {
            let name = sparse.values.name;
            self.within(|| Place::Initializer(name.to_owned()), self.budget.steps(1))?;
            let dense = TensorView {
                dims: sparse.dims.clone(),
                data_type: sparse.values.data_type,
                ..TensorView::default()
            };
            let spec = payload::spec(&dense)
                .map_err(|reason| self.format(format!("initializer `{name}`: {reason}")))?;
            self.add(name, spec, ValueSource::Constant(None))?;
        }
        Ok(())
    }

    /// Inputs that are initializers too (old files) are constants, and so are weights listed as
    /// inputs, which are noted.
    fn inputs(&mut self) -> Result<Option<ReadNote>, OnnxError> {
        let initializers = self.ids.len();
        let graph = self.graph;
        let weights =
            if self.limits.weight_inputs { weight_inputs::find(graph) } else { HashMap::new() };
        for info in &graph.input {
            if self.ids.get(info.name).is_some_and(|id| (id.0 as usize) < initializers) {
                continue;
            }
            let place = || Place::Initializer(info.name.to_owned());
            self.within(place, self.budget.steps(1))?;
            let tensor = dimensions::input(self.path, info, self.options)?;
            if weights.contains_key(info.name) {
                self.add(info.name, Some(tensor), ValueSource::Constant(None))?;
            } else {
                let id = self.add(info.name, Some(tensor), ValueSource::Input)?;
                self.inputs.push(id);
            }
        }
        self.given = self.values.len();
        let first = graph.input.iter().find(|info| weights.contains_key(info.name));
        Ok(first.map(|first| ReadNote::WeightsAsInputs {
            count: weights.len(),
            first: first.name.to_owned(),
            inputs: self.input_names(),
        }))
    }

    fn input_names(&self) -> String {
        let quoted = |id: &ValueId| format!("`{}`", self.values[id.0 as usize].name);
        self.inputs.iter().map(quoted).collect::<Vec<_>>().join(", ")
    }

    fn outputs(&self) -> Result<Vec<ValueId>, OnnxError> {
        if self.graph.output.is_empty() {
            return Err(self.format("the graph has no outputs".to_owned()));
        }
        let one = |info: &ValueInfoView<'_>| {
            let dangling = || self.format(format!("output `{}` is provided by nothing", info.name));
            self.ids.get(info.name).copied().ok_or_else(dangling)
        };
        self.graph.output.iter().map(one).collect()
    }

    /// Reads the nodes in the file's order; if one reads a later value, sorts them and begins
    /// again.
    fn nodes(&mut self) -> Result<(), OnnxError> {
        for index in 0..self.graph.node.len() {
            match self.read(index) {
                Ok(ids) => self.node(index, &ids)?,
                Err(_) => return self.sorted_nodes(),
            }
        }
        Ok(())
    }

    fn sorted_nodes(&mut self) -> Result<(), OnnxError> {
        let order = order::topological(self.graph)
            .map_err(|i| self.graph_error(GraphError::Cycle { node: self.label(i) }))?;
        let given = self.given;
        self.values.truncate(given);
        self.ids.retain(|_, id| (id.0 as usize) < given);
        self.nodes.clear();
        self.copies.retain(|id, _| (id.0 as usize) < given);
        self.generated.clear();
        self.folded = 0;
        for index in order {
            let dangling = |value: &str| {
                self.graph_error(GraphError::Dangling {
                    node: self.label(index),
                    value: value.to_owned(),
                })
            };
            let ids = self.read(index).map_err(dangling)?;
            self.node(index, &ids)?;
        }
        Ok(())
    }

    /// A node's inputs, `None` for an omitted one; or the first value that it or a graph inside it
    /// reads and no earlier node computes.
    fn read(&self, index: usize) -> Result<SmallVec<[Option<ValueId>; 4]>, &'a str> {
        let id = |&name: &&'a str| {
            if name.is_empty() {
                Ok(None)
            } else {
                self.ids.get(name).map(|id| Some(*id)).ok_or(name)
            }
        };
        let node = &self.graph.node[index];
        if let Some(missing) = node.captured().find(|name| !self.ids.contains_key(*name)) {
            return Err(missing);
        }
        node.input.iter().map(id).collect()
    }

    /// How messages name a node.
    fn label(&self, index: usize) -> String {
        label(self.graph, index)
    }

    /// Ends the read where a budget does.
    fn within(
        &self,
        place: impl FnOnce() -> Place,
        spent: Result<(), Exceeded>,
    ) -> Result<(), OnnxError> {
        spent.map_err(|source| OnnxError::Budget {
            path: self.path.to_owned(),
            place: place(),
            source,
        })
    }

    /// Numbers of a tensor that are looked at.
    fn decoded(&self, tensor: &TensorView<'_>) -> u64 {
        let numbers = tensor.numbers() as u64;
        if tensor.external || numbers > self.limits.elements.saturating_mul(8) {
            return 0;
        }
        numbers
    }

    fn node(&mut self, index: usize, ids: &[Option<ValueId>]) -> Result<(), OnnxError> {
        let file = &self.graph.node[index];
        let edges = (ids.len() + file.captured().count() + file.output.len()) as u64;
        let tensors = file.attribute.iter().filter_map(|a| a.t.as_deref());
        let numbers: u64 = tensors.map(|tensor| self.decoded(tensor)).sum();
        let spent = self.budget.nodes(1).and_then(|()| self.budget.steps(1 + edges + numbers));
        self.within(|| Place::Node(self.label(index)), spent)?;
        let unknown =
            ids.iter().flatten().map(|id| &self.values[id.0 as usize]).find(|v| v.tensor.is_none());
        if let Some(value) = unknown {
            let reason = format!("the shape of its input `{}` is not known", value.name);
            return self.unsupported(index, ids, (Some(reason), None));
        }
        let graph = self.graph;
        let node = &graph.node[index];
        if let Some(tensor) = external_value(node) {
            return self.external_constant(index, tensor);
        }
        match node.op_type {
            "Attention" if is_onnx(node.domain) => return self.attention(index, ids),
            "Mean" if is_onnx(node.domain) => return self.mean(index, ids),
            "Swish" if is_onnx(node.domain) => return self.swish(index, ids),
            _ => {}
        }
        match self.mapping(index, ids) {
            Ok(Some(Mapping::Operator(mapped))) => self.operator(index, mapped, ids),
            Ok(Some(Mapping::Constant(tensor, data))) => {
                self.constants(index, vec![tensor], Some(vec![data]))
            }
            Ok(None) => self.unsupported(index, ids, (self.function(index), None)),
            Err(Refusal::RunTime(reason)) => self.unsupported(index, ids, (Some(reason), None)),
            Err(Refusal::Form(reason, output)) => {
                self.unsupported(index, ids, (Some(reason), Some(output)))
            }
            Err(Refusal::Invalid(reason)) => Err(self.node_error(index, reason)),
            Err(Refusal::Absent(initializer)) => Err(OnnxError::AbsentValues {
                path: self.path.to_owned(),
                node: self.label(index),
                initializer,
            }),
        }
    }

    /// A constant whose values, where they are few, lie beside the file.
    fn external_constant(
        &mut self,
        index: usize,
        tensor: &TensorView<'_>,
    ) -> Result<(), OnnxError> {
        let wrong = |reader: &Self, reason| reader.node_error(index, reason);
        let spec = payload::spec(tensor).map_err(|reason| wrong(self, reason))?;
        let Some(spec) = spec else { return self.unsupported(index, &[], (None, None)) };
        let data = self.beside.values(tensor, &spec).map_err(|reason| wrong(self, reason))?;
        self.constants(index, vec![spec], Some(vec![data]))
    }

    /// Why a node is not known that calls a function of the file.
    fn function(&self, index: usize) -> Option<String> {
        let NodeView { op_type, domain, .. } = &self.graph.node[index];
        let inline = "it is a function of the file: write its operators in its place \
                      (`onnx.inliner.inline_local_functions`)";
        self.functions.contains(&(*domain, *op_type)).then(|| inline.to_owned())
    }

    fn mapping(&self, index: usize, ids: &[Option<ValueId>]) -> Outcome {
        let node = &self.graph.node[index];
        let inputs: SmallVec<[Option<&Value>; 4]> =
            ids.iter().map(|id| id.map(|id| &self.values[id.0 as usize])).collect();
        let constant: SmallVec<[bool; 8]> =
            ids.iter().map(|id| id.is_some_and(|id| self.is_weight(id))).collect();
        if is_onnx(node.domain) {
            operators::map(&Call {
                node,
                opset: self.opset,
                inputs: &inputs,
                constant: &constant,
                limits: self.limits,
            })
        } else {
            let node = DomainNode { node, inputs: &inputs, graph: self.graph };
            let known = self.options.domains.iter().find_map(|domain| (domain.map)(&node));
            Ok(known.map(Mapping::Operator))
        }
    }

    fn node_error(&self, index: usize, reason: String) -> OnnxError {
        let reason = format!("{} {reason}", self.graph.node[index].op_type);
        OnnxError::Node { path: self.path.to_owned(), node: self.label(index), reason }
    }

    fn operator(
        &mut self,
        index: usize,
        mapped: Mapped,
        ids: &[Option<ValueId>],
    ) -> Result<(), OnnxError> {
        let Mapped { kind, attributes, operands, outputs } = mapped;
        self.check_outputs(index, outputs::always(&kind))?;
        let operands: Vec<ValueId> =
            operands.into_iter().filter_map(|i| ids.get(i).copied().flatten()).collect();
        let specs: Vec<Operand> = operands.iter().filter_map(|id| self.operand(*id)).collect();
        let wrong = |reason: String| self.node_error(index, format!("is wrong: {reason}"));
        let node = &self.graph.node[index];
        if is_onnx(node.domain) {
            types::check(node.op_type, &specs).map_err(wrong)?;
        }
        let (attributes, outputs) = match outputs {
            Some(outputs) => (attributes, outputs),
            None => {
                let attributes = shape::canonical(&kind, attributes, &specs).map_err(wrong)?;
                let outputs = shape::infer_canonical(&kind, &attributes, &specs).map_err(wrong)?;
                (attributes, outputs)
            }
        };
        let node = &self.graph.node[index];
        if is_onnx(node.domain) {
            types::check_bias(node.op_type, &specs, &outputs).map_err(wrong)?;
        }
        // A quantised weight is not folded: it would be four times as large and no longer
        // recognisable.
        if !specs.is_empty() && specs.iter().all(|o| o.constant) && kind != OpKind::Dequantize {
            let data = self.evaluated(index, &kind, &attributes, &operands, &outputs)?;
            self.constants(index, outputs, data)?;
            if matches!(kind, OpKind::Identity | OpKind::Transpose | OpKind::Reshape) {
                self.copy(operands[0], self.graph.node[index].output.first().copied());
            }
            return Ok(());
        }
        self.push(index, OpSpec { kind, attributes, inputs: specs, outputs }, operands)
    }

    /// Notes that a value has the numbers of a constant.
    fn copy(&mut self, of: ValueId, name: Option<&str>) {
        let original = self.copies.get(&of).copied().unwrap_or(of);
        let copy = name.and_then(|name| self.ids.get(name).copied());
        if let Some(copy) = copy.filter(|&copy| copy != original) {
            self.copies.insert(copy, original);
        }
    }

    /// Notes what vitempo's own writer says of initializers: which ones have the same numbers.
    fn copies_by_name(&mut self, metadata: &[EntryView<'_>]) {
        for entry in metadata {
            let copy = entry.key.strip_prefix(COPY_OF);
            if let (Some(copy), Some(&of)) = (copy, self.ids.get(entry.value)) {
                self.copy(of, Some(copy));
            }
        }
    }

    /// A constant, or a quantised constant behind its DequantizeLinear.
    fn is_weight(&self, id: ValueId) -> bool {
        match self.values[id.0 as usize].source {
            ValueSource::Constant(_) => true,
            ValueSource::Node(node) => self.nodes.get(node as usize).is_some_and(|n| {
                n.op.kind == OpKind::Dequantize && n.op.inputs.iter().all(|i| i.constant)
            }),
            ValueSource::Input => false,
        }
    }

    fn operand(&self, id: ValueId) -> Option<Operand> {
        let value = &self.values[id.0 as usize];
        value.tensor.clone().map(|tensor| Operand {
            tensor,
            constant: matches!(value.source, ValueSource::Constant(_)),
        })
    }

    fn evaluated(
        &self,
        index: usize,
        kind: &OpKind,
        attributes: &Attributes,
        operands: &[ValueId],
        outputs: &[TensorSpec],
    ) -> Result<Option<Vec<Option<ConstantData>>>, OnnxError> {
        if self.folded > self.limits.folded {
            return Ok(None);
        }
        let known = |id: &ValueId| match &self.values[id.0 as usize] {
            Value { tensor: Some(tensor), source: ValueSource::Constant(Some(data)), .. } => {
                Some(Known { tensor, data })
            }
            _ => None,
        };
        let Some(inputs) = operands.iter().map(known).collect::<Option<Vec<Known<'_>>>>() else {
            return Ok(None);
        };
        let Some(work) = fold::work(kind, &inputs, outputs, self.limits) else { return Ok(None) };
        let spent = self.budget.steps(work.steps).and_then(|()| self.budget.bytes(work.bytes));
        self.within(|| Place::Node(self.label(index)), spent)?;
        let data = fold::evaluate(kind, attributes, &inputs, outputs);
        let data = data.filter(|data| {
            !(is_cast_to_unsigned(&self.graph.node[index]) && data.iter().any(payload::is_negative))
        });
        Ok(data.map(|data| data.into_iter().map(Some).collect()))
    }

    /// The node's outputs are constants; the node itself disappears.
    fn constants(
        &mut self,
        index: usize,
        tensors: Vec<TensorSpec>,
        data: Option<Vec<Option<ConstantData>>>,
    ) -> Result<(), OnnxError> {
        let graph = self.graph;
        let mut data = data.unwrap_or_default().into_iter();
        let mut tensors = tensors.into_iter();
        for name in &graph.node[index].output {
            let (tensor, data) = (tensors.next(), data.next().flatten());
            self.folded = self.folded.saturating_add(data.as_ref().map_or(0, payload::length));
            let data = data.filter(|_| self.folded <= self.limits.folded);
            if !name.is_empty() {
                self.add(name, tensor, ValueSource::Constant(data))?;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        index: usize,
        mut op: OpSpec,
        inputs: Vec<ValueId>,
    ) -> Result<(), OnnxError> {
        let outputs = self.provide(index, std::mem::take(&mut op.outputs))?;
        let name = self.node_name(index);
        op.outputs =
            outputs.iter().filter_map(|id| self.values[id.0 as usize].tensor.clone()).collect();
        quantized::speak_channels_first(&mut op);
        self.nodes.push(Node {
            name,
            op,
            written: written(&self.graph.node[index]),
            inputs,
            outputs,
        });
        Ok(())
    }

    /// An operator vitempo cannot follow: it stays, by name, with its first output if that is known
    /// and the shapes the file declares. What graphs inside it read from around them are inputs, too: else what computes that would have no
    /// reader.
    fn unsupported(
        &mut self,
        index: usize,
        ids: &[Option<ValueId>],
        (reason, mut known): (Option<String>, Option<TensorSpec>),
    ) -> Result<(), OnnxError> {
        let graph = self.graph;
        let NodeView { op_type, domain, output, .. } = &graph.node[index];
        let operator =
            if is_onnx(domain) { (*op_type).to_owned() } else { format!("{domain}:{op_type}") };
        let attributes = reason
            .map_or_else(Attributes::new, |r| Attributes::new().with("reason", Attribute::Text(r)));
        let source = ValueSource::Node(self.nodes.len() as u32);
        let mut outputs = Vec::with_capacity(output.len());
        for name in output.iter().filter(|o| !o.is_empty()) {
            let tensor = match known.take() {
                None => self.declared(index, name)?,
                known => known,
            };
            outputs.push(self.add(name, tensor, source.clone())?);
        }
        let mut inputs: Vec<ValueId> = ids.iter().copied().flatten().collect();
        let mut known: HashSet<ValueId> = inputs.iter().copied().collect();
        let captured = graph.node[index].captured().filter_map(|name| self.ids.get(name).copied());
        inputs.extend(captured.filter(|id| known.insert(*id)));
        let name = self.node_name(index);
        self.nodes.push(Node::new(
            name,
            OpKind::Unsupported(operator),
            attributes,
            &self.values,
            inputs,
            outputs,
        ));
        Ok(())
    }

    /// Values for dimensions that no tensor has.
    fn unused_dimensions(&self) -> Result<Vec<ReadNote>, OnnxError> {
        if self.options.dimensions.is_empty() || self.graph.node.is_empty() {
            return Ok(Vec::new());
        }
        let computed = self.read_infos(0)?;
        let infos = self.graph.input.iter().chain(computed.values());
        Ok(dimensions::unused(infos, self.options))
    }

    /// The tensor the file declares for a value.
    fn declared(&mut self, index: usize, name: &str) -> Result<Option<TensorSpec>, OnnxError> {
        if self.infos.is_none() {
            self.infos = Some(self.read_infos(index)?);
        }
        let info = self.infos.as_ref().and_then(|infos| infos.get(name));
        Ok(info.and_then(|info| dimensions::declared(info, self.options)))
    }

    fn read_infos(&self, index: usize) -> Result<HashMap<&'a str, ValueInfoView<'a>>, OnnxError> {
        let spending = Spending::new(&self.budget);
        let decoded = |bytes: &&'a [u8]| {
            let mut info = ValueInfoView::default();
            view::decode_into(&mut info, bytes, &spending).map(|()| info)
        };
        let between: Result<Vec<ValueInfoView<'_>>, String> =
            self.graph.value_info.iter().map(decoded).collect();
        let spent = spending.exceeded().map_or(Ok(()), Err);
        self.within(|| Place::Node(self.label(index)), spent)?;
        let between = between.map_err(|error| {
            self.format(format!("the shapes it declares are damaged ({error})"))
        })?;
        Ok(between
            .into_iter()
            .chain(self.graph.output.iter().cloned())
            .map(|info| (info.name, info))
            .collect())
    }

    /// The node's own name if it is unique, else operator and index.
    fn node_name(&mut self, index: usize) -> String {
        let proto = &self.graph.node[index];
        if self.names.get(proto.name) == Some(&true) {
            return proto.name.to_owned();
        }
        let mut name = format!("{}_{index}", proto.op_type);
        while self.names.contains_key(name.as_str()) || self.generated.contains(&name) {
            name.push('_');
        }
        self.generated.insert(name.clone());
        name
    }
}

/// Whether a node casts to an unsigned type that is taken as the signed one of its width: the two
/// differ where the highest bit is set.
fn is_cast_to_unsigned(node: &NodeView<'_>) -> bool {
    node.op_type == "Cast" && matches!(node.int("to"), Some(4 | 12 | 13))
}

/// How the file spells a reshape.
fn written(node: &NodeView<'_>) -> Option<Written> {
    match node.op_type {
        "Squeeze" => Some(Written::Squeeze),
        "Unsqueeze" => Some(Written::Unsqueeze),
        "Flatten" => Some(Written::Flatten),
        "Reshape" if node.attribute.iter().any(|a| a.name == "allowzero" && a.i != 0) => {
            Some(Written::ReshapeAllowingZero)
        }
        "Pad" if node.input.get(2).is_some_and(|name| name.is_empty()) => {
            Some(Written::PadWithEmptyValue)
        }
        _ => None,
    }
}

//! Static int8: Q/DQ pairs around convolutions and matrix products.

use super::draft::{Draft, named};
use super::moments::{self, Moments};
use super::scale::{self, Affine};
use super::sites::{self, BiasSite, Results, Sites};
use super::symmetry::Symmetry;
use super::{Options, Values, is_quantized};
use crate::{
    Attribute, Attributes, Budget, ConstantData, Graph, GraphError, Limits, Node, OpKind,
    Precision, TensorSpec, ValueId,
};
use foldhash::{HashMap, HashMapExt, HashSet};

/// The graph with its convolutions and matrix products quantised; see the module above for the
/// types of tensors. Names, inputs and outputs stay; the pair around a value is called
/// `VALUE/quantize` and `VALUE/dequantize`.
///
/// # Errors
/// [`GraphError`] as [`Graph::new`]; not for any graph that a reader or builder made.
pub fn qdq(graph: &Graph, options: &Options) -> Result<Graph, GraphError> {
    qdq_within(graph, options, &Budget::new(Limits::NONE))
}

/// [`qdq`] within a budget.
///
/// # Errors
/// As [`qdq`], and [`GraphError::Exceeded`] with the node at which the budget ended.
pub fn qdq_within(graph: &Graph, options: &Options, budget: &Budget) -> Result<Graph, GraphError> {
    with_pairs(graph, options, Results::Fused, budget)
}

/// [`qdq`] with every product's result quantised as well, which integer processors require. A bias
/// that is an addition of its own stays in floats.
///
/// # Errors
/// As [`qdq`].
pub fn qdq_results(graph: &Graph, options: &Options) -> Result<Graph, GraphError> {
    qdq_results_within(graph, options, &Budget::new(Limits::NONE))
}

/// [`qdq_results`] within a budget.
///
/// # Errors
/// As [`qdq_within`].
pub fn qdq_results_within(
    graph: &Graph,
    options: &Options,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    with_pairs(graph, options, Results::All, budget)
}

fn with_pairs(
    graph: &Graph,
    options: &Options,
    results: Results,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    if is_quantized(graph) {
        return Ok(graph.clone());
    }
    let sites = sites::sites(graph, results);
    let moments = match options.values {
        Values::Shapes => Vec::new(),
        Values::Seeded(_) => moments::propagate(graph, options.input, budget)?,
    };
    let mut rewriter = Rewriter::new(graph, options, &sites, moments, budget);
    for &input in graph.inputs() {
        rewriter.pair(input);
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        if !rewriter.draft.look_at(node) {
            break;
        }
        rewriter.node(index, node);
        for &output in &node.outputs {
            rewriter.pair(output);
        }
    }
    rewriter.draft.finish()
}

/// Scales of slices; a single one if they are equal.
#[derive(Clone)]
struct Scales {
    count: usize,
    each: Vec<f64>,
}

impl Scales {
    fn ones(count: usize) -> Self {
        Self { count, each: vec![1.0] }
    }

    fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        Self { count: self.count, each: self.each.into_iter().map(scale).collect() }
    }

    fn first(&self) -> Self {
        Self { count: 1, each: vec![self.at(0)] }
    }

    /// The scale of a slice, modulo their number.
    fn at(&self, slice: usize) -> f64 {
        self.each.get(slice % self.each.len().max(1)).copied().unwrap_or(1.0)
    }

    fn all(&self) -> Vec<f64> {
        (0..self.count).map(|slice| self.at(slice)).collect()
    }
}

fn output_places(graph: &Graph) -> HashMap<ValueId, Vec<usize>> {
    let inputs: HashSet<&ValueId> = graph.inputs().iter().collect();
    let mut places: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (place, &id) in graph.outputs().iter().enumerate().filter(|(_, id)| !inputs.contains(id)) {
        places.entry(id).or_default().push(place);
    }
    places
}

struct Rewriter<'a> {
    draft: Draft<'a>,
    sites: &'a Sites,
    symmetry: Symmetry,
    moments: Vec<Option<Moments>>,
    /// Where among the model's outputs each one stands that is no input.
    outputs: HashMap<ValueId, Vec<usize>>,
    /// What is read instead of a value: its dequantised form.
    instead: HashMap<ValueId, ValueId>,
    scales: HashMap<ValueId, Affine>,
    /// Scales of the sums of products with weights, by node.
    sums: HashMap<usize, Scales>,
    /// Dequantised weights and their scales.
    weights: HashMap<(ValueId, Option<usize>), (ValueId, Scales)>,
}

impl<'a> Rewriter<'a> {
    fn new(
        graph: &'a Graph,
        options: &Options,
        sites: &'a Sites,
        moments: Vec<Option<Moments>>,
        budget: &Budget,
    ) -> Self {
        let draft = Draft::new(graph, options.values, &sites.replaced(graph), budget);
        let symmetry = Symmetry::of(
            graph,
            sites.products.iter().filter_map(|&index| graph.nodes().get(index)),
        );
        Self {
            draft,
            sites,
            symmetry,
            moments,
            outputs: output_places(graph),
            instead: HashMap::new(),
            scales: HashMap::new(),
            sums: HashMap::new(),
            weights: HashMap::new(),
        }
    }

    /// A node that reads dequantised tensors and weights.
    fn node(&mut self, index: usize, node: &Node) {
        let mut inputs: Vec<ValueId> =
            node.inputs.iter().map(|id| self.instead.get(id).copied().unwrap_or(*id)).collect();
        if let Some(site) = self.sites.weights.get(&index) {
            let (dequantized, scales) = self.weight(node.inputs[site.operand], site.axis);
            inputs[site.operand] = dequantized;
            let x = self.scales.get(&node.inputs[1 - site.operand.min(1)]).map_or(1.0, |a| a.scale);
            let scales = scales.map(|w| f64::from((w * x) as f32));
            if site.bias {
                inputs[2] = self.bias(node.inputs[2], &scales);
            }
            self.sums.insert(index, scales);
        }
        let sums = |site: &BiasSite| Some((site.operand, self.sums.get(&site.product)?.clone()));
        if let Some((operand, scales)) = self.sites.biases.get(&index).and_then(sums) {
            inputs[operand] = self.bias(node.inputs[operand], &scales);
        }
        self.draft.instead_of(node, node.op.attributes.clone(), inputs, node.outputs.clone());
    }

    /// Q and DQ after a computed value that is quantised. An output of the graph keeps its name,
    /// and is the dequantised one.
    fn pair(&mut self, id: ValueId) {
        let tensor = match &self.draft.graph.value(id).tensor {
            Some(tensor) if self.sites.activations.contains(&id) => tensor.clone(),
            _ => return,
        };
        let name = self.draft.graph.value(id).name.clone();
        let around_zero = self.symmetry.holds(id);
        let affine = self
            .moments
            .get(id.0 as usize)
            .copied()
            .flatten()
            .map(|m| if around_zero { m.affine_around_zero() } else { m.affine() });
        let zero_point =
            affine.map(|a| a.zero_point).or_else(|| around_zero.then_some(Affine::MIDDLE));
        self.scales.extend(affine.map(|a| (id, a)));
        let scale = self.draft.constant(
            named(&name, "/scale"),
            TensorSpec::f32([]),
            affine.map(|a| ConstantData::Floats(vec![a.scale])),
        );
        let zero = TensorSpec::new([], Precision::U8);
        let zero_point = self.draft.constant(
            named(&name, "/zero_point"),
            zero,
            zero_point.map(|z| ConstantData::Ints(vec![z])),
        );
        let quantized =
            TensorSpec::new(tensor.shape.clone(), Precision::U8).with_format(tensor.format);
        let quantized = self.draft.computed(named(&name, "/quantized"), quantized);
        let dequantized = self.draft.computed(named(&name, "/dequantized"), tensor);
        let to = Attributes::new().with("to", Attribute::Text(Precision::U8.name().to_owned()));
        self.draft.step(
            named(&name, "/quantize"),
            OpKind::Quantize,
            to,
            vec![id, scale, zero_point],
            vec![quantized],
        );
        self.draft.step(
            named(&name, "/dequantize"),
            OpKind::Dequantize,
            Attributes::new(),
            vec![quantized, scale, zero_point],
            vec![dequantized],
        );
        self.instead.insert(id, dequantized);
        if let Some(places) = self.outputs.get(&id) {
            for &place in places {
                self.draft.outputs[place] = dequantized;
            }
            let (raw, public) = (id.0 as usize, dequantized.0 as usize);
            let spare = std::mem::take(&mut self.draft.values[public].name);
            self.draft.values[public].name =
                std::mem::replace(&mut self.draft.values[raw].name, spare);
        }
    }

    /// A weight behind its DQ, made once, and its scales.
    fn weight(&mut self, id: ValueId, axis: Option<usize>) -> (ValueId, Scales) {
        if let Some(made) = self.weights.get(&(id, axis)) {
            return made.clone();
        }
        let value = self.draft.graph.value(id);
        let tensor = value.tensor.clone().unwrap_or_else(|| TensorSpec::f32([]));
        let count = axis.map_or(1, |axis| tensor.shape.get(axis).copied().unwrap_or(1));
        let mut scales = Scales::ones(count);
        let mut integers = None;
        // An empty tensor may have many slices.
        if let Some(floats) = self.draft.floats(id).filter(|floats| count <= floats.len()) {
            let slices = || scale::slices(&tensor.shape, axis.unwrap_or(usize::MAX));
            let each = scale::symmetric_scales(&floats, slices(), count, scale::Most::Full);
            integers = Some(
                floats
                    .iter()
                    .zip(slices())
                    .map(|(&v, slice)| scale::to_i8(v, each[slice]))
                    .collect(),
            );
            scales = Scales { count, each };
        }
        let made = self.dequantized(&value.name, &tensor, (Precision::I8, integers), &scales, axis);
        self.weights.insert((id, axis), (made, scales.clone()));
        (made, scales)
    }

    /// A bias with the scales of the sums of products that it is added to.
    fn bias(&mut self, id: ValueId, sums: &Scales) -> ValueId {
        let value = self.draft.graph.value(id);
        let tensor = value.tensor.clone().unwrap_or_else(|| TensorSpec::f32([]));
        let per_channel = sums.count as u64 == tensor.elements();
        let scales = if per_channel { sums.clone() } else { sums.first() };
        let integers = self.draft.floats(id).map(|floats| {
            floats.iter().enumerate().map(|(i, &v)| scale::to_i32(v, scales.at(i))).collect()
        });
        let axis = (scales.count > 1).then(|| tensor.rank().saturating_sub(1));
        self.dequantized(&value.name, &tensor, (Precision::I32, integers), &scales, axis)
    }

    /// Integers, and the DQ that makes floats of them.
    fn dequantized(
        &mut self,
        name: &str,
        tensor: &TensorSpec,
        (precision, integers): (Precision, Option<Vec<i64>>),
        scales: &Scales,
        axis: Option<usize>,
    ) -> ValueId {
        let shape: Vec<usize> = if axis.is_some() { vec![scales.count] } else { Vec::new() };
        let known = integers.is_some();
        let quantized = self.draft.constant(
            named(name, "/quantized"),
            TensorSpec::new(tensor.shape.clone(), precision),
            integers.map(ConstantData::Ints),
        );
        let scale = self.draft.constant(
            named(name, "/scale"),
            TensorSpec::f32(shape.clone()),
            known.then(|| ConstantData::Floats(scales.all())),
        );
        let zeros = known.then(|| ConstantData::Ints(vec![0; scales.count]));
        let zero_point = self.draft.constant(
            named(name, "/zero_point"),
            TensorSpec::new(shape, precision),
            zeros,
        );
        let attributes = axis
            .filter(|_| scales.count > 1)
            .map_or_else(Attributes::new, |axis| Attributes::new().with_int("axis", axis as i64));
        let dequantized = self.draft.computed(named(name, "/dequantized"), tensor.clone());
        self.draft.step(
            named(name, "/dequantize"),
            OpKind::Dequantize,
            attributes,
            vec![quantized, scale, zero_point],
            vec![dequantized],
        );
        dequantized
    }
}

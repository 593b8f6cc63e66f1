//! Integer products with ranges computed at run time, as dynamic quantisers of ONNX models write
//! them: DynamicQuantizeLinear, MatMulInteger or ConvInteger, a cast, a scaling and the bias.
//!
//! Products with a constant right side only. Weights are i8, symmetric, at most 64: one scale per
//! output channel of a matrix, one scale of a convolution. Larger ones would saturate on x86 without
//! VNNI, whose engines add pairs of products in 16 bits (rten).

use super::draft::{Draft, named};
use super::scale;
use super::sites::{self, Results, WeightSite};
use super::{Options, is_quantized};
use crate::{
    Attribute, Attributes, Budget, ConstantData, Graph, GraphError, Limits, Node, OpKind,
    Precision, TensorSpec, ValueId,
};
use foldhash::{HashMap, HashMapExt};

/// The graph with its products of weights as integer products. A product keeps its name; the
/// operators around it are named after it.
///
/// # Errors
/// [`GraphError`] as [`Graph::new`]; not for any graph that a reader or builder made.
pub fn integer(graph: &Graph, options: &Options) -> Result<Graph, GraphError> {
    integer_within(graph, options, &Budget::new(Limits::NONE))
}

/// [`integer`] within a budget.
///
/// # Errors
/// As [`integer`], and [`GraphError::Exceeded`] with the node at which the budget ended.
pub fn integer_within(
    graph: &Graph,
    options: &Options,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    if is_quantized(graph) {
        return Ok(graph.clone());
    }
    let sites = sites::sites(graph, Results::Fused);
    let mut rewriter = Rewriter {
        draft: Draft::new(graph, options.values, &sites.replaced(graph), budget),
        inputs: HashMap::new(),
        weights: HashMap::new(),
    };
    for (index, node) in graph.nodes().iter().enumerate() {
        if !rewriter.draft.look_at(node) {
            break;
        }
        match sites.weights.get(&index).filter(|site| site.operand == 1) {
            Some(site) => rewriter.product(node, *site),
            None => rewriter.draft.instead_of(
                node,
                node.op.attributes.clone(),
                node.inputs.clone(),
                node.outputs.clone(),
            ),
        }
    }
    rewriter.draft.finish()
}

struct Rewriter<'a> {
    draft: Draft<'a>,
    /// Integers, scale and zero point of quantised tensors.
    inputs: HashMap<ValueId, [ValueId; 3]>,
    weights: HashMap<(ValueId, bool), [ValueId; 3]>,
}

const NONE: fn() -> Attributes = Attributes::new;

impl Rewriter<'_> {
    fn product(&mut self, node: &Node, site: WeightSite) {
        let (name, Some(y), Some(tensor)) =
            (&node.name, node.outputs.first().copied(), node.op.outputs.first().cloned())
        else {
            return;
        };
        let [x, x_scale, x_zero] = self.quantized(node.inputs[0]);
        let [weight, w_scale, w_zero] = self.weight(node, site);
        let sums = TensorSpec { precision: Precision::I32, ..tensor.clone() };
        let sums = self.draft.computed(named(name, "/sums"), sums);
        let mut attributes = node.op.attributes.clone().with_int("integer", 1);
        attributes.0.remove("trans_b");
        self.draft.instead_of(node, attributes, vec![x, weight, x_zero, w_zero], vec![sums]);

        let scale = match self.draft.values[w_scale.0 as usize].tensor.clone() {
            Some(both) => self.draft.computed(named(name, "/scale"), both),
            None => return,
        };
        self.draft.step(
            named(name, "/scales"),
            OpKind::Mul,
            NONE(),
            vec![x_scale, w_scale],
            vec![scale],
        );
        let floats = self.draft.computed(named(name, "/floats"), tensor.clone());
        let to = NONE().with("to", Attribute::Text(Precision::F32.name().to_owned()));
        self.draft.step(named(name, "/cast"), OpKind::Cast, to, vec![sums], vec![floats]);
        let bias = node.inputs.get(2).copied();
        let scaled =
            if bias.is_some() { self.draft.computed(named(name, "/scaled"), tensor) } else { y };
        self.draft.step(
            named(name, "/scaling"),
            OpKind::Mul,
            NONE(),
            vec![floats, scale],
            vec![scaled],
        );
        if let Some(bias) = bias {
            let bias = self.broadcast(node, bias);
            self.draft.step(named(name, "/bias"), OpKind::Add, NONE(), vec![scaled, bias], vec![y]);
        }
    }

    /// A computed tensor as integers, quantised once for all products that read it.
    fn quantized(&mut self, id: ValueId) -> [ValueId; 3] {
        if let Some(made) = self.inputs.get(&id) {
            return *made;
        }
        let value = self.draft.graph.value(id);
        let (name, shape) =
            (&value.name, value.tensor.as_ref().map_or(Vec::new(), |t| t.shape.to_vec()));
        let integers =
            self.draft.computed(named(name, "/quantized"), TensorSpec::new(shape, Precision::U8));
        let scale = self.draft.computed(named(name, "/scale"), TensorSpec::f32([]));
        let zero_point =
            self.draft.computed(named(name, "/zero_point"), TensorSpec::new([], Precision::U8));
        let made = [integers, scale, zero_point];
        self.draft.step(
            named(name, "/quantize"),
            OpKind::DynamicQuantize,
            NONE(),
            vec![id],
            made.to_vec(),
        );
        self.inputs.insert(id, made);
        made
    }

    /// Integers, scale and zero point of a weight; a matrix `[out, in]` becomes `[in, out]`.
    fn weight(&mut self, node: &Node, site: WeightSite) -> [ValueId; 3] {
        let id = node.inputs[site.operand];
        let transposed = node.op.attributes.int("trans_b") == Some(1);
        if let Some(made) = self.weights.get(&(id, transposed)) {
            return *made;
        }
        let value = self.draft.graph.value(id);
        let mut tensor = value.tensor.clone().unwrap_or_else(|| TensorSpec::f32([]));
        let axis = site.axis.filter(|_| node.op.kind == OpKind::Linear);
        let count = axis.map_or(1, |axis| tensor.shape.get(axis).copied().unwrap_or(1));
        let (mut integers, mut scales) = (None, None);
        // An empty tensor may have many slices.
        if let Some(floats) = self.draft.floats(id).filter(|floats| count <= floats.len()) {
            let slices = || scale::slices(&tensor.shape, axis.unwrap_or(usize::MAX));
            let own = scale::symmetric_scales(&floats, slices(), count, scale::Most::Reduced);
            let quantized: Vec<i64> = floats
                .iter()
                .zip(slices())
                .map(|(&v, slice)| scale::to_i8(v, own[slice]))
                .collect();
            integers =
                Some(if transposed { transpose(&quantized, &tensor.shape) } else { quantized });
            scales = Some(own);
        }
        if transposed {
            tensor.shape.reverse();
        }
        let (name, known) = (value.name.clone(), integers.is_some());
        let shape = if axis.is_some() { vec![count] } else { Vec::new() };
        let made = [
            self.draft.constant(
                named(&name, "/quantized"),
                TensorSpec { precision: Precision::I8, ..tensor },
                integers.map(ConstantData::Ints),
            ),
            self.draft.constant(
                named(&name, "/scale"),
                TensorSpec::f32(shape),
                scales.map(ConstantData::Floats),
            ),
            self.draft.constant(
                named(&name, "/zero_point"),
                TensorSpec::new([], Precision::I8),
                known.then(|| ConstantData::Ints(vec![0])),
            ),
        ];
        self.weights.insert((id, transposed), made);
        made
    }

    /// A bias as an addition takes it: that of a convolution stands along the channels.
    fn broadcast(&mut self, node: &Node, bias: ValueId) -> ValueId {
        let value = self.draft.graph.value(bias);
        let (OpKind::Conv, Some(tensor)) = (&node.op.kind, value.tensor.clone()) else {
            return bias;
        };
        let rank = node.op.outputs.first().map_or(4, TensorSpec::rank);
        let mut shape = vec![1; rank];
        shape[1.min(rank - 1)] = tensor.elements() as usize;
        let floats = self.draft.floats(bias).map(|f| ConstantData::Floats(f.into_owned()));
        self.draft.constant(
            format!("{}/channels", value.name),
            TensorSpec { shape: shape.into(), ..tensor },
            floats,
        )
    }
}

fn transpose(values: &[i64], shape: &[usize]) -> Vec<i64> {
    let &[rows, columns] = shape else { return values.to_vec() };
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}

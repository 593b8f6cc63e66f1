//! ONNX Runtime's transpose optimizer: a transpose is pushed through the operators after it where
//! that is likely to remove it.
//!
//! Rules after `onnx_transpose_optimization.cc` of ONNX Runtime: each node is handled once, in
//! topological order; a transpose before a node moves behind it when the estimated cost falls. The
//! cost of transposing a tensor is its number of dimensions larger than 1.

mod crowd;
mod inputs;
mod leading;
mod units;

use super::{
    permutation as perms,
    reshape::{self, Form},
};
use crate::{
    Attribute, Attributes, Node, OpKind, Precision, TensorSpec, ValueId,
    onnx::quantized::LAST,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use crowd::Crowds;
use leading::Leading;

/// How a transpose passes through an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// All inputs and outputs are transposed.
    Simple,
    /// Inputs broadcast against each other: they get the same rank first. Scalars stay.
    Broadcast,
    /// Only the first input is transposed; steering attributes follow.
    First,
    /// All inputs are concatenated.
    Concat,
    Squeeze,
    Unsqueeze,
    Transpose,
    Reshape,
    /// Only once nodes are assigned to the CPU, and only between channels first and channels last.
    Resize,
    /// Known to the optimizer, but refused.
    Never,
    /// Only on integers that belong to the CPU, whose kernel for channels last is faster.
    MaxPool,
    /// Only on integers, whose kernels can work channels last.
    Pool,
}

impl Handler {
    fn of(graph: &Rewriter, index: NodeIndex) -> Option<Self> {
        use OpKind as K;
        let node = graph.node(index)?;
        Some(match &node.op.kind {
            K::Cast
            | K::Exp
            | K::Identity
            | K::LeakyRelu
            | K::Log
            | K::Reciprocal
            | K::Relu
            | K::Sigmoid
            | K::Sqrt
            | K::Tanh
            | K::Abs
            | K::Neg
            | K::Erf => Self::Simple,
            K::HardSigmoid | K::HardSwish | K::Round | K::Softplus | K::Sin | K::Cos => {
                Self::Simple
            }
            // A Gelu before any fusion is ONNX's own.
            K::Gelu | K::GeluTanh if !node.op.attributes.has("fused") => Self::Simple,
            K::Logical if node.op.attributes.text("op") == Some("Not") => Self::Simple,
            K::Add
            | K::Max
            | K::Min
            | K::Mul
            | K::Sub
            | K::Div
            | K::Mod
            | K::PRelu
            | K::Compare
            | K::Pow
            | K::Where
            | K::Logical => Self::Broadcast,
            K::Quantize | K::Dequantize => Self::First,
            K::Clip | K::Pad | K::Split | K::Slice | K::Tile | K::Softmax | K::ArgMax => {
                Self::First
            }
            K::ReduceMean
            | K::ReduceSum
            | K::ReduceMax
            | K::ReduceMin
            | K::ReduceL2
            | K::ReduceProd => Self::First,
            K::Gather if node.op.attributes.int("index").is_some() => Self::First,
            K::Gather => Self::Never,
            K::Concat => Self::Concat,
            K::Transpose => Self::Transpose,
            K::Resize => Self::Resize,
            K::MaxPool if !works_channels_last(node) => Self::MaxPool,
            K::AveragePool | K::GlobalAveragePool if reads_integers(graph, node) => Self::Pool,
            K::Reshape => match reshape::form(graph, index)? {
                Form::Reshape => Self::Reshape,
                Form::Squeeze(_) => Self::Squeeze,
                Form::Unsqueeze(_) => Self::Unsqueeze,
                Form::Flatten => return None,
            },
            _ => return None,
        })
    }

    fn transposes_outputs(self) -> bool {
        !matches!(self, Self::Transpose | Self::Reshape)
    }

    /// Positions of the inputs that are transposed.
    fn inputs(self, graph: &Rewriter, index: NodeIndex) -> Vec<usize> {
        let Some(node) = graph.node(index) else { return Vec::new() };
        match self {
            Self::Simple | Self::Concat => (0..node.inputs.len()).collect(),
            Self::Broadcast => (0..node.inputs.len())
                .filter(|&i| !graph.shape(node.inputs[i]).is_empty())
                .collect(),
            _ => (0..node.inputs.len().min(1)).collect(),
        }
    }
}

fn works_channels_last(node: &Node) -> bool {
    node.op.attributes.int(LAST) == Some(1)
}

fn reads_integers(graph: &Rewriter, node: &Node) -> bool {
    let x = node.inputs.first().and_then(|&x| graph.tensor(x));
    x.is_some_and(|x| matches!(x.precision, Precision::U8 | Precision::I8))
}

/// The permutation of the transpose at `index`.
fn permutation(graph: &Rewriter, index: NodeIndex) -> Option<Vec<usize>> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Transpose)?;
    perms::valid(node.op.attributes.ints("perm"))
}

fn permuted(tensor: Option<&TensorSpec>, perm: &[usize]) -> Option<TensorSpec> {
    tensor.map(|t| TensorSpec { shape: perms::apply(perm, &t.shape).into(), ..t.clone() })
}

fn transpose_attributes(perm: &[usize]) -> Attributes {
    Attributes::new().with_ints("perm", perms::to_ints(perm))
}

/// One run over the graph. `assigned`: nodes belong to the CPU already (optimization level 2).
/// Whether anything changed.
pub(super) fn optimize(graph: &mut Rewriter, assigned: bool) -> bool {
    let order = graph.order();
    let leading = Leading::of(graph, &order);
    let mut pass = Pass { leading, crowds: Crowds::default(), assigned };
    let mut changed = false;
    for index in order {
        let inputs = graph.node(index).map_or(0, |n| n.inputs.len());
        changed |= (0..inputs).any(|position| turn(graph, index, position, &mut pass));
    }
    units::repair(graph) | changed
}

/// The state of one run over the graph.
struct Pass {
    leading: Leading,
    crowds: Crowds,
    /// Whether nodes belong to the CPU already.
    assigned: bool,
}

/// Lets the transpose that provides an input pass, if there is one. Whether anything changed.
fn turn(graph: &mut Rewriter, index: NodeIndex, position: usize, pass: &mut Pass) -> bool {
    let input = graph.node(index).and_then(|n| n.inputs.get(position).copied());
    let Some(transpose) = input.and_then(|input| graph.producer_of(input, &OpKind::Transpose))
    else {
        return false;
    };
    permutation(graph, transpose)
        .is_some_and(|perm| process(graph, transpose, index, &perm, position, pass))
}

fn rank_cost(graph: &Rewriter, value: ValueId) -> i64 {
    graph.tensor(value).map_or(5, |t| t.shape.iter().filter(|&&d| d != 1).count() as i64)
}

fn likely_removable(graph: &Rewriter, transpose: NodeIndex, crowds: &mut Crowds) -> bool {
    let Some((_, output)) = graph.ends(transpose) else { return false };
    !graph.is_output(output) && crowds.are_all_handled(graph, output)
}

fn input_cost(graph: &Rewriter, value: ValueId, perm: &[usize], crowds: &mut Crowds) -> i64 {
    if graph.is_constant(value) {
        return 0;
    }
    if let Some(transpose) = graph.producer(value).map(|producer| before_dq(graph, producer))
        && let Some(other) = permutation(graph, transpose)
    {
        return if other == perm && likely_removable(graph, transpose, crowds) {
            -rank_cost(graph, value)
        } else {
            0
        };
    }
    rank_cost(graph, value)
}

/// The node itself; for a DQ the node that provides its integers, for a squeeze before it the
/// transpose before that.
fn before_dq(graph: &Rewriter, producer: NodeIndex) -> NodeIndex {
    let before = |index: NodeIndex| graph.ends(index).and_then(|(x, _)| graph.producer(x));
    match before(producer).filter(|_| graph.is(producer, &OpKind::Dequantize)) {
        Some(squeeze) if matches!(reshape::form(graph, squeeze), Some(Form::Squeeze(_))) => {
            before(squeeze).filter(|&n| graph.is(n, &OpKind::Transpose)).unwrap_or(producer)
        }
        Some(node) => node,
        None => producer,
    }
}

fn worthwhile(
    graph: &Rewriter,
    index: NodeIndex,
    handler: Handler,
    perm: &[usize],
    pass: &mut Pass,
) -> bool {
    let Some(node) = graph.node(index) else { return false };
    if handler == Handler::Transpose || (pass.assigned && is_faster_channels_last(graph, index)) {
        return true;
    }
    let inputs = handler.inputs(graph, index);
    let costs = inputs.iter().map(|&i| input_cost(graph, node.inputs[i], perm, &mut pass.crowds));
    let mut cost: i64 = costs.sum();
    let leads = |&v: &ValueId| pass.leading.leads(graph, v, perm);
    if cost < 0 && handler.transposes_outputs() && !node.outputs.iter().any(leads) {
        cost += node.outputs.iter().map(|&v| rank_cost(graph, v)).max().unwrap_or(0);
    }
    cost < 0
}

/// Whether the CPU's kernel for channels last is faster, so that a transpose passes at any cost.
fn is_faster_channels_last(graph: &Rewriter, index: NodeIndex) -> bool {
    let Some(node) = graph.node(index) else { return false };
    let is_image = node.inputs.first().is_some_and(|&x| graph.shape(x).len() == 4);
    match node.op.kind {
        OpKind::MaxPool => true,
        OpKind::Resize => {
            let mode = node.op.attributes.text("mode");
            is_image && reads_integers(graph, node) && mode == Some("linear")
        }
        _ => false,
    }
}

fn process(
    graph: &mut Rewriter,
    transpose: NodeIndex,
    index: NodeIndex,
    perm: &[usize],
    position: usize,
    pass: &mut Pass,
) -> bool {
    let Some(handler) = Handler::of(graph, index) else { return false };
    let inputs = handler.inputs(graph, index);
    if !inputs.contains(&position) || !worthwhile(graph, index, handler, perm, pass) {
        return false;
    }
    match handler {
        Handler::Simple => push_through(graph, index, perm, &inputs, perm),
        Handler::Broadcast => {
            inputs::normalize_ranks(graph, index, perm.len(), &inputs)
                && push_through(graph, index, perm, &inputs, perm)
        }
        Handler::First | Handler::Concat => push_with_attributes(graph, index, perm, &inputs),
        Handler::Squeeze => push_through_squeeze(graph, index, perm),
        Handler::Unsqueeze => push_through_unsqueeze(graph, index, perm).is_some(),
        Handler::Transpose => permutation(graph, index).is_some_and(|second| {
            second.len() == perm.len() && merge(graph, transpose, index, perm, &second)
        }),
        Handler::Reshape => pass_reshape(graph, transpose, index, perm),
        Handler::Resize => {
            let between_layouts = perm == [0, 2, 3, 1] || perm == [0, 3, 1, 2];
            pass.assigned && between_layouts && push_with_attributes(graph, index, perm, &inputs)
        }
        Handler::MaxPool => pass.assigned && pool_channels_last(graph, index, perm),
        Handler::Pool => pool_channels_last(graph, index, perm),
        Handler::Never => false,
    }
}

/// A pooling of integers works channels last behind a transpose from there, and channels first
/// behind one to there.
fn pool_channels_last(graph: &mut Rewriter, index: NodeIndex, perm: &[usize]) -> bool {
    let Some(node) = graph.node(index).filter(|node| reads_integers(graph, node)) else {
        return false;
    };
    let is_last = works_channels_last(node);
    let from_last = perms::channels_last_to_first(perm.len());
    let fits = if is_last { perms::invert(perm) == from_last } else { perm == from_last };
    if !fits || perm.len() < 2 || node.outputs.len() != 1 {
        return false;
    }
    if let Some(attributes) = graph.attributes_mut(index) {
        attributes.set(LAST, Attribute::Int(i64::from(!is_last)));
    }
    push_through(graph, index, perm, &[0], perm)
}

/// Lets a node read and provide its first tensors channels last, between transposes.
pub(super) fn wrap_channels_last(graph: &mut Rewriter, index: NodeIndex, rank: usize) {
    let back = perms::channels_last_to_first(rank);
    inputs::transpose_input(graph, index, 0, &perms::invert(&back));
    transpose_outputs(graph, index, &back);
}

/// Inserts the inverse of `perm` before the inputs and `output_perm` after the outputs.
fn push_through(
    graph: &mut Rewriter,
    index: NodeIndex,
    perm: &[usize],
    inputs: &[usize],
    output_perm: &[usize],
) -> bool {
    let inverse = perms::invert(perm);
    for &position in inputs {
        inputs::transpose_input(graph, index, position, &inverse);
    }
    transpose_outputs(graph, index, output_perm);
    true
}

fn transpose_outputs(graph: &mut Rewriter, index: NodeIndex, perm: &[usize]) {
    if perms::is_identity(perm) {
        return;
    }
    let outputs = graph.node(index).map(|n| n.outputs.clone()).unwrap_or_default();
    for (position, output) in outputs.into_iter().enumerate() {
        let tensor = permuted(graph.tensor(output), &perms::invert(perm));
        let inner = graph.value("untransposed", tensor);
        graph.set_output(index, position, inner);
        graph.add(
            "transpose",
            OpKind::Transpose,
            transpose_attributes(perm),
            vec![inner],
            vec![output],
        );
    }
}

fn push_through_squeeze(graph: &mut Rewriter, index: NodeIndex, perm: &[usize]) -> bool {
    let Some(Form::Squeeze(axes)) = reshape::form(graph, index) else { return false };
    if axes.is_empty() || axes.iter().any(|&a| a >= perm.len()) {
        return false;
    }
    let mut moved: Vec<usize> = axes.iter().map(|&a| perm[a]).collect();
    moved.sort_unstable();
    graph.change(index, OpKind::Reshape, reshape::attributes("Squeeze", &moved));
    push_through(graph, index, perm, &[0], &perms::squeeze(&moved, perm))
}

/// Returns the value that has taken the place of the unsqueeze's output.
fn push_through_unsqueeze(
    graph: &mut Rewriter,
    index: NodeIndex,
    perm: &[usize],
) -> Option<ValueId> {
    let Some(Form::Unsqueeze(axes)) = reshape::form(graph, index) else { return None };
    let (_, output) = graph.ends(index)?;
    if axes.is_empty() || axes.iter().any(|&a| a >= perm.len() + axes.len()) {
        return None;
    }
    graph.change(index, OpKind::Reshape, reshape::attributes("Unsqueeze", &axes));
    push_through(graph, index, perm, &[0], &perms::unsqueeze(&axes, perm));
    Some(output)
}

/// Operators whose attributes name dimensions.
fn push_with_attributes(
    graph: &mut Rewriter,
    index: NodeIndex,
    perm: &[usize],
    inputs: &[usize],
) -> bool {
    let Some(node) = graph.node(index) else { return false };
    let (kind, mut attributes) = (node.op.kind.clone(), node.op.attributes.clone());
    let rank = perm.len();
    let inverse = perms::invert(perm);
    let removed = match reduced_axes(&kind, &attributes, rank) {
        Some(axes) if kind == OpKind::Gather || attributes.int("keepdims") == Some(0) => {
            axes.iter().map(|&a| perm[a]).collect()
        }
        _ => Vec::new(),
    };
    if let Some(axis) = attributes.int("axis") {
        let Some(axis) = front(axis, rank) else { return false };
        attributes.set("axis", Attribute::Int(perm[axis] as i64));
    }
    let per_axis = matches!(kind, OpKind::Slice);
    let axes: Option<Vec<usize>> =
        attributes.ints("axes").iter().map(|&a| front(a, rank)).collect();
    let Some(axes) = axes else { return false };
    if !axes.is_empty() {
        let mut moved: Vec<i64> = axes.iter().map(|&a| perm[a] as i64).collect();
        if !per_axis {
            moved.sort_unstable();
        }
        attributes.set("axes", Attribute::Ints(moved.into()));
    }
    for name in ["repeats", "sizes"] {
        if attributes.ints(name).len() == rank {
            let moved = perms::apply(&inverse, attributes.ints(name));
            attributes.set(name, Attribute::Ints(moved.into()));
        }
    }
    if let Some(Attribute::Floats(scales)) =
        attributes.get("scales").filter(|_| kind == OpKind::Resize)
    {
        let moved = perms::apply(&inverse, scales);
        attributes.set("scales", Attribute::Floats(moved));
    }
    if kind == OpKind::Pad && attributes.ints("pads").len() == 2 * rank {
        let (starts, ends) = attributes.ints("pads").split_at(rank);
        let moved = [perms::apply(&inverse, starts), perms::apply(&inverse, ends)].concat();
        attributes.set("pads", Attribute::Ints(moved.into()));
    }
    graph.change(index, kind, attributes);
    let output_perm = perms::squeeze(&removed, perm);
    push_through(graph, index, perm, inputs, &output_perm)
}

fn front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&a| a < rank)
}

/// The dimensions a reduction takes away when it does not keep them.
fn reduced_axes(kind: &OpKind, attributes: &Attributes, rank: usize) -> Option<Vec<usize>> {
    use OpKind as K;
    match kind {
        K::Gather | K::ArgMax => Some(vec![front(attributes.int("axis")?, rank)?]),
        K::ReduceMean
        | K::ReduceSum
        | K::ReduceMax
        | K::ReduceMin
        | K::ReduceL2
        | K::ReduceProd => {
            let axes: Vec<usize> =
                attributes.ints("axes").iter().filter_map(|&a| front(a, rank)).collect();
            Some(if axes.is_empty() { (0..rank).collect() } else { axes })
        }
        _ => None,
    }
}

/// Two transposes in a row: none or one is left.
fn merge(
    graph: &mut Rewriter,
    transpose: NodeIndex,
    index: NodeIndex,
    first: &[usize],
    second: &[usize],
) -> bool {
    let (Some((source, between)), Some((_, output))) = (graph.ends(transpose), graph.ends(index))
    else {
        return false;
    };
    let combined = perms::compose(first, second);
    graph.remove(index);
    if perms::is_identity(&combined) {
        graph.replace_value(output, source);
    } else {
        graph.add(
            "transpose",
            OpKind::Transpose,
            transpose_attributes(&combined),
            vec![source],
            vec![output],
        );
    }
    if graph.uses(between) == 0 {
        graph.remove(transpose);
    }
    true
}

/// Between channels first and channels last, a transpose passes a reshape that keeps batch and
/// channels and splits the dimensions between. A reshape that only moves dimensions of extent 1 is
/// a transpose itself.
fn pass_reshape(
    graph: &mut Rewriter,
    transpose: NodeIndex,
    index: NodeIndex,
    perm: &[usize],
) -> bool {
    let Some((input, output)) = graph.ends(index) else { return false };
    let (from, to) = (graph.shape(input).to_vec(), graph.shape(output).to_vec());
    if let Some(output_perm) = channels_perm(perm, &from, &to) {
        graph.change(index, OpKind::Reshape, reshape::attributes("Reshape", &[]));
        return push_through(graph, index, perm, &[0], &perms::invert(&output_perm));
    }
    if from.len() != perm.len() || from.len() != to.len() {
        return false;
    }
    let Some(second) = perms::of_reshape(&from, &to) else { return false };
    merge(graph, transpose, index, perm, &second)
}

/// The permutation that takes the output of a reshape between these shapes to the layout before the
/// transpose.
fn channels_perm(perm: &[usize], from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let (last_from, last_to) = (from.last()?, to.last()?);
    if to.len() <= from.len() || from[0] != to[0] {
        return None;
    }
    let first_to_last = || [&[0], &(2..to.len()).collect::<Vec<_>>()[..], &[1]].concat();
    let last_to_first =
        || [&[0, to.len() - 1], &(1..to.len() - 1).collect::<Vec<_>>()[..]].concat();
    match perm {
        [0, 2, 1] if from[1] == to[1] => Some(first_to_last()),
        [0, 2, 1] if last_from == last_to => Some(last_to_first()),
        [0, 2, 3, 1] if last_from == last_to => Some(last_to_first()),
        [0, 3, 1, 2] if from[1] == to[1] => Some(first_to_last()),
        _ => None,
    }
}

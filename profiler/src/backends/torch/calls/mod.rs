//! Maps each node to an ATen operator with its arguments. One file per family.
//!
//! Everything that does not depend on tensors is decided when a model is loaded; the result is a
//! closure from input tensors to output tensors.

mod elementwise;
mod movement;
mod normalization;
mod product;
mod reduction;
mod selection;
mod window;

pub(super) use product::needs_transposed_weight;

use super::{
    dispatch::Arg,
    library::Torch,
    tensor::{Device, Tensor},
};
use std::ffi::CStr;
use vitempo_graph::{Attributes, ConstantData, Graph, Node, OpKind, Precision, ValueSource};

/// Input tensors to output tensors.
type Run = Box<dyn Fn(&[&Tensor]) -> Result<Vec<Tensor>, String>>;

/// A node, ready to run.
pub(super) struct Call {
    /// The ATen operator that does the work.
    pub name: &'static str,
    /// Runs it.
    pub run: Run,
}

/// The inputs of a node's compilation.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub torch: &'static Torch,
    pub device: Device,
    /// `add` of the device.
    pub add: super::dispatch::AddFunction,
    pub graph: &'a Graph,
    pub node: &'a Node,
}

/// The call for a node.
///
/// # Errors
/// A sentence about why there is none.
pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    use OpKind::*;
    match &site.node.op.kind {
        Unsupported(name) => {
            let reason =
                site.attributes().text("reason").map(|r| format!(": {r}")).unwrap_or_default();
            Err(format!("operator {name} is not known{reason}"))
        }
        Conv | ConvTranspose | MaxPool | AveragePool | GlobalAveragePool | GlobalMaxPool => {
            window::compile(site)
        }
        Linear | MatMul | Einsum | Attention => product::compile(site),
        LayerNorm | RmsNorm | BatchNorm | InstanceNorm | GroupNorm | LpNorm | Softmax => {
            normalization::compile(site)
        }
        ReduceMean | ReduceSum | ReduceMax | ReduceMin | ReduceL2 | ReduceProd | ArgMax | TopK
        | CumSum => reduction::compile(site),
        Transpose | Reshape | Concat | Split | Slice | Expand | Tile | Pad | Resize
        | GridSample | DepthToSpace | SpaceToDepth | Col2Im | Identity => movement::compile(site),
        Gather | GatherNd | GatherElements | ScatterNd | Where | Trilu | ConstantOfShape => {
            selection::compile(site)
        }
        _ => elementwise::compile(site),
    }
}

impl Site<'_> {
    fn attributes(&self) -> &Attributes {
        &self.node.op.attributes
    }

    fn ints(&self, name: &str) -> Vec<i64> {
        self.attributes().ints(name).to_vec()
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        self.attributes().int(name).unwrap_or(default)
    }

    fn float(&self, name: &str, default: f64) -> f64 {
        self.attributes().float(name).unwrap_or(default)
    }

    /// Shape of an input; empty where there is none.
    fn shape(&self, input: usize) -> Vec<i64> {
        self.node.op.inputs.get(input).map(|i| signed(&i.tensor.shape)).unwrap_or_default()
    }

    fn output_shape(&self) -> Vec<i64> {
        self.node.op.outputs.first().map(|t| signed(&t.shape)).unwrap_or_default()
    }

    fn precision(&self) -> Precision {
        self.node.op.precision_computed()
    }

    /// The values of an input that is a small constant.
    fn constant(&self, input: usize) -> Option<&ConstantData> {
        match &self.graph.value(*self.node.inputs.get(input)?).source {
            ValueSource::Constant(data) => data.as_ref(),
            _ => None,
        }
    }

    /// A number as a tensor without dimensions: on the CPU, where torch reads it beside a tensor of
    /// any device.
    fn number(&self, value: f64, precision: Precision) -> Result<Tensor, String> {
        let bytes = match precision {
            Precision::I64 => (value as i64).to_le_bytes().to_vec(),
            Precision::I32 => (value as i32).to_le_bytes().to_vec(),
            _ => (value as f32).to_le_bytes().to_vec(),
        };
        let kept = if matches!(precision, Precision::I64 | Precision::I32) {
            precision
        } else {
            Precision::F32
        };
        Tensor::from_bytes(self.torch, &[], kept, &bytes)
    }
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect()
}

/// The name in tables.
fn name(operator: &'static CStr) -> &'static str {
    operator.to_str().unwrap_or("aten")
}

/// A call of one operator, whose arguments `with` makes from the inputs.
fn one(
    operator: &'static CStr,
    run: impl Fn(&[&Tensor]) -> Result<Tensor, String> + 'static,
) -> Result<Call, String> {
    Ok(Call { name: name(operator), run: Box::new(move |inputs| Ok(vec![run(inputs)?])) })
}

/// The input at `index`.
fn input<'t>(inputs: &[&'t Tensor], index: usize) -> Result<&'t Tensor, String> {
    inputs.get(index).copied().ok_or_else(|| format!("input {index} is missing"))
}

/// A call whose arguments are the node's inputs.
fn plain(
    site: Site<'_>,
    operator: &'static CStr,
    overload: &'static CStr,
    count: usize,
) -> Result<Call, String> {
    let torch = site.torch;
    if site.node.inputs.len() < count {
        return Err(format!("it has {} inputs, {count} are needed", site.node.inputs.len()));
    }
    one(operator, move |inputs| {
        let arguments: Vec<Arg<'_>> = inputs.iter().take(count).map(|&t| Arg::Tensor(t)).collect();
        torch.one(operator, overload, &arguments)
    })
}

/// A view of `x` with these extents, or a copy where it must be one.
fn reshape(torch: &'static Torch, x: &Tensor, shape: &[i64]) -> Result<Tensor, String> {
    torch.one(c"aten::reshape", c"", &[Arg::Tensor(x), Arg::Ints(shape)])
}

/// A view of `x` with its dimensions in another order.
pub(super) fn permute(torch: &'static Torch, x: &Tensor, order: &[i64]) -> Result<Tensor, String> {
    torch.one(c"aten::permute", c"", &[Arg::Tensor(x), Arg::Ints(order)])
}

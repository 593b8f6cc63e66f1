//! Matrix products.

use super::{
    super::dispatch::Arg, super::library::Torch, super::tensor::Tensor, Call, Site, input, one,
    permute, reshape,
};
use vitempo_graph::OpKind;

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    match site.node.op.kind {
        OpKind::Linear => linear(site),
        OpKind::MatMul => matmul(site),
        OpKind::Einsum => einsum(site),
        _ => Err("attention as one operator is not supported; export the model with attention \
            spelled out"
            .to_owned()),
    }
}

fn is(site: Site<'_>, name: &str) -> bool {
    site.int(name, 0) != 0
}

/// The same with its last two dimensions swapped, if `swap`.
fn oriented(torch: &'static Torch, x: &Tensor, rank: usize, swap: bool) -> Result<Tensor, String> {
    if !swap || rank < 2 {
        return x.share();
    }
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(rank - 2, rank - 1);
    permute(torch, x, &order)
}

fn scaled(site: Site<'_>) -> bool {
    site.float("alpha", 1.0) != 1.0 || site.float("beta", 1.0) != 1.0
}

/// `linear` takes its weight as `[out, in]`; [`needs_transposed_weight`] selects the weights that
/// are transposed when the model is loaded.
fn linear(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    if scaled(site) || is(site, "trans_a") || site.shape(0).len() < 2 {
        return matmul(site);
    }
    let features = site.output_shape().last().copied().unwrap_or(0);
    let bias_is_vector = site.shape(2).iter().product::<i64>() == features;
    if site.node.inputs.len() > 2 && !bias_is_vector {
        return matmul(site);
    }
    let reshaped = site.shape(2).len() > 1;
    one(c"aten::linear", move |inputs| {
        let (x, weight) = (Arg::Tensor(input(inputs, 0)?), Arg::Tensor(input(inputs, 1)?));
        let Some(&bias) = inputs.get(2) else {
            return torch.one(c"aten::linear", c"", &[x, weight, Arg::None]);
        };
        if !reshaped {
            return torch.one(c"aten::linear", c"", &[x, weight, Arg::Some(&Arg::Tensor(bias))]);
        }
        let bias = reshape(torch, bias, &[features])?;
        torch.one(c"aten::linear", c"", &[x, weight, Arg::Some(&Arg::Tensor(&bias))])
    })
}

/// Whether the file has the constant weight of this node as `[in, out]`.
pub(in super::super) fn needs_transposed_weight(op: &vitempo_graph::OpSpec) -> bool {
    op.kind == OpKind::Linear && op.attributes.int("trans_b").unwrap_or(0) == 0
}

/// A product in general; of a Gemm also its factors and its addition.
fn matmul(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (a_rank, b_rank) = (site.shape(0).len(), site.shape(1).len());
    let swap_a = is(site, "trans_a");
    let swap_b = if site.node.op.kind == OpKind::Linear { true } else { is(site, "trans_b") };
    let factor = |name: &str| -> Result<Option<Tensor>, String> {
        let value = site.float(name, 1.0);
        if value == 1.0 { Ok(None) } else { site.number(value, site.precision()).map(Some) }
    };
    let (alpha, beta, add) = (factor("alpha")?, factor("beta")?, site.add);
    let times = move |x: &Tensor, factor: Option<&Tensor>| match factor {
        Some(factor) => torch.one(c"aten::mul", c"Tensor", &[Arg::Tensor(x), Arg::Tensor(factor)]),
        None => x.share(),
    };
    one(c"aten::matmul", move |inputs| {
        let a = oriented(torch, input(inputs, 0)?, a_rank, swap_a)?;
        let b = oriented(torch, input(inputs, 1)?, b_rank, swap_b)?;
        let product = torch.one(c"aten::matmul", c"", &[Arg::Tensor(&a), Arg::Tensor(&b)])?;
        let product = times(&product, alpha.as_ref())?;
        match inputs.get(2) {
            Some(bias) => torch.sum(add, &product, &times(bias, beta.as_ref())?),
            None => Ok(product),
        }
    })
}

fn einsum(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let equation = site.attributes().text("equation").ok_or("it has no equation")?.to_owned();
    one(c"aten::einsum", move |inputs| {
        torch.one(c"aten::einsum", c"", &[Arg::Text(&equation), Arg::Tensors(inputs), Arg::None])
    })
}

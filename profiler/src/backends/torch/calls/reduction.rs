//! Reductions along dimensions.

use super::{super::dispatch::Arg, super::tensor::Tensor, Call, Site, input, name, one};
use vitempo_graph::OpKind;

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let axes = all_if_none(site);
    let keep = Arg::Bool(site.int("keepdims", 1) != 0);
    let axis = site.int("axis", 0);
    match site.node.op.kind {
        OpKind::ReduceMean => one(c"aten::mean", move |i| {
            torch.one(
                c"aten::mean",
                c"dim",
                &[x(i)?, Arg::Some(&Arg::Ints(&axes)), keep, Arg::None],
            )
        }),
        OpKind::ReduceSum => one(c"aten::sum", move |i| {
            torch.one(
                c"aten::sum",
                c"dim_IntList",
                &[x(i)?, Arg::Some(&Arg::Ints(&axes)), keep, Arg::None],
            )
        }),
        OpKind::ReduceMax => one(c"aten::amax", move |i| {
            torch.one(c"aten::amax", c"", &[x(i)?, Arg::Ints(&axes), keep])
        }),
        OpKind::ReduceMin => one(c"aten::amin", move |i| {
            torch.one(c"aten::amin", c"", &[x(i)?, Arg::Ints(&axes), keep])
        }),
        OpKind::ReduceL2 if axes.len() <= 2 => one(c"aten::frobenius_norm", move |i| {
            torch.one(c"aten::frobenius_norm", c"dim", &[x(i)?, Arg::Ints(&axes), keep])
        }),
        OpKind::ReduceProd if axes.len() == 1 => one(c"aten::prod", move |i| {
            torch.one(c"aten::prod", c"dim_int", &[x(i)?, Arg::Int(axes[0]), keep, Arg::None])
        }),
        OpKind::ArgMax => {
            let operator = if site.attributes().text("op") == Some("ArgMin") {
                c"aten::argmin"
            } else {
                c"aten::argmax"
            };
            one(operator, move |i| {
                torch.one(operator, c"", &[x(i)?, Arg::Some(&Arg::Int(axis)), keep])
            })
        }
        OpKind::TopK => {
            let (k, largest) = (site.int("k", 1), Arg::Bool(site.int("largest", 1) != 0));
            let run = move |i: &[&Tensor]| {
                torch.several(
                    c"aten::topk",
                    c"",
                    &[x(i)?, Arg::Int(k), Arg::Int(axis), largest, Arg::Bool(true)],
                    2,
                )
            };
            Ok(Call { name: name(c"aten::topk"), run: Box::new(run) })
        }
        OpKind::CumSum => {
            if site.int("exclusive", 0) != 0 || site.int("reverse", 0) != 0 {
                return Err("torch's running sum is neither exclusive nor reversed".to_owned());
            }
            one(c"aten::cumsum", move |i| {
                torch.one(c"aten::cumsum", c"", &[x(i)?, Arg::Int(axis), Arg::None])
            })
        }
        _ => Err(format!("torch has no {} over {} dimensions", site.node.op.kind, axes.len())),
    }
}

fn x<'t>(inputs: &[&'t Tensor]) -> Result<Arg<'t>, String> {
    input(inputs, 0).map(Arg::Tensor)
}

fn all_if_none(site: Site<'_>) -> Vec<i64> {
    let axes = site.ints("axes");
    if axes.is_empty() { (0..site.shape(0).len() as i64).collect() } else { axes }
}

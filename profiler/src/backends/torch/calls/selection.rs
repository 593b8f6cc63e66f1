//! Operators that select, insert or generate elements.

use super::{
    super::dispatch::Arg, super::library::Torch, super::tensor::Tensor, Call, Site, input, one,
    plain,
};
use vitempo_graph::{OpKind, Precision, lowering::torch::strides::Strided};

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    match site.node.op.kind {
        OpKind::Gather => gather(site),
        OpKind::GatherNd => gather_nd(site),
        OpKind::GatherElements => {
            let (torch, axis) = (site.torch, site.int("axis", 0));
            one(c"aten::gather", move |i| {
                torch.one(
                    c"aten::gather",
                    c"",
                    &[
                        Arg::Tensor(input(i, 0)?),
                        Arg::Int(axis),
                        Arg::Tensor(input(i, 1)?),
                        Arg::Bool(false),
                    ],
                )
            })
        }
        OpKind::ScatterNd => scatter_nd(site),
        OpKind::Where => plain(site, c"aten::where", c"self", 3),
        OpKind::Trilu => trilu(site),
        _ => filled(site),
    }
}

/// `x[index]` along one dimension: `select` for one number, `index` for a tensor.
fn gather(site: Site<'_>) -> Result<Call, String> {
    let (torch, axis) = (site.torch, site.int("axis", 0));
    if let Some(index) = site.attributes().int("index") {
        return one(c"aten::select", move |i| {
            torch.one(
                c"aten::select",
                c"int",
                &[Arg::Tensor(input(i, 0)?), Arg::Int(axis), Arg::Int(index)],
            )
        });
    }
    let before = usize::try_from(axis).map_err(|_| "its axis is wrong")?;
    one(c"aten::index", move |inputs| {
        let mut indices: Vec<Option<&Tensor>> = vec![None; before];
        indices.push(Some(input(inputs, 1)?));
        torch.one(
            c"aten::index",
            c"Tensor",
            &[Arg::Tensor(input(inputs, 0)?), Arg::OptionalTensors(&indices)],
        )
    })
}

/// One tensor of positions per dimension that the last dimension of `indices` addresses.
fn columns(torch: &'static Torch, indices: &Tensor, shape: &[i64]) -> Result<Vec<Tensor>, String> {
    let last = shape.len() as i64 - 1;
    let count = shape.last().copied().unwrap_or(0);
    (0..count)
        .map(|column| {
            torch.one(
                c"aten::select",
                c"int",
                &[Arg::Tensor(indices), Arg::Int(last), Arg::Int(column)],
            )
        })
        .collect()
}

fn gather_nd(site: Site<'_>) -> Result<Call, String> {
    if site.int("batch_dims", 0) != 0 {
        return Err("torch does not gather within batches".to_owned());
    }
    let torch = site.torch;
    let shape = site.shape(1);
    one(c"aten::index", move |inputs| {
        let columns = columns(torch, input(inputs, 1)?, &shape)?;
        let indices: Vec<Option<&Tensor>> = columns.iter().map(Some).collect();
        torch.one(
            c"aten::index",
            c"Tensor",
            &[Arg::Tensor(input(inputs, 0)?), Arg::OptionalTensors(&indices)],
        )
    })
}

fn scatter_nd(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let shape = site.shape(1);
    one(c"aten::index_put", move |inputs| {
        let columns = columns(torch, input(inputs, 1)?, &shape)?;
        let indices: Vec<Option<&Tensor>> = columns.iter().map(Some).collect();
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::OptionalTensors(&indices),
            Arg::Tensor(input(inputs, 2)?),
            Arg::Bool(false),
        ];
        torch.one(c"aten::index_put", c"", &arguments)
    })
}

fn trilu(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let operator = if site.int("upper", 1) != 0 { c"aten::triu" } else { c"aten::tril" };
    let diagonal = match site.constant(1) {
        Some(vitempo_graph::ConstantData::Ints(values)) => values.first().copied().unwrap_or(0),
        _ if site.node.inputs.len() > 1 => {
            return Err("its diagonal is not constant".to_owned());
        }
        _ => site.int("k", 0),
    };
    one(operator, move |i| {
        torch.one(operator, c"", &[Arg::Tensor(input(i, 0)?), Arg::Int(diagonal)])
    })
}

fn filled(site: Site<'_>) -> Result<Call, String> {
    let (torch, device) = (site.torch, site.device);
    let tensor = site.node.op.outputs.first().cloned().ok_or("its output's shape is not known")?;
    let value = site.float("value", 0.0);
    let strided = Strided::contiguous(&tensor.shape);
    let precision: Precision = tensor.precision;
    one(c"aten::full", move |_| {
        let made = Tensor::empty(torch, &strided, precision, device)?;
        // SAFETY: the handle is alive.
        let code = unsafe { (torch.functions.fill)(made.handle(), value) };
        if code == 0 { Ok(made) } else { Err("aten::fill_ fails".to_owned()) }
    })
}

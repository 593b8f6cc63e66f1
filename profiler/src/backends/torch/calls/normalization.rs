//! Normalisations and softmax.

use super::{super::dispatch::Arg, super::tensor::Tensor, Call, Site, input, one, reshape};
use vitempo_graph::OpKind;

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    match site.node.op.kind {
        OpKind::Softmax => softmax(site),
        OpKind::LayerNorm => layer_norm(site),
        OpKind::RmsNorm => rms_norm(site),
        OpKind::BatchNorm => batch_norm(site),
        OpKind::InstanceNorm => instance_norm(site),
        OpKind::GroupNorm => group_norm(site),
        _ => lp_norm(site),
    }
}

/// An input that may be missing, as an optional argument.
fn optional<'a>(argument: &'a Option<Arg<'a>>) -> Arg<'a> {
    argument.as_ref().map_or(Arg::None, Arg::Some)
}

fn maybe<'t>(inputs: &[&'t Tensor], index: usize) -> Option<Arg<'t>> {
    inputs.get(index).map(|&t| Arg::Tensor(t))
}

fn softmax(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let operator = if site.int("log", 0) != 0 { c"aten::log_softmax" } else { c"aten::softmax" };
    let (shape, axis) = (site.shape(0), site.int("axis", -1));
    if site.int("coerce", 0) == 0 {
        return one(operator, move |inputs| {
            torch.one(
                operator,
                c"int",
                &[Arg::Tensor(input(inputs, 0)?), Arg::Int(axis), Arg::None],
            )
        });
    }
    let kept =
        usize::try_from(axis).ok().filter(|&a| a <= shape.len()).ok_or("its axis is wrong")?;
    let flat = vec![shape[..kept].iter().product(), shape[kept..].iter().product()];
    one(operator, move |inputs| {
        let flat = reshape(torch, input(inputs, 0)?, &flat)?;
        reshape(
            torch,
            &torch.one(operator, c"int", &[Arg::Tensor(&flat), Arg::Int(1), Arg::None])?,
            &shape,
        )
    })
}

/// The dimensions that are normalised together.
fn normalised(site: Site<'_>) -> Result<Vec<i64>, String> {
    let shape = site.shape(0);
    let axis = usize::try_from(site.int("axis", -1))
        .ok()
        .filter(|&a| a < shape.len())
        .ok_or("its axis is wrong")?;
    Ok(shape[axis..].to_vec())
}

fn layer_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (shape, epsilon) = (normalised(site)?, site.float("epsilon", 1e-5));
    let flat = site.shape(1) == shape && (site.node.inputs.len() < 3 || site.shape(2) == shape);
    if site.node.inputs.len() > 1 && !flat {
        return Err(format!("its scale has shape {:?}, torch needs {shape:?}", site.shape(1)));
    }
    one(c"aten::layer_norm", move |inputs| {
        let (weight, bias) = (maybe(inputs, 1), maybe(inputs, 2));
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Ints(&shape),
            optional(&weight),
            optional(&bias),
            Arg::Float(epsilon),
            Arg::Bool(true),
        ];
        torch.one(c"aten::layer_norm", c"", &arguments)
    })
}

fn rms_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (shape, epsilon) = (normalised(site)?, site.float("epsilon", 1e-5));
    one(c"aten::rms_norm", move |inputs| {
        let weight = maybe(inputs, 1);
        torch.one(
            c"aten::rms_norm",
            c"",
            &[
                Arg::Tensor(input(inputs, 0)?),
                Arg::Ints(&shape),
                optional(&weight),
                Arg::Some(&Arg::Float(epsilon)),
            ],
        )
    })
}

fn batch_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let epsilon = site.float("epsilon", 1e-5);
    one(c"aten::batch_norm", move |inputs| {
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|i| maybe(inputs, i));
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            optional(&scale),
            optional(&bias),
            optional(&mean),
            optional(&variance),
            Arg::Bool(false),
            Arg::Float(0.1),
            Arg::Float(epsilon),
            Arg::Bool(true),
        ];
        torch.one(c"aten::batch_norm", c"", &arguments)
    })
}

fn instance_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let epsilon = site.float("epsilon", 1e-5);
    one(c"aten::instance_norm", move |inputs| {
        let (scale, bias) = (maybe(inputs, 1), maybe(inputs, 2));
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            optional(&scale),
            optional(&bias),
            Arg::None,
            Arg::None,
            Arg::Bool(true),
            Arg::Float(0.1),
            Arg::Float(epsilon),
            Arg::Bool(true),
        ];
        torch.one(c"aten::instance_norm", c"", &arguments)
    })
}

/// Torch takes scale and bias as vectors of channels.
fn group_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (groups, epsilon) = (site.int("groups", 1), site.float("epsilon", 1e-5));
    let channels = site.shape(0).get(1).copied().ok_or("it has no channels")?;
    one(c"aten::group_norm", move |inputs| {
        let vector =
            |index: usize| inputs.get(index).map(|t| reshape(torch, t, &[channels])).transpose();
        let (scale, bias) = (vector(1)?, vector(2)?);
        let (scale, bias) = (scale.as_ref().map(Arg::Tensor), bias.as_ref().map(Arg::Tensor));
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Int(groups),
            optional(&scale),
            optional(&bias),
            Arg::Float(epsilon),
            Arg::Bool(true),
        ];
        torch.one(c"aten::group_norm", c"", &arguments)
    })
}

fn lp_norm(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (axis, p) = (site.int("axis", -1), site.int("p", 2));
    one(c"aten::div", move |inputs| {
        let x = input(inputs, 0)?;
        let along = [axis];
        let norm = if p == 1 {
            let absolute = torch.one(c"aten::abs", c"", &[Arg::Tensor(x)])?;
            torch.one(
                c"aten::sum",
                c"dim_IntList",
                &[
                    Arg::Tensor(&absolute),
                    Arg::Some(&Arg::Ints(&along)),
                    Arg::Bool(true),
                    Arg::None,
                ],
            )?
        } else {
            torch.one(
                c"aten::frobenius_norm",
                c"dim",
                &[Arg::Tensor(x), Arg::Ints(&along), Arg::Bool(true)],
            )?
        };
        torch.one(c"aten::div", c"Tensor", &[Arg::Tensor(x), Arg::Tensor(&norm)])
    })
}

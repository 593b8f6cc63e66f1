//! Arithmetic, activations, comparisons, casts.

use super::{
    super::dispatch::{Arg, Scalars},
    super::tensor::Tensor,
    Call, Site, input, name, one, plain,
};
use std::ffi::CStr;
use vitempo_graph::{OpKind, Precision};

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    let unary = |operator: &'static CStr| plain(site, operator, c"", 1);
    let tensors = |operator: &'static CStr| plain(site, operator, c"Tensor", 2);
    let text = |key: &str| site.attributes().text(key).unwrap_or_default().to_owned();
    match site.node.op.kind {
        OpKind::Add => sum(site, site.add, c"aten::add"),
        OpKind::Sub => sum(site, site.torch.functions.subtract, c"aten::sub"),
        OpKind::Mul => chain(site, c"aten::mul", c"Tensor"),
        OpKind::Div if !site.precision().is_float() => divided(site),
        OpKind::Div => tensors(c"aten::div"),
        // ONNX has no other remainder of floats than C's.
        OpKind::Mod if site.precision().is_float() || site.int("fmod", 0) == 1 => {
            tensors(c"aten::fmod")
        }
        OpKind::Mod => tensors(c"aten::remainder"),
        OpKind::Min => chain(site, c"aten::minimum", c""),
        OpKind::Max => chain(site, c"aten::maximum", c""),
        OpKind::Pow => power(site),
        OpKind::Relu => unary(c"aten::relu"),
        OpKind::LeakyRelu => {
            scalars(site, "leaky_relu", c"aten::leaky_relu", vec![site.float("alpha", 0.01)])
        }
        OpKind::PRelu => prelu(site),
        OpKind::Elu => elu(site),
        OpKind::Clip => clip(site),
        OpKind::Sigmoid => unary(c"aten::sigmoid"),
        OpKind::HardSigmoid => hard_sigmoid(site),
        OpKind::HardSwish => unary(c"aten::hardswish"),
        OpKind::Silu if site.float("alpha", 1.0) == 1.0 => unary(c"aten::silu"),
        OpKind::Gelu => gelu(site, "none"),
        OpKind::GeluTanh => gelu(site, "tanh"),
        OpKind::Mish => unary(c"aten::mish"),
        OpKind::Softplus => scalars(site, "softplus", c"aten::softplus", vec![1.0, 20.0]),
        OpKind::Tanh => unary(c"aten::tanh"),
        OpKind::Erf => unary(c"aten::erf"),
        OpKind::Exp => unary(c"aten::exp"),
        OpKind::Log => unary(c"aten::log"),
        OpKind::Sqrt => unary(c"aten::sqrt"),
        OpKind::Reciprocal => unary(c"aten::reciprocal"),
        OpKind::Neg => unary(c"aten::neg"),
        OpKind::Abs => unary(c"aten::abs"),
        OpKind::Sin => unary(c"aten::sin"),
        OpKind::Cos => unary(c"aten::cos"),
        OpKind::Round => match text("op").as_str() {
            "Floor" => unary(c"aten::floor"),
            "Ceil" => unary(c"aten::ceil"),
            "Sign" => unary(c"aten::sign"),
            _ => unary(c"aten::round"),
        },
        OpKind::Compare => match text("op").as_str() {
            "Greater" => tensors(c"aten::gt"),
            "Less" => tensors(c"aten::lt"),
            "GreaterOrEqual" => tensors(c"aten::ge"),
            "LessOrEqual" => tensors(c"aten::le"),
            _ => tensors(c"aten::eq"),
        },
        OpKind::Logical => match text("op").as_str() {
            "Not" => unary(c"aten::logical_not"),
            "Or" => plain(site, c"aten::logical_or", c"", 2),
            "Xor" => plain(site, c"aten::logical_xor", c"", 2),
            _ => plain(site, c"aten::logical_and", c"", 2),
        },
        OpKind::Cast => cast(site),
        _ => Err(format!("operator {} has no ATen call", site.node.op.kind)),
    }
}

fn sum(
    site: Site<'_>,
    function: super::super::dispatch::AddFunction,
    operator: &'static CStr,
) -> Result<Call, String> {
    let torch = site.torch;
    one(operator, move |inputs| {
        let mut total = torch.sum(function, input(inputs, 0)?, input(inputs, 1)?)?;
        for next in inputs.iter().skip(2) {
            total = torch.sum(function, &total, next)?;
        }
        Ok(total)
    })
}

/// An operator of two tensors over two inputs or more.
fn chain(site: Site<'_>, operator: &'static CStr, overload: &'static CStr) -> Result<Call, String> {
    let torch = site.torch;
    one(operator, move |inputs| {
        let (first, rest) = inputs.split_first().ok_or("it has no inputs")?;
        let mut result: Option<Tensor> = None;
        for next in rest {
            let so_far = result.as_ref().unwrap_or(first);
            result =
                Some(torch.one(operator, overload, &[Arg::Tensor(so_far), Arg::Tensor(next)])?);
        }
        result.map_or_else(|| first.share(), Ok)
    })
}

/// Integers are divided towards zero.
fn divided(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    one(c"aten::div", move |inputs| {
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Tensor(input(inputs, 1)?),
            Arg::Some(&Arg::Text("trunc")),
        ];
        torch.one(c"aten::div", c"Tensor_mode", &arguments)
    })
}

fn power(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    if site.node.inputs.len() > 1 {
        return plain(site, c"aten::pow", c"Tensor_Tensor", 2);
    }
    let exponent = site.number(site.float("exponent", 1.0), site.precision())?;
    one(c"aten::pow", move |inputs| {
        torch.one(
            c"aten::pow",
            c"Tensor_Tensor",
            &[Arg::Tensor(input(inputs, 0)?), Arg::Tensor(&exponent)],
        )
    })
}

fn scalars(
    site: Site<'_>,
    function: &str,
    operator: &'static CStr,
    values: Vec<f64>,
) -> Result<Call, String> {
    let torch = site.torch;
    let function = Scalars::find(torch, function, values.len())?;
    one(operator, move |inputs| function.call(torch, input(inputs, 0)?, &values))
}

fn clip(site: Site<'_>) -> Result<Call, String> {
    let bound = |key: &str| site.attributes().float(key);
    match (bound("min"), bound("max")) {
        (Some(low), Some(high)) => scalars(site, "hardtanh", c"aten::hardtanh", vec![low, high]),
        (Some(low), None) => scalars(site, "clamp_min", c"aten::clamp_min", vec![low]),
        (None, Some(high)) => scalars(site, "clamp_max", c"aten::clamp_max", vec![high]),
        (None, None) => plain(site, c"aten::alias", c"", 1),
    }
}

fn elu(site: Site<'_>) -> Result<Call, String> {
    match site.attributes().text("op") {
        Some("Selu") => scalars(
            site,
            "elu",
            c"aten::elu",
            vec![site.float("alpha", 1.673_263_2), site.float("gamma", 1.050_701), 1.0],
        ),
        Some("Celu") => scalars(site, "celu", c"aten::celu", vec![site.float("alpha", 1.0)]),
        _ => scalars(site, "elu", c"aten::elu", vec![site.float("alpha", 1.0), 1.0, 1.0]),
    }
}

/// Torch's slope is one number or one per channel, without the dimensions that ONNX broadcasts
/// over.
fn prelu(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let slopes: i64 = site.shape(1).iter().product();
    one(c"aten::prelu", move |inputs| {
        let slope = super::reshape(torch, input(inputs, 1)?, &[slopes])?;
        torch.one(c"aten::prelu", c"", &[Arg::Tensor(input(inputs, 0)?), Arg::Tensor(&slope)])
    })
}

/// Torch has one hard sigmoid: x / 6 + 1 / 2.
fn hard_sigmoid(site: Site<'_>) -> Result<Call, String> {
    let (alpha, beta) = (site.float("alpha", 0.2), site.float("beta", 0.5));
    if (alpha - 1.0 / 6.0).abs() < 1e-4 && beta == 0.5 {
        return plain(site, c"aten::hardsigmoid", c"", 1);
    }
    let torch = site.torch;
    let (scale, shift) = (site.number(alpha, Precision::F32)?, site.number(beta, Precision::F32)?);
    let (add, clamp) = (site.add, Scalars::find(torch, "hardtanh", 2)?);
    one(c"aten::hardtanh", move |inputs| {
        let scaled = torch.one(
            c"aten::mul",
            c"Tensor",
            &[Arg::Tensor(input(inputs, 0)?), Arg::Tensor(&scale)],
        )?;
        clamp.call(torch, &torch.sum(add, &scaled, &shift)?, &[0.0, 1.0])
    })
}

fn gelu(site: Site<'_>, approximation: &'static str) -> Result<Call, String> {
    let torch = site.torch;
    one(c"aten::gelu", move |inputs| {
        torch.one(c"aten::gelu", c"", &[Arg::Tensor(input(inputs, 0)?), Arg::Text(approximation)])
    })
}

fn cast(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let to = site
        .node
        .op
        .outputs
        .first()
        .map(|t| torch.dtype(t.precision))
        .ok_or("its output's type is not known")?;
    Ok(Call {
        name: name(c"aten::to"),
        run: Box::new(move |inputs| {
            let arguments = [
                Arg::Tensor(input(inputs, 0)?),
                Arg::Type(to),
                Arg::Bool(false),
                Arg::Bool(false),
                Arg::None,
            ];
            Ok(vec![torch.one(c"aten::to", c"dtype", &arguments)?])
        }),
    })
}

//! Convolutions and pooling, over one to three spatial dimensions.

use super::{super::dispatch::Arg, Call, Site, input, one, plain};
use std::ffi::CStr;
use vitempo_graph::OpKind;

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    let spatial = site
        .shape(0)
        .len()
        .checked_sub(2)
        .filter(|n| (1..=3).contains(n))
        .ok_or("it has no one to three spatial dimensions")?;
    match site.node.op.kind {
        OpKind::Conv => convolution(site, spatial, false),
        OpKind::ConvTranspose => convolution(site, spatial, true),
        OpKind::MaxPool => max_pool(site, spatial),
        OpKind::AveragePool => average_pool(site, spatial),
        OpKind::GlobalAveragePool => adaptive_average(site, spatial),
        _ => global_maximum(site, spatial),
    }
}

/// The padding of both ends, which must be equal for torch.
fn padding(site: Site<'_>, spatial: usize) -> Result<Vec<i64>, String> {
    let pads = site.ints("pads");
    let (begins, ends) = if pads.is_empty() {
        (vec![0; spatial], vec![0; spatial])
    } else {
        (pads[..pads.len() / 2].to_vec(), pads[pads.len() / 2..].to_vec())
    };
    if begins == ends {
        Ok(begins)
    } else {
        Err(format!("padding {pads:?} differs between the ends, which torch does not do here"))
    }
}

fn or(values: Vec<i64>, default: i64, count: usize) -> Vec<i64> {
    if values.is_empty() { vec![default; count] } else { values }
}

fn convolution(site: Site<'_>, spatial: usize, transposed: bool) -> Result<Call, String> {
    let torch = site.torch;
    let padding = padding(site, spatial)?;
    let (strides, dilations) =
        (or(site.ints("strides"), 1, spatial), or(site.ints("dilations"), 1, spatial));
    let (more, groups) = (or(site.ints("output_padding"), 0, spatial), site.int("group", 1));
    one(c"aten::convolution", move |inputs| {
        let bias = inputs.get(2).map(|&b| Arg::Tensor(b));
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Tensor(input(inputs, 1)?),
            bias.as_ref().map_or(Arg::None, Arg::Some),
            Arg::Ints(&strides),
            Arg::Ints(&padding),
            Arg::Ints(&dilations),
            Arg::Bool(transposed),
            Arg::Ints(&more),
            Arg::Int(groups),
        ];
        torch.one(c"aten::convolution", c"", &arguments)
    })
}

fn by_rank(spatial: usize, operators: [&'static CStr; 3]) -> &'static CStr {
    operators[(spatial - 1).min(2)]
}

fn max_pool(site: Site<'_>, spatial: usize) -> Result<Call, String> {
    let torch = site.torch;
    let operator =
        by_rank(spatial, [c"aten::max_pool1d", c"aten::max_pool2d", c"aten::max_pool3d"]);
    let padding = padding(site, spatial)?;
    let (kernel, strides, dilations) = (
        site.ints("kernel_shape"),
        or(site.ints("strides"), 1, spatial),
        or(site.ints("dilations"), 1, spatial),
    );
    let ceil = site.int("ceil_mode", 0) != 0;
    one(operator, move |inputs| {
        let x = Arg::Tensor(input(inputs, 0)?);
        torch.one(
            operator,
            c"",
            &[
                x,
                Arg::Ints(&kernel),
                Arg::Ints(&strides),
                Arg::Ints(&padding),
                Arg::Ints(&dilations),
                Arg::Bool(ceil),
            ],
        )
    })
}

fn average_pool(site: Site<'_>, spatial: usize) -> Result<Call, String> {
    let torch = site.torch;
    let operator =
        by_rank(spatial, [c"aten::avg_pool1d", c"aten::avg_pool2d", c"aten::avg_pool3d"]);
    if site.ints("dilations").iter().any(|&d| d != 1) {
        return Err("torch's average pooling has no dilation".to_owned());
    }
    let padding = padding(site, spatial)?;
    let (kernel, strides) = (site.ints("kernel_shape"), or(site.ints("strides"), 1, spatial));
    let (ceil, with_padding) = (
        Arg::Bool(site.int("ceil_mode", 0) != 0),
        Arg::Bool(site.int("count_include_pad", 0) != 0),
    );
    one(operator, move |inputs| {
        let common = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Ints(&kernel),
            Arg::Ints(&strides),
            Arg::Ints(&padding),
            ceil,
            with_padding,
            Arg::None,
        ];
        torch.one(operator, c"", if spatial == 1 { &common[..6] } else { &common })
    })
}

fn adaptive_average(site: Site<'_>, spatial: usize) -> Result<Call, String> {
    let torch = site.torch;
    let operator = by_rank(
        spatial,
        [c"aten::adaptive_avg_pool1d", c"aten::adaptive_avg_pool2d", c"aten::adaptive_avg_pool3d"],
    );
    let ones = vec![1; spatial];
    one(operator, move |inputs| {
        torch.one(operator, c"", &[Arg::Tensor(input(inputs, 0)?), Arg::Ints(&ones)])
    })
}

/// As `torch.amax` over the spatial dimensions.
fn global_maximum(site: Site<'_>, spatial: usize) -> Result<Call, String> {
    let torch = site.torch;
    let axes: Vec<i64> = (2..2 + spatial as i64).collect();
    plain(site, c"aten::amax", c"", 1)?;
    one(c"aten::amax", move |inputs| {
        torch.one(
            c"aten::amax",
            c"",
            &[Arg::Tensor(input(inputs, 0)?), Arg::Ints(&axes), Arg::Bool(true)],
        )
    })
}

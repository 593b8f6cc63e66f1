//! Operators that move elements or only view them differently: shapes, concatenations, slices,
//! padding, resampling.

use super::{
    super::dispatch::Arg, super::tensor::Tensor, Call, Site, input, name, one, permute, reshape,
};
use std::ffi::CStr;
use vitempo_graph::OpKind;

pub(super) fn compile(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let shape = site.output_shape();
    match site.node.op.kind {
        OpKind::Transpose => {
            let order = site.ints("perm");
            one(c"aten::permute", move |i| permute(torch, input(i, 0)?, &order))
        }
        OpKind::Reshape => one(c"aten::reshape", move |i| reshape(torch, input(i, 0)?, &shape)),
        OpKind::Identity => one(c"aten::alias", move |i| {
            torch.one(c"aten::alias", c"", &[Arg::Tensor(input(i, 0)?)])
        }),
        OpKind::Concat => {
            let axis = site.int("axis", 0);
            one(c"aten::cat", move |i| {
                torch.one(c"aten::cat", c"", &[Arg::Tensors(i), Arg::Int(axis)])
            })
        }
        OpKind::Split => {
            let (sizes, axis) = (site.ints("split"), site.int("axis", 0));
            let run = move |i: &[&Tensor]| {
                torch.list(
                    c"aten::split_with_sizes",
                    c"",
                    &[Arg::Tensor(input(i, 0)?), Arg::Ints(&sizes), Arg::Int(axis)],
                )
            };
            Ok(Call { name: name(c"aten::split_with_sizes"), run: Box::new(run) })
        }
        OpKind::Slice => slice(site),
        OpKind::Expand => one(c"aten::expand", move |i| {
            torch.one(
                c"aten::expand",
                c"",
                &[Arg::Tensor(input(i, 0)?), Arg::Ints(&shape), Arg::Bool(false)],
            )
        }),
        OpKind::Tile => {
            let repeats = site.ints("repeats");
            one(c"aten::repeat", move |i| {
                torch.one(c"aten::repeat", c"", &[Arg::Tensor(input(i, 0)?), Arg::Ints(&repeats)])
            })
        }
        OpKind::Pad => pad(site),
        OpKind::Resize => resize(site),
        OpKind::GridSample => grid_sample(site),
        OpKind::Col2Im => col2im(site),
        _ => blocks(site),
    }
}

/// One `slice` per dimension, as indexing does it; backwards by `flip`.
fn slice(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let shape = site.shape(0);
    let (axes, starts, ends, steps) =
        (site.ints("axes"), site.ints("starts"), site.ints("ends"), site.ints("steps"));
    let mut cuts = Vec::new();
    for (((&axis, &start), &end), &step) in axes.iter().zip(&starts).zip(&ends).zip(&steps) {
        let extent = usize::try_from(axis)
            .ok()
            .and_then(|a| shape.get(a))
            .copied()
            .ok_or("it cuts a dimension that does not exist")?;
        cuts.push(if step > 0 {
            (axis, false, start, end, step)
        } else {
            // After the flip, position p is at extent - 1 - p.
            let last = if end < 0 { -1 } else { end };
            (axis, true, extent - 1 - start, extent - 1 - last, -step)
        });
    }
    one(c"aten::slice", move |inputs| {
        let mut x = input(inputs, 0)?.share()?;
        for &(axis, backwards, start, end, step) in &cuts {
            if backwards {
                x = torch.one(c"aten::flip", c"", &[Arg::Tensor(&x), Arg::Ints(&[axis])])?;
            }
            let bounds = [Arg::Int(start), Arg::Int(end)];
            x = torch.one(
                c"aten::slice",
                c"Tensor",
                &[
                    Arg::Tensor(&x),
                    Arg::Int(axis),
                    Arg::Some(&bounds[0]),
                    Arg::Some(&bounds[1]),
                    Arg::Int(step),
                ],
            )?;
        }
        Ok(x)
    })
}

/// Torch's pads come last dimension first, begin and end together.
fn pad(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let pads = site.ints("pads");
    let (begins, ends) = pads.split_at(pads.len() / 2);
    let outer = begins.iter().zip(ends).take_while(|&(&b, &e)| b == 0 && e == 0).count();
    let pairs: Vec<i64> =
        begins.iter().zip(ends).skip(outer).rev().flat_map(|(&b, &e)| [b, e]).collect();
    let mode = match site.attributes().text("mode") {
        Some("reflect") => "reflect",
        Some("edge") => "replicate",
        Some("wrap") => "circular",
        _ => "constant",
    };
    let value = Arg::Float(site.float("value", 0.0));
    one(c"aten::pad", move |inputs| {
        let fill = if mode == "constant" { Arg::Some(&value) } else { Arg::None };
        torch.one(
            c"aten::pad",
            c"",
            &[Arg::Tensor(input(inputs, 0)?), Arg::Ints(&pairs), Arg::Text(mode), fill],
        )
    })
}

fn resize(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (shape, sizes) = (site.shape(0), site.ints("sizes"));
    if shape.len() < 3 || shape[..2] != sizes[..2] {
        return Err("torch resizes spatial dimensions alone".to_owned());
    }
    let spatial = shape.len() - 2;
    let text = |key: &str| site.attributes().text(key).unwrap_or_default();
    let (mode, coordinates) = (text("mode"), text("coordinate_transformation_mode"));
    let antialias = site.int("antialias", 0) != 0;
    let corners = coordinates == "align_corners";
    let centred = matches!(coordinates, "half_pixel" | "pytorch_half_pixel");
    let refused = || {
        format!(
            "torch has no resize with mode {mode}, coordinates {coordinates} over {spatial} \
            dimensions"
        )
    };
    let operator: &'static CStr = match (mode, spatial) {
        ("nearest", 1..=3) if coordinates == "asymmetric" && text("nearest_mode") == "floor" => {
            [c"aten::upsample_nearest1d", c"aten::upsample_nearest2d", c"aten::upsample_nearest3d"]
                [spatial - 1]
        }
        ("nearest", 1..=3) if centred && text("nearest_mode").starts_with("round_prefer") => [
            c"aten::_upsample_nearest_exact1d",
            c"aten::_upsample_nearest_exact2d",
            c"aten::_upsample_nearest_exact3d",
        ][spatial - 1],
        ("linear", 2) if antialias && (centred || corners) => c"aten::_upsample_bilinear2d_aa",
        ("linear", 1..=3) if !antialias && (centred || corners) => [
            c"aten::upsample_linear1d",
            c"aten::upsample_bilinear2d",
            c"aten::upsample_trilinear3d",
        ][spatial - 1],
        ("cubic", 2) if antialias && (centred || corners) => c"aten::_upsample_bicubic2d_aa",
        ("cubic", 2) if centred || corners => c"aten::upsample_bicubic2d",
        _ => return Err(refused()),
    };
    let wanted = sizes[2..].to_vec();
    let scales: Vec<Option<Arg<'static>>> = match site.attributes().get("scales") {
        Some(vitempo_graph::Attribute::Floats(scales)) if scales.len() == shape.len() => {
            scales[2..].iter().map(|&s| Some(Arg::Float(s))).collect()
        }
        _ => vec![None; spatial],
    };
    let takes_corners = mode != "nearest";
    one(operator, move |inputs| {
        let mut arguments = vec![Arg::Tensor(input(inputs, 0)?), Arg::Ints(&wanted)];
        if takes_corners {
            arguments.push(Arg::Bool(corners));
        }
        arguments.extend(scales.iter().map(|s| s.as_ref().map_or(Arg::None, Arg::Some)));
        torch.one(operator, c"", &arguments)
    })
}

fn grid_sample(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let mode = match site.attributes().text("mode") {
        Some("nearest") => 1,
        Some("cubic") => 2,
        _ => 0,
    };
    let padding = match site.attributes().text("padding_mode") {
        Some("border") => 1,
        Some("reflection") => 2,
        _ => 0,
    };
    let corners = site.int("align_corners", 0) != 0;
    one(c"aten::grid_sampler", move |inputs| {
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Tensor(input(inputs, 1)?),
            Arg::Int(mode),
            Arg::Int(padding),
            Arg::Bool(corners),
        ];
        torch.one(c"aten::grid_sampler", c"", &arguments)
    })
}

/// Windows added up to an image of two dimensions, with equal padding on both sides.
fn col2im(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let [image, block, dilations, pads, strides] =
        ["image_shape", "block_shape", "dilations", "pads", "strides"].map(|name| site.ints(name));
    let (begins, ends) = pads.split_at(pads.len() / 2);
    if image.len() != 2 || begins != ends {
        return Err("torch adds up windows of images with equal padding on both sides".to_owned());
    }
    let begins = begins.to_vec();
    one(c"aten::col2im", move |inputs| {
        let arguments = [
            Arg::Tensor(input(inputs, 0)?),
            Arg::Ints(&image),
            Arg::Ints(&block),
            Arg::Ints(&dilations),
            Arg::Ints(&begins),
            Arg::Ints(&strides),
        ];
        torch.one(c"aten::col2im", c"", &arguments)
    })
}

/// Depth to space and back; `pixel_shuffle` where torch has the order, reshapes around a
/// permutation where it has not.
fn blocks(site: Site<'_>) -> Result<Call, String> {
    let torch = site.torch;
    let (shape, out, block) = (site.shape(0), site.output_shape(), site.int("blocksize", 1));
    let [n, c, h, w] = shape[..] else { return Err("it is not an image".to_owned()) };
    let deeper = site.node.op.kind == OpKind::SpaceToDepth;
    if !deeper && site.attributes().text("mode") == Some("CRD") {
        return one(c"aten::pixel_shuffle", move |i| {
            torch.one(c"aten::pixel_shuffle", c"", &[Arg::Tensor(input(i, 0)?), Arg::Int(block)])
        });
    }
    let (inner, order) = if deeper {
        ([n, c, h / block, block, w / block, block], [0, 3, 5, 1, 2, 4])
    } else {
        ([n, block, block, c / (block * block), h, w], [0, 3, 4, 1, 5, 2])
    };
    one(c"aten::reshape", move |i| {
        reshape(torch, &permute(torch, &reshape(torch, input(i, 0)?, &inner)?, &order)?, &out)
    })
}

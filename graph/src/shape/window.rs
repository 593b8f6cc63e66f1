//! Operators that slide a window: convolutions and pooling. Attributes `kernel_shape`, `strides`,
//! `dilations` have one number per spatial dimension, `pads` two: all begins, then all ends.

use super::{dimension, like, operand, text};
use crate::{Attribute, Attributes, Ints, OpKind, Operand, TensorSpec};
use smallvec::smallvec;

pub(super) fn canonical(
    kind: &OpKind,
    a: &mut Attributes,
    inputs: &[Operand],
) -> Result<(), String> {
    let x = operand(inputs, 0)?;
    let spatial = x
        .shape
        .get(2..)
        .filter(|s| !s.is_empty())
        .ok_or_else(|| format!("its input {} has no spatial dimension", text(&x.shape)))?;
    let convolution = matches!(kind, OpKind::Conv | OpKind::ConvTranspose);
    if convolution {
        let weight = operand(inputs, 1)?;
        if weight.rank() != x.rank() {
            return Err(format!(
                "the weight {} does not fit the input {}",
                text(&weight.shape),
                text(&x.shape)
            ));
        }
        let kernel: Ints = weight.shape[2..].iter().map(|&k| k as i64).collect();
        let given = a.ints("kernel_shape");
        if !given.is_empty() && given != &kernel[..] {
            return Err(format!(
                "`kernel_shape` {given:?} is not that of the weight {}",
                text(&weight.shape)
            ));
        }
        a.set("kernel_shape", Attribute::Ints(kernel));
        super::default_int(a, "group", 1);
    }
    let n = spatial.len();
    for (name, default, count) in [("strides", 1, n), ("dilations", 1, n), ("pads", 0, 2 * n)] {
        if a.ints(name).is_empty() {
            a.set(name, Attribute::Ints(smallvec![default; count]));
        }
        counted(a, name, count, default)?;
    }
    counted(a, "kernel_shape", n, 1)?;
    if *kind == OpKind::ConvTranspose {
        transpose_pads(a, spatial)?;
    } else {
        pads(a, spatial)?;
    }
    if !convolution {
        super::default_int(a, "ceil_mode", 0);
        if a.ints("dilations").iter().all(|&d| d == 1) {
            a.0.remove("dilations");
        }
    }
    if *kind == OpKind::AveragePool {
        super::default_int(a, "count_include_pad", 0);
    }
    Ok(())
}

fn counted(a: &Attributes, name: &str, count: usize, least: i64) -> Result<(), String> {
    let v = a.ints(name);
    if v.len() != count {
        return Err(format!("`{name}` has {} numbers, {count} are needed", v.len()));
    }
    match v.iter().find(|&&v| v < least) {
        Some(v) => Err(format!("`{name}` must not hold {v}")),
        None => Ok(()),
    }
}

/// Extent of the dilated window in dimension `i`.
fn extent(a: &Attributes, i: usize) -> i128 {
    let dilation = a.ints("dilations").get(i).copied().unwrap_or(1);
    (i128::from(a.ints("kernel_shape")[i]) - 1) * i128::from(dilation) + 1
}

/// Replaces `auto_pad` by explicit padding.
fn pads(a: &mut Attributes, spatial: &[usize]) -> Result<(), String> {
    let Some(auto) = take_auto_pad(a)? else { return Ok(()) };
    let total = |i: usize| {
        let (size, stride) = (spatial[i] as i128, i128::from(a.ints("strides")[i]));
        if auto == "VALID" {
            0
        } else {
            (((size + stride - 1) / stride - 1) * stride + extent(a, i) - size).max(0)
        }
    };
    let totals: Vec<i128> = (0..spatial.len()).map(total).collect();
    split_pads(a, &totals, auto == "SAME_UPPER")
}

/// The same for a transposed convolution, which may also name its `output_shape`.
fn transpose_pads(a: &mut Attributes, spatial: &[usize]) -> Result<(), String> {
    let n = spatial.len();
    if a.ints("output_padding").is_empty() {
        a.set("output_padding", Attribute::Ints(smallvec![0; n]));
    }
    counted(a, "output_padding", n, 0)?;
    let wanted = a.ints("output_shape").to_vec();
    a.0.remove("output_shape");
    let auto = take_auto_pad(a)?;
    let total = |i: usize, out: i128| transposed(a, spatial, i) - out;
    let totals: Vec<i128> = match &auto {
        _ if wanted.len() == n => {
            let totals: Vec<i128> = (0..n).map(|i| total(i, i128::from(wanted[i]))).collect();
            // An output that is larger than the full one gets the difference as output padding.
            let more = a
                .ints("output_padding")
                .iter()
                .zip(&totals)
                .map(|(&p, &t)| i64::try_from(i128::from(p) - t.min(0)));
            let more = more.collect::<Result<Ints, _>>().map_err(|_| "`output_shape` is absurd")?;
            a.set("output_padding", Attribute::Ints(more));
            totals.into_iter().map(|t| t.max(0)).collect()
        }
        _ if !wanted.is_empty() => {
            return Err(format!("`output_shape` has {} numbers, {n} are needed", wanted.len()));
        }
        Some(auto) if auto != "VALID" => (0..n)
            .map(|i| total(i, spatial[i] as i128 * i128::from(a.ints("strides")[i])).max(0))
            .collect(),
        Some(_) => vec![0; n],
        None => return Ok(()),
    };
    split_pads(a, &totals, auto.as_deref() == Some("SAME_UPPER"))
}

/// Output extent of a transposed convolution before padding is cut off.
fn transposed(a: &Attributes, spatial: &[usize], i: usize) -> i128 {
    (spatial[i] as i128 - 1) * i128::from(a.ints("strides")[i])
        + i128::from(a.ints("output_padding")[i])
        + extent(a, i)
}

fn take_auto_pad(a: &mut Attributes) -> Result<Option<String>, String> {
    match a.0.remove("auto_pad") {
        Some(Attribute::Text(t)) if matches!(t.as_str(), "SAME_UPPER" | "SAME_LOWER" | "VALID") => {
            Ok(Some(t))
        }
        Some(Attribute::Text(t)) if t.is_empty() || t == "NOTSET" => Ok(None),
        None => Ok(None),
        Some(other) => {
            Err(format!("`auto_pad` {other:?} is not one of NOTSET, SAME_UPPER, SAME_LOWER, VALID"))
        }
    }
}

/// Writes `pads`: the odd element goes to the end where `upper`.
fn split_pads(a: &mut Attributes, totals: &[i128], upper: bool) -> Result<(), String> {
    let half = |t: &i128, begin: bool| if begin == upper { t / 2 } else { t - t / 2 };
    let all = totals.iter().map(|t| half(t, true)).chain(totals.iter().map(|t| half(t, false)));
    let pads: Option<Ints> = all.map(|p| i64::try_from(p).ok().filter(|&p| p >= 0)).collect();
    a.set("pads", Attribute::Ints(pads.ok_or("its padding does not fit its output")?));
    Ok(())
}

pub(super) fn infer(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let x = operand(inputs, 0)?;
    if x.rank() < 3 {
        return Err(format!("its input {} has no spatial dimension", text(&x.shape)));
    }
    let mut shape = vec![x.shape[0], channels(kind, a, inputs)?];
    for i in 0..x.rank() - 2 {
        shape.push(match kind {
            OpKind::GlobalAveragePool | OpKind::GlobalMaxPool => 1,
            OpKind::ConvTranspose => {
                let pads = a.ints("pads");
                dimension(
                    transposed(a, &x.shape[2..], i)
                        - i128::from(pads[i])
                        - i128::from(pads[i + x.rank() - 2]),
                )?
            }
            _ => slid(a, &x.shape[2..], i)?,
        });
    }
    Ok(vec![like(x, shape)])
}

fn channels(kind: &OpKind, a: &Attributes, inputs: &[Operand]) -> Result<usize, String> {
    let x = operand(inputs, 0)?;
    if !matches!(kind, OpKind::Conv | OpKind::ConvTranspose) {
        return Ok(x.shape[1]);
    }
    let weight = operand(inputs, 1)?;
    let group = usize::try_from(a.int("group").unwrap_or(1)).unwrap_or(0);
    let (outer, inner) = (weight.shape[0], weight.shape[1]);
    let fits = group > 0
        && match kind {
            OpKind::Conv => Some(x.shape[1]) == inner.checked_mul(group) && outer % group == 0,
            _ => x.shape[1] == outer && outer % group == 0,
        };
    if !fits {
        return Err(format!(
            "the weight {} in {group} groups does not fit the input {}",
            text(&weight.shape),
            text(&x.shape)
        ));
    }
    if *kind == OpKind::Conv { Ok(outer) } else { dimension(inner as i128 * group as i128) }
}

/// Positions of the window in dimension `i`.
fn slid(a: &Attributes, spatial: &[usize], i: usize) -> Result<usize, String> {
    let (pads, stride) = (a.ints("pads"), i128::from(a.ints("strides")[i]));
    let begin = i128::from(pads[i]);
    let room = spatial[i] as i128 + begin + i128::from(pads[i + spatial.len()]) - extent(a, i);
    if room < 0 {
        return Err(format!(
            "a window of {} does not fit into {} with padding {pads:?}",
            extent(a, i),
            text(spatial)
        ));
    }
    let ceil = a.int("ceil_mode").unwrap_or(0) != 0;
    let mut positions = if ceil { (room + stride - 1) / stride } else { room / stride } + 1;
    // A window that would begin in the padding at the end is left out.
    if ceil && (positions - 1) * stride >= spatial[i] as i128 + begin {
        positions -= 1;
    }
    dimension(positions)
}

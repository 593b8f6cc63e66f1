//! Convolutions. Classes are the algorithms engines choose between: depthwise, grouped, few input
//! channels (stem), pointwise, dense, and pointwise ones in groups, which some engines compute
//! group by group. An output in another memory format than the input is a class of its own.

use super::{LANES, activation_cost, alignment, flag, order, product, round_up};
use std::borrow::Cow;
use vitempo_graph::{MemoryFormat, OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "batch",
    "channels_in",
    "height_in",
    "width_in",
    "channels_out",
    "height_out",
    "width_out",
    "pixels_out",
    "kernel_height",
    "kernel_width",
    "kernel_area",
    "stride_height",
    "stride_width",
    "dilation",
    "groups",
    "channels_in_per_group",
    "channels_out_per_group",
    "padding",
    "reduction",
    "macs_dense",
    "macs_grouped",
    "window_elements",
    "output_rows",
    "channels_in_remainder",
    "channels_out_remainder",
    "width_out_remainder",
    "fused_activation",
    "activated_elements",
    "residual",
    "bias",
    "alignment_in",
    "alignment_out",
    "alignment_pixels",
    "operands_reordered",
];

pub(super) const BASELINE: &[&str] = &[
    "macs_dense",
    "macs_grouped",
    "bytes_in",
    "bytes_weights",
    "bytes_out",
    "window_elements",
    "output_rows",
    "groups",
    "activated_elements",
    "bytes_reordered",
    "operands_reordered",
];

struct Geometry {
    batch: f64,
    channels_in: f64,
    channels_out: f64,
    input: (f64, f64),
    output: (f64, f64),
    kernel: (f64, f64),
    strides: (f64, f64),
    dilation: f64,
    groups: f64,
    padding: f64,
}

fn at(shape: &[usize], i: usize) -> f64 {
    shape.get(i).map_or(1.0, |&d| d as f64)
}

/// All spatial extents but the last, and the last.
fn spatial(shape: &[usize]) -> (f64, f64) {
    match shape.get(2..) {
        Some([outer @ .., last]) => (product(outer), *last as f64),
        _ => (1.0, 1.0),
    }
}

fn pair(values: &[i64]) -> (f64, f64) {
    match values {
        [outer @ .., last] => (outer.iter().map(|&v| v as f64).product(), *last as f64),
        [] => (1.0, 1.0),
    }
}

fn geometry(op: &OpSpec) -> Geometry {
    let x = super::first_shape(op);
    let y = super::output_shape(op);
    let weight = op.inputs.get(1).map_or(&[][..], |w| w.tensor.shape.as_slice());
    let kernel = op.attributes.ints("kernel_shape");
    Geometry {
        batch: at(x, 0),
        channels_in: at(x, 1),
        channels_out: at(y, 1),
        input: spatial(x),
        output: spatial(y),
        kernel: if kernel.is_empty() { spatial(weight) } else { pair(kernel) },
        strides: pair(op.attributes.ints("strides")),
        dilation: op.attributes.ints("dilations").iter().copied().max().unwrap_or(1) as f64,
        groups: op.attributes.int("group").unwrap_or(1).max(1) as f64,
        padding: op.attributes.ints("pads").iter().map(|&p| p as f64).sum(),
    }
}

impl Geometry {
    fn depthwise(&self) -> bool {
        self.groups > 1.0 && self.groups >= self.channels_in
    }

    fn pointwise(&self) -> bool {
        self.kernel == (1.0, 1.0) && self.strides == (1.0, 1.0) && self.padding == 0.0
    }
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    let g = geometry(op);
    let transposed_format = op
        .outputs
        .first()
        .is_some_and(|t| t.format != op.format() && t.format == MemoryFormat::Blocked);
    let (kept, changed) = match () {
        () if g.depthwise() && g.pointwise() => {
            ("depthwise-pointwise", "depthwise-pointwise-to-blocked")
        }
        () if g.depthwise() => ("depthwise", "depthwise-to-blocked"),
        () if g.groups > 1.0 && g.pointwise() => {
            ("grouped-pointwise", "grouped-pointwise-to-blocked")
        }
        () if g.groups > 1.0 => ("grouped", "grouped-to-blocked"),
        () if g.channels_in <= 4.0 => ("stem", "stem-to-blocked"),
        () if g.pointwise() => ("pointwise", "pointwise-to-blocked"),
        () => ("dense", "dense-to-blocked"),
    };
    Cow::Borrowed(if transposed_format { changed } else { kept })
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let g = geometry(op);
    let (in_per_group, out_per_group) = (g.channels_in / g.groups, g.channels_out / g.groups);
    let area = g.kernel.0 * g.kernel.1;
    let transposed = op.kind == OpKind::ConvTranspose;
    let pixels = if transposed {
        g.batch * g.input.0 * g.input.1
    } else {
        g.batch * g.output.0 * g.output.1
    };
    let padded_out = if g.groups > 1.0 {
        round_up(g.channels_out, LANES)
    } else {
        round_up(out_per_group, LANES) * g.groups
    };
    let reduction = in_per_group * area;
    let macs_padded = pixels * reduction * padded_out;
    let activation = activation_cost(op);
    let elements_out = g.batch * g.channels_out * g.output.0 * g.output.1;
    out.extend_from_slice(&[
        g.batch,
        g.channels_in,
        g.input.0,
        g.input.1,
        g.channels_out,
        g.output.0,
        g.output.1,
        pixels,
        g.kernel.0,
        g.kernel.1,
        area,
        g.strides.0,
        g.strides.1,
        g.dilation,
        g.groups,
        in_per_group,
        out_per_group,
        g.padding,
        reduction,
        if g.groups > 1.0 { 0.0 } else { macs_padded },
        if g.groups > 1.0 { macs_padded } else { 0.0 },
        if g.pointwise() { 0.0 } else { pixels * g.channels_in * area },
        g.batch * g.output.0 * (g.channels_out / LANES).ceil() * g.kernel.0,
        g.channels_in % LANES,
        g.channels_out % LANES,
        g.output.1 % LANES,
        activation,
        activation * elements_out,
        flag(op.attributes.int("residual").unwrap_or(0) != 0),
        flag(op.inputs.len() > 2),
        alignment(in_per_group),
        alignment(out_per_group),
        alignment(g.output.0 * g.output.1),
        order::reordered_operands(op),
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, MemoryFormat, OpKind, OpSpec, Operand, TensorSpec};

    fn conv(cin: usize, cout: usize, k: i64, stride: i64, group: i64) -> OpSpec {
        let pads = k / 2;
        let side = 32 / stride as usize;
        OpSpec {
            kind: OpKind::Conv,
            attributes: Attributes::new()
                .with_ints("kernel_shape", vec![k, k])
                .with_ints("strides", vec![stride, stride])
                .with_ints("pads", vec![pads; 4])
                .with_int("group", group),
            inputs: vec![
                Operand { tensor: TensorSpec::f32(vec![1, cin, 32, 32]), constant: false },
                Operand {
                    tensor: TensorSpec::f32(vec![
                        cout,
                        cin / group as usize,
                        k as usize,
                        k as usize,
                    ]),
                    constant: true,
                },
            ],
            outputs: vec![TensorSpec::f32(vec![1, cout, side, side])],
        }
    }

    #[test]
    fn algorithms_are_told_apart() {
        for (op, class) in [
            (conv(64, 64, 3, 1, 64), "depthwise"),
            (conv(64, 64, 1, 1, 64), "depthwise-pointwise"),
            (conv(64, 64, 3, 1, 4), "grouped"),
            (conv(3, 64, 7, 2, 1), "stem"),
            (conv(64, 64, 1, 1, 1), "pointwise"),
            (conv(64, 64, 1, 2, 1), "dense"),
            (conv(64, 64, 3, 1, 1), "dense"),
        ] {
            assert_eq!(PredictorKey::of(&op).class, class);
        }
        let mut stem = conv(3, 64, 7, 2, 1);
        stem.outputs[0].format = MemoryFormat::Blocked;
        assert_eq!(PredictorKey::of(&stem).class, "stem-to-blocked");
    }

    #[test]
    fn padded_macs_by_hand() {
        let f = FeatureSchema::extract(&conv(64, 60, 3, 2, 1));
        assert_eq!(f.get("macs_dense"), Some(16.0 * 16.0 * 64.0 * 9.0 * 64.0));
        assert_eq!(f.get("channels_out_remainder"), Some(12.0));
        assert_eq!(f.get("reduction"), Some(576.0));
        let aligned = ["alignment_in", "alignment_out", "alignment_pixels"].map(|c| f.get(c));
        assert_eq!(aligned, [Some(6.0), Some(2.0), Some(6.0)]);
    }
}

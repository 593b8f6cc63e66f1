//! Operators on images: convolutions, pooling, resizing, blocks.

use super::binary::Table;
use super::model::Operator;
use super::operators::fused;
use super::reader::{Reader, Refusal};
use crate::tflite::schema::Code;
use crate::{Attribute, Attributes, OpKind};

/// Of height, then width.
type Pair = [usize; 2];

impl Reader<'_> {
    pub(super) fn window(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        code: Code,
    ) -> Result<(), Refusal> {
        match code {
            Code::Conv => self.convolution(o, name, false),
            Code::DepthwiseConv => self.convolution(o, name, true),
            Code::TransposeConv => self.transposed_convolution(o, name),
            Code::AveragePool => self.pool(o, name, OpKind::AveragePool),
            Code::MaxPool => self.pool(o, name, OpKind::MaxPool),
            Code::ResizeBilinear => self.resize(o, name, 2),
            Code::ResizeNearest => self.resize(o, name, 0),
            Code::DepthToSpace => self.blocks(o, name, OpKind::DepthToSpace),
            _ => self.blocks(o, name, OpKind::SpaceToDepth),
        }
    }

    /// Height and width of a tensor that is an image.
    fn spatial(&self, id: usize) -> Result<Pair, Refusal> {
        match *self.shape(id) {
            [_, h, w, _] if h > 0 && w > 0 => Ok([h, w]),
            _ => Err("it reads no image".to_owned()),
        }
    }

    fn convolution(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        depthwise: bool,
    ) -> Result<(), Refusal> {
        let (input, weight, output) = (self.input(o, 0)?, self.input(o, 1)?, self.output(o)?);
        let options = o.options.ok_or("it has no options")?;
        let &[out, height, width, within] = self.shape(weight) else {
            return Err("its weight is not a filter".to_owned());
        };
        let channels = self.shape(input).last().copied().unwrap_or(0);
        let (out, within, groups) = match depthwise {
            true => (within, 1, channels),
            false if within > 0 && channels.is_multiple_of(within) => {
                (out, within, channels / within)
            }
            false => return Err("its weight does not fit its input".to_owned()),
        };
        // Dilations follow the activation, which follows a depthwise convolution's multiplier.
        let first = if depthwise { 5 } else { 4 };
        let dilations = [positive(options, first + 1, 1)?, positive(options, first, 1)?];
        let window = Window { kernel: [height, width], strides: strides(options)?, dilations };
        let pads = window.pads(options, self.spatial(input)?)?;
        let attributes = window
            .attributes(&pads)
            .with_ints("dilations", dilations.map(|d| d as i64))
            .with_int("group", groups as i64);
        let x = self.value(input, true)?;
        let mut inputs = vec![x, self.weight(weight, vec![out, within, height, width])?];
        if let Some(bias) = o.inputs.get(2).copied().flatten() {
            inputs.push(self.weight(bias, vec![out])?);
        }
        let y = self.node(name, OpKind::Conv, attributes, &inputs)?;
        self.write(output, y, fused(o, if depthwise { 4 } else { 3 })?)
    }

    fn transposed_convolution(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (weight, input, output) = (self.input(o, 1)?, self.input(o, 2)?, self.output(o)?);
        let options = o.options.ok_or("it has no options")?;
        let &[out, height, width, within] = self.shape(weight) else {
            return Err("its weight is not a filter".to_owned());
        };
        let window =
            Window { kernel: [height, width], strides: strides(options)?, dilations: [1, 1] };
        let (from, to) = (self.spatial(input)?, self.spatial(output)?);
        // What all windows touch, less the padding around it, is the output.
        let mut pads = [0; 4];
        for d in 0..2 {
            let spread = (from[d] - 1).saturating_mul(window.strides[d]);
            let total = spread.saturating_add(window.kernel[d]).saturating_sub(to[d]);
            (pads[d], pads[d + 2]) = (total / 2, total - total / 2);
        }
        let attributes = window
            .attributes(&pads)
            .with_ints("dilations", [1, 1])
            .with_int("group", 1)
            .with_ints("output_padding", [0, 0]);
        let x = self.value(input, true)?;
        let mut inputs = vec![x, self.weight(weight, vec![within, out, height, width])?];
        if let Some(bias) = o.inputs.get(3).copied().flatten() {
            inputs.push(self.weight(bias, vec![out])?);
        }
        let y = self.node(name, OpKind::ConvTranspose, attributes, &inputs)?;
        self.write(output, y, fused(o, 3)?)
    }

    /// Elements beyond the border do not count.
    fn pool(&mut self, o: &Operator<'_>, name: &str, kind: OpKind) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let options = o.options.ok_or("it has no options")?;
        let kernel = [positive(options, 4, 0)?, positive(options, 3, 0)?];
        let window = Window { kernel, strides: strides(options)?, dilations: [1, 1] };
        let pads = window.pads(options, self.spatial(input)?)?;
        let mut attributes = window.attributes(&pads).with_int("ceil_mode", 0);
        if kind == OpKind::AveragePool {
            attributes = attributes.with_int("count_include_pad", 0);
        }
        let x = self.value(input, true)?;
        let y = self.node(name, kind, attributes, &[x])?;
        self.write(output, y, fused(o, 5)?)
    }

    /// `first`: the field of the options with the first of two flags.
    fn resize(&mut self, o: &Operator<'_>, name: &str, first: usize) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let flag = |field: usize| o.options.map_or(Ok(false), |table| table.flag(field));
        let (align_corners, half_pixel) = (flag(first)?, flag(first + 1)?);
        let coordinates = match (align_corners, half_pixel) {
            (true, _) => "align_corners",
            (_, true) => "half_pixel",
            _ => "asymmetric",
        };
        let nearest = first == 0;
        let &[n, h, w, c] = self.shape(output) else {
            return Err("it writes no image".to_owned());
        };
        let text = |value: &str| Attribute::Text(value.to_owned());
        let mut attributes = Attributes::new()
            .with("mode", text(if nearest { "nearest" } else { "linear" }))
            .with("coordinate_transformation_mode", text(coordinates))
            .with_ints("sizes", [n, c, h, w].map(|d| d as i64));
        if nearest {
            let rounding = if align_corners { "round_prefer_ceil" } else { "floor" };
            attributes = attributes.with("nearest_mode", text(rounding));
        }
        let x = self.value(input, true)?;
        let y = self.node(name, OpKind::Resize, attributes, &[x])?;
        self.write(output, y, 0)
    }

    fn blocks(&mut self, o: &Operator<'_>, name: &str, kind: OpKind) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let size = positive(o.options.ok_or("it has no options")?, 0, 0)?;
        let mut attributes = Attributes::new().with_int("blocksize", size as i64);
        if kind == OpKind::DepthToSpace {
            attributes = attributes.with("mode", Attribute::Text("DCR".to_owned()));
        }
        let x = self.value(input, true)?;
        let y = self.node(name, kind, attributes, &[x])?;
        self.write(output, y, 0)
    }
}

/// A window over height and width.
struct Window {
    kernel: Pair,
    strides: Pair,
    dilations: Pair,
}

impl Window {
    /// Height before, width before, height after, width after.
    fn pads(&self, options: Table<'_>, input: Pair) -> Result<[usize; 4], Refusal> {
        let mut pads = [0; 4];
        match options.byte(0, 0)? {
            0 => {
                for d in 0..2 {
                    let last = (input[d].div_ceil(self.strides[d]) - 1) * self.strides[d];
                    let reach = self.kernel[d].saturating_sub(1).saturating_mul(self.dilations[d]);
                    let total =
                        last.saturating_add(reach).saturating_add(1).saturating_sub(input[d]);
                    (pads[d], pads[d + 2]) = (total / 2, total - total / 2);
                }
                Ok(pads)
            }
            1 => Ok(pads),
            other => Err(format!("its padding {other} is not read")),
        }
    }

    fn attributes(&self, pads: &[usize; 4]) -> Attributes {
        let ints = |values: &[usize]| values.iter().map(|&v| v as i64).collect::<Vec<_>>();
        Attributes::new()
            .with_ints("kernel_shape", ints(&self.kernel))
            .with_ints("strides", ints(&self.strides))
            .with_ints("pads", ints(pads))
    }
}

/// The options list width before height.
fn strides(options: Table<'_>) -> Result<Pair, Refusal> {
    Ok([positive(options, 2, 0)?, positive(options, 1, 0)?])
}

/// A number above zero in a field of the options.
fn positive(options: Table<'_>, field: usize, default: i32) -> Result<usize, Refusal> {
    let value = options.int(field, default)?;
    let size = usize::try_from(value).ok().filter(|&size| size > 0);
    size.ok_or_else(|| format!("field {field} of its options is {value}"))
}

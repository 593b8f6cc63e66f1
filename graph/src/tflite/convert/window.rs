//! Convolutions and pooling: images are stored channels last, windows of one dimension become
//! windows of two.

use super::emit::{Recipe, signed};
use super::{Call, Converter, Refusal, VarId, numbers};
use crate::tflite::expression::{Expression, Operator};
use crate::tflite::generated::{Generated, Overlap};
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options, Padding};
use crate::{Attribute, Attributes, OpKind, Precision};

/// The value a maximum never takes.
pub(super) const LOWEST: f32 = f32::MIN;

/// Window of an operator over height and width.
#[derive(Clone, Copy, Debug)]
struct Window {
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    /// Height before, width before, height after, width after.
    pads: [usize; 4],
}

impl Window {
    /// Of a node's attributes; a window of one dimension gets a height of 1.
    fn of(attributes: &Attributes) -> Result<Self, Refusal> {
        let pair = |name: &str| -> Result<[usize; 2], Refusal> {
            match numbers(attributes.ints(name))?[..] {
                [] => Ok([1, 1]),
                [w] => Ok([1, w]),
                [h, w] => Ok([h, w]),
                ref many => Err(format!("a window over {} dimensions has no operator", many.len())),
            }
        };
        let pads = match numbers(attributes.ints("pads"))?[..] {
            [] => [0; 4],
            [before, after] => [0, before, 0, after],
            [a, b, c, d] => [a, b, c, d],
            _ => return Err("a window over 3 dimensions has no operator".to_owned()),
        };
        let (kernel, strides) = (pair("kernel_shape")?, pair("strides")?);
        let dilations = pair("dilations")?;
        if [kernel, strides, dilations].concat().contains(&0) {
            return Err("a window without elements or steps has no operator".to_owned());
        }
        Ok(Self { kernel, strides, dilations, pads })
    }

    fn extent(&self, d: usize) -> usize {
        (self.kernel[d] - 1).saturating_mul(self.dilations[d]).saturating_add(1)
    }

    /// Padding so that the output is the input divided by the stride, rounded up: before and after,
    /// the odd element after.
    fn same(&self, d: usize, input: usize) -> (usize, usize) {
        let last = (input.div_ceil(self.strides[d]) - 1).saturating_mul(self.strides[d]);
        let total = last.saturating_add(self.extent(d)).saturating_sub(input);
        (total / 2, total - total / 2)
    }

    fn is_same(&self, input: [usize; 2]) -> bool {
        (0..2).all(|d| (self.pads[d], self.pads[d + 2]) == self.same(d, input[d]))
    }

    /// Elements beyond the padded input that a window of `output` positions reads, because of
    /// rounding up.
    fn excess(&self, d: usize, input: usize, output: usize) -> usize {
        let read = (output - 1).saturating_mul(self.strides[d]).saturating_add(self.extent(d));
        let padded = input.saturating_add(self.pads[d]).saturating_add(self.pads[d + 2]);
        read.saturating_sub(padded)
    }

    /// Places that windows at so many positions touch.
    fn spread(&self, d: usize, positions: usize) -> usize {
        (positions - 1).saturating_mul(self.strides[d]).saturating_add(self.extent(d))
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
            .with_ints("kernel_shape", signed(&self.kernel))
            .with_ints("strides", signed(&self.strides))
            .with_ints("pads", signed(&self.pads))
    }
}

fn pair(values: [usize; 2]) -> [i32; 2] {
    values.map(|v| v as i32)
}

fn groups(attributes: &Attributes) -> Result<usize, Refusal> {
    let groups = usize::try_from(attributes.int("group").unwrap_or(1)).unwrap_or(0);
    if groups > 0 { Ok(groups) } else { Err("it has no groups".to_owned()) }
}

/// Weights and bias of a convolution on their way into the model.
pub(super) struct Filter {
    pub weight: Expression,
    bias: Option<Expression>,
}

impl Converter<'_> {
    /// N, C, L as N, C, 1, L; images as they are.
    fn image(&mut self, x: VarId) -> Result<VarId, Refusal> {
        match *self.shape(x) {
            [n, c, l] => self.reshape(x, &[n, c, 1, l]),
            [_, _, _, _] => Ok(x),
            ref other => Err(format!(
                "a window over {} dimensions has no operator",
                other.len().saturating_sub(2)
            )),
        }
    }

    fn as_output(&mut self, y: VarId, call: &Call<'_>) -> Result<VarId, Refusal> {
        let shape = self.output_shape(call)?;
        if *self.shape(y) == shape[..] { Ok(y) } else { self.reshape(y, &shape) }
    }

    fn spatial(&self, x: VarId) -> Result<[usize; 2], Refusal> {
        match *self.shape(x) {
            [_, _, h, w] if h > 0 && w > 0 => Ok([h, w]),
            [_, _, _, _] => Err("a window over no elements has no operator".to_owned()),
            _ => Err("its input is not an image".to_owned()),
        }
    }

    /// The input padded where the engine's own padding does not do, and how the engine shall pad.
    fn padding(&mut self, x: VarId, window: &Window) -> Result<(VarId, Padding), Refusal> {
        let input = self.spatial(x)?;
        if window.pads == [0; 4] {
            return Ok((x, Padding::Valid));
        }
        if window.is_same(input) {
            return Ok((x, Padding::Same));
        }
        let [top, left, bottom, right] = window.pads;
        let x = self.pad(x, &[0, 0, top, left], &[0, 0, bottom, right], 0.0)?;
        Ok((x, Padding::Valid))
    }

    /// The batch normalisation after a convolution, folded into its weights.
    pub(super) fn folded(
        &mut self,
        call: &Call<'_>,
        filter: Filter,
        out_axis: usize,
    ) -> (Filter, Option<usize>) {
        let Some((index, norm)) = call
            .node
            .outputs
            .first()
            .and_then(|&id| self.follower(id))
            .filter(|(_, n)| n.op.kind == OpKind::BatchNorm)
        else {
            return (filter, None);
        };
        let mut parts = Vec::new();
        for &id in &norm.inputs[1..] {
            match self.var_of(id).ok().and_then(|v| self.expression(v)) {
                Some(part) => parts.push(part),
                None => return (filter, None),
            }
        }
        let Ok([scale, shift, mean, variance]) = <[Expression; 4]>::try_from(parts) else {
            return (filter, None);
        };
        let epsilon = norm.op.attributes.float("epsilon").unwrap_or(1e-5) as f32;
        let factor = scale.binary(Operator::Mul, variance.rsqrt(epsilon));
        let mut along = vec![1; filter.weight.shape().len()];
        along[out_axis] = factor.elements();
        let weight = filter.weight.binary(Operator::Mul, factor.clone().reshape(along));
        let centred = match filter.bias {
            Some(bias) => bias.binary(Operator::Sub, mean),
            None => Expression::scalar(0.0).binary(Operator::Sub, mean),
        };
        let bias = centred.binary(Operator::Mul, factor).binary(Operator::Add, shift);
        (Filter { weight, bias: Some(bias) }, Some(index))
    }

    pub(super) fn filter(&self, call: &Call<'_>) -> Result<Filter, Refusal> {
        let computed = || "its weight is computed while the model runs".to_owned();
        let weight =
            self.expression(*call.inputs.get(1).ok_or_else(computed)?).ok_or_else(computed)?;
        let bias = match call.inputs.get(2) {
            Some(&bias) => {
                Some(self.expression(bias).ok_or("its bias is computed while the model runs")?)
            }
            None => None,
        };
        let mut shape = weight.shape().to_vec();
        if shape.len() == 3 {
            shape.insert(2, 1);
        }
        Ok(Filter { weight: weight.reshape(shape), bias })
    }

    pub(super) fn conv(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        if self.rank(call.inputs[0]) == 5 {
            return self.volume_conv(call);
        }
        let filter = self.filter(call)?;
        let (filter, norm) = self.folded(call, filter, 0);
        let x = self.image(call.inputs[0])?;
        let y = self.images_conv(x, filter, call.attributes)?;
        let y = self.as_output(y, call)?;
        if let Some(index) = norm {
            self.absorb(index, y);
        }
        Ok(y)
    }

    /// A convolution of images with these attributes, padded as they say.
    pub(super) fn images_conv(
        &mut self,
        x: VarId,
        filter: Filter,
        attributes: &Attributes,
    ) -> Result<VarId, Refusal> {
        let window = Window::of(attributes)?;
        let groups = groups(attributes)?;
        let (x, padding) = self.padding(x, &window)?;
        self.convolution(x, filter, &window, padding, groups)
    }

    fn convolution(
        &mut self,
        x: VarId,
        filter: Filter,
        window: &Window,
        padding: Padding,
        groups: usize,
    ) -> Result<VarId, Refusal> {
        let [n, channels, ..] = *self.shape(x) else {
            return Err("its input is not an image".to_owned());
        };
        let input = self.spatial(x)?;
        let [out, within, _, _] = *filter.weight.shape() else {
            return Err("its weight is not a filter".to_owned());
        };
        if padding == Padding::Valid && (0..2).any(|d| input[d] < window.extent(d)) {
            return Err("its window is larger than its input".to_owned());
        }
        let extent = |d: usize| match padding {
            Padding::Same => input[d].div_ceil(window.strides[d]),
            Padding::Valid => (input[d] - window.extent(d)) / window.strides[d] + 1,
        };
        let shape = vec![n, out, extent(0), extent(1)];
        let depthwise = groups > 1 && within == 1 && groups == channels;
        let (code, weight, multiplier) = if depthwise {
            (
                Code::DepthwiseConv,
                filter.weight.transpose(&[1, 0, 2, 3]),
                Some((out / channels) as i32),
            )
        } else {
            (Code::Conv, filter.weight, None)
        };
        let options = Options::Conv {
            padding,
            strides: pair(window.strides),
            dilations: pair(window.dilations),
            multiplier,
        };
        let applied =
            Window { pads: if padding == Padding::Same { window.pads } else { [0; 4] }, ..*window };
        let attributes = applied
            .attributes()
            .with_ints("dilations", signed(&window.dilations))
            .with_int("group", groups as i64);
        let last = layout::channels_last(4);
        let weight = self.constant(weight);
        let bias = self.constant(filter.bias.unwrap_or_else(|| Expression::filled(0.0, [out])));
        let inputs =
            vec![self.stored(x, &last)?, self.stored(weight, &last)?, self.stored(bias, &[0])?];
        let recipe = Recipe::new(code, OpKind::Conv).options(options).attributes(attributes);
        Ok(self.emit(recipe, inputs, shape, last, Precision::F32))
    }

    pub(super) fn conv_transpose(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let window = Window::of(call.attributes)?;
        if window.dilations != [1, 1] {
            return Err("a dilated transposed convolution has no operator".to_owned());
        }
        let groups = groups(call.attributes)?;
        let filter = self.filter(call)?;
        let (filter, norm) =
            if groups == 1 { self.folded(call, filter, 1) } else { (filter, None) };
        let x = self.image(call.inputs[0])?;
        let wanted = match self.output_shape(call)?[..] {
            [_, _, l] => [1, l],
            [_, _, h, w] => [h, w],
            _ => return Err("a window over 3 dimensions has no operator".to_owned()),
        };
        let y = if groups == 1 {
            self.transposed_convolution(x, filter, &window, wanted)?
        } else {
            self.grouped_transposed(x, &filter, &window, wanted, groups)?
        };
        let y = self.as_output(y, call)?;
        if let Some(index) = norm {
            self.absorb(index, y);
        }
        Ok(y)
    }

    /// One transposed convolution per group, side by side.
    fn grouped_transposed(
        &mut self,
        x: VarId,
        filter: &Filter,
        window: &Window,
        wanted: [usize; 2],
        groups: usize,
    ) -> Result<VarId, Refusal> {
        let (&[_, channels, ..], &[_, out, ..]) = (self.shape(x), filter.weight.shape()) else {
            return Err("its input is not an image".to_owned());
        };
        let within = channels / groups;
        self.spend(groups)?;
        let nodes = self.budget.nodes(groups as u64);
        nodes.map_err(|exceeded| exceeded.to_string())?;
        let mut parts = Vec::with_capacity(groups);
        for g in 0..groups {
            let part = self.slice_one(x, 1, g * within, within)?;
            let weight = filter.weight.clone().slice(0, g * within, within);
            let bias = filter.bias.clone().map(|bias| bias.slice(0, g * out, out));
            parts.push(self.transposed_convolution(
                part,
                Filter { weight, bias },
                window,
                wanted,
            )?);
        }
        self.concatenated(&parts, 1)
    }

    fn transposed_convolution(
        &mut self,
        x: VarId,
        filter: Filter,
        window: &Window,
        wanted: [usize; 2],
    ) -> Result<VarId, Refusal> {
        let [n, ..] = *self.shape(x) else { return Err("its input is not an image".to_owned()) };
        let input = self.spatial(x)?;
        let [_, out, _, _] = *filter.weight.shape() else {
            return Err("its weight is not a filter".to_owned());
        };
        let same = (0..2).all(|d| {
            let total = window.spread(d, input[d]).saturating_sub(wanted[d]);
            wanted[d].div_ceil(window.strides[d]) == input[d]
                && window.pads[d] == total / 2
                && window.spread(d, input[d]) == wanted[d].saturating_add(total)
        });
        // Without padding all elements of a window exist; the graph's cuts and additions are
        // applied afterwards.
        let full: [usize; 2] = std::array::from_fn(|d| window.spread(d, input[d]));
        let ([h, w], padding) = if same { (wanted, Padding::Same) } else { (full, Padding::Valid) };
        let last = layout::channels_last(4);
        let weight = self.constant(filter.weight.transpose(&[1, 0, 2, 3]));
        let size = self.vector(&signed(&[n, h, w, out]));
        let mut inputs = vec![size, self.stored(weight, &last)?, self.stored(x, &last)?];
        let bias = self.constant(filter.bias.unwrap_or_else(|| Expression::filled(0.0, [out])));
        inputs.push(self.stored(bias, &[0])?);
        let options = Options::Conv {
            padding,
            strides: pair(window.strides),
            dilations: [1, 1],
            multiplier: None,
        };
        let applied =
            Window { pads: if padding == Padding::Same { window.pads } else { [0; 4] }, ..*window };
        let attributes = applied
            .attributes()
            .with_ints("dilations", [1, 1])
            .with_int("group", 1)
            .with_ints("output_padding", [0, 0]);
        let recipe = Recipe::new(Code::TransposeConv, OpKind::ConvTranspose)
            .options(options)
            .attributes(attributes);
        let y = self.emit(recipe, inputs, vec![n, out, h, w], last, Precision::F32);
        if same {
            return Ok(y);
        }
        let short: Vec<usize> = (0..2)
            .map(|d| window.pads[d].saturating_add(wanted[d]).saturating_sub(full[d]))
            .collect();
        if short.iter().any(|&s| s > 0) {
            return Err("an output padding that no window reaches has no operator".to_owned());
        }
        let y = self.slice_one(y, 2, window.pads[0], wanted[0])?;
        self.slice_one(y, 3, window.pads[1], wanted[1])
    }

    pub(super) fn max_pool(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let window = Window::of(call.attributes)?;
        if window.dilations != [1, 1] {
            return Err("a dilated maximum pool has no operator".to_owned());
        }
        let mut x = self.image(call.inputs[0])?;
        let input = self.spatial(x)?;
        let output = self.pooled(call)?;
        let excess = [window.excess(0, input[0], output[0]), window.excess(1, input[1], output[1])];
        let [top, left, bottom, right] = window.pads;
        let full = Window {
            pads: [top, left, bottom.saturating_add(excess[0]), right.saturating_add(excess[1])],
            ..window
        };
        let (padding, pads) = if full.pads == [0; 4] {
            (Padding::Valid, [0; 4])
        } else if full.is_same(input) {
            (Padding::Same, full.pads)
        } else {
            let value = if self.is_positive(x) { 0.0 } else { LOWEST };
            x = self.pad(x, &[0, 0, top, left], &[0, 0, full.pads[2], full.pads[3]], value)?;
            (Padding::Valid, [0; 4])
        };
        let y = self.pool(
            Code::MaxPool,
            OpKind::MaxPool,
            x,
            &Window { pads, ..window },
            padding,
            output,
        )?;
        self.as_output(y, call)
    }

    fn pooled(&self, call: &Call<'_>) -> Result<[usize; 2], Refusal> {
        match self.output_shape(call)?[..] {
            [_, _, l] if l > 0 => Ok([1, l]),
            [_, _, h, w] if h > 0 && w > 0 => Ok([h, w]),
            [_, _, _] | [_, _, _, _] => Err("a window over no elements has no operator".to_owned()),
            _ => Err("a window over 3 dimensions has no operator".to_owned()),
        }
    }

    fn pool(
        &mut self,
        code: Code,
        kind: OpKind,
        x: VarId,
        window: &Window,
        padding: Padding,
        output: [usize; 2],
    ) -> Result<VarId, Refusal> {
        let [n, c, ..] = *self.shape(x) else { return Err("its input is not an image".to_owned()) };
        let last = layout::channels_last(4);
        let input = self.stored(x, &last)?;
        let mut attributes = window.attributes().with_int("ceil_mode", 0);
        if kind == OpKind::AveragePool {
            attributes.set("count_include_pad", Attribute::Int(0));
        }
        let options =
            Options::Pool { padding, strides: pair(window.strides), filter: pair(window.kernel) };
        let recipe = Recipe::new(code, kind).options(options).attributes(attributes);
        Ok(self.emit(recipe, vec![input], vec![n, c, output[0], output[1]], last, Precision::F32))
    }

    /// The engine counts no padding; where the graph does, or pads in another way, zeros are put
    /// around and the mean is corrected by how many elements count under each window.
    pub(super) fn average_pool(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let window = Window::of(call.attributes)?;
        if window.dilations != [1, 1] {
            return Err("a dilated average pool has no operator".to_owned());
        }
        let mut x = self.image(call.inputs[0])?;
        let (input, output) = (self.spatial(x)?, self.pooled(call)?);
        let counted = call.attributes.int("count_include_pad") == Some(1);
        let excess = [window.excess(0, input[0], output[0]), window.excess(1, input[1], output[1])];
        let [top, left, bottom, right] = window.pads;
        let full = Window {
            pads: [top, left, bottom.saturating_add(excess[0]), right.saturating_add(excess[1])],
            ..window
        };
        if full.pads == [0; 4] || (full.is_same(input) && !counted) {
            let padding = if full.pads == [0; 4] { Padding::Valid } else { Padding::Same };
            let y = self.pool(Code::AveragePool, OpKind::AveragePool, x, &full, padding, output)?;
            return self.as_output(y, call);
        }
        x = self.pad(x, &[0, 0, top, left], &[0, 0, full.pads[2], full.pads[3]], 0.0)?;
        let y = self.pool(
            Code::AveragePool,
            OpKind::AveragePool,
            x,
            &Window { pads: [0; 4], ..window },
            Padding::Valid,
            output,
        )?;
        let overlap = |d: usize| {
            let begin = if counted { 0 } else { window.pads[d] };
            let after = if counted { window.pads[d + 2] } else { 0 };
            let end = window.pads[d].saturating_add(input[d]).saturating_add(after);
            Overlap {
                stride: window.strides[d],
                window: window.kernel[d],
                counted: (begin, end),
                count: output[d],
            }
        };
        let factors = Generated::Means {
            elements: window.kernel[0].saturating_mul(window.kernel[1]),
            rows: overlap(0),
            columns: overlap(1),
        };
        let y = if factors.is_one() {
            y
        } else {
            let shape = [1, 1, output[0], output[1]];
            let factors = self.constant(Expression::generated(factors, shape));
            self.mul(y, factors)?
        };
        self.as_output(y, call)
    }

    pub(super) fn global_pool(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let axes: Vec<usize> = (2..self.rank(x)).collect();
        let (code, kind) = match call.node.op.kind {
            OpKind::GlobalMaxPool => (Code::ReduceMax, OpKind::ReduceMax),
            _ => (Code::Mean, OpKind::ReduceMean),
        };
        self.reduce(code, kind, x, &axes, true)
    }
}

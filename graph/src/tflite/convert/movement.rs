//! Operators that move whole tensors: concatenation, splits, slices, padding, repetition.

use super::emit::{Recipe, signed, spoken};
use super::{Call, Converter, Refusal, VarId, numbers};
use crate::tflite::expression::Expression;
use crate::tflite::layout;
use crate::tflite::program::TensorId;
use crate::tflite::schema::{Code, Options};
use crate::{Attribute, Attributes, OpKind};

/// Most tensors that edges are joined from.
const MOST_EDGES: usize = 1 << 12;

/// A dimension that a tensor does not have.
pub(super) fn beyond(axis: usize, rank: usize) -> Refusal {
    format!("it names dimension {axis} of a tensor of {rank}")
}

impl Converter<'_> {
    pub(super) fn axis(&self, call: &Call<'_>) -> Result<usize, Refusal> {
        let axis = call
            .attributes
            .int("axis")
            .and_then(|a| usize::try_from(a).ok())
            .ok_or("its axis is not known")?;
        let rank = call.inputs.first().map_or(0, |&x| self.rank(x));
        if axis < rank { Ok(axis) } else { Err(beyond(axis, rank)) }
    }

    pub(super) fn concat(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axis = self.axis(call)?;
        self.concatenated(&call.inputs, axis)
    }

    pub(super) fn concatenated(&mut self, inputs: &[VarId], axis: usize) -> Result<VarId, Refusal> {
        let &first = inputs.first().ok_or("it has no input")?;
        let mut shape = self.shape(first).to_vec();
        if inputs.iter().any(|&i| self.rank(i) != shape.len()) || axis >= shape.len() {
            return Err("it joins tensors of different ranks".to_owned());
        }
        shape[axis] =
            inputs.iter().fold(0, |sum: usize, &i| sum.saturating_add(self.shape(i)[axis]));
        let (layout, tensors) = self.aligned(inputs, shape.len())?;
        let options = Options::Concat { axis: layout::position(&layout, axis) as i32 };
        let attributes = Attributes::new().with_int("axis", spoken(&layout, axis));
        let precision = self.vars[first].precision;
        let recipe =
            Recipe::new(Code::Concat, OpKind::Concat).options(options).attributes(attributes);
        Ok(self.emit(recipe, tensors, shape, layout, precision))
    }

    pub(super) fn split(&mut self, call: &Call<'_>) -> Result<Vec<VarId>, Refusal> {
        let axis = self.axis(call)?;
        let parts = numbers(call.attributes.ints("split"))?;
        let x = call.inputs[0];
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let along = self.ints(&[layout::position(&own, axis) as i64], Vec::new());
        let even = parts.windows(2).all(|w| w[0] == w[1]);
        let (code, inputs) = if even {
            (Code::Split, vec![along, input])
        } else {
            let sizes = self.vector(&signed(&parts));
            (Code::SplitV, vec![input, sizes, along])
        };
        let attributes = Attributes::new()
            .with_int("axis", spoken(&own, axis))
            .with_ints("split", signed(&parts));
        let recipe = Recipe::new(code, OpKind::Split)
            .options(Options::Split { parts: parts.len() as i32 })
            .attributes(attributes);
        let precision = self.vars[x].precision;
        let shapes: Vec<Vec<usize>> = parts
            .iter()
            .map(|&part| {
                self.shape(x)
                    .iter()
                    .enumerate()
                    .map(|(d, &s)| if d == axis { part } else { s })
                    .collect()
            })
            .collect();
        let outputs: Vec<TensorId> = shapes
            .iter()
            .map(|shape| self.fresh(layout::stored(&own, shape), precision, super::is_image(&own)))
            .collect();
        self.push(recipe, inputs, outputs.clone());
        Ok(shapes
            .into_iter()
            .zip(outputs)
            .map(|(shape, at)| self.var(shape, precision, vec![(own.clone(), at)]))
            .collect())
    }

    /// A stretch along one dimension.
    pub(super) fn slice_one(
        &mut self,
        x: VarId,
        axis: usize,
        start: usize,
        extent: usize,
    ) -> Result<VarId, Refusal> {
        let shape = self.shape(x).to_vec();
        let whole = *shape.get(axis).ok_or_else(|| beyond(axis, shape.len()))?;
        if start == 0 && whole == extent {
            return Ok(x);
        }
        let mut starts = vec![0; shape.len()];
        starts[axis] = start;
        let mut wanted = shape;
        wanted[axis] = extent;
        self.slice(x, &starts, &wanted)
    }

    fn slice(&mut self, x: VarId, starts: &[usize], shape: &[usize]) -> Result<VarId, Refusal> {
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let begin = self.vector(&signed(&layout::stored(&own, starts)));
        let size = self.vector(&signed(&layout::stored(&own, shape)));
        let old = self.shape(x).to_vec();
        let mut cuts: Vec<(i64, i64, i64)> = (0..shape.len())
            .filter(|&d| old[d] != shape[d])
            .map(|d| (spoken(&own, d), starts[d] as i64, starts[d].saturating_add(shape[d]) as i64))
            .collect();
        cuts.sort_unstable();
        let steps = vec![1; cuts.len()];
        let attributes = cut_attributes(
            &cuts.iter().map(|c| c.0).collect::<Vec<_>>(),
            cuts.iter().map(|c| c.1).collect(),
            cuts.iter().map(|c| c.2).collect(),
            steps,
        );
        let precision = self.vars[x].precision;
        let recipe = Recipe::new(Code::Slice, OpKind::Slice).attributes(attributes);
        Ok(self.emit(recipe, vec![input, begin, size], shape.to_vec(), own, precision))
    }

    /// ONNX Slice.
    pub(super) fn cut(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let a = call.attributes;
        let x = call.inputs[0];
        let shape = self.output_shape(call)?;
        let (axes, starts, ends, steps) =
            (numbers(a.ints("axes"))?, a.ints("starts"), a.ints("ends"), a.ints("steps"));
        if *self.shape(x) == shape[..] && steps.iter().all(|&s| s == 1) {
            return Ok(self.alias(x));
        }
        let rank = self.rank(x);
        let listed = [starts.len(), ends.len(), steps.len()].iter().all(|&n| n == axes.len());
        if !listed || shape.len() != rank || axes.iter().any(|&axis| axis >= rank) {
            return Err("its axes do not fit its input".to_owned());
        }
        if steps.iter().all(|&s| s == 1) {
            let mut from = vec![0; shape.len()];
            for (&axis, &start) in axes.iter().zip(starts) {
                from[axis] =
                    usize::try_from(start).map_err(|_| "it begins before the first element")?;
            }
            return self.slice(x, &from, &shape);
        }
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let (mut begin, mut end, mut step, mut mask) =
            (vec![0i64; rank], signed(self.shape(x)), vec![1i64; rank], 0);
        for (i, &axis) in axes.iter().enumerate() {
            begin[axis] = starts[i];
            step[axis] = steps[i];
            end[axis] = ends[i];
            if steps[i] < 0 && ends[i] < 0 {
                mask |= 1 << layout::position(&own, axis);
                end[axis] = 0;
            }
        }
        let mut lay = |values: &[i64]| {
            let values: Vec<i64> = own.iter().map(|&d| values[d]).collect();
            self.vector(&values)
        };
        let steering = [lay(&begin), lay(&end), lay(&step)];
        let spoken_axes: Vec<i64> = axes.iter().map(|&axis| spoken(&own, axis)).collect();
        let attributes =
            cut_attributes(&spoken_axes, starts.to_vec(), ends.to_vec(), steps.to_vec());
        let options = Options::StridedSlice { begin_mask: 0, end_mask: mask };
        let recipe =
            Recipe::new(Code::StridedSlice, OpKind::Slice).options(options).attributes(attributes);
        let precision = self.vars[x].precision;
        let inputs = [&[input][..], &steering].concat();
        Ok(self.emit(recipe, inputs, shape, own, precision))
    }

    pub(super) fn padded(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let mut x = call.inputs[0];
        let rank = self.rank(x);
        let pads = call.attributes.ints("pads");
        let (begins, ends) = pads.split_at(rank.min(pads.len()));
        // First the cut, then the padding.
        let mut shape = self.shape(x).to_vec();
        if ends.len() != rank {
            return Err(format!("{} pads do not fit {rank} dimensions", pads.len()));
        }
        let cut = |v: i64| v.min(0).unsigned_abs() as usize;
        for d in 0..rank {
            shape[d] = shape[d]
                .checked_sub(cut(begins[d]).saturating_add(cut(ends[d])))
                .ok_or("it cuts off more than there is")?;
        }
        if shape != self.shape(x) {
            let starts: Vec<usize> = begins.iter().map(|&b| cut(b)).collect();
            x = self.slice(x, &starts, &shape)?;
        }
        let grow = |v: &[i64]| v.iter().map(|&p| p.max(0) as usize).collect::<Vec<_>>();
        let (before, after) = (grow(begins), grow(ends));
        match call.attributes.text("mode").unwrap_or("constant") {
            "constant" => {
                let value = call.attributes.float("value").unwrap_or(0.0) as f32;
                self.pad(x, &before, &after, value)
            }
            "reflect" => self.mirror(x, &before, &after),
            "edge" => self.repeat_edges(x, &before, &after),
            mode => Err(format!("padding by `{mode}` has no operator")),
        }
    }

    /// A constant put around.
    pub(super) fn pad(
        &mut self,
        x: VarId,
        before: &[usize],
        after: &[usize],
        value: f32,
    ) -> Result<VarId, Refusal> {
        if before.iter().chain(after).all(|&p| p == 0) {
            return Ok(x);
        }
        let own = if before.len() == 4
            && before[..2] == [0, 0]
            && after[..2] == [0, 0]
            && !self.vars[x].stored.is_empty()
        {
            // An image on its way into a window.
            let last = layout::channels_last(4);
            if self.vars[x].stored.iter().any(|(l, _)| *l == last) { last } else { self.layout(x) }
        } else {
            self.layout(x)
        };
        let input = self.stored(x, &own)?;
        let (steering, shape) = self.pads(x, &own, before, after);
        let mut inputs = vec![input, steering];
        let mut code = Code::Pad;
        let mut attributes = self.pad_attributes(&own, before, after, "constant");
        if value != 0.0 {
            code = Code::PadV2;
            let filler = self.constant(Expression::numbers(vec![value], [1]));
            inputs.push(self.stored(filler, &[0])?);
            self.steer(&inputs[2..]);
            attributes.set("value", Attribute::Float(f64::from(value)));
        }
        let precision = self.vars[x].precision;
        Ok(self.emit(
            Recipe::new(code, OpKind::Pad).attributes(attributes),
            inputs,
            shape,
            own,
            precision,
        ))
    }

    fn steer(&mut self, tensors: &[TensorId]) {
        for &at in tensors {
            self.program.tensors[at].steering = true;
        }
    }

    fn pad_attributes(
        &self,
        own: &[usize],
        before: &[usize],
        after: &[usize],
        mode: &str,
    ) -> Attributes {
        let lay = |values: &[usize]| {
            if super::is_image(own) { signed(values) } else { signed(&layout::stored(own, values)) }
        };
        Attributes::new()
            .with_ints("pads", [lay(before), lay(after)].concat())
            .with("mode", Attribute::Text(mode.to_owned()))
    }

    fn pads(
        &mut self,
        x: VarId,
        own: &[usize],
        before: &[usize],
        after: &[usize],
    ) -> (TensorId, Vec<usize>) {
        let rank = own.len();
        let pairs: Vec<i64> =
            own.iter().flat_map(|&d| [before[d] as i64, after[d] as i64]).collect();
        let shape = self
            .shape(x)
            .iter()
            .enumerate()
            .map(|(d, s)| s.saturating_add(before[d]).saturating_add(after[d]))
            .collect();
        (self.ints(&pairs, vec![rank, 2]), shape)
    }

    fn mirror(&mut self, x: VarId, before: &[usize], after: &[usize]) -> Result<VarId, Refusal> {
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let (steering, shape) = self.pads(x, &own, before, after);
        let attributes = self.pad_attributes(&own, before, after, "reflect");
        let recipe = Recipe::new(Code::MirrorPad, OpKind::Pad)
            .options(Options::MirrorPad { mode: 0 })
            .attributes(attributes);
        let precision = self.vars[x].precision;
        Ok(self.emit(recipe, vec![input, steering], shape, own, precision))
    }

    /// Repeats the outermost elements.
    fn repeat_edges(
        &mut self,
        x: VarId,
        before: &[usize],
        after: &[usize],
    ) -> Result<VarId, Refusal> {
        let mut x = x;
        for d in 0..before.len() {
            let extent = self.shape(x)[d];
            let edges = before[d].saturating_add(after[d]);
            if edges > MOST_EDGES {
                return Err(format!(
                    "padding by `edge` of {edges} elements would join as many tensors; at most \
                    {MOST_EDGES} have an operator"
                ));
            }
            if extent == 0 && edges > 0 {
                return Err("a tensor without elements has no edge".to_owned());
            }
            let mut parts = Vec::new();
            if before[d] > 0 {
                let edge = self.slice_one(x, d, 0, 1)?;
                parts.extend(std::iter::repeat_n(edge, before[d]));
            }
            parts.push(x);
            if after[d] > 0 {
                let edge = self.slice_one(x, d, extent - 1, 1)?;
                parts.extend(std::iter::repeat_n(edge, after[d]));
            }
            if parts.len() > 1 {
                x = self.concatenated(&parts, d)?;
            }
        }
        Ok(x)
    }

    pub(super) fn expand(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let shape = self.output_shape(call)?;
        let mut x = call.inputs[0];
        let more = shape.len() - self.rank(x).min(shape.len());
        let lifted: Vec<usize> =
            std::iter::repeat_n(1, more).chain(self.shape(x).iter().copied()).collect();
        if more > 0 {
            x = self.reshape(x, &lifted)?;
        }
        if lifted == shape {
            return Ok(x);
        }
        let own = self.layout(x);
        if own.len() != shape.len() {
            return Err("its shape does not fit its input".to_owned());
        }
        let input = self.stored(x, &own)?;
        let stored = layout::stored(&own, &shape);
        let wanted = self.vector(&signed(&stored));
        let attributes = Attributes::new().with_ints(
            "shape",
            if super::is_image(&own) { signed(&shape) } else { signed(&stored) },
        );
        let precision = self.vars[x].precision;
        Ok(self.emit(
            Recipe::new(Code::BroadcastTo, OpKind::Expand).attributes(attributes),
            vec![input, wanted],
            shape,
            own,
            precision,
        ))
    }

    pub(super) fn tile(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let repeats = numbers(call.attributes.ints("repeats"))?;
        let x = call.inputs[0];
        if repeats.len() != self.rank(x) {
            return Err("its repeats do not fit its input".to_owned());
        }
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let times = layout::stored(&own, &repeats);
        let steering = self.vector(&signed(&times));
        let shape = self.output_shape(call)?;
        let attributes = Attributes::new().with_ints(
            "repeats",
            if super::is_image(&own) { signed(&repeats) } else { signed(&times) },
        );
        let precision = self.vars[x].precision;
        Ok(self.emit(
            Recipe::new(Code::Tile, OpKind::Tile).attributes(attributes),
            vec![input, steering],
            shape,
            own,
            precision,
        ))
    }
}

fn cut_attributes(axes: &[i64], starts: Vec<i64>, ends: Vec<i64>, steps: Vec<i64>) -> Attributes {
    Attributes::new()
        .with_ints("axes", axes)
        .with_ints("starts", starts)
        .with_ints("ends", ends)
        .with_ints("steps", steps)
}

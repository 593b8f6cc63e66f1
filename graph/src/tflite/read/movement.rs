//! Operators that move elements: reshapes, transpositions, joins, cuts, padding, lookups.

use super::model::Operator;
use super::operators::fused;
use super::reader::{Reader, Refusal, as_image};
use crate::tflite::schema::Code;
use crate::{Attribute, Attributes, OpKind, ValueId};

impl Reader<'_> {
    pub(super) fn movement(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        code: Code,
    ) -> Result<(), Refusal> {
        match code {
            Code::Reshape => self.reshape(o, name),
            Code::Transpose => self.transpose(o, name),
            Code::Concat => self.concat(o, name),
            Code::Split => self.split(o, name, 1, 0),
            Code::SplitV => self.split(o, name, 0, 2),
            Code::Slice => self.slice(o, name),
            Code::StridedSlice => self.strided_slice(o, name),
            Code::Pad | Code::PadV2 => self.pad(o, name, "constant"),
            Code::MirrorPad => self.mirror_pad(o, name),
            Code::Tile => self.tile(o, name),
            Code::BroadcastTo => self.broadcast(o, name),
            Code::Gather => self.gather(o, name),
            Code::GatherNd => {
                let attributes = Attributes::new().with_int("batch_dims", 0);
                self.stored(o, name, OpKind::GatherNd, attributes)
            }
            Code::TopK => self.top_k(o, name),
            Code::CumSum => self.cum_sum(o, name),
            other => Err(format!("`{}` is not read", other.name())),
        }
    }

    /// Sets a tensor from its value in the order of the file.
    fn write_stored(&mut self, id: usize, value: ValueId) -> Result<(), Refusal> {
        if !self.is_image(id) {
            return self.write(id, value, 0);
        }
        let name = format!("{}/to_image", self.name(id));
        let perm = Attributes::new().with_ints("perm", [0, 3, 1, 2]);
        let value = self.node(&name, OpKind::Transpose, perm, &[value])?;
        self.write(id, value, 0)
    }

    /// An operator on tensors in the order of the file.
    fn stored(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
    ) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let mut inputs = Vec::new();
        for id in o.inputs.iter().flatten() {
            inputs.push(self.value(*id, false)?);
        }
        let y = self.node(name, kind, attributes, &inputs)?;
        self.write_stored(output, y)
    }

    fn reshape(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let shape: Vec<i64> = self.shape(output).iter().map(|&d| d as i64).collect();
        let x = self.value(input, false)?;
        let y =
            self.node(name, OpKind::Reshape, Attributes::new().with_ints("shape", shape), &[x])?;
        self.write_stored(output, y)
    }

    fn transpose(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let perm = self.ints(o, 1)?;
        let x = self.value(input, false)?;
        let y =
            self.node(name, OpKind::Transpose, Attributes::new().with_ints("perm", perm), &[x])?;
        self.write_stored(output, y)
    }

    fn concat(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let axis = o.options.map_or(Ok(0), |table| table.int(0, 0))?;
        let attributes = Attributes::new()
            .with_int("axis", self.axis(output, self.is_image(output), axis.into())? as i64);
        let inputs = self.alike(o)?;
        let y = self.node(name, OpKind::Concat, attributes, &inputs)?;
        self.write(output, y, fused(o, 1)?)
    }

    /// `data` and `along`: places of the tensor and of the dimension among the inputs.
    fn split(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        data: usize,
        along: usize,
    ) -> Result<(), Refusal> {
        let input = self.input(o, data)?;
        let [axis] = self.ints(o, along)?[..] else {
            return Err("it has not one dimension".to_owned());
        };
        let first = self.output(o)?;
        let image = self.is_image(first);
        let axis = self.axis(input, image, axis)?;
        let extent = |id: &usize| {
            let shape = self.shape(*id);
            let shape = if image { as_image(shape) } else { shape.to_vec() };
            shape.get(axis).map_or(0, |&d| d as i64)
        };
        let parts: Vec<i64> = o.outputs.iter().map(extent).collect();
        let attributes = Attributes::new().with_int("axis", axis as i64).with_ints("split", parts);
        let x = self.value(input, image)?;
        let name = self.unique(name, "split");
        let values = self.b.op_many(&name, OpKind::Split, attributes, &[x]);
        for (id, value) in o.outputs.iter().zip(values.map_err(|e| e.to_string())?) {
            match image == self.is_image(*id) {
                true => self.write(*id, value, 0)?,
                false => self.write_stored(*id, value)?,
            }
        }
        Ok(())
    }

    /// A cut of each dimension, in the order of the file: begins and ends.
    fn cut(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        [starts, ends, steps]: [Vec<i64>; 3],
    ) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let image = self.is_image(output) && self.shape(output).len() == self.shape(input).len();
        let order = |values: Vec<i64>| if image { as_image(&values) } else { values };
        let axes: Vec<i64> = (0..self.shape(input).len() as i64).collect();
        let attributes = Attributes::new()
            .with_ints("axes", axes)
            .with_ints("starts", order(starts))
            .with_ints("ends", order(ends))
            .with_ints("steps", order(steps));
        let x = self.value(input, image)?;
        let y = self.node(name, OpKind::Slice, attributes, &[x])?;
        if image { self.write(output, y, 0) } else { self.write_stored(output, y) }
    }

    fn slice(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let input = self.input(o, 0)?;
        let (starts, sizes) = (self.ints(o, 1)?, self.ints(o, 2)?);
        let shape = self.shape(input);
        if starts.len() != shape.len() || sizes.len() != shape.len() {
            return Err("its begins and sizes do not fit its input".to_owned());
        }
        let end = |((start, size), extent): ((&i64, &i64), &usize)| match size {
            -1 => *extent as i64,
            size => start.saturating_add(*size),
        };
        let ends = starts.iter().zip(&sizes).zip(shape).map(end).collect();
        let steps = vec![1; starts.len()];
        self.cut(o, name, [starts, ends, steps])
    }

    fn strided_slice(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let mask = |field: usize| o.options.map_or(Ok(0), |table| table.int(field, 0));
        if [2, 3].into_iter().any(|field| mask(field).is_ok_and(|m| m != 0)) {
            return Err("its ellipsis or new dimensions are not read".to_owned());
        }
        let (begin_mask, end_mask, gone) = (mask(0)?, mask(1)?, mask(4)?);
        let (mut starts, mut ends) = (self.ints(o, 1)?, self.ints(o, 2)?);
        let steps = self.ints(o, 3)?;
        let shape = self.shape(input).to_vec();
        if [&starts, &ends, &steps].iter().any(|list| list.len() != shape.len()) {
            return Err("its begins, ends and steps do not fit its input".to_owned());
        }
        for (d, &extent) in shape.iter().enumerate() {
            let (extent, backwards) = (extent as i64, steps[d] < 0);
            if begin_mask >> d & 1 == 1 {
                starts[d] = if backwards { extent - 1 } else { 0 };
            }
            if end_mask >> d & 1 == 1 {
                ends[d] = if backwards { -(extent + 1) } else { extent };
            }
            if gone >> d & 1 == 1 {
                let start =
                    if starts[d] < 0 { starts[d].saturating_add(extent) } else { starts[d] };
                (starts[d], ends[d]) = (start, start.saturating_add(1));
            }
        }
        if gone == 0 {
            return self.cut(o, name, [starts, ends, steps]);
        }
        let attributes = Attributes::new()
            .with_ints("axes", (0..shape.len() as i64).collect::<Vec<_>>())
            .with_ints("starts", starts)
            .with_ints("ends", ends)
            .with_ints("steps", steps);
        let x = self.value(input, false)?;
        let cut = self.node(&format!("{name}/cut"), OpKind::Slice, attributes, &[x])?;
        let wanted: Vec<i64> = self.shape(output).iter().map(|&d| d as i64).collect();
        let wanted = Attributes::new().with_ints("shape", wanted);
        let y = self.node(name, OpKind::Reshape, wanted, &[cut])?;
        self.write_stored(output, y)
    }

    fn pad(&mut self, o: &Operator<'_>, name: &str, mode: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let pairs = self.ints(o, 1)?;
        let rank = self.shape(input).len();
        let (pairs, _) = pairs.as_chunks::<2>();
        if pairs.len() != rank {
            return Err("its padding does not fit its input".to_owned());
        }
        let image = self.is_image(output);
        let side = |which: usize| {
            let side: Vec<i64> = pairs.iter().map(|pair| pair[which]).collect();
            if image { as_image(&side) } else { side }
        };
        let mut attributes = Attributes::new()
            .with_ints("pads", [side(0), side(1)].concat())
            .with("mode", Attribute::Text(mode.to_owned()));
        if let Some(value) = o.inputs.get(2).copied().flatten() {
            let value = self.number(value).ok_or("its value is not known before the run")?;
            attributes = attributes.with("value", Attribute::Float(value));
        }
        let x = self.value(input, image)?;
        let y = self.node(name, OpKind::Pad, attributes, &[x])?;
        self.write(output, y, 0)
    }

    fn mirror_pad(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        match o.options.map_or(Ok(0), |table| table.byte(0, 0))? {
            0 => self.pad(o, name, "reflect"),
            _ => Err("a border mirrored with its own element is not read".to_owned()),
        }
    }

    fn tile(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let repeats = self.ints(o, 1)?;
        let image = self.is_image(output);
        let repeats = if image { as_image(&repeats) } else { repeats };
        let x = self.value(input, image)?;
        let attributes = Attributes::new().with_ints("repeats", repeats);
        let y = self.node(name, OpKind::Tile, attributes, &[x])?;
        self.write(output, y, 0)
    }

    fn broadcast(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let image = self.is_image(output) && self.shape(input).len() == 4;
        let shape = self.shape(output);
        let shape = if image { as_image(shape) } else { shape.to_vec() };
        let shape: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        let x = self.value(input, image)?;
        let attributes = Attributes::new().with_ints("shape", shape);
        let y = self.node(name, OpKind::Expand, attributes, &[x])?;
        if image { self.write(output, y, 0) } else { self.write_stored(output, y) }
    }

    fn gather(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let input = self.input(o, 0)?;
        let option = |field: usize| o.options.map_or(Ok(0), |table| table.int(field, 0));
        if option(1)? != 0 {
            return Err("its leading dimensions in common are not read".to_owned());
        }
        let axis = option(0)?;
        let rank = self.shape(input).len() as i64;
        let axis = if axis < 0 { i64::from(axis) + rank } else { axis.into() };
        self.stored(o, name, OpKind::Gather, Attributes::new().with_int("axis", axis))
    }

    fn top_k(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let input = self.input(o, 0)?;
        let [k] = self.ints(o, 1)?[..] else {
            return Err("its number of elements is not known".to_owned());
        };
        let last = self.shape(input).len().saturating_sub(1);
        let attributes = Attributes::new().with_int("k", k).with_int("axis", last as i64);
        let x = self.value(input, false)?;
        let name = self.unique(name, "top_k");
        let values = self.b.op_many(&name, OpKind::TopK, attributes, &[x]);
        for (id, value) in o.outputs.iter().zip(values.map_err(|e| e.to_string())?) {
            self.write_stored(*id, value)?;
        }
        Ok(())
    }

    fn cum_sum(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let [axis] = self.ints(o, 1)?[..] else {
            return Err("it has not one dimension".to_owned());
        };
        let rank = self.shape(input).len() as i64;
        let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
        let flag = |field: usize| o.options.map_or(Ok(false), |table| table.flag(field));
        let attributes = Attributes::new()
            .with_int("axis", axis)
            .with_int("exclusive", i64::from(flag(0)?))
            .with_int("reverse", i64::from(flag(1)?));
        let x = self.value(input, false)?;
        let y = self.node(name, OpKind::CumSum, attributes, &[x])?;
        self.write_stored(output, y)
    }
}

//! Operators that change spatial extents.

use super::emit::{Recipe, signed};
use super::{Call, Constant, Converter, Refusal, VarId, numbers};
use crate::resampling::Sampling;
use crate::tflite::expression::Expression;
use crate::tflite::generated::{Generated, Integers};
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options};
use crate::{Attribute, Attributes, OpKind, Precision};
use std::sync::Arc;

impl Converter<'_> {
    pub(super) fn resize(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let a = call.attributes;
        let x = call.inputs[0];
        let (from, to) = (self.shape(x).to_vec(), numbers(a.ints("sizes"))?);
        if from == to {
            return Ok(self.alias(x));
        }
        if from.len() != to.len() || from.contains(&0) || to.contains(&0) {
            return Err("a resize from or to no elements has no operator".to_owned());
        }
        let (mode, coordinates) = (
            a.text("mode").unwrap_or("nearest"),
            a.text("coordinate_transformation_mode").unwrap_or("half_pixel"),
        );
        let scaled_otherwise = a.has("scales");
        let image = from.len() == 4 && from[..2] == to[..2];
        if mode == "nearest" {
            return self.nearest(call, x, &to, image && !scaled_otherwise);
        }
        // (align corners, half-pixel centres); of one pixel pytorch's half_pixel takes the first.
        let flags = match coordinates {
            "half_pixel" => Some((false, true)),
            "pytorch_half_pixel" if !to.iter().skip(2).any(|&d| d == 1) => Some((false, true)),
            "align_corners" if !to.iter().skip(2).any(|&d| d == 1) => Some((true, false)),
            "asymmetric" => Some((false, false)),
            _ => None,
        };
        match flags.filter(|_| {
            mode == "linear" && image && !scaled_otherwise && a.int("antialias").unwrap_or(0) == 0
        }) {
            Some((align_corners, half_pixel)) => self.resized(
                Code::ResizeBilinear,
                x,
                &to,
                align_corners,
                half_pixel,
                coordinates,
                mode,
            ),
            None => self.interpolated(call, x, &to),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn resized(
        &mut self,
        code: Code,
        x: VarId,
        to: &[usize],
        align_corners: bool,
        half_pixel: bool,
        coordinates: &str,
        mode: &str,
    ) -> Result<VarId, Refusal> {
        let last = layout::channels_last(4);
        let input = self.stored(x, &last)?;
        let size = self.vector(&signed(&to[2..]));
        let attributes = Attributes::new()
            .with("mode", Attribute::Text(mode.to_owned()))
            .with("coordinate_transformation_mode", Attribute::Text(coordinates.to_owned()))
            .with_ints("sizes", signed(to));
        let recipe = Recipe::new(code, OpKind::Resize)
            .options(Options::Resize { align_corners, half_pixel })
            .attributes(attributes);
        let precision = self.vars[x].precision;
        Ok(self.emit(recipe, vec![input, size], to.to_vec(), last, precision))
    }

    /// The engine's own operator if it picks the same elements, else one GATHER per dimension.
    fn nearest(
        &mut self,
        call: &Call<'_>,
        x: VarId,
        to: &[usize],
        image: bool,
    ) -> Result<VarId, Refusal> {
        let from = self.shape(x).to_vec();
        let coordinates = call
            .attributes
            .text("coordinate_transformation_mode")
            .unwrap_or("half_pixel")
            .to_owned();
        let sampling = Sampling::of(call.attributes)?;
        if image && self.picks_floored(&sampling, &from, to)? {
            return self.resized(Code::ResizeNearest, x, to, false, false, &coordinates, "nearest");
        }
        let mut y = x;
        for d in (0..from.len()).filter(|&d| from[d] != to[d]) {
            let indices = self.var(vec![to[d]], Precision::I32, Vec::new());
            let (sampling, from) = (sampling.clone(), from[d]);
            let picks = Integers::Picks { sampling, dimension: d, from, to: to[d] };
            self.vars[indices].constant = Some(Constant::Ints(Arc::new(picks)));
            y = self.picked(y, indices, d)?;
        }
        Ok(y)
    }

    /// Whether height and width are sampled as the engine's own operator does.
    fn picks_floored(
        &self,
        sampling: &Sampling,
        from: &[usize],
        to: &[usize],
    ) -> Result<bool, Refusal> {
        for d in 2..4 {
            for i in 0..to[d] {
                self.spend(1)?;
                let floored = (i.saturating_mul(from[d]) / to[d]).min(from[d] - 1);
                if sampling.nearest(d, i, from[d], to[d]) != floored {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Any other interpolation: along each dimension every output is a weighted sum of inputs, a
    /// product with a constant matrix.
    fn interpolated(&mut self, call: &Call<'_>, x: VarId, to: &[usize]) -> Result<VarId, Refusal> {
        let sampling = Sampling::of(call.attributes)?;
        let mut y = x;
        for (d, &extent) in to.iter().enumerate() {
            let (from, rank) = (self.shape(y)[d], self.rank(y));
            if from == extent {
                continue;
            }
            sampling.is_weighted()?;
            let weights = Generated::Interpolation {
                sampling: sampling.clone(),
                dimension: d,
                from,
                to: extent,
            };
            let mut order: Vec<usize> = (0..rank).filter(|&o| o != d).collect();
            order.push(d);
            let moved = self.transpose(y, &order)?;
            let product =
                self.fully_connected(moved, Expression::generated(weights, [extent, from]), None)?;
            let back: Vec<usize> = (0..rank).map(|o| layout::position(&order, o)).collect();
            y = self.transpose(product, &back)?;
        }
        Ok(y)
    }

    /// Channels into space. The engine's order of channels is ONNX's mode DCR.
    pub(super) fn depth_to_space(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let size = call
            .attributes
            .int("blocksize")
            .and_then(|b| usize::try_from(b).ok())
            .filter(|&b| b > 0)
            .ok_or("its block size is not known")?;
        let shape = self.output_shape(call)?;
        let [n, c, h, w] = *self.shape(x) else {
            return Err("its input is not an image".to_owned());
        };
        if call.attributes.text("mode") == Some("CRD") {
            let blocks = self.reshape(x, &[n, c / (size * size), size, size, h, w])?;
            let moved = self.transpose(blocks, &[0, 1, 4, 2, 5, 3])?;
            return self.reshape(moved, &shape);
        }
        self.blocks(Code::DepthToSpace, OpKind::DepthToSpace, x, size, shape)
    }

    pub(super) fn space_to_depth(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let size = call
            .attributes
            .int("blocksize")
            .and_then(|b| usize::try_from(b).ok())
            .filter(|&b| b > 0)
            .ok_or("its block size is not known")?;
        let shape = self.output_shape(call)?;
        self.blocks(Code::SpaceToDepth, OpKind::SpaceToDepth, call.inputs[0], size, shape)
    }

    fn blocks(
        &mut self,
        code: Code,
        kind: OpKind,
        x: VarId,
        size: usize,
        shape: Vec<usize>,
    ) -> Result<VarId, Refusal> {
        let last = layout::channels_last(4);
        let input = self.stored(x, &last)?;
        if shape.len() != last.len() {
            return Err("its output is not an image".to_owned());
        }
        let mut attributes = Attributes::new().with_int("blocksize", size as i64);
        if kind == OpKind::DepthToSpace {
            attributes.set("mode", Attribute::Text("DCR".to_owned()));
        }
        let recipe = Recipe::new(code, kind)
            .options(Options::Block { size: size as i32 })
            .attributes(attributes);
        let precision = self.vars[x].precision;
        Ok(self.emit(recipe, vec![input], shape, last, precision))
    }
}

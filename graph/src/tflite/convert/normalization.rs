//! Normalisations, composed of other operators: TensorFlow Lite has none, except softmax over the
//! last dimension.

use super::emit::{Recipe, spoken};
use super::movement::beyond;
use super::{Call, Converter, Refusal, VarId};
use crate::tflite::expression::{Expression, Operator, elements};
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options};
use crate::{Attributes, OpKind, Precision};

impl Converter<'_> {
    /// Over the dimension that is stored last.
    pub(super) fn softmax(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axis = call
            .attributes
            .int("axis")
            .and_then(|a| usize::try_from(a).ok())
            .ok_or("its axis is not known")?;
        let mut x = call.inputs[0];
        let shape = self.shape(x).to_vec();
        if axis >= shape.len() {
            return Err(beyond(axis, shape.len()));
        }
        let coerced = call.attributes.int("coerce") == Some(1);
        if coerced {
            let (outer, inner) = shape.split_at(axis);
            x = self.reshape(x, &[elements(outer), elements(inner)])?;
        }
        let along = if coerced { 1 } else { axis };
        let log = call.attributes.int("log") == Some(1);
        let own = self.vars[x]
            .stored
            .iter()
            .find(|(layout, _)| layout.last() == Some(&along))
            .map(|(layout, _)| layout.clone());
        let wanted = own.unwrap_or_else(|| {
            self.layout(x).into_iter().filter(|&d| d != along).chain([along]).collect()
        });
        let input = self.stored(x, &wanted)?;
        let mut attributes = Attributes::new().with_int("axis", spoken(&wanted, along));
        let (code, options) =
            if log { (Code::LogSoftmax, Options::None) } else { (Code::Softmax, Options::Softmax) };
        if log {
            attributes = attributes.with_int("log", 1);
        }
        let recipe = Recipe::new(code, OpKind::Softmax).options(options).attributes(attributes);
        let y = self.emit(recipe, vec![input], self.shape(x).to_vec(), wanted, Precision::F32);
        self.reshape_if_needed(y, &shape)
    }

    /// (x - mean) / sqrt(variance + epsilon) over some dimensions; RMS without the mean.
    fn normalised(
        &mut self,
        x: VarId,
        axes: &[usize],
        epsilon: f64,
        centred: bool,
    ) -> Result<VarId, Refusal> {
        let (shifted, squares) = if centred {
            let mean = self.reduce(Code::Mean, OpKind::ReduceMean, x, axes, true)?;
            let squared = Recipe::new(Code::SquaredDifference, OpKind::Sub)
                .attributes(Attributes::new().with_int("squared", 1));
            let squares = self.elementwise(squared, &[x, mean], Precision::F32)?;
            (self.sub(x, mean)?, squares)
        } else {
            (x, self.square(x)?)
        };
        let variance = self.reduce(Code::Mean, OpKind::ReduceMean, squares, axes, true)?;
        let sum = self.add_number(variance, epsilon)?;
        let factor = self.reciprocal_root(sum)?;
        self.mul(shifted, factor)
    }

    pub(super) fn layer_norm(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let rank = self.rank(x);
        let axis = call
            .attributes
            .int("axis")
            .and_then(|a| usize::try_from(a).ok())
            .unwrap_or(rank.saturating_sub(1));
        let axes: Vec<usize> = (axis..rank).collect();
        let centred = call.node.op.kind == OpKind::LayerNorm;
        let mut y = self.normalised(x, &axes, epsilon(call.attributes), centred)?;
        if let Some(&scale) = call.inputs.get(1) {
            y = self.mul(y, scale)?;
        }
        if let Some(&bias) = call.inputs.get(2) {
            y = self.add(y, bias)?;
        }
        Ok(y)
    }

    /// At inference x * a + b.
    pub(super) fn batch_norm(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let parts: Option<Vec<Expression>> =
            call.inputs[1..].iter().map(|&v| self.expression(v)).collect();
        let parts = parts.and_then(|p| <[Expression; 4]>::try_from(p).ok());
        let [scale, bias, mean, variance] =
            parts.ok_or("its parameters are computed while the model runs")?;
        let factor = scale.binary(Operator::Mul, variance.rsqrt(epsilon(call.attributes) as f32));
        let offset = bias.binary(Operator::Sub, mean.binary(Operator::Mul, factor.clone()));
        self.scaled(call.inputs[0], factor, offset)
    }

    /// x * factor + offset, one number per channel (dimension 1).
    fn scaled(
        &mut self,
        x: VarId,
        factor: Expression,
        offset: Expression,
    ) -> Result<VarId, Refusal> {
        let shape = self.shape(x);
        let channels = *shape.get(1).ok_or("its input has no channels")?;
        let mut along = vec![1; shape.len()];
        along[1] = channels;
        let factor = self.constant(factor.reshape(along.clone()));
        let offset = self.constant(offset.reshape(along));
        let y = self.mul(x, factor)?;
        self.add(y, offset)
    }

    /// Over the space of each channel, or of each group of channels.
    pub(super) fn group_norm(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let shape = self.shape(x).to_vec();
        let rank = shape.len();
        let epsilon = epsilon(call.attributes);
        if call.node.op.kind == OpKind::InstanceNorm {
            let axes: Vec<usize> = (2..rank).collect();
            let y = self.normalised(x, &axes, epsilon, true)?;
            return self.rescaled(call, y);
        }
        let groups = call
            .attributes
            .int("groups")
            .and_then(|g| usize::try_from(g).ok())
            .filter(|&g| g > 0 && rank > 1)
            .ok_or("its groups are not known")?;
        let split: Vec<usize> = [shape[0], groups, shape[1] / groups]
            .into_iter()
            .chain(shape[2..].iter().copied())
            .collect();
        let parts = self.reshape(x, &split)?;
        let axes: Vec<usize> = (2..split.len()).collect();
        let y = self.normalised(parts, &axes, epsilon, true)?;
        // Before opset 21 each group has one scale and one offset.
        let scales = call.inputs.get(1).map(|&scale| self.shape(scale).iter().product::<usize>());
        if scales == Some(groups) && groups != shape[1] {
            let y = self.rescaled(call, y)?;
            return self.reshape(y, &shape);
        }
        let y = self.reshape(y, &shape)?;
        self.rescaled(call, y)
    }

    /// With the scale and offset of each channel, or of whatever dimension 1 is.
    fn rescaled(&mut self, call: &Call<'_>, y: VarId) -> Result<VarId, Refusal> {
        let (Some(scale), Some(bias)) = (call.inputs.get(1), call.inputs.get(2)) else {
            return Ok(y);
        };
        let computed = "its parameters are computed while the model runs";
        let scale = self.expression(*scale).ok_or(computed)?;
        let bias = self.expression(*bias).ok_or(computed)?;
        self.scaled(y, scale, bias)
    }

    pub(super) fn lp_norm(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let axis = call
            .attributes
            .int("axis")
            .and_then(|a| usize::try_from(a).ok())
            .ok_or("its axis is not known")?;
        let length = if call.attributes.int("p") == Some(1) {
            let sizes = self.unary(Recipe::new(Code::Abs, OpKind::Abs), x)?;
            self.reduce(Code::Sum, OpKind::ReduceSum, sizes, &[axis], true)?
        } else {
            self.euclidean(x, &[axis], true)?
        };
        self.binary(Code::Div, OpKind::Div, x, length)
    }

    pub(super) fn euclidean(
        &mut self,
        x: VarId,
        axes: &[usize],
        keep: bool,
    ) -> Result<VarId, Refusal> {
        let squares = self.square(x)?;
        let sum = self.reduce(Code::Sum, OpKind::ReduceSum, squares, axes, keep)?;
        self.square_root(sum)
    }

    /// A reduction over logical dimensions, in any layout.
    pub(super) fn reduce(
        &mut self,
        code: Code,
        kind: OpKind,
        x: VarId,
        axes: &[usize],
        keep: bool,
    ) -> Result<VarId, Refusal> {
        let rank = self.rank(x);
        if let Some(&axis) = axes.iter().find(|&&axis| axis >= rank) {
            return Err(beyond(axis, rank));
        }
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let mut positions: Vec<i64> =
            axes.iter().map(|&a| layout::position(&own, a) as i64).collect();
        positions.sort_unstable();
        let steering = self.vector(&positions);
        let mut spoken: Vec<i64> = axes.iter().map(|&a| spoken(&own, a)).collect();
        spoken.sort_unstable();
        let attributes =
            Attributes::new().with_ints("axes", spoken).with_int("keepdims", i64::from(keep));
        let mut shape = self.shape(x).to_vec();
        let mut result = own;
        if keep {
            axes.iter().for_each(|&a| shape[a] = 1);
        } else {
            shape = shape
                .into_iter()
                .enumerate()
                .filter(|(d, _)| !axes.contains(d))
                .map(|(_, s)| s)
                .collect();
            result = layout::without(&result, axes);
        }
        let recipe = Recipe::new(code, kind)
            .options(Options::Reduce { keep_dims: keep })
            .attributes(attributes);
        let precision = self.vars[x].precision;
        Ok(self.emit(recipe, vec![input, steering], shape, result, precision))
    }
}

fn epsilon(attributes: &Attributes) -> f64 {
    attributes.float("epsilon").unwrap_or(1e-5)
}

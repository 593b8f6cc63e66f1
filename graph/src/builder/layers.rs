//! The layers vision models are made of, as exporters write them: weights are created with the
//! layer and named after it (`NAME.weight`, `NAME.bias`), GELU and SiLU are spelled out in
//! elementary operators, a linear layer over tokens is a product and an addition.

use super::GraphBuilder;
use crate::{Attribute, Attributes, ConstantData, GraphError, OpKind, TensorSpec, ValueId};

/// Epsilon of normalisations: PyTorch's default, as the `f32` that a model file holds.
const EPSILON: f32 = 1e-5;

impl GraphBuilder {
    /// A 2-D convolution with a square kernel over N, C, H, W. `group` = channels in = channels out
    /// makes it depthwise.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is not an image or its channels do not divide into groups.
    #[allow(clippy::too_many_arguments)]
    pub fn conv(
        &mut self,
        name: &str,
        x: ValueId,
        out_channels: usize,
        kernel: usize,
        stride: usize,
        pad: usize,
        group: usize,
        bias: bool,
    ) -> Result<ValueId, GraphError> {
        let tensor = self.known(name, x)?;
        let &[_, channels, _, _] = tensor.shape.as_slice() else {
            return Err(refuse(
                name,
                format!("a 2-D convolution needs an input N, C, H, W, this one is {tensor}"),
            ));
        };
        if group == 0 || !channels.is_multiple_of(group) || !out_channels.is_multiple_of(group) {
            return Err(refuse(
                name,
                format!(
                    "{channels} channels in and {out_channels} out do not divide into {group} \
                    groups"
                ),
            ));
        }
        let weight =
            TensorSpec::new([out_channels, channels / group, kernel, kernel], tensor.precision);
        let mut inputs = vec![x, self.weight(format!("{name}.weight"), weight)];
        if bias {
            inputs.push(
                self.weight(
                    format!("{name}.bias"),
                    TensorSpec::new([out_channels], tensor.precision),
                ),
            );
        }
        let (kernel, stride, pad) = (kernel as i64, stride as i64, pad as i64);
        let attributes = Attributes::new()
            .with_ints("kernel_shape", [kernel; 2])
            .with_ints("strides", [stride; 2])
            .with_ints("pads", [pad; 4])
            .with_ints("dilations", [1; 2])
            .with_int("group", group as i64);
        self.op(name, OpKind::Conv, attributes, &inputs)
    }

    /// A linear layer over the last dimension. As exporters do: one Gemm with a weight `[out, in]`
    /// for a matrix, and for higher ranks a product with a weight `[in, out]`, then (operator
    /// `NAME.add`) the bias.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is a scalar or a vector.
    pub fn linear(
        &mut self,
        name: &str,
        x: ValueId,
        out_features: usize,
        bias: bool,
    ) -> Result<ValueId, GraphError> {
        let tensor = self.known(name, x)?;
        let [_, .., features] = *tensor.shape.as_slice() else {
            return Err(refuse(
                name,
                format!("a linear layer needs a matrix or more, this is {tensor}"),
            ));
        };
        let precision = tensor.precision;
        let gemm = tensor.rank() == 2;
        let shape = if gemm { [out_features, features] } else { [features, out_features] };
        let mut inputs =
            vec![x, self.weight(format!("{name}.weight"), TensorSpec::new(shape, precision))];
        let bias = bias.then(|| {
            self.weight(format!("{name}.bias"), TensorSpec::new([out_features], precision))
        });
        if gemm {
            inputs.extend(bias);
            return self.op(
                name,
                OpKind::Linear,
                Attributes::new().with_int("trans_b", 1),
                &inputs,
            );
        }
        let product = self.op(name, OpKind::Linear, Attributes::new(), &inputs)?;
        match bias {
            Some(bias) => self.binary(&format!("{name}.add"), OpKind::Add, bias, product),
            None => Ok(product),
        }
    }

    /// Layer normalisation over the last dimension, with scale and bias.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is a scalar.
    pub fn layer_norm(&mut self, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        let tensor = self.known(name, x)?;
        let Some(&features) = tensor.shape.last() else {
            return Err(refuse(name, "a scalar has nothing to normalise over".to_owned()));
        };
        let (axis, vector) =
            (tensor.rank() as i64 - 1, TensorSpec::new([features], tensor.precision));
        let scale = self.weight(format!("{name}.weight"), vector.clone());
        let bias = self.weight(format!("{name}.bias"), vector);
        let attributes = Attributes::new()
            .with_int("axis", axis)
            .with("epsilon", Attribute::Float(f64::from(EPSILON)));
        self.op(name, OpKind::LayerNorm, attributes, &[x, scale, bias])
    }

    /// Batch normalisation at inference over dimension 1.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` has no channels.
    pub fn batch_norm(&mut self, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        let tensor = self.known(name, x)?;
        let &[_, channels, ..] = tensor.shape.as_slice() else {
            return Err(refuse(name, format!("{tensor} has no channels in dimension 1")));
        };
        let vector = TensorSpec::new([channels], tensor.precision);
        let mut inputs = vec![x];
        for part in ["weight", "bias", "running_mean", "running_var"] {
            inputs.push(self.weight(format!("{name}.{part}"), vector.clone()));
        }
        self.op(
            name,
            OpKind::BatchNorm,
            Attributes::new().with("epsilon", Attribute::Float(f64::from(EPSILON))),
            &inputs,
        )
    }

    /// An operator of one input without attributes.
    ///
    /// # Errors
    /// [`GraphError::Node`] when it needs more.
    pub fn unary(&mut self, name: &str, kind: OpKind, x: ValueId) -> Result<ValueId, GraphError> {
        self.op(name, kind, Attributes::new(), &[x])
    }

    /// An operator of two inputs without attributes.
    ///
    /// # Errors
    /// [`GraphError::Node`] when their shapes do not go together.
    pub fn binary(
        &mut self,
        name: &str,
        kind: OpKind,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, GraphError> {
        self.op(name, kind, Attributes::new(), &[a, b])
    }

    /// Product of two computed tensors, batched over leading dimensions.
    ///
    /// # Errors
    /// [`GraphError::Node`] when their shapes do not go together.
    pub fn matmul(&mut self, name: &str, a: ValueId, b: ValueId) -> Result<ValueId, GraphError> {
        self.binary(name, OpKind::MatMul, a, b)
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`GraphError::Node`] when the numbers of elements differ.
    pub fn reshape(
        &mut self,
        name: &str,
        x: ValueId,
        shape: &[usize],
    ) -> Result<ValueId, GraphError> {
        self.op(name, OpKind::Reshape, Attributes::new().with_ints("shape", integers(shape)), &[x])
    }

    /// Dimensions in another order.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `perm` is not a permutation of the dimensions.
    pub fn transpose(
        &mut self,
        name: &str,
        x: ValueId,
        perm: &[usize],
    ) -> Result<ValueId, GraphError> {
        self.op(name, OpKind::Transpose, Attributes::new().with_ints("perm", integers(perm)), &[x])
    }

    /// Softmax along one dimension, counted from the front.
    ///
    /// # Errors
    /// [`GraphError::Node`] when there is no such dimension.
    pub fn softmax(&mut self, name: &str, x: ValueId, axis: usize) -> Result<ValueId, GraphError> {
        self.op(name, OpKind::Softmax, Attributes::new().with_int("axis", axis as i64), &[x])
    }

    /// Tensors one after the other along one dimension, counted from the front.
    ///
    /// # Errors
    /// [`GraphError::Node`] when their other dimensions differ.
    pub fn concat(
        &mut self,
        name: &str,
        inputs: &[ValueId],
        axis: usize,
    ) -> Result<ValueId, GraphError> {
        self.op(name, OpKind::Concat, Attributes::new().with_int("axis", axis as i64), inputs)
    }

    /// Part of a tensor: of each of these dimensions `(axis, start, end, step)`, every `step`-th
    /// element.
    ///
    /// # Errors
    /// [`GraphError::Node`] when there is no such dimension.
    pub fn slice(
        &mut self,
        name: &str,
        x: ValueId,
        axes: &[(usize, usize, usize, usize)],
    ) -> Result<ValueId, GraphError> {
        let list = |of: fn(&(usize, usize, usize, usize)) -> usize| {
            axes.iter().map(|a| of(a) as i64).collect::<Vec<_>>()
        };
        let attributes = Attributes::new()
            .with_ints("axes", list(|a| a.0))
            .with_ints("starts", list(|a| a.1))
            .with_ints("ends", list(|a| a.2))
            .with_ints("steps", list(|a| a.3));
        self.op(name, OpKind::Slice, attributes, &[x])
    }

    /// An image N, C, H, W at another height and width; `mode` and `transformation` (of
    /// coordinates) as ONNX names them.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is not an image.
    pub fn resize(
        &mut self,
        name: &str,
        x: ValueId,
        [height, width]: [usize; 2],
        mode: &str,
        transformation: &str,
    ) -> Result<ValueId, GraphError> {
        let tensor = self.known(name, x)?;
        let &[batch, channels, _, _] = tensor.shape.as_slice() else {
            return Err(refuse(name, format!("an image N, C, H, W is resized, this is {tensor}")));
        };
        let text = |t: &str| Attribute::Text(t.to_owned());
        let mut attributes = Attributes::new()
            .with("mode", text(mode))
            .with("coordinate_transformation_mode", text(transformation));
        if mode == "nearest" {
            attributes.set("nearest_mode", text("floor"));
        } else if mode == "cubic" {
            attributes.set("cubic_coeff_a", Attribute::Float(-0.75));
        }
        let sizes = [batch, channels, height, width].map(|size| size as i64);
        self.op(name, OpKind::Resize, attributes.with_ints("sizes", sizes), &[x])
    }

    /// Mean over all spatial dimensions: N, C, 1, 1.
    ///
    /// # Errors
    /// [`GraphError::Node`] when there are none.
    pub fn global_average_pool(&mut self, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        self.unary(name, OpKind::GlobalAveragePool, x)
    }

    /// Mean over the given dimensions, counted from the front.
    ///
    /// # Errors
    /// [`GraphError::Node`] when there is no such dimension.
    pub fn reduce_mean(
        &mut self,
        name: &str,
        x: ValueId,
        axes: &[usize],
        keepdims: bool,
    ) -> Result<ValueId, GraphError> {
        let attributes = Attributes::new()
            .with_ints("axes", integers(axes))
            .with_int("keepdims", i64::from(keepdims));
        self.op(name, OpKind::ReduceMean, attributes, &[x])
    }

    /// GELU as exporters spell it: `x * (1 + erf(x / sqrt 2)) * 0.5` in the operators Div, Erf,
    /// Add, Mul, Mul.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is unknown.
    pub fn gelu_erf(&mut self, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        let root = self.scalar(&format!("{name}.sqrt2"), x, f64::from(std::f32::consts::SQRT_2))?;
        let one = self.scalar(&format!("{name}.one"), x, 1.0)?;
        let half = self.scalar(&format!("{name}.half"), x, 0.5)?;
        let scaled = self.binary(&format!("{name}.div"), OpKind::Div, x, root)?;
        let erf = self.unary(&format!("{name}.erf"), OpKind::Erf, scaled)?;
        let gate = self.binary(&format!("{name}.add"), OpKind::Add, erf, one)?;
        let gated = self.binary(&format!("{name}.mul"), OpKind::Mul, x, gate)?;
        self.binary(&format!("{name}.mul_1"), OpKind::Mul, gated, half)
    }

    /// SiLU as exporters spell it: Sigmoid, Mul.
    ///
    /// # Errors
    /// [`GraphError::Node`] when `x` is unknown.
    pub fn silu(&mut self, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        let gate = self.unary(&format!("{name}.sigmoid"), OpKind::Sigmoid, x)?;
        self.binary(&format!("{name}.mul"), OpKind::Mul, x, gate)
    }

    /// A constant scalar of the same type as `like`.
    ///
    /// # Errors
    /// [`GraphError::Node`] when the type of `like` is unknown.
    pub fn scalar(&mut self, name: &str, like: ValueId, value: f64) -> Result<ValueId, GraphError> {
        let precision = self.known(name, like)?.precision;
        Ok(self.constant(name, TensorSpec::new([], precision), ConstantData::Floats(vec![value])))
    }

    fn known(&self, name: &str, id: ValueId) -> Result<TensorSpec, GraphError> {
        self.tensor(id)
            .cloned()
            .ok_or_else(|| refuse(name, "the shape of its input is unknown".to_owned()))
    }
}

fn refuse(node: &str, reason: String) -> GraphError {
    GraphError::Node { node: node.to_owned(), reason }
}

fn integers(numbers: &[usize]) -> Vec<i64> {
    numbers.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Work;

    /// One layer on an input of that shape: its output, its operators' kinds and its parameters.
    fn layer(
        shape: &[usize],
        make: impl Fn(&mut GraphBuilder, ValueId) -> Result<ValueId, GraphError>,
    ) -> Result<(String, Vec<String>, u64), GraphError> {
        let mut builder = GraphBuilder::new("layer");
        let x = builder.input("x", TensorSpec::f32(shape));
        let y = make(&mut builder, x)?;
        let graph = builder.finish(vec![y])?;
        let output = graph.value(y).tensor.as_ref().map(TensorSpec::to_string).unwrap_or_default();
        let kinds = graph.nodes().iter().map(|n| n.op.kind.to_string()).collect();
        Ok((output, kinds, Work::of_graph(&graph).params))
    }

    type Kinds = &'static [&'static str];
    type Make = fn(&mut GraphBuilder, ValueId) -> Result<ValueId, GraphError>;

    #[test]
    fn layers_have_their_shapes_kinds_and_parameters() {
        let cases: [(&[usize], Make, &str, Kinds, u64); 15] = [
            (
                &[1, 3, 8, 8],
                |b, x| b.conv("l", x, 16, 3, 2, 1, 1, true),
                "1x16x4x4 f32",
                &["conv"],
                16 * 27 + 16,
            ),
            (
                &[1, 6, 8, 8],
                |b, x| b.conv("l", x, 6, 5, 1, 2, 6, false),
                "1x6x8x8 f32",
                &["conv"],
                6 * 25,
            ),
            (
                &[1, 10, 8],
                |b, x| b.linear("l", x, 24, true),
                "1x10x24 f32",
                &["linear", "add"],
                8 * 24 + 24,
            ),
            (&[1, 10, 8], |b, x| b.linear("l", x, 24, false), "1x10x24 f32", &["linear"], 8 * 24),
            (&[2, 8], |b, x| b.linear("l", x, 24, true), "2x24 f32", &["linear"], 8 * 24 + 24),
            (&[1, 10, 8], |b, x| b.layer_norm("l", x), "1x10x8 f32", &["layer_norm"], 16),
            (&[1, 3, 8, 8], |b, x| b.batch_norm("l", x), "1x3x8x8 f32", &["batch_norm"], 12),
            (
                &[1, 10, 8],
                |b, x| b.gelu_erf("l", x),
                "1x10x8 f32",
                &["div", "erf", "add", "mul", "mul"],
                3,
            ),
            (&[1, 10, 8], |b, x| b.silu("l", x), "1x10x8 f32", &["sigmoid", "mul"], 0),
            (&[1, 10, 8], |b, x| b.softmax("l", x, 2), "1x10x8 f32", &["softmax"], 0),
            (&[1, 10, 8], |b, x| b.reshape("l", x, &[1, 80]), "1x80 f32", &["reshape"], 0),
            (&[1, 10, 8], |b, x| b.transpose("l", x, &[0, 2, 1]), "1x8x10 f32", &["transpose"], 0),
            (&[1, 8, 8], |b, x| b.matmul("l", x, x), "1x8x8 f32", &["matmul"], 0),
            (
                &[1, 3, 8, 8],
                |b, x| b.global_average_pool("l", x),
                "1x3x1x1 f32",
                &["global_average_pool"],
                0,
            ),
            (
                &[1, 10, 8],
                |b, x| b.reduce_mean("l", x, &[1], false),
                "1x8 f32",
                &["reduce_mean"],
                0,
            ),
        ];
        for (shape, make, output, kinds, params) in cases {
            let made = layer(shape, make);
            let expected =
                (output.to_owned(), kinds.iter().map(|&k| k.to_owned()).collect(), params);
            assert_eq!(made, Ok(expected));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let cases: [(&[usize], Make, &str); 8] = [
            (&[1, 10, 8], |b, x| b.conv("l", x, 16, 3, 2, 1, 1, true), "N, C, H, W"),
            (&[1, 6, 8, 8], |b, x| b.conv("l", x, 6, 3, 1, 1, 4, true), "4 groups"),
            (&[1, 6, 8, 8], |b, x| b.conv("l", x, 6, 3, 1, 1, 0, true), "0 groups"),
            (&[8], |b, x| b.linear("l", x, 24, true), "matrix"),
            (&[], |b, x| b.layer_norm("l", x), "scalar"),
            (&[5], |b, x| b.batch_norm("l", x), "channels"),
            (&[2, 3], |b, x| b.reshape("l", x, &[7]), "cannot become"),
            (&[2, 3], |b, x| b.softmax("l", x, 2), "axis 2"),
        ];
        for (shape, make, says) in cases {
            let Err(error) = layer(shape, make) else { panic!("{shape:?} does not fit: {says}") };
            assert!(
                error.to_string().contains("node `l`") && error.to_string().contains(says),
                "{error}"
            );
        }
    }
}

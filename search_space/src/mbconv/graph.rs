//! [`Architecture::to_graph`]: the operators of an architecture, as a PyTorch exporter leaves them,
//! with every batch norm folded into the convolution before it.
//!
//! A convolution that halves the image, inverted residuals, a pointwise convolution, the mean over
//! the image, a linear layer.

use super::block::squeezed;
use super::{Activation, Architecture, Placed};
use crate::SpaceError;
use crate::features::Features;
use vitempo_graph::{Attribute, Attributes, Graph, GraphBuilder, GraphError, OpKind, ValueId};

impl Architecture {
    /// The operator graph, for one image: input `image`, N, C, H, W, 32-bit floats; output of shape
    /// 1 x classes. Its name is the encoding.
    ///
    /// # Errors
    /// [`SpaceError::Unbuildable`] for an architecture with impossible numbers. One that a
    /// [`crate::Space`] holds has none.
    pub fn to_graph(&self) -> Result<Graph, SpaceError> {
        self.check()?;
        Ok(self.build()?)
    }

    fn build(&self) -> Result<Graph, GraphError> {
        let mut b = GraphBuilder::new(self.encode());
        let last = self.features(&mut b)?.1;
        let wide = b.conv("head.conv", last.x, self.head.into(), 1, 1, 0, 1, true)?;
        let active = self.activation.add(&mut b, "head.act", wide)?;
        let pooled = b.global_average_pool("head.pool", active)?;
        let flat = b.reshape("head.flatten", pooled, &[1, self.head.into()])?;
        let classes = usize::try_from(self.classes).unwrap_or(usize::MAX);
        let logits = b.linear("head.classifier", flat, classes, true)?;
        b.finish(vec![logits])
    }

    /// The image, and the last features of each size.
    pub(crate) fn levels(&self, b: &mut GraphBuilder) -> Result<Vec<Features>, GraphError> {
        let (mut levels, last) = self.features(b)?;
        levels.push(last);
        Ok(levels)
    }

    /// The image and the features before each halving; and the features behind the last block.
    fn features(&self, b: &mut GraphBuilder) -> Result<(Vec<Features>, Features), GraphError> {
        let image = Features::image(b, self.input_channels, self.image_size, self.image_size);
        let stem = b.conv("stem.conv", image.x, self.stem.into(), 3, 2, 1, 1, true)?;
        let x = self.activation.add(b, "stem.act", stem)?;
        let size = usize::from(self.stem_size());
        let mut features =
            Features { x, channels: self.stem.into(), height: size, width: size, ..image };
        let mut levels = vec![image];
        let (mut number, mut position) = (0, 0);
        for (stage, placed) in self.placed() {
            position = if stage == number { position } else { 0 };
            number = stage;
            if placed.size < placed.size_in {
                levels.push(features);
            }
            let name = format!("stages.{stage}.blocks.{position}");
            let (x, size) = (placed.add(b, &name, features.x)?, usize::from(placed.size));
            let channels = placed.channels.into();
            features = Features { x, channels, height: size, width: size, ..features };
            position += 1;
        }
        Ok((levels, features))
    }
}

impl Placed {
    fn add(&self, b: &mut GraphBuilder, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        let expansion = usize::from(self.block.expansion());
        let hidden = usize::from(self.channels_in) * expansion;
        let mut y = x;
        if expansion > 1 {
            y = b.conv(&format!("{name}.expand"), y, hidden, 1, 1, 0, 1, true)?;
            y = self.activation.add(b, &format!("{name}.expand.act"), y)?;
        }
        let (kernel, stride) = (usize::from(self.block.kernel()), usize::from(self.stride));
        let depthwise = format!("{name}.depthwise");
        y = b.conv(&depthwise, y, hidden, kernel, stride, kernel / 2, hidden, true)?;
        y = self.activation.add(b, &format!("{depthwise}.act"), y)?;
        if self.block.squeeze() {
            y = self.squeeze(b, &format!("{name}.squeeze"), y, hidden)?;
        }
        let project = format!("{name}.project");
        y = b.conv(&project, y, self.channels.into(), 1, 1, 0, 1, true)?;
        match self.is_residual() {
            true => b.binary(&format!("{name}.residual"), OpKind::Add, x, y),
            false => Ok(y),
        }
    }

    /// Squeeze and excitation: a gate for each channel from the mean over the image.
    fn squeeze(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: ValueId,
        channels: usize,
    ) -> Result<ValueId, GraphError> {
        let mean = b.global_average_pool(&format!("{name}.pool"), x)?;
        let reduced = format!("{name}.reduce");
        let few = b.conv(&reduced, mean, squeezed(channels), 1, 1, 0, 1, true)?;
        let (act, gate) = (format!("{reduced}.act"), format!("{name}.gate"));
        let many = |b: &mut GraphBuilder, few| {
            b.conv(&format!("{name}.expand"), few, channels, 1, 1, 0, 1, true)
        };
        let gate = match self.activation {
            Activation::Silu => {
                let few = b.silu(&act, few)?;
                let many = many(b, few)?;
                b.unary(&gate, OpKind::Sigmoid, many)?
            }
            _ => {
                let few = b.unary(&act, OpKind::Relu, few)?;
                let many = many(b, few)?;
                let sixth = f64::from(1.0_f32 / 6.0);
                let line = Attributes::new()
                    .with("alpha", Attribute::Float(sixth))
                    .with("beta", Attribute::Float(0.5));
                b.op(&gate, OpKind::HardSigmoid, line, &[many])?
            }
        };
        b.binary(&format!("{name}.scale"), OpKind::Mul, x, gate)
    }
}

impl Activation {
    fn add(self, b: &mut GraphBuilder, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        match self {
            Self::Relu => b.unary(name, OpKind::Relu, x),
            Self::Relu6 => {
                let bounds = Attributes::new()
                    .with("min", Attribute::Float(0.0))
                    .with("max", Attribute::Float(6.0));
                b.op(name, OpKind::Clip, bounds, &[x])
            }
            Self::HardSwish => b.unary(name, OpKind::HardSwish, x),
            Self::Silu => b.silu(name, x),
        }
    }
}

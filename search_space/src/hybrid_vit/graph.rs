//! [`Architecture::to_graph`]: the operators of an architecture, as a PyTorch exporter leaves them.
//!
//! Per stage: patch embedding (a convolution whose kernel and stride are the patch), then blocks;
//! at the end normalisation, mean over tokens, linear head. Blocks of separable convolution work on
//! images N, C, H, W, attention blocks on tokens N, T, C; a reshape and a transpose lie between.

use super::{Architecture, Stage, TokenMixer};
use crate::SpaceError;
use vitempo_graph::{Graph, GraphBuilder, GraphError, TensorSpec, ValueId};

/// Features between two blocks.
#[derive(Clone, Copy)]
pub(super) struct Features {
    pub x: ValueId,
    pub layout: Layout,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

/// How features lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// N, C, H, W.
    Image,
    /// N, H W, C.
    Tokens,
}

impl Features {
    pub fn tokens(&self) -> usize {
        self.height * self.width
    }

    pub fn with(self, x: ValueId) -> Self {
        Self { x, ..self }
    }

    pub fn into_tokens(self, b: &mut GraphBuilder, name: &str) -> Result<Self, GraphError> {
        if self.layout == Layout::Tokens {
            return Ok(self);
        }
        let flat =
            b.reshape(&format!("{name}.flatten"), self.x, &[1, self.channels, self.tokens()])?;
        let x = b.transpose(&format!("{name}.to_tokens"), flat, &[0, 2, 1])?;
        Ok(Self { x, layout: Layout::Tokens, ..self })
    }

    pub fn into_image(self, b: &mut GraphBuilder, name: &str) -> Result<Self, GraphError> {
        if self.layout == Layout::Image {
            return Ok(self);
        }
        let channels_first = b.transpose(&format!("{name}.from_tokens"), self.x, &[0, 2, 1])?;
        let x = b.reshape(
            &format!("{name}.unflatten"),
            channels_first,
            &[1, self.channels, self.height, self.width],
        )?;
        Ok(Self { x, layout: Layout::Image, ..self })
    }
}

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
        let (height, width) = (usize::from(self.height), usize::from(self.width));
        let image =
            b.input("image", TensorSpec::f32([1, self.input_channels.into(), height, width]));
        let mut features = Features {
            x: image,
            layout: Layout::Image,
            channels: self.input_channels.into(),
            height,
            width,
        };
        for (position, stage) in self.stages.iter().enumerate() {
            let name = format!("stages.{}", usize::from(self.merged_stages) + position);
            features = features.into_image(&mut b, &name)?;
            features = patch_embed(&mut b, &name, features, stage, self.patch(position))?;
            if matches!(stage.token_mixer, TokenMixer::Attention { .. }) {
                features = features.into_tokens(&mut b, &name)?;
            }
            for block in 0..stage.depth {
                features = stage.block(&mut b, &format!("{name}.blocks.{block}"), features)?;
            }
        }
        let logits = self.head(&mut b, features)?;
        b.finish(vec![logits])
    }

    fn head(&self, b: &mut GraphBuilder, features: Features) -> Result<ValueId, GraphError> {
        let normed = match self.stages.last() {
            Some(stage) => stage.norm.add(b, "norm", features)?,
            None => features,
        };
        let pooled = match normed.layout {
            Layout::Tokens => b.reduce_mean("pool", normed.x, &[1], false)?,
            Layout::Image => {
                let pooled = b.global_average_pool("pool", normed.x)?;
                b.reshape("flatten", pooled, &[1, normed.channels])?
            }
        };
        b.linear("head", pooled, usize::try_from(self.classes).unwrap_or(usize::MAX), true)
    }
}

fn patch_embed(
    b: &mut GraphBuilder,
    name: &str,
    image: Features,
    stage: &Stage,
    patch: usize,
) -> Result<Features, GraphError> {
    let channels = usize::from(stage.channels);
    let x = b.conv(&format!("{name}.patch_embed"), image.x, channels, patch, patch, 0, 1, true)?;
    Ok(Features {
        x,
        layout: Layout::Image,
        channels,
        height: image.height / patch,
        width: image.width / patch,
    })
}

//! [`Architecture::to_graph`]: the operators of an architecture, as a PyTorch exporter leaves them.
//!
//! Per stage: patch embedding (a convolution whose kernel and stride are the patch), then blocks;
//! at the end normalisation, mean over tokens, linear head. Blocks of separable convolution work on
//! images N, C, H, W, attention blocks on tokens N, T, C; a reshape and a transpose lie between.

use super::{Architecture, TokenMixer};
use crate::SpaceError;
use crate::features::{Features, Layout};
use vitempo_graph::{Graph, GraphBuilder, GraphError, ValueId};

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
        let levels = self.levels(&mut b)?;
        let logits = self.head(&mut b, levels[levels.len() - 1])?;
        b.finish(vec![logits])
    }

    /// The image, and the features behind each stage; never empty.
    pub(crate) fn levels(&self, b: &mut GraphBuilder) -> Result<Vec<Features>, GraphError> {
        let mut features = Features::image(b, self.input_channels, self.height, self.width);
        let mut levels = vec![features];
        for (position, stage) in self.stages.iter().enumerate() {
            let name = format!("stages.{}", usize::from(self.merged_stages) + position);
            features = features.into_image(b, &name)?;
            features = features.patch_embed(
                b,
                &format!("{name}.patch_embed"),
                stage.channels.into(),
                self.patch(position),
            )?;
            if matches!(stage.token_mixer, TokenMixer::Attention { .. }) {
                features = features.into_tokens(b, &name)?;
            }
            for block in 0..stage.depth {
                features = stage.block(b, &format!("{name}.blocks.{block}"), features)?;
            }
            levels.push(features);
        }
        Ok(levels)
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

//! [`Architecture::to_graph`]: the operators of an architecture, as a PyTorch exporter leaves those
//! of timm's `VisionTransformer`.
//!
//! Patch embedding, class token, position embedding, blocks; then with a class token a norm over
//! all tokens of which the head reads the first, and without one the mean over tokens and a norm.

use super::{Architecture, Pooling};
use crate::SpaceError;
use crate::features::Features;
use crate::transformer::{Block, self_attention};
use vitempo_graph::{Attributes, Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

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
        let [_, features] = self.levels(&mut b)?;
        let pooled = self.pool(&mut b, features)?;
        let classes = usize::try_from(self.classes).unwrap_or(usize::MAX);
        let logits = b.linear("head", pooled, classes, true)?;
        b.finish(vec![logits])
    }

    /// The image, and the features behind the last block.
    pub(crate) fn levels(&self, b: &mut GraphBuilder) -> Result<[Features; 2], GraphError> {
        let image = Features::image(b, self.input_channels, self.image_size, self.image_size);
        let mut features = self.embed(b, image)?;
        let Self { norm, activation, mlp_ratio, .. } = *self;
        for block in 0..self.depth {
            let name = format!("blocks.{block}");
            features = Block { norm, activation, mlp_ratio }.add(b, &name, features, |b, x| {
                self_attention(b, &format!("{name}.attn"), x, self.heads.into())
            })?;
        }
        Ok([image, features])
    }

    /// Patches as tokens, with their positions.
    fn embed(&self, b: &mut GraphBuilder, image: Features) -> Result<Features, GraphError> {
        let patches =
            image.patch_embed(b, "patch_embed", self.channels.into(), self.patch_size.into())?;
        let mut tokens = patches.into_tokens(b, "patch_embed")?;
        if self.pooling == Pooling::ClassToken {
            let class = b.weight("cls_token".to_owned(), TensorSpec::f32([1, 1, tokens.channels]));
            tokens.x = b.concat("cls_token.concat", &[class, tokens.x], 1)?;
            tokens.prefix_tokens = 1;
        }
        let shape = TensorSpec::f32([1, tokens.tokens(), tokens.channels]);
        let positions = b.weight("pos_embed".to_owned(), shape);
        Ok(tokens.with(b.binary("pos_embed.add", OpKind::Add, tokens.x, positions)?))
    }

    /// The input of the head, 1 x channels.
    fn pool(&self, b: &mut GraphBuilder, tokens: Features) -> Result<ValueId, GraphError> {
        match self.pooling {
            Pooling::ClassToken => {
                let normed = self.norm.add(b, "norm", tokens)?;
                let first = Attributes::new().with_int("axis", 1).with_int("index", 0);
                b.op("pool", OpKind::Gather, first, &[normed.x])
            }
            Pooling::Average => {
                let pooled = b.reduce_mean("pool", tokens.x, &[1], false)?;
                self.norm.add_plain(b, "fc_norm", pooled)
            }
        }
    }
}

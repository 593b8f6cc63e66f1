//! The operators of one block: a token mixer inside of the parts that all transformer blocks share.
//!
//! | part | on images | on tokens |
//! |---|---|---|
//! | token mixer | separable convolution of ConvFormer | attention of ViT; with reduction, of PVT |

use super::{Stage, TokenMixer};
use crate::Norm;
use crate::features::Features;
use crate::transformer::{Block, attend, projections, self_attention};
use vitempo_graph::{GraphBuilder, GraphError, ValueId};

impl Stage {
    pub(super) fn block(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
    ) -> Result<Features, GraphError> {
        let Self { norm, activation, mlp_ratio, .. } = *self;
        let mix = |b: &mut GraphBuilder, x| self.mix(b, &format!("{name}.token_mixer"), x);
        Block { norm, activation, mlp_ratio }.add(b, name, x, mix)
    }

    fn mix(&self, b: &mut GraphBuilder, name: &str, x: Features) -> Result<ValueId, GraphError> {
        match self.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => {
                self.sep_conv(b, name, x, kernel.into(), expansion.into())
            }
            TokenMixer::Attention { heads, reduction: 1 } => {
                self_attention(b, name, x, heads.into())
            }
            TokenMixer::Attention { heads, reduction } => {
                self.reduced_attention(b, name, x, heads.into(), reduction.into())
            }
        }
    }

    fn sep_conv(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
        kernel: usize,
        expansion: usize,
    ) -> Result<ValueId, GraphError> {
        let hidden = x.channels * expansion;
        let wide = b.conv(&format!("{name}.pwconv1"), x.x, hidden, 1, 1, 0, 1, true)?;
        let active = self.activation.add(b, &format!("{name}.act"), wide)?;
        let mixed =
            b.conv(&format!("{name}.dwconv"), active, hidden, kernel, 1, kernel / 2, hidden, true)?;
        b.conv(&format!("{name}.pwconv2"), mixed, x.channels, 1, 1, 0, 1, true)
    }

    fn reduced_attention(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
        heads: usize,
        reduction: usize,
    ) -> Result<ValueId, GraphError> {
        let projected = b.linear(&format!("{name}.q"), x.x, x.channels, true)?;
        let split = b.reshape(
            &format!("{name}.q.heads"),
            projected,
            &[1, x.tokens(), heads, x.channels / heads],
        )?;
        let q = b.transpose(&format!("{name}.q.transpose"), split, &[0, 2, 1, 3])?;
        let reduced = self.reduce(b, name, x, reduction)?;
        let kv = projections(b, name, "kv", reduced, heads, 2)?;
        attend(b, name, x, heads, [q, kv[0], kv[1]])
    }

    /// Fewer tokens for keys and values: a convolution with kernel and stride `reduction`, then a
    /// norm. A batch norm is omitted, because exporters fold it into the convolution.
    fn reduce(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
        reduction: usize,
    ) -> Result<Features, GraphError> {
        let name = format!("{name}.sr");
        let image = x.into_image(b, &name)?;
        let small = b.conv(&name, image.x, x.channels, reduction, reduction, 0, 1, true)?;
        let image = Features {
            x: small,
            height: x.height / reduction,
            width: x.width / reduction,
            ..image
        };
        let tokens = image.into_tokens(b, &name)?;
        match self.norm {
            Norm::BatchNorm => Ok(tokens),
            Norm::LayerNorm => self.norm.add(b, &format!("{name}.norm"), tokens),
        }
    }
}

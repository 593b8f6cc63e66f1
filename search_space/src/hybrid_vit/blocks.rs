//! The operators of one block: `x + mixer(norm(x))`, then `x + mlp(norm(x))`.
//!
//! | part | on images | on tokens |
//! |---|---|---|
//! | token mixer | separable convolution of ConvFormer | attention of ViT; with reduction, of PVT |
//! | MLP | 1x1 convolutions | linear layers |
//! | batch norm | as it is | between two transposes |
//! | layer norm | between two transposes | as it is |

use super::graph::{Features, Layout};
use super::{Activation, Norm, Stage, TokenMixer};
use vitempo_graph::{Attributes, GraphBuilder, GraphError, OpKind, ValueId};

impl Stage {
    pub(super) fn block(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
    ) -> Result<Features, GraphError> {
        let normed = self.norm.add(b, &format!("{name}.norm1"), x)?;
        let mixed = self.mix(b, &format!("{name}.token_mixer"), normed)?;
        let x = x.with(b.binary(&format!("{name}.residual1"), OpKind::Add, x.x, mixed)?);
        let normed = self.norm.add(b, &format!("{name}.norm2"), x)?;
        let mlp = self.mlp(b, &format!("{name}.mlp"), normed)?;
        Ok(x.with(b.binary(&format!("{name}.residual2"), OpKind::Add, x.x, mlp)?))
    }

    fn mix(&self, b: &mut GraphBuilder, name: &str, x: Features) -> Result<ValueId, GraphError> {
        match self.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => {
                self.sep_conv(b, name, x, kernel.into(), expansion.into())
            }
            TokenMixer::Attention { heads, reduction } => {
                self.attention(b, name, x, heads.into(), reduction.into())
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

    fn mlp(&self, b: &mut GraphBuilder, name: &str, x: Features) -> Result<ValueId, GraphError> {
        let hidden = x.channels * usize::from(self.mlp_ratio);
        let layer = |b: &mut GraphBuilder, part: &str, x_in: ValueId, out: usize| match x.layout {
            Layout::Image => b.conv(&format!("{name}.{part}"), x_in, out, 1, 1, 0, 1, true),
            Layout::Tokens => b.linear(&format!("{name}.{part}"), x_in, out, true),
        };
        let wide = layer(b, "fc1", x.x, hidden)?;
        let active = self.activation.add(b, &format!("{name}.act"), wide)?;
        layer(b, "fc2", active, x.channels)
    }

    fn attention(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
        heads: usize,
        reduction: usize,
    ) -> Result<ValueId, GraphError> {
        let (q, k, v) = match reduction {
            1 => {
                let qkv = projections(b, name, "qkv", x, heads, 3)?;
                (qkv[0], qkv[1], qkv[2])
            }
            _ => {
                let projected = b.linear(&format!("{name}.q"), x.x, x.channels, true)?;
                let split = b.reshape(
                    &format!("{name}.q.heads"),
                    projected,
                    &[1, x.tokens(), heads, x.channels / heads],
                )?;
                let q = b.transpose(&format!("{name}.q.transpose"), split, &[0, 2, 1, 3])?;
                let reduced = self.reduce(b, name, x, reduction)?;
                let kv = projections(b, name, "kv", reduced, heads, 2)?;
                (q, kv[0], kv[1])
            }
        };
        let scale = b.scalar(
            &format!("{name}.scale"),
            q,
            f64::from(((x.channels / heads) as f32).sqrt().recip()),
        )?;
        let scaled = b.binary(&format!("{name}.scale.mul"), OpKind::Mul, q, scale)?;
        let keys = b.transpose(&format!("{name}.k.transpose"), k, &[0, 1, 3, 2])?;
        let scores = b.matmul(&format!("{name}.scores"), scaled, keys)?;
        let weights = b.softmax(&format!("{name}.softmax"), scores, 3)?;
        let mixed = b.matmul(&format!("{name}.mix"), weights, v)?;
        let gathered = b.transpose(&format!("{name}.gather"), mixed, &[0, 2, 1, 3])?;
        let joined = b.reshape(&format!("{name}.join"), gathered, &[1, x.tokens(), x.channels])?;
        b.linear(&format!("{name}.proj"), joined, x.channels, true)
    }

    /// Fewer tokens for keys and values: a convolution with kernel and stride `reduction`, then a
    /// norm. A batch norm is not there: an exporter folds it into the convolution.
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

/// One linear layer for several projections, cut into heads: each N, heads, T, C / heads.
fn projections(
    b: &mut GraphBuilder,
    name: &str,
    part: &str,
    x: Features,
    heads: usize,
    count: usize,
) -> Result<Vec<ValueId>, GraphError> {
    let name = format!("{name}.{part}");
    let (tokens, size) = (x.tokens(), x.channels / heads);
    let projected = b.linear(&name, x.x, x.channels * count, true)?;
    let parts = b.reshape(&format!("{name}.heads"), projected, &[1, tokens, count, heads, size])?;
    let first = b.transpose(&format!("{name}.transpose"), parts, &[2, 0, 3, 1, 4])?;
    let attributes = Attributes::new().with_int("axis", 0).with_ints("split", vec![1; count]);
    let split = b.op_many(&format!("{name}.split"), OpKind::Split, attributes, &[first])?;
    split
        .into_iter()
        .enumerate()
        .map(|(i, part)| b.reshape(&format!("{name}.squeeze{i}"), part, &[1, heads, tokens, size]))
        .collect()
}

impl Norm {
    pub(super) fn add(
        self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
    ) -> Result<Features, GraphError> {
        let (there, back): (&[usize], &[usize]) = match (self, x.layout) {
            (Self::BatchNorm, Layout::Image) => return Ok(x.with(b.batch_norm(name, x.x)?)),
            (Self::LayerNorm, Layout::Tokens) => return Ok(x.with(b.layer_norm(name, x.x)?)),
            (Self::BatchNorm, Layout::Tokens) => (&[0, 2, 1], &[0, 2, 1]),
            (Self::LayerNorm, Layout::Image) => (&[0, 2, 3, 1], &[0, 3, 1, 2]),
        };
        let turned = b.transpose(&format!("{name}.there"), x.x, there)?;
        let normed = match self {
            Self::BatchNorm => b.batch_norm(name, turned)?,
            Self::LayerNorm => b.layer_norm(name, turned)?,
        };
        Ok(x.with(b.transpose(&format!("{name}.back"), normed, back)?))
    }
}

impl Activation {
    fn add(self, b: &mut GraphBuilder, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
        match self {
            Self::Gelu => b.gelu_erf(name, x),
            Self::Silu => b.silu(name, x),
        }
    }
}

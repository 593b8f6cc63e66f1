//! Parts of transformer blocks, shared by families: norms, activations, attention, MLP, and the
//! block they make up: `x + mixer(norm(x))`, then `x + mlp(norm(x))`.
//!
//! | part | on images | on tokens |
//! |---|---|---|
//! | attention | | as ViT |
//! | MLP | 1x1 convolutions | linear layers |
//! | batch norm | as it is | between two transposes |
//! | layer norm | between two transposes | as it is |

use crate::features::{Features, Layout};
use serde::{Deserialize, Serialize};
use vitempo_graph::{Attributes, GraphBuilder, GraphError, OpKind, ValueId};

/// Kind of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// Batch normalisation.
    BatchNorm,
    /// Layer normalisation.
    LayerNorm,
}

/// Kind of activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Gaussian error linear unit.
    Gelu,
    /// Sigmoid linear unit.
    Silu,
}

/// The parts of a block except its token mixer.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub norm: Norm,
    pub activation: Activation,
    /// Hidden channels of the MLP / channels.
    pub mlp_ratio: u8,
}

impl Block {
    /// The block called `name` with a token mixer.
    pub(crate) fn add(
        self,
        b: &mut GraphBuilder,
        name: &str,
        x: Features,
        mix: impl FnOnce(&mut GraphBuilder, Features) -> Result<ValueId, GraphError>,
    ) -> Result<Features, GraphError> {
        let normed = self.norm.add(b, &format!("{name}.norm1"), x)?;
        let mixed = mix(b, normed)?;
        let x = x.with(b.binary(&format!("{name}.residual1"), OpKind::Add, x.x, mixed)?);
        let normed = self.norm.add(b, &format!("{name}.norm2"), x)?;
        let mlp = self.mlp(b, &format!("{name}.mlp"), normed)?;
        Ok(x.with(b.binary(&format!("{name}.residual2"), OpKind::Add, x.x, mlp)?))
    }

    fn mlp(self, b: &mut GraphBuilder, name: &str, x: Features) -> Result<ValueId, GraphError> {
        let hidden = x.channels * usize::from(self.mlp_ratio);
        let layer = |b: &mut GraphBuilder, part: &str, x_in: ValueId, out: usize| match x.layout {
            Layout::Image => b.conv(&format!("{name}.{part}"), x_in, out, 1, 1, 0, 1, true),
            Layout::Tokens => b.linear(&format!("{name}.{part}"), x_in, out, true),
        };
        let wide = layer(b, "fc1", x.x, hidden)?;
        let active = self.activation.add(b, &format!("{name}.act"), wide)?;
        layer(b, "fc2", active, x.channels)
    }
}

/// Multi-head self-attention over tokens: one linear layer for queries, keys and values.
pub(crate) fn self_attention(
    b: &mut GraphBuilder,
    name: &str,
    x: Features,
    heads: usize,
) -> Result<ValueId, GraphError> {
    let qkv = projections(b, name, "qkv", x, heads, 3)?;
    attend(b, name, x, heads, [qkv[0], qkv[1], qkv[2]])
}

/// Attention of queries, keys and values, each N, heads, T, C / heads, and the last projection.
pub(crate) fn attend(
    b: &mut GraphBuilder,
    name: &str,
    x: Features,
    heads: usize,
    [q, k, v]: [ValueId; 3],
) -> Result<ValueId, GraphError> {
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

/// One linear layer for several projections, cut into heads: each N, heads, T, C / heads.
pub(crate) fn projections(
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
    /// Over a tensor whose channels are where this kind of norm expects them: in dimension 1, or
    /// last.
    pub(crate) fn add_plain(
        self,
        b: &mut GraphBuilder,
        name: &str,
        x: ValueId,
    ) -> Result<ValueId, GraphError> {
        match self {
            Self::BatchNorm => b.batch_norm(name, x),
            Self::LayerNorm => b.layer_norm(name, x),
        }
    }

    pub(crate) fn add(
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
        let normed = self.add_plain(b, name, turned)?;
        Ok(x.with(b.transpose(&format!("{name}.back"), normed, back)?))
    }
}

impl Activation {
    pub(crate) fn add(
        self,
        b: &mut GraphBuilder,
        name: &str,
        x: ValueId,
    ) -> Result<ValueId, GraphError> {
        match self {
            Self::Gelu => b.gelu_erf(name, x),
            Self::Silu => b.silu(name, x),
        }
    }
}

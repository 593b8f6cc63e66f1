//! Whether an architecture lies in a hybrid space, and if not, in which respect.

use super::definition::{HybridVit, MixerKind, StageRange};
use super::values::Values;
use super::{Activation, Architecture, Norm, Stage, TokenMixer};
use std::fmt::Display;

/// What is kept of the respect in which an architecture is outside a space.
pub(crate) trait Verdict: Sized {
    fn outside(what: &str, value: &dyn Display, allowed: &dyn Fn() -> String) -> Self;

    /// The same, of a stage.
    fn of_stage(self, stage: usize) -> Self;
}

/// Nothing: a search asks millions of times, and only whether.
struct Outside;

impl Verdict for Outside {
    fn outside(_: &str, _: &dyn Display, _: &dyn Fn() -> String) -> Self {
        Self
    }

    fn of_stage(self, _: usize) -> Self {
        self
    }
}

/// In which respect, in words.
pub(crate) struct Fault {
    pub what: String,
    pub value: String,
    pub allowed: String,
}

impl Verdict for Fault {
    fn outside(what: &str, value: &dyn Display, allowed: &dyn Fn() -> String) -> Self {
        Self { what: what.to_owned(), value: value.to_string(), allowed: allowed() }
    }

    fn of_stage(self, stage: usize) -> Self {
        Self { what: format!("{} of stage {stage}", self.what), ..self }
    }
}

impl HybridVit {
    /// Whether `architecture` is inside.
    pub(crate) fn includes(&self, architecture: &Architecture) -> bool {
        self.fault::<Outside>(architecture).is_none()
    }

    /// The first respect in which `architecture` is outside, if there is one.
    pub(crate) fn fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
        let whole = outside("height", architecture.height, &self.heights)
            .or_else(|| outside("width", architecture.width, &self.widths))
            .or_else(|| other("input_channels", architecture.input_channels, self.input_channels))
            .or_else(|| other("classes", architecture.classes, self.classes))
            .or_else(|| outside("merged_stages", architecture.merged_stages, &self.merged_stages));
        if whole.is_some() {
            return whole;
        }
        let first = usize::from(architecture.merged_stages) - 1;
        let ranges = &self.stages[first..];
        let of_stage = |(index, (stage, range)): (usize, (&Stage, &StageRange))| {
            Some(range.fault::<V>(stage)?.of_stage(first + index + 1))
        };
        other("the number of stages", architecture.stages.len(), ranges.len())
            .or_else(|| architecture.stages.iter().zip(ranges).enumerate().find_map(of_stage))
            .or_else(|| not_rising(&architecture.stages, first))
    }
}

impl StageRange {
    fn fault<V: Verdict>(&self, stage: &Stage) -> Option<V> {
        let Some(channel) = self.channels.position(stage.channels) else {
            return outside("channels", stage.channels, &self.channels);
        };
        let mixer = match stage.token_mixer {
            TokenMixer::SepConv { .. } if !self.token_mixers.contains(&MixerKind::SepConv) => {
                Some(instead("token_mixer", "sep_conv", "attention"))
            }
            TokenMixer::Attention { .. } if !self.token_mixers.contains(&MixerKind::Attention) => {
                Some(instead("token_mixer", "attention", "sep_conv"))
            }
            TokenMixer::SepConv { kernel, expansion } => outside("kernel", kernel, &self.kernels)
                .or_else(|| outside("expansion", expansion, &self.expansions)),
            TokenMixer::Attention { heads, reduction } => {
                outside("heads", heads, &self.heads[channel])
                    .or_else(|| outside("reduction", reduction, &self.reductions))
            }
        };
        mixer
            .or_else(|| outside("depth", stage.depth, &self.depths))
            .or_else(|| outside("mlp_ratio", stage.mlp_ratio, &self.mlp_ratios))
            .or_else(|| match stage.norm {
                norm if self.norms.contains(&norm) => None,
                Norm::BatchNorm => Some(instead("norm", "batch_norm", "layer_norm")),
                Norm::LayerNorm => Some(instead("norm", "layer_norm", "batch_norm")),
            })
            .or_else(|| match stage.activation {
                activation if self.activations.contains(&activation) => None,
                Activation::Gelu => Some(instead("activation", "gelu", "silu")),
                Activation::Silu => Some(instead("activation", "silu", "gelu")),
            })
    }
}

fn instead<V: Verdict>(what: &str, value: &str, allowed: &str) -> V {
    V::outside(what, &value, &|| allowed.to_owned())
}

fn outside<V: Verdict, T: Copy + Into<usize> + Display>(
    what: &str,
    value: T,
    allowed: &Values<T>,
) -> Option<V> {
    let list = || allowed.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
    if allowed.include(value) { None } else { Some(V::outside(what, &value, &list)) }
}

fn other<V: Verdict, T: PartialEq + Display>(what: &str, value: T, allowed: T) -> Option<V> {
    if value == allowed { None } else { Some(V::outside(what, &value, &|| allowed.to_string())) }
}

fn not_rising<V: Verdict>(stages: &[Stage], first: usize) -> Option<V> {
    let fall = stages.windows(2).position(|pair| pair[0].channels >= pair[1].channels)?;
    let allowed = || format!("more than the {} of the stage before", stages[fall].channels);
    Some(V::outside("channels", &stages[fall + 1].channels, &allowed).of_stage(first + fall + 2))
}

//! Checks whether an architecture lies in a hybrid space, and finds the first choice that does not.

use super::definition::{HybridVit, MixerKind, StageRange};
use super::{Architecture, Stage, TokenMixer};
use crate::verdict::{Verdict, instead, other, other_activation, other_norm, outside};

impl HybridVit {
    /// The first respect in which `architecture` is outside, if there is one.
    pub(super) fn first_fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
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
            .or_else(|| other_norm(stage.norm, &self.norms))
            .or_else(|| other_activation(stage.activation, &self.activations))
    }
}

fn not_rising<V: Verdict>(stages: &[Stage], first: usize) -> Option<V> {
    let fall = stages.windows(2).position(|pair| pair[0].channels >= pair[1].channels)?;
    let allowed = || format!("more than the {} of the stage before", stages[fall].channels);
    Some(V::outside("channels", &stages[fall + 1].channels, &allowed).of_stage(first + fall + 2))
}

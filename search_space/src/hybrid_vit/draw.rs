//! Draws from a hybrid space: one member at random, and one that differs from a given one in a
//! single respect.
//!
//! k, height and width are uniform over their values; channels over the sequences that rise; all
//! other choices, stage by stage, over their values.

use super::definition::{HybridVit, MixerKind, StageRange};
use super::{Architecture, Stage, Stages, TokenMixer};
use crate::Generator;
use crate::generator::one_of;

impl HybridVit {
    /// One member at random.
    pub(super) fn draw_any(&self, generator: &mut Generator) -> Architecture {
        let merged_stages = one_of(&self.merged_stages, generator);
        self.draw_merged(merged_stages, generator)
    }

    fn draw_merged(&self, merged_stages: u8, generator: &mut Generator) -> Architecture {
        let (height, width) = (one_of(&self.heights, generator), one_of(&self.widths, generator));
        let mut stages = Stages::new();
        let mut previous = 0;
        for (number, range) in self.stages.iter().enumerate().skip(usize::from(merged_stages) - 1) {
            let channel = self.rising.index(number, previous, generator.unit());
            previous = range.channels[channel];
            stages.push(range.draw(channel, generator));
        }
        Architecture {
            height,
            width,
            input_channels: self.input_channels,
            classes: self.classes,
            merged_stages,
            stages,
        }
    }

    /// `parent` with one choice drawn again; the result may equal the parent, and its channels may
    /// fail to rise.
    pub(super) fn changed(&self, parent: &Architecture, generator: &mut Generator) -> Architecture {
        let mut child = *parent;
        match generator.below(3 + parent.stages.len() as u64) {
            0 => child.height = one_of(&self.heights, generator),
            1 => child.width = one_of(&self.widths, generator),
            2 => child = self.change_merged(parent, generator),
            stage => {
                let position = stage as usize - 3;
                let range = &self.stages[usize::from(parent.merged_stages) - 1 + position];
                range.change(&mut child.stages[position], generator);
            }
        }
        child
    }

    /// Another k: common stages do not change.
    fn change_merged(&self, parent: &Architecture, generator: &mut Generator) -> Architecture {
        let merged_stages = one_of(&self.merged_stages, generator);
        let fresh = self.draw_merged(merged_stages, generator);
        let mut stages = Stages::new();
        for (position, stage) in fresh.stages.iter().enumerate() {
            let inherited =
                (position + usize::from(merged_stages)).checked_sub(parent.merged_stages.into());
            stages.push(inherited.and_then(|i| parent.stages.get(i)).copied().unwrap_or(*stage));
        }
        Architecture { merged_stages, stages, ..*parent }
    }
}

impl Architecture {
    /// Image size and stages from either parent; stages are those of the first parent by number.
    pub(super) fn crossed(&self, other: &Self, generator: &mut Generator) -> Self {
        let mut take = || generator.below(2) == 0;
        let height = if take() { self.height } else { other.height };
        let width = if take() { self.width } else { other.width };
        let mut stages = Stages::new();
        for (position, stage) in self.stages.iter().enumerate() {
            let twin = (position + usize::from(self.merged_stages))
                .checked_sub(other.merged_stages.into())
                .and_then(|i| other.stages.get(i));
            stages.push(if take() { *stage } else { *twin.unwrap_or(stage) });
        }
        Self { height, width, stages, ..*self }
    }
}

impl StageRange {
    /// A stage with the channels of that index and all other choices at random.
    fn draw(&self, channel: usize, generator: &mut Generator) -> Stage {
        Stage {
            channels: self.channels[channel],
            depth: one_of(&self.depths, generator),
            token_mixer: self.draw_mixer(channel, generator),
            norm: one_of(&self.norms, generator),
            activation: one_of(&self.activations, generator),
            mlp_ratio: one_of(&self.mlp_ratios, generator),
        }
    }

    fn draw_mixer(&self, channel: usize, generator: &mut Generator) -> TokenMixer {
        match one_of(&self.token_mixers, generator) {
            MixerKind::SepConv => TokenMixer::SepConv {
                kernel: one_of(&self.kernels, generator),
                expansion: one_of(&self.expansions, generator),
            },
            MixerKind::Attention => TokenMixer::Attention {
                heads: one_of(&self.heads[channel], generator),
                reduction: one_of(&self.reductions, generator),
            },
        }
    }

    /// Draws one choice of a stage again. New channels keep the number of heads where it still
    /// divides them.
    fn change(&self, stage: &mut Stage, generator: &mut Generator) {
        let channel = self.channels.position(stage.channels).unwrap_or(0);
        match generator.below(6) {
            0 => stage.depth = one_of(&self.depths, generator),
            1 => stage.token_mixer = self.draw_mixer(channel, generator),
            2 => stage.norm = one_of(&self.norms, generator),
            3 => stage.activation = one_of(&self.activations, generator),
            4 => stage.mlp_ratio = one_of(&self.mlp_ratios, generator),
            _ => {
                let channel = generator.below(self.channels.len() as u64) as usize;
                stage.channels = self.channels[channel];
                if let TokenMixer::Attention { heads, .. } = &mut stage.token_mixer
                    && !self.heads[channel].include(*heads)
                {
                    *heads = one_of(&self.heads[channel], generator);
                }
            }
        }
    }
}

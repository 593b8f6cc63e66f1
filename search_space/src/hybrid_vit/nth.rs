//! The member of a hybrid space with a given number.

use super::definition::{HybridVit, MixerKind, StageRange};
use super::{Architecture, Stage, Stages, TokenMixer};
use crate::rank::Rank;

impl HybridVit {
    /// The member with this number, below the size of the space.
    pub(super) fn nth_member(&self, mut rank: Rank) -> Option<Architecture> {
        let of_merged = |k: &u8| self.members[usize::from(*k) - 1].first().copied().unwrap_or(0);
        let all: u128 = self.merged_stages.iter().map(of_merged).sum();
        let mut within = Rank(rank.digit(all));
        let merged_stages =
            self.merged_stages[within.group(self.merged_stages.iter().map(of_merged))?];
        let mut stages = Stages::new();
        let mut previous = 0;
        for (number, range) in self.stages.iter().enumerate().skip(usize::from(merged_stages) - 1) {
            let first = range.channels.partition_point(|&channels| channels <= previous);
            let counts = &self.members[number][first..];
            let channel = first + within.group(counts.windows(2).map(|two| two[0] - two[1]))?;
            previous = range.channels[channel];
            // What is left counts choices of this stage times members over the later ones.
            let later = match self.stages.get(number + 1) {
                Some(next) => {
                    let above = next.channels.partition_point(|&channels| channels <= previous);
                    self.members[number + 1][above]
                }
                None => 1,
            };
            let rest = within.digit(later);
            stages.push(range.nth(channel, within)?);
            within = Rank(rest);
        }
        Some(Architecture {
            width: rank.one_of(&self.widths),
            height: rank.one_of(&self.heights),
            input_channels: self.input_channels,
            classes: self.classes,
            merged_stages,
            stages,
        })
    }
}

impl StageRange {
    /// The stage with the channels of that index and this number.
    fn nth(&self, channel: usize, mut rank: Rank) -> Option<Stage> {
        let mlp_ratio = rank.one_of(&self.mlp_ratios);
        let activation = rank.one_of(&self.activations);
        let norm = rank.one_of(&self.norms);
        let depth = rank.one_of(&self.depths);
        let sizes = self.token_mixers.iter().map(|kind| self.mixers(*kind, channel));
        let kind = self.token_mixers[rank.group(sizes)?];
        let token_mixer = match kind {
            MixerKind::SepConv => TokenMixer::SepConv {
                expansion: rank.one_of(&self.expansions),
                kernel: rank.one_of(&self.kernels),
            },
            MixerKind::Attention => TokenMixer::Attention {
                reduction: rank.one_of(&self.reductions),
                heads: rank.one_of(&self.heads[channel]),
            },
        };
        Some(Stage {
            channels: self.channels[channel],
            depth,
            token_mixer,
            norm,
            activation,
            mlp_ratio,
        })
    }
}

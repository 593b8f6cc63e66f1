//! [`HybridVit`]: the checked contents of a hybrid space's TOML, in the form that sampling reads.

use super::MAX_STAGES;
use super::rising::{Rising, sizes};
use crate::checker::{Checker, Heads};
use crate::choices::Choices;
use crate::values::Values;
use crate::{Activation, Norm, SpaceError};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A checked space: no list is empty, and channels can rise from every stage an architecture may
/// begin with.
#[derive(Clone, Debug)]
pub(crate) struct HybridVit {
    pub name: String,
    pub classes: u32,
    pub input_channels: u16,
    pub heights: Values<u16>,
    pub widths: Values<u16>,
    pub merged_stages: Values<u8>,
    pub stages: Vec<StageRange>,
    pub rising: Rising,
    /// By stage and by its first channels: how many architectures there are over the stages from
    /// that one on. Rows end in a zero.
    pub members: Vec<Vec<u128>>,
}

/// The choices of one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageRange {
    pub channels: Values<u16>,
    /// For each of `channels`, the numbers of heads it allows.
    pub heads: Vec<Values<u8>>,
    pub depths: Values<u8>,
    pub token_mixers: Vec<MixerKind>,
    pub norms: Vec<Norm>,
    pub activations: Vec<Activation>,
    pub mlp_ratios: Values<u8>,
    pub kernels: Values<u8>,
    pub expansions: Values<u8>,
    pub reductions: Values<u8>,
}

/// A token mixer without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MixerKind {
    SepConv,
    Attention,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    #[serde(rename = "family")]
    _family: IgnoredAny,
    name: String,
    classes: u32,
    merged_stages: Choices,
    input: Input,
    stages: Vec<StageDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    channels: u32,
    heights: Choices,
    widths: Choices,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageDefinition {
    channels: Choices,
    depths: Choices,
    token_mixers: Vec<MixerKind>,
    norms: Vec<Norm>,
    activations: Vec<Activation>,
    mlp_ratios: Choices,
    kernels: Choices,
    expansions: Choices,
    heads: Heads,
    reductions: Choices,
}

impl StageDefinition {
    /// The choices of the stage with this number, for images with this many remaining pixels on
    /// their shorter side.
    fn checked(
        &self,
        check: &Checker<'_>,
        number: usize,
        shorter_side: u32,
    ) -> Result<StageRange, SpaceError> {
        let key = |name: &str| format!("{name}` of [[stages]] number `{number}");
        let channels: Values<u16> = check.numbers(&key("channels"), &self.channels, 1, 16_384)?;
        let kernels: Values<u8> = check.numbers(&key("kernels"), &self.kernels, 1, 31)?;
        if let Some(even) = kernels.iter().find(|k| *k % 2 == 0) {
            return check.refuse(
                &key("kernels"),
                format!("has {even}"),
                "odd numbers, so that padding keeps height and width",
            );
        }
        Ok(StageRange {
            heads: check.heads(&key("heads"), &self.heads, &channels)?,
            channels,
            depths: check.numbers(&key("depths"), &self.depths, 1, 64)?,
            token_mixers: check.words(
                &key("token_mixers"),
                &self.token_mixers,
                "sep_conv, attention",
            )?,
            norms: check.words(&key("norms"), &self.norms, "batch_norm, layer_norm")?,
            activations: check.words(&key("activations"), &self.activations, "gelu, silu")?,
            mlp_ratios: check.numbers(&key("mlp_ratios"), &self.mlp_ratios, 1, 64)?,
            kernels,
            expansions: check.numbers(&key("expansions"), &self.expansions, 1, 64)?,
            reductions: check.numbers(
                &key("reductions"),
                &self.reductions,
                1,
                shorter_side.min(255),
            )?,
        })
    }
}

impl HybridVit {
    /// Reads and checks a definition; `file` is what errors call it.
    pub(super) fn checked(file: &str, text: &str) -> Result<Self, SpaceError> {
        let check = Checker::new(file);
        let definition: Definition = check.definition(text)?;
        let name = check.name(&definition.name)?;
        let count = definition.stages.len();
        if !(1..=MAX_STAGES).contains(&count) {
            return check.refuse(
                "stages",
                format!("has {count} entries"),
                format!("1 to {MAX_STAGES}"),
            );
        }
        let smallest = 1u32 << count;
        let heights: Values<u16> =
            check.numbers("input.heights", &definition.input.heights, smallest, 16_384)?;
        let widths: Values<u16> =
            check.numbers("input.widths", &definition.input.widths, smallest, 16_384)?;
        let side = heights.iter().chain(widths.iter()).copied().min().map_or(0, u32::from);
        let stage =
            |(i, stage): (usize, &StageDefinition)| stage.checked(&check, i + 1, side >> (i + 1));
        let stages =
            definition.stages.iter().enumerate().map(stage).collect::<Result<Vec<_>, _>>()?;
        let space = Self {
            name,
            classes: check.number("classes", definition.classes, 1_000_000)?,
            input_channels: check.number("input.channels", definition.input.channels, 1_024)?,
            heights,
            widths,
            merged_stages: check.numbers(
                "merged_stages",
                &definition.merged_stages,
                1,
                count as u32,
            )?,
            rising: Rising::new(stages.iter().map(|s| s.channels.to_vec()).collect()),
            members: members(&stages),
            stages,
        };
        match space.merged_stages.iter().find(|k| !space.rising.possible(usize::from(**k) - 1)) {
            Some(k) => check.refuse(
                "channels",
                format!("cannot rise from stage to stage, starting with stage {k}"),
                "values that leave room to rise",
            ),
            None => Ok(space),
        }
    }

    /// Number of architectures; saturates.
    pub(super) fn count(&self) -> u128 {
        let merged = self
            .merged_stages
            .iter()
            .filter_map(|&k| self.members[usize::from(k) - 1].first())
            .fold(0, |sum: u128, &members| sum.saturating_add(members));
        merged.saturating_mul((self.heights.len() * self.widths.len()) as u128)
    }
}

fn members(stages: &[StageRange]) -> Vec<Vec<u128>> {
    let channels: Vec<Vec<u16>> = stages.iter().map(|s| s.channels.to_vec()).collect();
    sizes(&channels, |stage, channel| stages[stage].choices(channel))
}

impl StageRange {
    /// Number of different stages with the channels of that index.
    fn choices(&self, channel: usize) -> u128 {
        let mixers = self.token_mixers.iter().map(|kind| self.mixers(*kind, channel));
        let rest =
            [self.depths.len(), self.norms.len(), self.activations.len(), self.mlp_ratios.len()];
        rest.iter().fold(mixers.sum(), |product: u128, &n| product.saturating_mul(n as u128))
    }

    /// Number of different token mixers of a kind with the channels of that index.
    pub(super) fn mixers(&self, kind: MixerKind, channel: usize) -> u128 {
        let choices = match kind {
            MixerKind::SepConv => self.kernels.len() * self.expansions.len(),
            MixerKind::Attention => self.heads[channel].len() * self.reductions.len(),
        };
        choices as u128
    }
}

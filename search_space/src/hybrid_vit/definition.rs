//! [`HybridVit`]: what the TOML of a hybrid space says, checked, in the shape that sampling reads.

use super::rising::{Rising, sizes};
use super::values::Values;
use super::{Activation, MAX_STAGES, Norm};
use crate::SpaceError;
use crate::choices::Choices;
use serde::Deserialize;

/// The family's name in TOML.
pub(crate) const FAMILY: &str = "hybrid-vit";

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
}

/// What one stage may be.
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
    family: String,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heads {
    max: u8,
    #[serde(default = "one")]
    min_channels: u16,
}

fn one() -> u16 {
    1
}

/// Checks values and remembers which file they are from.
struct Checker<'a> {
    file: &'a str,
}

impl Checker<'_> {
    fn refuse<T>(
        &self,
        key: &str,
        problem: String,
        allowed: impl Into<String>,
    ) -> Result<T, SpaceError> {
        Err(SpaceError::Invalid {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem,
            allowed: allowed.into(),
        })
    }

    /// The values as a smaller type, when all lie in `min..=max`.
    fn numbers<T: TryFrom<u32> + Copy + Into<usize>>(
        &self,
        key: &str,
        choices: &Choices,
        min: u32,
        max: u32,
    ) -> Result<Values<T>, SpaceError> {
        let number = |&value: &u32| match T::try_from(value) {
            Ok(small) if (min..=max).contains(&value) => Ok(small),
            _ => self.refuse(key, format!("has {value}"), format!("{min} to {max}")),
        };
        choices.values().iter().map(number).collect::<Result<_, _>>().map(Values::new)
    }

    fn words<T: PartialEq + Copy>(
        &self,
        key: &str,
        words: &[T],
        known: &str,
    ) -> Result<Vec<T>, SpaceError> {
        let repeated = words.iter().enumerate().any(|(i, word)| words[..i].contains(word));
        match words {
            [] => self.refuse(key, "is empty".to_owned(), format!("one or more of {known}")),
            _ if repeated => self.refuse(
                key,
                "lists a value twice".to_owned(),
                format!("each of {known} at most once"),
            ),
            _ => Ok(words.to_vec()),
        }
    }

    fn stage(
        &self,
        number: usize,
        definition: &StageDefinition,
        shorter_side: u32,
    ) -> Result<StageRange, SpaceError> {
        let key = |name: &str| format!("{name}` of [[stages]] number `{number}");
        let channels: Values<u16> =
            self.numbers(&key("channels"), &definition.channels, 1, 16_384)?;
        let kernels: Values<u8> = self.numbers(&key("kernels"), &definition.kernels, 1, 31)?;
        if let Some(even) = kernels.iter().find(|k| *k % 2 == 0) {
            return self.refuse(
                &key("kernels"),
                format!("has {even}"),
                "odd numbers, so that padding keeps height and width",
            );
        }
        let heads = &definition.heads;
        if heads.max == 0 || heads.min_channels == 0 {
            return self.refuse(
                &key("heads"),
                "has 0".to_owned(),
                "max and min_channels of 1 or more",
            );
        }
        Ok(StageRange {
            heads: channels.iter().map(|&c| heads.of(c)).collect(),
            channels,
            depths: self.numbers(&key("depths"), &definition.depths, 1, 64)?,
            token_mixers: self.words(
                &key("token_mixers"),
                &definition.token_mixers,
                "sep_conv, attention",
            )?,
            norms: self.words(&key("norms"), &definition.norms, "batch_norm, layer_norm")?,
            activations: self.words(&key("activations"), &definition.activations, "gelu, silu")?,
            mlp_ratios: self.numbers(&key("mlp_ratios"), &definition.mlp_ratios, 1, 64)?,
            kernels,
            expansions: self.numbers(&key("expansions"), &definition.expansions, 1, 64)?,
            reductions: self.numbers(
                &key("reductions"),
                &definition.reductions,
                1,
                shorter_side.min(255),
            )?,
        })
    }
}

impl Heads {
    /// The divisors of `channels` up to `max` that leave `min_channels` to each head; 1 in any
    /// case.
    fn of(&self, channels: u16) -> Values<u8> {
        let fits = |&h: &u8| {
            h == 1
                || (channels.is_multiple_of(u16::from(h))
                    && channels / u16::from(h) >= self.min_channels)
        };
        Values::new((1..=self.max).filter(fits).collect())
    }
}

impl HybridVit {
    /// Reads and checks a definition; `file` is what errors call it.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, SpaceError> {
        let toml = |e: toml::de::Error| SpaceError::Toml {
            file: file.to_owned(),
            reason: e.to_string().trim_end().to_owned(),
        };
        let definition: Definition = toml::from_str(text).map_err(toml)?;
        Self::checked(file, &definition)
    }

    fn checked(file: &str, definition: &Definition) -> Result<Self, SpaceError> {
        let check = Checker { file };
        if definition.family != FAMILY {
            return check.refuse(
                "family",
                format!("is `{}`", definition.family),
                format!("`{FAMILY}`"),
            );
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if definition.name.is_empty() || !definition.name.chars().all(plain) {
            return check.refuse(
                "name",
                format!("is `{}`", definition.name),
                "letters, digits, `-`, `_` and `.`, at least one",
            );
        }
        let number = |key, value, max| match value {
            1.. if value <= max => Ok(value),
            _ => check.refuse(key, format!("is {value}"), format!("1 to {max}")),
        };
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
            |(i, stage): (usize, &StageDefinition)| check.stage(i + 1, stage, side >> (i + 1));
        let stages =
            definition.stages.iter().enumerate().map(stage).collect::<Result<Vec<_>, _>>()?;
        let space = Self {
            name: definition.name.clone(),
            classes: number("classes", definition.classes, 1_000_000)?,
            input_channels: number("input.channels", definition.input.channels, 1_024)? as u16,
            heights,
            widths,
            merged_stages: check.numbers(
                "merged_stages",
                &definition.merged_stages,
                1,
                count as u32,
            )?,
            rising: Rising::new(stages.iter().map(|s| s.channels.to_vec()).collect()),
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
    pub(crate) fn size(&self) -> u128 {
        let blocks = |stage: usize, channel: usize| self.stages[stage].choices(channel);
        let channels: Vec<Vec<u16>> = self.stages.iter().map(|s| s.channels.to_vec()).collect();
        let tails = sizes(&channels, blocks);
        let merged = self
            .merged_stages
            .iter()
            .fold(0, |sum: u128, &k| sum.saturating_add(tails[usize::from(k) - 1]));
        merged.saturating_mul((self.heights.len() * self.widths.len()) as u128)
    }
}

impl StageRange {
    /// Number of different stages with the channels of that index.
    fn choices(&self, channel: usize) -> u128 {
        let mixers = self.token_mixers.iter().map(|kind| match kind {
            MixerKind::SepConv => self.kernels.len() * self.expansions.len(),
            MixerKind::Attention => self.heads[channel].len() * self.reductions.len(),
        });
        let rest =
            [self.depths.len(), self.norms.len(), self.activations.len(), self.mlp_ratios.len()];
        rest.iter()
            .fold(mixers.sum::<usize>() as u128, |product, &n| product.saturating_mul(n as u128))
    }
}

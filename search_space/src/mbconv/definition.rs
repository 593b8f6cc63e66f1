//! [`MbConv`]: the checked contents of the TOML of a space of inverted residuals, and the check
//! whether it contains an architecture.

use super::block::{MAX_EXPANSION, MAX_KERNEL};
use super::{Activation, Architecture, Block, MAX_BLOCKS, MAX_STAGES, Stage};
use crate::SpaceError;
use crate::checker::Checker;
use crate::choices::Choices;
use crate::values::Values;
use crate::verdict::{Verdict, other, outside};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A checked space: no list is empty.
#[derive(Clone, Debug)]
pub(crate) struct MbConv {
    pub name: String,
    pub classes: u32,
    pub input_channels: u16,
    pub sizes: Values<u16>,
    pub stems: Values<u16>,
    pub head: u16,
    pub activations: Vec<Activation>,
    pub stages: Vec<StageRange>,
}

/// The choices of one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageRange {
    pub channels: Values<u16>,
    pub stride: u8,
    pub depths: Values<u8>,
    pub activations: Vec<Activation>,
    pub kernels: Values<u8>,
    pub expansions: Values<u8>,
    pub squeezes: Vec<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    #[serde(rename = "family")]
    _family: IgnoredAny,
    name: String,
    classes: u32,
    stem: Choices,
    head: u32,
    activations: Vec<Activation>,
    input: Input,
    stages: Vec<StageDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    channels: u32,
    sizes: Choices,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageDefinition {
    channels: Choices,
    stride: u32,
    depths: Choices,
    activations: Vec<Activation>,
    kernels: Choices,
    expansions: Choices,
    squeeze: Vec<bool>,
}

/// The names of all activations.
const ACTIVATIONS: &str = "relu, relu6, hard_swish, silu";

impl StageDefinition {
    fn checked(&self, check: &Checker<'_>, number: usize) -> Result<StageRange, SpaceError> {
        let key = |name: &str| format!("{name}` of [[stages]] number `{number}");
        let kernels: Values<u8> =
            check.numbers(&key("kernels"), &self.kernels, 3, MAX_KERNEL.into())?;
        if let Some(even) = kernels.iter().find(|k| *k % 2 == 0) {
            return check.refuse(
                &key("kernels"),
                format!("has {even}"),
                "odd numbers, so that padding keeps height and width",
            );
        }
        Ok(StageRange {
            channels: check.numbers(&key("channels"), &self.channels, 1, 16_384)?,
            stride: check.number(&key("stride"), self.stride, 2)?,
            depths: check.numbers(&key("depths"), &self.depths, 1, MAX_BLOCKS as u32)?,
            activations: check.words(&key("activations"), &self.activations, ACTIVATIONS)?,
            kernels,
            expansions: check.numbers(
                &key("expansions"),
                &self.expansions,
                1,
                MAX_EXPANSION.into(),
            )?,
            squeezes: check.words(&key("squeeze"), &self.squeeze, "true, false")?,
        })
    }
}

impl MbConv {
    /// Reads and checks a definition; `file` is what errors call it.
    pub(super) fn checked(file: &str, text: &str) -> Result<Self, SpaceError> {
        let check = Checker::new(file);
        let definition: Definition = check.definition(text)?;
        let count = definition.stages.len();
        if !(1..=MAX_STAGES).contains(&count) {
            return check.refuse(
                "stages",
                format!("has {count} entries"),
                format!("1 to {MAX_STAGES}"),
            );
        }
        let stage = |(i, stage): (usize, &StageDefinition)| stage.checked(&check, i + 1);
        Ok(Self {
            name: check.name(&definition.name)?,
            classes: check.number("classes", definition.classes, 1_000_000)?,
            input_channels: check.number("input.channels", definition.input.channels, 1_024)?,
            sizes: check.numbers("input.sizes", &definition.input.sizes, 1, 16_384)?,
            stems: check.numbers("stem", &definition.stem, 1, 16_384)?,
            head: check.number("head", definition.head, 16_384)?,
            activations: check.words("activations", &definition.activations, ACTIVATIONS)?,
            stages: definition.stages.iter().enumerate().map(stage).collect::<Result<_, _>>()?,
        })
    }

    /// Number of architectures; saturates.
    pub(super) fn count(&self) -> u128 {
        let whole = [self.sizes.len(), self.stems.len(), self.activations.len()];
        let whole = whole.into_iter().map(|n| n as u128);
        let stages = self.stages.iter().map(StageRange::count);
        whole.chain(stages).fold(1, u128::saturating_mul)
    }

    /// The first respect in which `architecture` is outside, if there is one.
    pub(super) fn first_fault<V: Verdict>(&self, a: &Architecture) -> Option<V> {
        let of_stage = |(index, (stage, range)): (usize, (&Stage, &StageRange))| {
            Some(range.fault::<V>(stage)?.of_stage(index + 1))
        };
        outside("image_size", a.image_size, &self.sizes)
            .or_else(|| outside("stem", a.stem, &self.stems))
            .or_else(|| other("head", a.head, self.head))
            .or_else(|| other("input_channels", a.input_channels, self.input_channels))
            .or_else(|| other("classes", a.classes, self.classes))
            .or_else(|| other_of(a.activation, &self.activations))
            .or_else(|| other("the number of stages", a.stages.len(), self.stages.len()))
            .or_else(|| a.stages.iter().zip(&self.stages).enumerate().find_map(of_stage))
    }
}

impl StageRange {
    /// Number of different stages.
    fn count(&self) -> u128 {
        let of_depth = |depth: &u8| self.block_lists(*depth);
        let blocks = self.depths.iter().map(of_depth).fold(0, u128::saturating_add);
        blocks.saturating_mul((self.channels.len() * self.activations.len()) as u128)
    }

    /// Number of different lists of blocks of that depth.
    pub(super) fn block_lists(&self, depth: u8) -> u128 {
        let block = (self.kernels.len() * self.expansions.len() * self.squeezes.len()) as u128;
        block.saturating_pow(depth.into())
    }

    fn fault<V: Verdict>(&self, stage: &Stage) -> Option<V> {
        let depth = u8::try_from(stage.blocks.len()).unwrap_or(u8::MAX);
        outside("channels", stage.channels, &self.channels)
            .or_else(|| other("stride", stage.stride, self.stride))
            .or_else(|| other_of(stage.activation, &self.activations))
            .or_else(|| outside("depth", depth, &self.depths))
            .or_else(|| stage.blocks.iter().find_map(|block| self.fault_of(*block)))
    }

    fn fault_of<V: Verdict>(&self, block: Block) -> Option<V> {
        let squeeze = block.squeeze();
        outside("kernel", block.kernel(), &self.kernels)
            .or_else(|| outside("expansion", block.expansion(), &self.expansions))
            .or_else(|| match self.squeezes.contains(&squeeze) {
                true => None,
                false => Some(V::outside("squeeze", &squeeze, &|| (!squeeze).to_string())),
            })
    }
}

/// An activation that is none of those allowed.
fn other_of<V: Verdict>(activation: Activation, allowed: &[Activation]) -> Option<V> {
    let list = || allowed.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ");
    let known = allowed.contains(&activation);
    (!known).then(|| V::outside("activation", &activation.name(), &list))
}

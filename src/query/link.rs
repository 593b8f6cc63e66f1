//! [`Link`]: one stage of an architecture and what it follows: the unit whose kernels are looked
//! up. And its [`Window`]: the small architectures whose kernels, lowered for real, say what the
//! stage adds.
//!
//! Engines fuse operators across the border between two stages, so what a stage adds depends on the
//! stage before it: on its channels, its kind of mixer and its norm. With K(...) the kernels of an
//! architecture of these stages, the first stage adds K(first), and every later one adds K(before,
//! stage) - K(before), where `before` is reduced to what matters of it. Stem and head stand in both
//! terms and cancel, and so does everything that the border leaves alone; what a stage changes at
//! the end of the one before it is taken off and put on again. Adding up over the stages gives all
//! kernels, as long as a fusion reaches no further than the next stage.

use super::numbers::{Atom, Numbers};
use vitempo_search_space::{Activation, Architecture, Norm, Stage, Stages, TokenMixer};

/// Channels beyond which an engine pads or not: what is no multiple of it is a class of its own.
pub(super) const BLOCK: u16 = 16;
/// Blocks of a stage that are told apart; every further one adds what the third does.
const DEPTH: u8 = 3;

/// What a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The image, in patches of 2^merged pixels.
    Image { merged: u8 },
    /// The stage before.
    Stage(Stage),
}

/// A stage in its place. Its depth is at most three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: Before,
    stage: Stage,
    /// Its numbers.
    pub numbers: Numbers,
}

/// Stages whose kernels have the same forms in the same order, as far as can be told beforehand.
pub(super) type Class = u16;

/// Number of classes, coarse ones included.
pub(super) const CLASSES: usize = 1 << 14;

/// Marks a coarse class.
const COARSE: Class = 1 << 13;
/// Bits of a class that most kernels do not mind: one head, channels that are no whole blocks.
const DETAILS: Class = 1 << 3 | 1 << 4;
/// The same of the stage before, where there is one.
const DETAILS_BEFORE: Class = 1 << 8;
const AFTER_STAGE: Class = 1 << 12;

/// The class without details: what has one form over all of it needs no finer ones.
pub(super) fn coarse(class: Class) -> Class {
    let before = if class & AFTER_STAGE != 0 { DETAILS_BEFORE } else { 0 };
    class & !(DETAILS | before) | COARSE
}

/// Whether a class is a coarse one.
pub(super) fn is_coarse(class: Class) -> bool {
    class & COARSE != 0
}

impl Link {
    /// Which templates it may use.
    pub(super) fn class(&self) -> Class {
        let s = &self.stage;
        let (attention, one_head, reduced) = match s.token_mixer {
            TokenMixer::SepConv { .. } => (false, false, false),
            TokenMixer::Attention { heads, reduction } => (true, heads == 1, reduction != 1),
        };
        let flags = [
            attention,
            s.norm == Norm::LayerNorm,
            s.activation == Activation::Silu,
            !s.channels.is_multiple_of(BLOCK),
            one_head,
            reduced,
        ];
        let own = flags.iter().fold(0, |bits, &flag| bits << 1 | u16::from(flag)) << 2
            | u16::from(s.depth & 3);
        let before = match self.before {
            Before::Image { merged } => u16::from(merged & 15),
            Before::Stage(b) => {
                let flags = [
                    is_attention(&b),
                    b.norm == Norm::LayerNorm,
                    !b.channels.is_multiple_of(BLOCK),
                ];
                16 | flags.iter().fold(0, |bits, &flag| bits << 1 | u16::from(flag))
            }
        };
        before << 8 | own
    }

    /// Whether its mixer is attention.
    pub(super) fn attention(&self) -> bool {
        is_attention(&self.stage)
    }

    /// The architectures whose kernels say what this stage adds: all of the first, less those of
    /// the second. `None` where an image would be too large.
    pub(super) fn window(&self, like: &Architecture) -> Option<Window> {
        let side = |atom, factor: i64| u16::try_from(self.numbers.get(atom) * factor).ok();
        let with = |factor, merged_stages, stages: &[Stage]| {
            let (height, width) =
                (side(Atom::HeightBefore, factor)?, side(Atom::WidthBefore, factor)?);
            Some(Architecture {
                height,
                width,
                merged_stages,
                stages: Stages::try_from(stages.to_vec()).ok()?,
                ..*like
            })
        };
        match self.before {
            Before::Image { merged } => {
                Some(Window { plus: with(1, merged, &[self.stage])?, minus: None })
            }
            Before::Stage(b) => {
                let before = reduced(&b);
                Some(Window {
                    plus: with(2, 1, &[before, self.stage])?,
                    minus: Some(with(2, 1, &[before])?),
                })
            }
        }
    }
}

/// Two small architectures.
pub(super) struct Window {
    pub plus: Architecture,
    pub minus: Option<Architecture>,
}

fn is_attention(stage: &Stage) -> bool {
    matches!(stage.token_mixer, TokenMixer::Attention { .. })
}

/// What of a stage the next one can notice; everything else at its least.
fn reduced(stage: &Stage) -> Stage {
    let token_mixer = match stage.token_mixer {
        TokenMixer::SepConv { .. } => TokenMixer::SepConv { kernel: 3, expansion: 1 },
        TokenMixer::Attention { .. } => TokenMixer::Attention { heads: 1, reduction: 1 },
    };
    Stage { depth: 1, token_mixer, activation: Activation::Gelu, mlp_ratio: 1, ..*stage }
}

/// The stages of an architecture, each with how often it counts.
pub(super) fn links(architecture: &Architecture) -> impl Iterator<Item = (Link, i64)> + '_ {
    architecture.stages.iter().enumerate().flat_map(move |(position, stage)| {
        let (before, features) =
            match position.checked_sub(1).and_then(|p| Some((p, architecture.stages.get(p)?))) {
                None => (
                    Before::Image { merged: architecture.merged_stages },
                    [architecture.input_channels, architecture.height, architecture.width],
                ),
                Some((p, b)) => (Before::Stage(*b), pixels(b.channels, architecture.resolution(p))),
            };
        let choices = match stage.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => [expansion, kernel, stage.mlp_ratio],
            TokenMixer::Attention { heads, reduction } => [heads, reduction, stage.mlp_ratio],
        };
        let numbers = Numbers::new(
            features,
            pixels(stage.channels, architecture.resolution(position)),
            choices,
        );
        let link = move |depth| Link { before, stage: Stage { depth, ..*stage }, numbers };
        depths(stage.depth)
            .into_iter()
            .filter(|(_, times)| *times != 0)
            .map(move |(depth, times)| (link(depth), times))
    })
}

fn pixels(channels: u16, (height, width): (usize, usize)) -> [u16; 3] {
    let side = |pixels: usize| u16::try_from(pixels).unwrap_or(u16::MAX);
    [channels, side(height), side(width)]
}

/// A depth as a sum of depths that are told apart: the blocks of a stage are all alike, and those
/// inside see the same neighbours.
fn depths(depth: u8) -> [(u8, i64); 2] {
    match depth.checked_sub(DEPTH) {
        None | Some(0) => [(depth, 1), (DEPTH, 0)],
        Some(more) => [(DEPTH, 1 + i64::from(more)), (DEPTH - 1, -i64::from(more))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_search_space::Space;

    #[test]
    fn every_stage_is_a_link_and_windows_show_it_at_its_own_size() {
        let space = Space::named("hybrid-vit").expect("a space");
        for architecture in space.sample_many(300, 3).expect("architectures") {
            let links: Vec<_> = links(&architecture).collect();
            assert_eq!(links.len(), architecture.stages.len());
            for (position, (link, times)) in links.iter().enumerate() {
                let window = link.window(&architecture).expect("a window");
                let last = window.plus.stages.len() - 1;
                assert_eq!((window.plus.stages[last], *times), (architecture.stages[position], 1));
                assert_eq!(window.plus.resolution(last), architecture.resolution(position));
                assert_eq!(window.minus.is_some(), position > 0);
                assert!(
                    window.plus.check().is_ok() && window.minus.is_none_or(|m| m.check().is_ok()),
                    "{architecture}"
                );
                assert!(usize::from(link.class()) < CLASSES);
            }
        }
    }

    #[test]
    fn deep_stages_are_sums_of_shallow_ones() {
        for (depth, terms) in
            [(1, vec![(1, 1)]), (2, vec![(2, 1)]), (3, vec![(3, 1)]), (5, vec![(3, 3), (2, -2)])]
        {
            let found: Vec<_> =
                depths(depth).into_iter().filter(|(_, times)| *times != 0).collect();
            assert_eq!(found, terms);
            assert_eq!(found.iter().map(|(d, t)| i64::from(*d) * t).sum::<i64>(), i64::from(depth));
        }
    }
}

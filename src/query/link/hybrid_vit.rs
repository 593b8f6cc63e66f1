//! The parts of a hybrid vision transformer: each stage with the stage before it.
//!
//! Engines fuse operators across the border between two stages, so what a stage adds depends on the
//! stage before it: on its channels, its kind of mixer and its norm. With K(...) the kernels of an
//! architecture of these stages, the first stage adds K(first), and every later one adds K(before,
//! stage) - K(before), where `before` is reduced to the choices that matter. Stem and head are in
//! both terms and cancel, and so does everything that the border does not affect; kernels that a
//! stage changes at the end of the one before it are subtracted and added in their new form. The
//! sum over the stages gives all kernels, as long as no fusion extends beyond the next stage.

use super::{BLOCK, Class, Form, Link, Window, depths};
use crate::query::numbers::{Atom, Numbers, Quantity};
use vitempo_search_space::{
    Activation, Norm,
    hybrid_vit::{Architecture, Stage, Stages, TokenMixer},
};

/// What a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The image, in patches of 2^merged pixels.
    Image { merged: u8 },
    /// The stage before.
    Stage(Stage),
}

/// A stage and what it follows. Its depth is at most three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    before: Before,
    stage: Stage,
}

impl Part {
    pub(super) fn class(&self) -> Class {
        let s = &self.stage;
        let (attention, one_head, reduced) = match s.token_mixer {
            TokenMixer::SepConv { .. } => (false, false, false),
            TokenMixer::Attention { heads, reduction } => (true, heads == 1, reduction != 1),
        };
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
        Form {
            attention,
            layer_norm: s.norm == Norm::LayerNorm,
            silu: s.activation == Activation::Silu,
            channels: s.channels,
            one_head,
            other_tokens: reduced,
            depth: s.depth,
            before,
        }
        .class()
    }

    pub(super) fn quantities(&self) -> Vec<Quantity> {
        if is_attention(&self.stage) {
            Quantity::of_attention()
        } else {
            Quantity::of_convolution()
        }
    }

    pub(super) fn window(&self, numbers: Numbers, like: &Architecture) -> Option<Window> {
        let side = |atom, factor: i64| u16::try_from(numbers.get(atom) * factor).ok();
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
                Some(Window { plus: with(1, merged, &[self.stage])?.into(), minus: None })
            }
            Before::Stage(b) => {
                let before = reduced(&b);
                Some(Window {
                    plus: with(2, 1, &[before, self.stage])?.into(),
                    minus: Some(with(2, 1, &[before])?.into()),
                })
            }
        }
    }
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
        depths(stage.depth).map(move |(depth, times)| {
            let part = super::Part::HybridVit(Part { before, stage: Stage { depth, ..*stage } });
            (Link { numbers, part }, times)
        })
    })
}

fn pixels(channels: u16, (height, width): (usize, usize)) -> [u16; 3] {
    let side = |pixels: usize| u16::try_from(pixels).unwrap_or(u16::MAX);
    [channels, side(height), side(width)]
}

#[cfg(test)]
mod tests {
    use super::super::{CLASSES, links};
    use vitempo_search_space::{Architecture, Space};

    fn of_the_family(architecture: Architecture) -> super::Architecture {
        match architecture {
            Architecture::HybridVit(architecture) => architecture,
            other => panic!("{other} is of the family {}", other.family()),
        }
    }

    #[test]
    fn every_stage_is_a_link_and_windows_show_it_at_its_own_size() {
        let space = Space::named("hybrid-vit").expect("a space");
        for architecture in space.sample_many(300, 3).expect("architectures") {
            let links: Vec<_> = links(&architecture).collect();
            let whole = of_the_family(architecture);
            assert_eq!(links.len(), whole.stages.len());
            for (position, (link, times)) in links.iter().enumerate() {
                let window = link.window(&architecture).expect("a window");
                let plus = of_the_family(window.plus);
                let last = plus.stages.len() - 1;
                assert_eq!((plus.stages[last], *times), (whole.stages[position], 1));
                assert_eq!(plus.resolution(last), whole.resolution(position));
                assert_eq!(window.minus.is_some(), position > 0);
                assert!(
                    window.plus.check().is_ok() && window.minus.is_none_or(|m| m.check().is_ok()),
                    "{architecture}"
                );
                assert!(usize::from(link.class()) < CLASSES);
            }
        }
    }
}

//! [`Link`]: a part of an architecture, the unit whose kernels are looked up; and its [`Window`]:
//! the small architectures whose lowered kernels show what the part adds.
//!
//! Each family has a file that defines its parts. The sum over the parts of an architecture, each
//! times its count, gives all kernels.
//!
//! | family | parts |
//! |---|---|
//! | `hybrid_vit` | each stage with the stage before it |
//! | `isotropic_vit` | the whole model with two or three of its blocks |
//! | `mbconv` | the stem, and each block with the block before it |

mod hybrid_vit;
mod isotropic_vit;
mod mbconv;

use super::numbers::{Numbers, Quantity};
use vitempo_search_space::Architecture;

/// Engines pad channels to multiples of this number; other channels are a class of their own.
pub(super) const BLOCK: u16 = 16;
/// Blocks in a row that are distinguished; every further one adds what the third does.
const DEPTH: u8 = 3;

/// A part in its place. Its depth is at most three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Its numbers.
    pub numbers: Numbers,
    part: Part,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    HybridVit(hybrid_vit::Part),
    IsotropicVit(isotropic_vit::Part),
    MbConv(mbconv::Part),
}

/// Parts whose kernels have the same forms in the same order, as far as can be predicted.
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

/// What of blocks decides their class.
struct Form {
    attention: bool,
    layer_norm: bool,
    silu: bool,
    channels: u16,
    one_head: bool,
    /// Whether there are more or fewer tokens somewhere than the image has.
    other_tokens: bool,
    depth: u8,
    /// Of what is read: 5 bits.
    before: Class,
}

impl Form {
    fn class(&self) -> Class {
        let flags = [
            self.attention,
            self.layer_norm,
            self.silu,
            !self.channels.is_multiple_of(BLOCK),
            self.one_head,
            self.other_tokens,
        ];
        let own = flags.iter().fold(0, |bits, &flag| bits << 1 | u16::from(flag)) << 2
            | u16::from(self.depth & 3);
        self.before << 8 | own
    }
}

impl Link {
    /// Which templates it may use.
    pub(super) fn class(&self) -> Class {
        match &self.part {
            Part::HybridVit(part) => part.class(),
            Part::IsotropicVit(part) => part.class(),
            Part::MbConv(part) => part.class(),
        }
    }

    /// What its kernels' shapes may be made of, the plainest first.
    pub(super) fn quantities(&self) -> Vec<Quantity> {
        match &self.part {
            Part::HybridVit(part) => part.quantities(),
            Part::IsotropicVit(_) => Quantity::of_isotropic(),
            Part::MbConv(_) => Quantity::of_mbconv(),
        }
    }

    /// The architectures whose kernels say what this part adds: all of the first, less those of the
    /// second. `None` where an image would be too large. Input channels and classes are those of
    /// `like`, an architecture of the same space.
    pub(super) fn window(&self, like: &Architecture) -> Option<Window> {
        match (&self.part, like) {
            (Part::HybridVit(part), Architecture::HybridVit(like)) => {
                part.window(self.numbers, like)
            }
            (Part::IsotropicVit(part), _) => Some(part.window()),
            (Part::MbConv(part), Architecture::MbConv(like)) => part.window(like),
            _ => None,
        }
    }
}

/// Two small architectures.
pub(super) struct Window {
    pub plus: Architecture,
    pub minus: Option<Architecture>,
}

/// The parts of an architecture, each with how often it counts.
pub(super) fn links(architecture: &Architecture) -> impl Iterator<Item = (Link, i64)> + '_ {
    match architecture {
        Architecture::HybridVit(architecture) => Links::Stages(hybrid_vit::links(architecture)),
        Architecture::IsotropicVit(architecture) => {
            Links::Depths(isotropic_vit::links(*architecture))
        }
        Architecture::MbConv(architecture) => Links::Blocks(mbconv::links(architecture)),
    }
}

/// The parts of one of the families.
enum Links<S, D, B> {
    Stages(S),
    Depths(D),
    Blocks(B),
}

impl<S, D, B> Iterator for Links<S, D, B>
where
    S: Iterator<Item = (Link, i64)>,
    D: Iterator<Item = (Link, i64)>,
    B: Iterator<Item = (Link, i64)>,
{
    type Item = (Link, i64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Stages(stages) => stages.next(),
            Self::Depths(depths) => depths.next(),
            Self::Blocks(blocks) => blocks.next(),
        }
    }
}

/// A depth as a sum of depths that are distinguished, each with how often it counts: blocks in a
/// row are equal, and inner ones have equal neighbours.
fn depths(depth: u8) -> impl Iterator<Item = (u8, i64)> {
    let terms = match depth.checked_sub(DEPTH) {
        None | Some(0) => [(depth, 1), (DEPTH, 0)],
        Some(more) => [(DEPTH, 1 + i64::from(more)), (DEPTH - 1, -i64::from(more))],
    };
    terms.into_iter().filter(|(_, times)| *times != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_stages_are_sums_of_shallow_ones() {
        for (depth, terms) in
            [(1, vec![(1, 1)]), (2, vec![(2, 1)]), (3, vec![(3, 1)]), (5, vec![(3, 3), (2, -2)])]
        {
            let found: Vec<_> = depths(depth).collect();
            assert_eq!(found, terms);
            assert_eq!(found.iter().map(|(d, t)| i64::from(*d) * t).sum::<i64>(), i64::from(depth));
        }
    }
}

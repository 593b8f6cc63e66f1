//! The parts of a network of inverted residuals: the stem, each block with the block before it, and
//! the head.
//!
//! With K(...) the kernels of a network of these blocks with the smallest head, the stem counts
//! K(stem); every block adds K(before, block) - K(before), where `before` is the stem, or a
//! smallest block that writes the same channels and has a residual connection where the block
//! before has one. The head behind the last block adds what it adds to K(before) in place of the
//! smallest one. The sum over the parts gives all kernels, as long as no fusion extends beyond the
//! next block.
//!
//! Smallest heads cancel, but the working set of an architecture is that of the largest kernel of
//! any part: a true head at the size of the first blocks, where its convolution is the largest of
//! all, would be counted where there is none.

use super::{BLOCK, Class, DETAILS_BEFORE, Link, Window};
use crate::query::numbers::Numbers;
use vitempo_search_space::mbconv::{
    Activation, Architecture, Block, Blocks, Placed, Stage, Stages,
};

/// Channels of the smallest head, a whole block: less than those of any convolution before it.
const SMALLEST_HEAD: u16 = BLOCK;
/// Channels of the stem in a window, so that the block behind it has no residual connection.
const STEMS: [u16; 2] = [32, 64];
/// Marks parts behind a block.
const BEHIND_BLOCK: Class = 1 << 12;

/// A part in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Of the first and of the last convolution.
    activation: Activation,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Everything but the blocks.
    Stem { image_size: u16, channels: u16 },
    /// A block behind the stem.
    First(Placed),
    /// A block behind another one, which has a residual connection or none.
    Later { placed: Placed, residual_before: bool },
    /// The head behind so many channels and pixels.
    Head { channels: u16, size: u16 },
}

impl Part {
    pub(super) fn class(&self) -> Class {
        let bit = |flag: bool, place: u32| Class::from(flag) << place;
        let whole = (self.activation as Class) << 10;
        match self.kind {
            // No block behind the stem has a residual connection before it.
            Kind::Stem { channels, .. } => whole | bit(unaligned(channels), 4) | bit(true, 9),
            Kind::Head { channels, .. } => {
                whole | bit(unaligned(channels), 4) | bit(true, 7) | bit(true, 9)
            }
            Kind::First(placed) => whole | of_block(&placed),
            Kind::Later { placed, residual_before } => {
                whole | of_block(&placed) | bit(residual_before, 9) | BEHIND_BLOCK
            }
        }
    }

    pub(super) fn window(&self, like: &Architecture) -> Option<Window> {
        let with = |size: u16, stem: u16, stages: &[Stage]| {
            let image_size = size.checked_mul(2)?;
            let stages = Stages::try_from(stages.to_vec()).ok()?;
            let activation = self.activation;
            let head = SMALLEST_HEAD;
            Some(Architecture { image_size, stem, head, activation, stages, ..*like })
        };
        match self.kind {
            Kind::Stem { image_size, channels } => {
                let activation = self.activation;
                let stages = Stages::new();
                let (stem, head) = (channels, SMALLEST_HEAD);
                let stem = Architecture { image_size, stem, head, activation, stages, ..*like };
                Some(Window { plus: stem.into(), minus: None })
            }
            Kind::First(placed) => {
                let (size, stem) = (placed.size_in, placed.channels_in);
                let plus = with(size, stem, &[stage(&placed)?])?.into();
                Some(Window { plus, minus: Some(with(size, stem, &[])?.into()) })
            }
            Kind::Later { placed, residual_before } => {
                let other = STEMS[usize::from(placed.channels_in == STEMS[0])];
                let stem = if residual_before { placed.channels_in } else { other };
                let before = before(placed.channels_in, placed.activation)?;
                let plus = with(placed.size_in, stem, &[before, stage(&placed)?])?.into();
                Some(Window { plus, minus: Some(with(placed.size_in, stem, &[before])?.into()) })
            }
            Kind::Head { channels, size } => {
                let stem = STEMS[usize::from(channels == STEMS[0])];
                let minus = with(size, stem, &[before(channels, self.activation)?])?;
                let plus = Architecture { head: like.head, ..minus };
                Some(Window { plus: plus.into(), minus: Some(minus.into()) })
            }
        }
    }
}

fn unaligned(channels: u16) -> bool {
    !channels.is_multiple_of(BLOCK)
}

fn of_block(placed: &Placed) -> Class {
    let block = placed.block;
    let hidden = placed.channels_in.wrapping_mul(block.expansion().into());
    let flags = [
        placed.is_residual(),
        placed.stride == 2,
        block.expansion() == 1,
        unaligned(hidden),
        unaligned(placed.channels),
    ];
    let own = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | Class::from(flag));
    let rest = (placed.activation as Class) << 5 | Class::from(block.squeeze()) << 7;
    let before = if unaligned(placed.channels_in) { DETAILS_BEFORE } else { 0 };
    own | rest | before
}

/// A stage of one block.
fn stage(placed: &Placed) -> Option<Stage> {
    let &Placed { channels, stride, activation, block, .. } = placed;
    let mut blocks = Blocks::new();
    blocks.push(block).then_some(Stage { channels, stride, activation, blocks })
}

/// The smallest stage that writes these channels.
fn before(channels: u16, activation: Activation) -> Option<Stage> {
    let mut blocks = Blocks::new();
    let block = Block::new(3, 1, false)?;
    blocks.push(block).then_some(Stage { channels, stride: 1, activation, blocks })
}

/// The parts of an architecture, each once.
pub(super) fn links(a: &Architecture) -> impl Iterator<Item = (Link, i64)> + '_ {
    let (activation, channels) = (a.activation, a.stem);
    let size = a.stem_size();
    let numbers = Numbers::new(
        [a.input_channels, a.image_size, a.image_size],
        [channels, size, size],
        [0; 3],
    );
    let stem = (numbers, Kind::Stem { image_size: a.image_size, channels });
    let mut previous: Option<Placed> = None;
    let blocks = a.placed().map(move |(_, placed)| {
        let kind = match previous.replace(placed) {
            None => Kind::First(placed),
            Some(before) => Kind::Later { placed, residual_before: before.is_residual() },
        };
        let numbers = Numbers::new(
            [placed.channels_in, placed.size_in, placed.size_in],
            [placed.channels, placed.size, placed.size],
            [placed.block.expansion(), placed.block.kernel(), 0],
        );
        (numbers, kind)
    });
    let (channels, size) =
        a.placed().last().map_or((channels, size), |(_, p)| (p.channels, p.size));
    let numbers = Numbers::new([channels, size, size], [channels, size, size], [0; 3]);
    let head = (numbers, Kind::Head { channels, size });
    std::iter::once(stem).chain(blocks).chain([head]).map(move |(numbers, kind)| {
        (Link { numbers, part: super::Part::MbConv(Part { activation, kind }) }, 1)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{CLASSES, links},
        SMALLEST_HEAD,
    };
    use vitempo_search_space::{Architecture, Space};

    #[test]
    fn every_block_is_a_link_and_windows_show_it_at_its_own_size() {
        let space = Space::named("mbconv").expect("a space");
        for architecture in space.sample_many(300, 3).expect("architectures") {
            let Architecture::MbConv(whole) = architecture else { panic!("{architecture}") };
            let placed: Vec<_> = whole.placed().map(|(_, placed)| placed).collect();
            let links: Vec<_> = links(&architecture).collect();
            assert_eq!(links.len(), 2 + placed.len());
            for (position, (link, times)) in links.iter().enumerate() {
                assert_eq!(*times, 1);
                assert!(usize::from(link.class()) < CLASSES);
                let window = link.window(&architecture).expect("a window");
                assert!(window.plus.check().is_ok(), "{}", window.plus);
                let Architecture::MbConv(plus) = window.plus else { panic!("{}", window.plus) };
                let Some(block) = position.checked_sub(1) else {
                    assert!(window.minus.is_none() && plus.stages.is_empty());
                    continue;
                };
                assert!(window.minus.is_some_and(|minus| minus.check().is_ok()));
                let shown: Vec<_> = plus.placed().map(|(_, placed)| placed).collect();
                if block == placed.len() {
                    assert_eq!((plus.head, shown.len()), (whole.head, 1));
                    assert_eq!(shown[0].channels, placed[block - 1].channels);
                    continue;
                }
                assert_eq!((plus.head, shown.last()), (SMALLEST_HEAD, placed.get(block)));
                assert_eq!(shown.len(), if block == 0 { 1 } else { 2 });
                if block > 0 {
                    assert_eq!(shown[0].is_residual(), placed[block - 1].is_residual());
                }
            }
        }
    }
}

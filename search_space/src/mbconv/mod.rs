//! Convolutional networks of inverted residuals, as MobileNetV2 (Sandler et al., CVPR 2018),
//! MobileNetV3 (Howard et al., ICCV 2019) and once-for-all (Cai et al., ICLR 2020) define them:
//! stages of blocks, where depth, width, image size, and kernel and expansion of every block are
//! choices.
//!
//! | file | answers |
//! |---|---|
//! | `architecture` | one member of the space |
//! | `block` | the choices of one block, in one byte |
//! | `encoding` | its encoding as text |
//! | `definition` | the TOML of a space, and whether an architecture is in it |
//! | `draw` | one random member, and a mutation of one |
//! | `nth` | the member with a number |
//! | `graph` | which operators an architecture runs |

mod architecture;
mod block;
mod definition;
mod draw;
mod encoding;
mod graph;
mod nth;

use crate::encoding::{Cursor, Wrong};
use crate::family::Family;
use crate::rank::Rank;
use crate::verdict::Verdict;
use crate::{Generator, SpaceError};

pub use architecture::{Activation, Architecture, MAX_STAGES, Placed, Stage, Stages};
pub use block::{Block, Blocks, MAX_BLOCKS, Parts, squeezed};
pub(crate) use definition::MbConv;

impl Family for MbConv {
    type Architecture = Architecture;

    const NAME: &'static str = "mbconv";
    const PREFIX: &'static str = encoding::PREFIX;

    fn parse(file: &str, text: &str) -> Result<Self, SpaceError> {
        Self::checked(file, text)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u128 {
        self.count()
    }

    fn nth(&self, rank: Rank) -> Option<Architecture> {
        self.nth_member(rank)
    }

    fn draw(&self, generator: &mut Generator) -> Architecture {
        self.draw_any(generator)
    }

    fn change(&self, parent: &Architecture, generator: &mut Generator) -> Architecture {
        self.changed(parent, generator)
    }

    fn cross(one: &Architecture, other: &Architecture, generator: &mut Generator) -> Architecture {
        one.crossed(other, generator)
    }

    fn read(&self, cursor: &mut Cursor<'_>) -> Result<Architecture, Wrong> {
        Architecture::read(cursor, (self.input_channels, self.classes, self.head))
    }

    fn fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
        self.first_fault(architecture)
    }
}

//! Isotropic vision transformers, as ViT (Dosovitskiy et al.: "An Image is Worth 16x16 Words", ICLR
//! 2021) and DeiT (Touvron et al., ICML 2021) define them: patches of one size, then equal blocks.
//!
//! | file | answers |
//! |---|---|
//! | `architecture` | one member of the space |
//! | `encoding` | its encoding as text |
//! | `definition` | the TOML of a space, and whether an architecture is in it |
//! | `draw` | one random member, and a mutation of one |
//! | `nth` | the member with a number |
//! | `graph` | which operators an architecture runs |

mod architecture;
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

pub use architecture::{Architecture, Pooling};
pub(crate) use definition::IsotropicVit;

impl Family for IsotropicVit {
    type Architecture = Architecture;

    const NAME: &'static str = "isotropic-vit";
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
        Architecture::read(cursor, self.input_channels, self.classes)
    }

    fn fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
        self.first_fault(architecture)
    }
}

//! The hybrid vision transformers of "A Study on Inference Latency for Vision Transformers on
//! Mobile Devices", section 4.1.
//!
//! Stages of patch embedding and blocks; a block mixes tokens by separable convolution or by
//! attention. `docs/search-space.md` lists what the paper leaves open, and our reading of it.
//!
//! | file | answers |
//! |---|---|
//! | `architecture`, `stages` | one member of the space |
//! | `encoding` | its encoding as text |
//! | `definition` | the TOML of a space |
//! | `rising` | channels that rise from stage to stage, each such sequence as likely as any other |
//! | `draw` | one random member, and a mutation of one |
//! | `nth` | the member with a number |
//! | `membership` | whether an architecture is in a space |
//! | `graph`, `blocks` | which operators an architecture runs |

mod architecture;
mod blocks;
mod definition;
mod draw;
mod encoding;
mod graph;
mod membership;
mod nth;
mod rising;
mod stages;

use crate::encoding::{Cursor, Wrong};
use crate::family::Family;
use crate::rank::Rank;
use crate::verdict::Verdict;
use crate::{Generator, SpaceError};

pub use architecture::{Architecture, Stage, TokenMixer};
pub(crate) use definition::HybridVit;
pub use stages::{MAX_STAGES, Stages};

impl Family for HybridVit {
    type Architecture = Architecture;

    const NAME: &'static str = "hybrid-vit";
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

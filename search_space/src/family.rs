//! [`Family`], what each family of architectures implements.

use crate::encoding::{Cursor, Wrong};
use crate::rank::Rank;
use crate::verdict::{Outside, Verdict};
use crate::{Generator, SpaceError};

/// Tries before a mutation that gives nothing new, or nothing inside, draws afresh.
const TRIES: usize = 64;

/// A checked space of one family: what its TOML says.
pub(crate) trait Family: Sized {
    /// One model of the family, a small value with `encode`, `check` and `to_graph`.
    type Architecture: Copy + PartialEq;

    /// Its name, the value of `family` in TOML.
    const NAME: &'static str;
    /// Begins every encoding of the family: two letters and a version.
    const PREFIX: &'static str;

    /// Reads and checks a definition; `file` is what errors call it.
    fn parse(file: &str, text: &str) -> Result<Self, SpaceError>;

    /// The name of the space.
    fn name(&self) -> &str;

    /// Number of architectures; saturates.
    fn size(&self) -> u128;

    /// The member with this number, below [`Family::size`].
    fn nth(&self, rank: Rank) -> Option<Self::Architecture>;

    /// One member at random.
    fn draw(&self, generator: &mut Generator) -> Self::Architecture;

    /// `parent` with one choice drawn again; the result may equal the parent, and may lie outside
    /// the space.
    fn change(&self, parent: &Self::Architecture, generator: &mut Generator) -> Self::Architecture;

    /// Parts of either parent; the result may lie outside.
    fn cross(
        one: &Self::Architecture,
        other: &Self::Architecture,
        generator: &mut Generator,
    ) -> Self::Architecture;

    /// Decodes the text after the prefix of an encoding, whether it is inside the space or not;
    /// input channels and classes are the space's.
    fn read(&self, cursor: &mut Cursor<'_>) -> Result<Self::Architecture, Wrong>;

    /// The first respect in which `architecture` is outside, if there is one.
    fn fault<V: Verdict>(&self, architecture: &Self::Architecture) -> Option<V>;

    /// Whether `architecture` is inside.
    fn includes(&self, architecture: &Self::Architecture) -> bool {
        self.fault::<Outside>(architecture).is_none()
    }

    /// A member that differs from `parent`, a member too, in one respect where that is possible;
    /// `parent` itself when there is no other.
    fn mutate(&self, parent: &Self::Architecture, generator: &mut Generator) -> Self::Architecture {
        for _ in 0..TRIES {
            let child = self.change(parent, generator);
            if child != *parent && self.includes(&child) {
                return child;
            }
        }
        (0..TRIES).map(|_| self.draw(generator)).find(|fresh| fresh != parent).unwrap_or(*parent)
    }
}

//! [`Architecture`], one model of any family, and [`Family`], what a family answers about its
//! spaces. The families are the lines of `families!`.

use crate::encoding::{Cursor, Wrong, decode};
use crate::verdict::{Outside, Verdict};
use crate::{Generator, SpaceError};
use serde::{Deserialize, Serialize};
use std::fmt;
use vitempo_graph::Graph;

/// Tries before a mutation that gives nothing new, or nothing inside, draws afresh.
const TRIES: usize = 64;

/// A checked space of one family: what its TOML says.
pub(crate) trait Family: Sized {
    /// One model of the family, a small value with `encode`, `check` and `to_graph`.
    type Architecture: Copy + PartialEq + Into<Architecture>;

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

    /// One member at random.
    fn draw(&self, generator: &mut Generator) -> Self::Architecture;

    /// `parent` with one respect drawn anew; the result may equal the parent, and may lie outside.
    fn change(&self, parent: &Self::Architecture, generator: &mut Generator) -> Self::Architecture;

    /// Parts of either parent; the result may lie outside.
    fn cross(
        one: &Self::Architecture,
        other: &Self::Architecture,
        generator: &mut Generator,
    ) -> Self::Architecture;

    /// What stands behind the prefix of an encoding, whether it is inside or not; input channels
    /// and classes are the space's.
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

/// The families: a module with `Architecture`, and the [`Family`] in it.
macro_rules! families {
    ($($module:ident: $family:ident,)+) => {
        /// One vision transformer, as a small value without allocations. `Display` and
        /// [`Architecture::encode`] write it as compact text.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(tag = "family", rename_all = "kebab-case")]
        pub enum Architecture {
            $(
                #[doc = concat!("Of the family [`", stringify!($family), "`](crate::", stringify!($module), ").")]
                $family(crate::$module::Architecture),
            )+
        }

        $(impl From<crate::$module::Architecture> for Architecture {
            fn from(architecture: crate::$module::Architecture) -> Self {
                Self::$family(architecture)
            }
        })+

        $(impl fmt::Display for crate::$module::Architecture {
            /// [`crate::Architecture::encode`].
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.encode())
            }
        })+

        impl Architecture {
            /// The name of its family, as in a space's TOML.
            #[must_use]
            pub fn family(&self) -> &'static str {
                match self {
                    $(Self::$family(_) => <crate::$module::$family as Family>::NAME,)+
                }
            }

            /// The family whose encodings begin as `text` does, whether the rest can be read or
            /// not.
            #[must_use]
            pub fn family_of(text: &str) -> Option<&'static str> {
                match text.split('-').next().unwrap_or_default() {
                    $(<crate::$module::$family as Family>::PREFIX => {
                        Some(<crate::$module::$family as Family>::NAME)
                    })+
                    _ => None,
                }
            }

            /// The compact text of this architecture; [`crate::Space::decode`] reads it.
            #[must_use]
            pub fn encode(&self) -> String {
                match self {
                    $(Self::$family(architecture) => architecture.encode(),)+
                }
            }

            /// Whether operators can be built for it at all, in whatever space.
            ///
            /// # Errors
            /// [`SpaceError::Unbuildable`] naming what is wrong and what would be right.
            pub fn check(&self) -> Result<(), SpaceError> {
                match self {
                    $(Self::$family(architecture) => architecture.check(),)+
                }
            }

            /// The operator graph, for one image: input `image`, N, C, H, W, 32-bit floats; output
            /// of shape 1 x classes. Its name is the encoding.
            ///
            /// # Errors
            /// [`SpaceError::Unbuildable`] for an architecture with impossible numbers. One that a
            /// [`crate::Space`] holds has none.
            pub fn to_graph(&self) -> Result<Graph, SpaceError> {
                match self {
                    $(Self::$family(architecture) => architecture.to_graph(),)+
                }
            }
        }

        /// A checked space, of any family.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyFamily {
            $($family(crate::$module::$family),)+
        }

        impl AnyFamily {
            /// Names of the families.
            pub(crate) const NAMES: &'static [&'static str] =
                &[$(<crate::$module::$family as Family>::NAME,)+];

            /// A space of the family of that name; `None` where there is no such family.
            pub(crate) fn parse(
                family: &str,
                file: &str,
                text: &str,
            ) -> Option<Result<Self, SpaceError>> {
                match family {
                    $(<crate::$module::$family as Family>::NAME => Some(
                        <crate::$module::$family as Family>::parse(file, text).map(Self::$family),
                    ),)+
                    _ => None,
                }
            }

            /// The name of its family.
            pub(crate) fn family(&self) -> &'static str {
                match self {
                    $(Self::$family(_) => <crate::$module::$family as Family>::NAME,)+
                }
            }

            pub(crate) fn name(&self) -> &str {
                match self {
                    $(Self::$family(family) => Family::name(family),)+
                }
            }

            pub(crate) fn size(&self) -> u128 {
                match self {
                    $(Self::$family(family) => Family::size(family),)+
                }
            }

            pub(crate) fn draw(&self, generator: &mut Generator) -> Architecture {
                match self {
                    $(Self::$family(family) => Family::draw(family, generator).into(),)+
                }
            }

            pub(crate) fn decode(&self, text: &str) -> Result<Architecture, SpaceError> {
                match self {
                    $(Self::$family(family) => decode(family, text).map(Into::into),)+
                }
            }

            /// As [`Family::mutate`]; a parent of another family stays as it is.
            pub(crate) fn mutate(
                &self,
                parent: &Architecture,
                generator: &mut Generator,
            ) -> Architecture {
                match (self, parent) {
                    $((Self::$family(family), Architecture::$family(parent)) => {
                        family.mutate(parent, generator).into()
                    })+
                    _ => *parent,
                }
            }

            /// As [`Family::cross`]; the first of two families stays as it is.
            pub(crate) fn cross(
                one: &Architecture,
                other: &Architecture,
                generator: &mut Generator,
            ) -> Architecture {
                match (one, other) {
                    $((Architecture::$family(one), Architecture::$family(other)) => {
                        <crate::$module::$family as Family>::cross(one, other, generator).into()
                    })+
                    _ => *one,
                }
            }

            pub(crate) fn fault<V: Verdict>(&self, architecture: &Architecture) -> Option<V> {
                match (self, architecture) {
                    $((Self::$family(family), Architecture::$family(architecture)) => {
                        family.fault(architecture)
                    })+
                    _ => Some(V::outside("family", &architecture.family(), &|| {
                        self.family().to_owned()
                    })),
                }
            }
        }
    };
}

families! {
    hybrid_vit: HybridVit,
    isotropic_vit: IsotropicVit,
}

impl fmt::Display for Architecture {
    /// [`Architecture::encode`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_in_place() {
        assert!(size_of::<Architecture>() <= 104, "{}", size_of::<Architecture>());
    }
}

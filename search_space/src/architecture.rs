//! [`Architecture`], one model of any family, and [`AnyFamily`], a space of any. The families are
//! the lines of `families!`.

use crate::decoders::{self, DenseTask};
use crate::encoding::{Cursor, not_plain};
use crate::family::Family;
use crate::rank::Rank;
use crate::verdict::Verdict;
use crate::{Generator, SpaceError};
use serde::{Deserialize, Serialize};
use std::fmt;
use vitempo_graph::{Graph, GraphBuilder};

/// The families: a module with `Architecture`, the [`Family`] in it, and its name.
macro_rules! families {
    ($($module:ident: $family:ident $name:literal,)+) => {
        /// One model of a search space, as a small value without allocations. `Display` and
        /// [`Architecture::encode`] write it as compact text.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(tag = "family")]
        pub enum Architecture {
            $(
                #[doc = concat!("Of the family [`", stringify!($family), "`](crate::", stringify!($module), ").")]
                #[serde(rename = $name)]
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

            /// Whether its operators can be built in any space.
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

            /// The operator graph of a multi-task model: this architecture without its head, and a
            /// decoder with postprocessing for each task. Input as in [`Architecture::to_graph`],
            /// outputs are pictures. Its name is the encoding and the tasks.
            ///
            /// # Errors
            /// [`SpaceError::Decoders`] without a task or with one twice; as
            /// [`Architecture::to_graph`].
            pub fn to_multi_task_graph(&self, tasks: &[DenseTask]) -> Result<Graph, SpaceError> {
                self.check()?;
                let mut b = GraphBuilder::new(decoders::encoding(&self.encode(), tasks));
                match self {
                    $(Self::$family(architecture) => {
                        let levels = architecture.levels(&mut b)?;
                        decoders::finish(b, &levels, tasks)
                    })+
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

            pub(crate) fn nth(&self, rank: Rank) -> Option<Architecture> {
                match self {
                    $(Self::$family(family) => Family::nth(family, rank).map(Into::into),)+
                }
            }

            pub(crate) fn draw(&self, generator: &mut Generator) -> Architecture {
                match self {
                    $(Self::$family(family) => Family::draw(family, generator).into(),)+
                }
            }

            pub(crate) fn decode(&self, text: &str) -> Result<Architecture, SpaceError> {
                match self {
                    $(Self::$family(family) => decode(family, text),)+
                }
            }

            /// As [`Family::mutate`]; a parent of another family is not changed.
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

            /// As [`Family::cross`]; for parents of two families, the first is returned.
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

/// The architecture of a family that `text` encodes, in any space.
///
/// # Errors
/// [`SpaceError::Encoding`] naming the part that cannot be read.
fn decode<F>(family: &F, text: &str) -> Result<Architecture, SpaceError>
where
    F: Family<Architecture: Into<Architecture>>,
{
    let mut cursor = Cursor::new(text);
    let read = cursor.prefix(F::PREFIX).and_then(|()| family.read(&mut cursor));
    let architecture: Architecture = read
        .map_err(|wrong| cursor.fault(wrong, text, F::PREFIX, Architecture::family_of(text)))?
        .into();
    match cursor.is_plain() {
        true => Ok(architecture),
        false => Err(not_plain(text, &architecture.encode())),
    }
}

families! {
    hybrid_vit: HybridVit "hybrid-vit",
    isotropic_vit: IsotropicVit "isotropic-vit",
    mbconv: MbConv "mbconv",
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

//! The hybrid vision transformers of "A Study on Inference Latency for Vision Transformers on
//! Mobile Devices", section 4.1.
//!
//! Stages of patch embedding and blocks; a block mixes tokens by separable convolution or by
//! attention. What the paper leaves open, and how we read it, is in `docs/search-space.md`.
//!
//! | file | answers |
//! |---|---|
//! | `architecture`, `stages` | what one member of the space is |
//! | `definition` | what the TOML of a space may say |
//! | `rising` | channels that rise from stage to stage, each such sequence as likely as any other |
//! | `draw` | one random member, and one like another |
//! | `membership` | whether an architecture is in a space |
//! | `graph`, `blocks` | which operators an architecture runs |

mod architecture;
mod blocks;
mod definition;
mod draw;
mod graph;
mod membership;
mod rising;
mod stages;
mod values;

pub use architecture::{Activation, Architecture, Norm, Stage, TokenMixer};
pub(crate) use definition::HybridVit;
pub(crate) use membership::Fault;
pub use stages::{MAX_STAGES, Stages};

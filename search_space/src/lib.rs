//! Search spaces of vision transformers as data: what may be sampled, sampling, encodings, and the
//! operator graph of what was sampled.
//!
//! | question | where |
//! |---|---|
//! | which architectures are there? | [`Space`], from `spaces/*.toml` or a file of the user's |
//! | one of them, or a thousand? | [`Space::sample`], [`Space::sample_many`], [`Space::draw`] |
//! | one like this one? | [`Space::mutate`] |
//! | what is one architecture? | [`Architecture`], a small `Copy` value |
//! | how is it written down? | [`Architecture::encode`], [`Space::decode`] |
//! | which operators does it run? | [`Architecture::to_graph`] |
//! | which operators do vision models run that a space may lack? | [`operators::sample`] |
//!
//! Sampling is a function of the space and the seed alone: the generator is [`Generator`], whose
//! numbers are part of this crate's contract.

mod choices;
mod encoding;
mod error;
mod generator;
pub mod hybrid_vit;
pub mod operators;
mod sample;
mod space;

pub use error::SpaceError;
pub use generator::Generator;
pub use hybrid_vit::{Activation, Architecture, Norm, Stage, Stages, TokenMixer};
pub use space::Space;

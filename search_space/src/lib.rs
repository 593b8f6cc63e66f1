//! Search spaces of vision models as data: their definitions, sampling, encodings, and the
//! operator graphs of samples.
//!
//! | question | where |
//! |---|---|
//! | which architectures are there? | [`Space`], from `spaces/*.toml` or a file of the user's |
//! | how are architectures sampled? | [`Space::sample`], [`Space::sample_many`], [`Space::draw`] |
//! | which part of a space is a range of numbers? | [`Space::nth`] |
//! | how are architectures mutated and crossed? | [`Space::mutate`], [`Space::cross`] |
//! | what is one architecture? | [`Architecture`], a small `Copy` value of one of the families |
//! | how is it written as text? | [`Architecture::encode`], [`Space::decode`] |
//! | which operators does it run? | [`Architecture::to_graph`] |
//! | how does an architecture become a multi-task model? | [`Architecture::to_multi_task_graph`] |
//! | which families are there? | [`hybrid_vit`], [`isotropic_vit`], [`mbconv`] |
//! | which operators do vision models run that a space may lack? | [`operators::sample`] |
//!
//! Sampling depends only on the space and the seed: the numbers of [`Generator`] are part of this
//! crate's contract.

mod architecture;
mod checker;
mod choices;
mod decoders;
mod encoding;
mod error;
mod family;
mod features;
mod generator;
pub mod hybrid_vit;
mod inline;
pub mod isotropic_vit;
pub mod mbconv;
pub mod operators;
mod rank;
mod sample;
mod space;
mod transformer;
mod values;
mod verdict;

pub use architecture::Architecture;
pub use decoders::DenseTask;
pub use error::SpaceError;
pub use generator::Generator;
pub use inline::{Inline, Item};
pub use space::Space;
pub use transformer::{Activation, Norm};

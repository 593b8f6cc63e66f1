//! Studies with vitempo: each answers one question about published figures, and a guide quotes its
//! answer. The library does not depend on them.
//!
//! | question | where |
//! |---|---|
//! | how much sooner is an error reached by measuring what shrinks it most? | [`active`] |
//! | which depth and labels does a network show within a frame's deadline? | [`aria`] |
//! | how well is a machine forecast that was left out, from ten latencies or a minute of operators? | [`fleet`] |
//! | how much do two models slow each other down, and how well is that forecast? | [`contention`] |
//! | how do training and lakes scale with rows? datasets of any size, which nobody measured | [`generated`] |
//! | what does a layer of an encoder move and take over sizes of images? | [`encoder`] |
//! | how well is the memory that engines take for models forecast? | [`memory`] |
//! | which of a paper's figures follow from its others, and which contradict each other? | [`papers`] |
//! | how good are placements, on engines, that were chosen from forecasts? | [`placements`] |
//! | how much memory do several models take, and what does too little of it cost? | [`preloading`] |
//! | what share of the time must a class of operators have before its predictor matters? | [`shares`] |
//! | which system serves several models best, on engines? | [`systems`] |
//! | how well is a device forecast that was left out of published latencies? | [`published`] |
//!
//! The program `vitempo-studies` prints them; `studies/README.md` has its commands.

pub mod active;
pub mod aria;
pub mod contention;
pub mod encoder;
pub mod fleet;
pub mod generated;
pub mod memory;
pub mod papers;
pub mod placements;
pub mod preloading;
pub mod published;
pub mod record;
pub mod shares;
pub mod systems;

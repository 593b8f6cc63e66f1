//! Where each part of a model runs, from models and bundles: costs as bundles forecast them, the
//! questions that planners answer about these costs, the parts of a divided model, and what a plan
//! takes when it runs.
//!
//! | question | where |
//! |---|---|
//! | what does a model cost on each processor? | [`costs`] |
//! | which operators on the device, which on a server? | [`split`] |
//! | which stages on which processors, frames overlapping? | [`pipeline`] |
//! | where do an encoder and its decoders run? | [`multitask`] |
//! | which variants of several models, stitched how, on which processors? | [`stitch`] |
//! | several models that wait for each other: which variant of each, where, in which order? | [`multi_dnn`] |
//! | on the device or on a server, at which frequency and input? | [`offload`] |
//! | what do ARIA and the systems it is compared with do over a trace? | [`aria`] |
//! | what are the parts of a divided model, as graphs and as files? | [`partition`], [`parts`] |
//! | what does a plan take on engines? | `live`, with the feature `profile` |

pub mod aria;
pub mod costs;
#[cfg(feature = "profile")]
pub mod live;
pub mod multi_dnn;
pub mod multitask;
pub mod offload;
pub mod partition;
pub mod parts;
pub mod pipeline;
pub mod split;
pub mod stitch;

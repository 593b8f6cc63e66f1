//! Plans from models and bundles: costs as bundles forecast them, planners over these costs, the
//! parts of a divided model, and live runs of plans.
//!
//! | question | where |
//! |---|---|
//! | what does a model cost on each processor? | [`costs`] |
//! | what memory does an engine take for each operator? | [`memory`] |
//! | which operators run on the device, which on a server? | [`split`] |
//! | which stages run on which processors while frames overlap? | [`pipeline`] |
//! | where do an encoder and its decoders run? | [`multitask`] |
//! | which variants of several models, stitched how, on which processors? | [`stitch`] |
//! | several models that wait for each other: which variant of each, where, in which order? | [`multi_dnn`] |
//! | on the device or on a server, at which frequency and input? | [`offload`] |
//! | what does a whole frame of a plan take on a device, with camera, radio and base? | [`frame_energy`] |
//! | which phase of a frame takes how much energy, by a measured trace? | [`dissection`] |
//! | which power does this machine draw over time, by its counters? | `power`, with the feature `profile` |
//! | what are the outcomes of ARIA and the baselines over a trace? | [`aria`] |
//! | what are the parts of a divided model, as graphs and as files? | [`partition`], [`parts`] |
//! | how long does a plan take on engines? | `live`, with the feature `profile` |
//! | how long does an engine take to load a model that nobody loaded? | [`loading`] |
//! | plans for several models as files, runs of them, logs | [`run`] |

pub mod aria;
pub mod costs;
pub mod dissection;
pub mod frame_energy;
#[cfg(feature = "profile")]
pub mod live;
pub mod loading;
pub mod memory;
pub mod multi_dnn;
pub mod multitask;
pub mod offload;
pub mod partition;
pub mod parts;
pub mod pipeline;
#[cfg(feature = "profile")]
pub mod power;
pub mod run;
pub mod split;
pub mod stitch;

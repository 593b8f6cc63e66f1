//! Energy of a vision application on a device: a model by phases, the dissection of measured power
//! traces, and whether to offload.
//!
//! All powers are taken to add up: phases one after the other, beside the camera with its preview,
//! beside the base (system and screen). That is the hypothesis of the AR energy study, section VI;
//! it is not checked here.
//!
//! | question | where |
//! |---|---|
//! | what does a frame draw, at which frequency? | [`FrameEnergy`], [`PowerLaw`], [`Cycles`] |
//! | what drew what in this measured trace? | [`dissect`] |
//! | what would a monitor see of frames like these? | [`Recording`] |
//! | here or on the server, how large, how fast? | [`offload`] |
//! | which phone was measured so? | [`nexus6`] |

pub mod dissect;
pub mod nexus6;
pub mod offload;
mod phases;
mod synthetic;
mod trace;

pub use phases::{Cycles, FrameEnergy, Phase, PowerLaw};
pub use synthetic::Recording;
pub use trace::{EventLog, LoggedPhase, PowerTrace, TraceError};

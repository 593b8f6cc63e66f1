//! Energy of a vision application on a device: the phase model, the analysis of measured power
//! traces, and the choice whether to offload.
//!
//! All powers are assumed to add up: phases one after the other, plus the camera with its preview,
//! plus the base (system and screen). This is the hypothesis of the AR energy study, section VI; it
//! is not tested here.
//!
//! | question | where |
//! |---|---|
//! | how much energy does a frame take, at which frequency? | [`FrameEnergy`], [`PowerLaw`], [`Cycles`] |
//! | which phase took how much of the energy of a measured trace? | [`dissect`] |
//! | which trace does a monitor record for given frames? | [`Recording`] |
//! | device or server, which input size, which camera rate? | [`offload`] |
//! | a phone with published measurements | [`nexus6`] |

pub mod dissect;
pub mod nexus6;
pub mod offload;
mod phases;
mod synthetic;
mod trace;

pub use phases::{Cycles, FrameEnergy, Phase, PowerLaw};
pub use synthetic::Recording;
pub use trace::{EventLog, LoggedPhase, PowerTrace, TraceError};

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
//! | what does the camera draw, and how much of it for frames that are detected? | [`Camera`] |
//! | what does the radio draw from one frame to the next? | [`Radio`] |
//! | at which frequency does a governor let frames run? | [`Processor`] |
//! | device or server, which input size, which camera rate? | [`offload`] |
//! | what does a frame take when a plan runs on the device? | [`offload::OffloadModel::frame_of_plan`] |
//! | a phone with published measurements | [`nexus6`] |

mod camera;
mod conversion;
pub mod dissect;
mod governor;
pub mod nexus6;
pub mod offload;
mod phases;
mod plan;
mod radio;
mod synthetic;
mod trace;

pub use camera::{Camera, CameraUse, Resolution};
pub use conversion::Conversion;
pub use governor::{Demand, Governor, Loads, Processor, Span, Step};
pub use phases::{Background, Cycles, FrameEnergy, Phase, PowerLaw};
pub use plan::{PlanFrame, PlanUse, Running, StageEnergy};
pub use radio::Radio;
pub use synthetic::Recording;
pub use trace::{Averaging, EventLog, LEAST_QUIET, LoggedPhase, PowerTrace, SeenRise, TraceError};

//! A vision foundation model within a frame deadline (ARIA): costs forecast by two bundles, the
//! plan, simulations over a trace, and live runs on two engines.
//!
//! | question | where |
//! |---|---|
//! | encoder and decoder at another resolution? | [`AriaModels`] |
//! | what does each part cost, by two bundles? | [`forecast`](forecast()) |
//! | costs and devices in files? | [`read_costs`], [`read_device`] |
//! | a trained patch flow in a file? | [`FlowFile`], [`read_flow`] |
//! | which plan within the deadline? | [`Scenario`] |
//! | a trace from rendered scenes? | [`Walk`] |
//! | what are the outcomes of ARIA and the baselines over a trace? | [`Simulated`], [`TraceOutcomes`] |
//! | how accurate is their output, by a stand-in model? | [`Accuracy`] |
//! | what happens on engines? | `live`, with the feature `profile` |
//!
//! ```
//! use vitempo::plan::aria::{Scenario, Simulated, Walk};
//! use vitempo::planners::aria::{AriaCosts, Requirements};
//!
//! let (costs, device) = AriaCosts::paper_phone()?;
//! let scenario = Scenario::new(costs, device, Requirements::for_target(33.3e6))?;
//! assert!(scenario.plan.cycles > 0);
//! let walk = Walk { seconds: 2, scene_seconds: 1, ..Walk::default() };
//! let simulated = Simulated::of(&scenario, walk.trace()?, "walk.csv", 0)?;
//! for outcome in &simulated.outcomes.outcomes {
//!     println!("{}: {:.1} % in time", outcome.system.name(), 100.0 * outcome.success_rate());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accuracy;
mod costs;
mod error;
mod files;
mod flow;
#[cfg(feature = "profile")]
pub mod live;
mod models;
mod outcomes;
mod scenario;
mod sizes;
mod walk;

pub use accuracy::{Accuracy, Scored};
pub use costs::{CostNote, CostsRequest, GivenTimes, forecast};
pub use error::AriaCostsError;
pub use files::{AriaFileError, read_costs, read_device};
pub use flow::{FlowError, FlowFigures, FlowFile, FlowLens, FlowProvenance, read_flow};
pub use models::{AriaModels, Features};
pub use outcomes::{PERTURBATION, TraceOutcomes, perturbed};
pub use scenario::{Details, Scenario, Simulated};
pub use sizes::Sizes;
pub use walk::{MOST_SECONDS, Walk, WalkError, trace_frame};

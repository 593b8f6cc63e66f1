//! Adaptation to a new device from about ten end-to-end latencies, with other devices as prior.
//!
//! [`Workload`]s (resource demands of models) and the latencies of other devices ([`Source`]s) ->
//! [`DevicePrior`] (how unit costs differ between devices) -> [`adapt()`] with the new device's
//! latencies -> [`Adapted`], which forecasts any model with an interval.
//!
//! | question | where |
//! |---|---|
//! | which resources does an operator demand? | `resource_demand.rs` |
//! | how long does a model take at given unit costs? | `roofline.rs` |
//! | which covariance do the residuals of operators have? | `kernel.rs` |
//! | which unit costs explain the latencies, with which evidence? | `posterior.rs` |
//! | what is the prior from other devices? | `device_prior.rs` |
//! | which residuals do models and operators have on the sources? | `residuals.rs` |
//! | which sources does the device resemble? | `mixture.rs` |
//! | what is the posterior, and which unit costs does it leave open? | `adapted.rs` |
//! | what is the forecast of a model, with which interval? | `sums.rs` |
//! | how wide is an interval on this device? | `calibration.rs` |
//! | what does the time of one operator consist of? | `explanation.rs` |
//! | which classes of operators do the measured models contain? | `classes.rs` |
//! | which models were measured, on which graphs? | `listed.rs` |
//! | how is it stored in a file and queried with a graph? | `bundle.rs` |
//!
//! Unit costs are logarithms throughout, so that none is ever negative. The page `docs/adapting.md`
//! derives the method.

mod adapted;
mod bundle;
mod calibration;
mod classes;
mod device_prior;
mod explanation;
mod gaussian;
mod kernel;
mod listed;
mod mixture;
mod posterior;
mod residuals;
mod resource_demand;
mod roofline;
mod suggest;
mod sums;
#[cfg(test)]
mod tests;

pub use adapted::{Adapted, Forecast};
pub use bundle::{ADAPTED_VERSION, AdaptedBundle, Provenance};
pub use classes::OperatorClasses;
pub use device_prior::{DevicePrior, Source, Trait};
pub use explanation::Demand;
pub use listed::{ListedGraph, ListedModel, Match};
pub use mixture::{Measured, adapt};
pub use resource_demand::{Group, UnitCost, Workload};
pub use sums::{Charges, Sums};

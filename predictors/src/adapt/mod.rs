//! A new device from a handful of end-to-end latencies: what vitempo knows of operators and of
//! other devices, and ten numbers, make a forecast.
//!
//! [`Workload`]s (what models make a device do) and the latencies that other devices took
//! ([`Source`]s) -> [`Population`] (how unit costs differ between devices) -> [`adapt()`] with the
//! new device's latencies -> [`Adapted`], which forecasts any model with an interval.
//!
//! | question | where |
//! |---|---|
//! | what is an operator charged for? | `charge.rs` |
//! | how long does a model take at given unit costs? | `roofline.rs` |
//! | what do operators cost beyond their unit costs? | `alike.rs` |
//! | which unit costs explain these latencies, and how well? | `posterior.rs` |
//! | what do other devices tell beforehand? | `population.rs` |
//! | what do sources leave unexplained of models and operators? | `beyond.rs` |
//! | which of the known devices is this one like? | `mixture.rs` |
//! | what does it say of a model, and how sure? | `adapted.rs` |
//! | which classes of operators do the measured models contain? | `classes.rs` |
//! | which models were measured, on which graphs? | `listed.rs` |
//! | how is it kept in a file and asked about a graph? | `bundle.rs` |
//!
//! Unit costs are logarithms throughout, so that none is ever negative. The page `docs/adapting.md`
//! derives the method.

mod adapted;
mod alike;
mod beyond;
mod bundle;
mod charge;
mod classes;
mod gaussian;
mod listed;
mod mixture;
mod population;
mod posterior;
mod roofline;
mod suggest;
#[cfg(test)]
mod tests;

pub use adapted::{Adapted, Forecast};
pub use bundle::{ADAPTED_VERSION, AdaptedBundle, Provenance};
pub use charge::{Group, UnitCost, Workload};
pub use classes::OperatorClasses;
pub use listed::{ListedGraph, ListedModel, Match};
pub use mixture::{Measured, adapt};
pub use population::{Population, Source, Trait};

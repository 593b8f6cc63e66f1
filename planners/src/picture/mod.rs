//! Pictures of plans and simulations as SVG; the same input gives the same bytes.
//!
//! | picture | of |
//! |---|---|
//! | [`graph`] | a model's operators, coloured by where they run |
//! | [`gantt`] | which processor worked on which frame when |
//! | [`stages`] | a pipeline's stages in steady state |

mod gantt;
mod graph;
mod svg;

pub use gantt::{gantt, stages};
pub use graph::graph;

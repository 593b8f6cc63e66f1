//! What papers print, recomputed: which figures come out of the formulas and models of vitempo, and
//! which contradict the paper's own numbers.
//!
//! | paper | where |
//! |---|---|
//! | A. Funk, Efficient Multi-Task Learning for Augmented Reality (thesis, Brown University) | [`mtl_thesis`] |
//! | energy and latency of CNN-based object detection on a mobile AR client | [`ar_energy_study`] |
//! | Multi-DNN Inference of Sparse Models on Edge SoCs (SparseLoom) | [`model_stitching`] |
//!
//! The tables are in `studies/data/`, as printed.

pub mod ar_energy_study;
mod claim;
mod error;
pub mod model_stitching;
pub mod mtl_thesis;
mod table;

pub use claim::{Basis, Claim, Figure, Observation, Reproduced, mape};
pub use error::PaperError;
pub use table::{Cell, PaperRow, PaperTable};

//! What papers print, recomputed: which figures come out of the formulas and models here, and which
//! contradict the paper's own numbers.
//!
//! | paper | where |
//! |---|---|
//! | A. Funk, Efficient Multi-Task Learning for Augmented Reality (thesis, Brown University) | [`mtl_thesis`] |
//! | energy and latency of CNN-based object detection on a mobile AR client | [`ar_energy_study`] |
//! | Multi-DNN Inference of Sparse Models on Edge SoCs (SparseLoom) | [`model_stitching`] |
//!
//! The tables ship in `planners/data/`, as printed.

pub mod ar_energy_study;
mod claim;
pub mod model_stitching;
pub mod mtl_thesis;
mod table;

pub use claim::{Claim, Figure, Reproduced, mape};
pub use table::{Cell, PaperRow, PaperTable};

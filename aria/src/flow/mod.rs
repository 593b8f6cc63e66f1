//! [`FlowEstimator`]: estimates the [`PatchFlow`] that the camera's motion explains.
//!
//! | what is known | estimator |
//! |---|---|
//! | how the camera turned | [`CameraFlow`] with [`Structure::Distant`]: exact for rotations, ignores parallax |
//! | and a plane | [`Structure::Plane`]: the homography of that plane |
//! | and the depth of each patch | [`Structure::Depth`]: exact for everything that does not move |
//! | what was learned from pairs of frames | [`LearnedFlow`]: two perceptrons on the features and the motion, trained by [`Training`] |
//! | any of these, chosen when the program runs | [`Flow`], of a [`FlowSource`] |

mod camera;
mod closed;
mod estimator;
mod learned;
mod training;

pub use camera::{CameraMotion, Intrinsics, Matrix, Pose};
pub use closed::{CameraFlow, Structure};
pub use estimator::{Flow, FlowSource};
pub use learned::{LearnedFlow, Shape};
pub use training::{Pair, Training};

pub(crate) use camera::{dot, minus, plus, scaled};

pub use crate::patch_flow::PatchFlow;

use crate::{AriaError, FeatureMap};

/// What estimates a flow.
pub trait FlowEstimator {
    /// The flow of a camera that moved by `motion` since the frame whose features are `source`.
    ///
    /// # Errors
    /// When the features do not have the shape that the estimator was made for.
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError>;
}

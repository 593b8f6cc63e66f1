//! [`FlowChoice`]: what full frames are warped by in a live run.

use super::{
    super::{AriaModels, FlowFile},
    AriaLiveError,
};
use vitempo_aria::{FlowSource, scene::Camera};

/// What full frames are warped by.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowChoice {
    /// The camera's rotation alone.
    Rotation,
    /// The decoder's depth, as it was shown when a full frame was captured.
    Depth,
    /// The features, by a trained flow.
    Learned(FlowFile),
}

/// The flow of a run; without a choice the decoder's depth where it `sees`, otherwise the rotation.
pub fn source(
    choice: Option<&FlowChoice>,
    models: &AriaModels,
    camera: &Camera,
    sees: bool,
) -> Result<FlowSource, AriaLiveError> {
    match choice {
        None if sees => Ok(FlowSource::Depth),
        None | Some(FlowChoice::Rotation) => Ok(FlowSource::Rotation),
        Some(FlowChoice::Depth) if sees => Ok(FlowSource::Depth),
        Some(FlowChoice::Depth) => Err(AriaLiveError::NoDepth),
        Some(FlowChoice::Learned(file)) => {
            let features = models.features()?;
            Ok(FlowSource::Learned(file.behind(&features, camera.grid, camera.intrinsics)?))
        }
    }
}

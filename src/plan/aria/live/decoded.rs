//! [`decoded`]: what a decoder of `vitempo-aria`'s convention says of a frame; [`decoder_inputs`]:
//! the features that any decoder gets.

use std::sync::Arc;
use vitempo_aria::{
    FeatureMap,
    scene::{CELLS, Dense, LABELS},
};
use vitempo_graph::Graph;
use vitempo_profiler::{OutputValues, live::Answer};

/// Why a decoder's output is not depth and labels.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodedError {
    /// An output is missing: the engine may compute nothing.
    #[error("{model}: output {number} is missing")]
    Missing {
        /// Name of the decoder.
        model: String,
        /// Number of the output in the model.
        number: usize,
    },
    /// Numbers are missing or not finite.
    #[error(transparent)]
    Aria(#[from] vitempo_aria::AriaError),
}

/// Whether a decoder's outputs have the shapes of ln of depth and of scores of labels for `patches`.
pub(super) fn tells_depth_and_labels(decoder: &Graph, patches: usize) -> bool {
    let cells = CELLS * CELLS * patches;
    let counts: Vec<usize> = decoder
        .outputs()
        .iter()
        .map(|id| decoder.value(*id).tensor.as_ref().map_or(0, |t| t.shape.iter().product()))
        .collect();
    counts == [cells, LABELS * cells]
}

/// Depth and labels from the outputs of a decoder: ln of depth in metres, then scores of labels, in
/// [`CELLS`] x [`CELLS`] cells for each patch of `features`.
///
/// # Errors
/// [`DecodedError`] where an output is missing or has other numbers.
pub fn decoded(
    decoder: &Graph,
    mut answer: Answer,
    features: &FeatureMap,
) -> Result<Dense, DecodedError> {
    let mut output = |number: usize| {
        let name = decoder.outputs().get(number).map(|id| decoder.value(*id).name.as_str());
        let found = answer.values.iter_mut().find(|value| Some(value.name.as_str()) == name);
        found
            .map(|found| std::mem::take(&mut found.values))
            .ok_or_else(|| DecodedError::Missing { model: decoder.name().to_owned(), number })
    };
    let (log_depths, scores) = (output(0)?, output(1)?);
    let grid = features.grid();
    Ok(Dense::new([CELLS * grid.rows(), CELLS * grid.cols()], log_depths, scores)?)
}

/// The inputs of a decoder: features where an input takes one row for each patch, otherwise zeros,
/// which take as long.
#[must_use]
pub fn decoder_inputs(decoder: &Graph, features: &FeatureMap) -> Vec<Arc<OutputValues>> {
    let tokens = [1, features.grid().patches(), features.width()];
    let one = |id| {
        let value = decoder.value(id);
        let shape = value.tensor.as_ref().map(|t| t.shape.to_vec()).unwrap_or_default();
        let values = if shape == tokens {
            features.values().to_vec()
        } else {
            vec![0.0; shape.iter().product()]
        };
        Arc::new(OutputValues { name: value.name.clone(), shape, values })
    };
    decoder.inputs().iter().map(|id| one(*id)).collect()
}

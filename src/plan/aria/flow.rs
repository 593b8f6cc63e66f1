//! [`FlowFile`]: a trained patch flow (section 4.3.1 of the paper) in a JSON file, with what it was
//! trained on and how wrong it is. [`read_flow`] and [`FlowFile::write`] are checked: what is read is
//! a flow, or an error names the file and what to do.

use super::{AriaFileError, Features};
use serde::{Deserialize, Serialize};
use std::path::Path;
use vitempo_aria::{
    AriaError, Grid, Intrinsics, LearnedFlow,
    flow::{Shape, Training},
};
use vitempo_graph::files::write_whole;

/// The version of the format.
const VERSION: u32 = 1;
/// Slack of fields of view, rad: a lens is kept as focal lengths.
const SLACK_RAD: f64 = 1e-6;

/// A trained flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFile {
    version: u32,
    /// Digest of the encoder's weights ([`Graph::weights`](crate::graph::Graph::weights)).
    encoder: String,
    /// Features per patch of the encoder.
    width: usize,
    latent: usize,
    hidden: usize,
    /// Frames that it was trained on.
    pub lens: FlowLens,
    /// How it was trained, and how wrong it is.
    pub provenance: FlowProvenance,
    parameters: Vec<f32>,
}

/// Frames that a flow was trained on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowLens {
    /// Rows and columns of patches.
    pub grid: [usize; 2],
    /// Least and largest field of view from left to right, rad.
    pub view_rad: [f64; 2],
}

/// How a flow was trained, and how wrong it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowProvenance {
    /// What it was taught by: `features` (the paper's loss) or `depth` (the decoder's).
    pub taught_by: String,
    /// Seed of first weights and of the order of pairs.
    pub seed: u64,
    /// Pairs of frames.
    pub pairs: u64,
    /// Steps of one pair each.
    pub steps: usize,
    /// Length of a step at the beginning.
    pub rate: f32,
    /// Errors on held-out pairs, beside those of other flows.
    pub held_out: Vec<FlowFigures>,
}

/// How wrong a flow is on held-out pairs, where nothing but the camera moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFigures {
    /// What it follows from.
    pub flow: String,
    /// Mean distance to the true source of a patch, in patches.
    pub patches_off: f64,
    /// Mean of 1 - cosine similarity of warped features to the true ones.
    pub one_minus_cosine: f64,
    /// Number of patches.
    pub patches: usize,
}

/// Why a trained flow cannot be used for a network or a camera.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The encoder has other features.
    #[error("the flow was trained on {trained} features per patch, the encoder has {given}")]
    Features {
        /// Of the flow.
        trained: usize,
        /// Of the encoder.
        given: usize,
    },
    /// The encoder has other weights, so that its features mean something else.
    #[error(
        "the flow was trained on another encoder: digest of weights {trained}, not {}",
        given.as_deref().unwrap_or("of a model without weights")
    )]
    Encoder {
        /// Of the flow.
        trained: String,
        /// Of the encoder.
        given: Option<String>,
    },
    /// The encoder's first output has no features of patches.
    #[error("{model}: its first output has no features of patches")]
    NoFeatures {
        /// Name of the encoder.
        model: String,
    },
    /// The camera sees more or less than any that it was trained behind.
    #[error(
        "the flow was trained for fields of view from {:.3} to {:.3} rad, the camera has {given:.3}",
        trained[0], trained[1]
    )]
    Lens {
        /// Least and largest field of view, rad.
        trained: [f64; 2],
        /// Of the camera, rad.
        given: f64,
    },
    /// Its numbers are not those of a flow.
    #[error(transparent)]
    Aria(#[from] AriaError),
}

impl FlowFile {
    /// A flow as it was trained, on features of an encoder whose weights have this digest.
    #[must_use]
    pub fn new(
        learned: &LearnedFlow,
        encoder: String,
        lens: FlowLens,
        provenance: FlowProvenance,
    ) -> Self {
        let Shape { width, latent, hidden } = learned.shape();
        let parameters = learned.parameters().to_vec();
        Self { version: VERSION, encoder, width, latent, hidden, lens, provenance, parameters }
    }

    /// Replaces a file: written beside it, flushed, then renamed.
    ///
    /// # Errors
    /// [`AriaFileError::Write`] naming the file.
    pub fn write(&self, path: &Path) -> Result<(), AriaFileError> {
        let failed = |source| AriaFileError::Write { path: path.to_owned(), source };
        let text = serde_json::to_string(self).map_err(|e| failed(e.into()))?;
        write_whole(path, (text + "\n").as_bytes()).map_err(failed)
    }

    /// The flow for frames of `grid` patches with these features, that a lens in these patches sees.
    ///
    /// # Errors
    /// [`FlowError`] where they are another encoder's, or the lens has another field of view than
    /// any that it was trained behind.
    pub fn behind(
        &self,
        features: &Features,
        grid: Grid,
        intrinsics: Intrinsics,
    ) -> Result<LearnedFlow, FlowError> {
        let Features { width, weights } = features;
        if *width != self.width {
            return Err(FlowError::Features { trained: self.width, given: *width });
        }
        if weights.as_ref() != Some(&self.encoder) {
            let (trained, given) = (self.encoder.clone(), weights.clone());
            return Err(FlowError::Encoder { trained, given });
        }
        let (given, trained) = (intrinsics.field_of_view(grid), self.lens.view_rad);
        if given < trained[0] - SLACK_RAD || given > trained[1] + SLACK_RAD {
            return Err(FlowError::Lens { trained, given });
        }
        Ok(self.learned(grid, intrinsics)?)
    }

    fn learned(&self, grid: Grid, intrinsics: Intrinsics) -> Result<LearnedFlow, AriaError> {
        let Self { width, latent, hidden, .. } = *self;
        let shape = Shape { width, latent, hidden };
        LearnedFlow::new(shape, grid, intrinsics, self.parameters.clone())
    }

    /// Whether all numbers can be used.
    fn checked(self) -> Result<Self, String> {
        if self.version != VERSION {
            return Err(format!("`version` is {}: this vitempo reads {VERSION}", self.version));
        }
        let [least, most] = self.lens.view_rad;
        if !(0.0 < least && least <= most && most < std::f64::consts::PI) {
            return Err(format!("`lens.view_rad` is {least}, {most}: it must rise from 0 to pi"));
        }
        let [rows, cols] = self.lens.grid;
        let grid = Grid::new(rows, cols).map_err(|e| format!("`lens.grid`: {e}"))?;
        let lens = Intrinsics::with_field_of_view(grid, least).map_err(|e| e.to_string())?;
        self.learned(grid, lens).map_err(|e| format!("`parameters`: {e}"))?;
        Ok(self)
    }
}

/// Reads a trained flow.
///
/// # Errors
/// [`AriaFileError`] naming the file and the field that is wrong.
pub fn read_flow(path: &Path) -> Result<FlowFile, AriaFileError> {
    let file: FlowFile = super::files::read(path, "flow")?;
    file.checked().map_err(|reason| AriaFileError::Flow { path: path.to_owned(), reason })
}

impl FlowProvenance {
    /// How a flow was trained; errors on held-out pairs come later.
    #[must_use]
    pub fn of(training: &Training, pairs: u64, taught_by: &str) -> Self {
        let Training { steps, rate, seed, .. } = *training;
        Self { taught_by: taught_by.to_owned(), seed, pairs, steps, rate, held_out: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn grid() -> Grid {
        Grid::new(6, 8).expect("a grid")
    }

    fn file() -> FlowFile {
        let shape = Shape { width: 5, latent: 3, hidden: 4 };
        let lens = Intrinsics::with_field_of_view(grid(), 1.1).expect("a lens");
        let parameters = (0..shape.parameters()).map(|n| (n as f32 * 0.37).sin() / 3.0).collect();
        let learned = LearnedFlow::new(shape, grid(), lens, parameters).expect("a flow");
        let provenance = FlowProvenance {
            held_out: vec![FlowFigures {
                flow: "learned".to_owned(),
                patches_off: 0.25,
                one_minus_cosine: 0.05,
                patches: 7,
            }],
            ..FlowProvenance::of(&Training::default(), 64, "features")
        };
        let lens = FlowLens { grid: [6, 8], view_rad: [0.95, 1.25] };
        FlowFile::new(&learned, "0123".to_owned(), lens, provenance)
    }

    fn features(width: usize, weights: Option<&str>) -> Features {
        Features { width, weights: weights.map(str::to_owned) }
    }

    #[test]
    fn a_written_flow_is_read_back_bit_by_bit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flow.json");
        let file = file();
        file.write(&path).expect("a file");
        let read = read_flow(&path).expect("a flow");
        assert_eq!(read, file);
        let lens = Intrinsics::with_field_of_view(grid(), 1.2).expect("a lens");
        let learned = read.behind(&features(5, Some("0123")), grid(), lens).expect("a flow");
        assert_eq!(learned.parameters(), file.parameters);
        let nowhere = folder.path().join("none/flow.json");
        assert!(matches!(file.write(&nowhere), Err(AriaFileError::Write { .. })));
    }

    #[test]
    fn other_encoders_and_lenses_are_refused() {
        let (file, grid) = (file(), grid());
        let lens = |angle| Intrinsics::with_field_of_view(grid, angle).expect("a lens");
        let own = features(5, Some("0123"));
        for angle in [0.95, 1.25] {
            assert!(file.behind(&own, grid, lens(angle)).is_ok());
        }
        let refused = file.behind(&features(6, Some("0123")), grid, lens(1.1));
        assert_eq!(refused, Err(FlowError::Features { trained: 5, given: 6 }));
        for other in [Some("4567"), None] {
            let refused = file.behind(&features(5, other), grid, lens(1.1));
            assert!(matches!(refused, Err(FlowError::Encoder { .. })), "{refused:?}");
        }
        for angle in [0.94, 1.26] {
            let refused = file.behind(&own, grid, lens(angle));
            let Err(FlowError::Lens { given, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert!((given - angle).abs() < 1e-9, "{given}");
        }
        // The same lens before other patches.
        let fine = Grid::new(12, 16).expect("a grid");
        let same = Intrinsics::with_field_of_view(fine, 0.95).expect("a lens");
        assert!(file.behind(&own, fine, same).is_ok());
    }

    type Change = &'static dyn Fn(&mut Value);

    #[test]
    fn a_broken_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flow.json");
        let whole = json!(file());
        let refused = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            let error = read_flow(&path).expect_err("an error").to_string();
            assert!(error.contains("flow.json"), "{error}");
            error
        };
        let text = whole.to_string();
        for length in [0, 1, text.len() / 2, text.len() - 1] {
            refused(&text[..length]);
        }
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut value = whole.clone();
            change(&mut value);
            refused(&value.to_string())
        };
        let cases: [(&str, Change); 12] = [
            ("`version` is 2", &|file| file["version"] = json!(2)),
            ("`parameters`", &|file| file["hidden"] = json!(8)),
            ("`parameters`", &|file| file["hidden"] = json!(3)),
            ("`parameters`", &|file| file["width"] = json!(u64::MAX)),
            ("`parameters`", &|file| file["latent"] = json!(0)),
            ("`parameters`", &|file| file["parameters"][3] = json!(1e300)),
            ("`parameters`", &|file| file["parameters"] = json!([])),
            ("invalid type", &|file| file["parameters"][3] = json!("one")),
            ("`lens.view_rad`", &|file| file["lens"]["view_rad"] = json!([1.25, 0.95])),
            ("`lens.grid`", &|file| file["lens"]["grid"] = json!([0, 8])),
            ("unknown field", &|file| file["weights"] = json!([])),
            ("missing field", &|file| file["provenance"] = json!({})),
        ];
        for (says, change) in cases {
            let error = changed(change);
            assert!(error.contains(says), "{error} does not say {says}");
        }
        std::fs::write(&path, [0xff, 0xfe]).expect("a file");
        assert!(read_flow(&path).is_err());
    }
}

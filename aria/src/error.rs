//! [`AriaError`]: what can be wrong with what a caller hands over.

/// Why something cannot be done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum AriaError {
    #[error("a grid of {rows} x {cols} patches: both sides must be between 1 and {most}", most = crate::Grid::LONGEST)]
    Grid { rows: usize, cols: usize },
    #[error("an image of {height} x {width} pixels holds no patch of {patch} pixels")]
    Image { height: usize, width: usize, patch: usize },
    #[error("{given} values are not {patches} patches of {width} features")]
    Values { given: usize, patches: usize, width: usize },
    #[error("the features of patch {patch} are not finite: discard this output of the encoder")]
    NotFinite { patch: usize },
    #[error("{what} differ in shape: {left} and {right}")]
    Shapes { what: &'static str, left: String, right: String },
    #[error("{name} is {value}: it must be {must}")]
    Setting { name: &'static str, value: String, must: &'static str },
    #[error("frame {frame} comes after frame {latest}: frames must be handed over in order")]
    Order { frame: u64, latest: u64 },
    #[error("no full frame was handed over yet: nothing can be warped")]
    NoFullFrame,
}

impl AriaError {
    /// A setting out of its range.
    pub(crate) fn setting(
        name: &'static str,
        value: impl std::fmt::Display,
        must: &'static str,
    ) -> Self {
        Self::Setting { name, value: value.to_string(), must }
    }
}

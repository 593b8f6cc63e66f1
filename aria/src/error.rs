//! [`AriaError`]: what is wrong with the values that a caller hands over.

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AriaError {
    /// A grid has no patch, or too many on a side.
    #[error("a grid of {rows} x {cols} patches: both sides must be between 1 and {most}")]
    Grid {
        /// Rows of patches.
        rows: usize,
        /// Columns of patches.
        cols: usize,
        /// The most rows or columns of a grid.
        most: usize,
    },
    /// An image is smaller than one patch.
    #[error("an image of {height} x {width} pixels holds no patch of {patch} pixels")]
    Image {
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
        /// Pixels on a side of a patch.
        patch: usize,
    },
    /// The number of values is not patches times features.
    #[error("{given} values are not {patches} patches of {width} features")]
    Values {
        /// The given values.
        given: usize,
        /// Patches that were expected.
        patches: usize,
        /// Features per patch that were expected.
        width: usize,
    },
    /// An encoder's output has a value that is not finite.
    #[error("the features of patch {patch} are not finite: discard this output of the encoder")]
    NotFinite {
        /// The first such patch.
        patch: usize,
    },
    /// Two values that belong together differ in shape.
    #[error("{what} differ in shape: {left} and {right}")]
    Shapes {
        /// Which values.
        what: &'static str,
        /// The shape of one.
        left: String,
        /// The shape of the other.
        right: String,
    },
    /// A setting is out of its range.
    #[error("{name} is {value}: it must be {must}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The range.
        must: &'static str,
    },
    /// A frame is older than an earlier one.
    #[error("frame {frame} comes after frame {latest}: frames must come in order")]
    Order {
        /// The frame.
        frame: u64,
        /// The newest frame so far.
        latest: u64,
    },
    /// A frame was requested before the first full frame.
    #[error("there is no full frame yet to warp")]
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

//! [`Show`]: how frames are shown: by a system, a part of one, or a baseline.

use crate::{Criterion, FlowSource, Grid, Padding, WholeWindows, scheduler::Priority};

/// A resolution of full frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedLevel {
    /// Patches.
    pub grid: Grid,
    /// Latency of a full frame, ns.
    pub full_ns: u64,
}

/// What the processors finish in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Interval between camera frames, ns.
    pub frame_ns: u64,
    /// Resolutions that full frames may have, rising.
    pub levels: Vec<PacedLevel>,
    /// Rows and columns of patches of the region encoder.
    pub region: [usize; 2],
    /// Cycles per frame.
    pub cycles: usize,
}

/// How frames are shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// Every frame whole, at one resolution.
    Whole(Grid),
    /// Every frame at one resolution, cut into blocks of rows and columns of patches that the
    /// encoder sees one by one; this many of the blocks with most variation once more at the highest
    /// resolution, to which the rest is resampled.
    Blocks(Grid, [usize; 2], usize),
    /// The latest full frame as it is.
    Stale(Pace),
    /// The latest full frame, turned with the camera, and whole windows at blocks of pixels that
    /// moved, the largest first.
    MovedBlocks(Pace),
    /// The runtime.
    Regions(Pace, Choices),
}

/// Parts of the runtime that systems differ in.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// What full frames are warped by.
    pub flow: FlowSource,
    /// Padding around regions.
    pub padding: Padding,
    /// Who is first.
    pub priority: Priority,
    /// Resolutions follow the camera's motion; otherwise the highest.
    pub follows_motion: bool,
    /// Which patches are dynamic.
    pub criterion: Criterion,
    /// Fewest camera frames between full frames that are compared.
    pub apart: u64,
    /// Largest factor by which windows of cycles are larger than the encoder's input.
    pub zoom: usize,
    /// What else than regions cycles bring up to date.
    pub whole_windows: Option<WholeWindows>,
    /// Where the picture has moved by more than this many patches, mean of all, since the latest full
    /// frame was captured, the frame is shown whole at this resolution instead.
    pub whole_beyond: Option<(f32, Grid)>,
}

impl Show {
    /// The pace of full frames and cycles; none where every frame is shown by itself.
    #[must_use]
    pub fn pace(&self) -> Option<&Pace> {
        match self {
            Self::Whole(_) | Self::Blocks(..) => None,
            Self::Stale(pace) | Self::MovedBlocks(pace) | Self::Regions(pace, _) => Some(pace),
        }
    }

    /// Whether resolutions of full frames follow the camera's motion.
    #[must_use]
    pub fn follows_motion(&self) -> bool {
        matches!(self, Self::Regions(_, choices) if choices.follows_motion)
    }
}

//! [`ShownDepths`]: the depth of patches as it was shown of late. A full frame is warped by what was
//! shown when it was captured, and that is some frames ago when it is done.

use std::collections::VecDeque;

/// Depths of patches, m, of the latest frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownDepths {
    latest: VecDeque<(u64, Vec<f32>)>,
}

impl ShownDepths {
    /// Frames that are kept.
    const KEPT: usize = 64;

    /// Of a frame; nothing changes unless it is later than those before.
    pub fn push(&mut self, frame: u64, depths_m: Vec<f32>) {
        if self.latest.back().is_none_or(|(last, _)| *last < frame) {
            self.latest.push_back((frame, depths_m));
            self.latest.drain(..self.latest.len().saturating_sub(Self::KEPT));
        }
    }

    /// What was shown of a frame, or of the one before it where it was left out; `None` where that is
    /// too long ago.
    #[must_use]
    pub fn at(&self, frame: u64) -> Option<&[f32]> {
        let shown = self.latest.iter().rev().find(|(number, _)| *number <= frame);
        shown.map(|(_, depths_m)| &depths_m[..])
    }
}

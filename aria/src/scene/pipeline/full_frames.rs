//! [`FullFrames`]: when full frames are done, by the pace of the processors.

use super::{Pace, Picture};
use crate::{
    AriaError, CameraMotion, Grid, Pose,
    scheduler::{Reaction, ResolutionLadder, ResolutionSettings},
};

/// Full frames in time: each begins with the first camera frame after the one before is done.
pub struct FullFrames<'a> {
    pace: &'a Pace,
    ladder: Option<ResolutionLadder>,
    /// Number and resolution of the latest that is done.
    pub latest: (u64, Grid),
    /// The running one, and the frame from which on it is done.
    running: Option<(u64, usize, u64)>,
    pose: Option<Pose>,
}

impl<'a> FullFrames<'a> {
    /// The first frame is there from the beginning, at the highest resolution.
    pub fn new(pace: &'a Pace, follows_motion: bool) -> Result<Self, AriaError> {
        let latencies: Vec<u64> = pace.levels.iter().map(|level| level.full_ns).collect();
        let ladder = follows_motion.then(|| {
            ResolutionLadder::new(
                &latencies,
                Reaction::default(),
                ResolutionSettings::for_frames_of(pace.frame_ns),
            )
        });
        let Some(highest) = pace.levels.last() else {
            return Err(AriaError::setting("the number of resolutions", 0, "1 or more"));
        };
        let latest = (0, highest.grid);
        Ok(Self { pace, ladder: ladder.transpose()?, latest, running: None, pose: None })
    }

    /// The state at a camera frame.
    pub fn step(&mut self, picture: &Picture) -> Result<(), AriaError> {
        let now = picture.frame;
        if let (Some(ladder), Some(before)) = (&mut self.ladder, &self.pose) {
            ladder.moved(&CameraMotion::between(before, &picture.pose));
        }
        self.pose = Some(picture.pose);
        if let Some((frame, level, _)) = self.running.filter(|(_, _, done)| *done <= now) {
            let level = &self.pace.levels[level];
            self.latest = (frame, level.grid);
            self.running = None;
        }
        if self.running.is_none() && now > 0 {
            let highest = self.pace.levels.len() - 1;
            let level = self.ladder.as_ref().map_or(highest, ResolutionLadder::level).min(highest);
            let took = self.pace.levels[level].full_ns.div_ceil(self.pace.frame_ns.max(1)).max(1);
            self.running = Some((now, level, now + took));
        }
        Ok(())
    }
}

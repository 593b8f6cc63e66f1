//! [`run`]: runs the camera's frames through one system.

use super::{
    AriaLiveError, SystemRun,
    frames::Frames,
    session::{Alone, Session},
};
use crate::plan::aria::Scenario;
use vitempo_aria::scene::{Dense, Score};
use vitempo_planners::aria::{Setup, System};
use vitempo_profiler::live::FrameClock;

/// Runs the camera's frames through a system. `references` are what the network says of every
/// picture; without any, what is shown is not scored.
pub fn run(
    session: &Session<'_>,
    system: System,
    alone: &Alone,
    references: &[Dense],
) -> Result<SystemRun, AriaLiveError> {
    let Scenario { costs, requirements, plan, .. } = session.scenario;
    let mut outcome = SystemRun::new(Setup::of(system, costs, requirements, plan));
    let mut frames = Frames::new(session, outcome.setup.clone(), alone)?;
    let clock = FrameClock::start(requirements.frame_ns as u64);
    let (mut next, mut shown) = (1u64, Vec::new());
    let last = session.request.frames as u64;
    while next <= last {
        let frame = clock.next(next);
        outcome.dropped += frame.min(last + 1) - next;
        next = frame + 1;
        if frame > last {
            break;
        }
        let (this, dense) = frames.frame(frame, &clock, &mut outcome)?;
        outcome.frames.push(this);
        shown.push(dense);
        session.go_on()?;
    }
    frames.finish();
    // Scored when nothing is timed any more.
    for (frame, dense) in outcome.frames.iter_mut().zip(shown) {
        let index = session.video.index(frame.frame as usize);
        frame.shown = dense.zip(references.get(index)).map(|(dense, reference)| {
            let (mut truth, mut same) = (Score::default(), Score::default());
            dense.score(session.video.world(), &session.video.pictures()[index], &mut truth);
            dense.compare(reference, &mut same);
            [truth, same]
        });
    }
    Ok(outcome)
}

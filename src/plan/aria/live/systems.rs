//! [`run`]: runs the camera's frames through one system.

use super::{
    AriaLiveError, SystemRun,
    frames::Frames,
    session::{FULL, REGIONS, Session},
};
use crate::plan::aria::Scenario;
use vitempo_planners::aria::{Setup, System};
use vitempo_profiler::live::FrameClock;

/// Runs the camera's frames through a system.
pub fn run(session: &Session<'_>, system: System) -> Result<SystemRun, AriaLiveError> {
    let Scenario { costs, requirements, plan, .. } = session.scenario;
    let setup = Setup::of(system, costs, requirements, plan);
    let mut outcome = SystemRun::new(system);
    let mut frames = Frames::new(session, &setup)?;
    let clock = FrameClock::start(requirements.frame_ns as u64);
    let mut next = 1u64;
    while next <= session.request.frames as u64 {
        let frame = clock.next(next);
        outcome.dropped += frame - next;
        next = frame + 1;
        frames.full_frames(&clock, frame, &mut outcome)?;
        match system {
            System::NpuOnly => {
                let level = setup.levels.first().copied().unwrap_or(0).min(session.levels - 1);
                session.level_ticket(level, REGIONS, frame as usize)?.wait()?;
            }
            System::MobiSrLike => blocks(session, &setup, frame as usize, &clock)?,
            System::Base => frames.matched_blocks(&setup, frame as usize, &mut outcome)?,
            _ => frames.aria(frame, &clock, &mut outcome)?,
        }
        outcome.latency_ns.push(clock.now_ns().saturating_sub(clock.time_of(frame)));
        session.go_on()?;
    }
    frames.finish();
    Ok(outcome)
}

/// Runs a frame as blocks on both processors at the same time: as many of the plan's regions as
/// cover the same patches.
fn blocks(
    session: &Session<'_>,
    setup: &Setup,
    frame: usize,
    clock: &FrameClock,
) -> Result<(), AriaLiveError> {
    let region = &session.scenario.plan.region;
    let scaled = |blocks: u64| {
        (blocks as usize * setup.region.rows * setup.region.cols)
            .div_ceil(region.rows * region.cols)
    };
    let share = [(REGIONS, scaled(setup.blocks[0])), (FULL, scaled(setup.blocks[1]))];
    let begun = clock.now_ns();
    let processors =
        share.iter().flat_map(|(processor, count)| (0..*count).map(move |_| *processor));
    let tickets = processors.map(|processor| {
        Ok((processor, session.region_ticket(processor, frame, session.some_window())?))
    });
    let mut full_ns = 0;
    for (processor, ticket) in tickets.collect::<Result<Vec<_>, AriaLiveError>>()? {
        let answer = ticket.wait()?;
        full_ns += if processor == FULL { answer.busy_ns } else { 0 };
    }
    clock.wait_until(begun + (full_ns as f64 * session.slowdown(frame)) as u64);
    Ok(())
}

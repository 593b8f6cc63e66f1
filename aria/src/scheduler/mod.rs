//! Decides what runs next, so that every frame is ready in time (section 4.4).
//!
//! | question | where |
//! |---|---|
//! | how many cycles of the region encoder fit a frame? | [`CycleBudget`] |
//! | what is the latency of a processor now, while it throttles and recovers? | [`LatencyProfile`] |
//! | which regions get the cycles of this frame? | [`CyclePlanner`] |
//! | at which resolution does the next full frame run? | [`ResolutionLadder`] |
//!
//! If no cycle fits beside a full frame of many patches, a lower resolution leaves time for one, so
//! that no region waits for ever.
//!
//! A frame waits only for the processor of the regions. The latency of full frames does not affect
//! its cycles, and is not bounded.

mod cycles;
mod priority;
mod profile;
mod resolution;

pub use cycles::{
    Bounds, CycleBounds, CycleBudget, MOST_FRAMES_WITHOUT_CYCLE, cycles, identified_by,
};
pub use priority::{Cycle, CyclePlanner, Priority, Request};
pub use profile::{LatencyProfile, Reaction};
pub use resolution::{MotionWeights, ResolutionLadder, ResolutionSettings};

//! What to run next, so that every frame is ready in time (section 4.4).
//!
//! | question | where |
//! |---|---|
//! | how many cycles of the region encoder fit a frame? | [`CycleBudget`] |
//! | what does a processor take now, as it throttles and recovers? | [`LatencyProfile`] |
//! | which regions get the cycles of this frame? | [`CyclePlanner`] |
//! | at which resolution does the next full frame run? | [`ResolutionLadder`] |
//!
//! Where no cycle fits beside a full frame's many patches, a lower resolution leaves time for one:
//! regions must not wait for ever.
//!
//! A frame waits for the processor of the regions only. Nothing of what decides its cycles knows
//! the latency of full frames: they may take as long as they like.

mod cycles;
mod priority;
mod profile;
mod resolution;

pub use cycles::{Bounds, CycleBounds, CycleBudget, PATIENCE, cycles, identified_by};
pub use priority::{Cycle, CyclePlanner, Priority, Request};
pub use profile::{LatencyProfile, Reaction};
pub use resolution::{MotionWeights, ResolutionLadder, ResolutionSettings};

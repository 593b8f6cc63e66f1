//! The runtime of a vision foundation model within a frame deadline, after ARIA (Jung et al.,
//! `MobiSys` 2025). One processor encodes full frames at a low rate, another encodes the regions
//! that move in every frame, and the features are warped and merged. This crate runs between the
//! encoders and the decoder, on one core of a phone.
//!
//! | question | where |
//! |---|---|
//! | what is a frame? | [`Grid`], [`FeatureMap`] |
//! | where was each patch, as the camera moved? | [`flow`] |
//! | which features does the earlier frame predict for this one? | [`Warped`] |
//! | which patches moved? | [`identify`](identify()) |
//! | which regions do they form? | [`group`] |
//! | where did they come from? | [`matches()`] |
//! | where are they now, and what must the encoder see of them? | [`Tracker`], [`Padding`] |
//! | which of them are updated in this frame, and what runs next? | [`scheduler`] |
//! | all of that for an application | [`Runtime`] |
//! | how accurate is it in scenes with known truth? | [`scene`] |
//!
//! The crate reads no clock, starts no thread and loads no model: callers pass times in and get
//! plans back.

mod aligned;
mod candidates;
mod error;
mod features;
pub mod flow;
mod grid;
mod identify;
mod instructions;
mod matching;
mod merged;
mod patch_flow;
mod quantized;
mod random;
mod regions;
mod runtime;
pub mod scene;
pub mod scheduler;
mod simd;
mod spare;
mod sweep;
mod tracking;
mod view;
mod votes;
mod warp;

pub use error::AriaError;
pub use features::FeatureMap;
pub use flow::{
    CameraFlow, CameraMotion, Flow, FlowEstimator, FlowSource, Intrinsics, LearnedFlow, PatchFlow,
    Pose, Structure,
};
pub use grid::{Grid, PatchSet, Window};
pub use identify::{Criterion, Identified, THRESHOLD, identify};
pub use instructions::{Instructions, TOLERANCE};
pub use matching::{Match, matches, matches_and_votes};
pub use regions::{Group, group};
pub use runtime::{FAR_APART, FramePlan, Runtime, Settings, WholeWindows};
pub use sweep::Search;
pub use tracking::{FullFrames, Padding, Region, Tracker, Tracking, Velocity};
pub use view::{CHANNELS, Frame, View};
pub use votes::Votes;
pub use warp::Warped;

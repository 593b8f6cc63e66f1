//! Runs plans on engines, of several models or of one that is divided: each processor an engine on
//! cores of its own with one queue, queries that arrive as the plan says, subgraphs loaded within a
//! budget.
//!
//! | question | where |
//! |---|---|
//! | a plan as a file | [`RunPlan`], [`RunPlan::of`] |
//! | the same of one model, over several processors | [`RunPlan::of_pipeline`], [`RunPlan::of_placement`] |
//! | when do queries arrive, and which way do they take? | [`schedule`], [`Routes`] |
//! | which subgraphs are in memory, and which make room? | [`memory`] |
//! | the run | `run`, with the feature `profile` |
//! | what happened to each query | [`RunLog`] |
//! | measured figures beside the plan's forecast | [`Summary`] |
//! | the log in the simulator | [`replay()`] |
//!
//! Queues, priorities and the choice of ways are those of the planner
//! ([`vitempo_planners::multi_dnn::Dispatcher`], [`vitempo_planners::multi_dnn::Expectation`]), so
//! that the simulator and the engines differ in times alone. Times are in ns.

mod check;
mod divided;
#[cfg(feature = "profile")]
mod engines;
mod error;
#[cfg(feature = "profile")]
mod execution;
mod file;
#[cfg(feature = "profile")]
mod header;
mod log;
mod make;
pub mod memory;
mod replay;
mod routes;
#[cfg(feature = "profile")]
mod runtime;
pub mod schedule;
#[cfg(feature = "profile")]
mod session;
mod summary;
#[cfg(feature = "profile")]
mod task_models;

pub use divided::DividedModel;
pub use error::RunError;
#[cfg(feature = "profile")]
pub use execution::{can_evict, run};
pub use file::{
    CostsOrigin, LoadingOrigin, NO_DEADLINE_NS, PhaseTask, PlanForecast, PlanPhase, PlanPiece,
    PlanProcessor, PlanSubgraph, PlanTask, PlanVariant, PlanWay, RunPlan, TaskForecast,
};
pub use log::{
    LoadWhen, LogHeader, LogLane, LogProcessor, Outcome, PieceRecord, QueryRecord, RunEvent, RunLog,
};
pub use make::Made;
pub use replay::{ReplayedLog, ReplayedTask, replay};
pub use routes::{Route, Routes};
pub use schedule::Limit;
#[cfg(feature = "profile")]
pub use session::RunOptions;
pub use summary::{Deviation, EngineLoss, EngineMemory, Summary, TaskSummary};

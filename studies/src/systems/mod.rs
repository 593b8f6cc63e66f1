//! All systems for several models at once, on engines: the stitching paper's seven and the planner
//! of [`vitempo::plan::multi_dnn`], over the paper's 5 x 5 grid of objectives and every order of
//! arrival. [`measure`] runs each distinct plan once and writes a [`Record`] of its latencies;
//! [`score`] counts violations of every objective in them, beside what the simulator expected.
//! Times are in ns, accuracies in basis points.
//!
//! | question | where |
//! |---|---|
//! | which plans are there, and how do they run? | [`measure`] |
//! | which system violates least, and how fast is it? | [`score`] |

pub mod measure;
pub mod score;

use serde::{Deserialize, Deserializer, Serialize};
use vitempo::plan::run::{PlanProcessor, PlanWay};

/// Everything that was planned and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The device.
    pub device: String,
    /// The processors.
    pub processors: Vec<PlanProcessor>,
    /// Hand-over of a subgraph in all costs, ns, by processor; `None`: not known, in no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over_ns: Option<Vec<u64>>,
    /// Runs of every order of arrival, one after the other, and runs with many waiting queries.
    pub rounds: usize,
    /// Queries of each task that wait from the start of these, for queries per second.
    pub saturation: usize,
    /// One per number of tasks.
    pub studies: Vec<TasksStudy>,
}

/// The first tasks of a zoo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TasksStudy {
    /// Their names.
    pub tasks: Vec<String>,
    /// The grid.
    pub configurations: Vec<Configuration>,
    /// The plans that systems make for it, each once.
    pub plans: Vec<PlanRecord>,
}

/// One pair of objectives for each task, and what systems plan for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// By task: least accuracy, largest latency.
    pub objectives: Vec<(u32, u64)>,
    /// By system; those that cannot run are left out.
    pub systems: Vec<Planned>,
    /// Queries over all orders that violate their objective in every plan, by the cost model.
    pub least_violated: u64,
}

/// A system's plan for a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the system.
    pub system: String,
    /// Index of its plan.
    pub plan: usize,
    /// Queries over all orders that violate their objective in the simulator.
    pub violated: u64,
    /// Queries per second in the simulator, when saturated.
    pub queries_per_s: f64,
}

/// A plan and its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// By task, its ways.
    pub ways: Vec<Vec<PlanWay>>,
    /// By task; the lowest is next.
    pub priorities: Vec<u32>,
    /// Queries that arrived at once, in every order; empty before it ran.
    pub at_once: Vec<Query>,
    /// Queries of each run with many waiting queries.
    pub waiting: usize,
    /// Time from the start to the last result of each of these runs.
    #[serde(alias = "span_ns", deserialize_with = "one_or_several")]
    pub spans_ns: Vec<u64>,
    /// Largest difference of results from those of whole models, as a share of the largest value.
    pub apart: Option<f64>,
}

/// Older records have one run with many waiting queries.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Spans {
        One(u64),
        Several(Vec<u64>),
    }
    Ok(match Spans::deserialize(from)? {
        Spans::One(ns) => vec![ns],
        Spans::Several(ns) => ns,
    })
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// Counted from 0 over all orders, then all orders again.
    pub round: usize,
    /// Index of its task.
    pub task: usize,
    /// Index of the task's way.
    pub way: usize,
    /// From arrival to result; `None`: lost or failed.
    pub latency_ns: Option<u64>,
}

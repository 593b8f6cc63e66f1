//! Memory and violations of several models whose objectives change, measured: the paper's 5 x 5 grid
//! of objectives, one configuration after the other, on engines in processes of their own, with
//! several memory budgets. [`measure`] runs the same plan with each budget and writes a [`Record`]:
//! what was resident, what was loaded by the model of memory, what had to be loaded in queries, and
//! which objectives were violated. Times are in ns.

pub mod measure;

use serde::{Deserialize, Serialize};
use vitempo::plan::run::PlanProcessor;

/// Everything that was planned and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The device.
    pub device: String,
    /// The processors.
    pub processors: Vec<PlanProcessor>,
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// Time between two queries of a task.
    pub period_ns: u64,
    /// Queries of each task in each configuration.
    pub queries: usize,
    /// Number of configurations.
    pub configurations: usize,
    /// Weights of all subgraphs that the plans use, each on its processors.
    pub full_bytes: u64,
    /// Whether engines kept their cores awake between queries.
    #[serde(default)]
    pub kept_awake: bool,
    /// By budget and eviction.
    pub runs: Vec<BudgetRun>,
}

/// A run with one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetRun {
    /// The budget, as a share of [`Record::full_bytes`].
    pub share: f64,
    /// Whether subgraphs with the fewest planned queries make room first, or those that were used
    /// longest ago.
    pub evicts_planned: bool,
    /// The same in bytes.
    pub budget_bytes: u64,
    /// What was measured; `None`: a piece of a query does not fit.
    pub measured: Option<Measured>,
}

/// What was measured with one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Queries that arrived.
    pub queries: usize,
    /// Those that violate their objective.
    pub violated: usize,
    /// The same by the planner's forecast, with everything loaded.
    pub forecast: usize,
    /// Loads in queries.
    pub loads: usize,
    /// Their mean time.
    pub mean_load_ns: f64,
    /// Subgraphs that made room.
    pub evictions: usize,
    /// Most weights that were loaded at once.
    pub loaded_bytes: u64,
    /// By processor.
    pub resident: Vec<Resident>,
    /// Largest difference of results from those of whole models, as a share of the largest value.
    pub apart: Option<f64>,
}

impl Measured {
    /// Violations as a share.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.violated as f64 / self.queries.max(1) as f64
    }

    /// Sum over processors of the most by which resident memory rose above that with nothing loaded;
    /// `None` where that is not reported.
    #[must_use]
    pub fn added_bytes(&self) -> Option<u64> {
        let added = |own: &Resident| Some(own.resident_bytes.saturating_sub(own.start_bytes?));
        let all: Option<Vec<u64>> = self.resident.iter().map(added).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
    }
}

/// The memory of one engine's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// Name of its processor.
    pub processor: String,
    /// Resident with nothing loaded.
    pub start_bytes: Option<u64>,
    /// The most that was resident after a subgraph was loaded or unloaded.
    pub resident_bytes: u64,
    /// The most weights that were loaded at these times.
    pub loaded_bytes: u64,
}

//! [`RunPlan`]: a plan as a JSON file that can be run: models, cuts, processors, ways, priorities,
//! objectives, arrivals, and the planner's forecast. Paths are relative to the file. Times are in
//! ns, accuracies in basis points.

use super::RunError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_planners::multi_dnn::Arrivals;

/// The field `format` of the file.
pub const FORMAT: &str = "vitempo plan";
/// The version of the format.
pub const VERSION: u32 = 1;

/// The largest latency of an objective without one, ns.
pub const NO_DEADLINE_NS: u64 = u64::MAX;

pub(super) const fn no_deadline() -> u64 {
    NO_DEADLINE_NS
}

/// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) const fn is_no_deadline(ns: &u64) -> bool {
    *ns == NO_DEADLINE_NS
}

/// Where the plan's latencies come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostsOrigin {
    /// Forecast by bundles.
    Forecast,
    /// Measured on engines.
    Measured,
    /// From a costs file.
    File,
}

/// Where the plan's times of loading come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadingOrigin {
    /// Measured on engines.
    Measured,
    /// Forecast from the subgraphs' operators and weights.
    Forecast,
    /// From a costs file.
    File,
    /// Not known.
    Unknown,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// Always `vitempo plan`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// The program that made it.
    pub made_by: String,
    /// Where latencies come from.
    pub costs: CostsOrigin,
    /// Where times of compiling and loading come from.
    pub loading: LoadingOrigin,
    /// The processors.
    pub processors: Vec<PlanProcessor>,
    /// The tasks.
    pub tasks: Vec<PlanTask>,
    /// Objectives with the ways that serve them, by time; the first begins at 0.
    pub phases: Vec<PlanPhase>,
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// The factor by which a processor is slower while another is busy, by both; `None`: not known.
    pub slowdown: Option<Vec<Vec<f64>>>,
    /// Memory that all subgraphs of the plan fit into.
    pub memory_bytes: Option<u64>,
    /// Whether nothing is loaded at the start.
    pub cold: bool,
    /// Values of symbolic dimensions of the models.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, usize>,
    /// What the planner expects, by phase.
    pub forecast: Vec<PlanForecast>,
    /// The path from which it was read.
    #[serde(skip)]
    pub path: PathBuf,
}

/// A processor, and what its costs hold for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanProcessor {
    /// Its name.
    pub name: String,
    /// The inference engine; `None`: any.
    pub engine: Option<String>,
    /// The device; `None`: not known.
    pub device: Option<String>,
    /// Logical cores; if empty, any.
    pub cores: Vec<usize>,
}

/// A task with the variants that its ways use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTask {
    /// Its name.
    pub name: String,
    /// Tensors between positions.
    pub cuts: Vec<String>,
    /// Names of the nodes of each position, for a model that is not cut at single tensors; `cuts`
    /// is empty then, and there is one variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Vec<String>>,
    /// Models.
    pub variants: Vec<PlanVariant>,
    /// Subgraphs of the ways, with their memory.
    pub subgraphs: Vec<PlanSubgraph>,
    /// Ways to run it, of all phases.
    pub ways: Vec<PlanWay>,
}

impl PlanTask {
    /// Number of subgraphs of each variant.
    #[must_use]
    pub const fn positions(&self) -> usize {
        if self.nodes.is_empty() { self.cuts.len() + 1 } else { self.nodes.len() }
    }
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanVariant {
    /// Its name.
    pub name: String,
    /// An ONNX file.
    pub model: PathBuf,
    /// BLAKE3 digest of the file, hexadecimal.
    pub digest: String,
}

/// A subgraph that a way uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSubgraph {
    /// Position, counted from 1.
    pub position: usize,
    /// Name of the variant.
    pub variant: String,
    /// Memory of its weights.
    pub memory_bytes: u64,
}

/// One way to run a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanWay {
    /// `whole`, `cut` or `stitched`.
    pub kind: String,
    /// Names of variants by position.
    pub variants: Vec<String>,
    /// Its accuracy.
    pub accuracy_bp: u32,
    /// One after the other.
    pub pieces: Vec<PlanPiece>,
}

/// Consecutive positions that run on one processor without other work in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanPiece {
    /// Name of the processor.
    pub processor: String,
    /// First position, counted from 1.
    pub first: usize,
    /// Last position.
    pub last: usize,
    /// Planned latency, alone on the device.
    pub latency_ns: u64,
}

/// Objectives of all tasks from a time on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanPhase {
    /// When they begin.
    pub from_ns: u64,
    /// By task.
    pub tasks: Vec<PhaseTask>,
}

/// A task in a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseTask {
    /// Least accuracy.
    pub accuracy_bp: u32,
    /// Largest latency; [`NO_DEADLINE_NS`], which is left out of the file, is none.
    #[serde(default = "no_deadline", skip_serializing_if = "is_no_deadline")]
    pub latency_ns: u64,
    /// Indices of the ways to choose from.
    pub ways: Vec<usize>,
    /// Indices of faster ways for a task that violates its objective repeatedly, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<usize>,
    /// The lowest number is next.
    pub priority: u32,
}

/// What the planner's evaluator expects of a phase, if its objectives held all the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanForecast {
    /// Queries that violate their objective, over all scenarios.
    pub violated: u64,
    /// Number of queries.
    pub queries: u64,
    /// Queries per second when saturated.
    pub queries_per_s: f64,
    /// By task.
    pub tasks: Vec<TaskForecast>,
}

/// What the planner's evaluator expects of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskForecast {
    /// Number of queries.
    pub queries: u64,
    /// Those that violate their objective.
    pub violated: u64,
    /// Mean latency.
    pub mean_latency_ns: f64,
    /// Longest latency.
    pub longest_ns: u64,
}

impl RunPlan {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`RunError`] naming the file and the field at fault.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::Io { action: "read", path: path.to_owned(), source };
        let text = vitempo_graph::files::read_text(path).map_err(failed)?;
        let mut plan: Self = serde_json::from_str(&text).map_err(|e| RunError::Invalid {
            path: path.to_owned(),
            field: format!("line {}", e.line()),
            reason: e.to_string(),
        })?;
        path.clone_into(&mut plan.path);
        plan.check()?;
        Ok(plan)
    }

    /// The file's text.
    ///
    /// # Errors
    /// [`RunError::Invalid`] where a number cannot be written as JSON.
    pub fn text(&self) -> Result<String, RunError> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| self.invalid("plan", e))
    }

    /// A path that is relative to the file.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// The index of a processor.
    #[must_use]
    pub fn processor(&self, name: &str) -> Option<usize> {
        self.processors.iter().position(|processor| processor.name == name)
    }

    pub(super) fn invalid(
        &self,
        field: impl Into<String>,
        reason: impl std::fmt::Display,
    ) -> RunError {
        let (path, field) = (self.path.clone(), field.into());
        RunError::Invalid { path, field, reason: reason.to_string() }
    }
}

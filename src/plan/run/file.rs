//! [`RunPlan`]: a plan for several models as a JSON file that can be run: models, cuts, processors,
//! ways, priorities, objectives, arrivals, and the planner's forecast. Paths are relative to the
//! file. Times are in ns, accuracies in basis points.

use super::RunError;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use vitempo_planners::multi_dnn::{Arrivals, MOST_PROCESSORS};

/// The field `format` of the file.
pub const FORMAT: &str = "vitempo plan";
/// The version of the format.
pub const VERSION: u32 = 1;

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
    /// Not known.
    Unknown,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
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
    /// Models.
    pub variants: Vec<PlanVariant>,
    /// Subgraphs of the ways, with their memory.
    pub subgraphs: Vec<PlanSubgraph>,
    /// Ways to run it, of all phases.
    pub ways: Vec<PlanWay>,
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
    /// Largest latency.
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
        let text = std::fs::read_to_string(path).map_err(failed)?;
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

    /// Checks that names, indices and numbers fit each other.
    ///
    /// # Errors
    /// [`RunError::Invalid`] naming the field.
    pub fn check(&self) -> Result<(), RunError> {
        if self.format != FORMAT || self.version != VERSION {
            let reason = format!(
                "`{}` version {}; this program reads `{FORMAT}` version {VERSION}",
                self.format, self.version
            );
            return Err(self.invalid("format", reason));
        }
        let count = self.processors.len();
        if !(1..=MOST_PROCESSORS).contains(&count) {
            let reason = format!("{count} of them; 1 to {MOST_PROCESSORS}");
            return Err(self.invalid("processors", reason));
        }
        self.unique("processors", self.processors.iter().map(|p| &p.name))?;
        self.unique("tasks", self.tasks.iter().map(|task| &task.name))?;
        if self.tasks.is_empty() {
            return Err(self.invalid("tasks", "there is none"));
        }
        for (index, task) in self.tasks.iter().enumerate() {
            self.check_task(&format!("tasks[{index}]"), task)?;
        }
        self.check_phases()?;
        let square =
            |rows: &Vec<Vec<f64>>| rows.len() == count && rows.iter().all(|row| row.len() == count);
        let slower = |rows: &Vec<Vec<f64>>| {
            rows.iter().flatten().all(|factor| factor.is_finite() && *factor >= 1.0)
        };
        if self.slowdown.as_ref().is_some_and(|rows| !square(rows) || !slower(rows)) {
            let reason = format!("{count} rows of {count} factors, each 1 or more");
            return Err(self.invalid("slowdown", reason));
        }
        match &self.arrivals {
            Arrivals::Over { tasks, .. } if tasks.len() != self.tasks.len() => {
                let reason = format!("{} tasks instead of {}", tasks.len(), self.tasks.len());
                Err(self.invalid("arrivals", reason))
            }
            Arrivals::AtOnce if self.phases.len() > 1 => {
                Err(RunError::ChangeAtOnce { at_ns: self.phases[1].from_ns })
            }
            _ => Ok(()),
        }
    }

    fn unique<'a>(
        &self,
        field: &str,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), RunError> {
        let mut seen = BTreeSet::new();
        match names.into_iter().find(|name| !seen.insert(*name)) {
            None => Ok(()),
            Some(twice) => Err(self.invalid(field, format!("`{twice}` is listed twice"))),
        }
    }

    fn check_task(&self, field: &str, task: &PlanTask) -> Result<(), RunError> {
        let positions = task.cuts.len() + 1;
        self.unique(&format!("{field}.variants"), task.variants.iter().map(|v| &v.name))?;
        for (index, way) in task.ways.iter().enumerate() {
            let field = format!("{field}.ways[{index}]");
            if way.variants.len() != positions {
                let reason = format!("{} variants for {positions} positions", way.variants.len());
                return Err(self.invalid(field, reason));
            }
            let mut next = 1;
            for piece in &way.pieces {
                if self.processor(&piece.processor).is_none() {
                    let reason = format!("there is no processor `{}`", piece.processor);
                    return Err(self.invalid(field, reason));
                }
                if piece.first != next || piece.last < piece.first {
                    let reason = format!("a piece of positions {} to {}", piece.first, piece.last);
                    return Err(self.invalid(field, reason));
                }
                next = piece.last.saturating_add(1);
            }
            if next != positions + 1 {
                let reason = format!("its pieces do not cover all {positions} positions");
                return Err(self.invalid(field, reason));
            }
            for (place, variant) in way.variants.iter().enumerate() {
                let is_listed = |s: &PlanSubgraph| s.position == place + 1 && s.variant == *variant;
                if !task.variants.iter().any(|v| v.name == *variant)
                    || !task.subgraphs.iter().any(is_listed)
                {
                    let reason =
                        format!("variant `{variant}` at position {} is not listed", place + 1);
                    return Err(self.invalid(field, reason));
                }
            }
        }
        Ok(())
    }

    fn check_phases(&self) -> Result<(), RunError> {
        if self.phases.first().is_none_or(|phase| phase.from_ns != 0) {
            return Err(self.invalid("phases", "the first one begins at 0"));
        }
        if !self.phases.is_sorted_by(|a, b| a.from_ns < b.from_ns) {
            return Err(self.invalid("phases", "times are not rising"));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let field = format!("phases[{index}]");
            if phase.tasks.len() != self.tasks.len() {
                let reason = format!("{} tasks instead of {}", phase.tasks.len(), self.tasks.len());
                return Err(self.invalid(field, reason));
            }
            for (own, task) in phase.tasks.iter().zip(&self.tasks) {
                let mut ways = own.ways.iter().chain(&own.fallbacks);
                if own.ways.is_empty() || ways.any(|&way| way >= task.ways.len()) {
                    let reason = format!(
                        "task `{}` has ways {:?} and fallbacks {:?} of {}",
                        task.name,
                        own.ways,
                        own.fallbacks,
                        task.ways.len()
                    );
                    return Err(self.invalid(field, reason));
                }
            }
        }
        Ok(())
    }
}

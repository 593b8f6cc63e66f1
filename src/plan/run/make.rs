//! [`RunPlan::of`]: a plan for several models as a file that can be run.

use super::{
    CostsOrigin, LoadingOrigin, PhaseTask, PlanForecast, PlanPhase, PlanPiece, PlanProcessor,
    PlanSubgraph, PlanTask, PlanVariant, PlanWay, RunError, RunPlan, TaskForecast,
    file::{FORMAT, VERSION},
};
use crate::{
    plan::multi_dnn::{Placing, Request},
    zoo::{
        tasks::{TaskEntry, TasksFile},
        variants::{Variants, Weights},
    },
};
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};
use vitempo_graph::{Environment, onnx::ReadOptions};
use vitempo_planners::{
    multi_dnn::{PlacedTask, PlacedWay},
    stitch::{Loading, Zoo},
};

/// Where a plan comes from, and where it will be written.
#[derive(Clone, Debug)]
pub struct Made<'a> {
    /// The tasks file, which has the models.
    pub file: &'a TasksFile,
    /// How its models are read.
    pub read: &'a ReadOptions,
    /// The request; its arrivals and budgets are those of the plan.
    pub request: &'a Request,
    /// Whether latencies are measured.
    pub costs: CostsOrigin,
    /// The processors, in the order of the costs.
    pub processors: Vec<PlanProcessor>,
    /// The path of the plan: paths in it are relative to its folder.
    pub path: &'a Path,
}

impl PlanProcessor {
    /// A processor whose costs are forecast for an environment.
    #[must_use]
    pub fn of_environment(name: &str, environment: Option<&Environment>) -> Self {
        Self {
            name: name.to_owned(),
            engine: environment.map(|found| found.framework.clone()),
            device: environment.map(|found| found.device.clone()),
            cores: Vec::new(),
        }
    }

    /// A processor of a record, whose description begins with the engine
    /// (`onnxruntime on cores [0]`).
    #[must_use]
    pub fn of_record(name: &str, description: &str) -> Self {
        let (engine, cores) = description.split_once(" on cores ").unwrap_or((description, ""));
        let cores = cores.trim_matches(['[', ']']).split(',');
        Self {
            name: name.to_owned(),
            engine: engine.split_whitespace().next().map(str::to_owned),
            device: None,
            cores: cores.filter_map(|core| core.trim().parse().ok()).collect(),
        }
    }
}

impl RunPlan {
    /// The file of a plan, with an entry for each time at which objectives change (the first at 0).
    ///
    /// # Errors
    /// [`RunError`] naming the task, the variant or the model at fault.
    pub fn of(placings: &[(u64, Placing)], made: &Made<'_>) -> Result<Self, RunError> {
        let refuse = |reason: &str| RunError::OtherTasks {
            path: made.file.path.clone(),
            reason: reason.to_owned(),
        };
        let (_, first) = placings.first().ok_or_else(|| refuse("there is no plan"))?;
        let zoo = &first.zoo;
        if zoo.tasks().len() != made.file.tasks.len() {
            return Err(refuse(&format!(
                "it has {} tasks, the costs are those of {}",
                made.file.tasks.len(),
                zoo.tasks().len()
            )));
        }
        let mut tasks = Vec::new();
        let mut phases: Vec<PlanPhase> =
            placings.iter().map(|(at, _)| PlanPhase { from_ns: *at, tasks: Vec::new() }).collect();
        for (index, entry) in made.file.tasks.iter().enumerate() {
            let mut task = task(made, zoo, index, entry)?;
            for (phase, (_, placing)) in phases.iter_mut().zip(placings) {
                let (placed, slo) = (&placing.plan.tasks[index], placing.slos[index]);
                phase.tasks.push(PhaseTask {
                    accuracy_bp: slo.accuracy_bp,
                    latency_ns: slo.latency_ns,
                    ways: placed.ways.iter().map(|way| add(&mut task.ways, way, zoo)).collect(),
                    fallbacks: placed
                        .fallbacks
                        .iter()
                        .map(|way| add(&mut task.ways, way, zoo))
                        .collect(),
                    priority: placed.priority,
                });
            }
            keep_what_is_used(&mut task);
            for variant in &mut task.variants {
                let found = entry.variants.iter().find(|own| own.name == variant.name);
                let model = found.map(|own| made.file.resolve(&own.model)).unwrap_or_default();
                variant.digest = digest(&model)?;
                variant.model = relative(made.path, &model);
            }
            tasks.push(task);
        }
        let known = placings.iter().all(|(_, placing)| placing.plan.contention_known);
        let plan = Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            made_by: format!("vitempo {}", env!("CARGO_PKG_VERSION")),
            costs: made.costs,
            loading: match zoo.loading() {
                Loading::Measured => LoadingOrigin::Measured,
                Loading::Forecast => LoadingOrigin::Forecast,
                Loading::Stated => LoadingOrigin::File,
                Loading::Unknown => LoadingOrigin::Unknown,
            },
            processors: made.processors.clone(),
            tasks,
            phases,
            arrivals: first.arrivals.clone(),
            slowdown: known.then(|| first.contention.factors().to_vec()),
            memory_bytes: first.memory_bytes,
            cold: made.request.cold,
            dimensions: made.read.dimensions.clone(),
            forecast: placings.iter().map(|(_, placing)| forecast(placing)).collect(),
            path: made.path.to_owned(),
        };
        plan.check()?;
        Ok(plan)
    }
}

/// A task with all its variants and subgraphs, without ways.
fn task(made: &Made<'_>, zoo: &Zoo, index: usize, entry: &TaskEntry) -> Result<PlanTask, RunError> {
    let known = &zoo.tasks()[index];
    let refuse = |reason: String| RunError::OtherTasks { path: made.file.path.clone(), reason };
    let names: Vec<&str> = entry.variants.iter().map(|v| v.name.as_str()).collect();
    if known.name != entry.name || known.variants != names {
        return Err(refuse(format!(
            "task `{}` has the variants {}; the costs are those of task `{}` with {}",
            entry.name,
            names.join(", "),
            known.name,
            known.variants.join(", ")
        )));
    }
    if zoo.positions() != made.file.positions {
        return Err(refuse(format!(
            "positions = {}; the costs are those of {} positions",
            made.file.positions,
            zoo.positions()
        )));
    }
    let cuts = Variants::read(made.file, entry, made.read, Weights::Shapes)?.cuts;
    let variant = |variant: &String| PlanVariant {
        name: variant.clone(),
        model: PathBuf::new(),
        digest: String::new(),
    };
    let mut subgraphs = Vec::new();
    for (position, row) in known.subgraphs.iter().enumerate() {
        for (subgraph, variant) in row.iter().zip(&known.variants) {
            subgraphs.push(PlanSubgraph {
                position: position + 1,
                variant: variant.clone(),
                memory_bytes: subgraph.memory_bytes,
            });
        }
    }
    Ok(PlanTask {
        name: entry.name.clone(),
        cuts,
        nodes: Vec::new(),
        variants: known.variants.iter().map(variant).collect(),
        subgraphs,
        ways: Vec::new(),
    })
}

/// The index of a way, which is added if it is new.
fn add(ways: &mut Vec<PlanWay>, placed: &PlacedWay, zoo: &Zoo) -> usize {
    let pieces = placed.pieces.iter().map(|piece| PlanPiece {
        processor: zoo.processors()[piece.processor].clone(),
        first: piece.positions.start + 1,
        last: piece.positions.end,
        latency_ns: piece.ns,
    });
    let way = PlanWay {
        kind: placed.kind.to_string(),
        variants: placed.variants.clone(),
        accuracy_bp: placed.accuracy_bp,
        pieces: pieces.collect(),
    };
    ways.iter().position(|known| *known == way).unwrap_or_else(|| {
        ways.push(way);
        ways.len() - 1
    })
}

fn keep_what_is_used(task: &mut PlanTask) {
    let used: BTreeSet<(usize, String)> = task
        .ways
        .iter()
        .flat_map(|way| way.variants.iter().enumerate())
        .map(|(place, variant)| (place + 1, variant.clone()))
        .collect();
    task.subgraphs.retain(|s| used.contains(&(s.position, s.variant.clone())));
    task.variants.retain(|v| used.iter().any(|(_, variant)| *variant == v.name));
}

pub(super) fn digest(path: &Path) -> Result<String, RunError> {
    let failed = |source| RunError::Io { action: "read", path: path.to_owned(), source };
    Ok(blake3::hash(&std::fs::read(path).map_err(failed)?).to_hex().to_string())
}

impl PlanVariant {
    /// Checks that a file is the one that was planned.
    ///
    /// # Errors
    /// [`RunError`] naming the file.
    pub fn check(&self, path: &Path) -> Result<(), RunError> {
        if digest(path)? == self.digest {
            Ok(())
        } else {
            Err(RunError::OtherModel(path.to_owned()))
        }
    }
}

/// The path of a model from the folder of a plan.
pub(super) fn relative(plan: &Path, model: &Path) -> PathBuf {
    let folder = plan.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let (Ok(folder), Ok(model)) = (folder.canonicalize(), model.canonicalize()) else {
        return model.to_owned();
    };
    let from: Vec<Component<'_>> = folder.components().collect();
    let to: Vec<Component<'_>> = model.components().collect();
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

fn forecast(placing: &Placing) -> PlanForecast {
    let score = &placing.plan.score;
    let task = |task: &PlacedTask| TaskForecast {
        queries: task.queries,
        violated: task.violated,
        mean_latency_ns: task.mean_latency_ns,
        longest_ns: task.longest_ns,
    };
    PlanForecast {
        violated: score.violated,
        queries: score.queries,
        queries_per_s: score.queries_per_s(),
        tasks: placing.plan.tasks.iter().map(task).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_a_record_are_read() {
        let processor = PlanProcessor::of_record("a", "onnxruntime on cores [0, 2]");
        assert_eq!(processor.engine.as_deref(), Some("onnxruntime"));
        assert_eq!((processor.cores, processor.device), (vec![0, 2], None));
        let bare = PlanProcessor::of_record("a", "rten");
        assert_eq!((bare.engine.as_deref(), bare.cores.is_empty()), (Some("rten"), true));
    }

    #[test]
    fn models_are_found_from_the_folder_of_the_plan() {
        let folder = tempfile::tempdir().expect("a folder");
        let (zoo, plans) = (folder.path().join("zoo"), folder.path().join("plans"));
        std::fs::create_dir(&zoo).and_then(|()| std::fs::create_dir(&plans)).expect("folders");
        let model = zoo.join("m.onnx");
        std::fs::write(&model, "").expect("a file");
        let found = |plan: &Path| relative(plan, &model);
        assert_eq!(found(&plans.join("plan.json")), Path::new("../zoo/m.onnx"));
        assert_eq!(found(&zoo.join("plan.json")), Path::new("m.onnx"));
        assert_eq!(found(&folder.path().join("plan.json")), Path::new("zoo/m.onnx"));
    }
}

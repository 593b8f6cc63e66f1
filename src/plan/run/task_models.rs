//! [`TaskModels`]: the models of a task as the graphs that engines load: subgraphs, whole models, and
//! the values that each subgraph has to hand on.

use super::{PlanTask, RunError, RunPlan};
use crate::{
    models,
    plan::partition::Partition,
    zoo::{
        tasks::{TaskEntry, TasksFile, VariantEntry},
        variants::{Variants, Weights},
    },
};
use std::collections::{BTreeSet, HashMap};
use vitempo_graph::{Graph, ValueId, onnx::ReadOptions};

/// See the module.
pub(super) enum TaskModels {
    /// Variants that are cut at the same tensors.
    Cut(Variants),
    /// One model that is divided by its nodes.
    Divided(Partition),
}

impl TaskModels {
    /// Reads the models of a task, as planned.
    pub fn read(plan: &RunPlan, index: usize, task: &PlanTask) -> Result<Self, RunError> {
        for variant in &task.variants {
            variant.check(&plan.resolve(&variant.model))?;
        }
        let options = ReadOptions { dimensions: plan.dimensions.clone(), ..ReadOptions::default() };
        if task.nodes.is_empty() {
            return cut(plan, task, &options).map(Self::Cut);
        }
        divided(plan, index, task, &options).map(Self::Divided)
    }

    /// A subgraph by position, counted from 1, and variant.
    pub fn subgraph(&self, position: usize, variant: &str) -> Option<&Graph> {
        let place = position.checked_sub(1)?;
        match self {
            Self::Cut(variants) => {
                let found = variants.names.iter().position(|name| name == variant)?;
                variants.subgraphs.get(place)?.get(found)
            }
            Self::Divided(partition) => partition.parts.get(place),
        }
    }

    /// The whole model of a way.
    pub fn whole(&self, variants: &[String]) -> Result<Graph, String> {
        match self {
            Self::Cut(own) => {
                let chosen: Option<Vec<usize>> = variants
                    .iter()
                    .map(|name| own.names.iter().position(|known| known == name))
                    .collect();
                own.stitched(&chosen.unwrap_or_default()).map_err(|e| e.to_string())
            }
            Self::Divided(partition) => Ok(partition.whole.clone()),
        }
    }

    /// A graph whose inputs are those of the task.
    pub fn first(&self) -> Option<&Graph> {
        match self {
            Self::Cut(variants) => variants.subgraphs.first().and_then(|row| row.first()),
            Self::Divided(partition) => Some(&partition.whole),
        }
    }

    /// By position of a way: names of earlier values, inputs among them, that are handed on beside
    /// the outputs of the subgraph, because a later one reads them or they are results.
    pub fn kept(&self, variants: &[String]) -> Vec<Vec<String>> {
        let graph = |(place, variant): (usize, &String)| self.subgraph(place + 1, variant);
        let graphs: Vec<&Graph> = variants.iter().enumerate().filter_map(graph).collect();
        let results = match self {
            // Those of the last subgraph.
            Self::Cut(_) => BTreeSet::new(),
            Self::Divided(partition) => names(&partition.whole, partition.whole.outputs()),
        };
        let mut known = self.first().map(|first| names(first, first.inputs())).unwrap_or_default();
        let mut kept = Vec::with_capacity(graphs.len());
        for (place, graph) in graphs.iter().enumerate() {
            let later = graphs[place + 1..].iter();
            let mut needed = results.clone();
            later.for_each(|later| needed.extend(names(later, later.inputs())));
            kept.push(known.intersection(&needed).cloned().collect());
            known.extend(names(graph, graph.outputs()));
        }
        kept
    }
}

fn names(graph: &Graph, ids: &[ValueId]) -> BTreeSet<String> {
    ids.iter().map(|&id| graph.value(id).name.clone()).collect()
}

/// The variants of a task, cut as planned.
fn cut(plan: &RunPlan, task: &PlanTask, options: &ReadOptions) -> Result<Variants, RunError> {
    let variant = |v: &super::PlanVariant| VariantEntry {
        name: v.name.clone(),
        model: v.model.clone(),
        accuracy: None,
    };
    let entry = TaskEntry {
        name: task.name.clone(),
        cuts: Some(task.cuts.clone()),
        stitched: None,
        slo: None,
        variants: task.variants.iter().map(variant).collect(),
    };
    let file = TasksFile {
        positions: task.positions(),
        accuracy_is: None,
        processors: Vec::new(),
        tasks: Vec::new(),
        path: plan.path.clone(),
    };
    Ok(Variants::read(&file, &entry, options, Weights::Values)?)
}

/// The parts of a model that is divided by its nodes.
fn divided(
    plan: &RunPlan,
    index: usize,
    task: &PlanTask,
    options: &ReadOptions,
) -> Result<Partition, RunError> {
    let refuse = |reason: String| plan.invalid(format!("tasks[{index}].nodes"), reason);
    let variant = task.variants.first().ok_or_else(|| refuse("there is no model".to_owned()))?;
    let model = models::read(&plan.resolve(&variant.model), options)?;
    let mut parts: HashMap<&str, usize> = HashMap::new();
    for (part, names) in task.nodes.iter().enumerate() {
        for name in names {
            if parts.insert(name, part).is_some() {
                return Err(refuse(format!("node `{name}` is listed twice")));
            }
        }
    }
    let part = |node: &vitempo_graph::Node| {
        let found = parts.get(node.name.as_str()).copied();
        found.ok_or_else(|| refuse(format!("the model's node `{}` is not listed", node.name)))
    };
    let part_of = model.graph.nodes().iter().map(part).collect::<Result<Vec<_>, _>>()?;
    if parts.len() > part_of.len() {
        return Err(refuse("nodes are listed that the model does not have".to_owned()));
    }
    let names: Vec<String> = (1..=task.nodes.len()).map(|part| format!("part {part}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(Partition::of(&model, options, &part_of, &names)?)
}

//! Plans of several models, and of a model with several tasks, for `vitempo/plan.py`.

use crate::{
    bundle::Bundle,
    failure::Failure,
    model::Model,
    plan::{Planned, options, planned},
};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Deserialize;
use serde_json::{Value, json};
use vitempo::{
    graph::Graph,
    plan::{
        multi_dnn::{
            Placing, Request, Slowdown,
            models::{ModelTask, ModelVariant, place_models},
        },
        multitask::Planning,
        partition::Partition,
        stitch::{forecasts::Processor, preloading},
    },
    planners::{
        Plan,
        cost::{Interval, Link},
        multi_dnn::{Compared, Objective, PlacedTask, PlacedWay, Proof, Settings, TaskArrivals},
        pipeline::{Boundaries, Tasks},
        stitch::Slo,
    },
};

/// Options of a plan for several models; ns, bytes, W, basis points.
#[derive(Deserialize)]
struct PlaceOptions {
    tasks: Vec<TaskOptions>,
    horizon_ns: u64,
    slowdown: Vec<(String, String, f64)>,
    power: Vec<(String, f64)>,
    cold: bool,
    memory_bytes: Option<u64>,
    objective: String,
    evaluations: u64,
    seed: u64,
}

/// A task; its models are given apart, in the order of the variants.
#[derive(Deserialize)]
struct TaskOptions {
    name: String,
    variants: Vec<(String, u32)>,
    accuracy_bp: u32,
    latency_ns: u64,
    arrivals: Option<TaskArrivals>,
}

/// Options of a plan for a model with several tasks; ns.
#[derive(Deserialize)]
struct MultitaskOptions {
    bytes_per_s: Option<u64>,
    message_ns: u64,
    encoder: Option<String>,
    postprocessing: Option<String>,
}

/// The plan of several models that share processors, as JSON.
#[pyfunction]
pub fn plan_place(
    py: Python<'_>,
    models: Vec<Bound<'_, Model>>,
    processors: Vec<(String, Bound<'_, Bundle>)>,
    json: &str,
) -> Result<String, Failure> {
    let given: PlaceOptions = options(json)?;
    let mut graphs = models.iter().map(|model| &model.get().graph);
    let tasks: Vec<ModelTask> = given.tasks.iter().map(|task| task.of(&mut graphs)).collect();
    let request = given.request()?;
    let bundles: Vec<(String, vitempo::Bundle)> =
        processors.into_iter().map(|(name, bundle)| (name, bundle.get().bundle.clone())).collect();
    let placing = py.detach(|| -> Result<Placing, Failure> {
        let processors = Processor::of(bundles)?;
        Ok(place_models(&tasks, &processors, &request)?)
    });
    Ok(placing_json(&placing?).to_string())
}

impl TaskOptions {
    fn of<'a>(&self, graphs: &mut impl Iterator<Item = &'a Graph>) -> ModelTask {
        let variant = |((name, accuracy_bp), graph): (&(String, u32), &Graph)| ModelVariant {
            name: name.clone(),
            graph: graph.clone(),
            accuracy_bp: *accuracy_bp,
        };
        ModelTask {
            name: self.name.clone(),
            variants: self.variants.iter().zip(graphs).map(variant).collect(),
            slo: Slo { accuracy_bp: self.accuracy_bp, latency_ns: self.latency_ns },
        }
    }
}

impl PlaceOptions {
    fn request(&self) -> Result<Request, Failure> {
        let objective = match self.objective.as_str() {
            "violations" => Objective::Violations,
            "throughput" => Objective::Throughput,
            other => {
                let message = format!("minimise `{other}`: expected `violations` or `throughput`");
                return Err(PyValueError::new_err(message).into());
            }
        };
        let arrivals =
            self.tasks.iter().filter_map(|t| Some((Some(t.name.clone()), t.arrivals.clone()?)));
        let slowdown = self.slowdown.iter().map(|(processor, beside, factor)| Slowdown {
            processor: processor.clone(),
            beside: beside.clone(),
            factor: *factor,
        });
        Ok(Request {
            arrivals: arrivals.collect(),
            horizon_ns: self.horizon_ns,
            slowdown: slowdown.collect(),
            active_w: self.power.clone(),
            cold: self.cold,
            memory: self.memory_bytes.map(preloading::Budget::Bytes),
            objective,
            settings: Settings { evaluations: self.evaluations, seed: self.seed },
            ..Request::default()
        })
    }
}

fn placing_json(Placing { plan, .. }: &Placing) -> Value {
    let way = |way: &PlacedWay| {
        json!({
            "variant": way.variants.first(), "processor": way.processors.first(),
            "alone_ns": way.alone_ns, "accuracy_bp": way.accuracy_bp, "queries": way.queries,
        })
    };
    let task = |task: &PlacedTask| {
        json!({
            "name": task.name, "priority": task.priority, "queries": task.queries,
            "violated": task.violated, "mean_latency_ns": task.mean_latency_ns,
            "longest_ns": task.longest_ns, "ways": task.ways.iter().map(way).collect::<Vec<_>>(),
        })
    };
    let system = |of: &Compared| {
        let score = of.score.as_ref().ok();
        json!({
            "system": of.system.to_string(), "violated": score.map(|score| score.violated),
            "queries_per_s": score.map(vitempo::planners::multi_dnn::Score::queries_per_s),
            "energy_nj": score.and_then(|score| score.energy_nj),
            "reason": of.score.as_ref().err(),
        })
    };
    json!({
        "tasks": plan.tasks.iter().map(task).collect::<Vec<_>>(),
        "queries": plan.score.queries,
        "violated": plan.score.violated,
        "violated_at_least": plan.bound.violated,
        "queries_per_s": plan.score.queries_per_s(),
        "mean_latency_ns": plan.score.mean_latency_ns(),
        "energy_nj": plan.score.energy_nj,
        "proof": match plan.proof {
            Proof::Enumerated => "enumerated",
            Proof::SingleWays => "single_ways",
            Proof::First => "first",
            Proof::Open => "open",
        },
        "evaluations": plan.evaluations,
        "memory_bytes": plan.memory_bytes,
        "contention_known": plan.contention_known,
        "systems": plan.compared.iter().map(system).collect::<Vec<_>>(),
    })
}

/// The best placement of a model's encoder and decoders.
#[pyfunction]
pub fn plan_multitask(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    processors: Vec<(String, Bound<'_, Bundle>)>,
    json: &str,
) -> Result<Planned, Failure> {
    let given: MultitaskOptions = options(json)?;
    let graph = &model.get().graph;
    let named: Vec<(&str, &vitempo::Bundle)> =
        processors.iter().map(|(name, bundle)| (name.as_str(), &bundle.get().bundle)).collect();
    planned(&py.detach(|| multitask(graph, &named, &given))?)
}

fn multitask(
    graph: &Graph,
    processors: &[(&str, &vitempo::Bundle)],
    given: &MultitaskOptions,
) -> Result<Plan, Failure> {
    let (encoder, postprocessing) = (given.encoder.as_deref(), given.postprocessing.as_deref());
    let tasks = Tasks::of(graph, Boundaries { encoder, postprocessing })?;
    let partition = Partition::of_graph(graph, &tasks.part_of, &tasks.names())?;
    let message_ns = given.message_ns;
    let link = given.bytes_per_s.map(|rate| Link { message_ns, ..Link::of_bandwidth(rate) });
    let transfer_ns = |bytes| match &link {
        Some(link) => link.transfer_ns(bytes),
        None => Some(Interval::exact(message_ns)),
    };
    let mut planning = Planning::new(graph.name(), &tasks, &partition.parts, None, None);
    for (name, bundle) in processors {
        planning.add_forecast(name, *bundle, &partition, &transfer_ns)?;
    }
    let placements = planning.simulated()?;
    match placements.rows.first() {
        Some(best) => placements.model.plan(&best.schedule).map_err(plan_error),
        None => Err(plan_error("no part can run on any processor")),
    }
}

fn plan_error(error: impl ToString) -> Failure {
    Failure::new("PlanError", error)
}

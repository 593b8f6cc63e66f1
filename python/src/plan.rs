//! Plans for `vitempo/plan.py`: where each operator of a model runs.

use crate::{bundle::Bundle, failure::Failure, interrupt::Interrupt, model::Model};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Deserialize;
use serde_json::json;
use vitempo::{
    plan::{
        costs::{self, ForecastProcessor},
        pipeline::{self, Minimise},
        split::{self, Connection, DevicePower, Limits},
    },
    planners::{
        Plan,
        cost::Link,
        pipeline::{Pipeline, PipelinePlan},
        split::Criterion,
    },
};

/// A plan as JSON and as a table to print.
pub type Planned = (String, String);

/// Options of a split; ns, nJ, bytes, W.
#[derive(Deserialize)]
struct SplitOptions {
    bytes_per_s: u64,
    round_trip_ns: u64,
    transmit_w: f64,
    active_w: f64,
    idle_w: f64,
    minimise: Criterion,
    latency_ns: Option<u64>,
    device_energy_nj: Option<u64>,
    device_memory_bytes: Option<u64>,
    confined: Vec<String>,
}

/// Options of a pipeline; ns.
#[derive(Deserialize)]
struct PipelineOptions {
    bytes_per_s: u64,
    message_ns: u64,
    minimise: String,
    latency_ns: Option<u64>,
    period_ns: Option<u64>,
}

/// Options from the JSON of `vitempo/plan.py`.
pub fn options<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Failure> {
    Ok(serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?)
}

/// A plan for `vitempo/plan.py`.
pub fn planned(plan: &Plan) -> Result<Planned, Failure> {
    let json = serde_json::to_string(plan).map_err(|error| Failure::new("PlanError", error))?;
    Ok((json, plan.to_string()))
}

/// The best division between a device and a server.
#[pyfunction]
pub fn plan_split(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    device: &Bound<'_, Bundle>,
    server: &Bound<'_, Bundle>,
    json: &str,
) -> Result<Planned, Failure> {
    let given: SplitOptions = options(json)?;
    let graph = &model.get().graph;
    let (device, server) = (&device.get().bundle, &server.get().bundle);
    let connection = Connection {
        round_trip_ns: given.round_trip_ns,
        transmit_w: given.transmit_w,
        ..Connection::of_bandwidth(given.bytes_per_s)
    };
    let power = DevicePower { active_w: given.active_w, idle_w: given.idle_w };
    let limits = Limits {
        latency_ns: given.latency_ns,
        device_energy_nj: given.device_energy_nj,
        device_memory_bytes: given.device_memory_bytes,
    };
    let interrupt = Interrupt::default();
    let stop = interrupt.clone();
    let best = py.detach(|| -> Result<Plan, Failure> {
        let costs = split::costs(graph, device, server, &connection, power)?.costs;
        let costs = costs::confined(costs, &given.confined)?;
        let budget = split::budget().stopped_by(move || stop.is_pending());
        Ok(split::best(&costs, &limits.objective(given.minimise), budget)?.plan)
    });
    planned(&interrupt.or(best)?)
}

/// The best pipeline over processors with the same link between any two.
#[pyfunction]
pub fn plan_pipeline(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    processors: Vec<(String, Bound<'_, Bundle>)>,
    json: &str,
) -> Result<Planned, Failure> {
    let given: PipelineOptions = options(json)?;
    let graph = &model.get().graph;
    let named: Vec<(&str, &vitempo::Bundle)> =
        processors.iter().map(|(name, bundle)| (name.as_str(), &bundle.get().bundle)).collect();
    let link = Link { message_ns: given.message_ns, ..Link::of_bandwidth(given.bytes_per_s) };
    let minimise = match given.minimise.as_str() {
        "period" => Minimise::Period,
        "latency" => Minimise::Latency,
        other => {
            let message = format!("minimise `{other}`: expected `period` or `latency`");
            return Err(PyValueError::new_err(message).into());
        }
    };
    let objective = pipeline::objective(minimise, given.latency_ns, given.period_ns)
        .map_err(|error| Failure::new("PlanError", error))?;
    let best = py.detach(|| -> Result<PipelinePlan, Failure> {
        let processors: Vec<ForecastProcessor<'_>> =
            named.iter().map(|(name, bundle)| ForecastProcessor::named(*name, *bundle)).collect();
        let costs = pipeline::costs(graph, &processors, link)?.costs;
        Ok(Pipeline::new(&costs, 0)?.best(objective)?)
    });
    let best = best?;
    let mut json =
        serde_json::to_value(&best.plan).map_err(|error| Failure::new("PlanError", error))?;
    json["search"] = json!({"is_complete": best.is_complete});
    Ok((json.to_string(), best.plan.to_string()))
}

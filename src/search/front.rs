//! [`front_json`]: the front of a search, as the program and the Python package write it.

use super::{Candidate, Device, Objective, Outcome, member_name};
use serde_json::{Value, json};
use vitempo_graph::Prediction;
use vitempo_predictors::memory::MemoryForecast;
use vitempo_search_space::Space;

/// The front as JSON: latencies in ns, memory in bytes. `memories` are those of each member on each
/// device, as of [`super::memories`].
#[must_use]
pub fn front_json(
    space: &Space,
    objective: &dyn Objective,
    devices: &[Device<'_>],
    outcome: &Outcome,
    memories: &[Vec<Option<MemoryForecast>>],
) -> Value {
    let device = |d: &Device<'_>| {
        json!({
            "environment": d.bundle.environment().id(),
            "max_latency_ns": d.ceiling,
            "max_memory_bytes": d.memory_ceiling,
        })
    };
    type OnDevice<'a> = ((&'a Device<'a>, &'a Prediction), &'a Option<MemoryForecast>);
    let forecast = |((d, latency), memory): OnDevice<'_>| {
        json!({
            "environment": d.bundle.environment().id(),
            "latency_ns": latency,
            "memory": memory,
        })
    };
    let member = |(place, (m, memories)): (usize, (&Candidate, &Vec<Option<MemoryForecast>>))| {
        let of_devices = devices.iter().zip(&m.latencies).zip(memories);
        json!({
            "name": member_name(space, place),
            "encoding": m.architecture.encode(),
            "score": m.score,
            "latencies": of_devices.map(forecast).collect::<Vec<_>>(),
        })
    };
    json!({
        "space": space.name(),
        "objective": {"name": objective.name(), "stand_in": objective.stands_in()},
        "ceilings": devices.iter().map(device).collect::<Vec<_>>(),
        "candidates": outcome.candidates,
        "front": outcome.front.iter().zip(memories).enumerate().map(member).collect::<Vec<_>>(),
    })
}

//! Published end-to-end latencies ([`crate::published`]) become datasets: one visit per model and setting, origin `imported`, with source and licence.
//!
//! A published mean becomes one sample. Models of AI Hub come with their graphs; cells of a search space are known by their encoding alone.

mod ai_hub;
mod cells;

pub use ai_hub::import_ai_hub;
pub use cells::import_cells;

use super::mobile_ml_benchmark::Imported;
use crate::{DatasetError, Store};
use std::path::Path;
use vitempo_graph::{Environment, ModelIdentity, ModelProfile, Origin, Precision, Processor, Protocol, Samples, Status};

/// What is not told of a setting.
const UNTOLD: &str = "unknown";

/// A visit's place: where, and among which visits of the same model there.
struct Visit<'a> {
    environment: &'a Environment,
    sitting: &'a str,
    round: usize,
    source: &'a str,
}

/// A visit that brought one end-to-end latency.
fn profile(model: ModelIdentity, visit: &Visit<'_>, ns: f64) -> ModelProfile {
    ModelProfile {
        model,
        environment: visit.environment.clone(),
        sitting: visit.sitting.to_owned(),
        round: visit.round,
        started_unix_ms: 0,
        origin: Origin::Imported,
        source: Some(visit.source.to_owned()),
        protocol: Protocol {
            warmups: 0,
            min_repeats: 1,
            max_repeats: 1,
            target_spread: 0.0,
            rounds: 1,
            seed: 0,
            input_distribution: "not told; samples are published means".to_owned(),
        },
        e2e: Samples { wall_ns: vec![ns.round().max(1.0) as u64], cpu_ns: Vec::new() },
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        operators: Vec::new(),
        executed: None,
        peak_memory_bytes: None,
        energy_per_inference_uj: None,
        status: Status::Ok,
    }
}

fn environment(device: &str, processor: Processor, framework: &str, precision: Precision) -> Environment {
    Environment {
        device: device.to_owned(),
        processor,
        cores_available: 1,
        cores: Vec::new(),
        framework: framework.to_owned(),
        framework_version: UNTOLD.to_owned(),
        threads: 1,
        precision,
        memory_format: None,
        power_mode: None,
        isa: String::new(),
        os: String::new(),
    }
}

/// A folder that holds no measurements yet.
fn empty(out: &Path) -> Result<(), DatasetError> {
    if Store::open_or_create(out)?.visits() > 0 {
        return Err(DatasetError::NotADataset { path: out.to_owned(), reason: "it holds measurements; import into a new folder".to_owned() });
    }
    Ok(())
}

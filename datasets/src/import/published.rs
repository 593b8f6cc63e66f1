//! Published end-to-end latencies ([`crate::published`]) become datasets: one model run per model
//! and setting, origin `imported`, with source and licence.
//!
//! A published mean becomes one sample. Models of AI Hub come with their graphs; cells of a search
//! space are known by their encoding alone.

mod ai_hub;
mod cells;

pub use ai_hub::import_ai_hub;
pub use cells::import_cells;

use super::{ModelRun, mobile_ml_benchmark::Imported, profile};
use vitempo_graph::{Environment, ModelIdentity, ModelProfile, Precision, Processor};

/// The value of unknown fields.
const NOT_GIVEN: &str = "unknown";

/// A model run that brought one end-to-end latency.
fn end_to_end(model: ModelIdentity, run: &ModelRun<'_>, ns: f64) -> ModelProfile {
    profile(model, run, Some(ns.round().max(1.0) as u64), Vec::new())
}

fn environment(
    device: &str,
    processor: Processor,
    framework: &str,
    precision: Precision,
) -> Environment {
    Environment {
        device: device.to_owned(),
        processor,
        cores_available: 1,
        cores: Vec::new(),
        framework: framework.to_owned(),
        framework_version: NOT_GIVEN.to_owned(),
        threads: 1,
        precision,
        memory_format: None,
        power_mode: None,
        isa: String::new(),
        os: String::new(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

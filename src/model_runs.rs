//! Made-up model runs for tests.

use vitempo_graph::{
    Environment, ModelIdentity, ModelProfile, Origin, Precision, Processor, Protocol, Samples,
    Status,
};

/// A model run of ten samples of this latency, without timed operators.
pub(crate) fn run(model: &str, wall_ns: u64) -> ModelProfile {
    let text = || "made-up".to_owned();
    ModelProfile {
        model: ModelIdentity {
            name: model.to_owned(),
            architecture: model.to_owned(),
            space: None,
            encoding: None,
        },
        environment: Environment {
            device: text(),
            processor: Processor::Cpu,
            cores_available: 1,
            cores: Vec::new(),
            framework: text(),
            framework_version: text(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
            beside: None,
            settings: Vec::new(),
            host: None,
        },
        session: text(),
        round: 0,
        started_unix_ms: 1,
        origin: Origin::Measured,
        source: None,
        protocol: Protocol {
            warmups: 3,
            min_repeats: 10,
            max_repeats: 10,
            target_spread: 0.02,
            rounds: 1,
            seed: 0,
            input_distribution: text(),
        },
        e2e: Samples { wall_ns: vec![wall_ns; 10], cpu_ns: Vec::new() },
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        operators: Vec::new(),
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

/// The same of memory alone.
pub(crate) fn of_memory_alone(model: &str, wall_ns: u64) -> ModelProfile {
    let run = run(model, wall_ns);
    ModelProfile {
        protocol: run.protocol.of_memory_alone(),
        e2e: Samples { wall_ns: vec![wall_ns; 2], cpu_ns: Vec::new() },
        peak_memory_bytes: Some(1 << 20),
        running_memory_bytes: Some(1 << 20),
        ..run
    }
}

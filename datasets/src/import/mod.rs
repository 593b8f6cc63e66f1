//! Imports published measurements as datasets of origin `imported`, with source and licence in
//! every model run.

pub(crate) mod mobile_ml_benchmark;
pub(crate) mod published;

use vitempo_graph::{
    Environment, Executed, Measurement, ModelIdentity, ModelProfile, Origin, Protocol, Samples,
    Status,
};

/// A model run's place and origin: where, among which model runs of the same model there, and who
/// published it.
struct ModelRun<'a> {
    environment: &'a Environment,
    session: &'a str,
    round: usize,
    source: &'a str,
}

/// A model run as it was published. The protocol is not published: one sample per quantity, at an
/// unknown time.
fn profile(
    model: ModelIdentity,
    run: &ModelRun<'_>,
    e2e_ns: Option<u64>,
    operators: Vec<Measurement>,
) -> ModelProfile {
    ModelProfile {
        model,
        environment: run.environment.clone(),
        session: run.session.to_owned(),
        round: run.round,
        started_unix_ms: 0,
        origin: Origin::Imported,
        source: Some(run.source.to_owned()),
        protocol: Protocol {
            warmups: 0,
            min_repeats: 1,
            max_repeats: 1,
            target_spread: 0.0,
            rounds: 1,
            seed: 0,
            input_distribution: "unknown; samples are published means".to_owned(),
        },
        e2e: one_sample(e2e_ns),
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        executed: Executed::of(&operators),
        operators,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

fn one_sample(ns: Option<u64>) -> Samples {
    Samples { wall_ns: ns.into_iter().collect(), cpu_ns: Vec::new() }
}

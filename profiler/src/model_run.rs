//! One run of one model inside a worker: load, reference, warm-ups, end-to-end samples, operators
//! in place, reference.

use crate::{
    backends::{
        engine::{Backend, Model, Session},
        error::BackendError,
        options::RunOptions,
        values::OutputValues,
    },
    energy::Meter,
    memory::{self, MemoryUse, NoPeak},
    protocol::RunProtocol,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use vitempo_graph::{Measurement, PeakFault, Processor, Samples};

/// The result of a model run; the fields are those of [`vitempo_graph::ModelProfile`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRun {
    /// End-to-end runs.
    pub e2e: Samples,
    /// End-to-end runs with operators timed.
    pub e2e_profiled: Samples,
    /// Runs of the reference workload.
    pub reference: Samples,
    /// Each operator, in execution order.
    pub operators: Vec<Measurement>,
    /// Most memory that the process took.
    pub peak_memory_bytes: Option<u64>,
    /// The same once the model was loaded.
    #[serde(default)]
    pub running_memory_bytes: Option<u64>,
    /// Why there is no peak memory.
    #[serde(default)]
    pub no_peak_memory: Option<String>,
    /// Energy of one inference, where the machine measures it.
    #[serde(default)]
    pub energy_per_inference_uj: Option<u64>,
    /// If the protocol requests them.
    #[serde(default)]
    pub outputs: Vec<OutputValues>,
}

/// A GPU was up to a tenth slower in the first samples after three runs.
const GPU_WARM: Duration = Duration::from_millis(100);

/// Measures `model`. The reference workload runs after loading, before the warm-ups bring the model
/// back into the caches, and again at the end.
///
/// # Errors
/// As the backend's.
pub fn run(
    backend: &dyn Backend,
    model: &Model,
    options: &RunOptions,
    protocol: &RunProtocol,
    mut reference: Option<&mut (dyn Session + '_)>,
) -> Result<ModelRun, BackendError> {
    let (mut session, memory) = load(backend, model, options, protocol)?;
    let mut run = ModelRun::default();
    warm(session.as_mut(), options.processor)?;
    run_reference(reference.as_deref_mut(), protocol.reference_repeats, &mut run.reference)?;
    if protocol.protocol.max_repeats > 0 {
        let meter = Meter::find(options.processor).ok();
        (run.e2e, run.energy_per_inference_uj) =
            sample(session.as_mut(), protocol, meter.as_ref())?;
    }
    if let Some(memory) = memory {
        run.set_memory(memory_use(memory, model, options));
    }
    if protocol.outputs {
        run.outputs = finite(session.outputs()?, backend.name(), &model.name)?;
    }
    if protocol.profiled_repeats > 0 {
        let (warmups, repeats) = protocol.profiled_runs(run.e2e.median_ns().unwrap_or_default());
        let runs = session.profile(warmups, repeats)?;
        run.e2e_profiled = runs.e2e;
        run.operators = runs.operators;
    }
    drop(session);
    run_reference(reference, protocol.reference_repeats, &mut run.reference)?;
    Ok(run)
}

/// Loads the model into memory that is free of earlier models; in a process of its own, its memory is
/// watched.
fn load(
    backend: &dyn Backend,
    model: &Model,
    options: &RunOptions,
    protocol: &RunProtocol,
) -> Result<(Box<dyn Session>, Option<memory::Watch>), BackendError> {
    if !protocol.fresh {
        memory::hand_back();
        return Ok((backend.load(model, options)?, None));
    }
    let load = backend.prepare(model, options)?;
    // The engine's library is there before its models.
    backend.probe(options);
    let mut memory = memory::Watch::start();
    let session = load()?;
    memory.loaded();
    Ok((session, Some(memory)))
}

impl ModelRun {
    fn set_memory(&mut self, used: Result<MemoryUse, NoPeak>) {
        match used {
            Ok(used) => {
                self.peak_memory_bytes = Some(used.peak_bytes);
                self.running_memory_bytes = Some(used.running_bytes);
            }
            Err(reason) => self.no_peak_memory = Some(reason.to_string()),
        }
    }

    /// Takes over the memory that a run in a process of its own measured.
    pub(crate) fn with_memory_of(self, fresh: Result<Self, String>) -> Self {
        let fresh =
            fresh.unwrap_or_else(|reason| Self { no_peak_memory: Some(reason), ..Self::default() });
        Self {
            peak_memory_bytes: fresh.peak_memory_bytes,
            running_memory_bytes: fresh.running_memory_bytes,
            no_peak_memory: fresh.no_peak_memory,
            ..self
        }
    }
}

/// The memory of a model run, where it can be that.
fn memory_use(
    watch: memory::Watch,
    model: &Model,
    options: &RunOptions,
) -> Result<MemoryUse, NoPeak> {
    if options.processor == Processor::Gpu {
        return Err(NoPeak::Elsewhere);
    }
    let used = watch.used()?;
    let fault = PeakFault::of(used.peak_bytes, Some(&model.graph), options.precision);
    fault.map_or(Ok(used), |fault| Err(NoPeak::Fault(fault)))
}

/// Refuses outputs that are not numbers.
fn finite(
    outputs: Vec<OutputValues>,
    backend: &'static str,
    model: &str,
) -> Result<Vec<OutputValues>, BackendError> {
    match outputs.iter().find(|o| o.values.iter().any(|v| !v.is_finite())) {
        Some(o) => Err(BackendError::Run {
            backend,
            model: model.to_owned(),
            reason: format!("output `{}` has values that are not numbers", o.name),
        }),
        None => Ok(outputs),
    }
}

/// Runs a GPU for [`GPU_WARM`] before anything is measured on it.
fn warm(session: &mut dyn Session, processor: Processor) -> Result<(), BackendError> {
    let start = Instant::now();
    while processor == Processor::Gpu && start.elapsed() < GPU_WARM {
        session.run()?;
    }
    Ok(())
}

/// End-to-end samples: warm-ups (one at least, no further one once they took as long as sampling
/// may), then as many as the protocol asks for. Also the mean energy of one of them, uJ, if there
/// is a counter, they took long enough for it, and it advanced.
fn sample(
    session: &mut dyn Session,
    protocol: &RunProtocol,
    meter: Option<&Meter>,
) -> Result<(Samples, Option<u64>), BackendError> {
    let start = Instant::now();
    for warmup in 0..protocol.protocol.warmups {
        if warmup == 0 || start.elapsed() < protocol.sampling_budget {
            session.run()?;
        }
    }
    let drawn = meter.and_then(|meter| Some((meter, meter.read()?)));
    let start = Instant::now();
    let mut samples = Samples::default();
    while protocol.wants_more(&samples, start.elapsed()) {
        session.run()?.append_to(&mut samples);
    }
    let took = start.elapsed();
    let energy_uj = drawn
        .filter(|(meter, _)| took >= meter.shortest())
        .and_then(|(meter, before)| meter.since_uj(&before))
        .filter(|&uj| uj > 0);
    let each = energy_uj.and_then(|uj| uj.checked_div(samples.wall_ns.len() as u64));
    Ok((samples, each))
}

/// One run to warm up, then `repeats` samples.
fn run_reference(
    session: Option<&mut (dyn Session + '_)>,
    repeats: usize,
    samples: &mut Samples,
) -> Result<(), BackendError> {
    let Some(session) = session.filter(|_| repeats > 0) else { return Ok(()) };
    session.run()?;
    for _ in 0..repeats {
        session.run()?.append_to(samples);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::RunTime;
    use crate::{ProfiledRuns, reference};

    /// Counts its runs, which take 100, 101, ... ns.
    struct Counter(u64);

    impl Session for Counter {
        fn run(&mut self) -> Result<RunTime, BackendError> {
            self.0 += 1;
            Ok(RunTime { wall_ns: 99 + self.0, cpu_ns: None })
        }

        fn profile(&mut self, _: usize, _: usize) -> Result<ProfiledRuns, BackendError> {
            Ok(ProfiledRuns::default())
        }

        fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn warmups_are_thrown_away_and_the_reference_runs_twice() {
        let protocol = RunProtocol { profiled_repeats: 2, ..RunProtocol::default() };
        let samples = sample(&mut Counter(0), &protocol, None).unwrap().0;
        assert_eq!(samples.wall_ns[0], 103);
        let model = reference::model().unwrap();
        let backend = crate::backends::by_name("null").unwrap();
        let mut counter = Counter(0);
        let run =
            run(backend.as_ref(), &model, &RunOptions::default(), &protocol, Some(&mut counter))
                .unwrap();
        assert_eq!(run.reference.wall_ns, [101, 102, 103, 104, 105, 107, 108, 109, 110, 111]);
        assert_eq!(run.operators.len(), model.graph.nodes().len());
        assert!(run.operators.iter().all(|o| o.samples.wall_ns.len() == 2));
        assert_eq!(run.e2e_profiled.wall_ns.len(), 2);
    }
}

//! [`measure`]: how long an engine takes to load models.

use super::{MeasuredLoad, ModelSize};
use crate::plan::live::Engine;
use std::sync::atomic::{AtomicBool, Ordering};
use vitempo_graph::Graph;
use vitempo_profiler::live::{LiveError, Rig};

/// The fastest of `repeats` loads of each model by an engine, because only waiting for others makes
/// one slower; `done` is called with every result. A model that the engine refuses is left out, with
/// the reason.
///
/// # Errors
/// [`LiveError`] when the engine does not start, or the user interrupted.
pub fn measure(
    engine: &Engine,
    models: &[Graph],
    repeats: usize,
    interrupted: &AtomicBool,
    done: &mut dyn FnMut(&str, Result<u64, &str>),
) -> Result<Vec<MeasuredLoad>, LiveError> {
    let mut loads = Vec::new();
    for model in models {
        if interrupted.load(Ordering::Relaxed) {
            return Err(LiveError::Interrupted);
        }
        let rig = Rig::start(&[engine.processor()], vec![model.clone()])?;
        match fastest(&rig, repeats.max(1)) {
            Ok(load_ns) => {
                done(model.name(), Ok(load_ns));
                let environment = rig.environments().next();
                loads.push(MeasuredLoad {
                    engine: engine.backend.clone(),
                    engine_version: environment
                        .map(|found| found.framework_version.clone())
                        .unwrap_or_default(),
                    device: environment.map(|found| found.device.clone()).unwrap_or_default(),
                    model: model.name().to_owned(),
                    size: ModelSize::of(model),
                    load_ns,
                });
            }
            Err(error) => done(model.name(), Err(&error.to_string())),
        }
    }
    Ok(loads)
}

fn fastest(rig: &Rig, repeats: usize) -> Result<u64, LiveError> {
    let mut least_ns = u64::MAX;
    for _ in 0..repeats {
        least_ns = rig.load(0, 0)?.map_or(least_ns, |load| load.ns.min(least_ns));
        rig.unload(0, &[0])?;
    }
    Ok(least_ns)
}

//! Plans of one model as files for `vitempo run`: `--out FILE.json` of pipelines and placements.

use super::{
    super::{bundle, error::CliResult, files, progress},
    live::LiveArgs,
};
use std::path::{Path, PathBuf};
use vitempo::{
    graph::{Latency, LatencyModel},
    plan::{
        live::Engine,
        run::{CostsOrigin, PlanProcessor, RunPlan},
    },
};

/// Whether `--out` names a plan, and not a folder for parts of the model.
pub fn is_plan(out: &Path) -> bool {
    out.extension().is_some_and(|extension| extension == "json")
}

/// Where the costs of a plan are from.
pub fn origin(costs: Option<&PathBuf>, processors: &[(String, PathBuf)]) -> CostsOrigin {
    match (costs, processors.is_empty()) {
        (Some(_), _) => CostsOrigin::File,
        (None, false) => CostsOrigin::Forecast,
        (None, true) => CostsOrigin::Measured,
    }
}

/// Processors of these names, with the environments of their bundles and the engines of `--live`.
pub fn processors<'a>(
    names: impl Iterator<Item = &'a String>,
    bundles: &[(String, PathBuf)],
    live: &LiveArgs,
) -> CliResult<Vec<PlanProcessor>> {
    let one = |name: &String| {
        let found = bundles.iter().find(|(own, _)| own == name);
        let found = found.map(|(_, path)| bundle::open(path)).transpose()?;
        let environment = found.as_ref().map(LatencyModel::environment);
        Ok(PlanProcessor::of_environment(name, environment).on(&live.engines))
    };
    names.map(one).collect()
}

/// Warns of processors that run on another engine than their bundles forecast.
pub fn warn_of_others<'a>(
    bundles: impl IntoIterator<Item = (&'a str, &'a PathBuf)>,
    engines: &[Engine],
) -> CliResult {
    for (name, path) in bundles {
        let Some(engine) = engines.iter().find(|engine| engine.name == name) else { continue };
        let bundle = bundle::open(path)?;
        let forecast = &bundle.environment().framework;
        if *forecast != engine.backend {
            progress::say(format!(
                "warning: `{name}` is forecast on {forecast} and runs on {}: what differs is not the \
                error of the forecast alone",
                engine.backend
            ));
        }
    }
    Ok(())
}

/// Writes a plan, and returns a note on it.
pub fn write(plan: &RunPlan, path: &Path) -> CliResult<String> {
    files::write(path, plan.text()?.as_bytes())?;
    let latency = plan.forecast.iter().flat_map(|forecast| &forecast.tasks);
    let latency = latency.map(|task| Latency::from_ns(task.mean_latency_ns).to_string());
    Ok(format!(
        "wrote {} for `vitempo run`: the parts of a frame one after the other, mean latency {}",
        path.display(),
        latency.collect::<Vec<_>>().join(", ")
    ))
}

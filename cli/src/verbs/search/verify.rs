//! `--verify`: members of the front measured for real, beside their forecasts.

use super::{
    super::{
        dataset,
        error::{CliError, CliResult},
        output::{Table, percent},
        profile, progress,
    },
    front::{Front, spread},
};
use serde_json::json;
use std::path::{Path, PathBuf};
use vitempo::campaign::{self, Campaign};
use vitempo::graph::{Environment, Latency, ModelIdentity, Prediction};
use vitempo::profiler::{RunOptions, RunProtocol, Source, Sweep, SweepModel};
use vitempo::search::spearman;

/// Measured members of one environment.
pub struct Verified {
    environment: String,
    /// Name, forecast and measured latency in ns.
    rows: Vec<(String, Prediction, f64)>,
}

/// Measures `count` members on the engine of every bundle; data and models stay in the folder.
pub fn measured(
    front: &Front<'_>,
    files: &[PathBuf],
    count: usize,
    library: Option<&Path>,
    folder: &Path,
) -> CliResult<Vec<Verified>> {
    let places = spread(files.len(), count);
    let mut verified = Vec::new();
    for (number, device) in front.devices.iter().enumerate() {
        let wanted = device.bundle.environment();
        let model = |&place: &usize| -> CliResult<SweepModel> {
            let graph =
                front.outcome.front[place].architecture.to_graph()?.with_name(front.name(place));
            let encoding = front.outcome.front[place].architecture.encode();
            let space = Some(front.space.name().to_owned());
            let identity = ModelIdentity {
                name: front.name(place),
                architecture: graph.architecture(),
                space,
                encoding: Some(encoding),
            };
            Ok(SweepModel { identity, graph, source: Source::File(files[place].clone()) })
        };
        let models = places.iter().map(model).collect::<CliResult<Vec<_>>>()?;
        let session = campaign::session_name();
        let data = folder.join("measured");
        let here = sweep(models, wanted, library, &session, &data)?;
        if here.id() != wanted.id() {
            progress::say(format!(
                "warning: forecast for {}, measured on {}",
                wanted.id(),
                here.id()
            ));
        }
        let profiles = dataset::load_environment(&data, Some(&here.id()))?.profiles;
        let row = |&place: &usize| {
            let name = front.name(place);
            let run = profiles.iter().rfind(|p| p.model.name == name && p.session == session)?;
            Some((name, *front.outcome.front[place].latencies.get(number)?, run.e2e.median_ns()?))
        };
        verified.push(Verified {
            environment: here.id(),
            rows: places.iter().filter_map(row).collect(),
        });
    }
    Ok(verified)
}

/// Measures the models as the bundle's environment runs them; the environment they were measured
/// in.
fn sweep(
    models: Vec<SweepModel>,
    wanted: &Environment,
    library: Option<&Path>,
    session: &str,
    data: &Path,
) -> CliResult<Environment> {
    let options = RunOptions {
        threads: wanted.threads,
        processor: wanted.processor,
        precision: wanted.precision,
        memory_format: wanted.memory_format,
        library: library.map(Path::to_owned),
        ..RunOptions::default()
    };
    let sweep = Sweep {
        models,
        backend: wanted.framework.clone(),
        options,
        protocol: RunProtocol::default(),
        budget: None,
        run_timeout: std::time::Duration::from_secs(300),
        target: profile::worker()?.into(),
        session: session.to_owned(),
    };
    let outcome = profile::keep(Campaign { sweep, out: data, retry_failed: true, resume: false })?;
    match outcome.summary.failed.first() {
        Some((model, reason)) => {
            Err(CliError::user(format!("`{model}` was not measured: {reason} (--verify)")))
        }
        None if outcome.summary.interrupted => Err(CliError::user("interrupted")),
        None => Ok(outcome.environment),
    }
}

impl Verified {
    fn correlation(&self) -> Option<f64> {
        let (forecast, measured): (Vec<f64>, Vec<f64>) =
            self.rows.iter().map(|(_, p, ns)| (p.point.ns(), *ns)).unzip();
        spearman(&forecast, &measured)
    }

    fn covered(&self) -> usize {
        self.rows.iter().filter(|(_, p, ns)| (p.lower.ns()..=p.upper.ns()).contains(ns)).count()
    }

    pub fn table(&self) -> String {
        let mut table = Table::new(&["Measured", "Forecast", "Interval", "Measured", "Error"], 1);
        for (name, p, ns) in &self.rows {
            let error = format!("{:+.1} %", (p.point.ns() / ns - 1.0) * 100.0);
            table.row([
                name.clone(),
                p.point.to_string(),
                format!("[{} .. {}]", p.lower, p.upper),
                Latency::from_ns(*ns).to_string(),
                error,
            ]);
        }
        let rank =
            self.correlation().map_or_else(|| "not defined".to_owned(), |r| format!("{r:.3}"));
        let share = percent(self.covered() as f64 / self.rows.len() as f64);
        format!(
            "\n{}\nrank correlation (Spearman) of forecast and measured latency: {rank}; {share} \
            within their intervals   {}\n",
            table.to_text(),
            self.environment
        )
    }

    pub fn json(&self) -> serde_json::Value {
        let row = |(name, p, ns): &(String, Prediction, f64)| json!({"name": name, "forecast_ns": {"point": p.point, "lower": p.lower, "upper": p.upper, "level": p.level}, "measured_ns": ns});
        json!({"environment": self.environment, "models": self.rows.iter().map(row).collect::<Vec<_>>(), "spearman": self.correlation(),
            "within_interval": self.covered()})
    }
}

//! `vitempo backends compare`: the same models on every engine, memory format and precision that
//! can run here.
//!
//! The measurements are kept in a dataset; what is there already is not measured again. Settings
//! take turns, round by round.

use crate::verbs::{
    dataset,
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
    output::{self, Format, Report, Table, percent},
    profile, progress,
};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use vitempo::campaign::{self, Campaign};
use vitempo::graph::{
    Executed, MemoryFormat, ModelProfile, OpFamily, Precision, Processor, Status,
};
use vitempo::profiler::{
    Availability, Backend, Capabilities, RunOptions, RunProtocol, Sweep, backends,
};

/// Measures the same models on every engine, memory format and precision that can run here, and
/// shows them side by side
///
/// Example: vitempo backends compare models/ --out comparison/
///
/// The same command goes on where an interrupted one stopped, and shows what is there. Nothing else
/// should run on the machine meanwhile.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Dataset folder the measurements go to; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// Only these engines
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    backends: Vec<String>,

    /// Only these precisions, e.g. f32,int8
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = profile::parse_precision)]
    precisions: Vec<Precision>,

    /// Threads that compute inside one operator
    #[arg(long, default_value = "1", value_parser = profile::parse_positive)]
    threads: usize,

    /// How often the sweep goes round all settings and models
    #[arg(long, default_value = "1", value_parser = profile::parse_positive)]
    rounds: usize,

    /// Seed of inputs, of weights that files lack and of the order of model runs
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shorter than that of a sweep for training: ratios between engines are far larger than the noise.
const SAMPLING_BUDGET: Duration = Duration::from_millis(400);

/// One engine with one precision and memory format.
#[derive(Clone, Debug)]
struct Setting {
    backend: &'static str,
    precision: Precision,
    memory_format: Option<MemoryFormat>,
}

/// What the models took in one setting.
struct Compared {
    setting: Setting,
    version: String,
    executed: Option<Executed>,
    /// Median end-to-end latency by model, ns.
    latency_ns: BTreeMap<String, f64>,
    /// Models that failed, and why.
    failed: BTreeMap<String, String>,
    /// Share of operator time by family, each model weighing the same.
    shares: BTreeMap<OpFamily, f64>,
}

pub fn run(args: &CompareArgs) -> CliResult {
    let models = args.models.read_some()?;
    let mut settings = settings(&chosen(&args.backends)?);
    settings.retain(|s| args.precisions.is_empty() || args.precisions.contains(&s.precision));
    if settings.is_empty() {
        return Err(CliError::user("no engine here offers that (--backends, --precisions)")
            .hint("`vitempo backends list` shows what there is"));
    }
    let mut environments = Vec::new();
    for round in 1..=args.rounds {
        environments.clear();
        for setting in &settings {
            progress::say(format!("round {round}: {setting}"));
            environments.push(measure(args, setting, &models, round)?);
        }
    }
    let dataset = dataset::load(&args.out)?;
    let names: Vec<String> = models.iter().map(|m| m.identity.name.clone()).collect();
    let compared = settings
        .into_iter()
        .zip(environments)
        .map(|(setting, (id, version))| compared(setting, version, &id, &names, &dataset.profiles))
        .collect();
    output::print(&Comparison { models: names, compared }, args.format)
}

/// The engines asked for; all that measure real latencies when none is named.
fn chosen(names: &[String]) -> CliResult<Vec<Box<dyn Backend>>> {
    if names.is_empty() {
        return Ok(backends::all().into_iter().filter(|b| b.name() != "null").collect());
    }
    names.iter().map(|name| backends::by_name(name).map_err(CliError::user)).collect()
}

/// Every setting that can run here on the CPU. An engine that knows one memory format only is left
/// to it.
fn settings(engines: &[Box<dyn Backend>]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for engine in engines {
        let offered = match engine.probe(&RunOptions::default()) {
            Availability::Available(capabilities)
                if capabilities.operator_timing
                    && capabilities.devices.contains(&Processor::Cpu) =>
            {
                capabilities
            }
            Availability::Available(_) => continue,
            Availability::Unavailable { reason, hint } => {
                progress::say(format!("left out {}: {reason}; {hint}", engine.name()));
                continue;
            }
        };
        settings.extend(combinations(engine.name(), &offered));
    }
    settings
}

fn combinations(backend: &'static str, offered: &Capabilities) -> Vec<Setting> {
    let formats: Vec<Option<MemoryFormat>> = match offered.memory_formats.as_slice() {
        [] | [_] => vec![None],
        several => several.iter().copied().map(Some).collect(),
    };
    let pairs = offered
        .precisions
        .iter()
        .flat_map(|&precision| formats.iter().map(move |&format| (precision, format)));
    pairs.map(|(precision, memory_format)| Setting { backend, precision, memory_format }).collect()
}

/// Measures one round of one setting; the environment's identifier and the engine's version.
fn measure(
    args: &CompareArgs,
    setting: &Setting,
    models: &[Model],
    rounds: usize,
) -> CliResult<(String, String)> {
    let options = RunOptions {
        threads: args.threads,
        precision: setting.precision,
        memory_format: setting.memory_format,
        seed: args.seed,
        ..RunOptions::default()
    };
    let mut protocol = RunProtocol {
        profiled_repeats: 5,
        sampling_budget: SAMPLING_BUDGET,
        ..RunProtocol::default()
    };
    protocol.protocol.rounds = rounds;
    protocol.protocol.seed = args.seed;
    let sweep = Sweep {
        models: campaign::sweep_models(models.to_vec()),
        backend: setting.backend.to_owned(),
        options,
        protocol,
        budget: None,
        run_timeout: Duration::from_secs(300),
        target: profile::worker()?.into(),
        session: "comparison".to_owned(),
    };
    let outcome =
        profile::keep(Campaign { sweep, out: &args.out, retry_failed: false, resume: true })?;
    if outcome.summary.interrupted {
        return Err(CliError::user("interrupted").hint("the same command goes on where it stopped"));
    }
    Ok((outcome.environment.id(), outcome.environment.framework_version))
}

fn compared(
    setting: Setting,
    version: String,
    environment: &str,
    models: &[String],
    profiles: &[ModelProfile],
) -> Compared {
    let here: Vec<&ModelProfile> = profiles
        .iter()
        .filter(|p| p.environment.id() == environment && models.contains(&p.model.name))
        .collect();
    let good: Vec<&ModelProfile> =
        here.iter().copied().filter(|p| p.status == Status::Ok).collect();
    let mut runs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for profile in &good {
        runs.entry(profile.model.name.clone()).or_default().extend(profile.e2e.median_ns());
    }
    let failure = |p: &&ModelProfile| {
        if let Status::Failed(reason) = &p.status {
            Some((p.model.name.clone(), reason.clone()))
        } else {
            None
        }
    };
    Compared {
        setting,
        version,
        executed: Executed::of(good.iter().flat_map(|p| &p.operators)),
        latency_ns: runs.into_iter().filter_map(|(name, ns)| Some((name, mean(&ns)?))).collect(),
        failed: here.iter().filter_map(failure).collect(),
        shares: mean_shares(&good),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Share of operator time by family: the mean over model runs.
fn mean_shares(profiles: &[&ModelProfile]) -> BTreeMap<OpFamily, f64> {
    let mut shares = BTreeMap::new();
    for profile in profiles {
        let times: Vec<(OpFamily, f64)> = profile
            .operators
            .iter()
            .filter_map(|m| Some((m.op.kind.family(), m.samples.median_ns()?)))
            .collect();
        let total: f64 = times.iter().map(|(_, ns)| ns).sum();
        for (family, ns) in times.into_iter().filter(|_| total > 0.0) {
            *shares.entry(family).or_default() += ns / total / profiles.len() as f64;
        }
    }
    shares
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.backend, self.precision, format_name(self.memory_format))
    }
}

fn format_name(format: Option<MemoryFormat>) -> &'static str {
    format.map_or("engine's own", MemoryFormat::name)
}

struct Comparison {
    models: Vec<String>,
    compared: Vec<Compared>,
}

impl Comparison {
    /// Geometric mean of this setting's latency over the first setting's, on the models both ran.
    fn ratio(&self, of: &Compared) -> Option<f64> {
        let first = self.compared.first()?;
        let logs: Vec<f64> = of
            .latency_ns
            .iter()
            .filter_map(|(name, ns)| Some((ns / first.latency_ns.get(name)?).ln()))
            .collect();
        mean(&logs).map(f64::exp)
    }

    fn summary(&self) -> Table {
        let mut headings =
            vec!["No.", "Engine", "Precision", "Memory format", "Executed", "Models", "Latency"];
        headings.extend(OpFamily::ALL.map(OpFamily::name));
        let mut table = Table::new(&headings, 5);
        for (number, c) in self.compared.iter().enumerate() {
            let executed = c
                .executed
                .map_or_else(|| "-".to_owned(), |e| format!("{} {}", e.precision, e.memory_format));
            let ratio = self.ratio(c).map_or_else(|| "-".to_owned(), |r| format!("{r:.2} x"));
            let shares = OpFamily::ALL.map(|family| {
                c.shares.get(&family).map_or_else(|| "-".to_owned(), |&s| percent(s))
            });
            let cells = [
                (number + 1).to_string(),
                format!("{} {}", c.setting.backend, c.version),
                c.setting.precision.to_string(),
                format_name(c.setting.memory_format).to_owned(),
                executed,
                format!("{} of {}", c.latency_ns.len(), self.models.len()),
                ratio,
            ];
            table.row(cells.into_iter().chain(shares));
        }
        table
    }

    /// Latency of every model (rows) in every setting (columns, by number).
    fn latencies(&self) -> String {
        let width = self.models.iter().map(String::len).max().unwrap_or(0);
        let mut text = format!("{:width$}", "ms");
        (1..=self.compared.len()).for_each(|number| text += &format!(" {number:>8}"));
        text.push('\n');
        for model in &self.models {
            text += &format!("{model:width$}");
            for c in &self.compared {
                text += &c
                    .latency_ns
                    .get(model)
                    .map_or_else(|| format!(" {:>8}", "-"), |ns| format!(" {:>8.2}", ns / 1e6));
            }
            text.push('\n');
        }
        text
    }
}

impl Report for Comparison {
    fn table(&self) -> String {
        let mut text = self.summary().to_text();
        text += "\nLatency: geometric mean over the models, as a multiple of No. 1's. Families: \
            mean share of operator time.\n\n";
        text += &self.latencies();
        for c in &self.compared {
            for (model, reason) in &c.failed {
                text += &format!("failed: {}: {model}: {reason}\n", c.setting);
            }
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &["engine", "version", "precision", "memory_format", "model", "latency_ns"],
            5,
        );
        for c in &self.compared {
            for (model, ns) in &c.latency_ns {
                let names = [
                    c.setting.backend,
                    &c.version,
                    c.setting.precision.name(),
                    c.setting.memory_format.map_or("", MemoryFormat::name),
                    model,
                ];
                table.row(names.map(str::to_owned).into_iter().chain([format!("{ns:.0}")]));
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |c: &Compared| {
            let shares: BTreeMap<&str, f64> =
                c.shares.iter().map(|(family, share)| (family.name(), *share)).collect();
            json!({"engine": c.setting.backend, "version": c.version, "precision": c.setting.precision, "memory_format": c.setting.memory_format,
                "executed": c.executed, "latency_ns": c.latency_ns, "latency_ratio": self.ratio(c), "time_shares": shares, "failed": c.failed})
        };
        Ok(
            json!({"models": self.models, "settings": self.compared.iter().map(row).collect::<Vec<_>>()}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_of_one_format_is_left_to_it() {
        let offered = |formats: Vec<MemoryFormat>| Capabilities {
            version: "1".into(),
            path: None,
            devices: vec![Processor::Cpu],
            precisions: vec![Precision::F32, Precision::I8],
            memory_formats: formats,
            operator_timing: true,
        };
        let one: Vec<_> = combinations("x", &offered(vec![MemoryFormat::ChannelsLast]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(one, ["x f32 engine's own", "x i8 engine's own"]);
        assert_eq!(
            combinations(
                "x",
                &offered(vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast])
            )
            .len(),
            4
        );
    }
}

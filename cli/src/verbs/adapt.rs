//! `vitempo adapt`: a device that nobody here holds, from a handful of end-to-end latencies.

mod latencies;
mod published;
mod sources;

use super::{
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
    output::{self, Format, Report, Table, percent},
    profile::Device,
};
use clap::Subcommand;
use serde_json::json;
use sources::Models;
use std::{collections::BTreeMap, fmt::Write, path::PathBuf};
use vitempo::graph::{Environment, Latency, Origin, Precision};
use vitempo::predictors::{
    AdaptedBundle,
    adapt::{Adapted, DevicePrior, Measured, Provenance, Trait, UnitCost, Workload, adapt},
    metrics::{self, MetricError},
};
use vitempo::transfer::parallel;

/// Adapts to a device of which a few models were timed end to end
///
/// From a CSV of model names and latencies, the models' files (weights may be absent) and what is
/// known of other devices comes a bundle that forecasts any model, with intervals as wide as a
/// handful of latencies leaves them.
///
/// Example: vitempo adapt --measured e2e.csv --models models/ --from epyc-onnxruntime-f32-1t --out
/// phone.vtb --suggest 3
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AdaptArgs {
    #[command(subcommand)]
    command: Option<AdaptCommand>,

    /// CSV with the columns `model` and `latency_ms` (or `latency_s`, `latency_us`, `latency_ns`);
    /// several rows of a model are samples
    #[arg(long, value_name = "FILE", required = true)]
    measured: Option<PathBuf>,

    /// ONNX files, folders of them, or globs: those measured, and those to choose from for
    /// --suggest
    #[arg(long, value_name = "MODELS", num_args = 1.., required = true)]
    models: Vec<String>,

    /// Other devices: bundles, by name or file, and dataset folders
    #[arg(long, value_name = "BUNDLE", num_args = 1..)]
    from: Vec<PathBuf>,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb", required = true)]
    out: Option<PathBuf>,

    /// Name this many models worth measuring next
    #[arg(long, value_name = "N", default_value_t = 0)]
    suggest: usize,

    /// Name of the device; by default that of the CSV
    #[arg(long)]
    name: Option<String>,

    /// Which of its processors ran
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,

    /// What ran the models, e.g. tflite
    #[arg(long, default_value = "unknown")]
    framework: String,

    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// f32, bf16, f16 or int8
    #[arg(long, default_value = "f32", value_parser = super::profile::parse_precision)]
    precision: Precision,

    /// Who published the latencies and under which licence, where it was not you who measured
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,

    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Subcommand, Debug)]
pub enum AdaptCommand {
    Published(published::PublishedArgs),
}

pub fn run(args: &AdaptArgs) -> CliResult {
    match (&args.command, &args.measured, &args.out) {
        (Some(AdaptCommand::Published(args)), ..) => published::run(args),
        (None, Some(measured), Some(out)) => measured_on(args, measured, out),
        _ => Err(CliError::user("--measured, --models and --out are needed")
            .hint("vitempo adapt --help")),
    }
}

fn measured_on(args: &AdaptArgs, csv: &std::path::Path, out: &std::path::Path) -> CliResult {
    let files = ModelArgs { models: args.models.clone(), dimensions: Vec::new() }.read()?;
    let mut models = Models::default();
    let indices: Vec<usize> = files.iter().map(|file| models.index(&file.graph)).collect();
    let given = latencies::read(csv, &files)?;
    let measured: Vec<Measured> = given
        .iter()
        .filter_map(|(file, ns)| Some(Measured { model: *indices.get(*file)?, ns: *ns }))
        .collect();
    let environment = environment(args, csv);
    let kind = sources::kind(&environment);
    let sources = sources::read(&args.from, &files, &indices, &mut models, &environment)?;
    let prior = DevicePrior::learn(&models.workloads, &sources.sources);
    let adapted = adapt(&prior, &models.workloads, &measured, Some(&kind));
    let named: Vec<(String, f64)> = given
        .iter()
        .filter_map(|(i, ns)| Some((files.get(*i)?.identity.name.clone(), *ns)))
        .collect();
    let origin = if args.source.is_some() { Origin::Imported } else { Origin::Measured };
    let provenance = Provenance {
        environment,
        origin,
        source: args.source.clone(),
        measured: named.clone(),
        sources: sources.names,
    };
    let left_out = left_out(&prior, &models.workloads, &measured, &kind);
    let report = Adaptation {
        out: out.to_owned(),
        left_out_mape: left_out_mape(&left_out, &named)?,
        left_out,
        unconstrained: adapted.unconstrained(
            &indices.iter().filter_map(|&i| models.workloads.get(i)).collect::<Vec<_>>(),
        ),
        suggested: suggested(
            args.suggest,
            &adapted,
            &files,
            &indices,
            &models.workloads,
            &measured,
        ),
        bundle: AdaptedBundle::new(adapted, provenance, models.by_architecture),
    };
    report.bundle.save(out)?;
    output::print(&report, args.format)
}

fn environment(args: &AdaptArgs, csv: &std::path::Path) -> Environment {
    let stem = || {
        csv.file_stem().map_or_else(|| "device".to_owned(), |s| s.to_string_lossy().into_owned())
    };
    Environment {
        device: args.name.clone().unwrap_or_else(stem),
        processor: args.device.processor(),
        cores_available: args.threads,
        cores: Vec::new(),
        framework: args.framework.clone(),
        framework_version: "unknown".to_owned(),
        threads: args.threads,
        precision: args.precision,
        memory_format: None,
        power_mode: None,
        isa: String::new(),
        os: String::new(),
    }
}

/// Measured models are left out in so many groups: one by one where there are no more.
const GROUPS: usize = 10;

/// Each measured model forecast from those of other groups: latency, point, lower and upper bound
/// in ns.
fn left_out(
    prior: &DevicePrior,
    workloads: &[Workload],
    measured: &[Measured],
    kind: &Trait,
) -> Vec<[f64; 4]> {
    let groups = measured.len().min(GROUPS);
    let without = |group: usize| {
        let (out, others): (Vec<_>, Vec<_>) =
            measured.iter().enumerate().partition(|(i, _)| i % groups == group);
        let others: Vec<Measured> = others.into_iter().map(|(_, m)| *m).collect();
        let adapted = adapt(prior, workloads, &others, Some(kind));
        let forecast = |(i, &Measured { model, ns }): (usize, &Measured)| {
            let (point, lower, upper) =
                adapted.forecast(&workloads[model], Some(model)).latency_ns();
            (i, [ns, point, lower, upper])
        };
        out.into_iter().map(forecast).collect::<Vec<_>>()
    };
    let mut forecasts: Vec<(usize, [f64; 4])> =
        parallel(groups, vitempo::processors(), without).into_iter().flatten().collect();
    forecasts.sort_by_key(|(i, _)| *i);
    forecasts.into_iter().map(|(_, latencies)| latencies).collect()
}

/// Mean error of models that were left out, percent; `None` where none was. `named`: their names
/// and latencies.
fn left_out_mape(left_out: &[[f64; 4]], named: &[(String, f64)]) -> CliResult<Option<f64>> {
    let (truth, points): (Vec<f64>, Vec<f64>) = left_out.iter().map(|[t, p, ..]| (*t, *p)).unzip();
    metrics::where_paired(metrics::mape(&truth, &points)).map_err(|error| {
        let model = match error {
            MetricError::NotFinite { index, .. } => named.get(index).map(|(name, _)| name.as_str()),
            MetricError::NoPairs | MetricError::Unpaired { .. } => None,
        };
        CliError::user(error).about(model.unwrap_or("the measured models"))
    })
}

/// Names of files worth measuring next; `indices`: their workloads.
fn suggested(
    count: usize,
    adapted: &Adapted,
    files: &[Model],
    indices: &[usize],
    workloads: &[Workload],
    measured: &[Measured],
) -> Vec<String> {
    let workloads: Vec<Workload> = indices.iter().map(|&i| workloads[i].clone()).collect();
    let done: Vec<usize> =
        (0..files.len()).filter(|&f| measured.iter().any(|m| m.model == indices[f])).collect();
    adapted
        .suggest(&workloads, &done, count)
        .into_iter()
        .filter_map(|f| Some(files.get(f)?.identity.name.clone()))
        .collect()
}

struct Adaptation {
    out: PathBuf,
    bundle: AdaptedBundle,
    left_out: Vec<[f64; 4]>,
    left_out_mape: Option<f64>,
    unconstrained: Vec<(UnitCost, f64)>,
    suggested: Vec<String>,
}

impl Adaptation {
    /// How many truths lie within the interval, each model forecast from the others.
    fn inside(&self) -> usize {
        self.left_out.iter().filter(|[t, _, low, high]| low <= t && t <= high).count()
    }

    fn rows(&self) -> Table {
        let mut table =
            Table::new(&["Measured model", "Latency", "From the others", "Lower", "Upper"], 1);
        for ((name, _), latencies) in self.bundle.measured.iter().zip(&self.left_out) {
            table.row(
                [name.clone()]
                    .into_iter()
                    .chain(latencies.map(|ns| Latency::from_ns(ns).to_string())),
            );
        }
        table
    }
}

impl Report for Adaptation {
    fn table(&self) -> String {
        let error = self.left_out_mape.map_or_else(|| "-".to_owned(), |e| format!("{e:.1} %"));
        let (inside, n) = (self.inside(), self.left_out.len());
        let sources = if self.bundle.sources.is_empty() {
            "no other device".to_owned()
        } else {
            self.bundle.sources.join(", ")
        };
        let mut text = format!(
            "{}   {}\n\nLearnt from  {sources}\n\n",
            self.out.display(),
            self.bundle.environment.describe()
        );
        text += &self.rows().to_text();
        let _ = writeln!(
            text,
            "\nEach model forecast from the others: {error} mean error, {inside} of {n} \
            within the 90 % interval"
        );
        for (cost, share) in &self.unconstrained {
            let _ = writeln!(
                text,
                "not constrained by these latencies: {}, {} of the forecast time",
                cost.name(),
                percent(*share)
            );
        }
        if !self.suggested.is_empty() {
            let _ = writeln!(
                text,
                "hint: measure next, most telling first: {}",
                self.suggested.join(", ")
            );
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let (error, inside) = (self.left_out_mape, self.inside());
        let unconstrained: BTreeMap<&str, f64> =
            self.unconstrained.iter().map(|(cost, share)| (cost.name(), *share)).collect();
        let row = |((name, _), [ns, point, lower, upper]): (&(String, f64), &[f64; 4])| json!({"model": name, "latency_ns": ns, "from_others_ns": {"point": point, "lower": lower, "upper": upper}});
        let rows: Vec<serde_json::Value> =
            self.bundle.measured.iter().zip(&self.left_out).map(row).collect();
        Ok(
            json!({"bundle": self.out, "environment": self.bundle.environment, "sources": self.bundle.sources, "measured": rows, "left_out_mape": error,
            "left_out_inside": inside, "unconstrained": unconstrained, "suggested": self.suggested}),
        )
    }
}

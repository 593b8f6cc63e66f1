//! `vitempo adapt`: a bundle for a device of which only a few end-to-end latencies are known.

mod first;
mod refused;

use super::{
    bundle, dataset,
    error::{CliError, CliResult},
    files,
    models::ModelArgs,
    output::{self, Format, Report, Table, percent},
    profile::Device,
    progress,
    quantity::threads,
};
use first::First;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};
use vitempo::adaptation::{
    Adaptation, Adapter, CrossValidation, Latencies, Model, NewDevice, Warning,
};
use vitempo::graph::{Latency, Precision};

/// Adapts to a device from the end-to-end latencies of a few models
///
/// Reads a CSV of model names and latencies, the models' files (weights may be absent) and bundles
/// or datasets of other devices, and writes a bundle that forecasts any model. Its intervals are
/// wider than those of a trained bundle. Without a CSV, --suggest names the models to measure first.
///
/// Example: vitempo adapt --measured e2e.csv --models models/ --from epyc-onnxruntime-f32-1t --out
/// phone.vtb --suggest 3
#[derive(clap::Args, Debug)]
pub struct AdaptArgs {
    /// CSV with the columns `model` and `latency_ms` (or `latency_s`, `latency_us`, `latency_ns`);
    /// several rows of a model are samples
    #[arg(long, value_name = "FILE", requires = "out", required_unless_present = "suggest")]
    measured: Option<PathBuf>,

    /// ONNX files, folders of them, or globs: the measured models, and candidates for --suggest
    #[arg(long, value_name = "MODELS", num_args = 1.., required = true)]
    models: Vec<String>,

    /// Other devices: bundles, by name or file, and dataset folders
    #[arg(long, value_name = "BUNDLE", num_args = 1..)]
    from: Vec<PathBuf>,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb", requires = "measured")]
    out: Option<PathBuf>,

    /// Name this many models worth measuring next; without --measured, the first ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    suggest: usize,

    /// Name of the device; by default that of the CSV
    #[arg(long, value_parser = refused::text)]
    name: Option<String>,

    /// Processor of the device on which the models ran
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,

    /// Framework that ran the models, e.g. tflite
    #[arg(long, value_parser = refused::text, default_value = "unknown")]
    framework: String,

    /// Threads that the models ran with
    #[arg(long, value_name = "N", value_parser = threads, default_value_t = 1)]
    threads: usize,

    /// f32, bf16, f16 or int8
    #[arg(long, default_value = "f32", value_parser = super::profile::parse_precision)]
    precision: Precision,

    /// Publisher and licence of the latencies, if you did not measure them
    #[arg(long, value_name = "TEXT", value_parser = refused::text)]
    source: Option<String>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &AdaptArgs) -> CliResult {
    args.out.as_deref().map_or(Ok(()), files::check_bundle)?;
    let read = ModelArgs::of(args.models.clone(), Vec::new()).read()?;
    let models: Vec<Model<'_>> =
        read.iter().map(|f| Model { name: &f.identity.name, graph: &f.graph }).collect();
    let (Some(csv), Some(out)) = (&args.measured, &args.out) else {
        if args.suggest == 0 {
            return Err(CliError::user("--suggest is 0, and there is no --measured")
                .hint("--suggest 10 names ten models to measure first"));
        }
        let first = adapter(args, Path::new(""), &models)?.first_models();
        let first = First(first.map_err(|error| refused::same_name(&error, &read))?);
        first.warn();
        return output::print(&first, args.format);
    };
    let latencies =
        Latencies::read(csv, &models).map_err(|error| refused::latencies(&error, &read))?;
    let adaptation = adapter(args, csv, &models)?.adapt(&latencies);
    adaptation.bundle.save(out)?;
    let report = Adapted { out, csv, of: &adaptation };
    report.warn();
    output::print(&report, args.format)
}

/// With all sources, for the device whose latencies are in this file.
fn adapter<'a>(
    args: &AdaptArgs,
    latencies: &Path,
    models: &'a [Model<'a>],
) -> CliResult<Adapter<'a>> {
    let device = NewDevice {
        name: args.name.clone(),
        processor: args.device.processor(),
        framework: args.framework.clone(),
        threads: args.threads,
        precision: args.precision,
    };
    let mut adapter = Adapter::new(device.environment(latencies), models)
        .published_by(args.source.clone())
        .suggestions(args.suggest)
        .threads(vitempo::processors());
    for path in &args.from {
        let added = if path.is_dir() {
            adapter.add_dataset(&dataset::load(path)?)
        } else {
            adapter.add_bundle(&bundle::open(path)?)
        };
        added.map_err(|error| refused::source(error, path))?;
    }
    Ok(adapter)
}

/// Says which environments of the device itself are no sources.
fn say_left_out(environments: &[String]) {
    for environment in environments {
        progress::say(format!("left out of the sources, the device itself: {environment}"));
    }
}

/// The sources, as a line of a table.
fn names_of(sources: &[String]) -> String {
    if sources.is_empty() { "no other device".to_owned() } else { sources.join(", ") }
}

/// The result of the adaptation, as text and as JSON.
struct Adapted<'a> {
    out: &'a Path,
    csv: &'a Path,
    of: &'a Adaptation,
}

impl Adapted<'_> {
    /// Warns of implausible latencies, and lists the environments that are left out.
    fn warn(&self) {
        for warning in &self.of.warnings {
            progress::say(format!("warning: {}: {warning}", self.csv.display()));
            if let Warning::FarFromForecast { unit, suggested: Some(suggested), .. } = warning {
                progress::say(format!(
                    "hint: if they are in another unit, name the column `{}` instead of `{}`",
                    suggested.heading(),
                    unit.heading()
                ));
            }
        }
        say_left_out(&self.of.left_out);
    }

    fn rows(&self) -> Table {
        let mut table =
            Table::new(&["Measured model", "Latency", "From the others", "Lower", "Upper"], 1);
        for model in &self.of.bundle.measured {
            let others = model.from_others.map(|p| [p.point(), p.lower(), p.upper()]);
            let others = others.map_or_else(
                || ["-"; 3].map(str::to_owned),
                |latencies| latencies.map(|latency| latency.to_string()),
            );
            let latency = Latency::from_ns(model.latency_ns).to_string();
            table.row([model.name.clone(), latency].into_iter().chain(others));
        }
        table
    }

    fn cross_validation(&self) -> String {
        self.of.cross_validation.as_ref().map_or_else(
            || "One latency cannot be cross-validated: there is no error figure".to_owned(),
            |validation| {
                format!(
                    "Each model forecast from the others: {:.1} % mean error, {} of {} within the \
                    90 % interval",
                    validation.mape(),
                    validation.inside(),
                    validation.forecasts.len()
                )
            },
        )
    }
}

impl Report for Adapted<'_> {
    fn table(&self) -> String {
        let bundle = &self.of.bundle;
        let sources = names_of(&bundle.sources);
        let mut text = format!(
            "{}   {}\n\nSources      {sources}\n\n",
            self.out.display(),
            bundle.environment.describe()
        );
        text += &self.rows().to_text();
        let _ = writeln!(text, "\n{}", self.cross_validation());
        for (cost, share) in &self.of.unconstrained {
            let _ = writeln!(
                text,
                "not constrained by these latencies: {}, {} of the forecast time",
                cost.name(),
                percent(*share)
            );
        }
        if !self.of.suggested.is_empty() {
            let _ = writeln!(
                text,
                "hint: measure next (the first narrows the forecasts most): {}",
                self.of.suggested.join(", ")
            );
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let bundle = &self.of.bundle;
        let unconstrained: BTreeMap<&str, f64> =
            self.of.unconstrained.iter().map(|(cost, share)| (cost.name(), *share)).collect();
        let validation = self.of.cross_validation.as_ref();
        let rows: Vec<serde_json::Value> = bundle
            .measured
            .iter()
            .map(|m| {
                json!({"model": m.name, "latency_ns": m.latency_ns,
                    "from_others_ns": m.from_others})
            })
            .collect();
        let warnings: Vec<String> = self.of.warnings.iter().map(ToString::to_string).collect();
        Ok(json!({"bundle": self.out, "environment": bundle.environment,
            "sources": bundle.sources, "left_out": self.of.left_out, "warnings": warnings,
            "measured": rows, "left_out_mape": validation.map(CrossValidation::mape),
            "left_out_inside": validation.map(CrossValidation::inside),
            "unconstrained": unconstrained, "suggested": self.of.suggested}))
    }
}

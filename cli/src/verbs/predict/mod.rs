//! `vitempo predict`: forecasts latencies of models in a bundle's environment, with intervals and
//! the time of each operator; on several devices; of two models beside each other; and explains the
//! forecast of a node.

mod cause;
mod compared;
mod devices;
mod explained;
mod lines;
pub mod memory;
mod refinable;
mod report;
mod sizes;

use super::{
    error::{CliError, CliResult},
    files,
    models::{Model, SizedModelArgs, none_left_out},
    output::{self, Format},
    plan::twice::refuse_twice,
    progress,
};
use report::Printed;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
};
use vitempo::Bundle;
use vitempo::bundle::Selection;
use vitempo::contention::{BesideError, Neighbour};
use vitempo::forecast::{
    DeviceForecasts, ForecastError, Listed, ModelForecasts, ModelOnDevices, forecast_each,
    forecast_each_beside, forecast_on_each,
};
use vitempo::graph::{ImageSize, Latency};
use vitempo::models::{ModelError, Models};
use vitempo::predictors::adapt::ListedModel;
use vitempo_report::devices::plot;

/// Forecasts the latency of models
///
/// A model that cannot be read or forecast is left out, with a warning; the exit code is 1 then.
/// Several bundles, globs and `all` give one table over devices, the lowest latency first.
///
/// Example: vitempo predict tests/models/vit_tiny_patch16_224.onnx --bundle demo.vtb --breakdown
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    #[command(flatten)]
    pub models: SizedModelArgs,

    /// Bundle of either kind: a file, a name that `vitempo bundle list` shows, a glob over names
    /// such as 'samsung-*', or all; may be repeated
    #[arg(long = "bundle", value_name = "NAME", required = true)]
    pub bundles: Vec<PathBuf>,

    /// Forecast the latency while another processor is busy, too: with a load that the bundle was
    /// fitted to, e.g. stream, or with a model in the environment of another bundle
    #[arg(long, value_name = "LOAD|FILE@BUNDLE")]
    pub beside: Option<String>,

    /// Show every operator that will run; in CSV these instead of the models
    #[arg(long)]
    pub breakdown: bool,

    /// Explain the forecast of one node of one model, or of a kernel that --breakdown lists: the
    /// kernels that compute it, what runs with it, features, and predictor
    #[arg(long, value_name = "NODE", conflicts_with_all = ["beside", "breakdown", "compare"])]
    pub explain: Option<String>,

    /// Show how the second of two models differs from the first: by kind of kernel, and by kernels
    /// of one name
    #[arg(long, conflicts_with_all = ["beside", "breakdown"])]
    pub compare: bool,

    /// Show how latency, FLOPs and bytes of one model grow over these sizes of images, e.g.
    /// 128,192x256,384; --plot draws them
    #[arg(
        id = "over_sizes", long = "sizes", value_name = "HxW,...", value_delimiter = ',',
        conflicts_with_all = ["beside", "breakdown", "explain", "compare", "sizes"]
    )]
    pub over_sizes: Vec<ImageSize>,

    /// Dataset with measured latencies to show beside the forecasts, e.g. of `vitempo profile
    /// --size`
    #[arg(long, value_name = "FOLDER", requires = "over_sizes")]
    pub measured: Option<PathBuf>,

    /// Write a figure with the forecast and interval of each model and bundle
    #[arg(long, value_name = "FILE.svg", value_parser = files::svg(), conflicts_with_all = ["beside", "explain", "compare"])]
    pub plot: Option<PathBuf>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<ForecastError> for CliError {
    fn from(error: ForecastError) -> Self {
        match error {
            ForecastError::Model(error) => error.into(),
            ForecastError::Prediction(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<BesideError> for CliError {
    fn from(error: BesideError) -> Self {
        let hint = match &error {
            BesideError::Unknown(_) => {
                "measure models with `vitempo profile --beside`, and train on them".to_owned()
            }
            BesideError::NoNeighbour { known, .. } => {
                format!("it was fitted to: {}", known.join(", "))
            }
            _ => String::new(),
        };
        let error = match error {
            BesideError::Bundle(error) => return error.into(),
            BesideError::Model(error) => return error.into(),
            BesideError::Prediction(error) => return error.into(),
            other => Self::user(other),
        };
        if hint.is_empty() { error } else { error.hint(hint) }
    }
}

pub fn run(args: &PredictArgs) -> CliResult {
    let named: Vec<_> = args.bundles.iter().map(|bundle| bundle.display().to_string()).collect();
    refuse_twice("--bundle", &named)?;
    refuse_twice("--size", &args.models.sizes)?;
    let bundles = Selection::of(&args.bundles)?;
    if !args.over_sizes.is_empty() {
        return sizes::run(args, &bundles);
    }
    let Some(location) = bundles.single() else { return on_several(args, &bundles) };
    let bundle = Bundle::load(location.clone())?;
    if let Some(node) = &args.explain {
        return explained::run(args, &bundle, node);
    }
    if args.compare {
        return compared::run(args, &bundle);
    }
    on_one(args, &bundle)
}

/// Forecasts by one bundle.
fn on_one(args: &PredictArgs, bundle: &Bundle) -> CliResult {
    if args.breakdown && args.beside.is_some() && args.format == Format::Csv {
        return Err(CliError::user("the operators of --breakdown as CSV have no --beside")
            .hint("leave one of them out, or choose --format json"));
    }
    let models = args.models.read_each()?;
    let options = args.models.read_options();
    let ModelForecasts { forecasts, mut left_out } = match &args.beside {
        None => forecast_each(bundle, models, &options),
        Some(asked) => {
            let neighbour = Neighbour::named(asked, bundle, &options)?;
            forecast_each_beside(bundle, models, &options, &neighbour)?
        }
    };
    let asked = forecasts.len() + left_out.len();
    if asked == 1
        && let Some((_, error)) = left_out.pop()
    {
        return Err(error.into());
    }
    for forecast in &forecasts {
        lines::warn_of_missing(&forecast.model);
        if let Some(Listed::OtherGraph(listed)) = &forecast.listed {
            warn_of_other_graph(&forecast.model, listed);
        }
    }
    let count = left_out.len();
    for (path, error) in left_out {
        say_left_out(path.display(), CliError::from(error));
    }
    if !forecasts.is_empty() {
        let report = Printed { bundle, forecasts, breakdown: args.breakdown };
        output::print(&report, args.format)?;
        if let Some(file) = &args.plot {
            let on_device = report.forecasts.into_iter().map(|forecast| forecast.on_device(bundle));
            write_plot(file, &on_device.collect::<Vec<_>>())?;
        }
    }
    none_left_out(count, asked)
}

/// Forecasts by several bundles, in one table.
fn on_several(args: &PredictArgs, bundles: &Selection) -> CliResult {
    let count = bundles.locations().len();
    let of_one = [
        ("--breakdown", args.breakdown),
        ("--beside", args.beside.is_some()),
        ("--explain", args.explain.is_some()),
        ("--compare", args.compare),
    ];
    if let Some((flag, _)) = of_one.into_iter().find(|(_, given)| *given) {
        return Err(CliError::user(format!(
            "{flag} is about one bundle; --bundle selects {count}"
        ))
        .hint("give one file or name that `vitempo bundle list` shows"));
    }
    let Models { read, mut unreadable } = args.models.read_each()?;
    if read.is_empty()
        && let Some((_, error)) = unreadable.pop()
    {
        return Err(error.into());
    }
    let models = read.len();
    let found = forecast_on_each(bundles, read, &args.models.read_options());
    let left_out = warn_of_left_out(&unreadable, &found, count);
    found.models.iter().for_each(|model| lines::warn_of_missing(&model.model));
    if let Some(file) = &args.plot {
        write_plot(file, &found.models)?;
    }
    if found.models.iter().any(|model| !model.forecasts.is_empty()) {
        output::print(&devices::OnDevices { models: &found.models }, args.format)?;
    }
    match left_out {
        0 => Ok(()),
        _ => Err(CliError::user(format!(
            "{left_out} of {} forecasts left out",
            count * (models + unreadable.len())
        ))),
    }
}

/// Warns of models and bundles without a forecast; returns how many forecasts by `bundles` bundles
/// are missing.
fn warn_of_left_out(
    unreadable: &[(PathBuf, ModelError)],
    found: &DeviceForecasts,
    bundles: usize,
) -> usize {
    for (path, error) in unreadable {
        say_left_out(path.display(), error);
    }
    for error in &found.unopened {
        say_left_out("a bundle", error);
    }
    let mut missing = unreadable.len() * bundles + found.unopened.len() * found.models.len();
    for model in &found.models {
        for (bundle, error) in &model.left_out {
            missing += 1;
            say_left_out(format!("{} on {bundle}", model.model.identity.name), error);
        }
    }
    missing
}

fn say_left_out(what: impl Display, why: impl Display) {
    progress::say(format!("warning: {what} left out: {why}"));
}

fn write_plot(file: &Path, models: &[ModelOnDevices]) -> CliResult {
    files::write(file, plot(models)?.as_bytes())
}

/// Says that a listed latency is that of another graph of the model.
fn warn_of_other_graph(model: &Model, listed: &ListedModel) {
    let Some(graph) = &listed.graph else { return };
    progress::say(format!(
        "warning: {}: the bundle lists `{}` with {}, measured on another graph ({} operators, this \
        one has {}): that latency is not the one of this graph",
        model.identity.name,
        listed.name,
        Latency::from_ns(listed.latency_ns),
        graph.operators,
        model.graph.nodes().len()
    ));
}

//! `vitempo predict`: forecasts latencies of models in a bundle's environment, with intervals and
//! the time of each operator.

mod report;

use super::{
    error::{CliError, CliResult},
    models::{Model, ModelArgs},
    output::{self, Format},
    progress,
};
use report::Printed;
use std::path::PathBuf;
use vitempo::contention::{BesideError, Neighbour};
use vitempo::forecast::{
    ForecastError, Listed, ModelForecasts, forecast_each, forecast_each_beside,
};
use vitempo::graph::Latency;
use vitempo::predictors::adapt::ListedModel;

/// Forecasts the latency of models
///
/// A model that cannot be read or forecast is left out, with a warning; the exit code is 1 then.
///
/// Example: vitempo predict tests/models/vit_tiny_patch16_224.onnx --bundle demo.vtb --breakdown
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// Bundle of either kind: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME")]
    pub bundle: PathBuf,

    /// Forecast the latency while another processor is busy, too: with a load that the bundle was
    /// fitted to, e.g. stream, or with a model in the environment of another bundle
    #[arg(long, value_name = "LOAD|FILE@BUNDLE")]
    pub beside: Option<String>,

    /// Show every operator that will run
    #[arg(long)]
    pub breakdown: bool,

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
    let bundle = super::bundle::open(&args.bundle)?;
    let models = args.models.read_each()?;
    let options = args.models.read_options();
    let ModelForecasts { forecasts, mut left_out } = match &args.beside {
        None => forecast_each(&bundle, models, &options),
        Some(asked) => {
            let neighbour = Neighbour::named(asked, &bundle, &options)?;
            forecast_each_beside(&bundle, models, &options, &neighbour)?
        }
    };
    let asked = forecasts.len() + left_out.len();
    if asked == 1
        && let Some((_, error)) = left_out.pop()
    {
        return Err(error.into());
    }
    for forecast in &forecasts {
        if let Some(Listed::OtherGraph(listed)) = &forecast.listed {
            warn_of_other_graph(&forecast.model, listed);
        }
    }
    let count = left_out.len();
    for (path, error) in left_out {
        progress::say(format!("warning: {} left out: {}", path.display(), CliError::from(error)));
    }
    if !forecasts.is_empty() {
        let report = Printed { bundle: &bundle, forecasts, breakdown: args.breakdown };
        output::print(&report, args.format)?;
    }
    match count {
        0 => Ok(()),
        count => Err(CliError::user(format!("{count} of {asked} models left out"))),
    }
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

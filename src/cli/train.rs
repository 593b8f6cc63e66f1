//! `vitempo train`: measurements in, a bundle of predictors out.

use super::{
    dataset,
    error::{CliError, CliResult},
    output::{self, Format},
    progress,
};
use std::{collections::BTreeSet, path::PathBuf};
use vitempo_datasets::{Dataset, Split, SplitSize};
use vitempo_graph::ModelProfile;
use vitempo_predictors::{Evaluation, Method, PredictorBundle, PredictorError, TrainOptions};

/// Trains predictors on a dataset
///
/// Example: vitempo train data/ --split split.json --method gbdt --out epyc-onnxruntime-f32-1t.vtb
#[derive(clap::Args, Debug)]
pub struct TrainArgs {
    /// Dataset folder
    #[arg(value_name = "FOLDER")]
    pub data: PathBuf,

    /// lasso, random-forest or gbdt
    #[arg(long, default_value = "gbdt")]
    pub method: Method,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb")]
    pub out: PathBuf,

    /// Which architectures to train on; by default four fifths of the synthetic ones, chosen by
    /// --seed
    #[arg(long, value_name = "FILE")]
    pub split: Option<PathBuf>,

    /// Environment to train for, where the dataset holds several
    #[arg(long, value_name = "ID")]
    pub environment: Option<String>,

    /// The same data and seed give the same bundle, byte for byte
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Level of the forecasts' intervals
    #[arg(long, default_value_t = 0.9)]
    pub level: f64,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Profiles of the training side.
pub fn training_side(profiles: &[ModelProfile], split: &Split) -> Vec<ModelProfile> {
    let train: BTreeSet<&str> = split.train.iter().map(String::as_str).collect();
    profiles.iter().filter(|p| train.contains(p.model.architecture.as_str())).cloned().collect()
}

/// Trains with a progress bar, and judges the bundle on the dataset's real models, which no
/// training sees.
pub fn train(
    profiles: &[ModelProfile],
    dataset: &Dataset,
    method: Method,
    options: &TrainOptions,
) -> CliResult<PredictorBundle> {
    let bar = progress::bar(0, "training");
    let mut bundle =
        vitempo_predictors::train(profiles, &dataset.graphs, method, options, &mut |p| {
            bar.set_length((p.fits * p.regressors) as u64);
            bar.set_position(((p.fit - 1) * p.regressors + p.done) as u64);
            bar.set_message(method.name());
        })?;
    bar.finish_and_clear();
    bundle.on_real = on_real(&bundle, dataset)?;
    Ok(bundle)
}

fn on_real(bundle: &PredictorBundle, dataset: &Dataset) -> CliResult<Option<Evaluation>> {
    let real = |p: &&ModelProfile| {
        p.model.space.is_none()
            && p.origin == bundle.origin
            && p.environment.id() == bundle.environment.id()
    };
    let profiles: Vec<ModelProfile> = dataset.profiles.iter().filter(real).cloned().collect();
    match vitempo_predictors::evaluate(bundle, &profiles, &dataset.graphs) {
        Ok(evaluation) => Ok(Some(evaluation)),
        Err(PredictorError::NoRows { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub fn run(args: &TrainArgs) -> CliResult {
    let dataset = dataset::load_environment(&args.data, args.environment.as_deref())?;
    let split = match &args.split {
        Some(file) => Split::load(file)?,
        None => vitempo_datasets::split(&dataset, SplitSize::TestFraction(0.2), args.seed)?,
    };
    let training = training_side(&dataset.profiles, &split);
    if training.is_empty() {
        return Err(CliError::user(format!(
            "no successful visit of the split's training architectures in {}",
            args.data.display()
        ))
        .hint("make the split from this dataset: vitempo dataset split"));
    }
    let options = TrainOptions { seed: args.seed, level: args.level, ..TrainOptions::default() };
    let bundle = train(&training, &dataset, args.method, &options)?;
    bundle.save(&args.out)?;
    output::print(
        &super::bundle::BundleReport { bundle: &bundle, location: &args.out.clone().into() },
        args.format,
    )
}

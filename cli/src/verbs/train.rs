//! `vitempo train`: trains a bundle of predictors on a dataset.

use super::{
    bundle::warn_of_support,
    dataset::{load_environment, load_sample},
    error::{CliError, CliResult},
    files,
    output::{self, Format, Report, Table},
    progress, quantity,
};
use indicatif::ProgressBar;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo::{
    datasets::{Dataset, Split},
    predictors::{Boosting, Fitted, Method, Progress, Share, TrainOptions},
    training,
};

const SEED: u64 = 1;

/// Trains predictors on a dataset
///
/// Where it has rows of `vitempo profile --beside`, the bundle gets a slowdown model, for
/// `vitempo predict --beside`.
///
/// Example: vitempo train data/ --split split.json --method gbdt --out epyc-onnxruntime-f32-1t.vtb
#[derive(clap::Args, Debug)]
pub struct TrainArgs {
    /// Dataset folder or lake
    #[arg(value_name = "FOLDER")]
    pub data: PathBuf,

    /// lasso, random-forest or gbdt
    #[arg(long, default_value = "gbdt")]
    pub method: Method,

    /// Hyper-parameters of gbdt: trees, leaves, learning_rate, rows_in_leaf, l2, columns
    #[arg(long, value_name = "NAME=VALUE,...", default_value_t, conflicts_with = "from")]
    pub boosting: Boosting,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb")]
    pub out: PathBuf,

    /// Split file with the architectures to train on; by default four fifths of the synthetic ones,
    /// chosen by --seed
    #[arg(long, value_name = "FILE")]
    pub split: Option<PathBuf>,

    /// Correct this bundle of another machine by the dataset instead of training anew: a minute of
    /// operator networks is enough. The engine and its options have to be the same
    #[arg(long, value_name = "BUNDLE", conflicts_with_all = ["method", "split", "level"])]
    pub from: Option<PathBuf>,

    /// Environment to train for, if the dataset has several
    #[arg(long, value_name = "ID")]
    pub environment: Option<String>,

    /// Train on a sample of the architectures, chosen by --seed, where all of them have more rows of
    /// operators than this: memory and time do not grow with the dataset then. Half of the rows are
    /// for real models at most
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub max_rows: Option<usize>,

    /// The same data and seed give the same bundle, byte for byte
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,

    /// Level of the intervals, e.g. 0.9
    #[arg(long, default_value_t = 0.9, value_parser = quantity::level)]
    pub level: f64,

    /// Fit only this share of the regressors, e.g. 2/5, and write it to --out as a file for
    /// --fitted; other machines fit the other shares
    #[arg(long, value_name = "I/N", value_parser = share, conflicts_with_all = ["from", "fitted"])]
    pub share: Option<Share>,

    /// Take the regressors of these shares instead of fitting them; the bundle is the same
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "from")]
    pub fitted: Vec<PathBuf>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What a share has.
struct ShareReport<'a> {
    fitted: &'a Fitted,
    file: &'a Path,
}

impl ShareReport<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["File", "Regressors"], 1);
        table.row([self.file.display().to_string(), self.fitted.len().to_string()]);
        table
    }
}

impl Report for ShareReport<'_> {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(serde_json::json!({ "file": self.file, "regressors": self.fitted.len() }))
    }
}

/// `2/5`, the second of five shares.
fn share(text: &str) -> Result<Share, String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((index, of)) if (1..=of).contains(&index) => Ok(Share { index: index - 1, of }),
        _ => Err("expected I/N, e.g. 2/5 for the second of five shares".to_owned()),
    }
}

/// Shows the progress of training.
pub struct Training(ProgressBar);

impl Training {
    pub fn start() -> Self {
        Self(progress::bar(0, "training"))
    }

    pub fn show(&self, p: &Progress, method: Method) {
        self.0.set_length((p.fits * p.regressors) as u64);
        self.0.set_position(((p.fit - 1) * p.regressors + p.done) as u64);
        self.0.set_message(method.name());
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

pub fn run(args: &TrainArgs) -> CliResult {
    files::check_bundle(&args.out)?;
    let environment = args.environment.as_deref();
    let dataset = match args.max_rows {
        Some(rows) => load_sample(&args.data, environment, rows as u64, args.seed)?,
        None => load_environment(&args.data, environment)?,
    };
    if let Some(source) = &args.from {
        if args.seed != SEED && args.max_rows.is_none() {
            return Err(CliError::user("--seed has no effect on correcting a bundle")
                .hint("leave it out, or give --max-rows, whose sample it chooses"));
        }
        return transferred(args, &dataset, source);
    }
    let split = match &args.split {
        Some(file) => split_of(file, &dataset)?,
        None => sides(&dataset, args)?,
    };
    let options = TrainOptions {
        seed: args.seed,
        level: args.level,
        boosting: args.boosting,
        ..TrainOptions::default()
    };
    if let Some(share) = args.share {
        let fitted = training::fit_share(&dataset, &split, args.method, &options, share)?;
        fitted.save(&args.out)?;
        return output::print(&ShareReport { fitted: &fitted, file: &args.out }, args.format);
    }
    let mut fitted = Fitted::default();
    for file in &args.fitted {
        fitted.add(Fitted::load(file)?)?;
    }
    let bar = Training::start();
    let mut show = |p: Progress| bar.show(&p, args.method);
    let mut bundle =
        training::train_with(&dataset, &split, args.method, &options, &fitted, &mut show)?;
    drop(bar);
    if let Some(reason) = training::fit_contention(&mut bundle, &dataset, &split)? {
        progress::say(format!("warning: contention is not known to this bundle: {reason}"));
    }
    bundle.save(&args.out)?;
    warn_of_support(&bundle);
    output::print(
        &super::bundle::BundleReport { bundle: &bundle, location: &args.out.clone().into() },
        args.format,
    )
}

/// The sides that a file gives; architectures that the dataset lacks are said.
fn split_of(file: &Path, dataset: &Dataset) -> CliResult<Split> {
    let split = Split::load(file)?;
    let known: BTreeSet<&str> =
        dataset.profiles.iter().map(|p| p.model.architecture.as_str()).collect();
    let here = split.train.iter().filter(|name| known.contains(name.as_str())).count();
    if here < split.train.len() && dataset.sampled.is_none() {
        progress::say(format!(
            "warning: {here} of the {} training architectures of {} are in this environment of the \
            dataset",
            split.train.len(),
            file.display()
        ));
    }
    Ok(split)
}

/// The sides of a dataset that no split file divides.
fn sides(dataset: &Dataset, args: &TrainArgs) -> CliResult<Split> {
    training::default_split(dataset, args.seed).map_err(|error| {
        let error = CliError::from(error);
        if dataset.sampled.is_some() { error.hint("raise --max-rows") } else { error }
    })
}

/// Corrects the bundle of another machine.
fn transferred(args: &TrainArgs, dataset: &Dataset, source: &Path) -> CliResult {
    let opened = super::bundle::open(source)?;
    let trained = opened.trained().ok_or_else(|| {
        CliError::user(format!(
            "`{}` was adapted and has no predictors of operators",
            opened.name()
        ))
        .hint("`vitempo bundle list` shows the trained ones")
    })?;
    let found = training::transfer(trained, dataset)?;
    progress::say(format!(
        "corrected by {} rows: median error of an operator {:.1} % before, {:.1} % on networks left \
        out",
        found.rows,
        100.0 * found.error_before.exp_m1(),
        100.0 * found.error_after.exp_m1()
    ));
    found.bundle.save(&args.out)?;
    output::print(
        &super::bundle::BundleReport { bundle: &found.bundle, location: &args.out.clone().into() },
        args.format,
    )
}

//! `vitempo refine`: measures the kernels of one model that its forecast is least sure of.

mod report;

use super::{
    bundle,
    error::{CliError, CliResult},
    files,
    models::{Dimensions, LimitArgs, Model, ModelArgs, SizedModelArgs},
    output::{self, Format},
    profile::{RemoteArgs, run_campaign},
    progress, quantity,
};
use report::{Outcome, Plan};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo::{
    graph::ImageSize,
    refine::{self, RefineError, Refinement},
};

/// Logarithm of the reference workload's slowdown from which on the speed has changed.
pub const CHANGED: f64 = 0.1;

/// Measures what the forecast of one model is least sure of
///
/// Finds the kernels that carry most of the interval's width or have no predictor, measures each in
/// a small piece of the model, and writes a bundle that is corrected by them. The machine and the
/// engine have to be the bundle's.
///
/// Example: vitempo refine model.onnx --bundle mine.vtb --within 60s --out sure.vtb
#[derive(clap::Args, Debug)]
pub struct RefineArgs {
    /// ONNX file of the model; weights may be absent
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    dimensions: Dimensions,

    /// Take the model for images of this height and width instead of the file's, e.g. 406x658
    #[arg(long, value_name = "HxW")]
    size: Option<ImageSize>,

    #[command(flatten)]
    limits: LimitArgs,

    /// Trained bundle: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME")]
    bundle: PathBuf,

    /// Time for measuring; kernels that bring most per second come first
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = quantity::duration_or_seconds)]
    within: Duration,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb", required_unless_present = "list")]
    out: Option<PathBuf>,

    /// Dataset folder of the measurements; by default that of --out with `-data`
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    data: Option<PathBuf>,

    /// Only say what would be measured, and how long it would take
    #[arg(long, conflicts_with_all = ["out", "anywhere", "remote"])]
    list: bool,

    /// Logical cores to measure on; by default the last ones
    #[arg(long, value_delimiter = ',', value_parser = quantity::core, value_name = "LIST",
          conflicts_with = "list")]
    cores: Vec<usize>,

    /// Measure though machine or engine are not the bundle's: the corrections then contain how much
    /// faster or slower this machine is
    #[arg(long)]
    anywhere: bool,

    #[command(flatten)]
    remote: RemoteArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl From<RefineError> for CliError {
    fn from(error: RefineError) -> Self {
        let hint = match &error {
            RefineError::Adapted(_) => "adapt it again with more latencies: vitempo adapt",
            RefineError::Environment { .. } => {
                "measure where the bundle was trained, train a bundle here, or accept it with \
                 --anywhere"
            }
            RefineError::NothingChosen { .. } => "give more time with --within",
            RefineError::NothingMeasured(_) => {
                "the dataset has the reasons: vitempo dataset inspect"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

pub fn run(args: &RefineArgs) -> CliResult {
    args.out.as_deref().map_or(Ok(()), files::check_bundle)?;
    let model = args.model()?;
    let bundle = bundle::open(&args.bundle)?;
    let refinement = Refinement::new(&bundle, &model)?;
    let choice = refinement.plan(Some(args.within))?;
    let Some(out) = &args.out else {
        let report = Plan { model: &model, before: &refinement.before, choice: &choice };
        return output::print(&report, args.format);
    };
    let target = args.remote.target()?;
    let options =
        vitempo::profiler::RunOptions { cores: args.cores.clone(), ..refinement.run_options() };
    if !args.anywhere {
        let backend = &refinement.bundle.environment.framework;
        let here = target.probe(backend, &options)?;
        refine::check_environment(refinement.bundle, &here)?;
    }
    let data = args.data.clone().unwrap_or_else(|| beside(out));
    run_campaign(refinement.campaign(&choice, &data, target, options)?)?;
    let refined = refinement.apply(&data)?;
    for (network, reason) in &refined.failed {
        progress::say(format!("warning: {network} failed: {reason}"));
    }
    if let Some(slowdown) = refined.slowdown.filter(|slowdown| slowdown.ln().abs() > CHANGED) {
        progress::say(format!(
            "warning: the reference workload takes {slowdown:.2} times as long as when the data of \
             the bundle were measured: the machine's speed has changed, the corrections contain \
             that, and the interval is wider for it; refine again when nothing else runs"
        ));
    }
    refined.bundle.save(out)?;
    let plan = Plan { model: &model, before: &refinement.before, choice: &choice };
    output::print(&Outcome { plan, refined: &refined, out, data: &data }, args.format)
}

/// The folder of the measurements that belong to a bundle's file.
fn beside(out: &Path) -> PathBuf {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{stem}-data"))
}

impl RefineArgs {
    fn model(&self) -> CliResult<Model> {
        let named = ModelArgs {
            models: vec![self.model.clone()],
            dimensions: self.dimensions.dimensions.clone(),
            limits: self.limits,
        };
        let sizes = self.size.into_iter().collect();
        let mut models = SizedModelArgs { named, sizes }.read_onnx()?;
        match (models.pop(), models.pop()) {
            (Some(model), None) => Ok(model),
            _ => Err(CliError::user(format!("`{}` is several models", self.model))
                .hint("refine one after the other; each takes the bundle of the one before")),
        }
    }
}

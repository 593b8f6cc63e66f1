//! Costs for plans, from a file or from bundles and a model, with the error where there are none.

use super::super::{
    bundle,
    error::{CliError, CliResult},
    models::{LimitArgs, Model, ModelArgs, parse_dimension},
};
use std::path::{Path, PathBuf};
use vitempo::{
    Bundle,
    plan::costs::{Estimated, ForecastCosts, ForecastProcessor, PlanCostsError},
    planners::cost::{CostError, Costs, CostsFile},
};

impl From<CostError> for CliError {
    fn from(error: CostError) -> Self {
        Self::user(error)
    }
}

impl From<PlanCostsError> for CliError {
    fn from(error: PlanCostsError) -> Self {
        match error {
            PlanCostsError::Prediction { processor, source } => Self::from(source).about(processor),
            PlanCostsError::UnknownTensor { ref inputs, .. } => {
                Self::user(format!("--confine: {error}"))
                    .hint(format!("its inputs are {}", inputs.join(", ")))
            }
            PlanCostsError::OtherModel { .. } => {
                Self::user(error).hint("give the model whose nodes the costs name")
            }
            other => Self::user(other),
        }
    }
}

/// Reads a costs file.
pub fn of_file(path: &Path) -> CliResult<Costs> {
    Ok(CostsFile::read(path)?.check()?)
}

/// A model, where it is not given as costs.
#[derive(clap::Args, Clone, Debug)]
pub struct OptionalModel {
    /// An ONNX file; weights may be absent
    #[arg(value_name = "MODEL", required_unless_present = "costs")]
    pub models: Option<String>,
    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,

    #[command(flatten)]
    pub limits: LimitArgs,
}

impl OptionalModel {
    pub fn args(&self) -> ModelArgs {
        let models = self.models.iter().cloned().collect();
        ModelArgs { limits: self.limits, ..ModelArgs::of(models, self.dimensions.clone()) }
    }

    /// The model, where there is one. Beside costs it is for what `flags` do alone.
    pub fn read(&self, has_costs: bool, is_used: bool, flags: &str) -> CliResult<Option<Model>> {
        match &self.models {
            None => Ok(None),
            Some(_) if has_costs && !is_used => {
                Err(CliError::user(format!("a model beside --costs is for {flags}"))
                    .hint("leave one of them out"))
            }
            Some(_) => Ok(Some(one_model(&self.args())?)),
        }
    }
}

/// The model of a command that plans one model.
pub fn one_model(models: &ModelArgs) -> CliResult<Model> {
    let mut read = models.read()?;
    match read.len() {
        1 => Ok(read.swap_remove(0)),
        count => {
            Err(CliError::user(format!("{count} models: a plan is for one"))
                .hint("give one ONNX file"))
        }
    }
}

/// Bundles by the names of their processors.
pub fn open(named: &[(String, PathBuf)]) -> CliResult<Vec<(&str, Bundle)>> {
    named.iter().map(|(name, path)| Ok((name.as_str(), bundle::open(path)?))).collect()
}

/// The same as processors of a planner.
pub fn processors<'a>(bundles: &'a [(&str, Bundle)]) -> Vec<ForecastProcessor<'a>> {
    bundles.iter().map(|(name, bundle)| ForecastProcessor::named(*name, bundle)).collect()
}

/// Warns of estimates, and returns the costs.
pub fn warned(forecast: ForecastCosts) -> Costs {
    for (processor, &Estimated { kernels, of }) in
        forecast.costs.processors().iter().zip(&forecast.estimated)
    {
        bundle::warn_of_estimates(&processor.name, kernels, of);
    }
    forecast.costs
}

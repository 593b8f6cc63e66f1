//! [`Demo`]: all steps on one machine: sample models, measure them, train every method,
//! evaluate, and forecast real models outside the training data.

use crate::{
    campaign::{self, Campaign},
    evaluation::{Evaluated, EvaluationError},
    models::{self, Model, ModelError, SHIPPED, ShippedModel},
    sampling::{self, SamplingError},
    training,
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo_datasets::{Dataset, DatasetError, Split};
use vitempo_graph::{
    GraphPrediction, LatencyModel, PredictionError,
    files::write_whole,
    onnx::{self, OnnxError, ReadOptions, WeightFill, WriteOptions},
};
use vitempo_predictors::{Method, PredictorBundle, PredictorError, Progress, TrainOptions};
use vitempo_profiler::{MemoryRuns, RunOptions, RunProtocol, Sweep, SweepModel, WorkerCommand};
use vitempo_search_space::{Space, SpaceError};

/// Networks around single operators: kinds that real models have and the synthetic ones lack.
pub const OPERATORS: usize = 189;
/// Fewer synthetic models are too few to train on and to evaluate by.
pub const FEWEST_MODELS: usize = 10;

/// The space that is sampled.
const SPACE: &str = "hybrid-vit";
/// Rounds of the sweep; two give the noise floor.
const ROUNDS: usize = 2;
/// Most end-to-end samples of a measurement.
const MOST_REPEATS: usize = 15;
/// Of end-to-end samples of a measurement.
const SAMPLING_BUDGET: Duration = Duration::from_millis(800);
/// After which a measurement of one model has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What is sampled, and where it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Demo<'a> {
    /// Synthetic models; a fifth of them is held out.
    pub models: usize,
    /// Inference engine.
    pub backend: &'a str,
    /// Of samples, of measurements and of training.
    pub seed: u64,
    /// Folder of models and bundles.
    pub out: &'a Path,
}

/// Forecast and measured latency of a real model.
#[derive(Clone, Debug)]
pub struct RealForecast {
    /// Name of the model.
    pub model: &'static str,
    /// What the bundle was trained by.
    pub method: Method,
    /// What the bundle forecasts.
    pub forecast: GraphPrediction,
    /// What was measured, ns; `None` where that failed.
    pub measured_ns: Option<f64>,
}

/// Why the line stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// Fewer models than [`FEWEST_MODELS`].
    #[error("{0} models are too few to train and to test")]
    TooFewModels(usize),
    /// A file or folder that cannot be made.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried: `make folder` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// The space cannot be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The space cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A model that cannot be read or written.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A model's file that was written and cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Measurements that cannot be divided.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Predictors that cannot be fitted or written.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
    /// A bundle that cannot be evaluated.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// A real model without a forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

impl Demo<'_> {
    /// Whether there are enough models.
    ///
    /// # Errors
    /// [`DemoError::TooFewModels`].
    pub fn check(&self) -> Result<(), DemoError> {
        if self.models < FEWEST_MODELS {
            return Err(DemoError::TooFewModels(self.models));
        }
        Ok(())
    }

    /// Synthetic models, networks around single operators and real models, as files.
    ///
    /// # Errors
    /// [`DemoError`] names the file that cannot be written.
    pub fn sample(&self) -> Result<Vec<SweepModel>, DemoError> {
        let folder = self.out.join("models");
        std::fs::create_dir_all(&folder).map_err(|source| DemoError::Io {
            action: "make folder",
            path: folder.clone(),
            source,
        })?;
        let mut samples = sampling::sample(&Space::find(SPACE)?, self.models, self.seed)?;
        samples.extend(sampling::sample_operators(OPERATORS, self.seed)?);
        let mut models = Vec::new();
        for sample in samples {
            models.push(synthetic(&folder, sample)?);
        }
        for model in &SHIPPED {
            models.push(real(&folder, model)?);
        }
        Ok(models)
    }

    /// The measurements of these models, kept in the dataset `data`.
    #[must_use]
    pub fn campaign<'d>(
        &self,
        models: Vec<SweepModel>,
        data: &'d Path,
        worker: WorkerCommand,
    ) -> Campaign<'d> {
        let mut protocol = RunProtocol::default();
        protocol.protocol.rounds = ROUNDS;
        protocol.protocol.seed = self.seed;
        protocol.protocol.max_repeats = MOST_REPEATS;
        protocol.sampling_budget = SAMPLING_BUDGET;
        let sweep = Sweep {
            models,
            backend: self.backend.to_owned(),
            options: RunOptions { seed: self.seed, ..RunOptions::default() },
            protocol,
            only_round: None,
            budget: None,
            run_timeout: TIMEOUT,
            target: worker.into(),
            session: campaign::session_name(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        Campaign { sweep, out: data, retry_failed: true, resume: true }
    }

    /// Which architectures are trained on.
    ///
    /// # Errors
    /// [`DemoError::Dataset`] where there are too few.
    pub fn split(&self, dataset: &Dataset) -> Result<Split, DemoError> {
        Ok(training::default_split(dataset, self.seed)?)
    }

    /// A bundle by each method, written to the folder.
    ///
    /// # Errors
    /// [`DemoError::Predictors`] where one cannot be fitted or written.
    pub fn train(
        &self,
        dataset: &Dataset,
        split: &Split,
        progress: &mut dyn FnMut(Method, Progress),
    ) -> Result<Vec<PredictorBundle>, DemoError> {
        let measured = training::training_side(&dataset.profiles, split);
        let options = TrainOptions { seed: self.seed, ..TrainOptions::default() };
        let mut bundles = Vec::new();
        for method in Method::ALL {
            let bundle =
                training::train_on(&measured, dataset, method, &options, &mut |of_fits| {
                    progress(method, of_fits);
                })?;
            bundle.save(&self.out.join(format!("{method}.vtb")))?;
            bundles.push(bundle);
        }
        Ok(bundles)
    }
}

fn synthetic(folder: &Path, sample: sampling::Sample) -> Result<SweepModel, DemoError> {
    let path = folder.join(format!("{}.onnx", sample.name));
    onnx::write_file(&path, &sample.graph, &WriteOptions { weights: WeightFill::Omitted })?;
    Ok(Model::sampled(sample, path).into())
}

fn real(folder: &Path, model: &ShippedModel) -> Result<SweepModel, DemoError> {
    let path = folder.join(format!("{}.onnx", model.name));
    write_whole(&path, model.bytes).map_err(|source| DemoError::Io {
        action: "write",
        path: path.clone(),
        source,
    })?;
    Ok(models::read(&path, &ReadOptions::default())?.into())
}

/// Each bundle evaluated on the models that it was not trained on.
///
/// # Errors
/// [`DemoError::Evaluation`] where it was trained on all of them.
pub fn evaluate(
    bundles: &[PredictorBundle],
    dataset: &Dataset,
) -> Result<Vec<Evaluated>, DemoError> {
    let one = |bundle: &PredictorBundle| {
        Ok(Evaluated::new(bundle.method.to_string(), bundle, &dataset.profiles, dataset)?)
    };
    bundles.iter().map(one).collect()
}

/// The real models, forecast by each bundle, beside what was measured. `evaluated` is in the order
/// of the bundles.
///
/// # Errors
/// [`DemoError::Prediction`] for a model without a forecast.
pub fn forecasts(
    bundles: &[PredictorBundle],
    evaluated: &[Evaluated],
) -> Result<Vec<RealForecast>, DemoError> {
    let mut forecasts = Vec::new();
    for model in &SHIPPED {
        let graph = model.graph()?;
        for (bundle, evaluated) in bundles.iter().zip(evaluated) {
            let measured = evaluated.all.models.iter().find(|m| m.name == model.name);
            forecasts.push(RealForecast {
                model: model.name,
                method: bundle.method,
                forecast: bundle.predict(&graph)?,
                measured_ns: measured.map(|m| m.actual_ns),
            });
        }
    }
    Ok(forecasts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_models_are_sampled_beside_synthetic_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let demo = Demo { models: FEWEST_MODELS, backend: "rten", seed: 1, out: folder.path() };
        demo.check().expect("enough models");
        let models = demo.sample().expect("models");
        assert_eq!(models.len(), FEWEST_MODELS + OPERATORS + SHIPPED.len());
        let real = models.iter().filter(|m| m.identity.space.is_none()).count();
        assert_eq!(real, SHIPPED.len());
        let few = Demo { models: FEWEST_MODELS - 1, ..demo };
        assert!(matches!(few.check(), Err(DemoError::TooFewModels(_))));
    }
}

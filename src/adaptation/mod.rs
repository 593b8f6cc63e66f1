//! Adapts to a device from about ten end-to-end latencies. [`Adapter`] takes models, other devices
//! and [`Latencies`], and returns an [`Adaptation`]: a bundle, its cross-validated error, the unit
//! costs that the latencies do not constrain, and the models to measure next.
//!
//! | question | where |
//! |---|---|
//! | which environment do the latencies of a file have? | [`NewDevice`] |
//! | which latencies are in a file, and are they valid? | [`Latencies`] |
//! | which of them are implausible? | [`Warning`] |
//! | how do other devices enter? | [`Adapter::add_bundle`], [`Adapter::add_dataset`] |
//! | how well is each measured model forecast from the others? | [`CrossValidation`] |
//!
//! The method is that of [`crate::predictors::adapt`]; `docs/adapting.md` derives it.
//!
//! ```
//! use std::path::Path;
//! use vitempo::adaptation::{Adapter, Latencies, Model};
//! use vitempo::graph::{Environment, LatencyModel, Precision, Processor, onnx};
//!
//! let read = |name: &str| {
//!     onnx::read_file(&Path::new("tests/models").join(name), &onnx::ReadOptions::default())
//! };
//! let graphs = [read("edgenext_xx_small.onnx")?, read("mobilevit_xxs.onnx")?];
//! let models = [
//!     Model { name: "edgenext_xx_small", graph: &graphs[0] },
//!     Model { name: "mobilevit_xxs", graph: &graphs[1] },
//! ];
//! let latencies = Latencies::read(Path::new("tests/models/latencies.csv"), &models)?;
//! # let environment = Environment { device: "board".into(), processor: Processor::Cpu,
//! #     cores_available: 1, cores: vec![], framework: "onnxruntime".into(),
//! #     framework_version: "unknown".into(), threads: 1, precision: Precision::F32,
//! #     memory_format: None, power_mode: None, isa: String::new(), os: String::new(),
//! #     beside: None, settings: Vec::new(), host: None };
//! let adapted = Adapter::new(environment, &models).adapt(&latencies);
//! println!("{}", adapted.bundle.predict(&graphs[0])?.latency.point());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cross_validation;
mod device;
mod latencies;
mod lines;
mod names;
mod parallel;
mod plausibility;
mod same_graph;
mod sources;

pub use cross_validation::CrossValidation;
pub use device::NewDevice;
pub use latencies::{
    Latencies, LatencyError, LatencyProblem, ModelLatency, Sample, Separator, Unit,
};
pub use names::{SameName, nearest};
pub use parallel::parallel;
pub use plausibility::Warning;
pub use sources::{SourceError, kind};

use crate::{
    datasets::Dataset,
    graph::{Environment, Graph, LatencyModel, Origin},
    predictors::{
        AdaptedBundle,
        adapt::{
            Adapted, DevicePrior, ListedModel, Measured, OperatorClasses, Provenance, Trait,
            UnitCost, Workload, adapt,
        },
    },
};
use plausibility::Forecasts;
use same_graph::GraphLatency;
use sources::{Sources, Workloads};

/// A model at hand: measured, or one to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// Its name in the file of latencies.
    pub name: &'a str,
    /// Its graph.
    pub graph: &'a Graph,
}

/// Adapts to one device.
#[derive(Clone, Debug)]
pub struct Adapter<'a> {
    environment: Environment,
    models: &'a [Model<'a>],
    /// By model: its workload.
    indices: Vec<usize>,
    workloads: Workloads,
    sources: Sources,
    published_by: Option<String>,
    suggestions: usize,
    threads: usize,
}

/// The result of an adaptation.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// Forecasts any model on the device.
    pub bundle: AdaptedBundle,
    /// `None` where a single model was measured.
    pub cross_validation: Option<CrossValidation>,
    /// Unit costs that the latencies do not constrain, with their share of the forecast time.
    pub unconstrained: Vec<(UnitCost, f64)>,
    /// Models to measure next; the first narrows the forecasts most.
    pub suggested: Vec<String>,
    /// Implausible latencies.
    pub warnings: Vec<Warning>,
    /// Environments of the device itself that were left out of the sources.
    pub left_out: Vec<String>,
}

/// What to measure while no latency of a device is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstModels {
    /// Models to measure; the first narrows the forecasts most.
    pub suggested: Vec<String>,
    /// The source devices.
    pub sources: Vec<String>,
    /// Environments of the device itself that were left out of the sources.
    pub left_out: Vec<String>,
}

impl<'a> Adapter<'a> {
    /// For the device, software and precision of `environment`.
    #[must_use]
    pub fn new(environment: Environment, models: &'a [Model<'a>]) -> Self {
        let mut workloads = Workloads::default();
        let indices = models.iter().map(|model| workloads.index(model.graph)).collect();
        Self {
            environment,
            models,
            indices,
            workloads,
            sources: Sources::default(),
            published_by: None,
            suggestions: 0,
            threads: 1,
        }
    }

    /// Publisher and licence of the latencies; without it they count as measured by the user.
    #[must_use]
    pub fn published_by(mut self, source: Option<String>) -> Self {
        self.published_by = source;
        self
    }

    /// Number of suggested models to measure next; 0 by default.
    #[must_use]
    pub fn suggestions(mut self, count: usize) -> Self {
        self.suggestions = count;
        self
    }

    /// Threads that cross-validate; one without it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Takes a bundle's forecasts of the models as those of another device. A bundle of the device
    /// itself is left out.
    ///
    /// # Errors
    /// [`SourceError`] where it cannot forecast a model, or is a source already.
    pub fn add_bundle(&mut self, bundle: &dyn LatencyModel) -> Result<(), SourceError> {
        let models = self.indices.iter().copied().zip(self.models.iter().map(|m| m.graph));
        self.sources.add_bundle(bundle, models, &self.environment)
    }

    /// Takes each environment of a dataset as another device. Those of the device itself are left
    /// out, whatever their precision.
    ///
    /// # Errors
    /// [`SourceError`] where nothing in it is a source, or one is a source already.
    pub fn add_dataset(&mut self, dataset: &Dataset) -> Result<(), SourceError> {
        self.sources.add_dataset(dataset, &mut self.workloads, &self.environment)
    }

    /// The models to measure first, as many as [`Adapter::suggestions`] says: before anything is
    /// measured, they follow from the sources and the generic prior.
    ///
    /// # Errors
    /// [`SameName`] where a name would be that of two models.
    ///
    /// ```
    /// # use std::path::Path;
    /// use vitempo::adaptation::{Adapter, Model, NewDevice};
    /// use vitempo::graph::{Precision, Processor, onnx};
    ///
    /// let read = |name: &str| {
    ///     onnx::read_file(&Path::new("tests/models").join(name), &onnx::ReadOptions::default())
    /// };
    /// let graphs = [read("edgenext_xx_small.onnx")?, read("mobilevit_xxs.onnx")?];
    /// let models = [
    ///     Model { name: "edgenext_xx_small", graph: &graphs[0] },
    ///     Model { name: "mobilevit_xxs", graph: &graphs[1] },
    /// ];
    /// let board = NewDevice {
    ///     name: Some("board".to_owned()),
    ///     processor: Processor::Npu,
    ///     framework: "tflite".to_owned(),
    ///     threads: 1,
    ///     precision: Precision::F16,
    /// };
    /// let adapter = Adapter::new(board.environment("".as_ref()), &models).suggestions(1);
    /// assert_eq!(adapter.first_models()?.suggested.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_models(&self) -> Result<FirstModels, SameName> {
        names::distinct(self.models)?;
        let prior = DevicePrior::learn(&self.workloads.all, &self.sources.sources);
        let before = adapt(&prior, &self.workloads.all, &[], Some(&kind(&self.environment)));
        Ok(FirstModels {
            suggested: self.suggested(&before, &[]),
            sources: self.sources.names.clone(),
            left_out: self.sources.own.iter().cloned().collect(),
        })
    }

    /// Adapts. `latencies` were read with the models; those of other models are left out, and those
    /// of models of one graph are samples of the first.
    #[must_use]
    pub fn adapt(self, latencies: &Latencies) -> Adaptation {
        let kind = kind(&self.environment);
        let workloads = &self.workloads.all;
        let known: Vec<ModelLatency> =
            latencies.models.iter().filter(|m| m.model < self.models.len()).cloned().collect();
        let graphs = GraphLatency::each(&known, |model| self.indices[model]);
        let row = |GraphLatency { latency, .. }: &GraphLatency| {
            let (model, ns) = (latency.model, latency.latency_ns);
            (model, Measured { model: self.indices[model], ns })
        };
        let measured: Vec<(usize, Measured)> = graphs.iter().map(row).collect();
        let rows: Vec<Measured> = measured.iter().map(|(_, row)| *row).collect();
        let prior = DevicePrior::learn(workloads, &self.sources.sources);
        let adapted = adapt(&prior, workloads, &rows, Some(&kind));
        let cross_validation = CrossValidation::of(&prior, workloads, &rows, &kind, self.threads);
        let at_hand: Vec<&Workload> =
            self.indices.iter().filter_map(|&i| workloads.get(i)).collect();
        Adaptation {
            unconstrained: adapted.unconstrained(&at_hand),
            suggested: self.suggested(&adapted, &rows),
            warnings: self.warnings(&graphs, latencies.unit, &prior, &rows, &kind),
            left_out: self.sources.own.iter().cloned().collect(),
            bundle: self.bundle(adapted, &measured, cross_validation.as_ref()),
            cross_validation,
        }
    }

    fn warnings(
        &self,
        graphs: &[GraphLatency],
        unit: Unit,
        prior: &DevicePrior,
        rows: &[Measured],
        kind: &Trait,
    ) -> Vec<Warning> {
        let names: Vec<&str> = self.models.iter().map(|m| m.name).collect();
        let mut warnings = plausibility::among_themselves(graphs, &names);
        let forecasts = Forecasts::of(prior, &self.workloads.all, rows, kind);
        warnings.extend(forecasts.warnings(graphs, &names, unit));
        warnings
    }

    fn suggested(&self, adapted: &Adapted, rows: &[Measured]) -> Vec<String> {
        let workloads: Vec<Workload> =
            self.indices.iter().map(|&i| self.workloads.all[i].clone()).collect();
        let is_done = |&f: &usize| {
            let graph = self.indices[f];
            rows.iter().any(|m| m.model == graph) || self.indices[..f].contains(&graph)
        };
        let done: Vec<usize> = (0..self.models.len()).filter(is_done).collect();
        let chosen = adapted.suggest(&workloads, &done, self.suggestions);
        chosen.into_iter().filter_map(|f| Some(self.models.get(f)?.name.to_owned())).collect()
    }

    /// The bundle, with its own forecasts of the measured models in it.
    fn bundle(
        self,
        adapted: Adapted,
        measured: &[(usize, Measured)],
        cross_validation: Option<&CrossValidation>,
    ) -> AdaptedBundle {
        let graphs: Vec<&Graph> = measured.iter().map(|(m, _)| self.models[*m].graph).collect();
        let listed = |(i, (model, row)): (usize, &(usize, Measured))| {
            let model = &self.models[*model];
            let others = cross_validation.and_then(|c| c.forecasts.get(i)).map(|(_, p)| *p);
            ListedModel { from_others: others, ..ListedModel::new(model.name, row.ns, model.graph) }
        };
        let origin = if self.published_by.is_some() { Origin::Imported } else { Origin::Measured };
        let provenance = Provenance {
            environment: self.environment.clone(),
            origin,
            source: self.published_by.clone(),
            measured: measured.iter().enumerate().map(listed).collect(),
            classes: OperatorClasses::of(graphs.iter().copied()),
            sources: self.sources.names,
        };
        let mut bundle = AdaptedBundle::new(adapted, provenance, self.workloads.by_architecture);
        let forecasts: Vec<_> = graphs.iter().map(|graph| bundle.latency(graph)).collect();
        for (listed, forecast) in bundle.measured.iter_mut().zip(forecasts) {
            listed.forecast = Some(forecast);
        }
        bundle
    }
}

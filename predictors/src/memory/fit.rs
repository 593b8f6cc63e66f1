//! [`fit`]: coefficients of engines from measured memory.

use super::{COEFFICIENTS, EngineMemory, LEVEL, MemoryDemand};
use crate::{
    metrics::{median, quantile},
    non_negative::{self, Row},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{Graph, ModelProfile, Precision, lowering};

/// A model whose memory was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredMemory {
    /// Name of the engine.
    pub framework: String,
    /// Its version.
    pub framework_version: String,
    /// Precision in which it ran.
    pub precision: Precision,
    /// Name of the model.
    pub model: String,
    /// Search space of the model; `None` for a real one.
    pub space: Option<String>,
    /// What its memory depends on.
    pub demand: MemoryDemand,
    /// Median of its model runs, bytes.
    pub peak_bytes: f64,
    /// Number of its model runs.
    pub runs: usize,
    /// The largest of them as a multiple of the least.
    pub spread: f64,
}

impl MeasuredMemory {
    /// The models of a dataset whose memory was measured in processes of their own: each engine and
    /// model once. Models that the engine's rules cannot lower are left out.
    #[must_use]
    pub fn of<'a>(profiles: &'a [ModelProfile], graphs: &BTreeMap<String, Graph>) -> Vec<Self> {
        let mut runs: BTreeMap<(String, &str), Vec<&'a ModelProfile>> = BTreeMap::new();
        for profile in profiles.iter().filter(|p| p.running_memory_bytes.is_some()) {
            let key = (profile.environment.id(), profile.model.architecture.as_str());
            runs.entry(key).or_default().push(profile);
        }
        runs.into_values().filter_map(|runs| Self::of_model(&runs, graphs)).collect()
    }

    fn of_model(runs: &[&ModelProfile], graphs: &BTreeMap<String, Graph>) -> Option<Self> {
        let first = runs.first()?;
        let graph = graphs.get(&first.model.architecture)?;
        let kernels = lowering::lower(graph, &first.environment).ok()?;
        let peaks: Vec<f64> =
            runs.iter().filter_map(|run| Some(run.peak_memory_bytes? as f64)).collect();
        let (least, largest) = (
            peaks.iter().copied().fold(f64::INFINITY, f64::min),
            peaks.iter().copied().fold(0.0, f64::max),
        );
        Some(Self {
            framework: first.environment.framework.clone(),
            framework_version: first.environment.framework_version.clone(),
            precision: first.environment.precision,
            model: first.model.name.clone(),
            space: first.model.space.clone(),
            demand: MemoryDemand::of(&first.environment.framework, graph, &kernels),
            peak_bytes: median(&peaks)?,
            runs: peaks.len(),
            spread: largest / least,
        })
    }

    /// Its memory as a multiple of the forecast.
    #[must_use]
    pub fn over_forecast(&self, engine: &EngineMemory) -> f64 {
        self.peak_bytes / engine.bytes(&self.demand)
    }

    fn row(&self) -> Row<COEFFICIENTS> {
        (self.demand.columns(), self.peak_bytes)
    }
}

/// Fewest real models from whose errors an interval is made.
const FEWEST_REAL: usize = 20;

/// The memory of each engine and precision. Coefficients are those of the models of search spaces
/// alone. The interval comes from models outside of the fit: the real ones, or, where there are
/// fewer than 20, those of each space forecast by a fit to the others. Engines with too few models
/// are left out.
#[must_use]
pub fn fit(measured: &[MeasuredMemory]) -> Vec<EngineMemory> {
    let mut engines: BTreeMap<(&str, Precision), Vec<&MeasuredMemory>> = BTreeMap::new();
    for model in measured {
        engines.entry((&model.framework, model.precision)).or_default().push(model);
    }
    engines.into_values().filter_map(|models| of_engine(&models)).collect()
}

fn of_engine(models: &[&MeasuredMemory]) -> Option<EngineMemory> {
    let (sampled, real): (Vec<_>, Vec<_>) =
        models.iter().copied().partition(|model| model.space.is_some());
    let engine = fitted(&sampled)?;
    let ratios = match real.len() {
        0..FEWEST_REAL => across_spaces(&sampled)?,
        _ => real.iter().map(|model| model.over_forecast(&engine)).collect(),
    };
    Some(EngineMemory { measured_over_forecast: bounds(&ratios)?, ..engine })
}

/// Measured / forecast of the models of each space, by a fit to the other spaces.
fn across_spaces(models: &[&MeasuredMemory]) -> Option<Vec<f64>> {
    let spaces: BTreeSet<&Option<String>> = models.iter().map(|model| &model.space).collect();
    let mut ratios = Vec::new();
    for space in spaces {
        let (own, others): (Vec<_>, Vec<_>) =
            models.iter().copied().partition(|model| model.space == *space);
        let engine = fitted(&others)?;
        ratios.extend(own.iter().map(|model| model.over_forecast(&engine)));
    }
    Some(ratios)
}

/// The ends between which the [`LEVEL`] in the middle of these ratios lies, on both sides of 1;
/// `None` without any.
#[must_use]
pub fn bounds(ratios: &[f64]) -> Option<(f64, f64)> {
    let (low, high) = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0);
    Some((quantile(ratios, low)?.min(1.0), quantile(ratios, high)?.max(1.0)))
}

/// The fit without an interval.
fn fitted(models: &[&MeasuredMemory]) -> Option<EngineMemory> {
    let first = models.first()?;
    let rows: Vec<Row<COEFFICIENTS>> = models.iter().map(|model| model.row()).collect();
    let [base_bytes, per_product_weight, per_other_weight, per_activation, per_kernel_bytes] =
        non_negative::fitted(&rows)?;
    Some(EngineMemory {
        framework: first.framework.clone(),
        framework_version: first.framework_version.clone(),
        precision: first.precision,
        models: models.len(),
        base_bytes,
        per_product_weight,
        per_other_weight,
        per_activation,
        per_kernel_bytes,
        measured_over_forecast: (1.0, 1.0),
    })
}

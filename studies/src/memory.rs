//! How well is the memory that engines take for models forecast? Engines are fitted to sampled
//! models ([`vitempo::memory`]) and judged on real ones.

use serde::Serialize;
use std::path::Path;
use vitempo::{
    datasets::{Dataset, DatasetError},
    memory::{EngineMemory, MeasuredMemory, fit},
    predictors::metrics::{mape, median},
    search::spearman,
};

/// An engine's fit, and real models beside their forecasts.
#[derive(Clone, Debug, Serialize)]
pub struct EngineScore {
    /// The fit to sampled models.
    pub engine: EngineMemory,
    /// Mean of |forecast - measured| / measured over the real models; `None` without any.
    pub mean_error: Option<f64>,
    /// Their rank correlation (Spearman); `None` with fewer than two.
    pub rank_correlation: Option<f64>,
    /// Share of the real models whose memory lies in the interval.
    pub covered: f64,
    /// Median of what repeated measurements of a model differ by, largest over least, less 1.
    pub repeats_differ: Option<f64>,
    /// The real models.
    pub models: Vec<ModelScore>,
}

/// A real model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelScore {
    /// Its name.
    pub model: String,
    /// Median of its measured memory, bytes.
    pub measured_bytes: f64,
    /// Its forecast, bytes.
    pub forecast_bytes: u64,
    /// The interval, bytes.
    pub interval_bytes: (u64, u64),
}

/// The models of datasets whose memory was measured.
///
/// # Errors
/// [`DatasetError`] where one cannot be read.
pub fn measured(folders: &[impl AsRef<Path>]) -> Result<Vec<MeasuredMemory>, DatasetError> {
    let mut all = Vec::new();
    for folder in folders {
        let dataset = Dataset::load(folder.as_ref())?;
        all.extend(MeasuredMemory::of(&dataset.profiles, &dataset.graphs));
    }
    Ok(all)
}

/// Fits each engine and judges it on the real models.
#[must_use]
pub fn scores(measured: &[MeasuredMemory]) -> Vec<EngineScore> {
    fit(measured).into_iter().map(|engine| score(engine, measured)).collect()
}

fn score(engine: EngineMemory, measured: &[MeasuredMemory]) -> EngineScore {
    let own: Vec<&MeasuredMemory> = measured
        .iter()
        .filter(|m| m.framework == engine.framework && m.precision == engine.precision)
        .collect();
    let real = own.iter().filter(|m| m.space.is_none());
    let models: Vec<ModelScore> = real.map(|m| ModelScore::of(m, &engine)).collect();
    let (actual, forecast): (Vec<f64>, Vec<f64>) =
        models.iter().map(|m| (m.measured_bytes, m.forecast_bytes as f64)).unzip();
    let covered = models.iter().filter(|m| m.is_covered()).count();
    let spreads: Vec<f64> = own.iter().filter(|m| m.runs > 1).map(|m| m.spread - 1.0).collect();
    EngineScore {
        mean_error: mape(&actual, &forecast).ok().map(|percent| percent / 100.0),
        rank_correlation: spearman(&actual, &forecast),
        covered: covered as f64 / models.len().max(1) as f64,
        repeats_differ: median(&spreads),
        engine,
        models,
    }
}

impl ModelScore {
    fn of(measured: &MeasuredMemory, engine: &EngineMemory) -> Self {
        let forecast = engine.forecast_of(measured.demand).peak_bytes;
        Self {
            model: measured.model.clone(),
            measured_bytes: measured.peak_bytes,
            forecast_bytes: forecast.point(),
            interval_bytes: (forecast.lower(), forecast.upper()),
        }
    }

    fn is_covered(&self) -> bool {
        let (lower, upper) = self.interval_bytes;
        (lower as f64..=upper as f64).contains(&self.measured_bytes)
    }

    /// (forecast - measured) / measured.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.forecast_bytes as f64 / self.measured_bytes - 1.0
    }
}

//! How well is the memory that engines take for models forecast? Engines are fitted to sampled
//! models ([`vitempo::memory`]) and judged on real ones.

use serde::Serialize;
use std::path::Path;
use vitempo::{
    datasets::{Dataset, DatasetError},
    memory::{EngineMemory, MeasuredMemory, bounds, fit},
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
    /// Share of the real models whose memory lies in an interval made from the others.
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
    let real: Vec<&MeasuredMemory> = own.iter().copied().filter(|m| m.space.is_none()).collect();
    let models: Vec<ModelScore> = real.iter().map(|m| ModelScore::of(m, &engine)).collect();
    let (actual, forecast): (Vec<f64>, Vec<f64>) =
        models.iter().map(|m| (m.measured_bytes, m.forecast_bytes as f64)).unzip();
    let spreads: Vec<f64> = own.iter().filter(|m| m.runs > 1).map(|m| m.spread - 1.0).collect();
    EngineScore {
        mean_error: mape(&actual, &forecast).ok().map(|percent| percent / 100.0),
        rank_correlation: spearman(&actual, &forecast),
        covered: covered(&real, &engine),
        repeats_differ: median(&spreads),
        engine,
        models,
    }
}

/// How many of the models lie in the interval that the others give.
fn covered(real: &[&MeasuredMemory], engine: &EngineMemory) -> f64 {
    let mut ratios: Vec<f64> = real.iter().map(|model| model.over_forecast(engine)).collect();
    let mut inside = 0;
    for index in 0..ratios.len() {
        let own = ratios.swap_remove(index);
        let bounds = bounds(&ratios);
        inside += usize::from(bounds.is_some_and(|(lower, upper)| lower <= own && own <= upper));
        ratios.push(own);
        let last = ratios.len() - 1;
        ratios.swap(index, last);
    }
    inside as f64 / ratios.len().max(1) as f64
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

    /// (forecast - measured) / measured.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.forecast_bytes as f64 / self.measured_bytes - 1.0
    }
}

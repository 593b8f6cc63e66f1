//! Forecasts of models on several devices: [`forecast_on_each`].
//!
//! ```
//! use vitempo::{bundle::Selection, forecast::forecast_on_each, graph::onnx::ReadOptions, models};
//!
//! let options = ReadOptions::default();
//! let models = models::read_all(&["tests/models/mobilevit_xxs.onnx"], &options)?.read;
//! let bundles = Selection::of(&["bundles/epyc-rten-*.vtb", "bundles/adapted/pixel4-*.vtb"])?;
//! let forecasts = forecast_on_each(&bundles, models, &options);
//! let rows = &forecasts.models[0].forecasts;
//! assert!(rows.len() > 1 && rows.is_sorted_by_key(|row| row.latency.point()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Coverage;
use crate::{
    Bundle, BundleError,
    bundle::{Kind, Location, Selection},
    models::Model,
    processors,
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use vitempo_graph::{Environment, LatencyModel, Prediction, PredictionError, onnx::ReadOptions};

/// Forecasts of models on several devices.
#[derive(Debug, Default)]
pub struct DeviceForecasts {
    /// In the order of the models.
    pub models: Vec<ModelOnDevices>,
    /// Bundles that cannot be opened, with the reason.
    pub unopened: Vec<BundleError>,
}

/// One model on several devices.
#[derive(Debug)]
pub struct ModelOnDevices {
    /// The model.
    pub model: Model,
    /// The lowest latency first.
    pub forecasts: Vec<DeviceForecast>,
    /// Names of bundles that do not forecast it, with the reason.
    pub left_out: Vec<(String, PredictionError)>,
}

/// The forecast of a model by one bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceForecast {
    /// Name of the bundle.
    pub bundle: String,
    /// How it was made.
    pub kind: Kind,
    /// Where the forecast holds.
    pub environment: Environment,
    /// End to end, with an interval.
    pub latency: Prediction,
    /// How many operators are forecast in which way.
    pub coverage: Coverage,
}

/// What one bundle says about each model.
type OfBundle = Vec<(String, Result<DeviceForecast, PredictionError>)>;

/// Forecasts each model on each device, within the limits of `options`; on all processors.
#[must_use]
pub fn forecast_on_each(
    bundles: &Selection,
    models: Vec<Model>,
    options: &ReadOptions,
) -> DeviceForecasts {
    let mut out = DeviceForecasts::default();
    let start = |model| ModelOnDevices { model, forecasts: Vec::new(), left_out: Vec::new() };
    out.models = models.into_iter().map(start).collect();
    let models: Vec<&Model> = out.models.iter().map(|m| &m.model).collect();
    let answers =
        in_parallel(bundles.locations(), |location| of_bundle(location, &models, options));
    for answer in answers {
        match answer {
            Ok(rows) => out.models.iter_mut().zip(rows).for_each(|(model, row)| model.add(row)),
            Err(error) => out.unopened.push(error),
        }
    }
    for model in &mut out.models {
        model.forecasts.sort_by(|a, b| a.latency.point().ns().total_cmp(&b.latency.point().ns()));
    }
    out
}

impl ModelOnDevices {
    fn add(&mut self, (bundle, row): (String, Result<DeviceForecast, PredictionError>)) {
        match row {
            Ok(forecast) => self.forecasts.push(forecast),
            Err(error) => self.left_out.push((bundle, error)),
        }
    }
}

fn of_bundle(
    location: &Location,
    models: &[&Model],
    options: &ReadOptions,
) -> Result<OfBundle, BundleError> {
    let bundle = Bundle::load(location.clone())?;
    let forecast = |model: &&Model| DeviceForecast::of(&bundle, model, options);
    Ok(models.iter().map(|model| (bundle.name().to_owned(), forecast(model))).collect())
}

impl DeviceForecast {
    /// The forecast of a model by an open bundle, within the limits of `options`.
    ///
    /// # Errors
    /// [`PredictionError`] where the bundle does not forecast the model.
    pub fn of(
        bundle: &Bundle,
        model: &Model,
        options: &ReadOptions,
    ) -> Result<Self, PredictionError> {
        let prediction = bundle.predict_within(&model.graph, &options.budget())?;
        Ok(Self {
            bundle: bundle.name().to_owned(),
            kind: bundle.kind(),
            environment: bundle.environment().clone(),
            latency: prediction.latency,
            coverage: Coverage::of(&model.graph, &prediction),
        })
    }
}

/// The results of a job for each item, in the order of the items, on all processors.
fn in_parallel<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            match items.get(index) {
                Some(item) => done.push((index, job(item))),
                None => return done,
            }
        }
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let helpers = (1..processors().min(items.len())).filter_map(|_| {
            // Where the system refuses a thread, the others do its work.
            thread::Builder::new().spawn_scoped(scope, work).ok()
        });
        let helpers: Vec<_> = helpers.collect();
        let mut done = work();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;
    use std::path::Path;

    fn selection(patterns: &[&str]) -> Selection {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let texts: Vec<_> = patterns.iter().map(|pattern| root.join(pattern)).collect();
        Selection::of(&texts).expect("bundles")
    }

    #[test]
    fn every_bundle_gives_the_forecast_that_it_gives_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let options = ReadOptions::default();
        let model = models::read(&root.join("tests/models/mobilevit_xxs.onnx"), &options)
            .expect("a model that ships");
        let graph = model.graph.clone();
        let bundles = selection(&["bundles/epyc-*-f32-1t.vtb", "bundles/adapted/*.vtb"]);
        let found = forecast_on_each(&bundles, vec![model], &options);
        let [found] = &found.models[..] else { panic!("one model") };
        assert!(found.left_out.is_empty(), "{:?}", found.left_out);
        assert_eq!(found.forecasts.len(), bundles.locations().len());
        assert!(found.forecasts.is_sorted_by(|a, b| a.latency.point() <= b.latency.point()));
        for location in bundles.locations() {
            let bundle = Bundle::load(location.clone()).expect("a bundle");
            let alone = bundle.predict(&graph).expect("a forecast").latency;
            let row = found.forecasts.iter().find(|row| row.bundle == bundle.name());
            assert_eq!(row.map(|row| row.latency), Some(alone), "{}", bundle.name());
        }
    }

    #[test]
    fn bundles_that_cannot_be_opened_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let broken = folder.path().join("broken.vtb");
        std::fs::write(&broken, "no bundle").expect("a file");
        let bundles = Selection::of(&[broken]).expect("a path");
        let found = forecast_on_each(&bundles, Vec::new(), &ReadOptions::default());
        assert!(matches!(&found.unopened[..], [BundleError::Format { .. }]));
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&items, |i| i * i), items.iter().map(|i| i * i).collect::<Vec<_>>());
        assert!(in_parallel(&[], |i: &usize| *i).is_empty());
    }
}

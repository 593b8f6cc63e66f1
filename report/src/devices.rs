//! [`plot`]: forecasts of models on several devices, a figure with the interval of each.

use crate::{
    ReportError,
    chart::{Chart, IntervalSeries},
    draw,
};
use vitempo::{forecast::ModelOnDevices, graph::Prediction};

/// Most models of one figure: it has this many colours.
pub const MOST_MODELS: usize = 12;

/// The figure as SVG: latencies in ms on a logarithmic axis, a row per bundle, the fastest on top;
/// a mark with its interval per model.
///
/// # Errors
/// [`ReportError::TooManyModels`] for more than [`MOST_MODELS`].
pub fn plot(models: &[ModelOnDevices]) -> Result<String, ReportError> {
    if models.len() > MOST_MODELS {
        return Err(ReportError::TooManyModels { models: models.len(), most: MOST_MODELS });
    }
    Ok(draw::svg(&chart(models)))
}

fn chart(models: &[ModelOnDevices]) -> Chart {
    let mut rows: Vec<String> = Vec::new();
    for forecast in models.iter().flat_map(|model| &model.forecasts) {
        if !rows.contains(&forecast.bundle) {
            rows.push(forecast.bundle.clone());
        }
    }
    let series = |model: &ModelOnDevices| {
        let value = |row: &String| {
            let found = model.forecasts.iter().find(|forecast| forecast.bundle == *row)?;
            Some(ms(&found.latency))
        };
        IntervalSeries {
            name: model.model.identity.name.clone(),
            values: rows.iter().map(value).collect(),
        }
    };
    let series = models.iter().map(series).collect();
    Chart::Intervals { value: "forecast latency, ms".to_owned(), rows, series }
}

/// Lower end, point and upper end, ms; an upper end that is not known is drawn at the point.
fn ms(latency: &Prediction) -> [f64; 3] {
    let [lower, point, upper] = [latency.lower(), latency.point(), latency.upper()];
    [lower, point, if upper.is_finite() { upper } else { point }].map(|end| end.ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use vitempo::{
        bundle::Selection, forecast::forecast_on_each, graph::onnx::ReadOptions, models,
    };

    #[test]
    fn each_device_has_a_mark_and_an_interval_per_model() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let options = ReadOptions::default();
        let files = ["mobilevit_xxs", "vit_tiny_patch16_224"]
            .map(|name| root.join(format!("tests/models/{name}.onnx")).display().to_string());
        let read = models::read_all(&files, &options).expect("models that ship").read;
        let bundles = Selection::of(&[root.join("bundles/epyc-rten-f32-1t.vtb")])
            .expect("a bundle that ships");
        let mut found = forecast_on_each(&bundles, read, &options).models;
        let svg = plot(&found).expect("a figure");
        // Two marks in the legend, one per model in the row.
        assert_eq!(svg.matches("class=\"dots ").count(), 4, "{svg}");
        assert!(svg.contains("epyc-rten-f32-1t") && svg.contains("mobilevit_xxs"));
        assert!(svg.contains("forecast latency, ms"));
        let one = found.remove(0);
        let many: Vec<ModelOnDevices> = (0..13)
            .map(|_| ModelOnDevices {
                model: one.model.clone(),
                forecasts: one.forecasts.clone(),
                left_out: Vec::new(),
            })
            .collect();
        assert!(matches!(plot(&many), Err(ReportError::TooManyModels { models: 13, most: 12 })));
    }
}

//! What a layer of a transformer's encoder moves and how long it takes over sizes of images, by
//! class of operator: table 2 and figure 4 of ARIA (Jung et al., MobiSys 2025), for engines that are
//! at hand.
//!
//! A layer is a part of the whole: sums over the model, without convolutions (the patch embedding),
//! over the number of attentions. Bytes are those of tensors of 16-bit numbers, each operator's
//! inputs, weights and outputs once; the paper read a phone's NPU, which spills and reads again what
//! its memory on the chip does not hold.

mod error;
mod layer;

pub use error::EncoderError;
pub use layer::{Class, PerClass};

use layer::{per_layer, printed};
use std::path::Path;
use vitempo::{
    Bundle,
    graph::{
        Graph, GraphPrediction, ImageSize, Latency, LatencyModel, ModelProfile, Prediction, Work,
        median, onnx::ReadOptions, patterns,
    },
    models::{self, Model},
    training::{self, TrainingError},
};

/// A layer over sizes.
#[derive(Clone, Debug)]
pub struct Layers {
    /// Name of the model.
    pub model: String,
    /// In the order of the sizes.
    pub rows: Vec<LayerRow>,
}

/// A layer at one size.
#[derive(Clone, Debug)]
pub struct LayerRow {
    /// Height and width of the images.
    pub size: ImageSize,
    /// Queries of an attention: patches and class tokens.
    pub tokens: usize,
    /// Attentions of the model.
    pub layers: usize,
    /// Megabytes (10^6) that the operators of a layer move, in 16 bits.
    pub megabytes: PerClass,
    /// What the paper's table 2 prints for this size.
    pub printed: Option<PerClass>,
    /// Forecasts, by bundle.
    pub latencies: Vec<LayerLatency>,
}

/// Latencies on one engine.
#[derive(Clone, Debug)]
pub struct LayerLatency {
    /// Name of the bundle.
    pub bundle: String,
    /// End to end.
    pub forecast: Prediction,
    /// Of a layer by class, ms.
    pub forecast_ms: PerClass,
    /// Measurements of the environment.
    pub measured: Option<MeasuredLayer>,
}

/// Measured latencies.
#[derive(Clone, Debug)]
pub struct MeasuredLayer {
    /// Rounds.
    pub rounds: usize,
    /// Median of the rounds' medians, end to end, and the lowest and highest.
    pub end_to_end: [Latency; 3],
    /// Of a layer by class, ms: medians of the rounds. `None` where operators were not timed.
    pub ms: Option<PerClass>,
}

/// A layer of the encoder in `file` at each of these sizes, forecast by each bundle, beside the
/// measurements in `data`.
///
/// # Errors
/// [`EncoderError`] naming the file, the size or the bundle.
pub fn layers(
    file: &Path,
    sizes: &[ImageSize],
    bundles: &[Bundle],
    data: Option<&Path>,
) -> Result<Layers, EncoderError> {
    let model = models::read(file, &ReadOptions::default())?;
    let mut rows = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let resized = model.with_image_size(size)?;
        let mut row = LayerRow::new(size, &resized.graph)?;
        for bundle in bundles {
            row.latencies.push(LayerLatency::of(bundle, &resized, row.layers)?);
        }
        rows.push(row);
    }
    let mut layers = Layers { model: model.identity.name.clone(), rows };
    if let Some(folder) = data {
        for (index, bundle) in bundles.iter().enumerate() {
            layers.add_measured(index, &bundle.environment().id(), &model, folder)?;
        }
    }
    Ok(layers)
}

impl Layers {
    fn add_measured(
        &mut self,
        bundle: usize,
        environment: &str,
        model: &Model,
        folder: &Path,
    ) -> Result<(), EncoderError> {
        let dataset = match training::load_environment(folder, Some(environment)) {
            Ok(dataset) => dataset,
            Err(TrainingError::UnknownEnvironment { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for row in &mut self.rows {
            let architecture = model.with_image_size(row.size)?.identity.architecture;
            let of_row: Vec<&ModelProfile> = dataset
                .profiles
                .iter()
                .filter(|profile| profile.model.architecture == architecture)
                .collect();
            row.latencies[bundle].measured = MeasuredLayer::of(&of_row, row.layers);
        }
        Ok(())
    }
}

impl LayerRow {
    fn new(size: ImageSize, graph: &Graph) -> Result<Self, EncoderError> {
        let canonical = patterns::canonicalize(graph);
        let attentions = patterns::attention(&canonical);
        let layers = attentions.len();
        if layers == 0 {
            return Err(EncoderError::NoAttention(graph.name().to_owned()));
        }
        let megabytes = |op: &vitempo::graph::OpSpec| {
            let work = Work::of_operator(op);
            // 16 bits of the 32 that the file has.
            (work.bytes_read + work.bytes_written) as f64 / 2.0 / 1e6
        };
        let each = canonical.nodes().iter().map(|node| (&node.op, megabytes(&node.op)));
        Ok(Self {
            size,
            tokens: attentions.iter().map(|a| a.queries).max().unwrap_or(0),
            layers,
            megabytes: per_layer(each, layers),
            printed: printed(size),
            latencies: Vec::new(),
        })
    }
}

impl LayerLatency {
    fn of(bundle: &Bundle, model: &Model, layers: usize) -> Result<Self, EncoderError> {
        let budget = ReadOptions::default().budget();
        let (lowered, forecast): (Graph, GraphPrediction) =
            bundle.predict_lowered(&model.graph, &budget)?;
        let each = lowered.nodes().iter().zip(&forecast.operators);
        let each = each.map(|(node, found)| (&node.op, found.latency_ns.ms()));
        Ok(Self {
            bundle: bundle.name().to_owned(),
            forecast: forecast.latency,
            forecast_ms: per_layer(each, layers),
            measured: None,
        })
    }
}

impl MeasuredLayer {
    fn of(profiles: &[&ModelProfile], layers: usize) -> Option<Self> {
        let mut ends: Vec<u64> =
            profiles.iter().filter_map(|p| Some(p.e2e.median_ns()?.round() as u64)).collect();
        ends.sort_unstable();
        let ns = |ns: f64| Latency::from_ns(ns);
        let end_to_end = [ns(median(&ends)?), ns(*ends.first()? as f64), ns(*ends.last()? as f64)];
        let of_round = |profile: &&ModelProfile| {
            let each = profile
                .operators
                .iter()
                .filter_map(|operator| Some((&*operator.op, operator.samples.median_ns()? / 1e6)));
            per_layer(each, layers)
        };
        let rounds: Vec<PerClass> =
            profiles.iter().filter(|p| !p.operators.is_empty()).map(of_round).collect();
        Some(Self { rounds: ends.len(), end_to_end, ms: PerClass::median(&rounds) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> ImageSize {
        text.parse().expect("a size")
    }

    #[test]
    fn a_layer_moves_what_its_tensors_hold() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let file = root.join("tests/models/vit_tiny_patch16_224.onnx");
        let bundle = Bundle::open(root.join("bundles/epyc-rten-f32-1t.vtb")).expect("a bundle");
        let sizes = [size("224"), size("224x448"), size("448")];
        let found = layers(&file, &sizes, &[bundle], None).expect("layers");
        for (row, tokens) in found.rows.iter().zip([197.0, 393.0, 785.0]) {
            assert_eq!((row.layers, row.tokens as f64), (12, tokens));
            let (heads, features) = (3.0, 192.0);
            let scores = heads * tokens * tokens;
            // Two products: each has the scores on one side and two tensors of features.
            let matmul = 2.0 * (2.0 * scores + 4.0 * tokens * features) / 1e6;
            assert!((row.megabytes[Class::Matmul] / matmul - 1.0).abs() < 1e-9);
            assert!((row.megabytes[Class::Softmax] / (4.0 * scores / 1e6) - 1.0).abs() < 1e-9);
            // Weights of 12 x features^2, and tensors of tokens.
            let weights = 2.0 * 12.0 * features * features / 1e6;
            assert!(row.megabytes[Class::Linear] > weights, "{:?}", row.megabytes);
            let latency = &row.latencies[0];
            let of_layers = 12.0 * latency.forecast_ms.total();
            let whole = latency.forecast.point().ms();
            assert!(of_layers > 0.7 * whole && of_layers < 1.1 * whole, "{of_layers} {whole}");
            assert!(latency.measured.is_none() && row.printed.is_none());
        }
        let growth = |class| found.rows[2].megabytes[class] / found.rows[0].megabytes[class];
        let squares = (785.0f64 / 197.0).powi(2);
        assert!((growth(Class::Softmax) / squares - 1.0).abs() < 1e-9, "N^2");
        assert!(growth(Class::Linear) < 785.0 / 197.0, "weights do not grow");
    }

    #[test]
    fn the_papers_table_is_that_of_its_sizes() {
        let printed = printed(size("406x658")).expect("a size of the paper");
        assert_eq!(printed[Class::Matmul], 1664.55);
        // Section 2.3: 52.0 and 95.4 times more than at 238 x 322.
        let first = super::printed(size("238x322")).expect("a size of the paper");
        let times = |class| (10.0f64 * printed[class] / first[class]).round() / 10.0;
        assert_eq!((times(Class::Matmul), times(Class::Softmax)), (52.0, 95.4));
    }

    #[test]
    fn a_model_without_attention_is_refused() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let file = root.join("tests/models/edgenext_xx_small.onnx");
        let refused = layers(&file, &[size("7")], &[], None);
        assert!(refused.is_err());
    }
}

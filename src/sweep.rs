//! One model at several sizes of images: [`sweep`] counts the FLOPs and bytes of its operators and
//! forecasts its latency at each size, `Sweep::add_measured` puts measurements beside the forecasts.
//!
//! ```
//! use vitempo::{bundle::Selection, graph::onnx::ReadOptions, models, sweep::sweep};
//!
//! let options = ReadOptions::default();
//! let model = models::read("tests/models/vit_tiny_patch16_224.onnx".as_ref(), &options)?;
//! let sizes = ["224", "448"].map(|size| size.parse().expect("a size"));
//! let bundles = Selection::of(&["bundles/epyc-rten-f32-1t.vtb"])?;
//! let rows = sweep(&model, &sizes, &bundles, &options).rows;
//! // Sixteen times the scores of attention, four times the linear layers.
//! assert!(rows[1].attention.scores > 15 * rows[0].attention.scores);
//! assert!(rows[1].forecasts[0].latency.point().ns() > 3.0 * rows[0].forecasts[0].latency.point().ns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    BundleError,
    bundle::Selection,
    forecast::{DeviceForecast, DeviceForecasts, forecast_on_each},
    inspection::{KindRow, grouped},
    models::{Model, ModelError},
};
use std::collections::HashSet;
use vitempo_graph::{
    Graph, ImageSize, Latency, PredictionError, ValueId, ValueSource, Work,
    onnx::ReadOptions,
    patterns::{self, AttentionPattern},
};

/// The class of the operators from queries, keys and values to the output of an attention.
pub const ATTENTION: &str = "Attention";

/// A model at several sizes.
#[derive(Debug)]
pub struct Sweep {
    /// Name of the model.
    pub model: String,
    /// In the order of the sizes.
    pub rows: Vec<SizeRow>,
    /// Sizes at which the model does not work, with the reason.
    pub unfit: Vec<(ImageSize, ModelError)>,
    /// Forecasts that are missing: size, name of the bundle, reason.
    pub left_out: Vec<(ImageSize, String, PredictionError)>,
    /// Bundles that cannot be opened, with the reason.
    pub unopened: Vec<BundleError>,
}

/// A model at one size.
#[derive(Debug)]
pub struct SizeRow {
    /// Height and width of its images.
    pub size: ImageSize,
    /// The model at this size.
    pub model: Model,
    /// Work of the operators in [`SizeRow::classes`].
    pub work: Work,
    /// Operators by class, those with the most FLOPs first: by kind, but for [`ATTENTION`]. Patterns
    /// such as LayerNorm are one operator, and each operator reads and writes its own tensors:
    /// engines that fuse more move fewer bytes.
    pub classes: Vec<KindRow>,
    /// Its attentions.
    pub attention: AttentionSize,
    /// By bundle, in the order of their names.
    pub forecasts: Vec<DeviceForecast>,
    /// Measured latencies, by bundle as the forecasts; `None` where there is none.
    pub measured: Vec<Option<Measured>>,
}

/// The attentions of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionSize {
    /// How many there are.
    pub count: usize,
    /// Queries of the largest: tokens, in global self-attention.
    pub queries: usize,
    /// Elements of all matrices of scores: queries times keys, over heads and batch.
    pub scores: u64,
    /// Bytes that the operators of [`ATTENTION`] read and write.
    pub bytes_moved: u64,
}

/// A latency that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Median of the rounds' medians.
    pub median: Latency,
    /// The lowest median of a round.
    pub lowest: Latency,
    /// The highest.
    pub highest: Latency,
    /// Rounds over the models, in all sessions.
    pub rounds: usize,
}

/// Counts and forecasts a model at each of these sizes by each bundle, each model within the limits
/// of `options`.
#[must_use]
pub fn sweep(
    model: &Model,
    sizes: &[ImageSize],
    bundles: &Selection,
    options: &ReadOptions,
) -> Sweep {
    let (mut fit, mut unfit) = (Vec::new(), Vec::new());
    for &size in sizes {
        match model.with_image_size_within(size, &options.budget()) {
            Ok(resized) => fit.push((size, resized)),
            Err(error) => unfit.push((size, error)),
        }
    }
    let (sizes, models): (Vec<ImageSize>, Vec<Model>) = fit.into_iter().unzip();
    let DeviceForecasts { models, unopened } = forecast_on_each(bundles, models, options);
    let mut left_out = Vec::new();
    let mut rows = Vec::with_capacity(sizes.len());
    for (size, found) in sizes.into_iter().zip(models) {
        left_out.extend(found.left_out.into_iter().map(|(bundle, error)| (size, bundle, error)));
        let mut forecasts = found.forecasts;
        forecasts.sort_by(|a, b| a.bundle.cmp(&b.bundle));
        rows.push(SizeRow::new(size, found.model, forecasts));
    }
    Sweep { model: model.identity.name.clone(), rows, unfit, left_out, unopened }
}

impl SizeRow {
    fn new(size: ImageSize, model: Model, forecasts: Vec<DeviceForecast>) -> Self {
        let graph = patterns::canonicalize(&model.graph);
        let (classes, attention) = classes(&graph);
        let measured = vec![None; forecasts.len()];
        let work = Work::of_graph(&graph);
        Self { size, model, work, classes, attention, forecasts, measured }
    }

    /// Pixels of an image.
    #[must_use]
    pub fn pixels(&self) -> usize {
        self.size.height() * self.size.width()
    }

    /// Bytes that all operators read and write.
    #[must_use]
    pub fn bytes_moved(&self) -> u64 {
        self.classes.iter().map(|class| class.bytes_moved).fold(0, u64::saturating_add)
    }
}

/// Of a graph whose patterns are operators.
fn classes(graph: &Graph) -> (Vec<KindRow>, AttentionSize) {
    let found = patterns::attention(graph);
    let mut inside = HashSet::new();
    found.iter().for_each(|pattern| collect(graph, pattern, &mut inside));
    let rows = grouped(graph, |index, kind| if inside.contains(&index) { ATTENTION } else { kind });
    let scores = |p: &AttentionPattern| {
        [p.batch, p.heads, p.queries, p.keys]
            .into_iter()
            .fold(1u64, |product, extent| product.saturating_mul(extent as u64))
    };
    let attention = AttentionSize {
        count: found.len(),
        queries: found.iter().map(|p| p.queries).max().unwrap_or(0),
        scores: found.iter().map(scores).fold(0, u64::saturating_add),
        bytes_moved: rows.iter().find(|row| row.kind == ATTENTION).map_or(0, |r| r.bytes_moved),
    };
    (rows, attention)
}

/// Adds the nodes between the inputs and the output of an attention.
fn collect(graph: &Graph, attention: &AttentionPattern, inside: &mut HashSet<usize>) {
    let ends: [ValueId; 3] = [attention.query, attention.key, attention.value];
    let mut open = vec![attention.output];
    while let Some(value) = open.pop() {
        let ValueSource::Node(index) = graph.value(value).source else { continue };
        let index = index as usize;
        if !ends.contains(&value) && inside.insert(index) {
            open.extend(&graph.nodes()[index].inputs);
        }
    }
}

#[cfg(feature = "dataset-read")]
mod measured {
    use super::{Measured, Sweep};
    use crate::training::{TrainingError, load_environment};
    use std::{collections::BTreeSet, path::Path};
    use vitempo_datasets::DatasetError;
    use vitempo_graph::{Latency, ModelProfile, median};

    impl Sweep {
        /// Puts the measurements of a dataset beside the forecasts: those of the same architecture
        /// in the environment of the bundle, for example by `vitempo profile --size`.
        ///
        /// # Errors
        /// [`TrainingError`] where the dataset cannot be read, or has latencies of none of the
        /// environments.
        pub fn add_measured(&mut self, folder: &Path) -> Result<(), TrainingError> {
            let environments: BTreeSet<String> = self
                .rows
                .iter()
                .flat_map(|row| row.forecasts.iter().map(|f| f.environment.id()))
                .collect();
            let (mut found, mut missing) = (false, None);
            for id in environments {
                match load_environment(folder, Some(&id)) {
                    Ok(dataset) => {
                        found = true;
                        self.add(&id, &dataset.profiles);
                    }
                    Err(
                        error @ (TrainingError::UnknownEnvironment { .. }
                        | TrainingError::Dataset(DatasetError::NoLatencies { .. })),
                    ) => missing = Some(error),
                    Err(error) => return Err(error),
                }
            }
            match missing {
                Some(error) if !found => Err(error),
                _ => Ok(()),
            }
        }

        fn add(&mut self, environment: &str, profiles: &[ModelProfile]) {
            for row in &mut self.rows {
                let of_row: Vec<&ModelProfile> = profiles
                    .iter()
                    .filter(|p| p.model.architecture == row.model.identity.architecture)
                    .collect();
                for (forecast, measured) in row.forecasts.iter().zip(&mut row.measured) {
                    if forecast.environment.id() == environment {
                        *measured = Measured::of(&of_row);
                    }
                }
            }
        }
    }

    impl Measured {
        fn of(profiles: &[&ModelProfile]) -> Option<Self> {
            let mut medians: Vec<u64> =
                profiles.iter().filter_map(|p| Some(p.e2e.median_ns()?.round() as u64)).collect();
            medians.sort_unstable();
            let (lowest, highest) = (*medians.first()?, *medians.last()?);
            let ns = |ns: u64| Latency::from_ns(ns as f64);
            Some(Self {
                median: Latency::from_ns(median(&medians)?),
                lowest: ns(lowest),
                highest: ns(highest),
                rounds: medians.len(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;

    fn size(text: &str) -> ImageSize {
        text.parse().expect("a size")
    }

    fn swept(model: &str, sizes: &[&str]) -> Sweep {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let options = ReadOptions::default();
        let file = root.join(format!("tests/models/{model}.onnx"));
        let model = models::read(&file, &options).expect("a model that ships");
        let bundles = ["epyc-rten-f32-1t", "epyc-onnxruntime-f32-1t"]
            .map(|name| root.join(format!("bundles/{name}.vtb")));
        let bundles = Selection::of(&bundles).expect("bundles that ship");
        let sizes: Vec<ImageSize> = sizes.iter().map(|text| size(text)).collect();
        sweep(&model, &sizes, &bundles, &options)
    }

    #[test]
    fn classes_add_up_and_attention_grows_with_the_square_of_its_tokens() {
        let swept = swept("vit_tiny_patch16_224", &["224", "224x448", "448"]);
        let tokens = [197usize, 393, 785];
        for (row, tokens) in swept.rows.iter().zip(tokens) {
            let flops: u64 = row.classes.iter().map(|class| class.flops).sum();
            assert_eq!(flops, row.work.flops);
            assert_eq!(row.work.macs, Work::of_graph(&row.model.graph).macs);
            let (layers, heads) = (12, 3);
            assert_eq!((row.attention.count, row.attention.queries), (layers, tokens));
            assert_eq!(row.attention.scores, (layers * heads * tokens * tokens) as u64);
            let attention = row.classes.iter().find(|class| class.kind == ATTENTION);
            let attention = attention.expect("a class of attention");
            // Both products, each twice the scores times the size of a head.
            let products = 2 * 2 * row.attention.scores * 64;
            assert!(attention.flops >= products, "{} < {products}", attention.flops);
            assert!(attention.flops < products + products / 5);
            // The scores are written and read by the softmax and the products, four bytes each.
            assert!(attention.bytes_moved > 4 * 4 * row.attention.scores);
            let names: Vec<&str> = row.forecasts.iter().map(|f| f.bundle.as_str()).collect();
            assert_eq!(names, ["epyc-onnxruntime-f32-1t", "epyc-rten-f32-1t"]);
            assert!(row.measured.iter().all(Option::is_none));
        }
        let point = |row: usize| swept.rows[row].forecasts[0].latency.point().ns();
        assert!(point(0) < point(1) && point(1) < point(2));
    }

    #[test]
    fn sizes_that_do_not_fit_come_with_their_reason() {
        let swept = swept("mobilevit_xxs", &["256", "7", "128x192"]);
        let sizes: Vec<String> = swept.rows.iter().map(|row| row.size.to_string()).collect();
        assert_eq!(sizes, ["256x256", "128x192"]);
        let [(unfit, error)] = &swept.unfit[..] else { panic!("{:?}", swept.unfit) };
        assert_eq!(*unfit, size("7"));
        assert!(error.to_string().contains("node"), "{error}");
    }
}

//! Costs of every subgraph on every processor, forecast by bundles, one or more per processor.
//!
//! A bundle forecasts one precision: quantised variants take the processor's int8 bundle where it
//! has one, others one that is not int8. Memory is that of a subgraph's constants.

use super::{StitchProgress, StitchingError};
use crate::{
    Bundle,
    plan::{
        costs::Estimated,
        loading::{LoadingModel, ModelSize},
    },
    zoo::{variants::Variants, weights},
};
use std::path::PathBuf;
use vitempo_graph::{Environment, Graph, LatencyModel, Precision, TensorSpec};
use vitempo_planners::{cost::Interval, stitch::Subgraph};

/// A processor and the bundles that forecast its latencies.
#[derive(Debug)]
pub struct Processor {
    /// Its name.
    pub name: String,
    bundles: Vec<Bundle>,
}

impl Processor {
    /// Opens bundles, each a file or a name; bundles with the same processor name belong to one
    /// processor.
    ///
    /// # Errors
    /// [`StitchingError`] naming the bundle that cannot be opened, or the processor that has two
    /// for one precision.
    pub fn open(named: &[(String, PathBuf)]) -> Result<Vec<Self>, StitchingError> {
        let open = |(name, path): &(String, PathBuf)| Ok((name.clone(), Bundle::open(path)?));
        Self::of(named.iter().map(open).collect::<Result<Vec<_>, StitchingError>>()?)
    }

    /// The same of bundles that are open.
    ///
    /// # Errors
    /// [`StitchingError::TwoBundles`] naming the processor that has two for one precision.
    pub fn of(
        named: impl IntoIterator<Item = (String, Bundle)>,
    ) -> Result<Vec<Self>, StitchingError> {
        let mut processors: Vec<Self> = Vec::new();
        for (name, bundle) in named {
            match processors.iter_mut().find(|processor| processor.name == name) {
                Some(processor) => processor.add(bundle)?,
                None => processors.push(Self { name, bundles: vec![bundle] }),
            }
        }
        Ok(processors)
    }

    fn add(&mut self, bundle: Bundle) -> Result<(), StitchingError> {
        let precision = bundle.environment().precision;
        if self.bundles.iter().any(|b| b.environment().precision == precision) {
            return Err(StitchingError::TwoBundles { processor: self.name.clone(), precision });
        }
        self.bundles.push(bundle);
        Ok(())
    }

    /// The environment of its first bundle.
    #[must_use]
    pub fn environment(&self) -> Option<&Environment> {
        self.bundles.first().map(LatencyModel::environment)
    }

    /// Its bundles.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.bundles.iter()
    }

    /// The bundle for quantised variants, or for others.
    pub(crate) fn bundle(&self, quantized: bool) -> Option<&Bundle> {
        let int8 = |bundle: &&Bundle| bundle.environment().precision == Precision::I8;
        if quantized {
            self.bundles.iter().find(int8).or(self.bundles.first())
        } else {
            self.bundles.iter().find(|bundle| !int8(bundle))
        }
    }
}

/// The memory of a subgraph, and the size of its output for the next; bytes. The last one has 0.
#[must_use]
pub fn sizes(graph: &Graph, last: bool) -> (u64, u64) {
    let memory = weights(graph).map(|(tensor, _)| tensor.size_bytes()).fold(0, u64::saturating_add);
    let handed = graph
        .outputs()
        .iter()
        .filter_map(|&id| graph.value(id).tensor.as_ref())
        .map(TensorSpec::size_bytes);
    (memory, if last { 0 } else { handed.fold(0, u64::saturating_add) })
}

/// Forecasts the subgraphs of a task, by position, then variant: latencies, and times of loading
/// where these of the bundle's engine are known.
///
/// # Errors
/// [`StitchingError`] naming task, variant and processor of the first subgraph that no bundle
/// forecasts.
pub fn subgraphs(
    variants: &Variants,
    processors: &[Processor],
    progress: &mut dyn FnMut(StitchProgress<'_>),
) -> Result<Vec<Vec<Subgraph>>, StitchingError> {
    let about = |variant: usize, processor: &Processor| {
        format!(
            "task `{}`, variant `{}` on `{}`",
            variants.task, variants.names[variant], processor.name
        )
    };
    let mut estimated = vec![vec![Estimated::default(); processors.len()]; variants.names.len()];
    let mut one = |variant: usize, graph: &Graph, last: bool| -> Result<_, StitchingError> {
        let mut latency_ns = Vec::with_capacity(processors.len());
        let mut load_ns = Vec::with_capacity(processors.len());
        for (processor, estimated) in processors.iter().zip(&mut estimated[variant]) {
            let bundle = processor.bundle(variants.quantized[variant]).ok_or_else(|| {
                StitchingError::Int8Alone {
                    what: about(variant, processor),
                    processor: processor.name.clone(),
                }
            })?;
            let (_, prediction) = bundle.predict_known(graph).map_err(|source| {
                StitchingError::Prediction { what: about(variant, processor), source }
            })?;
            estimated.add(Estimated::of(&prediction));
            latency_ns.push(Some(Interval::from(&prediction.latency)));
            let engine = &bundle.environment().framework;
            load_ns.push(LoadingModel::shipped().forecast_ns(engine, ModelSize::of(graph)));
        }
        let (memory_bytes, boundary_bytes) = sizes(graph, last);
        Ok(Subgraph { latency_ns, memory_bytes, boundary_bytes, load_ns })
    };
    let positions = variants.subgraphs.len();
    let mut rows = Vec::with_capacity(positions);
    for (position, row) in variants.subgraphs.iter().enumerate() {
        let last = position + 1 == positions;
        let row = row.iter().enumerate().map(|(variant, graph)| one(variant, graph, last));
        rows.push(row.collect::<Result<Vec<_>, _>>()?);
    }
    for (variant, of_processors) in estimated.iter().enumerate() {
        for (processor, &estimated) in processors.iter().zip(of_processors) {
            progress(StitchProgress::Forecast { what: &about(variant, processor), estimated });
        }
    }
    Ok(rows)
}

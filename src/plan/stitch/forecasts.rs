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
use std::{fmt, path::PathBuf};
use vitempo_graph::{
    Environment, Graph, LatencyModel, Precision, PredictionError, TensorSpec,
    lowering::LoweringError,
};
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

/// A subgraph with its times on each processor, and the memory and tensors of its graph. The last
/// one hands nothing to a next one.
#[must_use]
pub fn subgraph(
    graph: &Graph,
    is_last: bool,
    latency_ns: Vec<Option<Interval>>,
    load_ns: Vec<Option<u64>>,
) -> Subgraph {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let handed = if is_last { &[] } else { graph.outputs() };
    let tensors = handed.iter().filter_map(|&id| graph.value(id).tensor.as_ref());
    Subgraph {
        latency_ns,
        memory_bytes: sum(&mut weights(graph).map(|(tensor, _)| tensor.size_bytes())),
        boundary_bytes: sum(&mut tensors.map(TensorSpec::size_bytes)),
        boundary_tensors: handed.len() as u64,
        load_ns,
    }
}

/// A subgraph that the engine of a processor cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotRun {
    /// Its task.
    pub task: String,
    /// Its variant.
    pub variant: String,
    /// Its position, counted from 1.
    pub position: usize,
    /// The processor's name.
    pub processor: String,
    /// The reason, with the node where it is one.
    pub reason: String,
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, variant, position, processor, reason } = self;
        write!(
            f,
            "{task}: `{variant}` at position {position} cannot run on `{processor}`: {reason}"
        )
    }
}

/// The subgraphs of a task.
#[derive(Debug)]
pub struct Forecasts {
    /// By position, then variant.
    pub subgraphs: Vec<Vec<Subgraph>>,
    /// Those that some processor cannot run, and why; each runs on another one.
    pub cannot_run: Vec<(CannotRun, PredictionError)>,
}

/// For planners that need every subgraph on every processor.
///
/// # Errors
/// [`StitchingError::Prediction`] with the first refusal.
pub fn none_refused(refusals: Vec<(CannotRun, PredictionError)>) -> Result<(), StitchingError> {
    let Some((refusal, source)) = refusals.into_iter().next() else { return Ok(()) };
    let CannotRun { task, variant, processor, .. } = refusal;
    let what = format!("task `{task}`, variant `{variant}` on `{processor}`");
    Err(StitchingError::Prediction { what, source })
}

/// Whether an engine refuses a model, for its precision or an operator.
fn is_refusal(error: &PredictionError) -> bool {
    use LoweringError::{Inexpressible, Precision};
    matches!(error, PredictionError::Lowering(Precision(_) | Inexpressible { .. }))
}

/// Forecasts the subgraphs of a task: latencies, and times of loading where these of the bundle's
/// engine are known. A subgraph that an engine cannot run has no latency on that processor.
///
/// # Errors
/// [`StitchingError`] naming task, variant and processor of the first subgraph that no bundle
/// forecasts, or that runs on none of the processors.
pub fn subgraphs(
    variants: &Variants,
    processors: &[Processor],
    progress: &mut dyn FnMut(StitchProgress<'_>),
) -> Result<Forecasts, StitchingError> {
    let about = |variant: usize, processor: &Processor| {
        format!(
            "task `{}`, variant `{}` on `{}`",
            variants.task, variants.names[variant], processor.name
        )
    };
    let mut cannot_run = Vec::new();
    let mut estimated = vec![vec![Estimated::default(); processors.len()]; variants.names.len()];
    let positions = variants.subgraphs.len();
    let mut one = |variant: usize, graph: &Graph, position: usize| -> Result<_, StitchingError> {
        let mut refusals = Vec::new();
        let mut latency_ns = Vec::with_capacity(processors.len());
        let mut load_ns = Vec::with_capacity(processors.len());
        for (processor, estimated) in processors.iter().zip(&mut estimated[variant]) {
            let bundle = processor.bundle(variants.quantized[variant]).ok_or_else(|| {
                StitchingError::Int8Alone {
                    what: about(variant, processor),
                    processor: processor.name.clone(),
                }
            })?;
            let prediction = match bundle.predict_known(graph) {
                Ok((_, prediction)) => prediction,
                Err(source) if is_refusal(&source) => {
                    refusals.push((processor, source));
                    latency_ns.push(None);
                    load_ns.push(None);
                    continue;
                }
                Err(source) => {
                    let what = about(variant, processor);
                    return Err(StitchingError::Prediction { what, source });
                }
            };
            estimated.add(Estimated::of(&prediction));
            latency_ns.push(Some(Interval::from(&prediction.latency)));
            let engine = &bundle.environment().framework;
            load_ns.push(LoadingModel::shipped().forecast_ns(engine, ModelSize::of(graph)));
        }
        let runs = latency_ns.iter().any(Option::is_some);
        for (processor, source) in refusals {
            if !runs {
                let what = about(variant, processor);
                return Err(StitchingError::Prediction { what, source });
            }
            let refusal = CannotRun {
                task: variants.task.clone(),
                variant: variants.names[variant].clone(),
                position: position + 1,
                processor: processor.name.clone(),
                reason: source.to_string(),
            };
            cannot_run.push((refusal, source));
        }
        Ok(subgraph(graph, position + 1 == positions, latency_ns, load_ns))
    };
    let mut rows = Vec::with_capacity(positions);
    for (position, row) in variants.subgraphs.iter().enumerate() {
        let row = row.iter().enumerate().map(|(variant, graph)| one(variant, graph, position));
        rows.push(row.collect::<Result<Vec<_>, _>>()?);
    }
    for (variant, of_processors) in estimated.iter().enumerate() {
        for (processor, &estimated) in processors.iter().zip(of_processors) {
            progress(StitchProgress::Forecast { what: &about(variant, processor), estimated });
        }
    }
    Ok(Forecasts { subgraphs: rows, cannot_run })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;
    use vitempo_graph::{GraphBuilder, quantize};

    #[test]
    fn a_subgraph_that_an_engine_refuses_runs_on_another_processor() {
        let mut b = GraphBuilder::new("dense");
        let x = b.input("x", TensorSpec::f32([1, 8]));
        let y = b.linear("linear", x, 4, true).unwrap();
        let dense = b.finish(vec![y]).unwrap();
        let integer = quantize::integer(&dense, &quantize::Options::default()).unwrap();
        let variants = Variants {
            task: "t".to_owned(),
            names: ["dense", "integer"].map(str::to_owned).to_vec(),
            quantized: vec![false, true],
            cuts: Vec::new(),
            subgraphs: vec![vec![dense, integer]],
        };
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        let of = |names: &[&str]| {
            let open = |name: &&str| {
                let path = bundles.join(format!("epyc-{name}-f32-1t.vtb"));
                ((*name).to_owned(), Bundle::open(path).unwrap())
            };
            let processors = Processor::of(names.iter().map(open)).unwrap();
            subgraphs(&variants, &processors, &mut |_| ())
        };
        let found = of(&["litert", "rten"]).unwrap();
        let runs = |variant: usize| {
            let times = found.subgraphs[0][variant].latency_ns.iter();
            times.map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!((runs(0), runs(1)), (vec![true, true], vec![false, true]));
        assert_eq!(found.cannot_run.len(), 1);
        let refusal = found.cannot_run[0].0.to_string();
        let expected = "t: `integer` at position 1 cannot run on `litert`: model `";
        assert!(refusal.starts_with(expected), "{refusal}");
        let nowhere = of(&["litert"]).map_err(|e| e.to_string()).unwrap_err();
        assert!(nowhere.contains("task `t`, variant `integer` on `litert`: "), "{nowhere}");
    }
}

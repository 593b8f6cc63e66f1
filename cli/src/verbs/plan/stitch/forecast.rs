//! What every subgraph costs on every processor: forecasts by bundles, one or more per processor.
//!
//! A bundle holds for one precision: quantised variants take the processor's int8 bundle where it
//! has one, others one that is not int8. Memory is that of a subgraph's constants.

use super::super::super::{
    bundle,
    error::{CliError, CliResult},
    zoo::{variants::Variants, weights},
};
use std::path::PathBuf;
use vitempo::Bundle;
use vitempo::graph::{Environment, Graph, LatencyModel, Precision, TensorSpec};
use vitempo::planners::{cost::Interval, stitch::Subgraph};

/// A processor and what forecasts its latencies.
pub struct Processor {
    pub name: String,
    bundles: Vec<Bundle>,
}

impl Processor {
    /// Opens bundles; those of one name belong to one processor.
    pub fn open(named: &[(String, PathBuf)]) -> CliResult<Vec<Self>> {
        let mut processors: Vec<Self> = Vec::new();
        for (name, path) in named {
            let opened = bundle::open(path)?;
            match processors.iter_mut().find(|processor| processor.name == *name) {
                Some(processor) => {
                    let precision = opened.environment().precision;
                    if processor.bundles.iter().any(|b| b.environment().precision == precision) {
                        return Err(CliError::user(format!(
                            "processor `{name}` has two bundles for {precision}"
                        ))
                        .hint("give another processor another name"));
                    }
                    processor.bundles.push(opened);
                }
                None => processors.push(Self { name: name.clone(), bundles: vec![opened] }),
            }
        }
        Ok(processors)
    }

    /// Where its first bundle was measured.
    pub fn environment(&self) -> Option<&Environment> {
        self.bundles.first().map(LatencyModel::environment)
    }

    fn bundle(&self, quantized: bool) -> CliResult<&Bundle> {
        let int8 = |bundle: &&Bundle| bundle.environment().precision == Precision::I8;
        let found = if quantized {
            self.bundles.iter().find(int8).or(self.bundles.first())
        } else {
            self.bundles.iter().find(|bundle| !int8(bundle))
        };
        let reason = || {
            format!(
                "processor `{}` has predictors for int8 alone, which hold for no model in floats",
                self.name
            )
        };
        found.ok_or_else(|| {
            CliError::user(reason())
                .hint(format!("add --processor {}=BUNDLE with one for f32", self.name))
        })
    }
}

/// What a subgraph takes to be kept in memory, and what it hands to the next; bytes. The last one
/// hands on nothing.
pub fn sizes(graph: &Graph, last: bool) -> (u64, u64) {
    let memory = weights(graph).map(|(tensor, _)| tensor.size_bytes()).fold(0, u64::saturating_add);
    let handed = graph
        .outputs()
        .iter()
        .filter_map(|&id| graph.value(id).tensor.as_ref())
        .map(TensorSpec::size_bytes);
    (memory, if last { 0 } else { handed.fold(0, u64::saturating_add) })
}

/// By position, then variant.
pub fn subgraphs(variants: &Variants, processors: &[Processor]) -> CliResult<Vec<Vec<Subgraph>>> {
    let about = |variant: usize, processor: &Processor| {
        format!(
            "task `{}`, variant `{}` on `{}`",
            variants.task, variants.names[variant], processor.name
        )
    };
    let mut estimated = vec![vec![(0, 0); processors.len()]; variants.names.len()];
    let mut one = |variant: usize, graph: &Graph, last: bool| -> CliResult<Subgraph> {
        let mut latency_ns = Vec::with_capacity(processors.len());
        for (processor, (fallbacks, kernels)) in processors.iter().zip(&mut estimated[variant]) {
            let quantized = variants.quantized[variant];
            let prediction = processor
                .bundle(quantized)
                .and_then(|bundle| Ok(bundle.predict(graph)?))
                .map_err(|e| e.about(about(variant, processor)))?;
            *fallbacks += prediction.fallbacks().count();
            *kernels += prediction.operators.len();
            latency_ns.push(Some(Interval::from(&prediction.latency)));
        }
        let (memory_bytes, boundary_bytes) = sizes(graph, last);
        Ok(Subgraph { latency_ns, memory_bytes, boundary_bytes })
    };
    let positions = variants.subgraphs.len();
    let mut rows = Vec::with_capacity(positions);
    for (position, row) in variants.subgraphs.iter().enumerate() {
        rows.push(
            row.iter()
                .enumerate()
                .map(|(variant, graph)| one(variant, graph, position + 1 == positions))
                .collect::<CliResult<Vec<_>>>()?,
        );
    }
    for (variant, of_processors) in estimated.iter().enumerate() {
        for (processor, &(fallbacks, kernels)) in processors.iter().zip(of_processors) {
            bundle::warn_of_estimates(&about(variant, processor), fallbacks, kernels);
        }
    }
    Ok(rows)
}

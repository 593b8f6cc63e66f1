//! [`stitch`]: assembles stitched variants as models, runs them, and compares them with their
//! subgraphs and with the first variant.

use super::{
    Progress, TasksFile, Variants, ZooError,
    codes::Codes,
    engine::{Engine, Results, similarity},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeSet, path::Path};
use vitempo_graph::{
    Graph,
    onnx::{self, WriteOptions},
};
use vitempo_profiler::conformance;

/// The results of one stitched variant.
#[derive(Clone, Copy, Debug)]
pub struct StitchedRun {
    /// Largest difference from its subgraphs run one after the other, as a share of the largest
    /// value.
    pub apart: f64,
    /// Similarity to the first variant's results.
    pub similarity: f64,
}

/// A stitched variant, with its result.
#[derive(Clone, Debug)]
pub struct Stitched {
    /// The variant of each position.
    pub variants: Vec<usize>,
    /// Its results, or why it does not run.
    pub run: Result<StitchedRun, String>,
}

/// Assembles stitched variants and runs them; `out` is the folder for them. `watch` returns whether
/// to continue.
///
/// # Errors
/// [`ZooError`] where the first variant does not run, or a model cannot be written. A stitched
/// variant that does not run is returned with the reason.
pub fn stitch(
    variants: &Variants,
    engine: &Engine,
    chosen: Vec<Vec<usize>>,
    out: Option<&Path>,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<Stitched>, ZooError> {
    let bench = Bench::new(variants, engine)?;
    let total = chosen.len();
    let mut stitched = Vec::with_capacity(total);
    for (done, choice) in chosen.into_iter().enumerate() {
        Progress { done, total }.check(watch)?;
        let whole = variants.stitched(&choice);
        if let (Some(out), Ok(graph)) = (out, &whole) {
            onnx::write_file(out, graph, &WriteOptions::seeded(0))?;
        }
        let run = match whole {
            Ok(graph) => bench.try_out(&choice, &graph).map_err(|e| e.to_string()),
            Err(misfit) => Err(misfit.to_string()),
        };
        stitched.push(Stitched { variants: choice, run });
    }
    Ok(stitched)
}

/// Indices of the variants named, one per position.
///
/// # Errors
/// [`ZooError::Positions`] and [`ZooError::UnknownVariant`].
pub fn named(
    file: &TasksFile,
    variants: &Variants,
    names: &[String],
) -> Result<Vec<usize>, ZooError> {
    let (path, task) = (|| file.path.clone(), || variants.task.clone());
    let positions = variants.subgraphs.len();
    if names.len() != positions {
        let named = names.len();
        return Err(ZooError::Positions { path: path(), task: task(), named, positions });
    }
    let index = |name: &String| {
        let found = variants.names.iter().position(|known| known == name);
        found.ok_or_else(|| ZooError::UnknownVariant {
            path: path(),
            task: task(),
            name: name.clone(),
            known: variants.names.clone(),
        })
    };
    names.iter().map(index).collect()
}

/// Distinct stitched variants: all in order if there are no more than `count`, else drawn at
/// random.
///
/// # Errors
/// [`ZooError::TooMany`] where they cannot be listed.
pub fn sampled(variants: &Variants, count: usize, seed: u64) -> Result<Vec<Vec<usize>>, ZooError> {
    let codes = Codes::of(variants);
    codes.check_few()?;
    let decode = |code: usize| -> Vec<usize> { codes.digits(code).collect() };
    if count >= codes.all() {
        return Ok((0..codes.all()).map(decode).collect());
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut drawn = BTreeSet::new();
    while drawn.len() < count {
        // This width keeps the draws of every seed stable.
        drawn.insert(random.random_range(0..codes.all() as u128) as usize);
    }
    Ok(drawn.into_iter().map(decode).collect())
}

/// Similarity of results to the first variant's, as CSV: one row per stitched variant that ran, in
/// percent.
///
/// # Errors
/// As [`Variants::accuracies`].
pub fn similarities(variants: &Variants, stitched: &[Stitched]) -> Result<String, ZooError> {
    variants.accuracies(stitched.iter().filter_map(|of| {
        let run = of.run.as_ref().ok()?;
        Some((&of.variants[..], format!("{:.4}", 100.0 * run.similarity)))
    }))
}

/// An engine, and the results of the first variant on it.
struct Bench<'a> {
    variants: &'a Variants,
    engine: &'a Engine,
    first: Results,
}

impl<'a> Bench<'a> {
    fn new(variants: &'a Variants, engine: &'a Engine) -> Result<Self, ZooError> {
        let first = variants.stitched(&vec![0; variants.subgraphs.len()])?;
        let about = |e: ZooError| e.about(format!("task `{}`", variants.task));
        let first = engine.results(&first).map_err(about)?;
        Ok(Self { variants, engine, first })
    }

    fn try_out(&self, choice: &[usize], graph: &Graph) -> Result<StitchedRun, ZooError> {
        let found = self.engine.results(graph)?;
        let mut handed: Option<Results> = None;
        for (row, &variant) in self.variants.subgraphs.iter().zip(choice) {
            let Some(subgraph) = row.get(variant) else { continue };
            handed = Some(self.engine.results_from(subgraph, handed.as_ref())?);
        }
        let mut apart = 0.0f64;
        for (whole, parts) in found.iter().zip(handed.iter().flatten()) {
            apart = apart.max(conformance::difference(whole, parts).map_err(ZooError::Internal)?.0);
        }
        Ok(StitchedRun { apart, similarity: similarity(&self.first, &found) })
    }
}

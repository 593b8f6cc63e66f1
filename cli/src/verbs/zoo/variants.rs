//! The variants of a task as graphs, cut into subgraphs.

use super::{
    super::{
        error::{CliError, CliResult},
        output::Table,
    },
    tasks::{TaskEntry, TasksFile, VariantEntry},
};
use vitempo::graph::{
    Graph,
    onnx::{self, ReadOptions},
    quantize,
};
use vitempo::planners::stitch::{AssemblyError, CutError, assemble, cut, fit};

/// Variants of one task, cut alike.
pub struct Variants {
    /// The task's name.
    pub task: String,
    pub names: Vec<String>,
    /// By variant, whether it computes on integers.
    pub quantized: Vec<bool>,
    /// Tensors between positions.
    pub cuts: Vec<String>,
    /// By position, then variant.
    pub subgraphs: Vec<Vec<Graph>>,
}

/// What is read of a variant's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Their shapes: enough for forecasts.
    Shapes,
    /// Their values, where the file has them; seeded ones follow from their names.
    Values,
}

impl Variants {
    /// Reads and cuts the variants of a task.
    pub fn read(
        file: &TasksFile,
        entry: &TaskEntry,
        options: &ReadOptions,
        weights: Weights,
    ) -> CliResult<Self> {
        let read = |variant: &VariantEntry, weights: Weights| {
            let about = || {
                format!(
                    "{}: task `{}`, variant `{}`",
                    file.path.display(),
                    entry.name,
                    variant.name
                )
            };
            read(file, variant, options, weights).map_err(|e| e.about(about()))
        };
        let wholes = entry
            .variants
            .iter()
            .map(|variant| read(variant, Weights::Shapes))
            .collect::<CliResult<Vec<Graph>>>()?;
        let refused = |e: &CutError| refused(file, &entry.name, e);
        let cuts = match &entry.cuts {
            Some(cuts) => cuts.clone(),
            None => cut::shared(&wholes.iter().collect::<Vec<_>>(), file.positions)
                .map_err(|e| refused(&e))?,
        };
        let mut subgraphs: Vec<Vec<Graph>> =
            (0..=cuts.len()).map(|_| Vec::with_capacity(wholes.len())).collect();
        let mut quantized = Vec::with_capacity(wholes.len());
        for (variant, whole) in entry.variants.iter().zip(wholes) {
            quantized.push(quantize::is_quantized(&whole));
            let whole = if weights == Weights::Shapes { whole } else { read(variant, weights)? };
            for (row, subgraph) in
                subgraphs.iter_mut().zip(cut::subgraphs(&whole, &cuts).map_err(|e| refused(&e))?)
            {
                row.push(subgraph);
            }
        }
        let names = entry.variants.iter().map(|variant| variant.name.clone()).collect();
        Ok(Self { task: entry.name.clone(), names, quantized, cuts, subgraphs })
    }

    /// The stitched variant that takes each position from the variant of that index.
    pub fn stitched(&self, variants: &[usize]) -> Result<Graph, AssemblyError> {
        let rows = self.subgraphs.iter().zip(variants);
        let parts: Vec<(&str, &Graph)> = rows
            .filter_map(|(row, &variant)| {
                self.names.get(variant).map(String::as_str).zip(row.get(variant))
            })
            .collect();
        assemble(&format!("{}.{}", self.task, self.describe(variants, "-")), &parts)
    }

    /// The variant of each position by name.
    pub fn named(&self, variants: &[usize]) -> Vec<&str> {
        variants
            .iter()
            .map(|&variant| self.names.get(variant).map_or("?", String::as_str))
            .collect()
    }

    /// `dense|int8|dense`.
    pub fn describe(&self, variants: &[usize], between: &str) -> String {
        self.named(variants).join(between)
    }

    /// A row per stitched variant: the variant of each position, then cells of its own under
    /// `headings`, the first `left` of them text.
    pub fn table<'a, C: IntoIterator<Item = String>>(
        &self,
        headings: &[&str],
        left: usize,
        rows: impl Iterator<Item = (&'a [usize], C)>,
    ) -> Table {
        let positions = self.subgraphs.len();
        let of_positions = (1..=positions).map(|position| format!("s{position}"));
        let headings: Vec<String> =
            of_positions.chain(headings.iter().map(|heading| (*heading).to_owned())).collect();
        let mut table = Table::new(&headings, positions + left);
        for (variants, cells) in rows {
            table.row(self.named(variants).into_iter().map(str::to_owned).chain(cells));
        }
        table
    }

    /// Whether any subgraph fits behind any at the position before.
    pub fn check_neighbours(&self) -> Result<(), AssemblyError> {
        for (index, (left, right)) in
            self.subgraphs.iter().zip(self.subgraphs.iter().skip(1)).enumerate()
        {
            for (before, name) in left.iter().zip(&self.names) {
                right.iter().zip(&self.names).try_for_each(|(behind, other)| {
                    fit(index + 2, (name, before), (other, behind))
                })?;
            }
        }
        Ok(())
    }
}

fn refused(file: &TasksFile, task: &str, error: &CutError) -> CliError {
    let refused = file.refuse(&format!("task `{task}`"), error);
    match error {
        CutError::TooFew { .. } => refused.hint(
            "make variants that agree between blocks with \
            `vitempo zoo make`, or cut into fewer subgraphs (positions)",
        ),
        _ => refused.hint(
            "cuts = [...] names tensors that every variant has, and through which \
            alone everything goes",
        ),
    }
}

/// One variant, named as it is called in the file.
fn read(
    file: &TasksFile,
    variant: &VariantEntry,
    options: &ReadOptions,
    weights: Weights,
) -> CliResult<Graph> {
    let path = file.resolve(&variant.model);
    if weights == Weights::Shapes || !onnx::weights_present(&path)? {
        return Ok(onnx::read_file(&path, options)?.with_name(&variant.name));
    }
    Ok(onnx::read_weights(&variant.name, &onnx::materialize(&path, 0)?, options)?)
}

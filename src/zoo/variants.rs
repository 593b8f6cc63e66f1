//! The variants of a task as graphs, cut into subgraphs.

use super::{
    ZooError,
    tasks::{TaskEntry, TasksFile, VariantEntry},
};
use vitempo_graph::{
    Graph,
    onnx::{self, ReadOptions},
    quantize,
};
use vitempo_planners::stitch::{AssemblyError, CutError, assemble, cut, fit};

/// Variants of one task, with the same cuts.
#[derive(Clone, Debug)]
pub struct Variants {
    /// The task's name.
    pub task: String,
    /// Names of the variants.
    pub names: Vec<String>,
    /// By variant, whether it computes on integers.
    pub quantized: Vec<bool>,
    /// Tensors between positions.
    pub cuts: Vec<String>,
    /// By position, then variant.
    pub subgraphs: Vec<Vec<Graph>>,
}

/// The part of a variant's weights that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Their shapes: enough for forecasts.
    Shapes,
    /// Their values, where the file has them; seeded ones follow from their names.
    Values,
}

impl Variants {
    /// Reads and cuts the variants of a task.
    ///
    /// # Errors
    /// [`ZooError`] names the file, the task and the variant.
    pub fn read(
        file: &TasksFile,
        entry: &TaskEntry,
        options: &ReadOptions,
        weights: Weights,
    ) -> Result<Self, ZooError> {
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
            .collect::<Result<Vec<Graph>, ZooError>>()?;
        let refused = |source: CutError| ZooError::TaskCut {
            path: file.path.clone(),
            task: entry.name.clone(),
            source: Box::new(source),
        };
        let cuts = match &entry.cuts {
            Some(cuts) => cuts.clone(),
            None => {
                cut::shared(&wholes.iter().collect::<Vec<_>>(), file.positions).map_err(refused)?
            }
        };
        let mut subgraphs: Vec<Vec<Graph>> =
            (0..=cuts.len()).map(|_| Vec::with_capacity(wholes.len())).collect();
        let mut quantized = Vec::with_capacity(wholes.len());
        for (variant, whole) in entry.variants.iter().zip(wholes) {
            quantized.push(quantize::is_quantized(&whole));
            let whole = if weights == Weights::Shapes { whole } else { read(variant, weights)? };
            for (row, subgraph) in
                subgraphs.iter_mut().zip(cut::subgraphs(&whole, &cuts).map_err(refused)?)
            {
                row.push(subgraph);
            }
        }
        let names = entry.variants.iter().map(|variant| variant.name.clone()).collect();
        Ok(Self { task: entry.name.clone(), names, quantized, cuts, subgraphs })
    }

    /// The stitched variant that takes each position from the variant of that index.
    ///
    /// # Errors
    /// [`AssemblyError`] where neighbours do not fit each other.
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
    #[must_use]
    pub fn named(&self, variants: &[usize]) -> Vec<&str> {
        variants
            .iter()
            .map(|&variant| self.names.get(variant).map_or("?", String::as_str))
            .collect()
    }

    /// The names as text: `dense|int8|dense`.
    #[must_use]
    pub fn describe(&self, variants: &[usize], between: &str) -> String {
        self.named(variants).join(between)
    }

    /// Accuracies as CSV: a row per stitched variant, with the variant of each position, then its
    /// accuracy in percent as text.
    ///
    /// # Errors
    /// [`ZooError::Internal`] where a row cannot be written.
    pub fn accuracies<'a>(
        &self,
        rows: impl Iterator<Item = (&'a [usize], String)>,
    ) -> Result<String, ZooError> {
        let positions = (1..=self.subgraphs.len()).map(|position| format!("s{position}"));
        let mut writer = csv::Writer::from_writer(Vec::new());
        let write = || -> csv::Result<()> {
            writer.write_record(positions.chain(["accuracy".to_owned()]))?;
            for (variants, percent) in rows {
                writer.write_record(self.named(variants).into_iter().chain([percent.as_str()]))?;
            }
            Ok(())
        };
        let internal = |e: &dyn std::error::Error| ZooError::Internal(e.to_string());
        write().map_err(|e| internal(&e))?;
        let bytes = writer.into_inner().map_err(|e| internal(&e))?;
        String::from_utf8(bytes).map_err(|e| internal(&e))
    }

    /// Checks that every subgraph fits behind every subgraph at the previous position.
    ///
    /// # Errors
    /// [`AssemblyError`] for the first that does not.
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

/// Reads one variant, and gives its graph the name in the file.
fn read(
    file: &TasksFile,
    variant: &VariantEntry,
    options: &ReadOptions,
    weights: Weights,
) -> Result<Graph, ZooError> {
    let path = file.resolve(&variant.model);
    if weights == Weights::Shapes || !onnx::weights_present(&path)? {
        return Ok(onnx::read_file(&path, options)?.with_name(&variant.name));
    }
    Ok(onnx::read_weights(&variant.name, &onnx::materialize(&path, 0)?, options)?)
}

//! [`make`]: variants of base models without training, and the tasks file with their cuts.

use super::{
    Recipe, TasksFile, Variants, ZooError,
    engine::{Engine, Results, similarity},
    tasks::{TaskEntry, VariantEntry},
    variants::Weights,
    weights::{parameters, weights, zeros},
};
use crate::models::Model;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph, Work,
    onnx::{self, ReadOptions},
};
use vitempo_planners::stitch::cut;

/// Name of the tasks file in the folder of variants.
pub const TASKS: &str = "tasks.toml";

/// Which variants are made, and how.
#[derive(Clone, Debug)]
pub struct MakeOptions<'a> {
    /// Variants of every model.
    pub recipes: &'a [Recipe],
    /// Subgraphs per variant, where `cuts` is empty.
    pub positions: usize,
    /// Tensors at which the only model is cut; if empty, those that divide the work most evenly.
    pub cuts: &'a [String],
    /// Engine on which results are compared with those of the base model.
    pub compare: Option<&'a str>,
    /// Number of seeded inputs for the comparison.
    pub inputs: usize,
    /// Seed of weights that a model lacks.
    pub seed: u64,
    /// The options for reading base models.
    pub read: &'a ReadOptions,
    /// Folder of the variants and of their tasks file.
    pub out: &'a Path,
}

/// One variant that was made.
#[derive(Clone, Debug)]
pub struct MadeVariant {
    /// Name of the base model.
    pub model: String,
    /// Name of the variant.
    pub variant: String,
    /// Name of its file.
    pub file: String,
    /// FLOPs of one inference.
    pub flops: u64,
    /// Weights and biases.
    pub params: u64,
    /// Weights that are not 0.
    pub nonzero: u64,
    /// Size of all weights.
    pub weights_bytes: u64,
    /// Similarity of its results to the base model's, a share.
    pub similarity: Option<f64>,
}

/// Variants that were made, and their tasks file.
#[derive(Clone, Debug)]
pub struct MadeZoo {
    /// By model, then variant.
    pub variants: Vec<MadeVariant>,
    /// A task per model.
    pub file: TasksFile,
}

/// Makes the variants of all models as files, and the tasks file. `comparing` is called with the
/// file of a variant and the engine before it runs there.
///
/// # Errors
/// [`ZooError`] names the model and the variant. No file is written then.
pub fn make(
    models: &[Model],
    options: &MakeOptions<'_>,
    comparing: &mut dyn FnMut(&str, &str),
) -> Result<MadeZoo, ZooError> {
    if models.len() > 1 && !options.cuts.is_empty() {
        return Err(ZooError::CutsOfSeveral(models.len()));
    }
    distinct("variant", options.recipes.iter().map(ToString::to_string))?;
    distinct("model", models.iter().map(|model| model.identity.name.clone()))?;
    let engine = options.compare.map(|name| Engine::find(name, options.inputs)).transpose()?;
    let unfinished = Unfinished::start(options.out)?;
    let folder = &unfinished.folder;
    let mut maker = Maker { options, folder, engine: engine.as_ref(), comparing };
    let mut zoo = MadeZoo { variants: Vec::new(), file: maker.tasks_file() };
    let so_far = TasksFile { path: folder.join(TASKS), ..zoo.file.clone() };
    for model in models {
        let about = |e: ZooError| e.about(model.path.display());
        let (made, task) = maker.variants(model).map_err(about)?;
        // Reads the variants with the options that a planner uses.
        let read = Variants::read(&so_far, &task, &ReadOptions::default(), Weights::Shapes)?;
        read.check_neighbours().map_err(|e| about(e.into()))?;
        zoo.file.tasks.push(task);
        zoo.variants.extend(made);
    }
    unfinished.finish(zoo.variants.iter().map(|made| made.file.as_str()))?;
    zoo.file.write()?;
    Ok(zoo)
}

/// A folder within that of the zoo, which has the variants until all are made.
struct Unfinished<'a> {
    out: &'a Path,
    /// Whether the folder of the zoo was not there before.
    is_new: bool,
    folder: PathBuf,
}

impl<'a> Unfinished<'a> {
    fn start(out: &'a Path) -> Result<Self, ZooError> {
        let folder = out.join(format!(".unfinished-{}", std::process::id()));
        let is_new = !out.exists();
        std::fs::create_dir_all(&folder).map_err(ZooError::io("make folder", &folder))?;
        Ok(Self { out, is_new, folder })
    }

    /// Moves the files to the zoo.
    fn finish<'b>(self, files: impl Iterator<Item = &'b str>) -> Result<(), ZooError> {
        for file in files {
            let to = self.out.join(file);
            std::fs::rename(self.folder.join(file), &to).map_err(ZooError::io("write", &to))?;
        }
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        if self.is_new {
            // Stays where it has files.
            let _ = std::fs::remove_dir(self.out);
        }
    }
}

/// Files of the same name would overwrite each other.
fn distinct(what: &'static str, names: impl Iterator<Item = String>) -> Result<(), ZooError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(ZooError::Twice { what, name });
        }
    }
    Ok(())
}

/// The state that all variants share.
struct Maker<'a> {
    options: &'a MakeOptions<'a>,
    /// Where variants are written.
    folder: &'a Path,
    engine: Option<&'a Engine>,
    comparing: &'a mut dyn FnMut(&str, &str),
}

impl Maker<'_> {
    /// A tasks file without tasks.
    fn tasks_file(&self) -> TasksFile {
        let MakeOptions { positions, cuts, inputs, out, .. } = *self.options;
        let similarity = |engine: &Engine| {
            format!(
                "similarity of results to the base model's ({}, {inputs} seeded inputs), %",
                engine.name()
            )
        };
        TasksFile {
            positions: if cuts.is_empty() { positions } else { cuts.len() + 1 },
            accuracy_is: self.engine.map(similarity),
            processors: Vec::new(),
            tasks: Vec::new(),
            path: out.join(TASKS),
        }
    }

    /// All variants of one model as files, and its entry in the tasks file.
    fn variants(&mut self, model: &Model) -> Result<(Vec<MadeVariant>, TaskEntry), ZooError> {
        let name = &model.identity.name;
        let options = self.options;
        let bytes = onnx::materialize(&model.path, options.seed)?;
        let base = onnx::read_weights(name, &bytes, options.read)?;
        let cuts = if options.cuts.is_empty() {
            cut::shared(&[&model.graph], options.positions)?
        } else {
            options.cuts.to_vec()
        };
        cut::subgraphs(&model.graph, &cuts)?;
        let expected = self.engine.map(|engine| engine.results(&base)).transpose()?;
        let made = options
            .recipes
            .iter()
            .map(|recipe| {
                let about = |e: ZooError| e.about(format!("variant `{recipe}`"));
                let variant = recipe.apply(&base, &cuts, options.seed).map_err(about)?;
                self.variant(name, &variant, expected.as_ref()).map_err(about)
            })
            .collect::<Result<Vec<MadeVariant>, ZooError>>()?;
        let task = entry(name, &made, cuts);
        Ok((made, task))
    }

    /// Writes one variant, and compares it.
    fn variant(
        &mut self,
        model: &str,
        graph: &Graph,
        expected: Option<&Results>,
    ) -> Result<MadeVariant, ZooError> {
        let file = format!("{model}.{}.onnx", graph.name());
        let weight_fill = onnx::WriteOptions::seeded(self.options.seed);
        onnx::write_file(&self.folder.join(&file), graph, &weight_fill)?;
        let mut similar = None;
        if let Some((engine, expected)) = self.engine.zip(expected) {
            (self.comparing)(&file, engine.name());
            similar = Some(similarity(expected, &engine.results(graph)?));
        }
        let (work, params) = (Work::of_graph(graph), parameters(graph));
        let sizes = weights(graph).map(|(tensor, _)| tensor.size_bytes());
        Ok(MadeVariant {
            model: model.to_owned(),
            variant: graph.name().to_owned(),
            file,
            flops: work.flops,
            params,
            nonzero: params.saturating_sub(zeros(graph)),
            weights_bytes: sizes.fold(0, u64::saturating_add),
            similarity: similar,
        })
    }
}

fn entry(model: &str, made: &[MadeVariant], cuts: Vec<String>) -> TaskEntry {
    let variant = |made: &MadeVariant| VariantEntry {
        name: made.variant.clone(),
        model: PathBuf::from(&made.file),
        accuracy: made.similarity.map(|share| (share * 1e4).round() / 1e2),
    };
    TaskEntry {
        name: model.to_owned(),
        cuts: Some(cuts),
        stitched: None,
        slo: None,
        variants: made.iter().map(variant).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::models;
    use vitempo_graph::{GraphBuilder, OpKind, TensorSpec, quantize};

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn scales_of_integer_products_are_no_parameters() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([2, 8]));
        let factor = b.weight("factor", TensorSpec::f32([8]));
        let y = b.binary("scaled", OpKind::Mul, x, factor).unwrap();
        let y = b.linear("linear", y, 4, true).unwrap();
        let graph = b.finish(vec![y]).unwrap();
        let options = quantize::Options::default();
        let made = quantize::integer(&graph, &options).unwrap();
        let params = 8 + 8 * 4 + 4;
        assert_eq!(Work::of_graph(&graph).params, params);
        assert_eq!(Work::of_graph(&made).params, params + 4, "a scale for each channel");
        assert_eq!((parameters(&graph), parameters(&made)), (params, params));
    }

    #[test]
    fn a_variant_that_cannot_be_made_is_named_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let y = b.unary("one", OpKind::Relu, x).unwrap();
        let y = b.unary("two", OpKind::Tanh, y).unwrap();
        let graph = b.finish(vec![y]).unwrap();
        onnx::write_file(&path, &graph, &onnx::WriteOptions::seeded(1)).unwrap();
        let read = ReadOptions::default();
        let model = [models::read(&path, &read).unwrap()];
        let out = folder.path().join("zoo");
        let of = |recipes: &[&str]| {
            let recipes: Vec<Recipe> = recipes.iter().map(|r| r.parse().unwrap()).collect();
            let options = MakeOptions {
                recipes: &recipes,
                positions: 2,
                cuts: &[],
                compare: None,
                inputs: 1,
                seed: 0,
                read: &read,
                out: &out,
            };
            make(&model, &options, &mut |_, _| {}).map_err(|e| e.to_string())
        };
        // There are no channels to take out.
        let error = of(&["dense", "structured=50%"]).unwrap_err();
        assert!(error.contains("m.onnx: variant `structured-50`: "), "{error}");
        assert!(!out.exists());
        of(&["dense"]).unwrap();
        let made = BTreeSet::from(["m.dense.onnx", TASKS].map(str::to_owned));
        assert_eq!(names(&out), made);
        of(&["masked=50%", "structured=50%"]).unwrap_err();
        assert_eq!(names(&out), made);
    }
}

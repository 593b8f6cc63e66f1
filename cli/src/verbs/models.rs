//! `MODELS...`: files, folders and globs of ONNX, in a stable order; where a verb takes them,
//! TensorFlow Lite files.

use super::{
    error::{CliError, CliResult},
    progress, quantity,
};
pub use vitempo::models::Model;
use vitempo::{
    graph::onnx::{ReadNote, ReadOptions},
    graph::{ImageSize, Limits},
    models::{self, Models},
};

/// Arguments that name models.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelArgs {
    /// ONNX files, folders of them, or globs; weights may be absent
    #[arg(required = true, value_name = "MODELS")]
    pub models: Vec<String>,

    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,

    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Limits on the work on one model.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Most operators of one model, including those that lowering adds
    #[arg(long, value_name = "N", default_value_t = Limits::default().nodes)]
    pub max_model_nodes: u64,

    /// Most steps of reading one model: an element computed, an edge followed
    #[arg(long, value_name = "N", default_value_t = Limits::default().steps)]
    pub max_model_steps: u64,

    /// Most memory for constants that one model computes
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "1GiB")]
    pub max_model_bytes: u64,
}

impl Default for LimitArgs {
    fn default() -> Self {
        let Limits { bytes, steps, nodes } = Limits::default();
        Self { max_model_nodes: nodes, max_model_steps: steps, max_model_bytes: bytes }
    }
}

impl LimitArgs {
    pub fn limits(self) -> Limits {
        Limits {
            bytes: self.max_model_bytes,
            steps: self.max_model_steps,
            nodes: self.max_model_nodes,
        }
    }
}

/// Sizes of symbolic dimensions, for verbs with other arguments for models.
#[derive(clap::Args, Clone, Debug)]
pub struct Dimensions {
    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,
}

impl Dimensions {
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            dimensions: self.dimensions.iter().cloned().collect(),
            ..ReadOptions::default()
        }
    }
}

pub fn parse_dimension(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.rsplit_once('=').ok_or("expected NAME=SIZE, e.g. batch=1")?;
    match size.parse::<usize>() {
        Ok(size) if size > 0 => Ok((name.to_owned(), size)),
        _ => Err(format!("`{size}` is not a size; expected a whole number above zero")),
    }
}

impl ModelArgs {
    /// These models, within the usual limits.
    pub fn of(models: Vec<String>, dimensions: Vec<(String, usize)>) -> Self {
        Self { models, dimensions, limits: LimitArgs::default() }
    }

    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            dimensions: self.dimensions.iter().cloned().collect(),
            limits: self.limits.limits(),
            ..ReadOptions::default()
        }
    }

    /// Reads all of them; a model that cannot be read is an error.
    pub fn read(&self) -> CliResult<Vec<Model>> {
        all(self.read_each()?)
    }

    /// Reads those that can be read, which may be none, and returns the errors of the others.
    pub fn read_each(&self) -> CliResult<Models> {
        let models = self.read_each_of_any_form()?;
        match models.read.iter().find(|model| !model.is_onnx()) {
            None => Ok(models),
            Some(model) => Err(CliError::user(format!(
                "{}: TensorFlow Lite files are forecast and inspected alone",
                model.path.display()
            ))
            .hint(
                "`vitempo predict` and `vitempo inspect` read them; give the model as ONNX here",
            )),
        }
    }

    /// The same of ONNX and TensorFlow Lite files.
    pub fn read_each_of_any_form(&self) -> CliResult<Models> {
        for (i, (name, _)) in self.dimensions.iter().enumerate() {
            if self.dimensions[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(
                    CliError::user(format!("--dim gives `{name}` two values")).hint("give it one")
                );
            }
        }
        let models = models::read_all(&self.models, &self.read_options())?;
        models.read.iter().for_each(warn);
        Ok(models)
    }

    /// Reads those that can be read, warns of the others and returns their errors. If none can be
    /// read, it is an error.
    pub fn read_some(&self) -> CliResult<Models> {
        some(self.read_each()?)
    }
}

/// Arguments that name models, for verbs that take them at other sizes of images, too.
#[derive(clap::Args, Clone, Debug)]
pub struct SizedModelArgs {
    #[command(flatten)]
    pub named: ModelArgs,

    /// Take the models for images of this height and width instead of the file's, e.g. 406x658 or
    /// 384; given several times, at each of them
    #[arg(long = "size", value_name = "HxW")]
    pub sizes: Vec<ImageSize>,
}

impl SizedModelArgs {
    pub fn read_options(&self) -> ReadOptions {
        self.named.read_options()
    }

    /// Reads those ONNX and TensorFlow Lite files that can be read, which may be none, and returns
    /// the errors of the others.
    pub fn read_each(&self) -> CliResult<Models> {
        Ok(self.named.read_each_of_any_form()?.with_image_sizes(&self.sizes, &self.read_options()))
    }

    /// Reads all of them, ONNX or TensorFlow Lite; a model that cannot be read is an error.
    pub fn read(&self) -> CliResult<Vec<Model>> {
        all(self.read_each()?)
    }

    /// Reads all of them, ONNX alone; a model that cannot be read is an error.
    pub fn read_onnx(&self) -> CliResult<Vec<Model>> {
        all(self.named.read_each()?.with_image_sizes(&self.sizes, &self.read_options()))
    }

    /// Reads those ONNX files that can be read, warns of the others and returns their errors. If
    /// none can be read, it is an error.
    pub fn read_some_onnx(&self) -> CliResult<Models> {
        some(self.named.read_each()?.with_image_sizes(&self.sizes, &self.read_options()))
    }
}

/// How many models were asked for.
pub fn asked(models: &Models) -> usize {
    models.read.len() + models.unreadable.len()
}

/// What a verb ends with that went on without some of the models: an error where there are such.
pub fn none_left_out(count: usize, asked: usize) -> CliResult {
    match count {
        0 => Ok(()),
        count => Err(CliError::user(format!("{count} of {asked} models left out"))),
    }
}

/// All of them, or the error of the first that cannot be read.
fn all(mut models: Models) -> CliResult<Vec<Model>> {
    match models.unreadable.is_empty() {
        true => Ok(models.read),
        false => Err(models.unreadable.swap_remove(0).1.into()),
    }
}

/// Those that can be read, with a warning of the others; an error if there are none.
fn some(mut models: Models) -> CliResult<Models> {
    if models.read.is_empty() && !models.unreadable.is_empty() {
        return Err(models.unreadable.swap_remove(0).1.into());
    }
    for (path, error) in &models.unreadable {
        progress::say(format!("warning: left out {}: {error}", path.display()));
    }
    Ok(models)
}

/// Warns of differences between the graph and the file.
fn warn(model: &Model) {
    for note in &model.notes {
        let hint = match note {
            ReadNote::WeightsAsInputs { .. } => {
                "export the model with its weights (`torch.onnx.export(..., export_params=True)`) \
                so that the file distinguishes inputs from weights"
            }
            // Refused where no model has it.
            ReadNote::UnusedDimension { .. } => continue,
        };
        progress::say(format!("warning: {}: {note}\nhint: {hint}", model.path.display()));
    }
}

//! [`Labelled`]: images with their classes, in batches of the size a model takes.

use super::{ZooError, npy::Array, variants::Variants};
use std::path::Path;
use vitempo_profiler::OutputValues;

/// Images and their classes.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// Name of the model's input.
    name: String,
    shape: Vec<usize>,
    pixels: Vec<f32>,
    labels: Vec<i64>,
}

impl Labelled {
    /// Reads both files, and checks that the variants take such images and give one row of logits
    /// for each.
    ///
    /// # Errors
    /// [`ZooError`] names the file or the task.
    pub fn read(images: &Path, labels: &Path, variants: &Variants) -> Result<Self, ZooError> {
        let Input { name, shape, classes } = input(variants)?;
        let refuse = |path: &Path, reason: String| ZooError::file(path, reason);
        let array = Array::read(images)?;
        let pixels = array.floats().map_err(|reason| refuse(images, reason))?;
        let labels_read = Array::read(labels)?;
        let of_images = labels_read.integers().map_err(|reason| refuse(labels, reason))?;
        if array.shape.get(1..) != shape.get(1..)
            || array.shape.first().is_none_or(|&count| count == 0)
        {
            return Err(refuse(
                images,
                format!("its shape is {:?}; the model takes {shape:?}", array.shape),
            ));
        }
        if array.shape.first() != Some(&of_images.len()) {
            return Err(refuse(
                labels,
                format!(
                    "{} labels for {} images",
                    of_images.len(),
                    array.shape.first().unwrap_or(&0)
                ),
            ));
        }
        let image = pixels.len() / of_images.len();
        if let Some(at) = pixels.iter().position(|pixel| !pixel.is_finite()) {
            let (row, pixel) = (at / image, pixels[at]);
            return Err(refuse(images, format!("image {row} has the value {pixel}")));
        }
        let is_class = |label: &i64| usize::try_from(*label).is_ok_and(|label| label < classes);
        if let Some(row) = of_images.iter().position(|label| !is_class(label)) {
            let reason = format!(
                "image {row} has the class {}; the model has {classes}, counted from 0",
                of_images[row]
            );
            return Err(refuse(labels, reason));
        }
        Ok(Self { name, shape, pixels, labels: of_images })
    }

    /// Number of images.
    #[must_use]
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    fn batch_size(&self) -> usize {
        self.shape.first().copied().unwrap_or(1).max(1)
    }

    /// Number of batches.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.count().div_ceil(self.batch_size())
    }

    /// Images of a batch, and the labels there are; the last batch is filled up with the first
    /// images.
    #[must_use]
    pub fn batch(&self, index: usize) -> (OutputValues, &[i64]) {
        let (size, image) = (self.batch_size(), self.shape.iter().skip(1).product::<usize>());
        let values = self
            .pixels
            .iter()
            .cycle()
            .skip(index * size * image)
            .take(size * image)
            .copied()
            .collect();
        let labels = self.labels.chunks(size).nth(index).unwrap_or_default();
        (OutputValues { name: self.name.clone(), shape: self.shape.clone(), values }, labels)
    }
}

/// The only input, whose first dimension is the batch, and the number of classes of the only output.
struct Input {
    name: String,
    shape: Vec<usize>,
    classes: usize,
}

fn input(variants: &Variants) -> Result<Input, ZooError> {
    let refuse = |reason: String| ZooError::NotClassifying { task: variants.task.clone(), reason };
    let ends = variants
        .subgraphs
        .first()
        .and_then(|row| row.first())
        .zip(variants.subgraphs.last().and_then(|row| row.first()));
    let (first, last) = ends.ok_or_else(|| refuse("it has no variants".to_owned()))?;
    let (&[input], &[output]) = (first.inputs(), last.outputs()) else {
        return Err(refuse(format!(
            "{} inputs and {} results; accuracy needs one of each",
            first.inputs().len(),
            last.outputs().len()
        )));
    };
    let shape = |tensor: &Option<vitempo_graph::TensorSpec>| {
        tensor.as_ref().map(|t| t.shape.to_vec()).unwrap_or_default()
    };
    let (given, found) = (shape(&first.value(input).tensor), shape(&last.value(output).tensor));
    match found[..] {
        [rows, classes] if given.first() == Some(&rows) && classes > 0 => {
            Ok(Input { name: first.value(input).name.clone(), shape: given, classes })
        }
        _ => Err(refuse(format!(
            "its result is {found:?}; accuracy needs one row of logits for each image of {given:?}"
        ))),
    }
}

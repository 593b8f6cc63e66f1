//! [`DenseTask`]: decoders that predict a value for every pixel, behind the encoder of any
//! architecture. Together they are a multi-task model: one encoder, a decoder per task, and
//! postprocessing that makes a picture of each prediction.
//!
//! A decoder is a top-down pyramid of 3x3 convolutions, from the coarsest features to the finest,
//! with a 1x1 convolution of the features at each size. Where the encoder has one size only, the
//! pyramid doubles it twice.
//!
//! | task | prediction | picture |
//! |---|---|---|
//! | depth | 1 channel | black and white: clipped, three times |
//! | segmentation | [`CLASSES`] channels | arg-max, then a colour of each class |
//! | normals | 3 channels | their directions as colours |
//!
//! Nodes are named `decoders.TASK...` and `postprocessing.TASK...`; outputs are `TASK_out`.

use crate::SpaceError;
use crate::features::{Features, Layout};
use serde::{Deserialize, Serialize};
use vitempo_graph::{
    Attribute, Attributes, ConstantData, Graph, GraphBuilder, GraphError, OpKind, TensorSpec,
    ValueId,
};

/// Classes of a segmentation: those that are usual for NYU Depth V2.
pub const CLASSES: usize = 40;
/// Channels inside a decoder.
const WIDTH: usize = 64;
/// Sizes that a decoder adds to an encoder of one size.
const DOUBLINGS: usize = 2;

/// What a decoder predicts for every pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DenseTask {
    /// The distance from the camera.
    Depth,
    /// The class of what is seen.
    Segmentation,
    /// The direction of the surface.
    Normals,
}

impl DenseTask {
    /// All tasks.
    pub const ALL: [Self; 3] = [Self::Depth, Self::Segmentation, Self::Normals];

    /// Its name, as in names of nodes and outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Segmentation => "segmentation",
            Self::Normals => "normals",
        }
    }

    fn channels(self) -> usize {
        match self {
            Self::Depth => 1,
            Self::Segmentation => CLASSES,
            Self::Normals => 3,
        }
    }

    /// A picture of a prediction, with values from 0 to 255.
    fn picture(self, b: &mut GraphBuilder, x: ValueId) -> Result<ValueId, GraphError> {
        let (part, last) = (format!("postprocessing.{}", self.name()), self.name());
        match self {
            Self::Depth => {
                let grey = clipped(b, &format!("{part}.clip"), x, 0.0, 1.0)?;
                let bright = scaled(b, &format!("{part}.scale"), grey, 255.0)?;
                b.concat(last, &[bright; 3], 1)
            }
            Self::Segmentation => {
                let attributes = Attributes::new()
                    .with_int("axis", 1)
                    .with_int("keepdims", 0)
                    .with("op", Attribute::Text("ArgMax".to_owned()));
                let classes = b.op(&format!("{part}.arg_max"), OpKind::ArgMax, attributes, &[x])?;
                let shape = TensorSpec::f32([CLASSES, 3]);
                let colours = b.constant(format!("{part}.colours"), shape, colour_map());
                let attributes = Attributes::new().with_int("axis", 0);
                b.op(last, OpKind::Gather, attributes, &[colours, classes])
            }
            Self::Normals => {
                let clipped = clipped(b, &format!("{part}.clip"), x, -1.0, 1.0)?;
                let half = scaled(b, &format!("{part}.scale"), clipped, 127.5)?;
                let middle = b.scalar(&format!("{part}.middle"), half, 127.5)?;
                b.binary(last, OpKind::Add, half, middle)
            }
        }
    }
}

/// The text of a multi-task model: an architecture's, then `+` and the name of each task.
#[must_use]
pub(crate) fn encoding(architecture: &str, tasks: &[DenseTask]) -> String {
    tasks.iter().fold(architecture.to_owned(), |text, task| text + "+" + task.name())
}

/// A multi-task model behind the features of an encoder: the image first, then the features from
/// the finest to the coarsest.
pub(crate) fn finish(
    mut b: GraphBuilder,
    levels: &[Features],
    tasks: &[DenseTask],
) -> Result<Graph, SpaceError> {
    let repeated = tasks.iter().enumerate().find(|(i, task)| tasks[..*i].contains(task));
    if let Some((_, task)) = repeated {
        return Err(SpaceError::Decoders { reason: format!("`{}` is named twice", task.name()) });
    }
    let [image, features @ ..] = levels else {
        return Err(SpaceError::Decoders { reason: "the encoder has no features".to_owned() });
    };
    if tasks.is_empty() || features.is_empty() {
        return Err(SpaceError::Decoders { reason: "a model needs one at least".to_owned() });
    }
    let mut images = Vec::new();
    for (index, level) in features.iter().enumerate() {
        images.push(level.without_prefix(&mut b, &format!("features.{index}"))?);
    }
    let mut outputs = Vec::new();
    for &task in tasks {
        let prediction = decode(&mut b, task, *image, &images)?;
        outputs.push(task.picture(&mut b, prediction)?);
    }
    Ok(b.finish(outputs)?)
}

/// The prediction of one task, as large as the image.
fn decode(
    b: &mut GraphBuilder,
    task: DenseTask,
    image: Features,
    levels: &[Features],
) -> Result<ValueId, GraphError> {
    let name = format!("decoders.{}", task.name());
    let mut finer = levels.iter().rev();
    let Some(&coarsest) = finer.next() else { return Ok(image.x) };
    let mut x = smooth(b, &format!("{name}.coarsest"), coarsest)?;
    for (index, level) in finer.enumerate() {
        let name = format!("{name}.level{index}");
        let larger = resized(b, &format!("{name}.resize"), x, level.height, level.width)?;
        let own = b.conv(&format!("{name}.lateral"), level.x, WIDTH, 1, 1, 0, 1, true)?;
        let both = larger.with(b.binary(&format!("{name}.add"), OpKind::Add, larger.x, own)?);
        x = smooth(b, &name, both)?;
    }
    for index in 0..if levels.len() == 1 { DOUBLINGS } else { 0 } {
        let name = format!("{name}.doubling{index}");
        let larger = resized(b, &format!("{name}.resize"), x, 2 * x.height, 2 * x.width)?;
        x = smooth(b, &name, larger)?;
    }
    let head = b.conv(&format!("{name}.head"), x.x, task.channels(), 1, 1, 0, 1, true)?;
    let head = Features { channels: task.channels(), ..x.with(head) };
    Ok(resized(b, &format!("{name}.prediction"), head, image.height, image.width)?.x)
}

/// A 3x3 convolution and a ReLU.
fn smooth(b: &mut GraphBuilder, name: &str, x: Features) -> Result<Features, GraphError> {
    let y = b.conv(&format!("{name}.conv"), x.x, WIDTH, 3, 1, 1, 1, true)?;
    let y = b.unary(&format!("{name}.relu"), OpKind::Relu, y)?;
    Ok(Features { channels: WIDTH, ..x.with(y) })
}

/// Bilinear interpolation to another size.
fn resized(
    b: &mut GraphBuilder,
    name: &str,
    x: Features,
    height: usize,
    width: usize,
) -> Result<Features, GraphError> {
    if (x.height, x.width) == (height, width) {
        return Ok(x);
    }
    let y = b.resize(name, x.x, [height, width], "linear", "pytorch_half_pixel")?;
    Ok(Features { height, width, ..x.with(y) })
}

fn clipped(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    min: f32,
    max: f32,
) -> Result<ValueId, GraphError> {
    let bounds = Attributes::new()
        .with("min", Attribute::Float(min.into()))
        .with("max", Attribute::Float(max.into()));
    b.op(name, OpKind::Clip, bounds, &[x])
}

fn scaled(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    factor: f64,
) -> Result<ValueId, GraphError> {
    let factor = b.scalar(&format!("{name}.factor"), x, factor)?;
    b.binary(name, OpKind::Mul, x, factor)
}

/// Colours of the classes, `[CLASSES, 3]`: the bits of a class's number, as in the palette of
/// Pascal VOC.
fn colour_map() -> ConstantData {
    let channel = |class: usize, channel: usize| -> f32 {
        (0..3).map(|bit| ((class >> (3 * bit + channel)) & 1) << (7 - bit)).sum::<usize>() as f32
    };
    let colours = (0..CLASSES).flat_map(|class| (0..3).map(move |c| channel(class, c)));
    ConstantData::Floats(colours.map(f64::from).collect())
}

impl Features {
    /// Tokens of an image as an image, without class tokens.
    fn without_prefix(self, b: &mut GraphBuilder, name: &str) -> Result<Self, GraphError> {
        let Self { layout, prefix_tokens, .. } = self;
        if layout == Layout::Image || prefix_tokens == 0 {
            return self.into_image(b, name);
        }
        let patches = (1, prefix_tokens, self.tokens(), 1);
        let x = b.slice(&format!("{name}.patches"), self.x, &[patches])?;
        Self { x, prefix_tokens: 0, ..self }.into_image(b, name)
    }
}

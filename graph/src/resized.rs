//! [`resized`]: the same model for inputs of another size, e.g. a vision transformer exported for
//! 224 x 224 at 406 x 658.
//!
//! Exporters write an image's size into the file: into the targets of reshapes and resizes, the
//! ends of slices, and position embeddings. Every dimension is tracked through the graph as a
//! product of extents, each with its old and its new value and the side of the image that it comes
//! from, so that a reshape of 29 x 47 patches into 1363 tokens can be undone a hundred operators
//! later. Constants that are added to (or multiplied with) a tensor of the image's size have to be
//! interpolated by the program that runs the model; here they get the new shape and no values. A
//! dimension that cannot be tracked is an error.

mod attributes;
mod constants;
mod extent;

use crate::{
    Budget, ConstantData, Exceeded, Graph, GraphError, Limits, Node, OpKind, Operand, Shape,
    TensorSpec, Value, ValueId, ValueSource, shape, spending::Spending,
};
use extent::{Dimension, Extent, Known, SPENT, Side};
use foldhash::HashMap;
use std::{fmt, str::FromStr};

/// Why a model cannot have another size.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// As many shapes are needed as there are inputs.
    #[error("{model}: {given} shapes for {inputs} inputs")]
    Inputs {
        /// Name of the model.
        model: String,
        /// How many there are.
        given: usize,
        /// How many inputs the model has.
        inputs: usize,
    },
    /// An input cannot have this shape.
    #[error("{model}: input `{input}` is {old:?} and cannot become {new:?}")]
    Input {
        /// Name of the model.
        model: String,
        /// Name of the input.
        input: String,
        /// The shape it has.
        old: Vec<usize>,
        /// The requested shape.
        new: Vec<usize>,
    },
    /// No input has four dimensions.
    #[error("{model}: no input is an image: {inputs}")]
    NoImage {
        /// Name of the model.
        model: String,
        /// Its inputs with their shapes.
        inputs: String,
    },
    /// A node does not work at the new size.
    #[error("{model}: node `{node}` ({kind}) does not work at the new size: {reason}")]
    Node {
        /// Name of the model.
        model: String,
        /// Name of the node.
        node: String,
        /// Kind of the operator.
        kind: String,
        /// What is wrong.
        reason: String,
    },
    /// The model takes more than its budget.
    #[error("{model}{}: {source}", .node.as_ref().map_or(String::new(), |n| format!(": node `{n}`")))]
    Exceeded {
        /// Name of the model.
        model: String,
        /// The node where the budget ended; `None` before the first.
        node: Option<String>,
        /// What was exceeded.
        source: Exceeded,
    },
    /// The nodes make up no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl ResizeError {
    /// The node that is at fault, if there is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Node { node, .. } => Some(node),
            Self::Exceeded { node, .. } => node.as_deref(),
            _ => None,
        }
    }
}

/// Height and width of an image, pixels, of 1 to 65536 each; written `406x658`, or `384` where both
/// are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageSize {
    height: usize,
    width: usize,
}

/// Longest side of an image, pixels.
const LONGEST_SIDE: usize = 1 << 16;

/// No size of an image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a size of images; expected height and width in pixels, of 1 to {LONGEST_SIDE} \
    each, e.g. 406x658"
)]
pub struct ImageSizeError(String);

impl ImageSize {
    /// Rows and columns.
    ///
    /// # Errors
    /// [`ImageSizeError`] where a side is 0 or longer than 65536.
    pub fn new(height: usize, width: usize) -> Result<Self, ImageSizeError> {
        let size = Self { height, width };
        let sound = [height, width].iter().all(|side| (1..=LONGEST_SIDE).contains(side));
        if sound { Ok(size) } else { Err(ImageSizeError(size.to_string())) }
    }

    /// Pixels from top to bottom.
    #[must_use]
    pub const fn height(self) -> usize {
        self.height
    }

    /// Pixels from left to right.
    #[must_use]
    pub const fn width(self) -> usize {
        self.width
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.height, self.width)
    }
}

impl FromStr for ImageSize {
    type Err = ImageSizeError;

    fn from_str(text: &str) -> Result<Self, ImageSizeError> {
        let side = |side: &str| side.parse().map_err(|_| ImageSizeError(text.to_owned()));
        let (height, width) = text.split_once('x').unwrap_or((text, text));
        Self::new(side(height)?, side(width)?)
    }
}

/// A last dimension of at most so many elements, behind two of at least [`SHORTEST_SIDE`], is that
/// of an image's channels.
const MOST_CHANNELS: usize = 4;
/// See [`MOST_CHANNELS`].
const SHORTEST_SIDE: usize = 16;

/// Which dimensions are height and width, where a tensor may be an image: the last two, or those
/// before a few channels.
fn sides_of(shape: &[usize]) -> Option<[usize; 2]> {
    match *shape {
        [_, h, w, c] if c <= MOST_CHANNELS && h.min(w) >= SHORTEST_SIDE => Some([1, 2]),
        [_, _, _, _] => Some([2, 3]),
        _ => None,
    }
}

/// The size of a model's images: that of its first input of four dimensions; `None` where it has
/// none.
#[must_use]
pub fn image_size(graph: &Graph) -> Option<ImageSize> {
    let shapes = graph.inputs().iter().filter_map(|id| graph.value(*id).tensor.as_ref());
    let image = |tensor: &TensorSpec| {
        let [height, width] = sides_of(&tensor.shape)?;
        ImageSize::new(tensor.shape[height], tensor.shape[width]).ok()
    };
    shapes.filter_map(image).next()
}

/// The graph for images of this size, which its name has behind an `@`: every input of four
/// dimensions is an image, channels first or last.
///
/// # Errors
/// [`ResizeError`] naming the node that does not work at the new size; [`ResizeError::NoImage`]
/// where no input has four dimensions.
pub fn with_image_size(graph: &Graph, size: ImageSize) -> Result<Graph, ResizeError> {
    with_image_size_within(graph, size, &Budget::new(Limits::NONE))
}

/// [`with_image_size`] within a budget, from which the work is taken before it is done.
///
/// # Errors
/// As [`with_image_size`]; [`ResizeError::Exceeded`] names the node where the budget ended.
pub fn with_image_size_within(
    graph: &Graph,
    size: ImageSize,
    budget: &Budget,
) -> Result<Graph, ResizeError> {
    let inputs = graph.inputs().iter().map(|id| graph.value(*id));
    let shape = |value: &Value| value.tensor.as_ref().map_or(Vec::new(), |t| t.shape.to_vec());
    let mut shapes: Vec<Vec<usize>> = inputs.clone().map(shape).collect();
    let mut images = 0;
    for shape in &mut shapes {
        let Some([height, width]) = sides_of(shape) else { continue };
        (shape[height], shape[width]) = (size.height, size.width);
        images += 1;
    }
    if images == 0 {
        let described = inputs.zip(&shapes).map(|(value, s)| format!("`{}` is {s:?}", value.name));
        return Err(ResizeError::NoImage {
            model: graph.name().to_owned(),
            inputs: described.collect::<Vec<_>>().join(", "),
        });
    }
    let graph = resized_within(graph, &shapes, &[], budget)?;
    let name = format!("{}@{size}", graph.name());
    Ok(graph.with_name(name))
}

/// The graph with inputs of these shapes, in the order of [`Graph::inputs`]. `patches`: rows and
/// columns of patches before and after, where the inputs do not show them (tokens in one row).
///
/// # Errors
/// [`ResizeError`] naming the input or the node that does not work at the new size.
pub fn resized(
    graph: &Graph,
    shapes: &[Vec<usize>],
    patches: &[[(usize, usize); 2]],
) -> Result<Graph, ResizeError> {
    resized_within(graph, shapes, patches, &Budget::new(Limits::NONE))
}

fn resized_within(
    graph: &Graph,
    shapes: &[Vec<usize>],
    patches: &[[(usize, usize); 2]],
    budget: &Budget,
) -> Result<Graph, ResizeError> {
    let model = || graph.name().to_owned();
    if shapes.len() != graph.inputs().len() {
        return Err(ResizeError::Inputs {
            model: model(),
            given: shapes.len(),
            inputs: graph.inputs().len(),
        });
    }
    let spending = Spending::new(budget);
    let exceeded = |spending: &Spending, node: Option<&Node>| {
        let source = spending.exceeded()?;
        Some(ResizeError::Exceeded { model: model(), node: node.map(|n| n.name.clone()), source })
    };
    copies(graph, &spending);
    if let Some(error) = exceeded(&spending, None) {
        return Err(error);
    }
    let mut work = Work {
        graph,
        values: graph.values().to_vec(),
        dimensions: vec![None; graph.values().len()],
        known: Known::new(spending),
    };
    for &[rows, cols] in patches {
        work.known.sides(
            Extent::new(rows.0, rows.1, Some(Side::Height)),
            Extent::new(cols.0, cols.1, Some(Side::Width)),
        );
    }
    for (&id, shape) in graph.inputs().iter().zip(shapes) {
        work.input(id, shape)?;
    }
    let mut nodes = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let refuse = |reason| ResizeError::Node {
            model: model(),
            node: node.name.clone(),
            kind: node.op.kind.to_string(),
            reason,
        };
        let done = work.node(node);
        if let Some(error) = exceeded(work.known.spending(), Some(node)) {
            return Err(error);
        }
        nodes.push(done.map_err(refuse)?);
    }
    work.known.spending().settle();
    if let Some(error) = exceeded(work.known.spending(), graph.nodes().last()) {
        return Err(error);
    }
    Ok(Graph::new(
        graph.name(),
        work.values,
        nodes,
        graph.inputs().to_vec(),
        graph.outputs().to_vec(),
    )?
    .with_copies(graph.copies().iter().copied()))
}

/// Takes what a copy of the graph's values needs.
fn copies(graph: &Graph, spending: &Spending) {
    let numbers = |value: &Value| match &value.source {
        ValueSource::Constant(Some(ConstantData::Ints(v))) => v.len(),
        ValueSource::Constant(Some(ConstantData::Floats(v))) => v.len(),
        _ => 0,
    };
    let all: usize = graph.values().iter().map(numbers).fold(0, usize::saturating_add);
    if spending.steps((graph.values().len() + all) as u64) {
        spending.bytes((all as u64).saturating_mul(8));
    }
}

struct Work<'a> {
    graph: &'a Graph,
    values: Vec<Value>,
    /// Of what depends on an input; constants have none.
    dimensions: Vec<Option<Vec<Dimension>>>,
    known: Known,
}

impl Work<'_> {
    fn input(&mut self, id: ValueId, shape: &[usize]) -> Result<(), ResizeError> {
        let value = &mut self.values[id.0 as usize];
        let old = value.tensor.as_ref().map(|t| t.shape.clone()).unwrap_or_default();
        let tensor =
            value.tensor.as_mut().filter(|t| t.shape.len() == shape.len() && !shape.contains(&0));
        let Some(tensor) = tensor else {
            return Err(ResizeError::Input {
                model: self.graph.name().to_owned(),
                input: value.name.clone(),
                old: old.to_vec(),
                new: shape.to_vec(),
            });
        };
        tensor.shape = shape.into();
        let sides = sides_of(&old);
        let side = |axis: usize| {
            let [height, width] = sides?;
            let found = [(height, Side::Height), (width, Side::Width)];
            found.into_iter().find(|(at, _)| *at == axis).map(|(_, side)| side)
        };
        let dimensions: Vec<Dimension> = old
            .iter()
            .zip(shape)
            .enumerate()
            .map(|(axis, (&o, &n))| self.known.dimension(Extent::new(o, n, side(axis))))
            .collect();
        if let Some([height, width]) = sides {
            self.known.sides(dimensions[height].whole(), dimensions[width].whole());
        }
        self.dimensions[id.0 as usize] = Some(dimensions);
        Ok(())
    }

    /// Takes the work on a node: its edges, and each dimension of its outputs beside each factor of
    /// its inputs.
    fn spend(&self, node: &Node) -> Result<(), String> {
        let edges = node.inputs.len() + node.outputs.len();
        if !self.known.spending().node() {
            return Err(SPENT.to_owned());
        }
        self.known.spend(1 + edges, 0)?;
        let factors = |id: &ValueId| {
            let dimensions = self.dimensions[id.0 as usize].as_deref().unwrap_or_default();
            dimensions.iter().map(|d| d.0.len()).fold(0, usize::saturating_add)
        };
        let factors = node.inputs.iter().map(factors).fold(0, usize::saturating_add);
        let rank =
            |id: &ValueId| self.graph.value(*id).tensor.as_ref().map_or(0, |t| t.shape.len());
        let ranks = |ids: &[ValueId]| ids.iter().map(rank).fold(0, usize::saturating_add);
        let (read, written) = (ranks(&node.inputs), ranks(&node.outputs));
        self.known.spend(written.saturating_mul(1 + factors).saturating_add(read), factors)
    }

    fn node(&mut self, node: &Node) -> Result<Node, String> {
        self.spend(node)?;
        let inputs: Vec<Option<&[Dimension]>> =
            node.inputs.iter().map(|id| self.dimensions[id.0 as usize].as_deref()).collect();
        let known_all = node.inputs.iter().all(|id| self.values[id.0 as usize].tensor.is_some());
        if !known_all || matches!(node.op.kind, OpKind::Unsupported(_)) {
            return Err("vitempo cannot infer its shapes".to_owned());
        }
        let empty = |id: &&ValueId| {
            self.graph.value(**id).tensor.as_ref().is_some_and(|t| t.shape.contains(&0))
        };
        if let Some(&id) = node.inputs.iter().chain(&node.outputs).find(empty) {
            return Err(format!("`{}` has a dimension of 0", self.graph.value(id).name));
        }
        constants::check(self.graph, node, &inputs, &self.known)?;
        let mut attributes = node.op.attributes.clone();
        let adapted = attributes::adapt(&node.op, &mut attributes, &inputs, &self.known)?;
        self.fit_constants(node)?;
        let operands: Vec<Operand> =
            node.inputs.iter().filter_map(|id| self.operand(*id)).collect();
        let attributes = shape::canonical(&node.op.kind, attributes, &operands)?;
        let tensors = shape::infer(&node.op.kind, &attributes, &operands)?;
        if tensors.len() < node.outputs.len() {
            return Err(format!("{} outputs, {} are known", node.outputs.len(), tensors.len()));
        }
        for (index, (&id, tensor)) in node.outputs.iter().zip(tensors).enumerate() {
            let old =
                self.graph.value(id).tensor.as_ref().map(|t| t.shape.clone()).unwrap_or_default();
            if old.len() != tensor.shape.len() {
                return Err(format!(
                    "its output had {} dimensions and would have {}",
                    old.len(),
                    tensor.shape.len()
                ));
            }
            self.known.remember_shape(&old, &tensor.shape);
            let dimensions = match &adapted {
                Some(dimensions) if index == 0 => {
                    dimensions.iter().for_each(|d| self.known.remember(d));
                    dimensions.clone()
                }
                _ => self.followed(node, &old, &tensor.shape),
            };
            self.known
                .spend(0, dimensions.iter().map(|d| d.0.len()).fold(0, usize::saturating_add))?;
            self.dimensions[id.0 as usize] = Some(dimensions);
            self.values[id.0 as usize].tensor = Some(tensor);
        }
        Ok(Node {
            written: node.written,
            ..Node::new(
                node.name.clone(),
                node.op.kind.clone(),
                attributes,
                &self.values,
                node.inputs.clone(),
                node.outputs.clone(),
            )
        })
    }

    fn operand(&self, id: ValueId) -> Option<Operand> {
        let value = &self.values[id.0 as usize];
        Some(Operand {
            tensor: value.tensor.clone()?,
            constant: matches!(value.source, ValueSource::Constant(_)),
        })
    }

    /// Gives constants that are broadcast with something of the image's size the new extent:
    /// position embeddings, masks.
    fn fit_constants(&mut self, node: &Node) -> Result<(), String> {
        if !shape::is_broadcast(&node.op.kind) && node.op.kind != OpKind::PRelu {
            return Ok(());
        }
        let changed = self.changes(node);
        for &id in &node.inputs {
            let ValueSource::Constant(_) = self.values[id.0 as usize].source else { continue };
            let Some(tensor) = self.graph.value(id).tensor.clone() else { continue };
            let mut shape = tensor.shape.clone();
            let rank = shape.len();
            for (axis, extent) in shape.iter_mut().enumerate().filter(|(_, extent)| **extent > 1) {
                *extent = changed.get(&(rank - axis, *extent)).copied().unwrap_or(*extent);
            }
            self.reshape_constant(id, &tensor, &shape)?;
        }
        Ok(())
    }

    fn reshape_constant(
        &mut self,
        id: ValueId,
        old: &TensorSpec,
        shape: &Shape,
    ) -> Result<(), String> {
        let value = &mut self.values[id.0 as usize];
        let now = value.tensor.as_ref().map(|t| t.shape.clone()).unwrap_or_default();
        if now == *shape {
            return Ok(());
        }
        if now != old.shape {
            return Err(format!(
                "constant `{}` would need two sizes, {now:?} and {shape:?}",
                value.name
            ));
        }
        value.tensor = Some(TensorSpec { shape: shape.clone(), ..old.clone() });
        value.source = ValueSource::Constant(None);
        Ok(())
    }

    /// Extents of computed inputs that changed: the new one of the first input, by the axis counted
    /// from the end and by the old one.
    fn changes(&self, node: &Node) -> HashMap<(usize, usize), usize> {
        let mut changes = HashMap::default();
        let computed = node.inputs.iter().filter(|id| self.dimensions[id.0 as usize].is_some());
        for &id in computed {
            let old = self.graph.value(id).tensor.as_ref().map_or(&[][..], |t| &t.shape);
            let new = self.values[id.0 as usize].tensor.as_ref().map_or(&[][..], |t| &t.shape);
            for (axis, (&old_extent, &extent)) in old.iter().zip(new).enumerate() {
                if old_extent != extent {
                    changes.entry((old.len() - axis, old_extent)).or_insert(extent);
                }
            }
        }
        changes
    }

    /// Dimensions of an output: those of an input where one changed in the same way, else new ones.
    fn followed(&mut self, node: &Node, old: &[usize], new: &[usize]) -> Vec<Dimension> {
        let rank = old.len();
        let inputs: Vec<&[Dimension]> =
            node.inputs.iter().filter_map(|id| self.dimensions[id.0 as usize].as_deref()).collect();
        let one = |axis: usize| {
            let (o, n) = (old[axis], new[axis]);
            if o == n {
                return Dimension::of(Extent::new(o, n, None));
            }
            // First the same axis, counted from the end, then any.
            let same_axis = inputs
                .iter()
                .filter_map(|dims| dims.len().checked_sub(rank - axis).and_then(|at| dims.get(at)));
            let all = same_axis.clone().chain(inputs.iter().copied().flatten());
            if let Some(found) = all.clone().find(|d| d.whole().old == o && d.whole().new == n) {
                return found.clone();
            }
            let side = same_axis.clone().find_map(|d| d.whole().side);
            self.known.dimension(Extent::new(o, n, side))
        };
        let dimensions: Vec<Dimension> = (0..rank).map(one).collect();
        dimensions.iter().for_each(|d| self.known.remember(d));
        dimensions
    }
}

#[cfg(test)]
mod tests;

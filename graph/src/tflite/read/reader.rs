//! [`Reader`]: the values of a model in both orders, its constants, and the graph as it grows.

use super::error::Fault;
use super::images::images;
use super::model::{Model, Operator};
use crate::tflite::schema::Code;
use crate::{
    Attribute, Attributes, Budget, ConstantData, Graph, GraphBuilder, OpKind, TensorSpec, ValueId,
};
use std::collections::HashSet;

/// Constants with more elements are weights, whose values are not read.
const MOST_VALUES: usize = 4096;

/// N, H, W, C from N, C, H, W.
const TO_STORED: [usize; 4] = [0, 2, 3, 1];
/// N, C, H, W from N, H, W, C.
const TO_IMAGE: [usize; 4] = [0, 3, 1, 2];

/// Why an operator is not read.
pub(super) type Refusal = String;

/// A model on its way into a graph.
pub(super) struct Reader<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) b: GraphBuilder,
    budget: &'a Budget,
    images: Vec<bool>,
    /// For each tensor, its value in the order of the file, and as an image.
    values: Vec<[Option<ValueId>; 2]>,
    names: HashSet<String>,
    /// The number of the last name that was made unique.
    last_name: usize,
    /// For each tensor, whether other operators than products read it, or the caller gets it.
    pub(super) read_otherwise: Vec<bool>,
    /// Square roots whose reciprocal a tensor is.
    pub(super) roots: Vec<Option<ValueId>>,
    /// Differences from means, by what they are of.
    pub(super) differences: Vec<(ValueId, ValueId, ValueId)>,
    /// For each tensor, what it is the mean of, over its last dimensions.
    pub(super) mean_of: Vec<Option<usize>>,
    /// For each tensor, whether it is a variance around such a mean.
    pub(super) is_variance: Vec<bool>,
}

/// The extents or numbers of stored dimensions in the order of an image.
pub(super) fn as_image<T: Copy>(stored: &[T]) -> Vec<T> {
    match stored {
        [n, h, w, c] => vec![*n, *c, *h, *w],
        other => other.to_vec(),
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(name: &str, model: &'a Model<'a>, budget: &'a Budget) -> Self {
        let count = model.tensors.len();
        Self {
            model,
            b: GraphBuilder::new(name),
            budget,
            images: images(model),
            values: vec![[None; 2]; count],
            names: HashSet::new(),
            last_name: 0,
            read_otherwise: read_otherwise(model),
            roots: vec![None; count],
            differences: Vec::new(),
            mean_of: vec![None; count],
            is_variance: vec![false; count],
        }
    }

    pub(super) fn read(mut self) -> Result<Graph, Fault> {
        let model = self.model;
        for &id in &model.inputs {
            let name = self.unique(model.tensors[id].name, "input");
            let spec = self.spec(id, self.images[id]);
            let value = self.b.input(name, spec);
            self.values[id][usize::from(self.images[id])] = Some(value);
        }
        for (index, operator) in model.operators.iter().enumerate() {
            self.budget.steps(1 + (operator.inputs.len() + operator.outputs.len()) as u64)?;
            let output = operator.outputs.first().map_or("", |id| model.tensors[*id].name);
            self.operator(operator, index).map_err(|reason| Fault::Operator {
                index,
                operator: Code::numbered(operator.code)
                    .map_or_else(|| called(operator), |code| code.name().to_owned()),
                output: output.to_owned(),
                reason,
            })?;
        }
        let mut outputs = Vec::new();
        for &id in &model.outputs {
            let value = self.own(id).map_err(Fault::Damaged)?;
            outputs.push(value);
        }
        Ok(self.b.finish(outputs)?)
    }

    /// A name that no node has yet.
    pub(super) fn unique(&mut self, name: &str, otherwise: &str) -> String {
        let base = if name.is_empty() { otherwise } else { name };
        let mut unique = base.to_owned();
        while !self.names.insert(unique.clone()) {
            self.last_name += 1;
            unique = format!("{base}#{}", self.last_name);
        }
        unique
    }

    /// Shape and type of a tensor, as an image or in the order of the file.
    fn spec(&self, id: usize, image: bool) -> TensorSpec {
        let tensor = &self.model.tensors[id];
        let shape = if image { as_image(&tensor.shape) } else { tensor.shape.clone() };
        TensorSpec::new(shape, tensor.precision)
    }

    pub(super) fn is_image(&self, id: usize) -> bool {
        self.images[id]
    }

    pub(super) fn shape(&self, id: usize) -> &'a [usize] {
        &self.model.tensors[id].shape
    }

    /// The value of a tensor in its own order.
    pub(super) fn own(&mut self, id: usize) -> Result<ValueId, Refusal> {
        self.value(id, self.images[id])
    }

    /// The value of a tensor as an image, or in the order of the file.
    pub(super) fn value(&mut self, id: usize, image: bool) -> Result<ValueId, Refusal> {
        let model = self.model;
        let tensor = &model.tensors[id];
        let image = image && tensor.shape.len() == 4;
        if let Some(value) = self.values[id][usize::from(image)] {
            return Ok(value);
        }
        let value = match self.values[id][usize::from(!image)] {
            _ if tensor.data.is_some() => self.constant(id, image)?,
            Some(other) => {
                let (perm, end) =
                    if image { (TO_IMAGE, "to_image") } else { (TO_STORED, "to_stored") };
                let name = self.unique(&format!("{}/{end}", tensor.name), end);
                self.b.transpose(&name, other, &perm).map_err(|e| e.to_string())?
            }
            None => return Err(format!("it reads `{}`, which nothing provides", tensor.name)),
        };
        self.values[id][usize::from(image)] = Some(value);
        Ok(value)
    }

    fn constant(&mut self, id: usize, image: bool) -> Result<ValueId, Refusal> {
        let model = self.model;
        let tensor = &model.tensors[id];
        if tensor.quantized {
            return Err("8-bit models are not read; give the model in floats".to_owned());
        }
        let name = self.unique(tensor.name, "constant");
        let spec = self.spec(id, image);
        let elements = tensor.elements();
        if elements > MOST_VALUES {
            return Ok(self.b.weight(name, spec));
        }
        self.budget.steps(elements as u64).map_err(|e| e.to_string())?;
        let order = stored_order(&tensor.shape, image);
        let data = match (tensor.ints(), tensor.floats()) {
            (Some(values), _) => order.of(&values).map(ConstantData::Ints),
            (_, Some(values)) => order.of(&values).map(ConstantData::Floats),
            _ => None,
        };
        Ok(match data {
            Some(data) => self.b.constant(name, spec, data),
            None => self.b.weight(name, spec),
        })
    }

    /// A weight with another shape than the file's.
    pub(super) fn weight(&mut self, id: usize, shape: Vec<usize>) -> Result<ValueId, Refusal> {
        let model = self.model;
        let tensor = &model.tensors[id];
        if tensor.quantized {
            return Err("8-bit models are not read; give the model in floats".to_owned());
        }
        if tensor.data.is_none() && self.values[id] == [None; 2] {
            return Err(format!("its weight `{}` has no values", tensor.name));
        }
        let name = self.unique(tensor.name, "weight");
        Ok(self.b.weight(name, TensorSpec::new(shape, crate::Precision::F32)))
    }

    /// The whole numbers of a constant input.
    pub(super) fn ints(&self, operator: &Operator<'_>, place: usize) -> Result<Vec<i64>, Refusal> {
        let id = self.input(operator, place)?;
        let tensor = &self.model.tensors[id];
        let length = tensor.data.map_or(0, <[u8]>::len);
        self.budget.steps(length as u64).map_err(|e| e.to_string())?;
        tensor.ints().ok_or_else(|| format!("its input {place} is not known before the run"))
    }

    /// A constant input of one number.
    pub(super) fn number(&self, id: usize) -> Option<f64> {
        let tensor = &self.model.tensors[id];
        if tensor.elements() == 1 { tensor.floats()?.first().copied() } else { None }
    }

    /// The tensor of an input that must be there.
    pub(super) fn input(&self, operator: &Operator<'_>, place: usize) -> Result<usize, Refusal> {
        let id = operator.inputs.get(place).copied().flatten();
        id.ok_or_else(|| format!("it has no input {place}"))
    }

    /// The tensor of the first output.
    pub(super) fn output(&self, operator: &Operator<'_>) -> Result<usize, Refusal> {
        operator.outputs.first().copied().ok_or_else(|| "it has no output".to_owned())
    }

    /// A node of one output that is not yet that of a tensor.
    pub(super) fn node(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: &[ValueId],
    ) -> Result<ValueId, Refusal> {
        let name = self.unique(name, kind.name());
        self.b.op(&name, kind, attributes, inputs).map_err(|e| e.to_string())
    }

    /// The name of the node that writes a tensor.
    pub(super) fn name(&self, id: usize) -> &'a str {
        self.model.tensors[id].name
    }

    /// Sets the value of a tensor, in its own order, after a fused activation.
    pub(super) fn write(&mut self, id: usize, value: ValueId, fused: i8) -> Result<(), Refusal> {
        let value = self.activated(id, value, fused)?;
        let wanted = self.spec(id, self.images[id]);
        let found = self.b.tensor(value).ok_or("its shape is not known")?;
        if found.shape != wanted.shape {
            return Err(format!(
                "it computes {found}, and the file says {wanted} (channels first)"
            ));
        }
        self.values[id][usize::from(self.images[id])] = Some(value);
        Ok(())
    }

    fn activated(&mut self, id: usize, x: ValueId, fused: i8) -> Result<ValueId, Refusal> {
        let between = |low: f64, high: f64| {
            Attributes::new().with("min", Attribute::Float(low)).with("max", Attribute::Float(high))
        };
        let (kind, attributes) = match fused {
            0 => return Ok(x),
            1 => (OpKind::Relu, Attributes::new()),
            2 => (OpKind::Clip, between(-1.0, 1.0)),
            3 => (OpKind::Clip, between(0.0, 6.0)),
            4 => (OpKind::Tanh, Attributes::new()),
            other => return Err(format!("its fused activation {other} is not read")),
        };
        self.node(&format!("{}/activation", self.name(id)), kind, attributes, &[x])
    }
}

fn read_otherwise(model: &Model<'_>) -> Vec<bool> {
    let mut read = vec![false; model.tensors.len()];
    let others = model.operators.iter().filter(|o| o.code != Code::Mul.number());
    let inputs = others.flat_map(|operator| operator.inputs.iter().flatten());
    inputs.chain(&model.outputs).for_each(|id| read[*id] = true);
    read
}

fn called(operator: &Operator<'_>) -> String {
    match operator.custom {
        "" => format!("number {}", operator.code),
        custom => custom.to_owned(),
    }
}

/// The order of a constant's elements.
struct Elements {
    /// Where each element is stored; `None`: as it is.
    places: Option<Vec<usize>>,
    count: usize,
}

fn stored_order(shape: &[usize], image: bool) -> Elements {
    let count = shape.iter().product();
    let [n, h, w, c] = *shape else { return Elements { places: None, count } };
    if !image {
        return Elements { places: None, count };
    }
    let mut places = Vec::with_capacity(count);
    for (n, c, h_at) in
        (0..n).flat_map(|n| (0..c).flat_map(move |c| (0..h).map(move |h| (n, c, h))))
    {
        places.extend((0..w).map(|w_at| ((n * h + h_at) * w + w_at) * shape[3] + c));
    }
    Elements { places: Some(places), count }
}

impl Elements {
    /// The values in the graph's order; `None` where the file has another number of them.
    fn of<T: Copy>(&self, values: &[T]) -> Option<Vec<T>> {
        if values.len() != self.count {
            return None;
        }
        match &self.places {
            None => Some(values.to_vec()),
            Some(places) => places.iter().map(|at| values.get(*at).copied()).collect(),
        }
    }
}

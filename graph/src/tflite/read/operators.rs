//! What each operator of a file becomes: elementwise operators, products, reductions and
//! normalisations; `windows` and `movement` have the others.

use super::model::Operator;
use super::reader::{Reader, Refusal, as_image};
use crate::tflite::schema::Code;
use crate::{Attribute, Attributes, OpKind, Precision, ValueId};

/// Logical dimensions of the stored ones of an image.
const OF_IMAGE: [usize; 4] = [0, 2, 3, 1];

impl Reader<'_> {
    pub(super) fn operator(&mut self, o: &Operator<'_>, index: usize) -> Result<(), Refusal> {
        let code = Code::numbered(o.code).ok_or("this operator is not read")?;
        if let Some(id) = o.outputs.iter().find(|id| self.model.tensors[**id].quantized) {
            let name = self.name(*id);
            return Err(format!("`{name}` has 8 bits; give the model in floats"));
        }
        let name = match o.outputs.first() {
            Some(&id) if !self.name(id).is_empty() => self.name(id).to_owned(),
            _ => format!("operator{index}"),
        };
        let plain = Attributes::new;
        let text = |name: &str, value: &str| {
            Attributes::new().with(name, Attribute::Text(value.to_owned()))
        };
        use Code as C;
        use OpKind as K;
        match code {
            C::Add => self.sum(o, &name),
            C::Sub => self.difference(o, &name),
            C::Mul => self.product(o, &name),
            C::Div => self.binary(o, &name, K::Div),
            C::Maximum => self.binary(o, &name, K::Max),
            C::Minimum => self.binary(o, &name, K::Min),
            C::FloorMod => self.binary(o, &name, K::Mod),
            C::SquaredDifference => self.squared_difference(o, &name),
            C::Pow => self.power(o, &name),
            C::Equal => self.elementwise(o, &name, K::Compare, text("op", "Equal")),
            C::Greater => self.elementwise(o, &name, K::Compare, text("op", "Greater")),
            C::Less => self.elementwise(o, &name, K::Compare, text("op", "Less")),
            C::GreaterEqual => self.elementwise(o, &name, K::Compare, text("op", "GreaterOrEqual")),
            C::LessEqual => self.elementwise(o, &name, K::Compare, text("op", "LessOrEqual")),
            C::LogicalAnd => self.elementwise(o, &name, K::Logical, text("op", "And")),
            C::LogicalOr => self.elementwise(o, &name, K::Logical, text("op", "Or")),
            C::LogicalNot => self.elementwise(o, &name, K::Logical, text("op", "Not")),
            C::Select => self.elementwise(o, &name, K::Where, plain()),
            C::Abs => self.elementwise(o, &name, K::Abs, plain()),
            C::Neg => self.elementwise(o, &name, K::Neg, plain()),
            C::Exp => self.elementwise(o, &name, K::Exp, plain()),
            C::Log => self.elementwise(o, &name, K::Log, plain()),
            C::Sin => self.elementwise(o, &name, K::Sin, plain()),
            C::Cos => self.elementwise(o, &name, K::Cos, plain()),
            C::Sqrt => self.elementwise(o, &name, K::Sqrt, plain()),
            C::Rsqrt => self.reciprocal_root(o, &name),
            C::Square => self.elementwise(o, &name, K::Pow, number("exponent", 2.0)),
            C::Tanh => self.elementwise(o, &name, K::Tanh, plain()),
            C::Logistic => self.elementwise(o, &name, K::Sigmoid, plain()),
            C::Relu => self.elementwise(o, &name, K::Relu, plain()),
            C::Relu6 => self.elementwise(o, &name, K::Clip, bounds(0.0, 6.0)),
            C::ReluN1To1 => self.elementwise(o, &name, K::Clip, bounds(-1.0, 1.0)),
            C::HardSwish => self.elementwise(o, &name, K::HardSwish, plain()),
            C::Gelu => {
                let approximate = o.options.map_or(Ok(false), |t| t.flag(0))?;
                let kind = if approximate { K::GeluTanh } else { K::Gelu };
                self.elementwise(o, &name, kind, plain())
            }
            C::Elu => self.elementwise(o, &name, K::Elu, number("alpha", 1.0)),
            C::LeakyRelu => {
                let alpha = o.options.map_or(Ok(0.0), |t| t.float(0, 0.0))?;
                self.elementwise(o, &name, K::LeakyRelu, number("alpha", alpha.into()))
            }
            C::PRelu => self.elementwise(o, &name, K::PRelu, plain()),
            C::Floor => self.elementwise(o, &name, K::Round, text("op", "Floor")),
            C::Ceil => self.elementwise(o, &name, K::Round, text("op", "Ceil")),
            C::Round => self.elementwise(o, &name, K::Round, text("op", "Round")),
            C::Sign => self.elementwise(o, &name, K::Round, text("op", "Sign")),
            C::Cast => {
                let to = self.model.tensors[self.output(o)?].precision;
                self.elementwise(o, &name, K::Cast, text("to", to.name()))
            }
            C::Dequantize => self.dequantized(o),
            C::Mean => self.reduction(o, &name, K::ReduceMean),
            C::Sum => self.reduction(o, &name, K::ReduceSum),
            C::ReduceMax => self.reduction(o, &name, K::ReduceMax),
            C::ReduceMin => self.reduction(o, &name, K::ReduceMin),
            C::ReduceProd => self.reduction(o, &name, K::ReduceProd),
            C::Softmax | C::LogSoftmax => self.softmax(o, &name, code == C::LogSoftmax),
            C::FullyConnected => self.fully_connected(o, &name),
            C::BatchMatMul => self.batch_matmul(o, &name),
            C::ArgMax | C::ArgMin => self.arg_max(o, &name, code),
            C::Conv
            | C::DepthwiseConv
            | C::TransposeConv
            | C::AveragePool
            | C::MaxPool
            | C::ResizeBilinear
            | C::ResizeNearest
            | C::DepthToSpace
            | C::SpaceToDepth => self.window(o, &name, code),
            _ => self.movement(o, &name, code),
        }
    }

    /// The dimension of a tensor, as an image or not, that is a stored one; negative ones count
    /// from the end.
    pub(super) fn axis(&self, id: usize, image: bool, axis: i64) -> Result<usize, Refusal> {
        let rank = self.shape(id).len();
        let from_end = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        let place = usize::try_from(from_end).ok().filter(|axis| *axis < rank);
        let place =
            place.ok_or_else(|| format!("it names dimension {axis} of a tensor of {rank}"))?;
        Ok(if image && rank == 4 { OF_IMAGE[place] } else { place })
    }

    /// The inputs of an operator whose tensors have one order, that of its output.
    pub(super) fn alike(&mut self, o: &Operator<'_>) -> Result<Vec<ValueId>, Refusal> {
        let output = self.output(o)?;
        let image = self.is_image(output);
        let mut values = Vec::new();
        for id in o.inputs.iter().flatten().copied() {
            let shape = self.shape(id);
            values.push(match shape.len() {
                1..=3 if image => self.lifted(id)?,
                _ => self.value(id, image)?,
            });
        }
        Ok(values)
    }

    /// A tensor of fewer than four dimensions beside an image: with leading dimensions of 1.
    fn lifted(&mut self, id: usize) -> Result<ValueId, Refusal> {
        let shape = self.shape(id);
        let mut stored = vec![1; 4 - shape.len()];
        stored.extend(shape);
        let x = self.value(id, false)?;
        let name = self.name(id);
        let mut reshape = |x, shape: &[usize]| {
            let shape: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
            let attributes = Attributes::new().with_ints("shape", shape);
            self.node(&format!("{name}/lifted"), OpKind::Reshape, attributes, &[x])
        };
        if stored[..3] == [1, 1, 1] {
            return reshape(x, &as_image(&stored));
        }
        let x = reshape(x, &stored)?;
        let perm = Attributes::new().with_ints("perm", [0, 3, 1, 2]);
        self.node(&format!("{name}/to_image"), OpKind::Transpose, perm, &[x])
    }

    fn elementwise(
        &mut self,
        o: &Operator<'_>,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
    ) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let inputs = self.alike(o)?;
        let y = self.node(name, kind, attributes, &inputs)?;
        self.write(output, y, 0)
    }

    /// With the activation of its options.
    fn binary(&mut self, o: &Operator<'_>, name: &str, kind: OpKind) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let inputs = self.alike(o)?;
        let y = self.node(name, kind, Attributes::new(), &inputs)?;
        self.write(output, y, fused(o, 0)?)
    }

    /// A variance and a small number are a variance, too.
    fn sum(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let ids: Vec<usize> = o.inputs.iter().flatten().copied().collect();
        let is_constant = |id: &usize| self.number(*id).is_some();
        self.is_variance[output] =
            ids.iter().all(|id| self.is_variance[*id] || is_constant(id)) && !ids.is_empty();
        self.binary(o, name, OpKind::Add)
    }

    /// A difference; that from a mean is computed once, as exporters of normalisations do.
    fn difference(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let inputs = self.alike(o)?;
        let same = |d: &&(ValueId, ValueId, ValueId)| [d.0, d.1][..] == inputs;
        let y = match self.differences.iter().rev().take(4).find(same) {
            Some((_, _, known)) => *known,
            None => self.node(name, OpKind::Sub, Attributes::new(), &inputs)?,
        };
        self.write(output, y, fused(o, 0)?)
    }

    /// From a mean over the last dimensions: a difference and its square, which belong to a layer
    /// norm. Others are one operator, which ONNX does not have.
    fn squared_difference(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let (a, b) = (self.input(o, 0)?, self.input(o, 1)?);
        let [x, mean] = self.alike(o)?[..] else { return Err("it has not two inputs".to_owned()) };
        if self.mean_of[b] != Some(a) {
            let squared = Attributes::new().with_int("squared", 1);
            let y = self.node(name, OpKind::Sub, squared, &[x, mean])?;
            return self.write(output, y, 0);
        }
        let plain = Attributes::new();
        let difference =
            self.node(&format!("{name}/difference"), OpKind::Sub, plain, &[x, mean])?;
        self.differences.push((x, mean, difference));
        self.is_variance[output] = true;
        let y = self.node(name, OpKind::Pow, number("exponent", 2.0), &[difference])?;
        self.write(output, y, 0)
    }

    /// 1 / sqrt(x). Products with that of a variance become quotients, as exporters write layer
    /// norms.
    fn reciprocal_root(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let inputs = self.alike(o)?;
        if self.is_variance[input] && !self.read_otherwise[output] {
            let plain = Attributes::new();
            let root = self.node(&format!("{name}/root"), OpKind::Sqrt, plain, &inputs)?;
            self.roots[output] = Some(root);
            return Ok(());
        }
        let y = self.node(name, OpKind::Pow, number("exponent", -0.5), &inputs)?;
        self.write(output, y, 0)
    }

    fn product(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (a, b) = (self.input(o, 0)?, self.input(o, 1)?);
        let (x, root) = match (self.roots[a], self.roots[b]) {
            (None, Some(root)) => (a, root),
            (Some(root), None) => (b, root),
            (None, None) => return self.binary(o, name, OpKind::Mul),
            (Some(_), Some(_)) => return Err("it multiplies two reciprocal roots".to_owned()),
        };
        let output = self.output(o)?;
        let x = self.value(x, self.is_image(output))?;
        let y = self.node(name, OpKind::Div, Attributes::new(), &[x, root])?;
        self.write(output, y, fused(o, 0)?)
    }

    fn power(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let Some(exponent) = self.number(self.input(o, 1)?) else {
            return self.elementwise(o, name, OpKind::Pow, Attributes::new());
        };
        let output = self.output(o)?;
        let x = self.value(self.input(o, 0)?, self.is_image(output))?;
        let y = self.node(name, OpKind::Pow, number("exponent", exponent), &[x])?;
        self.write(output, y, 0)
    }

    /// Half-precision constants as floats: the constant itself.
    fn dequantized(&mut self, o: &Operator<'_>) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let tensor = &self.model.tensors[input];
        if tensor.precision != Precision::F16 || tensor.data.is_none() {
            return Err("8-bit models are not read; give the model in floats".to_owned());
        }
        let shape = self.shape(output);
        let shape = if self.is_image(output) { as_image(shape) } else { shape.to_vec() };
        let value = self.weight(input, shape)?;
        self.write(output, value, 0)
    }

    fn reduction(&mut self, o: &Operator<'_>, name: &str, kind: OpKind) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let keep = o.options.map_or(Ok(false), |t| t.flag(0))?;
        let axes = self.ints(o, 1)?;
        // Where dimensions go, those that are left are in the order of the file, but for the mean
        // of a whole image.
        let image = match self.shape(output).len() {
            4 => self.is_image(output),
            _ => self.is_image(input) && (axes == [1, 2] || axes == [2, 1]),
        };
        let axes = axes.into_iter().map(|axis| self.axis(input, image, axis));
        let mut axes: Vec<i64> =
            axes.map(|axis| axis.map(|axis| axis as i64)).collect::<Result<_, _>>()?;
        axes.sort_unstable();
        if kind == OpKind::ReduceMean && keep {
            let rank = self.shape(input).len();
            let first = rank.saturating_sub(axes.len());
            if axes.iter().enumerate().all(|(i, &axis)| axis == (first + i) as i64) {
                self.mean_of[output] = Some(input);
            }
            self.is_variance[output] = self.is_variance[input];
        }
        let attributes =
            Attributes::new().with_ints("axes", axes).with_int("keepdims", i64::from(keep));
        let x = self.value(input, image)?;
        let y = self.node(name, kind, attributes, &[x])?;
        self.write(output, y, 0)
    }

    /// Over the dimension stored last.
    fn softmax(&mut self, o: &Operator<'_>, name: &str, log: bool) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let beta = if log { 1.0 } else { o.options.map_or(Ok(1.0), |t| t.float(0, 0.0))? };
        let image = self.is_image(output);
        let axis = self.axis(input, image, -1)? as i64;
        let mut x = self.value(input, image)?;
        if beta != 1.0 {
            let factor = self.b.scalar(&format!("{name}/beta"), x, beta.into());
            let factor = factor.map_err(|e| e.to_string())?;
            x =
                self.node(&format!("{name}/scaled"), OpKind::Mul, Attributes::new(), &[x, factor])?;
        }
        let mut attributes = Attributes::new().with_int("axis", axis);
        if log {
            attributes = attributes.with_int("log", 1);
        }
        let y = self.node(name, OpKind::Softmax, attributes, &[x])?;
        self.write(output, y, 0)
    }

    fn fully_connected(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let (input, weight, output) = (self.input(o, 0)?, self.input(o, 1)?, self.output(o)?);
        let &[out, features] = self.shape(weight) else {
            return Err("its weight is not a matrix".to_owned());
        };
        let mut x = self.value(input, false)?;
        if self.shape(input).last() != Some(&features) {
            let shape = Attributes::new().with_ints("shape", [-1, features as i64]);
            x = self.node(&format!("{name}/rows"), OpKind::Reshape, shape, &[x])?;
        }
        let mut inputs = vec![x, self.weight(weight, vec![features, out])?];
        if let Some(bias) = o.inputs.get(2).copied().flatten() {
            inputs.push(self.weight(bias, vec![out])?);
        }
        let mut y = self.node(name, OpKind::Linear, Attributes::new(), &inputs)?;
        let wanted = self.shape(output);
        if self.b.tensor(y).is_some_and(|t| t.shape[..] != *wanted) {
            let shape: Vec<i64> = wanted.iter().map(|&d| d as i64).collect();
            let attributes = Attributes::new().with_ints("shape", shape);
            y = self.node(&format!("{name}/shaped"), OpKind::Reshape, attributes, &[y])?;
        }
        if self.is_image(output) {
            let perm = Attributes::new().with_ints("perm", [0, 3, 1, 2]);
            y = self.node(&format!("{name}/to_image"), OpKind::Transpose, perm, &[y])?;
        }
        self.write(output, y, fused(o, 0)?)
    }

    fn batch_matmul(&mut self, o: &Operator<'_>, name: &str) -> Result<(), Refusal> {
        let output = self.output(o)?;
        let mut inputs = Vec::new();
        for place in 0..2 {
            let id = self.input(o, place)?;
            let mut value = self.value(id, false)?;
            if o.options.map_or(Ok(false), |t| t.flag(place))? {
                let rank = self.shape(id).len();
                let (Some(last), Some(before)) = (rank.checked_sub(1), rank.checked_sub(2)) else {
                    return Err("it transposes what is no matrix".to_owned());
                };
                let perm: Vec<usize> = (0..before).chain([last, before]).collect();
                let name = self.unique(&format!("{name}/transposed{place}"), "transposed");
                value = self.b.transpose(&name, value, &perm).map_err(|e| e.to_string())?;
            }
            inputs.push(value);
        }
        let y = self.node(name, OpKind::MatMul, Attributes::new(), &inputs)?;
        self.write(output, y, 0)
    }

    fn arg_max(&mut self, o: &Operator<'_>, name: &str, code: Code) -> Result<(), Refusal> {
        let (input, output) = (self.input(o, 0)?, self.output(o)?);
        let [axis] = self.ints(o, 1)?[..] else {
            return Err("it has not one dimension".to_owned());
        };
        let op = if code == Code::ArgMin { "ArgMin" } else { "ArgMax" };
        let attributes = Attributes::new()
            .with_int("axis", self.axis(input, false, axis)? as i64)
            .with_int("keepdims", 0)
            .with("op", Attribute::Text(op.to_owned()));
        let x = self.value(input, false)?;
        let y = self.node(name, OpKind::ArgMax, attributes, &[x])?;
        self.write(output, y, 0)
    }
}

/// The activation in a field of the options.
pub(super) fn fused(o: &Operator<'_>, field: usize) -> Result<i8, Refusal> {
    Ok(o.options.map_or(Ok(0), |table| table.byte(field, 0))?)
}

fn number(name: &str, value: f64) -> Attributes {
    Attributes::new().with(name, Attribute::Float(value))
}

fn bounds(low: f64, high: f64) -> Attributes {
    number("min", low).with("max", Attribute::Float(high))
}

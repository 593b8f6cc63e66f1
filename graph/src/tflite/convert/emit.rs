//! Building blocks of all conversions: storing tensors in a layout, emitting operations, and the
//! operators of which others are composed.

use super::{Constant, Converter, Refusal, Var, VarId, is_image};
use crate::tflite::expression::{Expression, elements};
use crate::tflite::generated::Integers;
use crate::tflite::layout::{self, Layout};
use crate::tflite::program::{Operation, Payload, TensorId};
use crate::tflite::schema::{Code, Fused, Options};
use crate::{Attribute, Attributes, OpKind, Precision};
use std::{collections::HashMap, sync::Arc};

/// The description of an operation, for the engine and for vitempo.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub code: Code,
    pub options: Options,
    pub kind: OpKind,
    pub attributes: Attributes,
}

impl Recipe {
    pub(super) fn new(code: Code, kind: OpKind) -> Self {
        Self { code, options: Options::None, kind, attributes: Attributes::new() }
    }

    pub(super) fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    pub(super) fn attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = attributes;
        self
    }

    pub(super) fn text(mut self, name: &str, value: &str) -> Self {
        self.attributes.set(name, Attribute::Text(value.to_owned()));
        self
    }
}

pub(super) fn signed(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&v| v as i64).collect()
}

/// The index of a logical dimension in attributes: images are described channels first, others in
/// stored order.
pub(super) fn spoken(layout: &[usize], dimension: usize) -> i64 {
    (if is_image(layout) { dimension } else { layout::position(layout, dimension) }) as i64
}

impl Converter<'_> {
    pub(super) fn shape(&self, var: VarId) -> &[usize] {
        &self.vars[var].shape
    }

    pub(super) fn rank(&self, var: VarId) -> usize {
        self.vars[var].shape.len()
    }

    pub(super) fn is_constant(&self, var: VarId) -> bool {
        self.vars[var].constant.is_some()
    }

    /// The expression of a floating-point constant.
    pub(super) fn expression(&self, var: VarId) -> Option<Expression> {
        match &self.vars[var].constant {
            Some(Constant::Floats(expression)) => Some(expression.clone()),
            _ => None,
        }
    }

    /// A floating-point constant.
    pub(super) fn constant(&mut self, expression: Expression) -> VarId {
        let var = self.var(expression.shape().to_vec(), Precision::F32, Vec::new());
        self.vars[var].constant = Some(Constant::Floats(expression));
        var
    }

    pub(super) fn scalar(&mut self, value: f64) -> VarId {
        self.constant(Expression::scalar(value as f32))
    }

    /// Integers that steer an operation.
    pub(super) fn ints(&mut self, values: &[i64], shape: Vec<usize>) -> TensorId {
        let name = format!("{}/{}", self.node, self.program.tensors.len());
        let at = self.tensor(&name, shape, Precision::I32, false);
        self.program.tensors[at].payload =
            Payload::Ints(Arc::new(Integers::Listed(values.to_vec())));
        self.program.tensors[at].steering = true;
        at
    }

    pub(super) fn vector(&mut self, values: &[i64]) -> TensorId {
        self.ints(values, vec![values.len()])
    }

    /// The layout a computed tensor is stored in first; plain for a constant.
    pub(super) fn layout(&self, var: VarId) -> Layout {
        self.vars[var]
            .stored
            .first()
            .map_or_else(|| layout::plain(self.rank(var)), |(layout, _)| layout.clone())
    }

    /// The tensor in that layout; elements are moved if it does not exist yet.
    pub(super) fn stored(&mut self, var: VarId, wanted: &[usize]) -> Result<TensorId, Refusal> {
        let Var { shape, precision, constant, stored } = self.vars[var].clone();
        if wanted.len() != shape.len() || wanted.iter().any(|&d| d >= shape.len()) {
            return Err(format!(
                "it needs a tensor of {} dimensions and reads one of {}",
                wanted.len(),
                shape.len()
            ));
        }
        if let Some((_, at)) = stored.iter().find(|(layout, _)| layout == wanted) {
            return Ok(*at);
        }
        let at = match constant {
            Some(constant) => self.constant_tensor(constant, &shape, precision, wanted)?,
            None => {
                let (from, source) =
                    stored.first().ok_or("it reads a tensor that nothing provides")?.clone();
                let same =
                    stored.iter().find(|(layout, _)| layout::same_memory(&shape, layout, wanted));
                match same {
                    Some(&(_, source)) => {
                        self.view(source, layout::stored(wanted, &shape), is_image(wanted))
                    }
                    None => self.moved(source, &layout::movement(&from, wanted), is_image(wanted)),
                }
            }
        };
        self.vars[var].stored.push((wanted.to_vec(), at));
        Ok(at)
    }

    fn constant_tensor(
        &mut self,
        constant: Constant,
        shape: &[usize],
        precision: Precision,
        wanted: &[usize],
    ) -> Result<TensorId, Refusal> {
        let name = format!("{}/{}", self.node, self.program.tensors.len());
        let payload = match constant {
            Constant::Floats(expression) => Payload::Weight(expression.transpose(wanted)),
            Constant::Ints(values) => Payload::Ints(permuted(values, shape, wanted)),
        };
        let at = self.tensor(&name, layout::stored(wanted, shape), precision, is_image(wanted));
        self.program.tensors[at].payload = payload;
        Ok(at)
    }

    /// RESHAPE of a stored tensor, or of the input of that tensor's own RESHAPE.
    fn view(&mut self, source: TensorId, shape: Vec<usize>, image: bool) -> TensorId {
        let before = self
            .producer
            .get(&source)
            .map(|&index| &self.program.operations[index])
            .filter(|o| o.code == Code::Reshape);
        let source = before.and_then(|o| o.inputs.first().copied()).unwrap_or(source);
        let wanted = self.vector(&signed(&shape));
        let precision = self.program.tensors[source].precision;
        let options = Options::Reshape { shape: shape.iter().map(|&d| d as i32).collect() };
        let attributes = Attributes::new().with_ints("shape", signed(&shape));
        let recipe =
            Recipe::new(Code::Reshape, OpKind::Reshape).options(options).attributes(attributes);
        let output = self.fresh(shape, precision, image);
        self.push(recipe, vec![source, wanted], vec![output]);
        output
    }

    /// TRANSPOSE of a stored tensor.
    fn moved(&mut self, source: TensorId, perm: &[usize], image: bool) -> TensorId {
        let steering = self.vector(&signed(perm));
        let tensor = &self.program.tensors[source];
        let (shape, precision) = (layout::stored(perm, &tensor.shape), tensor.precision);
        let recipe = Recipe::new(Code::Transpose, OpKind::Transpose)
            .attributes(Attributes::new().with_ints("perm", signed(perm)));
        let output = self.fresh(shape, precision, image);
        self.push(recipe, vec![source, steering], vec![output]);
        output
    }

    pub(super) fn fresh(
        &mut self,
        shape: Vec<usize>,
        precision: Precision,
        image: bool,
    ) -> TensorId {
        let name = format!("{}:{}", self.node, self.program.tensors.len());
        self.tensor(&name, shape, precision, image)
    }

    pub(super) fn push(&mut self, recipe: Recipe, inputs: Vec<TensorId>, outputs: Vec<TensorId>) {
        let Recipe { code, options, kind, attributes } = recipe;
        self.read.extend(&inputs);
        for &output in &outputs {
            self.producer.insert(output, self.program.operations.len());
        }
        self.program.operations.push(Operation {
            code,
            options,
            fused: Fused::None,
            inputs,
            outputs,
            node: self.node.clone(),
            kind,
            attributes,
        });
    }

    /// An operation with one output of that logical shape, stored in `layout`.
    pub(super) fn emit(
        &mut self,
        recipe: Recipe,
        inputs: Vec<TensorId>,
        shape: Vec<usize>,
        layout: Layout,
        precision: Precision,
    ) -> VarId {
        let output = self.fresh(layout::stored(&layout, &shape), precision, is_image(&layout));
        self.push(recipe, inputs, vec![output]);
        self.var(shape, precision, vec![(layout, output)])
    }

    /// An elementwise operation of one input.
    pub(super) fn unary(&mut self, recipe: Recipe, x: VarId) -> Result<VarId, Refusal> {
        let layout = self.layout(x);
        let input = self.stored(x, &layout)?;
        let (shape, precision) = (self.vars[x].shape.clone(), self.vars[x].precision);
        Ok(self.emit(recipe, vec![input], shape, layout, precision))
    }

    /// An elementwise operation of several inputs, with broadcasting; the output has the type of
    /// `typed`.
    pub(super) fn elementwise(
        &mut self,
        recipe: Recipe,
        inputs: &[VarId],
        precision: Precision,
    ) -> Result<VarId, Refusal> {
        let mut shape = Vec::new();
        for &input in inputs {
            shape = crate::shape::broadcast(&shape, self.shape(input))?.to_vec();
        }
        let (layout, tensors) = self.aligned(inputs, shape.len())?;
        Ok(self.emit(recipe, tensors, shape, layout, precision))
    }

    pub(super) fn binary(
        &mut self,
        code: Code,
        kind: OpKind,
        a: VarId,
        b: VarId,
    ) -> Result<VarId, Refusal> {
        self.elementwise(Recipe::new(code, kind), &[a, b], self.vars[a].precision)
    }

    pub(super) fn add(&mut self, a: VarId, b: VarId) -> Result<VarId, Refusal> {
        self.binary(Code::Add, OpKind::Add, a, b)
    }

    pub(super) fn mul(&mut self, a: VarId, b: VarId) -> Result<VarId, Refusal> {
        self.binary(Code::Mul, OpKind::Mul, a, b)
    }

    pub(super) fn sub(&mut self, a: VarId, b: VarId) -> Result<VarId, Refusal> {
        self.binary(Code::Sub, OpKind::Sub, a, b)
    }

    pub(super) fn mul_number(&mut self, x: VarId, number: f64) -> Result<VarId, Refusal> {
        let number = self.scalar(number);
        self.mul(x, number)
    }

    pub(super) fn add_number(&mut self, x: VarId, number: f64) -> Result<VarId, Refusal> {
        let number = self.scalar(number);
        self.add(x, number)
    }

    /// One layout for tensors that are read element by element, the one that moves the fewest
    /// elements, and the tensors in it.
    pub(super) fn aligned(
        &mut self,
        inputs: &[VarId],
        rank: usize,
    ) -> Result<(Layout, Vec<TensorId>), Refusal> {
        let wanted = self.cheapest(inputs, rank)?;
        let plain = wanted == layout::plain(rank);
        let mut tensors = Vec::with_capacity(inputs.len());
        for &input in inputs {
            let own = layout::plain(self.rank(input));
            let as_is = self.rank(input) < rank
                && plain
                && (self.is_constant(input)
                    || self.vars[input].stored.iter().any(|(l, _)| *l == own));
            let tensor = if as_is || self.rank(input) == 0 {
                self.stored(input, &own)?
            } else {
                let more = rank - self.rank(input);
                let lifted = if more == 0 {
                    input
                } else {
                    let shape: Vec<usize> = std::iter::repeat_n(1, more)
                        .chain(self.shape(input).iter().copied())
                        .collect();
                    self.reshape(input, &shape)?
                };
                self.stored(lifted, &wanted)?
            };
            tensors.push(tensor);
        }
        Ok((wanted, tensors))
    }

    fn cheapest(&self, inputs: &[VarId], rank: usize) -> Result<Layout, Refusal> {
        let computed: Vec<&Var> =
            inputs.iter().map(|&i| &self.vars[i]).filter(|v| v.constant.is_none()).collect();
        let lifted = |var: &Var, layout: &Layout| layout::prefixed(layout, rank - var.shape.len());
        let mut costs: HashMap<Layout, usize> = HashMap::new();
        let mut best: Option<(Layout, (usize, usize))> = None;
        for var in &computed {
            for (layout, _) in &var.stored {
                let layout = lifted(var, layout);
                let cost = match costs.get(&layout) {
                    Some(&cost) => cost,
                    None => {
                        self.spend(computed.len())?;
                        let cost = moved_elements(&computed, &layout);
                        costs.insert(layout.clone(), cost);
                        cost
                    }
                };
                let key = (cost, rank - var.shape.len());
                if best.as_ref().is_none_or(|(_, least)| key < *least) {
                    best = Some((layout, key));
                }
            }
        }
        Ok(best.map_or_else(|| layout::plain(rank), |(layout, _)| layout))
    }

    /// Takes steps of the budget for an operator whose work is more than its inputs and outputs.
    pub(super) fn spend(&self, steps: usize) -> Result<(), Refusal> {
        self.budget.steps(steps as u64).map_err(|exceeded| exceeded.to_string())
    }

    /// Another name for the same tensor.
    pub(super) fn alias(&mut self, var: VarId) -> VarId {
        self.share(var);
        let copy = self.vars[var].clone();
        self.vars.push(copy);
        self.vars.len() - 1
    }

    fn share(&mut self, var: VarId) {
        for (_, at) in &self.vars[var].stored {
            self.shared.insert(*at);
        }
    }

    /// ONNX Transpose: another view of the same elements.
    pub(super) fn transpose(&mut self, x: VarId, perm: &[usize]) -> Result<VarId, Refusal> {
        let rank = self.rank(x);
        if perm.len() != rank || perm.iter().any(|&p| p >= rank) {
            return Err(format!("a permutation of {} dimensions does not fit {rank}", perm.len()));
        }
        let shape = layout::stored(perm, self.shape(x));
        let Var { precision, constant, stored, shape: old } = self.vars[x].clone();
        self.share(x);
        let stored = if constant.is_some() {
            Vec::new()
        } else {
            stored.into_iter().map(|(l, at)| (layout::transposed(&l, perm), at)).collect()
        };
        let var = self.var(shape, precision, stored);
        self.vars[var].constant = constant.map(|constant| match constant {
            Constant::Floats(expression) => Constant::Floats(expression.transpose(perm)),
            Constant::Ints(values) => Constant::Ints(permuted(values, &old, perm)),
        });
        Ok(var)
    }

    /// The same elements in another shape; elements are moved if the layout requires it.
    pub(super) fn reshape(&mut self, x: VarId, shape: &[usize]) -> Result<VarId, Refusal> {
        let Var { shape: old, precision, constant, stored } = self.vars[x].clone();
        if old == shape {
            return Ok(self.alias(x));
        }
        if let Some(constant) = constant {
            let var = self.var(shape.to_vec(), precision, Vec::new());
            self.vars[var].constant = Some(match constant {
                Constant::Floats(expression) => Constant::Floats(expression.reshape(shape)),
                ints @ Constant::Ints(_) => ints,
            });
            return Ok(var);
        }
        let in_place = stored
            .iter()
            .find_map(|(layout, at)| layout::reshaped(layout, &old, shape).map(|new| (new, *at)));
        let (layout, source) = match in_place {
            Some(found) => found,
            None => (layout::plain(shape.len()), self.stored(x, &layout::plain(old.len()))?),
        };
        let stored_shape = layout::stored(&layout, shape);
        let at = if self.program.tensors[source].shape == stored_shape {
            self.share(x);
            source
        } else {
            self.view(source, stored_shape, is_image(&layout))
        };
        Ok(self.var(shape.to_vec(), precision, vec![(layout, at)]))
    }
}

/// How many elements of computed tensors lie otherwise than this layout has them.
fn moved_elements(computed: &[&Var], layout: &[usize]) -> usize {
    let moved = computed.iter().filter(|other| {
        let more = layout.len() - other.shape.len();
        let shape: Vec<usize> =
            std::iter::repeat_n(1, more).chain(other.shape.iter().copied()).collect();
        !other
            .stored
            .iter()
            .any(|(l, _)| layout::same_memory(&shape, &layout::prefixed(l, more), layout))
    });
    moved.fold(0, |sum: usize, other| sum.saturating_add(elements(&other.shape)))
}

/// Elements of a row-major tensor in the order of permuted dimensions.
fn permuted(values: Arc<Integers>, shape: &[usize], perm: &[usize]) -> Arc<Integers> {
    let in_order = |perm: &[usize]| {
        perm.iter().filter(|&&d| shape[d] != 1).is_sorted() || values.len() != elements(shape)
    };
    let Integers::Listed(listed) = &*values else { return values };
    if in_order(perm) {
        return values;
    }
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    let new: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let at = |mut index: usize| {
        let mut from = 0;
        for d in (0..new.len()).rev() {
            from += index % new[d] * strides[perm[d]];
            index /= new[d];
        }
        listed.get(from).copied().unwrap_or(0)
    };
    Arc::new(Integers::Listed((0..listed.len()).map(at).collect()))
}

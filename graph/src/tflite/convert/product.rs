//! Matrix products: FULLY_CONNECTED over the last dimension if the right matrix is constant, else
//! BATCH_MATMUL.

use super::emit::Recipe;
use super::{Call, Converter, Refusal, VarId};
use crate::tflite::expression::{Expression, Operator, elements};
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options};
use crate::{Attributes, OpKind, Precision};

/// The largest rank BATCH_MATMUL takes.
const MAX_RANK: usize = 5;

impl Converter<'_> {
    pub(super) fn linear(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let a = call.attributes;
        let flag = |name: &str| a.int(name) == Some(1);
        let mut x = call.inputs[0];
        if flag("trans_a") {
            x = self.transpose(x, &[1, 0])?;
        }
        let Some(mut weight) = self.expression(call.inputs[1]) else { return self.matmul(call) };
        if weight.shape().len() != 2 {
            return self.matmul(call);
        }
        if !flag("trans_b") {
            weight = weight.transpose(&[1, 0]);
        }
        if let Some(alpha) = a.float("alpha").filter(|&v| v != 1.0) {
            weight = weight.binary(Operator::Mul, Expression::scalar(alpha as f32));
        }
        let mut bias = None;
        if let Some(&given) = call.inputs.get(2) {
            let mut given =
                self.expression(given).ok_or("its bias is computed while the model runs")?;
            if let Some(beta) = a.float("beta").filter(|&v| v != 1.0) {
                given = given.binary(Operator::Mul, Expression::scalar(beta as f32));
            }
            bias = Some(given);
        }
        let out = weight.shape()[0];
        let mut taken = None;
        if bias.is_none()
            && let Some((index, term)) = self.bias_behind(call, out)
        {
            bias = Some(term);
            taken = Some(index);
        }
        let y = self.fully_connected(x, weight, bias)?;
        if let Some(index) = taken {
            self.absorb(index, y);
        }
        Ok(y)
    }

    /// The addition of a constant vector that follows a product, and the vector.
    fn bias_behind(&mut self, call: &Call<'_>, out: usize) -> Option<(usize, Expression)> {
        let product = *call.node.outputs.first()?;
        let (index, add) = self.follower(product).filter(|(_, n)| n.op.kind == OpKind::Add)?;
        let term = match add.inputs[..] {
            [a, b] if a == product => b,
            [a, b] if b == product => a,
            _ => return None,
        };
        let term = self.var_of(term).ok()?;
        let shape = self.shape(term);
        let vector = shape.last() == Some(&out)
            && elements(shape) == out
            && add.op.outputs.first()?.rank() == call.node.op.outputs.first()?.rank();
        let term = self.expression(term).filter(|_| vector)?;
        Some((index, term.reshape([out])))
    }

    /// x times a matrix `[out, in]`, over the last dimension.
    pub(super) fn fully_connected(
        &mut self,
        x: VarId,
        weight: Expression,
        bias: Option<Expression>,
    ) -> Result<VarId, Refusal> {
        let rank = self.rank(x);
        let [out, features] = *weight.shape() else {
            return Err("its weight is not a matrix".to_owned());
        };
        let last = rank
            .checked_sub(1)
            .filter(|&d| self.shape(x)[d] == features)
            .ok_or("its weight does not fit its input")?;
        let found = self.vars[x]
            .stored
            .iter()
            .find(|(layout, _)| layout.last() == Some(&last))
            .map(|(layout, _)| layout.clone());
        let wanted = found.unwrap_or_else(|| layout::plain(rank));
        let mut shape = self.shape(x).to_vec();
        shape[last] = out;
        let mut inputs = vec![self.stored(x, &wanted)?];
        let weight = self.constant(weight);
        inputs.push(self.stored(weight, &[0, 1])?);
        // A bias of another shape than a vector (of a Gemm) is added afterwards.
        let (bias, later) = match bias {
            Some(bias) if bias.elements() == out => (Some(bias.reshape([out])), None),
            Some(bias) if bias.elements() == 1 => {
                let row = Expression::filled(0.0, [out]).binary(Operator::Add, bias.reshape([1]));
                (Some(row), None)
            }
            other => (None, other),
        };
        let bias = self.constant(bias.unwrap_or_else(|| Expression::filled(0.0, [out])));
        inputs.push(self.stored(bias, &[0])?);
        let recipe = Recipe::new(Code::FullyConnected, OpKind::Linear)
            .options(Options::FullyConnected)
            .attributes(Attributes::new().with_int("trans_b", 1));
        let y = self.emit(recipe, inputs, shape, wanted, Precision::F32);
        match later {
            Some(bias) => {
                let bias = self.constant(bias);
                self.add(y, bias)
            }
            None => Ok(y),
        }
    }

    pub(super) fn matmul(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let attributes = call.attributes;
        let (mut a, mut b) = (call.inputs[0], *call.inputs.get(1).ok_or("it has one input")?);
        for (name, operand) in [("trans_a", &mut a), ("trans_b", &mut b)] {
            if attributes.int(name) == Some(1) {
                let rank = self.rank(*operand);
                if rank == 0 {
                    return Err("it reads a tensor without dimensions".to_owned());
                }
                let swapped: Vec<usize> =
                    (0..rank.saturating_sub(2)).chain([rank - 1, rank.saturating_sub(2)]).collect();
                *operand = self.transpose(*operand, &swapped)?;
            }
        }
        let mut y = self.product(a, b)?;
        if let Some(alpha) = attributes.float("alpha").filter(|&v| v != 1.0) {
            y = self.mul_number(y, alpha)?;
        }
        if let Some(&bias) = call.inputs.get(2) {
            let bias = match attributes.float("beta").filter(|&v| v != 1.0) {
                Some(beta) => self.mul_number(bias, beta)?,
                None => bias,
            };
            y = self.add(y, bias)?;
        }
        let wanted = self.output_shape(call)?;
        self.reshape_if_needed(y, &wanted)
    }

    pub(super) fn reshape_if_needed(
        &mut self,
        x: VarId,
        shape: &[usize],
    ) -> Result<VarId, Refusal> {
        if self.shape(x) == shape { Ok(x) } else { self.reshape(x, shape) }
    }

    /// Product of two tensors as numpy's matmul; vectors become matrices, which the caller reshapes
    /// away.
    fn product(&mut self, a: VarId, b: VarId) -> Result<VarId, Refusal> {
        let (mut a, mut b) = (a, b);
        if self.rank(a) == 0 || self.rank(b) == 0 {
            return Err("it reads a tensor without dimensions".to_owned());
        }
        if self.rank(a) == 1 {
            let shape = [1, self.shape(a)[0]];
            a = self.reshape(a, &shape)?;
        }
        if self.rank(b) == 1 {
            let shape = [self.shape(b)[0], 1];
            b = self.reshape(b, &shape)?;
        }
        if let Some(weight) = self.expression(b).filter(|w| w.shape().len() == 2) {
            return self.fully_connected(a, weight.transpose(&[1, 0]), None);
        }
        let rank = self.rank(a).max(self.rank(b));
        let batch = crate::shape::broadcast(
            &self.shape(a)[..self.rank(a) - 2],
            &self.shape(b)[..self.rank(b) - 2],
        )?;
        let (m, k, n) = (
            self.shape(a)[self.rank(a) - 2],
            self.shape(a)[self.rank(a) - 1],
            self.shape(b)[self.rank(b) - 1],
        );
        let full: Vec<usize> = batch.iter().copied().chain([m, n]).collect();
        if rank > MAX_RANK {
            let count = elements(&batch);
            if self.shape(a)[..self.rank(a) - 2] != batch[..]
                || self.shape(b)[..self.rank(b) - 2] != batch[..]
            {
                return Err(format!("a product of rank {rank} with broadcasting has no operator"));
            }
            a = self.reshape(a, &[count, m, k])?;
            b = self.reshape(b, &[count, k, n])?;
            let y = self.batch_matmul(a, b, vec![count, m, n])?;
            return self.reshape(y, &full);
        }
        self.batch_matmul(a, b, full)
    }

    fn batch_matmul(&mut self, a: VarId, b: VarId, shape: Vec<usize>) -> Result<VarId, Refusal> {
        let left = self.stored(a, &layout::plain(self.rank(a)))?;
        let rank = self.rank(b);
        let swapped: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        // The right side may lie transposed: [.., n, k] in memory.
        let transposed = !self.is_constant(b) && {
            let has = |layout: &[usize]| self.vars[b].stored.iter().any(|(l, _)| *l == layout);
            let near = |layout: &[usize]| {
                self.vars[b]
                    .stored
                    .iter()
                    .any(|(l, _)| layout::same_memory(self.shape(b), l, layout))
            };
            let plain = layout::plain(rank);
            !has(&plain) && (has(&swapped) || (!near(&plain) && near(&swapped)))
        };
        let mut attributes = Attributes::new();
        let right = if transposed {
            attributes = attributes.with_int("trans_b", 1);
            self.stored(b, &swapped)?
        } else {
            self.stored(b, &layout::plain(rank))?
        };
        let layout = layout::plain(shape.len());
        let recipe = Recipe::new(Code::BatchMatMul, OpKind::MatMul)
            .options(Options::BatchMatMul { transpose_right: transposed })
            .attributes(attributes);
        Ok(self.emit(recipe, vec![left, right], shape, layout, Precision::F32))
    }

    /// A sum over products of two tensors: their dimensions are brought in the order batch, own,
    /// contracted, and multiplied as matrices.
    pub(super) fn einsum(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let equation = call.attributes.text("equation").unwrap_or_default();
        let refuse = || format!("the equation `{equation}` has no operators");
        let (operands, result) = equation.split_once("->").ok_or_else(refuse)?;
        let terms: Vec<Vec<char>> = operands.split(',').map(|t| t.chars().collect()).collect();
        let result: Vec<char> = result.chars().collect();
        let ([left, right], [a, b]) = (&terms[..], &call.inputs[..]) else { return Err(refuse()) };
        let plain = |term: &[char]| {
            term.iter().all(char::is_ascii_alphabetic)
                && term.iter().enumerate().all(|(i, c)| !term[..i].contains(c))
        };
        if !plain(left)
            || !plain(right)
            || !plain(&result)
            || left.len() != self.rank(*a)
            || right.len() != self.rank(*b)
        {
            return Err(refuse());
        }
        let pick = |term: &[char], test: &dyn Fn(&char) -> bool| {
            term.iter().copied().filter(|c| test(c)).collect::<Vec<char>>()
        };
        let batch = pick(left, &|c| right.contains(c) && result.contains(c));
        let contracted = pick(left, &|c| right.contains(c) && !result.contains(c));
        let (rows, columns) =
            (pick(left, &|c| !right.contains(c)), pick(right, &|c| !left.contains(c)));
        if rows.iter().chain(&columns).any(|c| !result.contains(c)) || contracted.is_empty() {
            return Err(refuse());
        }
        let extent = |c: &char| {
            left.iter()
                .position(|l| l == c)
                .map(|d| self.shape(*a)[d])
                .or_else(|| right.iter().position(|r| r == c).map(|d| self.shape(*b)[d]))
        };
        let sizes = |labels: &[char]| labels.iter().filter_map(extent).collect::<Vec<usize>>();
        let count = |labels: &[char]| elements(&sizes(labels));
        let (batches, m, k, n) = (sizes(&batch), count(&rows), count(&contracted), count(&columns));
        let full: Vec<usize> =
            batches.iter().copied().chain(sizes(&rows)).chain(sizes(&columns)).collect();
        let order = |term: &[char], wanted: &[&[char]]| {
            wanted
                .iter()
                .flat_map(|w| w.iter())
                .filter_map(|c| term.iter().position(|t| t == c))
                .collect::<Vec<usize>>()
        };
        let (first, second) = (
            order(left, &[&batch, &rows, &contracted]),
            order(right, &[&batch, &contracted, &columns]),
        );
        let shaped = |ends: [usize; 2]| batches.iter().copied().chain(ends).collect::<Vec<usize>>();
        let (left_shape, right_shape) = (shaped([m, k]), shaped([k, n]));
        let produced: Vec<char> = [batch, rows, columns].concat();
        let a = self.transpose(*a, &first)?;
        let a = self.reshape_if_needed(a, &left_shape)?;
        let b = self.transpose(*b, &second)?;
        let b = self.reshape_if_needed(b, &right_shape)?;
        let y = self.product(a, b)?;
        let y = self.reshape_if_needed(y, &full)?;
        let back: Vec<usize> =
            result.iter().filter_map(|c| produced.iter().position(|p| p == c)).collect();
        self.transpose(y, &back)
    }
}

//! The order in which rten runs operators (its `graph/planner.rs`), and which reshapes must copy in
//! that order.

use super::program::{Op, Program};
use crate::OpKind;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Operators that the outputs need, each after its inputs: depth first from the outputs.
pub(super) fn depth_first(program: &Program) -> Vec<usize> {
    let mut order = Vec::new();
    let (mut opened, mut done) = (vec![false; program.ops.len()], vec![false; program.ops.len()]);
    let mut stack: Vec<usize> = program
        .outputs
        .iter()
        .rev()
        .filter_map(|&output| Some(program.source(output)?.0))
        .collect();
    while let Some(&index) = stack.last() {
        let needs = program.op(index).into_iter().flat_map(|op| op.inputs.iter().rev());
        if !std::mem::replace(&mut opened[index], true) {
            stack.extend(
                needs
                    .filter_map(|&input| Some(program.source(input)?.0))
                    .filter(|&need| !opened[need]),
            );
        } else {
            stack.pop();
            if !std::mem::replace(&mut done[index], true) {
                order.push(index);
            }
        }
    }
    order
}

/// The order rten runs the program in: of the operators that are ready, the first that cannot work
/// in place, else the first.
pub(super) fn execution_order(program: &Program) -> Vec<usize> {
    let initial = depth_first(program);
    // Operators that are not needed wait for ever.
    let mut missing = vec![usize::MAX; program.ops.len()];
    let mut readers: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new(); program.values.len()];
    for &index in &initial {
        missing[index] = 0;
        for &input in program.op(index).into_iter().flat_map(|op| &op.inputs) {
            readers[input.0 as usize].push(index);
            missing[index] += usize::from(program.source(input).is_some());
        }
    }
    let mut ready = Ready::default();
    initial
        .iter()
        .filter(|&&index| missing[index] == 0)
        .for_each(|&index| ready.push(program, index));
    let mut order = Vec::with_capacity(initial.len());
    while let Some(index) = ready.pop() {
        order.push(index);
        for output in program.op(index).into_iter().flat_map(|op| &op.outputs) {
            for &reader in &readers[output.0 as usize] {
                missing[reader] -= 1;
                if missing[reader] == 0 {
                    ready.push(program, reader);
                }
            }
        }
    }
    order
}

/// Operators that are ready, in the order in which they came to be.
#[derive(Default)]
struct Ready {
    in_place: VecDeque<usize>,
    elsewhere: VecDeque<usize>,
}

impl Ready {
    fn push(&mut self, program: &Program, index: usize) {
        let elsewhere = program.op(index).is_some_and(|op| !can_work_in_place(op));
        if elsewhere { &mut self.elsewhere } else { &mut self.in_place }.push_back(index);
    }

    fn pop(&mut self) -> Option<usize> {
        self.elsewhere.pop_front().or_else(|| self.in_place.pop_front())
    }
}

/// For each operator of `order`: is it a reshape that must copy, because its input is a weight, an
/// input of the model, or needed again?
pub(super) fn copying_reshapes(program: &Program, order: &[usize]) -> Vec<bool> {
    let mut uses = vec![0usize; program.values.len()];
    for input in order
        .iter()
        .filter_map(|&index| program.op(index))
        .flat_map(|op| &op.inputs)
        .chain(&program.outputs)
    {
        uses[input.0 as usize] += 1;
    }
    let mut result = Vec::with_capacity(order.len());
    for op in order.iter().map(|&index| program.op(index)) {
        let reshaped = op.filter(|op| op.kind == OpKind::Reshape).and_then(|op| op.inputs.first());
        result.push(
            reshaped.is_some_and(|input| {
                program.source(*input).is_none() || uses[input.0 as usize] != 1
            }),
        );
        for input in op.into_iter().flat_map(|op| &op.inputs) {
            let count = &mut uses[input.0 as usize];
            *count = count.saturating_sub(1);
        }
    }
    result
}

/// Whether rten's operator can write its output over its first input.
fn can_work_in_place(op: &Op) -> bool {
    use OpKind::{
        Abs, Add, BatchNorm, Cast, Clip, Concat, Cos, Div, Elu, Erf, Exp, Expand, Gelu, GeluTanh,
        HardSigmoid, HardSwish, Identity, InstanceNorm, LeakyRelu, Log, LpNorm, Mul, Neg, Pow,
        Reciprocal, Relu, Reshape, Resize, Round, ScatterNd, Sigmoid, Silu, Sin, Slice, Softmax,
        Softplus, Sqrt, Sub, Tanh, Tile,
    };
    if op.permuted.iter().any(|(position, _)| *position == 0) {
        return false;
    }
    matches!(
        op.kind,
        Abs | Add
            | BatchNorm
            | Cast
            | Clip
            | Concat
            | Cos
            | Div
            | Elu
            | Erf
            | Exp
            | Expand
            | Gelu
            | GeluTanh
            | HardSigmoid
            | HardSwish
            | Identity
            | InstanceNorm
            | LeakyRelu
            | Log
            | LpNorm
            | Mul
            | Neg
            | Pow
            | Reciprocal
            | Relu
            | Reshape
            | Resize
            | Round
            | ScatterNd
            | Sigmoid
            | Silu
            | Sin
            | Slice
            | Softmax
            | Softplus
            | Sqrt
            | Sub
            | Tanh
            | Tile
    )
}

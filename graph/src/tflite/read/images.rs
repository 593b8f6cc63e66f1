//! [`images`]: which tensors of a model are images, stored N, H, W, C.

use super::model::{Model, Operator};
use crate::tflite::schema::Code;

/// What an operator does with the order of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// It reads and writes images.
    Window,
    /// It takes any order, the same for all its tensors of four dimensions.
    Any,
    /// Its tensors are in the order of the file.
    Stored,
}

fn order(operator: &Operator<'_>) -> Order {
    match Code::numbered(operator.code) {
        Some(
            Code::Conv
            | Code::DepthwiseConv
            | Code::TransposeConv
            | Code::AveragePool
            | Code::MaxPool
            | Code::ResizeBilinear
            | Code::ResizeNearest
            | Code::DepthToSpace
            | Code::SpaceToDepth,
        ) => Order::Window,
        Some(
            Code::Reshape
            | Code::Transpose
            | Code::FullyConnected
            | Code::BatchMatMul
            | Code::Gather
            | Code::GatherNd
            | Code::ScatterNd
            | Code::TopK
            | Code::ArgMax
            | Code::ArgMin
            | Code::CumSum,
        )
        | None => Order::Stored,
        Some(_) => Order::Any,
    }
}

/// The tensor that a window reads as an image.
fn window_input(operator: &Operator<'_>) -> Option<usize> {
    let place = if operator.code == Code::TransposeConv.number() { 2 } else { 0 };
    operator.inputs.get(place).copied().flatten()
}

/// Times that what is known of tensors is passed on along all operators.
const MOST_ROUNDS: usize = 16;

/// What is known of a tensor of four dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// An image, which graphs have channels first.
    Image,
    /// Its last dimension is computed over, so that graphs have it in the order of the file.
    Stored,
}

/// Whether an operator computes over the last dimension alone, as normalisations over channels do.
fn is_over_last(model: &Model<'_>, operator: &Operator<'_>) -> bool {
    let Some(code) = Code::numbered(operator.code) else { return false };
    let axes = || {
        let tensor = &model.tensors[operator.inputs.get(1).copied().flatten()?];
        if tensor.elements() == 1 { tensor.ints() } else { None }
    };
    match code {
        Code::FullyConnected => true,
        Code::Mean | Code::Sum | Code::ReduceMax | Code::ReduceMin | Code::ReduceProd => {
            axes().is_some_and(|axes| axes == [3] || axes == [-1])
        }
        _ => false,
    }
}

/// The state of what an operator writes that takes any order. An image and a tensor in the order of
/// the file make an image where they are equally large, as in residual blocks, and none where one
/// is broadcast, as a mean over channels is. A sum of two in the order of the file may be an image.
fn joined(model: &Model<'_>, operator: &Operator<'_>, states: &[State]) -> State {
    let shape = operator.outputs.first().map(|id| &model.tensors[*id].shape);
    let inputs = || operator.inputs.iter().flatten();
    let is_broadcast =
        |id: &&usize| states[**id] == State::Stored && Some(&model.tensors[**id].shape) != shape;
    let has = |state| inputs().any(|id| states[*id] == state);
    let is_sum = || {
        operator.code == Code::Add.number()
            && inputs().all(|id| {
                let tensor = &model.tensors[*id];
                tensor.data.is_none() && Some(&tensor.shape) == shape
            })
    };
    match (has(State::Image), has(State::Stored)) {
        (true, true) if inputs().any(|id| is_broadcast(&id)) => State::Stored,
        (true, _) => State::Image,
        (false, true) if !is_sum() => State::Stored,
        (false, _) => State::Unknown,
    }
}

/// For each tensor, whether it is an image.
pub(super) fn images(model: &Model<'_>) -> Vec<bool> {
    let can_be = |id: usize| {
        let tensor = &model.tensors[id];
        tensor.shape.len() == 4 && tensor.data.is_none()
    };
    let mut states = vec![State::Unknown; model.tensors.len()];
    for _ in 0..MOST_ROUNDS {
        let before = states.clone();
        for operator in &model.operators {
            let written = match order(operator) {
                _ if is_over_last(model, operator) => State::Stored,
                Order::Window => State::Image,
                Order::Any => joined(model, operator, &states),
                Order::Stored => State::Unknown,
            };
            for &id in &operator.outputs {
                if can_be(id) && states[id] == State::Unknown {
                    states[id] = written;
                }
            }
        }
        for operator in model.operators.iter().rev() {
            let read: Vec<usize> = match order(operator) {
                Order::Window => window_input(operator).into_iter().collect(),
                Order::Any if operator.outputs.iter().any(|id| states[*id] == State::Image) => {
                    operator.inputs.iter().flatten().copied().collect()
                }
                _ => Vec::new(),
            };
            for id in read {
                if can_be(id) && states[id] == State::Unknown {
                    states[id] = State::Image;
                }
            }
        }
        if states == before {
            break;
        }
    }
    states.into_iter().map(|state| state == State::Image).collect()
}

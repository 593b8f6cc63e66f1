//! Writes a program as the bytes of a .tflite file: a FlatBuffer with the identifier `TFL3`. Tables
//! are written by field number; a field's place in its table is 4 + 2 * number.

use super::TfliteError;
use super::program::{Operation, Payload, Program, Quantization, Tensor};
use super::schema::{Code, Options, Padding, element_type};
use super::weights::Weights;
use crate::Budget;
use crate::Precision;
use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};
use std::collections::HashMap;

type Builder<'a> = FlatBufferBuilder<'a>;
type Table = WIPOffset<TableFinishedWIPOffset>;

const IDENTIFIER: &str = "TFL3";
const SCHEMA_VERSION: u32 = 3;
/// FlatBuffers address 2 GB; operators and names need some of it.
const MOST_BYTES: u64 = (1 << 31) - (1 << 26);

const fn slot(number: u16) -> u16 {
    4 + 2 * number
}

/// The bytes of a program with these weights.
///
/// # Errors
/// [`TfliteError`] where a weight is absent, or the file would be larger than the format allows.
pub(super) fn write(
    program: &Program,
    weights: &Weights,
    budget: &Budget,
) -> Result<Vec<u8>, TfliteError> {
    let constants = program.tensors.iter().filter(|t| t.payload != Payload::Activation);
    let size = constants.fold(0u64, |sum, t| sum.saturating_add(t.spec().size_bytes()));
    if size > MOST_BYTES {
        return Err(TfliteError::Weights {
            reason: format!(
                "its weights have {size} bytes; one .tflite file holds at most {MOST_BYTES}"
            ),
        });
    }
    let mut builder = Builder::with_capacity(size as usize + (1 << 16));
    // Buffer 0 is empty by convention: that of every tensor without values.
    let mut buffers = vec![empty(&mut builder)];
    let mut tensors = Vec::with_capacity(program.tensors.len());
    for one in &program.tensors {
        let number = match bytes(one, weights, budget)? {
            Some(data) => {
                buffers.push(buffer(&mut builder, &data));
                buffers.len() as u32 - 1
            }
            None => 0,
        };
        tensors.push(tensor(&mut builder, one, number));
    }
    let mut codes: Vec<Code> = Vec::new();
    let mut index: HashMap<Code, u32> = HashMap::new();
    let mut operators = Vec::with_capacity(program.operations.len());
    for operation in &program.operations {
        let number = *index.entry(operation.code).or_insert_with(|| {
            codes.push(operation.code);
            codes.len() as u32 - 1
        });
        operators.push(operator(&mut builder, operation, number));
    }
    let subgraph = subgraph(&mut builder, program, &tensors, &operators);
    let subgraphs = builder.create_vector(&[subgraph]);
    let codes: Vec<Table> =
        codes.into_iter().map(|code| operator_code(&mut builder, code, program)).collect();
    let codes = builder.create_vector(&codes);
    let buffers = builder.create_vector(&buffers);
    let description = builder.create_string("vitempo");
    let start = builder.start_table();
    builder.push_slot_always(slot(0), SCHEMA_VERSION);
    builder.push_slot_always(slot(1), codes);
    builder.push_slot_always(slot(2), subgraphs);
    builder.push_slot_always(slot(3), description);
    builder.push_slot_always(slot(4), buffers);
    let model = builder.end_table(start);
    builder.finish(model, Some(IDENTIFIER));
    Ok(builder.finished_data().to_vec())
}

fn empty(builder: &mut Builder<'_>) -> Table {
    let start = builder.start_table();
    builder.end_table(start)
}

/// Kernels read constants in place and need them aligned to 16 bytes: they are pushed in blocks of
/// as many.
#[derive(Clone, Copy)]
struct Block([u8; 16]);

impl flatbuffers::Push for Block {
    type Output = [u128; 1];

    unsafe fn push(&self, target: &mut [u8], _: usize) {
        target.copy_from_slice(&self.0);
    }

    fn size() -> usize {
        16
    }

    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(16)
    }
}

fn buffer(builder: &mut Builder<'_>, data: &[u8]) -> Table {
    builder.start_vector::<Block>(data.len().div_ceil(16));
    for chunk in data.chunks(16).rev() {
        let mut block = Block([0; 16]);
        block.0[..chunk.len()].copy_from_slice(chunk);
        builder.push(block);
    }
    let vector = builder.end_vector::<u8>(data.len());
    let start = builder.start_table();
    builder.push_slot_always(slot(0), vector);
    builder.end_table(start)
}

/// The values of a constant; `None` for computed tensors.
fn bytes(
    tensor: &Tensor,
    weights: &Weights,
    budget: &Budget,
) -> Result<Option<Vec<u8>>, TfliteError> {
    Ok(match &tensor.payload {
        Payload::Activation => None,
        Payload::Bytes(bytes) => Some(bytes.clone()),
        Payload::Ints(values) => {
            budget.bytes((values.len() as u64).saturating_mul(8))?;
            Some(match tensor.precision {
                Precision::Bool | Precision::I8 | Precision::U8 => {
                    values.iter().map(|v| v as u8).collect()
                }
                Precision::F32 => values.iter().flat_map(|v| (v as f32).to_le_bytes()).collect(),
                _ => values
                    .iter()
                    .flat_map(|v| {
                        (v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32).to_le_bytes()
                    })
                    .collect(),
            })
        }
        Payload::Weight(expression) => {
            let data = expression.evaluate(weights, budget)?.data;
            Some(match tensor.precision {
                Precision::Bool => data.iter().map(|&v| u8::from(v != 0.0)).collect(),
                Precision::I32 => data.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect(),
                _ => data.iter().flat_map(|v| v.to_le_bytes()).collect(),
            })
        }
    })
}

fn tensor(builder: &mut Builder<'_>, tensor: &Tensor, buffer: u32) -> Table {
    let shape: Vec<i32> =
        tensor.shape.iter().map(|&d| i32::try_from(d).unwrap_or(i32::MAX)).collect();
    let shape = builder.create_vector(&shape);
    let name = builder.create_string(&tensor.name);
    let quantization = tensor.quantization.as_ref().map(|q| quantization(builder, q));
    let start = builder.start_table();
    builder.push_slot_always(slot(0), shape);
    builder.push_slot_always(slot(1), element_type(tensor.precision));
    builder.push_slot_always(slot(2), buffer);
    builder.push_slot_always(slot(3), name);
    if let Some(quantization) = quantization {
        builder.push_slot_always(slot(4), quantization);
    }
    builder.push_slot_always(slot(8), true);
    builder.end_table(start)
}

/// The quantisation of a tensor.
fn quantization(builder: &mut Builder<'_>, quantization: &Quantization) -> Table {
    let scales: Vec<f32> = quantization.scales.iter().map(|&s| s as f32).collect();
    let scales = builder.create_vector(&scales);
    let zero_points =
        builder.create_vector(&vec![quantization.zero_point; quantization.scales.len()]);
    let start = builder.start_table();
    builder.push_slot_always(slot(2), scales);
    builder.push_slot_always(slot(3), zero_points);
    builder.push_slot_always(slot(6), quantization.axis as i32);
    builder.end_table(start)
}

/// Operators beyond number 127 are named in the newer field only.
fn operator_code(builder: &mut Builder<'_>, code: Code, program: &Program) -> Table {
    let version = program
        .operations
        .iter()
        .filter(|o| o.code == code)
        .map(|o| version(program, o))
        .max()
        .unwrap_or(1);
    let start = builder.start_table();
    builder.push_slot_always(slot(0), code.number().min(127) as i8);
    builder.push_slot_always(slot(2), version);
    builder.push_slot_always(slot(3), code.number());
    builder.end_table(start)
}

/// The least version of an operator with the used features.
fn version(program: &Program, operation: &Operation) -> i32 {
    let rank = operation.inputs.first().map_or(0, |&i| program.tensors[i].shape.len());
    let integers =
        operation.inputs.first().is_some_and(|&i| program.tensors[i].precision == Precision::I8);
    match operation.code {
        Code::FullyConnected => 5,
        Code::Conv | Code::DepthwiseConv if integers => 3,
        Code::Add
        | Code::MaxPool
        | Code::Mean
        | Code::Pad
        | Code::Transpose
        | Code::Dequantize
        | Code::Split
            if integers && rank <= 4 =>
        {
            2
        }
        Code::ResizeBilinear | Code::ResizeNearest => 3,
        Code::TransposeConv => 3,
        Code::BroadcastTo | Code::DepthwiseConv | Code::Softmax | Code::Mean | Code::Sum => 2,
        Code::Gather if matches!(operation.options, Options::Gather { batch_dims, .. } if batch_dims > 0) => {
            5
        }
        Code::Transpose if rank > 4 => 4,
        Code::Slice if rank > 4 => 5,
        _ => 1,
    }
}

fn subgraph(
    builder: &mut Builder<'_>,
    program: &Program,
    tensors: &[Table],
    operators: &[Table],
) -> Table {
    let tensors = builder.create_vector(tensors);
    let ids =
        |ports: &[(usize, super::Port)]| ports.iter().map(|(id, _)| *id as i32).collect::<Vec<_>>();
    let inputs = builder.create_vector(&ids(&program.inputs));
    let outputs = builder.create_vector(&ids(&program.outputs));
    let operators = builder.create_vector(operators);
    let name = builder.create_string("main");
    let start = builder.start_table();
    builder.push_slot_always(slot(0), tensors);
    builder.push_slot_always(slot(1), inputs);
    builder.push_slot_always(slot(2), outputs);
    builder.push_slot_always(slot(3), operators);
    builder.push_slot_always(slot(4), name);
    builder.end_table(start)
}

fn operator(builder: &mut Builder<'_>, operation: &Operation, code: u32) -> Table {
    let ids = |ids: &[usize]| ids.iter().map(|&id| id as i32).collect::<Vec<_>>();
    let inputs = builder.create_vector(&ids(&operation.inputs));
    let outputs = builder.create_vector(&ids(&operation.outputs));
    let options = options(builder, operation);
    let start = builder.start_table();
    builder.push_slot_always(slot(0), code);
    builder.push_slot_always(slot(1), inputs);
    builder.push_slot_always(slot(2), outputs);
    if let Some((kind, options)) = options {
        builder.push_slot_always(slot(3), kind);
        builder.push_slot_always(slot(4), options);
    }
    builder.end_table(start)
}

/// One field of an options table.
enum Field {
    I8(u16, i8),
    I32(u16, i32),
    F32(u16, f32),
    Bool(u16, bool),
}

fn padding(padding: Padding) -> i8 {
    padding as i8
}

/// The options table of an operation and its number in the schema's `BuiltinOptions`.
fn options(builder: &mut Builder<'_>, operation: &Operation) -> Option<(u8, Table)> {
    use Field::{Bool, F32, I8, I32};
    let fused = operation.fused as i8;
    let activation = |number: u8| Some((number, vec![I8(0, fused)]));
    let (number, fields) = match &operation.options {
        Options::Conv { padding: p, strides: [h, w], dilations: [dh, dw], multiplier: Some(m) } => {
            (
                2,
                vec![
                    I8(0, padding(*p)),
                    I32(1, *w),
                    I32(2, *h),
                    I32(3, *m),
                    I8(4, fused),
                    I32(5, *dw),
                    I32(6, *dh),
                ],
            )
        }
        Options::Conv { padding: p, strides: [h, w], dilations: [dh, dw], .. } => {
            let number = if operation.code == Code::TransposeConv { 49 } else { 1 };
            let mut fields = vec![I8(0, padding(*p)), I32(1, *w), I32(2, *h), I8(3, fused)];
            if number == 1 {
                fields.extend([I32(4, *dw), I32(5, *dh)]);
            }
            (number, fields)
        }
        Options::Pool { padding: p, strides: [h, w], filter: [fh, fw] } => (
            5,
            vec![
                I8(0, padding(*p)),
                I32(1, *w),
                I32(2, *h),
                I32(3, *fw),
                I32(4, *fh),
                I8(5, fused),
            ],
        ),
        Options::FullyConnected => (8, vec![I8(0, fused), Bool(2, true)]),
        Options::Softmax => (9, vec![F32(0, 1.0)]),
        Options::Concat { axis } => (10, vec![I32(0, *axis), I8(1, fused)]),
        Options::Resize { align_corners, half_pixel } if operation.code == Code::ResizeBilinear => {
            (15, vec![Bool(2, *align_corners), Bool(3, *half_pixel)])
        }
        Options::Resize { align_corners, half_pixel } => {
            (74, vec![Bool(0, *align_corners), Bool(1, *half_pixel)])
        }
        Options::Reshape { shape } => {
            let shape = builder.create_vector(shape);
            let start = builder.start_table();
            builder.push_slot_always(slot(0), shape);
            return Some((17, builder.end_table(start)));
        }
        Options::Reduce { keep_dims } => (27, vec![Bool(0, *keep_dims)]),
        Options::StridedSlice { begin_mask, end_mask } => {
            (32, vec![I32(0, *begin_mask), I32(1, *end_mask)])
        }
        Options::Split { parts } if operation.code == Code::Split => (35, vec![I32(0, *parts)]),
        Options::Split { parts } => (79, vec![I32(0, *parts)]),
        Options::Gather { axis, batch_dims } => (23, vec![I32(0, *axis), I32(1, *batch_dims)]),
        Options::Cast { from, to } => {
            (37, vec![I8(0, element_type(*from)), I8(1, element_type(*to))])
        }
        Options::LeakyRelu { alpha } => (75, vec![F32(0, *alpha)]),
        Options::MirrorPad { mode } => (77, vec![I8(0, *mode)]),
        Options::BatchMatMul { transpose_right } => {
            (101, vec![Bool(0, false), Bool(1, *transpose_right)])
        }
        Options::CumSum { exclusive, reverse } => {
            (102, vec![Bool(0, *exclusive), Bool(1, *reverse)])
        }
        Options::Gelu { approximate } => (116, vec![Bool(0, *approximate)]),
        Options::Block { size } => {
            (if operation.code == Code::DepthToSpace { 94 } else { 19 }, vec![I32(0, *size)])
        }
        Options::ArgMax { to } => {
            (if operation.code == Code::ArgMin { 57 } else { 40 }, vec![I8(0, element_type(*to))])
        }
        Options::None => match operation.code {
            Code::Add => activation(11)?,
            Code::Mul => activation(21)?,
            Code::Sub => activation(28)?,
            Code::Div => activation(29)?,
            _ => return None,
        },
    };
    let start = builder.start_table();
    for field in fields {
        match field {
            I8(n, v) => builder.push_slot_always(slot(n), v),
            I32(n, v) => builder.push_slot_always(slot(n), v),
            F32(n, v) => builder.push_slot_always(slot(n), v),
            Bool(n, v) => builder.push_slot_always(slot(n), v),
        }
    }
    Some((number, builder.end_table(start)))
}

//! [`Model`]: tensors and operators of a .tflite file as its tables have them.

use super::binary::{Damage, Table};
use super::error::Fault;
use crate::{Budget, Precision};

/// Most dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;
/// Memory for a tensor and for what is known of it: lists may name one table many times.
const TENSOR_BYTES: u64 = 256;
/// Memory for one input or output of an operator.
const PLACE_BYTES: u64 = 16;

/// One tensor.
#[derive(Clone, Debug)]
pub(super) struct Tensor<'a> {
    pub name: &'a str,
    /// As the file stores it: images N, H, W, C.
    pub shape: Vec<usize>,
    pub precision: Precision,
    /// The values of a constant.
    pub data: Option<&'a [u8]>,
    /// Integers that stand for real numbers.
    pub quantized: bool,
}

/// One operator.
#[derive(Clone, Debug)]
pub(super) struct Operator<'a> {
    /// Number in the schema's `BuiltinOperator`.
    pub code: i32,
    /// Name of an operator that the schema does not have.
    pub custom: &'a str,
    /// Places of tensors; `None` for one that is left out.
    pub inputs: Vec<Option<usize>>,
    pub outputs: Vec<usize>,
    pub options: Option<Table<'a>>,
}

/// The first subgraph of a file.
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    pub tensors: Vec<Tensor<'a>>,
    pub operators: Vec<Operator<'a>>,
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
}

impl<'a> Model<'a> {
    /// Reads the tables. Each element of each list is a step of the budget, each operator a node.
    pub(super) fn read(bytes: &'a [u8], budget: &Budget) -> Result<Self, Fault> {
        let root = Table::root(bytes, b"TFL3")?;
        let codes = root.vector(1, 4)?;
        let subgraphs = root.vector(2, 4)?;
        let buffers = root.vector(4, 4)?;
        if subgraphs.tables() == 0 {
            return Err("it has no subgraph".into());
        }
        let main = subgraphs.table(0)?;
        let listed = main.vector(0, 4)?;
        budget.steps(listed.tables() as u64)?;
        budget.bytes(TENSOR_BYTES.saturating_mul(listed.tables() as u64))?;
        let mut tensors = Vec::new();
        for index in 0..listed.tables() {
            let buffer = |index: usize| match index {
                0 => Ok(None),
                _ if index >= buffers.tables() => Err("a tensor names a buffer that is not there"),
                _ => buffers
                    .table(index)?
                    .vector(0, 1)
                    .map(|v| Some(v.data()).filter(|d| !d.is_empty())),
            };
            tensors.push(tensor(&listed.table(index)?, &buffer, budget)?);
        }
        let place = |id: i32| usize::try_from(id).ok().filter(|id| *id < tensors.len());
        let places = |table: &Table<'a>, number: usize| -> Result<Vec<usize>, Fault> {
            let ids = table.vector(number, 4)?.ints();
            budget.steps(ids.len() as u64)?;
            budget.bytes(PLACE_BYTES.saturating_mul(ids.len() as u64))?;
            let known =
                ids.map(|id| place(id).ok_or("an operator names a tensor that is not there"));
            Ok(known.collect::<Result<_, Damage>>()?)
        };
        let listed = main.vector(3, 4)?;
        budget.nodes(listed.tables() as u64)?;
        let mut operators = Vec::new();
        for index in 0..listed.tables() {
            let table = listed.table(index)?;
            let code = usize::try_from(table.int(0, 0)?).unwrap_or(usize::MAX);
            if code >= codes.tables() {
                return Err("an operator has a code that is not there".into());
            }
            let code = codes.table(code)?;
            let ids = table.vector(1, 4)?.ints();
            budget.steps(ids.len() as u64)?;
            budget.bytes(PLACE_BYTES.saturating_mul(ids.len() as u64))?;
            let input = |id: i32| match id {
                -1 => Ok(None),
                id => place(id).map(Some).ok_or("an operator names a tensor that is not there"),
            };
            operators.push(Operator {
                // Newer files have the number in field 3, older ones in field 0.
                code: i32::from(code.byte(0, 0)?).max(code.int(3, 0)?),
                custom: code.text(1)?,
                inputs: ids.map(input).collect::<Result<_, Damage>>()?,
                outputs: places(&table, 2)?,
                options: table.table(4)?,
            });
        }
        let (inputs, outputs) = (places(&main, 1)?, places(&main, 2)?);
        Ok(Self { tensors, operators, inputs, outputs })
    }
}

fn tensor<'a>(
    table: &Table<'a>,
    buffer: &dyn Fn(usize) -> Result<Option<&'a [u8]>, Damage>,
    budget: &Budget,
) -> Result<Tensor<'a>, Fault> {
    let extents = table.vector(0, 4)?.ints();
    if extents.len() > MOST_DIMENSIONS {
        return Err("a tensor has more than 8 dimensions".into());
    }
    budget.steps(extents.len() as u64)?;
    let extent = |d: i32| usize::try_from(d).map_err(|_| "a tensor has a negative extent");
    let name = table.text(3)?;
    // Nodes and values get names of their own, which may all be copies of one in the file.
    budget.bytes(name.len() as u64)?;
    let precision = precision(table.byte(1, 0)?).ok_or_else(|| {
        Fault::from(format!("tensor `{name}` has an element type that is not read"))
    })?;
    let is_integer = matches!(precision, Precision::I8 | Precision::U8 | Precision::I16);
    let scales = match table.table(4)? {
        Some(quantization) => quantization.vector(2, 4)?.data().len(),
        None => 0,
    };
    Ok(Tensor {
        name,
        shape: extents.map(extent).collect::<Result<_, Damage>>()?,
        precision,
        data: buffer(usize::try_from(table.int(2, 0)?).unwrap_or(usize::MAX))?,
        quantized: is_integer && scales > 0,
    })
}

/// The element type with that number in the schema's `TensorType`.
fn precision(number: i8) -> Option<Precision> {
    Some(match number {
        0 => Precision::F32,
        1 => Precision::F16,
        2 => Precision::I32,
        3 => Precision::U8,
        4 => Precision::I64,
        6 => Precision::Bool,
        7 => Precision::I16,
        9 => Precision::I8,
        10 => Precision::F64,
        18 => Precision::Bf16,
        _ => return None,
    })
}

impl<'a> Tensor<'a> {
    /// Number of elements, where an empty dimension counts as one: loops over the others still run.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, &extent| product.saturating_mul(extent.max(1)))
    }

    /// The bytes of a constant that has as many as its shape says. Tensors may share bytes, so that
    /// more than that may not be read for each of them.
    fn sized<const N: usize>(&self) -> Option<&'a [[u8; N]]> {
        let (chunks, rest) = self.data?.as_chunks::<N>();
        (chunks.len() == self.elements() && rest.is_empty()).then_some(chunks)
    }

    /// The whole numbers of a constant.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        Some(match self.precision {
            Precision::I32 => {
                self.sized::<4>()?.iter().map(|c| i32::from_le_bytes(*c).into()).collect()
            }
            Precision::I64 => self.sized::<8>()?.iter().map(|c| i64::from_le_bytes(*c)).collect(),
            Precision::Bool | Precision::U8 => {
                self.sized::<1>()?.iter().map(|[byte]| i64::from(*byte)).collect()
            }
            Precision::I8 => {
                self.sized::<1>()?.iter().map(|[byte]| i64::from(*byte as i8)).collect()
            }
            _ => return None,
        })
    }

    /// The real numbers of a constant.
    pub(super) fn floats(&self) -> Option<Vec<f64>> {
        Some(match self.precision {
            Precision::F32 => {
                self.sized::<4>()?.iter().map(|c| f32::from_le_bytes(*c).into()).collect()
            }
            Precision::F64 => self.sized::<8>()?.iter().map(|c| f64::from_le_bytes(*c)).collect(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: Vec<usize>, precision: Precision, data: &[u8]) -> Tensor<'_> {
        Tensor { name: "t", shape, precision, data: Some(data), quantized: false }
    }

    #[test]
    fn numbers_are_read_where_there_are_as_many_as_the_shape_says() {
        let bytes: Vec<u8> = [7_i32, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let ints = |shape: &[usize]| tensor(shape.to_vec(), Precision::I32, &bytes).ints();
        assert_eq!(ints(&[2]), Some(vec![7, -1]));
        assert_eq!(ints(&[2, 1]), Some(vec![7, -1]));
        assert_eq!((ints(&[1]), ints(&[3]), ints(&[])), (None, None, None));
        let huge = tensor(vec![1 << 31, 1 << 31, 1 << 31, 0], Precision::I32, &bytes);
        assert_eq!((huge.elements(), huge.ints()), (usize::MAX, None));
        assert_eq!(tensor(vec![2], Precision::F32, &bytes).ints(), None);
        assert_eq!(tensor(vec![1], Precision::F64, &bytes).floats().map(|v| v.len()), Some(1));
        assert_eq!(tensor(vec![8], Precision::I8, &bytes).ints().map(|v| v[7]), Some(-1));
    }
}

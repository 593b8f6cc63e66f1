//! Invalid ONNX models: made from bytes, or changed field by field. They stay decodable, so that
//! their faults reach the code that reads operators.

use crate::numbers::NUMBERS;
use arbitrary::{Result, Unstructured};
use vitempo::graph::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};

mod names;

use names::{ATTRIBUTES, DOMAINS, OPERATORS, TEXTS};

/// Element types: float, u8, i8, i32, i64, text, bool, f16, f64, bf16, and none.
const TYPES: &[i32] = &[1, 1, 1, 2, 3, 6, 7, 7, 8, 9, 10, 11, 16, 0];
/// How deep graphs in attributes go.
const DEEPEST: usize = 12;

/// A number: mostly a small one, at times one at which arithmetic goes wrong.
fn number(u: &mut Unstructured<'_>) -> Result<i64> {
    if u.ratio(1, 5)? { u.choose(NUMBERS).copied() } else { u.int_in_range(-2..=9) }
}

fn extent(u: &mut Unstructured<'_>) -> Result<i64> {
    if u.ratio(1, 8)? { number(u) } else { u.choose(&[1, 1, 2, 3, 4, 8, 16, 0]).copied() }
}

fn word(list: &[&str], u: &mut Unstructured<'_>) -> Result<String> {
    u.choose(list).map(|&word| word.to_owned())
}

fn several<T>(
    most: usize,
    u: &mut Unstructured<'_>,
    mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..u.int_in_range(0..=most)?).map(|_| one(u)).collect()
}

/// A tensor, whose data mostly fits its shape.
fn tensor(name: String, u: &mut Unstructured<'_>) -> Result<TensorProto> {
    let dims = several(3, u, extent)?;
    let elements = dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
    let fitting = elements.filter(|n| (0..64).contains(n)).unwrap_or(2);
    let count = if u.ratio(1, 10)? { u.int_in_range(0..=4)? } else { fitting };
    let numbers: Vec<i64> = (0..count).map(|_| number(u)).collect::<Result<_>>()?;
    let data_type = *u.choose(TYPES)?;
    let mut tensor = TensorProto { name, dims, data_type, ..TensorProto::default() };
    match data_type {
        7 => tensor.int64_data = numbers,
        1 => tensor.float_data = numbers.iter().map(|&n| n as f32 / 2.0).collect(),
        11 => tensor.double_data = numbers.iter().map(|&n| n as f64 / 2.0).collect(),
        _ => tensor.int32_data = numbers.iter().map(|&n| n as i32).collect(),
    }
    if u.ratio(1, 12)? {
        tensor.raw_data = several(32, u, |u| u.arbitrary())?;
    }
    tensor.data_location = i32::from(u.ratio(1, 20)?);
    Ok(tensor)
}

fn attribute(depth: usize, u: &mut Unstructured<'_>) -> Result<AttributeProto> {
    let mut attribute = AttributeProto { name: word(ATTRIBUTES, u)?, ..AttributeProto::default() };
    // Types of attributes: 1 float, 2 integer, 3 text, 4 tensor, 5 graph, 6 floats, 7 integers.
    match u.int_in_range(0..=9)? {
        0 => (attribute.r#type, attribute.f) = (1, Some(number(u)? as f32 / 4.0)),
        1..=3 => (attribute.r#type, attribute.i) = (2, Some(number(u)?)),
        4 => (attribute.r#type, attribute.s) = (3, word(TEXTS, u)?.into_bytes()),
        5 => (attribute.r#type, attribute.t) = (4, Some(tensor(String::new(), u)?)),
        6 if depth < DEEPEST => {
            (attribute.r#type, attribute.g) = (5, Some(Box::new(graph(depth + 1, u)?)));
        }
        7 => {
            attribute.r#type = 6;
            attribute.floats = several(5, u, |u| Ok(number(u)? as f32 / 4.0))?;
        }
        _ => (attribute.r#type, attribute.ints) = (7, several(6, u, number)?),
    }
    Ok(attribute)
}

/// The name of a value that is there, or now and then of one that is not.
fn value(known: &[String], u: &mut Unstructured<'_>) -> Result<String> {
    match u.int_in_range(0..=19)? {
        0 => Ok(String::new()),
        1 => Ok("nowhere".to_owned()),
        _ if known.is_empty() => Ok("nothing".to_owned()),
        _ => u.choose(known).cloned(),
    }
}

fn node(
    index: usize,
    known: &[String],
    depth: usize,
    u: &mut Unstructured<'_>,
) -> Result<NodeProto> {
    let outputs = if u.ratio(1, 5)? { u.int_in_range(0..=4)? } else { 1 };
    let input = (0..u.int_in_range(1..=4)?).map(|_| value(known, u)).collect::<Result<_>>()?;
    Ok(NodeProto {
        input,
        output: (0..outputs).map(|n| format!("v{depth}_{index}_{n}")).collect(),
        name: format!("n{index}"),
        op_type: word(OPERATORS, u)?,
        attribute: several(4, u, |u| attribute(depth, u))?,
        domain: if u.ratio(1, 12)? { word(DOMAINS, u)? } else { String::new() },
    })
}

fn described(name: &str, u: &mut Unstructured<'_>) -> Result<ValueInfoProto> {
    let dimension = |u: &mut Unstructured<'_>| {
        let symbolic = u.ratio(1, 20)?;
        Ok(DimensionProto {
            dim_value: (!symbolic).then_some(extent(u)?),
            dim_param: symbolic.then(|| "batch".to_owned()),
        })
    };
    let shape = TensorShapeProto { dim: several(4, u, dimension)? };
    let tensor = TensorTypeProto { elem_type: *u.choose(TYPES)?, shape: Some(shape) };
    let r#type = TypeProto { tensor_type: Some(tensor) };
    Ok(ValueInfoProto { name: name.to_owned(), r#type: Some(r#type) })
}

fn graph(depth: usize, u: &mut Unstructured<'_>) -> Result<GraphProto> {
    let mut known: Vec<String> = (0..3).map(|n| format!("in{depth}_{n}")).collect();
    let input = known.iter().map(|name| described(name, u)).collect::<Result<_>>()?;
    let weights: Vec<String> = (0..3).map(|n| format!("w{depth}_{n}")).collect();
    let initializer = weights.iter().map(|name| tensor(name.clone(), u)).collect::<Result<_>>()?;
    known.extend(weights);
    let mut nodes = Vec::new();
    for index in 0..u.int_in_range(1..=5)? {
        let node = node(index, &known, depth, u)?;
        known.extend(node.output.iter().cloned());
        nodes.push(node);
    }
    let last = value(&known, u)?;
    let output = vec![described(&last, u)?];
    Ok(GraphProto { node: nodes, initializer, input, output, ..GraphProto::default() })
}

/// A model made anew.
///
/// # Errors
/// None that matters: an empty [`Unstructured`] gives its first choices.
pub fn generate(u: &mut Unstructured<'_>) -> Result<ModelProto> {
    let opset = OperatorSetIdProto { domain: String::new(), version: u.int_in_range(7..=23)? };
    Ok(ModelProto {
        ir_version: 9,
        graph: Some(graph(0, u)?),
        opset_import: vec![opset],
        ..ModelProto::default()
    })
}

/// A model with some fields changed.
///
/// # Errors
/// As [`generate`].
pub fn mutate(mut model: ModelProto, u: &mut Unstructured<'_>) -> Result<ModelProto> {
    let opset = u.int_in_range(7..=23)?;
    if u.ratio(1, 10)? {
        model.opset_import.iter_mut().for_each(|import| import.version = opset);
    }
    if let Some(graph) = &mut model.graph {
        for _ in 0..u.int_in_range(1..=4)? {
            step(graph, u)?;
        }
    }
    Ok(model)
}

fn pick<'a, T>(list: &'a mut [T], u: &mut Unstructured<'_>) -> Result<Option<&'a mut T>> {
    let last = list.len().checked_sub(1);
    last.map_or(Ok(None), |last| Ok(list.get_mut(u.int_in_range(0..=last)?)))
}

/// One change.
fn step(graph: &mut GraphProto, u: &mut Unstructured<'_>) -> Result<()> {
    let names = |node: &NodeProto| node.input.iter().chain(&node.output).cloned().collect();
    let known: Vec<String> = match pick(&mut graph.node, u)? {
        Some(node) => names(node),
        None => Vec::new(),
    };
    match u.int_in_range(0..=13)? {
        0..=5 => match pick(&mut graph.node, u)? {
            Some(node) => node_step(node, &known, u)?,
            None => graph.node.push(node(0, &known, 0, u)?),
        },
        6 => {
            let node = node(graph.node.len(), &known, 0, u)?;
            graph.node.push(node);
        }
        7 => {
            let last = graph.node.len().saturating_sub(1);
            let (from, to) = (u.int_in_range(0..=last)?, u.int_in_range(0..=last)?);
            if to < graph.node.len() {
                graph.node.swap(from, to);
            }
        }
        8 => {
            if let Some(at) = graph.node.len().checked_sub(1) {
                graph.node.remove(u.int_in_range(0..=at)?);
            }
        }
        9 | 10 => {
            let value = extent(u)?;
            if let Some(tensor) = pick(&mut graph.initializer, u)? {
                match pick(&mut tensor.dims, u)? {
                    Some(dim) => *dim = value,
                    None => tensor.dims.push(value),
                }
            }
        }
        11 => {
            if let Some(old) = pick(&mut graph.initializer, u)? {
                *old = tensor(old.name.clone(), u)?;
            }
        }
        12 => {
            if let Some(old) = pick(&mut graph.input, u)? {
                *old = described(&old.name.clone(), u)?;
            }
        }
        _ => dimension_step(graph, u)?,
    }
    Ok(())
}

/// An extent, or the element type, of an input.
fn dimension_step(graph: &mut GraphProto, u: &mut Unstructured<'_>) -> Result<()> {
    let value = extent(u)?;
    let input = pick(&mut graph.input, u)?;
    let Some(described) = input.and_then(|i| i.r#type.as_mut()?.tensor_type.as_mut()) else {
        return Ok(());
    };
    if u.ratio(1, 3)? {
        described.elem_type = *u.choose(TYPES)?;
    } else if let Some(shape) = &mut described.shape
        && let Some(dimension) = pick(&mut shape.dim, u)?
    {
        *dimension = DimensionProto { dim_value: Some(value), dim_param: None };
    }
    Ok(())
}

fn node_step(node: &mut NodeProto, known: &[String], u: &mut Unstructured<'_>) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 | 1 => node.op_type = word(OPERATORS, u)?,
        2 => node.attribute.push(attribute(0, u)?),
        3 => {
            if let Some(old) = pick(&mut node.attribute, u)? {
                *old = AttributeProto { name: old.name.clone(), ..attribute(0, u)? };
            }
        }
        4 => {
            let value = number(u)?;
            if let Some(attribute) = pick(&mut node.attribute, u)? {
                match pick(&mut attribute.ints, u)? {
                    Some(int) => *int = value,
                    None => attribute.i = attribute.i.map(|_| value),
                }
            }
        }
        5 => node.input.push(value(known, u)?),
        6 => {
            let other = value(known, u)?;
            if let Some(input) = pick(&mut node.input, u)? {
                *input = other;
            }
        }
        _ => drop(node.input.pop()),
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn some_models_are_read_and_some_are_refused() {
        let mut generator = vitempo::search_space::Generator::new(1);
        let mut outcome = [0, 0];
        for _ in 0..300 {
            let raw: Vec<u8> = (0..256).map(|_| generator.bits() as u8).collect();
            let bytes = generate(&mut Unstructured::new(&raw)).unwrap().encode_to_vec();
            let read = vitempo::graph::onnx::read_bytes("m", &bytes, &Default::default());
            outcome[usize::from(read.is_ok())] += 1;
        }
        assert!(outcome.iter().all(|&count| count > 5), "{outcome:?}");
    }
}

//! Converts inputs and outputs: the graph has images channels first, the engine stores them
//! channels last.

use super::model::Stored;
use crate::{RunOptions, backends::values::OutputValues, inputs};
use vitempo_graph::{Graph, Precision, TensorSpec, tflite::Port};

/// How the engine stores a model's input or output.
pub(super) fn port(port: &Port) -> Stored {
    Stored { shape: port.stored_shape(), precision: port.precision }
}

/// Values for each input, as the engine stores them.
///
/// # Errors
/// A sentence that names the input.
pub(super) fn inputs(
    graph: &Graph,
    ports: &[Port],
    options: &RunOptions,
) -> Result<Vec<(Stored, Vec<u8>)>, String> {
    let fill = |port: &Port| {
        let (index, tensor) = graph.inputs().iter().enumerate().find_map(|(index, &id)| {
            let value = graph.value(id);
            (value.name == port.name).then_some((index, value.tensor.as_ref()))
        })?;
        Some((index, tensor?))
    };
    let values = |p: &Port| {
        let (index, tensor) = fill(p).ok_or_else(|| "it has no static shape".to_owned())?;
        // The graph's own type decides the values, so that all engines get the same.
        let own = inputs::bytes(
            &TensorSpec::new(tensor.shape.clone(), p.precision),
            options.inputs,
            options.seed,
            index,
        )
        .map_err(|e| e.to_string())?;
        let width = p.precision.size_bytes();
        let bytes = permuted(&tensor.shape, &p.layout)
            .flat_map(|at| &own[at * width..(at + 1) * width])
            .copied()
            .collect();
        Ok((port(p), bytes))
    };
    ports
        .iter()
        .map(|p| values(p).map_err(|reason: String| format!("input `{}`: {reason}", p.name)))
        .collect()
}

/// Given values as the engine stores them.
///
/// # Errors
/// A sentence, for values of another shape.
pub(super) fn given(port: &Port, given: &OutputValues) -> Result<Vec<u8>, String> {
    if port.shape != given.shape || given.values.len() != port.shape.iter().product::<usize>() {
        return Err(format!(
            "it has shape {:?}, values of shape {:?} do not fit",
            port.shape, given.shape
        ));
    }
    let own = inputs::encoded(&given.values, port.precision);
    let width = port.precision.size_bytes();
    let place = |at: usize| &own[at * width..(at + 1) * width];
    Ok(permuted(&port.shape, &port.layout).flat_map(place).copied().collect())
}

/// The values of an output in the graph's order.
///
/// # Errors
/// A sentence, for a type that holds no numbers.
pub(super) fn values(port: &Port, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let stored = numbers(port.precision, bytes)
        .ok_or_else(|| format!("output `{}` is of type {}", port.name, port.precision))?;
    let mut values = vec![0.0; stored.len()];
    for (value, at) in stored.into_iter().zip(permuted(&port.shape, &port.layout)) {
        values[at] = value;
    }
    Ok(values)
}

/// Iterates over a tensor in stored order, and returns the place of each element in the order of
/// its own dimensions. `layout` lists the dimensions in stored order.
fn permuted(shape: &[usize], layout: &[usize]) -> impl Iterator<Item = usize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    let stored: Vec<(usize, usize)> = layout.iter().map(|&d| (shape[d], strides[d])).collect();
    let count = shape.iter().product();
    (0..count).map(move |mut index| {
        let mut at = 0;
        for &(extent, stride) in stored.iter().rev() {
            at += index % extent * stride;
            index /= extent;
        }
        at
    })
}

fn numbers(precision: Precision, bytes: &[u8]) -> Option<Vec<f32>> {
    macro_rules! read {
        ($type:ty, $convert:expr) => {
            bytes
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|b| <$type>::from_le_bytes(*b))
                .map($convert)
                .collect()
        };
    }
    Some(match precision {
        Precision::F32 => read!(f32, |v| v),
        Precision::F64 => read!(f64, |v| v as f32),
        Precision::I64 => read!(i64, |v| v as f32),
        Precision::I32 => read!(i32, |v| v as f32),
        Precision::I16 => read!(i16, f32::from),
        Precision::I8 => read!(i8, f32::from),
        Precision::U8 | Precision::Bool => read!(u8, f32::from),
        Precision::F16 | Precision::Bf16 => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vitempo_graph::GraphBuilder;

    fn image(name: &str) -> Port {
        Port {
            name: name.to_owned(),
            shape: vec![1, 2, 2, 3],
            layout: vec![0, 2, 3, 1],
            precision: Precision::F32,
        }
    }

    #[test]
    fn images_are_turned_and_turned_back() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 2, 2, 3]));
        let graph = b.finish(vec![x]).unwrap();
        let options = RunOptions::default();
        let own =
            inputs::float_values(&TensorSpec::f32([1, 2, 2, 3]), options.inputs, options.seed, 0)
                .unwrap();
        let filled = inputs(&graph, &[image("x")], &options).unwrap();
        assert_eq!(filled[0].0, Stored { shape: vec![1, 2, 3, 2], precision: Precision::F32 });
        let first: Vec<f32> = numbers(Precision::F32, &filled[0].1).unwrap();
        assert_eq!(first[..4], [own[0], own[6], own[1], own[7]]);
        assert_eq!(values(&image("x"), &filled[0].1).unwrap(), own);
        assert!(inputs(&graph, &[image("y")], &options).unwrap_err().contains("`y`"));
    }

    #[test]
    fn given_values_come_back_as_they_were() {
        let own: Vec<f32> = (0u8..12).map(f32::from).collect();
        let mut fed = OutputValues { name: "x".into(), shape: vec![1, 2, 2, 3], values: own };
        let bytes = given(&image("x"), &fed).unwrap();
        assert_eq!(values(&image("x"), &bytes).unwrap(), fed.values);
        assert_eq!(numbers(Precision::F32, &bytes).unwrap()[..3], [0.0, 6.0, 1.0]);
        fed.shape = vec![1, 2, 3, 2];
        assert!(given(&image("x"), &fed).unwrap_err().contains("do not fit"));
    }

    #[test]
    fn integers_become_floats() {
        let port = Port {
            name: "y".to_owned(),
            shape: vec![2],
            layout: vec![0],
            precision: Precision::I32,
        };
        assert_eq!(values(&port, &[1, 0, 0, 0, 255, 255, 255, 255]).unwrap(), [1.0, -1.0]);
        assert!(values(&Port { precision: Precision::Bf16, ..port }, &[]).is_err());
    }
}

//! Element types as ONNX numbers them: a graph has no unsigned integers of more than 8 bits.

use super::super::{payload, view};
use super::{Division, FieldValue, Fields, Written};
use crate::Precision;

/// Outputs that are 64-bit integers whatever the inputs are: of these operators all, of others
/// those behind the first.
const INDICES: [&str; 6] = ["ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Shape", "Size"];
/// Operators whose outputs behind the first are indices or counts.
const WITH_INDICES: [&str; 3] = ["MaxPool", "TopK", "Unique"];

impl Division<'_> {
    /// The element type of a value of integers: as the file says, or as that of the input that
    /// decides it; `None` where it is the type of the value's precision.
    pub(super) fn element_type(&self, name: &str) -> Option<i32> {
        let written = self.written;
        let precision = self.precision(name)?;
        if !matches!(precision, Precision::I16 | Precision::I32 | Precision::I64) {
            return None;
        }
        let mut name = name;
        // No value is computed from itself: so many steps are enough.
        for _ in 0..=written.nodes.len() {
            if let Some(declared) = written.declared_type(name) {
                return Some(declared);
            }
            let node = &written.nodes[*written.producer.get(name)?];
            let node: view::NodeView<'_> = view::decode(&written.file[node.range.clone()]).ok()?;
            let is_first = node.output.first() == Some(&name);
            match node.op_type {
                "Cast" => return i32::try_from(node.int("to")?).ok(),
                "Constant" | "ConstantOfShape" => {
                    return Some(node.attribute("value")?.t.as_ref()?.data_type);
                }
                indices if INDICES.contains(&indices) => return None,
                indices if WITH_INDICES.contains(&indices) && !is_first => return None,
                _ => {}
            }
            name = node.input.iter().copied().find(|i| self.precision(i) == Some(precision))?;
        }
        None
    }

    fn precision(&self, name: &str) -> Option<Precision> {
        let value = self.values.get(name).map(|&id| self.graph.value(id));
        let known = value.and_then(|value| Some(value.tensor.as_ref()?.precision));
        known.or_else(|| payload::precision(self.written.declared_type(name)?))
    }
}

impl Written<'_> {
    /// The element type that the file gives a value.
    fn declared_type(&self, name: &str) -> Option<i32> {
        let described = || Some(self.info(name)?.r#type?.tensor_type?.elem_type);
        self.initializer_type(name).or_else(described).filter(|&number| number != 0)
    }

    fn initializer_type(&self, name: &str) -> Option<i32> {
        let field = Fields::new(self.file, self.initializers.get(name)?.clone()).next()?.ok()?;
        let FieldValue::Bytes(tensor) = field.value else { return None };
        let data_type = |number: u64, value: FieldValue| match (number, value) {
            (2, FieldValue::Number(found)) => i32::try_from(found).ok(),
            _ => None,
        };
        let fields = Fields::new(self.file, tensor);
        fields.filter_map(Result::ok).find_map(|field| data_type(field.number, field.value))
    }
}

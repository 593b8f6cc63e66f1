//! ONNX's `Mean` as the operators that define it: the sum of its inputs, divided by their number.

use super::Reader;
use super::spelling::Spelling;
use crate::onnx::{OnnxError, types};
use crate::{Attributes, OpKind, ValueId};

impl Reader<'_> {
    /// Reads a `Mean`.
    pub(super) fn mean(&mut self, index: usize, ids: &[Option<ValueId>]) -> Result<(), OnnxError> {
        let inputs: Option<Vec<ValueId>> = ids.iter().copied().collect();
        self.spell_out(index, |spelling| {
            let inputs = inputs.ok_or_else(|| "an input has no name".to_owned())?;
            let first = inputs.first().and_then(|id| spelling.reader.operand(*id));
            types::check("Mean", first.as_slice())?;
            Ok(vec![spelling.mean(&inputs)?])
        })
    }
}

impl Spelling<'_, '_> {
    fn mean(&mut self, inputs: &[ValueId]) -> Result<ValueId, String> {
        match inputs {
            [] => Err("input 0 is missing".to_owned()),
            [one] => Ok(*one),
            several => {
                let sum = self.step("sum", OpKind::Add, Attributes::new(), several)?;
                self.with_number("mean", OpKind::Div, sum, several.len() as f64)
            }
        }
    }
}

//! ONNX's `Swish` (operator sets 24 and later) as the operators that define it: x times the sigmoid
//! of `alpha` x.

use super::Reader;
use super::spelling::Spelling;
use crate::onnx::{OnnxError, types};
use crate::{Attributes, OpKind, ValueId};

impl Reader<'_> {
    /// Reads a `Swish`.
    pub(super) fn swish(&mut self, index: usize, ids: &[Option<ValueId>]) -> Result<(), OnnxError> {
        let x = ids.first().copied().flatten();
        self.spell_out(index, |spelling| {
            let x = x.ok_or_else(|| "input 0 is missing".to_owned())?;
            let operand = spelling.reader.operand(x);
            types::check("Swish", operand.as_slice())?;
            Ok(vec![spelling.swish(x)?])
        })
    }
}

impl Spelling<'_, '_> {
    fn swish(&mut self, x: ValueId) -> Result<ValueId, String> {
        let scaled = match self.float("alpha").filter(|&alpha| alpha != 1.0) {
            Some(alpha) => self.with_number("scaled", OpKind::Mul, x, alpha)?,
            None => x,
        };
        let gate = self.step("gate", OpKind::Sigmoid, Attributes::new(), &[scaled])?;
        self.step("gated", OpKind::Mul, Attributes::new(), &[x, gate])
    }
}

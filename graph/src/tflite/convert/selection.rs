//! Operators that pick elements.

use super::emit::{Recipe, signed, spoken};
use super::{Call, Converter, Refusal, VarId};
use crate::tflite::expression::Expression;
use crate::tflite::generated::Generated;
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options};
use crate::{Attributes, OpKind, Precision};

impl Converter<'_> {
    /// One index is a slice; several are a GATHER along the dimension, wherever it is stored.
    pub(super) fn gather(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axis = self.axis(call)?;
        let x = call.inputs[0];
        if let Some(index) = call.attributes.int("index") {
            let index = usize::try_from(index).map_err(|_| "its index is negative")?;
            let one = self.slice_one(x, axis, index, 1)?;
            let shape = self.output_shape(call)?;
            return self.reshape(one, &shape);
        }
        let &indices = call.inputs.get(1).ok_or("it has no indices")?;
        self.picked(x, indices, axis)
    }

    /// Elements along one dimension by index; the indices' dimensions take its place.
    pub(super) fn picked(
        &mut self,
        x: VarId,
        indices: VarId,
        axis: usize,
    ) -> Result<VarId, Refusal> {
        let inner = self.shape(indices).to_vec();
        let own = if inner.len() == 1 && !self.is_constant(x) {
            self.layout(x)
        } else {
            layout::plain(self.rank(x))
        };
        let old = self.shape(x);
        let shape: Vec<usize> =
            old[..axis].iter().chain(&inner).chain(&old[axis + 1..]).copied().collect();
        let result = if inner.len() == 1 { own.clone() } else { layout::plain(shape.len()) };
        let inputs =
            vec![self.stored(x, &own)?, self.stored(indices, &layout::plain(inner.len()))?];
        let options = Options::Gather { axis: layout::position(&own, axis) as i32, batch_dims: 0 };
        let attributes = Attributes::new().with_int("axis", spoken(&own, axis));
        let precision = self.vars[x].precision;
        Ok(self.emit(
            Recipe::new(Code::Gather, OpKind::Gather).options(options).attributes(attributes),
            inputs,
            shape,
            result,
            precision,
        ))
    }

    pub(super) fn gather_nd(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        if call.attributes.int("batch_dims").unwrap_or(0) != 0 {
            return Err("a gather with batch dimensions has no operator".to_owned());
        }
        let [x, indices] = call.inputs[..] else { return Err("it has no indices".to_owned()) };
        let shape = self.output_shape(call)?;
        let inputs = vec![
            self.stored(x, &layout::plain(self.rank(x)))?,
            self.stored(indices, &layout::plain(self.rank(indices)))?,
        ];
        let attributes = Attributes::new().with_int("batch_dims", 0);
        let (plain, precision) = (layout::plain(shape.len()), self.vars[x].precision);
        Ok(self.emit(
            Recipe::new(Code::GatherNd, OpKind::GatherNd).attributes(attributes),
            inputs,
            shape,
            plain,
            precision,
        ))
    }

    /// SCATTER_ND starts from zeros: it writes the updates, and ones as a mask, and a SELECT takes
    /// all other elements from the first input.
    pub(super) fn scatter_nd(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        if let Some(reduction) = call.attributes.text("reduction") {
            return Err(format!("TensorFlow Lite does not scatter with reduction `{reduction}`"));
        }
        let [x, indices, updates] = call.inputs[..] else {
            return Err("it has no updates".to_owned());
        };
        let ones = self.constant(Expression::filled(1.0, self.shape(updates)));
        let shape = self.shape(x).to_vec();
        let put = self.scattered(indices, updates, &shape)?;
        let touched = self.scattered(indices, ones, &shape)?;
        let zero = self.scalar(0.0);
        let touched = self.elementwise(
            Recipe::new(Code::Greater, OpKind::Compare).text("op", "Greater"),
            &[touched, zero],
            Precision::Bool,
        )?;
        let precision = self.vars[x].precision;
        self.elementwise(Recipe::new(Code::Select, OpKind::Where), &[touched, put, x], precision)
    }

    fn scattered(
        &mut self,
        indices: VarId,
        updates: VarId,
        shape: &[usize],
    ) -> Result<VarId, Refusal> {
        let inputs = [indices, updates].map(|var| self.stored(var, &layout::plain(self.rank(var))));
        let [indices, values] = inputs;
        let steering = self.vector(&signed(shape));
        let precision = self.vars[updates].precision;
        let recipe = Recipe::new(Code::ScatterNd, OpKind::ScatterNd);
        Ok(self.emit(
            recipe,
            vec![indices?, values?, steering],
            shape.to_vec(),
            layout::plain(shape.len()),
            precision,
        ))
    }

    /// A triangle: a product with ones and zeros.
    pub(super) fn triangle(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let upper = call.attributes.int("upper").unwrap_or(1) != 0;
        let [.., rows, columns] = *self.shape(x) else {
            return Err("its input is not a matrix".to_owned());
        };
        if call.attributes.int("k").unwrap_or(0) != 0 || call.inputs.len() > 1 {
            return Err("a shifted triangle has no operator".to_owned());
        }
        let mask = Expression::generated(Generated::Triangle { upper }, [rows, columns]);
        let mask = self.constant(mask);
        self.mul(x, mask)
    }
}

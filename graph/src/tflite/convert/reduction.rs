//! Reductions and other operators along one dimension.

use super::emit::{Recipe, spoken};
use super::{Call, Converter, Refusal, VarId, numbers};
use crate::tflite::layout;
use crate::tflite::schema::{Code, Options};
use crate::{Attribute, Attributes, OpKind, Precision};

impl Converter<'_> {
    pub(super) fn reduction(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axes = numbers(call.attributes.ints("axes"))?;
        let keep = call.attributes.int("keepdims") != Some(0);
        let x = call.inputs[0];
        let kind = call.node.op.kind.clone();
        let code = match kind {
            OpKind::ReduceL2 => return self.euclidean(x, &axes, keep),
            OpKind::ReduceMean => Code::Mean,
            OpKind::ReduceSum => Code::Sum,
            OpKind::ReduceMax => Code::ReduceMax,
            OpKind::ReduceMin => Code::ReduceMin,
            _ => Code::ReduceProd,
        };
        self.reduce(code, kind, x, &axes, keep)
    }

    pub(super) fn arg_max(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axis = self.axis(call)?;
        let op = call.attributes.text("op").unwrap_or("ArgMax");
        let x = call.inputs[0];
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let along = self.ints(&[layout::position(&own, axis) as i64], vec![]);
        let mut shape = self.shape(x).to_vec();
        shape.remove(axis);
        let attributes = Attributes::new()
            .with_int("axis", spoken(&own, axis))
            .with_int("keepdims", 0)
            .with("op", Attribute::Text(op.to_owned()));
        let code = if op == "ArgMin" { Code::ArgMin } else { Code::ArgMax };
        let recipe = Recipe::new(code, OpKind::ArgMax)
            .options(Options::ArgMax { to: Precision::I32 })
            .attributes(attributes);
        let y = self.emit(
            recipe,
            vec![input, along],
            shape,
            layout::without(&own, &[axis]),
            Precision::I32,
        );
        let wanted = self.output_shape(call)?;
        self.reshape_if_needed(y, &wanted)
    }

    /// The largest elements along the dimension stored last.
    pub(super) fn top_k(&mut self, call: &Call<'_>) -> Result<Vec<VarId>, Refusal> {
        let axis = self.axis(call)?;
        let k = call.attributes.int("k").ok_or("its number of elements is not known")?;
        let count = usize::try_from(k).map_err(|_| "it takes less than no element")?;
        if call.attributes.int("largest") == Some(0) {
            return Err("TensorFlow Lite takes the largest elements, not the smallest".to_owned());
        }
        let x = call.inputs[0];
        let wanted: Vec<usize> =
            self.layout(x).into_iter().filter(|&d| d != axis).chain([axis]).collect();
        let input = self.stored(x, &wanted)?;
        let steering = self.ints(&[k], vec![]);
        let mut shape = self.shape(x).to_vec();
        shape[axis] = count;
        let attributes = Attributes::new().with_int("k", k).with_int("axis", spoken(&wanted, axis));
        let precision = self.vars[x].precision;
        let stored = layout::stored(&wanted, &shape);
        let image = super::is_image(&wanted);
        let outputs = [
            self.fresh(stored.clone(), precision, image),
            self.fresh(stored, Precision::I32, image),
        ];
        self.push(
            Recipe::new(Code::TopK, OpKind::TopK).attributes(attributes),
            vec![input, steering],
            outputs.to_vec(),
        );
        let types = [precision, Precision::I32];
        Ok(outputs
            .into_iter()
            .zip(types)
            .map(|(at, precision)| self.var(shape.clone(), precision, vec![(wanted.clone(), at)]))
            .collect())
    }

    pub(super) fn cum_sum(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let axis = self.axis(call)?;
        let x = call.inputs[0];
        let own = self.layout(x);
        let input = self.stored(x, &own)?;
        let along = self.ints(&[layout::position(&own, axis) as i64], vec![]);
        let flag = |name: &str| call.attributes.int(name) == Some(1);
        let options = Options::CumSum { exclusive: flag("exclusive"), reverse: flag("reverse") };
        let attributes = Attributes::new().with_int("axis", spoken(&own, axis));
        let (shape, precision) = (self.shape(x).to_vec(), self.vars[x].precision);
        Ok(self.emit(
            Recipe::new(Code::CumSum, OpKind::CumSum).options(options).attributes(attributes),
            vec![input, along],
            shape,
            own,
            precision,
        ))
    }
}

//! Elementwise operators.

use super::emit::Recipe;
use super::{Call, Converter, Refusal, VarId, engine_precision};
use crate::tflite::schema::{Code, Options};
use crate::{Attribute, Attributes, OpKind, Precision};

impl Converter<'_> {
    /// Two or more inputs, from left to right.
    pub(super) fn arithmetic(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let kind = call.node.op.kind.clone();
        if call.attributes.int("squared") == Some(1) {
            let recipe = Recipe::new(Code::SquaredDifference, kind);
            let recipe = recipe.attributes(call.attributes.clone());
            return self.elementwise(recipe, &call.inputs, Precision::F32);
        }
        let code = match kind {
            OpKind::Add => Code::Add,
            OpKind::Sub => Code::Sub,
            OpKind::Mul => Code::Mul,
            OpKind::Div => Code::Div,
            OpKind::Min => Code::Minimum,
            OpKind::Max => Code::Maximum,
            _ => Code::FloorMod,
        };
        let truncates =
            call.node.op.precision().is_float() || call.attributes.int("fmod") == Some(1);
        if kind == OpKind::Mod && truncates {
            return self.remainder(call);
        }
        let (&first, rest) = call.inputs.split_first().ok_or("it has no input")?;
        let mut y = first;
        for &next in rest {
            y = self.binary(code, kind.clone(), y, next)?;
        }
        Ok(if rest.is_empty() { self.alias(y) } else { y })
    }

    /// A remainder with the sign of the dividend; the engine's has that of the divisor.
    fn remainder(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let [x, y] = call.inputs[..] else { return Err("it has not two inputs".to_owned()) };
        let magnitudes = [x, y].map(|v| self.unary(Recipe::new(Code::Abs, OpKind::Abs), v));
        let [dividend, divisor] = magnitudes;
        let remainder = self.binary(Code::FloorMod, OpKind::Mod, dividend?, divisor?)?;
        let sign = self.unary(Recipe::new(Code::Sign, OpKind::Round).text("op", "Sign"), x)?;
        self.mul(remainder, sign)
    }

    pub(super) fn square(&mut self, x: VarId) -> Result<VarId, Refusal> {
        self.unary(Recipe::new(Code::Square, OpKind::Pow).attributes(exponent(2.0)), x)
    }

    pub(super) fn square_root(&mut self, x: VarId) -> Result<VarId, Refusal> {
        self.unary(Recipe::new(Code::Sqrt, OpKind::Sqrt), x)
    }

    pub(super) fn reciprocal_root(&mut self, x: VarId) -> Result<VarId, Refusal> {
        self.unary(Recipe::new(Code::Rsqrt, OpKind::Pow).attributes(exponent(-0.5)), x)
    }

    pub(super) fn reciprocal(&mut self, x: VarId) -> Result<VarId, Refusal> {
        let one = self.scalar(1.0);
        self.elementwise(Recipe::new(Code::Div, OpKind::Div), &[one, x], Precision::F32)
    }

    pub(super) fn power(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let Some(&by) = call.inputs.get(1) else {
            let by = call.attributes.float("exponent").ok_or("its exponent is not known")?;
            return match by {
                1.0 => Ok(self.alias(x)),
                2.0 => self.square(x),
                0.5 => self.square_root(x),
                -0.5 => self.reciprocal_root(x),
                -1.0 => self.reciprocal(x),
                _ => {
                    let by = self.scalar(by);
                    self.binary(Code::Pow, OpKind::Pow, x, by)
                }
            };
        };
        self.binary(Code::Pow, OpKind::Pow, x, by)
    }

    pub(super) fn logic(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let op = call.attributes.text("op").unwrap_or_default();
        let kind = call.node.op.kind.clone();
        let code = match (&kind, op) {
            (OpKind::Where, _) => Code::Select,
            (_, "Equal") => Code::Equal,
            (_, "Greater") => Code::Greater,
            (_, "Less") => Code::Less,
            (_, "GreaterOrEqual") => Code::GreaterEqual,
            (_, "LessOrEqual") => Code::LessEqual,
            (_, "And") => Code::LogicalAnd,
            (_, "Or") => Code::LogicalOr,
            (_, "Not") => Code::LogicalNot,
            _ => return Err(format!("`{op}` has no operator")),
        };
        let precision = if code == Code::Select {
            self.vars[*call.inputs.get(1).ok_or("it has one input")?].precision
        } else {
            Precision::Bool
        };
        let recipe = Recipe::new(code, kind.clone());
        let recipe = if kind == OpKind::Where { recipe } else { recipe.text("op", op) };
        self.elementwise(recipe, &call.inputs, precision)
    }

    /// Operators of one input that are one operation.
    pub(super) fn single(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let kind = call.node.op.kind.clone();
        let code = match kind {
            OpKind::Tanh => Code::Tanh,
            OpKind::Exp => Code::Exp,
            OpKind::Log => Code::Log,
            OpKind::Sqrt => return self.square_root(x),
            OpKind::Reciprocal => return self.reciprocal(x),
            OpKind::Neg => Code::Neg,
            OpKind::Abs => Code::Abs,
            OpKind::Sin => Code::Sin,
            OpKind::Cos => Code::Cos,
            OpKind::Cast => return self.cast(call),
            _ => return self.rounded(call),
        };
        self.unary(Recipe::new(code, kind), x)
    }

    fn rounded(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let op = call.attributes.text("op").unwrap_or_default();
        let code = match op {
            "Floor" => Code::Floor,
            "Ceil" => Code::Ceil,
            "Round" => Code::Round,
            "Sign" => Code::Sign,
            _ => return Err(format!("`{op}` has no operator")),
        };
        self.unary(Recipe::new(code, OpKind::Round).text("op", op), call.inputs[0])
    }

    fn cast(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let to = engine_precision(
            call.node.op.outputs.first().ok_or("its type is not known")?.precision,
        );
        let from = self.vars[x].precision;
        if from == to {
            return Ok(self.alias(x));
        }
        let recipe = Recipe::new(Code::Cast, OpKind::Cast)
            .options(Options::Cast { from, to })
            .text("to", to.name());
        self.elementwise(recipe, &[x], to)
    }
}

fn exponent(value: f64) -> Attributes {
    Attributes::new().with("exponent", Attribute::Float(value))
}

//! Activations: fused into the operation before them where the engine can do that, else one
//! operation if there is one, else composed of several.

use super::emit::Recipe;
use super::{Call, Converter, Refusal, VarId};
use crate::tflite::schema::{Code, Fused, Options};
use crate::{Attribute, Attributes, OpKind};

impl Converter<'_> {
    pub(super) fn activation(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let number = |name: &str, default: f64| call.attributes.float(name).unwrap_or(default);
        match call.node.op.kind {
            OpKind::Relu => self.rectified(call),
            OpKind::Clip => self.clipped(call),
            OpKind::LeakyRelu => {
                let alpha = number("alpha", 0.01);
                let recipe = Recipe::new(Code::LeakyRelu, OpKind::LeakyRelu)
                    .options(Options::LeakyRelu { alpha: alpha as f32 });
                let attributes = recipe.attributes.clone().with("alpha", Attribute::Float(alpha));
                self.unary(recipe.attributes(attributes), x)
            }
            OpKind::PRelu => self.elementwise(
                Recipe::new(Code::PRelu, OpKind::PRelu),
                &call.inputs,
                self.vars[x].precision,
            ),
            OpKind::Elu => self.exponential_unit(call),
            OpKind::Sigmoid => self.logistic(x),
            OpKind::Silu => {
                let gate = self.logistic(x)?;
                self.mul(x, gate)
            }
            OpKind::HardSigmoid => self.hard_sigmoid(x, number("alpha", 0.2), number("beta", 0.5)),
            OpKind::HardSwish => self.unary(Recipe::new(Code::HardSwish, OpKind::HardSwish), x),
            OpKind::Gelu => self.unary(
                Recipe::new(Code::Gelu, OpKind::Gelu).options(Options::Gelu { approximate: false }),
                x,
            ),
            OpKind::GeluTanh => self.unary(
                Recipe::new(Code::Gelu, OpKind::GeluTanh)
                    .options(Options::Gelu { approximate: true }),
                x,
            ),
            OpKind::Softplus => self.softplus(x),
            OpKind::Mish => {
                let soft = self.softplus(x)?;
                let gate = self.unary(Recipe::new(Code::Tanh, OpKind::Tanh), soft)?;
                self.mul(x, gate)
            }
            _ => self.error_function(x),
        }
    }

    pub(super) fn logistic(&mut self, x: VarId) -> Result<VarId, Refusal> {
        self.unary(Recipe::new(Code::Logistic, OpKind::Sigmoid), x)
    }

    /// The operation that computes a node's input, if that has no other reader and the operation's
    /// kernels apply activations. (Additions and the like can, too, in the format; XNNPACK runs a
    /// second kernel for it then.)
    fn fusable(&self, call: &Call<'_>) -> Option<usize> {
        self.follower(*call.node.inputs.first()?)?;
        let [(_, at)] = self.vars[call.inputs[0]].stored[..] else { return None };
        let index = *self
            .producer
            .get(&at)
            .filter(|_| !self.read.contains(&at) && !self.shared.contains(&at))?;
        let operation = &self.program.operations[index];
        let takes = matches!(
            operation.code,
            Code::Conv
                | Code::DepthwiseConv
                | Code::FullyConnected
                | Code::AveragePool
                | Code::MaxPool
        );
        (takes && operation.fused == Fused::None).then_some(index)
    }

    fn fuse(&mut self, call: &Call<'_>, fused: Fused) -> Option<VarId> {
        let index = self.fusable(call)?;
        self.program.operations[index].fused = fused;
        Some(call.inputs[0])
    }

    fn rectified(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        match self.fuse(call, Fused::Relu) {
            Some(var) => Ok(var),
            None => self.unary(Recipe::new(Code::Relu, OpKind::Relu), call.inputs[0]),
        }
    }

    fn clipped(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let (low, high) = (call.attributes.float("min"), call.attributes.float("max"));
        let (fused, code) = match (low, high) {
            (Some(0.0), Some(6.0)) => (Fused::Relu6, Code::Relu6),
            (Some(-1.0), Some(1.0)) => (Fused::ReluN1To1, Code::ReluN1To1),
            (Some(0.0), None) => return self.rectified(call),
            (None, None) => return Ok(self.alias(x)),
            _ => return self.bounded(x, low, high),
        };
        match self.fuse(call, fused) {
            Some(var) => Ok(var),
            None => self.limited(code, x, low, high),
        }
    }

    fn limited(
        &mut self,
        code: Code,
        x: VarId,
        low: Option<f64>,
        high: Option<f64>,
    ) -> Result<VarId, Refusal> {
        let bounds = [("min", low), ("max", high)]
            .into_iter()
            .filter_map(|(name, bound)| Some((name, bound?)));
        let attributes = bounds
            .fold(Attributes::new(), |a, (name, bound)| a.with(name, Attribute::Float(bound)));
        self.unary(Recipe::new(code, OpKind::Clip).attributes(attributes), x)
    }

    fn bounded(&mut self, x: VarId, low: Option<f64>, high: Option<f64>) -> Result<VarId, Refusal> {
        let mut y = x;
        if let Some(low) = low {
            let bound = self.scalar(low);
            y = self.binary(Code::Maximum, OpKind::Max, y, bound)?;
        }
        if let Some(high) = high {
            let bound = self.scalar(high);
            y = self.binary(Code::Minimum, OpKind::Min, y, bound)?;
        }
        Ok(y)
    }

    /// Whether a tensor holds no negative number, as far as its producer shows.
    pub(super) fn is_positive(&self, x: VarId) -> bool {
        let Some((_, at)) = self.vars[x].stored.first() else { return false };
        let Some(operation) = self.producer.get(at).map(|&i| &self.program.operations[i]) else {
            return false;
        };
        matches!(operation.fused, Fused::Relu | Fused::Relu6)
            || matches!(operation.code, Code::Relu | Code::Relu6 | Code::Logistic)
    }

    /// clip(alpha x + beta, 0, 1).
    fn hard_sigmoid(&mut self, x: VarId, alpha: f64, beta: f64) -> Result<VarId, Refusal> {
        // With alpha = 1/6: relu6(x + 6 beta) / 6.
        if (alpha - 1.0 / 6.0).abs() < 1e-6 {
            let shifted = self.add_number(x, 6.0 * beta)?;
            let clipped = self.limited(Code::Relu6, shifted, Some(0.0), Some(6.0))?;
            return self.mul_number(clipped, 1.0 / 6.0);
        }
        let scaled = self.mul_number(x, alpha)?;
        let shifted = self.add_number(scaled, beta)?;
        self.bounded(shifted, Some(0.0), Some(1.0))
    }

    /// gamma (max(x, 0) + alpha (exp(min(x, 0) / divisor) - 1)): ELU, SELU and CELU.
    fn exponential_unit(&mut self, call: &Call<'_>) -> Result<VarId, Refusal> {
        let x = call.inputs[0];
        let alpha = call.attributes.float("alpha").unwrap_or(1.0);
        let (gamma, divisor) = match call.attributes.text("op") {
            Some("Selu") => (call.attributes.float("gamma").unwrap_or(1.050_701), 1.0),
            Some("Celu") => (1.0, alpha),
            _ => (1.0, 1.0),
        };
        if alpha == 1.0 && gamma == 1.0 {
            let recipe = Recipe::new(Code::Elu, OpKind::Elu);
            let attributes = recipe.attributes.clone().with("alpha", Attribute::Float(1.0));
            return self.unary(recipe.attributes(attributes), x);
        }
        let positive = self.unary(Recipe::new(Code::Relu, OpKind::Relu), x)?;
        let mut negative = self.bounded(x, None, Some(0.0))?;
        if divisor != 1.0 {
            negative = self.mul_number(negative, 1.0 / divisor)?;
        }
        let grown = self.unary(Recipe::new(Code::Exp, OpKind::Exp), negative)?;
        let shifted = self.add_number(grown, -1.0)?;
        let scaled = self.mul_number(shifted, alpha)?;
        let sum = self.add(positive, scaled)?;
        if gamma == 1.0 { Ok(sum) } else { self.mul_number(sum, gamma) }
    }

    /// max(x, 0) + log(1 + exp(-|x|)): log(1 + exp(x)) without overflow.
    fn softplus(&mut self, x: VarId) -> Result<VarId, Refusal> {
        let size = self.unary(Recipe::new(Code::Abs, OpKind::Abs), x)?;
        let negative = self.unary(Recipe::new(Code::Neg, OpKind::Neg), size)?;
        let small = self.unary(Recipe::new(Code::Exp, OpKind::Exp), negative)?;
        let shifted = self.add_number(small, 1.0)?;
        let logarithm = self.unary(Recipe::new(Code::Log, OpKind::Log), shifted)?;
        let positive = self.unary(Recipe::new(Code::Relu, OpKind::Relu), x)?;
        self.add(positive, logarithm)
    }

    /// The error function by Abramowitz and Stegun 7.1.26: an error of 1.5e-7 at most.
    fn error_function(&mut self, x: VarId) -> Result<VarId, Refusal> {
        const P: f64 = 0.327_591_1;
        const COEFFICIENTS: [f64; 5] =
            [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
        let size = self.unary(Recipe::new(Code::Abs, OpKind::Abs), x)?;
        let scaled = self.mul_number(size, P)?;
        let shifted = self.add_number(scaled, 1.0)?;
        let t = self.reciprocal(shifted)?;
        let mut sum = self.mul_number(t, COEFFICIENTS[0])?;
        for coefficient in &COEFFICIENTS[1..] {
            let next = self.add_number(sum, *coefficient)?;
            sum = self.mul(next, t)?;
        }
        let square = self.square(x)?;
        let negative = self.unary(Recipe::new(Code::Neg, OpKind::Neg), square)?;
        let decay = self.unary(Recipe::new(Code::Exp, OpKind::Exp), negative)?;
        let tail = self.mul(sum, decay)?;
        let one = self.scalar(1.0);
        let magnitude = self.sub(one, tail)?;
        let sign = self.unary(Recipe::new(Code::Sign, OpKind::Round).text("op", "Sign"), x)?;
        self.mul(sign, magnitude)
    }
}

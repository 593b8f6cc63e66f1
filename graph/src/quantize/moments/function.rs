//! Functions of one number, and the mean and variance of their results.

use super::{Moments, REACH};
use crate::{OpKind, OpSpec};

type Function = Box<dyn Fn(f64) -> f64>;

/// The function an operator applies to each element; `None` for operators of another kind.
pub(super) fn of(op: &OpSpec) -> Option<Function> {
    use OpKind::*;
    let number = |name: &str, default: f64| op.attributes.float(name).unwrap_or(default);
    fn boxed(f: impl Fn(f64) -> f64 + 'static) -> Option<Function> {
        Some(Box::new(f))
    }
    let (alpha, beta) = (number("alpha", 1.0), number("beta", 0.5));
    match op.kind {
        Relu => boxed(|x| x.max(0.0)),
        LeakyRelu => boxed(move |x| if x < 0.0 { alpha * x } else { x }),
        PRelu => boxed(|x| if x < 0.0 { 0.25 * x } else { x }),
        Elu => boxed(move |x| if x < 0.0 { alpha * x.exp_m1() } else { x }),
        Clip => {
            let (low, high) = (number("min", f64::NEG_INFINITY), number("max", f64::INFINITY));
            boxed(move |x| x.max(low).min(high))
        }
        Sigmoid => boxed(sigmoid),
        HardSigmoid => boxed(move |x| (alpha * x + beta).clamp(0.0, 1.0)),
        HardSwish => boxed(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        Silu => boxed(move |x| x * sigmoid(alpha * x)),
        Gelu => boxed(|x| x / 2.0 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))),
        GeluTanh => {
            boxed(|x| x / 2.0 * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh()))
        }
        Mish => boxed(|x| x * x.min(30.0).exp().ln_1p().tanh()),
        Softplus => boxed(|x| if x > 30.0 { x } else { x.exp().ln_1p() }),
        Tanh => boxed(f64::tanh),
        Erf => boxed(erf),
        Exp => boxed(|x| x.min(30.0).exp()),
        Log => boxed(|x| x.max(1e-9).ln()),
        Sqrt => boxed(|x| x.max(0.0).sqrt()),
        Reciprocal => boxed(|x| if x.abs() < 1e-3 { 1e3_f64.copysign(x) } else { 1.0 / x }),
        Neg => boxed(|x| -x),
        Abs => boxed(f64::abs),
        Sin => boxed(f64::sin),
        Cos => boxed(f64::cos),
        Round => boxed(f64::round),
        Pow => {
            let exponent = op.attributes.float("exponent")?;
            boxed(move |x| if x < 0.0 && exponent.fract() != 0.0 { 0.0 } else { x.powf(exponent) })
        }
        _ => None,
    }
}

/// The moments after the activation that a product was fused with.
pub(super) fn on_the_way_out(op: &OpSpec, x: Moments) -> Moments {
    match (&op.kind, op.attributes.text("activation")) {
        (OpKind::Conv | OpKind::ConvTranspose | OpKind::Linear, Some("relu")) => {
            apply(x, &|x| x.max(0.0))
        }
        (OpKind::Conv | OpKind::ConvTranspose | OpKind::Linear, Some("clip")) => {
            let bound = |name: &str, default: f64| op.attributes.float(name).unwrap_or(default);
            let (low, high) = (bound("min", 0.0), bound("max", 6.0));
            apply(x, &|x| x.max(low).min(high))
        }
        _ => x,
    }
}

/// The distribution of f(x): midpoints of 240 steps over [`REACH`] standard deviations on each
/// side, and as many over the range of x.
pub(super) fn apply(x: Moments, f: &dyn Fn(f64) -> f64) -> Moments {
    const STEPS: usize = 240;
    let (mut weight, mut first, mut second) = (0.0, 0.0, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for step in 0..=STEPS {
        let share = step as f64 / STEPS as f64;
        let z = REACH * (2.0 * share - 1.0);
        let density = (-z * z / 2.0).exp();
        let y = f((x.mean + z * x.deviation()).clamp(x.least, x.most.max(x.least)));
        weight += density;
        first += density * y;
        second += density * y * y;
        let end = f(x.least + share * (x.most - x.least));
        least = least.min(end);
        most = most.max(end);
    }
    let mean = first / weight;
    let moments = Moments::normal(mean, second / weight - mean * mean);
    if least.is_finite() && most.is_finite() { Moments { least, most, ..moments } } else { moments }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Error function, to 2e-7 (Abramowitz and Stegun, 7.1.26).
fn erf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (1.0 - poly * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_normal_through_functions() {
        let standard = Moments::normal(0.0, 1.0);
        // (function, mean, variance, least, most)
        type Case<'a> = (&'a dyn Fn(f64) -> f64, f64, f64, f64, f64);
        let cases: [Case<'_>; 3] = [
            (&|x: f64| x.max(0.0), 0.398_942, 0.340_845, 0.0, 6.0),
            (&|x: f64| x * x, 1.0, 2.0, 0.0, 36.0),
            (&|x: f64| 2.0 * x + 1.0, 1.0, 4.0, -11.0, 13.0),
        ];
        for (f, mean, variance, least, most) in cases {
            let y = apply(standard, f);
            assert!((y.mean - mean).abs() < 2e-3 && (y.variance - variance).abs() < 2e-3, "{y:?}");
            assert!((y.least - least).abs() < 1e-9 && (y.most - most).abs() < 1e-9, "{y:?}");
        }
        assert!((erf(0.5) - 0.520_499_9).abs() < 1e-6 && (erf(-2.0) + 0.995_322_3).abs() < 1e-6);
    }
}

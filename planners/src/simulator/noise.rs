//! [`Noise`]: seeded random numbers of one stream. Latencies are lognormal around their mean.

use rand::{RngExt, SeedableRng, rngs::StdRng};

pub(super) struct Noise {
    rng: StdRng,
    spare: Option<f64>,
}

impl Noise {
    /// Streams of one simulation draw from generators of their own, so that one stream's choices
    /// do not change the draws of others.
    pub(super) fn new(seed: u64, stream: usize) -> Self {
        Self {
            rng: StdRng::seed_from_u64(
                seed ^ (stream as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
            spare: None,
        }
    }

    /// A whole number below `end`; 0 when that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.rng.random_range(0..end) }
    }

    /// A factor of mean 1 with this coefficient of variation: exp(s z - s^2 / 2), s^2 = ln(1 +
    /// cv^2).
    pub(super) fn factor(&mut self, cv: f64) -> f64 {
        if cv <= 0.0 {
            return 1.0;
        }
        let variance = (cv * cv).ln_1p();
        (variance.sqrt() * self.normal() - variance / 2.0).exp()
    }

    /// Standard normal, two at a time (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        let radius = (-2.0 * (1.0 - self.rng.random::<f64>()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.rng.random::<f64>()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_mean_and_spread_asked_for() {
        let mut noise = Noise::new(1, 0);
        let factors: Vec<f64> = (0..200_000).map(|_| noise.factor(0.1)).collect();
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        let spread =
            (factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / factors.len() as f64).sqrt();
        assert!((mean - 1.0).abs() < 0.002 && (spread - 0.1).abs() < 0.002, "{mean} {spread}");
        assert_eq!(noise.factor(0.0), 1.0);
    }
}

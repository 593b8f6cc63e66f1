//! [`Residuals`]: the logarithms of latencies that unit costs do not explain, by the sources. For a
//! model that a source has measured it is the model's residual there; for any other model it is
//! predicted from the residuals of operators (`kernel.rs`).
//!
//! The offset at `z = 0` is that of the sources' mean (or of one source). It moves with `z` of
//! `mixture.rs`: a device that differs from the mean as a source does in its unit costs differs
//! from it in the same way in its residuals.

use super::{device_prior::Known, gaussian::dot};

/// Residuals of the sources, and how a device between them combines them.
pub(crate) struct Residuals<'a> {
    sources: Vec<(&'a Known, f64)>,
    /// The source whose offsets are those at `z = 0`, instead of the mean.
    one: Option<usize>,
    /// Factor on the sources' deviations from the mean.
    scale: f64,
}

impl<'a> Residuals<'a> {
    /// Without sources: no residuals.
    pub fn none() -> Self {
        Self { sources: Vec::new(), one: None, scale: 0.0 }
    }

    /// The mean of sources with weights that add up to one.
    pub fn pooled(known: &'a [Known], weights: &[f64]) -> Self {
        Self { sources: known.iter().zip(weights.iter().copied()).collect(), one: None, scale: 1.0 }
    }

    /// Around one of the sources; deviations from it are `scale` times those from the mean.
    pub fn around(self, one: usize, scale: f64) -> Self {
        Self { one: Some(one), scale, ..self }
    }

    /// Of a model with these covariances with the operators of the catalogue: offset at `z = 0`,
    /// and its derivative by each `z_s`.
    pub fn offset(&self, model: usize, covariances: &[f64]) -> (f64, Vec<f64>) {
        let of = |known: &Known| {
            known
                .residuals
                .get(&model)
                .copied()
                .unwrap_or_else(|| dot(&known.operators, covariances))
        };
        self.spread(&self.sources.iter().map(|(known, _)| of(known)).collect::<Vec<f64>>())
    }

    /// By operator of the catalogue: the factor on its covariance, at these `z`.
    pub fn operators(&self, moves: &[f64]) -> Vec<f64> {
        let size = self.sources.first().map_or(0, |(known, _)| known.operators.len());
        let of = |operator: usize| {
            let (offset, loading) = self.spread(
                &self
                    .sources
                    .iter()
                    .map(|(known, _)| known.operators[operator])
                    .collect::<Vec<f64>>(),
            );
            offset + dot(&loading, moves)
        };
        (0..size).map(of).collect()
    }

    fn spread(&self, values: &[f64]) -> (f64, Vec<f64>) {
        let mean: f64 = self.sources.iter().zip(values).map(|((_, weight), v)| weight * v).sum();
        let loading = self
            .sources
            .iter()
            .zip(values)
            .map(|((_, weight), v)| self.scale * weight.sqrt() * (v - mean))
            .collect();
        (self.one.and_then(|one| values.get(one)).copied().unwrap_or(mean), loading)
    }
}

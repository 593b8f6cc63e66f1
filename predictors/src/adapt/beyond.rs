//! [`Beyond`]: what unit costs leave unexplained, as sources have it: of a model that a source has,
//! its residual there; of any other, what its operators cost beyond their unit costs.
//!
//! An offset of the logarithm is that of the sources' mean (or of one source), and moves along with
//! `z` of `mixture.rs`: a device that is in its unit costs what sets a source apart is so in this,
//! too.

use super::{gaussian::dot, population::Known};

/// See above.
pub(crate) struct Beyond<'a> {
    sources: Vec<(&'a Known, f64)>,
    /// The source whose offsets are those at `z = 0`, instead of the mean.
    one: Option<usize>,
    /// How far offsets move.
    reach: f64,
}

impl<'a> Beyond<'a> {
    /// Nothing is known.
    pub fn none() -> Self {
        Self { sources: Vec::new(), one: None, reach: 0.0 }
    }

    /// The mean of sources with weights that add up to one.
    pub fn pooled(known: &'a [Known], weights: &[f64]) -> Self {
        Self { sources: known.iter().zip(weights.iter().copied()).collect(), one: None, reach: 1.0 }
    }

    /// One of the sources, from which devices differ by `reach` of what they differ from the mean.
    pub fn around(self, one: usize, reach: f64) -> Self {
        Self { one: Some(one), reach, ..self }
    }

    /// Of a model with these likenesses to the operators of the catalogue: offset at `z = 0`, and
    /// by how much each `z_s` moves it.
    pub fn offset(&self, model: usize, likeness: &[f64]) -> (f64, Vec<f64>) {
        let of = |known: &Known| {
            known.residuals.get(&model).copied().unwrap_or_else(|| dot(&known.operators, likeness))
        };
        self.spread(&self.sources.iter().map(|(known, _)| of(known)).collect::<Vec<f64>>())
    }

    /// By operator of the catalogue: what to multiply likenesses with, at these `z`.
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
            .map(|((_, weight), v)| self.reach * weight.sqrt() * (v - mean))
            .collect();
        (self.one.and_then(|one| values.get(one)).copied().unwrap_or(mean), loading)
    }
}

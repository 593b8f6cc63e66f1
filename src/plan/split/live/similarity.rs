//! [`Similarity`] of the results of a split with those of the whole model.

/// Similarity of the results of a split with those of the whole model.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Similarity {
    /// Number of seeded inputs.
    pub inputs: usize,
    /// Mean cosine over inputs and outputs.
    pub cosine: f64,
    /// Largest difference, as a share of the largest value of its output.
    pub apart: f64,
    /// The output that differs most.
    #[serde(default)]
    pub output: String,
}

/// Cosine of the angle between two results.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    if cosine.is_finite() { cosine } else { f64::from(u8::from(a == b)) }
}

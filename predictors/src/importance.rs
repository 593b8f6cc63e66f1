//! [`importance`]: measures how much each feature determines the latency of operators.
//!
//! Mean decrease of impurity: boosted trees are grown on the logarithm of latency, without a
//! baseline, so that the importance of FLOPs is visible. A feature's importance is the sum, over
//! all splits on it, of how much the split lowers the weighted squared error, as a share of the sum
//! over all features (Louppe, arXiv:1407.7502, section 6; figure 14 of the mobile ViT study shows
//! it for convolutions). Correlated features share their importance.

use crate::{
    Boosting, TrainingRow,
    features::{FeatureSchema, FeatureVector},
    fitting::{FEWEST_ROWS, gbdt},
    regressors::FitData,
};

/// How much each feature explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Importance {
    /// Rows the trees were grown on.
    pub rows: usize,
    /// Column and share, between 0 and 1, largest first; shares sum to 1.
    pub features: Vec<(&'static str, f64)>,
}

/// Importance of features for the latency of these rows, which share the columns of the first row's
/// family; rows of other families are left out. `None` with fewer than eight rows, or where no
/// feature explains anything.
///
/// # Errors
/// A sentence from the library underneath.
pub fn importance<'a>(
    rows: impl IntoIterator<Item = &'a TrainingRow>,
    seed: u64,
) -> Result<Option<Importance>, String> {
    let mut features: Vec<(FeatureVector, &TrainingRow)> = rows
        .into_iter()
        .map(|r| (FeatureSchema::extract_within(&r.op, r.working_set), r))
        .collect();
    let Some(family) = features.first().map(|f| f.0.family) else { return Ok(None) };
    features.retain(|(f, _)| f.family == family);
    if features.len() < FEWEST_ROWS {
        return Ok(None);
    }
    let x: Vec<f64> = features.iter().flat_map(|(f, _)| f.values.iter().copied()).collect();
    let y_ns: Vec<f64> = features.iter().map(|(_, r)| r.latency_ns).collect();
    let weights: Vec<f64> = features.iter().map(|(_, r)| r.weight).collect();
    let groups: Vec<usize> = features.iter().map(|(_, r)| r.model).collect();
    let logs: Vec<f64> = y_ns.iter().map(|ns| ns.ln()).collect();
    let typical_ns = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let data = FitData {
        columns: family.width(),
        x: &x,
        y_ns: &y_ns,
        baseline_ns: &vec![typical_ns; y_ns.len()],
        weights: &weights,
        groups: &groups,
        inseparable: &[],
        constant_per: None,
        per_call: &[],
    };
    let trees = gbdt::fit(&data, &Boosting::USUAL, seed)?;
    let decrease = trees.impurity_decrease(&data);
    let total: f64 = decrease.iter().sum();
    if total <= 0.0 {
        return Ok(None);
    }
    let mut features: Vec<(&'static str, f64)> =
        family.columns().zip(decrease.iter().map(|d| d / total)).collect();
    features.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(Some(Importance { rows: y_ns.len(), features }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::WorkingSet;
    use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

    fn pooling(side: usize, channels: usize, latency_ns: f64) -> TrainingRow {
        let tensor = TensorSpec::f32([1, channels, side, side]);
        let attributes = Attributes::new()
            .with_ints("kernel_shape", vec![3, 3])
            .with_ints("strides", vec![1, 1])
            .with_ints("pads", vec![1; 4]);
        let inputs = vec![Operand { tensor: tensor.clone(), constant: false }];
        let op = OpSpec { kind: OpKind::MaxPool, attributes, inputs, outputs: vec![tensor] };
        TrainingRow {
            op: op.into(),
            model: 0,
            working_set: WorkingSet::LARGE,
            count: 1,
            latency_ns,
            weight: 1.0,
        }
    }

    #[test]
    fn what_decides_the_latency_comes_first() {
        let rows: Vec<TrainingRow> = (0..400)
            .map(|i| (4 + i % 20, 8 * (1 + i / 20)))
            .map(|(s, c)| pooling(s, c, 1000.0 * (s as f64).powi(3)))
            .collect();
        let found = importance(&rows, 1).ok().flatten().expect("there are rows enough");
        assert_eq!(found.rows, 400);
        assert!((found.features.iter().map(|f| f.1).sum::<f64>() - 1.0).abs() < 1e-9);
        let (first, share) = found.features[0];
        let sides = [
            "extent_last",
            "extent_second_last",
            "height",
            "width",
            "height_in",
            "width_in",
            "height_out",
            "width_out",
            "pixels_out",
            "output_rows",
        ];
        assert!(sides.contains(&first) && share > 0.3, "{first} explains {share}");
    }

    #[test]
    fn too_few_rows_say_nothing() {
        assert_eq!(importance(&[pooling(4, 8, 5.0)], 1), Ok(None));
        assert_eq!(importance(&[], 1), Ok(None));
    }
}

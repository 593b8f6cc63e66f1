//! Trains a [`LearnedFlow`] from pairs of frames; no labelled flow is needed. The loss is the
//! paper's (section 5): the mean squared error between the features of a frame and those of the
//! earlier one, warped into it. The gradient goes through the bilinear interpolation to the
//! displacements, and on to the perceptrons.
//!
//! One pair per step, Adam (Kingma and Ba, ICLR 2015), the same for the same seed. The last layer
//! begins at zero: an untrained flow is that of the rotation.

use super::learned::{LearnedFlow, MOTION, Parts, Patches, Shape, Thought, place, scale};
use crate::{
    AriaError, CameraMotion, FeatureMap, Instructions, Intrinsics, Warped, random::Random,
    warp::Sample,
};

/// Two frames and how the camera moved between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Features of the earlier frame.
    pub before: FeatureMap,
    /// Features of the later frame.
    pub now: FeatureMap,
    /// The camera's motion between the two.
    pub motion: CameraMotion,
}

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Size of the latent vector.
    pub latent: usize,
    /// Hidden units.
    pub hidden: usize,
    /// Steps of one pair each.
    pub steps: usize,
    /// Length of a step.
    pub rate: f32,
    /// Of the first weights and of the order of pairs.
    pub seed: u64,
}

impl Default for Training {
    fn default() -> Self {
        Self { latent: 16, hidden: 32, steps: 1500, rate: 2e-3, seed: 1 }
    }
}

/// Decay of Adam's two averages, and what keeps it from dividing by zero.
const DECAY: [f32; 2] = [0.9, 0.999];
const TINY: f32 = 1e-8;

impl Training {
    /// Trains on `pairs`, seen with a camera.
    ///
    /// # Errors
    /// When there is no pair, shapes differ, or a size is out of its range.
    pub fn train(&self, intrinsics: Intrinsics, pairs: &[Pair]) -> Result<LearnedFlow, AriaError> {
        let Some(width) = pairs.first().map(|pair| pair.before.width()) else {
            return Err(AriaError::setting("the number of pairs to train on", 0, "1 or more"));
        };
        let shape = Shape { width, latent: self.latent, hidden: self.hidden }.checked()?;
        let mut random = Random::new(self.seed);
        let mut flow = LearnedFlow::new(shape, intrinsics, first(shape, &mut random))?;
        let (mut means, mut squares) =
            (vec![0.0; shape.parameters()], vec![0.0; shape.parameters()]);
        let mut gradient = vec![0.0; shape.parameters()];
        for step in 0..self.steps {
            gradient.fill(0.0);
            let pair = &pairs[(random.uniform() * pairs.len() as f64) as usize];
            loss(&flow, pair, Some(&mut gradient))?;
            let corrections = DECAY.map(|decay| 1.0 - decay.powi(step as i32 + 1));
            // Shorter steps towards the end.
            let rate = self.rate * (1.0 - 0.9 * step as f32 / self.steps as f32);
            for (((parameter, g), mean), square) in
                flow.parameters.iter_mut().zip(&gradient).zip(&mut means).zip(&mut squares)
            {
                *mean += (1.0 - DECAY[0]) * (g - *mean);
                *square += (1.0 - DECAY[1]) * (g * g - *square);
                *parameter -=
                    rate * (*mean / corrections[0]) / ((*square / corrections[1]).sqrt() + TINY);
            }
        }
        Ok(flow)
    }
}

/// Normal weights whose variance is two over the number of inputs; no biases; the last layer zero.
fn first(shape: Shape, random: &mut Random) -> Vec<f32> {
    let mut parameters = vec![0.0; shape.parameters()];
    let parts = shape.cut_mut(&mut parameters);
    let inputs = [
        (parts.motion, MOTION),
        (parts.latent, shape.latent),
        (parts.context, shape.latent),
        (parts.place, 2),
        (parts.features, shape.width),
    ];
    for (weights, inputs) in inputs {
        weights
            .iter_mut()
            .for_each(|w| *w = (random.normal() * (2.0 / inputs as f64).sqrt()) as f32);
    }
    parameters
}

/// Mean squared error of a pair, in squared lengths of features; adds its gradient to `gradient`.
fn loss(flow: &LearnedFlow, pair: &Pair, gradient: Option<&mut [f32]>) -> Result<f64, AriaError> {
    pair.before.same_shape(&pair.now)?;
    let thought = flow.think(&pair.motion);
    let patches = flow.look(&pair.before, &pair.motion, &thought)?;
    let moved = patches.flow();
    let mut warped = Warped::new(pair.now.grid(), pair.now.width())?;
    warped.warp(Instructions::best(), &pair.before, &moved)?;
    let squares: f32 = pair.now.norms().iter().map(|norm| norm * norm).sum();
    let unit = 1.0 / squares.max(f32::MIN_POSITIVE);
    let (mut sum, mut slopes) = (0.0, Vec::with_capacity(pair.now.grid().patches()));
    for (patch, point) in moved.sources().iter().enumerate() {
        let mut slope = [0.0; 2];
        if !warped.unseen.contains(patch) {
            let sample = Sample::around(pair.now.grid(), *point);
            let differences: Vec<f32> = warped
                .features
                .row(patch)
                .iter()
                .zip(pair.now.row(patch))
                .map(|(a, b)| a - b)
                .collect();
            sum += f64::from(unit * differences.iter().map(|d| d * d).sum::<f32>());
            slope = sample.slopes().map(|weights| {
                let along = |(feature, difference): (usize, &f32)| -> f32 {
                    let corners = sample.patches.iter().zip(weights).map(|(corner, weight)| {
                        weight * pair.before.row(*corner as usize)[feature]
                    });
                    difference * corners.sum::<f32>()
                };
                2.0 * unit * differences.iter().enumerate().map(along).sum::<f32>()
            });
        }
        slopes.push(slope);
    }
    if let Some(gradient) = gradient {
        backward(flow, pair, &thought, &patches, &slopes, flow.shape.cut_mut(gradient));
    }
    Ok(sum)
}

/// From the gradient by displacements to that by parameters.
fn backward(
    flow: &LearnedFlow,
    pair: &Pair,
    thought: &Thought,
    patches: &Patches,
    slopes: &[[f32; 2]],
    gradient: Parts<&mut [f32]>,
) {
    let Shape { width, hidden, .. } = flow.shape;
    let parts = flow.shape.cut(&flow.parameters);
    let (first_out, second_out) = parts.out.split_at(hidden);
    let mut context = vec![0.0; hidden];
    for (patch, (units, slope)) in patches.hidden.chunks_exact(hidden).zip(slopes).enumerate() {
        let looked = patches.looked[patch];
        let (scale, [x, y]) = (scale(&pair.before, looked), place(pair.before.grid(), patch));
        for ((out, bias), slope) in
            gradient.out.chunks_exact_mut(hidden).zip(gradient.out_bias.iter_mut()).zip(slope)
        {
            *bias += slope;
            out.iter_mut().zip(units).for_each(|(g, unit)| *g += slope * unit);
        }
        for unit in (0..hidden).filter(|unit| units[*unit] > 0.0) {
            let back = slope[0] * first_out[unit] + slope[1] * second_out[unit];
            context[unit] += back;
            gradient.place[2 * unit] += back * x;
            gradient.place[2 * unit + 1] += back * y;
            let weights = gradient.features[unit * width..][..width].iter_mut();
            weights
                .zip(pair.before.row(looked))
                .for_each(|(g, feature)| *g += back * scale * feature);
        }
    }
    let latent = back_through(
        parts.context,
        &thought.latent,
        &context,
        gradient.context,
        gradient.context_bias,
    );
    let mut first =
        back_through(parts.latent, &thought.first, &latent, gradient.latent, gradient.latent_bias);
    first
        .iter_mut()
        .zip(&thought.first)
        .filter(|(_, unit)| **unit <= 0.0)
        .for_each(|(back, _)| *back = 0.0);
    back_through(parts.motion, &thought.motion, &first, gradient.motion, gradient.motion_bias);
}

/// Adds a layer's gradient, given that by its outputs; returns that by its inputs.
fn back_through(
    weights: &[f32],
    inputs: &[f32],
    back: &[f32],
    gradient: &mut [f32],
    bias: &mut [f32],
) -> Vec<f32> {
    let mut by_inputs = vec![0.0; inputs.len()];
    let rows = weights.chunks_exact(inputs.len()).zip(gradient.chunks_exact_mut(inputs.len()));
    for (((row, gradient), back), bias) in rows.zip(back).zip(bias) {
        *bias += back;
        for (((g, w), input), by_input) in
            gradient.iter_mut().zip(row).zip(inputs).zip(&mut by_inputs)
        {
            *g += back * input;
            *by_input += back * w;
        }
    }
    by_inputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowEstimator, Grid, PatchFlow, Pose};

    /// Smooth features, seen from two places before a wall.
    fn pair(grid: Grid, width: usize, to: Pose) -> (Intrinsics, Pair) {
        let intrinsics = Intrinsics::with_field_of_view(grid, 1.0).expect("a lens");
        let motion = CameraMotion::between(&Pose::default(), &to);
        let feature = |[x, y]: [f32; 2], f: usize| {
            ((0.2 + 0.03 * f as f32) * x + 0.7 * f as f32).sin()
                + ((0.35 - 0.02 * f as f32) * y).cos()
        };
        let map = |points: &PatchFlow| {
            let values: Vec<f32> = points
                .sources()
                .iter()
                .flat_map(|point| (0..width).map(|f| feature(*point, f)))
                .collect();
            FeatureMap::from_values(Instructions::best(), grid, width, &values).expect("a map")
        };
        let wall = crate::Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 2.0 };
        let seen = crate::CameraFlow::new(intrinsics, wall).over(grid, &motion).expect("a flow");
        (intrinsics, Pair { before: map(&PatchFlow::still(grid)), now: map(&seen), motion })
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let grid = Grid::new(6, 7).expect("a grid");
        let (intrinsics, pair) = pair(grid, 9, Pose::looking([0.1, 0.02, 0.05], 0.03, 0.01, 0.0));
        let shape = Shape { width: 9, latent: 3, hidden: 4 };
        let mut random = Random::new(5);
        let parameters: Vec<f32> =
            (0..shape.parameters()).map(|_| 0.3 * random.normal() as f32).collect();
        let flow = LearnedFlow::new(shape, intrinsics, parameters.clone()).expect("a flow");
        let mut gradient = vec![0.0; shape.parameters()];
        loss(&flow, &pair, Some(&mut gradient)).expect("a loss");
        let at = |index: usize, by: f32| {
            let mut parameters = parameters.clone();
            parameters[index] += by;
            loss(&LearnedFlow::new(shape, intrinsics, parameters).expect("a flow"), &pair, None)
                .expect("a loss")
        };
        let (mut agree, size) = (0, gradient.iter().fold(0.0f32, |m, g| m.max(g.abs())));
        for (index, gradient) in gradient.iter().enumerate() {
            let numeric = (at(index, 2e-3) - at(index, -2e-3)) / 4e-3;
            agree += usize::from((numeric - f64::from(*gradient)).abs() < 0.03 * f64::from(size));
        }
        // Kinks of rectifiers and interpolation spoil a few differences.
        assert!(size > 0.0 && agree * 10 >= 9 * gradient.len(), "{agree} of {}", gradient.len());
    }

    #[test]
    fn parallax_is_learned_from_features_alone() {
        let grid = Grid::new(9, 12).expect("a grid");
        let mut random = Random::new(6);
        let mut somewhere = || {
            Pose::looking(
                std::array::from_fn(|_| random.between(-0.15, 0.15)),
                random.between(-0.05, 0.05),
                0.0,
                0.0,
            )
        };
        let pairs: Vec<(Intrinsics, Pair)> = (0..40).map(|_| pair(grid, 12, somewhere())).collect();
        let (intrinsics, pairs): (Vec<Intrinsics>, Vec<Pair>) = pairs.into_iter().unzip();
        let (known, new) = pairs.split_at(30);
        let training = Training { hidden: 16, latent: 8, steps: 600, ..Training::default() };
        let flow = training.train(intrinsics[0], known).expect("a flow");
        let untrained =
            Training { steps: 0, ..training }.train(intrinsics[0], known).expect("a flow");
        let mean = |flow: &LearnedFlow| {
            new.iter().map(|pair| loss(flow, pair, None).expect("a loss")).sum::<f64>()
        };
        assert!(mean(&flow) < 0.5 * mean(&untrained), "{} {}", mean(&flow), mean(&untrained));
        let again = LearnedFlow::new(flow.shape(), intrinsics[0], flow.parameters().to_vec())
            .expect("a flow");
        let of = |flow: &LearnedFlow| flow.flow(&new[0].before, &new[0].motion).expect("a flow");
        assert_eq!(of(&again), of(&flow));
        assert!(training.train(intrinsics[0], &[]).is_err());
        assert!(
            LearnedFlow::new(Shape { width: 12, latent: 8, hidden: 15 }, intrinsics[0], vec![])
                .is_err()
        );
    }
}

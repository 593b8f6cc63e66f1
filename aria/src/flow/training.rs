//! Trains a [`LearnedFlow`] from pairs of frames; no labelled flow is needed. The loss is the
//! paper's (section 5): the mean squared error between the features of a frame and those of the
//! earlier one, warped into it. The gradient goes through the bilinear interpolation to the
//! displacements, and on to the perceptrons. Where a pair has a flow to learn from
//! ([`Pair::taught`]), the loss is the distance to that flow instead.
//!
//! One pair per step, Adam (Kingma and Ba, ICLR 2015), the same for the same seed. The last layer
//! begins at zero: an untrained flow is that of the rotation.

use super::learned::{LearnedFlow, MOTION, Parts, Patches, Perceptrons, Shape, Thought, scale};
use crate::{
    AriaError, CameraMotion, FeatureMap, Instructions, Intrinsics, PatchFlow, Warped,
    random::Random, warp::Sample,
};

/// Two frames and how the camera moved between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The lens, in patches of the frames.
    pub intrinsics: Intrinsics,
    /// Features of the earlier frame.
    pub before: FeatureMap,
    /// Features of the later frame.
    pub now: FeatureMap,
    /// The camera's motion between the two.
    pub motion: CameraMotion,
    /// A flow to learn from, e.g. by a decoder's depth of the earlier frame; without, features are
    /// compared.
    pub taught: Option<PatchFlow>,
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
    /// Trains on `pairs`, which may be seen with several lenses; the flow is for the first pair's.
    ///
    /// # Errors
    /// When there is no pair, shapes differ, or a size is out of its range.
    pub fn train(&self, pairs: &[Pair]) -> Result<LearnedFlow, AriaError> {
        let Some(one) = pairs.first() else {
            return Err(AriaError::setting("the number of pairs to train on", 0, "1 or more"));
        };
        let shape = Shape { width: one.before.width(), latent: self.latent, hidden: self.hidden }
            .checked()?;
        let mut random = Random::new(self.seed);
        let mut flow = Perceptrons { shape, parameters: first(shape, &mut random) };
        let (mut means, mut squares) =
            (vec![0.0; shape.parameters()], vec![0.0; shape.parameters()]);
        let mut gradient = vec![0.0; shape.parameters()];
        for step in 0..self.steps {
            gradient.fill(0.0);
            let pair = &pairs[(random.uniform() * pairs.len() as f64) as usize];
            loss(&flow, pair, Some(&mut gradient))?;
            let corrections = DECAY.map(|decay| 1.0 - decay.powi(step as i32 + 1));
            // Shorter steps towards the end.
            let rate = self.rate * (1.0 - 0.95 * step as f32 / self.steps as f32);
            for (((parameter, g), mean), square) in
                flow.parameters.iter_mut().zip(&gradient).zip(&mut means).zip(&mut squares)
            {
                *mean += (1.0 - DECAY[0]) * (g - *mean);
                *square += (1.0 - DECAY[1]) * (g * g - *square);
                *parameter -=
                    rate * (*mean / corrections[0]) / ((*square / corrections[1]).sqrt() + TINY);
            }
        }
        LearnedFlow::new(shape, one.before.grid(), one.intrinsics, flow.parameters)
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

/// Loss of a pair; adds its gradient to `gradient`.
fn loss(flow: &Perceptrons, pair: &Pair, gradient: Option<&mut [f32]>) -> Result<f64, AriaError> {
    pair.before.same_shape(&pair.now)?;
    let thought = flow.think(&pair.motion);
    let patches = flow.look(pair.intrinsics, &pair.before, &pair.motion, &thought)?;
    let moved = patches.flow();
    let (sum, slopes) = match &pair.taught {
        None => by_features(pair, &moved)?,
        Some(taught) => by_flow(&moved, taught),
    };
    if let Some(gradient) = gradient {
        backward(flow, pair, &thought, &patches, &slopes, flow.shape.cut_mut(gradient));
    }
    Ok(sum)
}

/// Mean squared error of warped features, in squared lengths of features, and its gradient by
/// displacements.
fn by_features(pair: &Pair, moved: &PatchFlow) -> Result<(f64, Vec<[f32; 2]>), AriaError> {
    let mut warped = Warped::new(pair.now.grid(), pair.now.width())?;
    warped.warp(Instructions::best(), &pair.before, moved)?;
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
    Ok((sum, slopes))
}

/// Distance along each axis, in patches, below which errors count by their square.
const NEAR: f32 = 0.2;

/// Mean distance to a flow along both axes, in patches, in which no single patch counts much (as
/// `|d| - NEAR ln(1 + |d| / NEAR)`), and its gradient by displacements. Patches that either flow
/// finds outside of the frame do not count.
fn by_flow(moved: &PatchFlow, taught: &PatchFlow) -> (f64, Vec<[f32; 2]>) {
    let grid = moved.grid();
    let unit = 1.0 / grid.patches() as f32;
    let (mut sum, mut slopes) = (0.0, Vec::with_capacity(grid.patches()));
    for (point, to) in moved.sources().iter().zip(taught.sources()) {
        let counts = grid.holds(*point) && grid.holds(*to);
        slopes.push(std::array::from_fn(|axis| {
            let off = if counts { point[axis] - to[axis] } else { 0.0 };
            sum += f64::from(unit * (off.abs() - NEAR * (off.abs() / NEAR).ln_1p()));
            unit * off / (off.abs() + NEAR)
        }));
    }
    (sum, slopes)
}

/// From the gradient by displacements to that by parameters.
fn backward(
    flow: &Perceptrons,
    pair: &Pair,
    thought: &Thought,
    patches: &Patches,
    slopes: &[[f32; 2]],
    gradient: Parts<&mut [f32]>,
) {
    let Shape { width, hidden, .. } = flow.shape;
    let parts = flow.shape.cut(&flow.parameters);
    let mut context = vec![0.0; hidden];
    for (patch, (units, slope)) in patches.hidden.chunks_exact(hidden).zip(slopes).enumerate() {
        let looked = patches.looked[patch];
        let (scale, [x, y]) = (scale(&pair.before, looked), patches.directions[patch]);
        let slope: f32 = slope.iter().zip(patches.parallax[patch]).map(|(s, p)| s * p).sum();
        gradient.out_bias[0] += slope;
        gradient.out.iter_mut().zip(units).for_each(|(g, unit)| *g += slope * unit);
        for unit in (0..hidden).filter(|unit| units[*unit] > 0.0) {
            let back = slope * parts.out[unit];
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
    use crate::{FlowEstimator, Grid, Pose};

    /// Smooth features, seen from two places before a wall.
    fn pair(grid: Grid, width: usize, to: Pose) -> Pair {
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
        let before = map(&PatchFlow::still(grid));
        Pair { intrinsics, before, now: map(&seen), motion, taught: None }
    }

    fn by_wall(pair: &Pair) -> PatchFlow {
        let wall = crate::Structure::Plane { normal: [0.0, 0.0, 1.0], distance_m: 2.0 };
        let flow = crate::CameraFlow::new(pair.intrinsics, wall);
        flow.over(pair.before.grid(), &pair.motion).expect("a flow")
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let grid = Grid::new(6, 7).expect("a grid");
        let pair = pair(grid, 9, Pose::looking([0.1, 0.02, 0.05], 0.03, 0.01, 0.0));
        let taught = Pair { taught: Some(by_wall(&pair)), ..pair.clone() };
        let shape = Shape { width: 9, latent: 3, hidden: 4 };
        let mut random = Random::new(5);
        let parameters: Vec<f32> =
            (0..shape.parameters()).map(|_| 0.3 * random.normal() as f32).collect();
        for pair in [pair, taught] {
            let flow = Perceptrons { shape, parameters: parameters.clone() };
            let mut gradient = vec![0.0; shape.parameters()];
            loss(&flow, &pair, Some(&mut gradient)).expect("a loss");
            let at = |index: usize, by: f32| {
                let mut flow = flow.clone();
                flow.parameters[index] += by;
                loss(&flow, &pair, None).expect("a loss")
            };
            let (mut agree, size) = (0, gradient.iter().fold(0.0f32, |m, g| m.max(g.abs())));
            for (index, gradient) in gradient.iter().enumerate() {
                let numeric = (at(index, 2e-3) - at(index, -2e-3)) / 4e-3;
                let off = (numeric - f64::from(*gradient)).abs();
                agree += usize::from(off < 0.03 * f64::from(size));
            }
            // Kinks of rectifiers and interpolation spoil a few differences.
            let all = gradient.len();
            assert!(size > 0.0 && agree * 10 >= 9 * all, "{agree} of {all}");
        }
    }

    /// Pairs of frames from places around the origin.
    fn pairs(grid: Grid, count: usize) -> Vec<Pair> {
        let mut random = Random::new(6);
        let mut somewhere = || {
            Pose::looking(
                std::array::from_fn(|_| random.between(-0.15, 0.15)),
                random.between(-0.05, 0.05),
                0.0,
                0.0,
            )
        };
        (0..count).map(|_| pair(grid, 12, somewhere())).collect()
    }

    #[test]
    fn parallax_is_learned_from_features_alone_or_from_a_flow() {
        let grid = Grid::new(9, 12).expect("a grid");
        let pairs = pairs(grid, 40);
        let (known, new) = pairs.split_at(30);
        let taught: Vec<Pair> =
            known.iter().map(|pair| Pair { taught: Some(by_wall(pair)), ..pair.clone() }).collect();
        let training = Training { hidden: 16, latent: 8, steps: 600, ..Training::default() };
        let flow = training.train(known).expect("a flow");
        let untrained = Training { steps: 0, ..training }.train(known).expect("a flow");
        let mean = |flow: &LearnedFlow| {
            let flow = Perceptrons { shape: flow.shape(), parameters: flow.parameters().to_vec() };
            new.iter().map(|pair| loss(&flow, pair, None).expect("a loss")).sum::<f64>()
        };
        assert!(mean(&flow) < 0.2 * mean(&untrained), "{} {}", mean(&flow), mean(&untrained));
        let by_flow = training.train(&taught).expect("a flow");
        assert!(mean(&by_flow) < 0.2 * mean(&untrained), "{}", mean(&by_flow));
        assert!(training.train(&[]).is_err());
    }

    #[test]
    fn a_trained_flow_can_be_kept_and_put_behind_another_lens_and_on_another_grid() {
        let grid = Grid::new(9, 12).expect("a grid");
        let pairs = pairs(grid, 8);
        let training = Training { hidden: 16, latent: 8, steps: 300, ..Training::default() };
        let flow = training.train(&pairs).expect("a flow");
        let Pair { intrinsics, before, motion, .. } = &pairs[0];
        let kept = flow.parameters().to_vec();
        let again = LearnedFlow::new(flow.shape(), grid, *intrinsics, kept).expect("a flow");
        assert_eq!(again.flow(before, motion), flow.flow(before, motion));
        // The same features everywhere: the same displacement, in patches half as large.
        let flat = |grid: Grid| {
            let values = vec![1.0; grid.patches() * 12];
            FeatureMap::from_values(Instructions::best(), grid, 12, &values).expect("a map")
        };
        let fine = Grid::new(18, 24).expect("a grid");
        let wide = Intrinsics::with_field_of_view(fine, 1.0).expect("a lens");
        let moved = CameraMotion { rotation: Pose::default().rotation, ..*motion };
        let by = |flow: &LearnedFlow, patch: usize| {
            let grid = flow.grid();
            let [x, y] = flow.flow(&flat(grid), &moved).expect("a flow").sources()[patch];
            let [from_x, from_y] = grid.centre(patch);
            [x - from_x, y - from_y]
        };
        // Four patches around the corner of one.
        let four = [(8, 10), (8, 11), (9, 10), (9, 11)].map(|(row, col)| fine.index(row, col));
        let coarse = by(&flow, grid.index(4, 5));
        let on_fine = flow.behind(fine, wide);
        for (axis, coarse) in coarse.into_iter().enumerate() {
            let mean = four.iter().map(|patch| by(&on_fine, *patch)[axis]).sum::<f32>() / 4.0;
            assert!((mean - 2.0 * coarse).abs() < 0.05 * coarse.abs() + 1e-3, "{mean}");
        }
        assert!(on_fine.flow(before, motion).is_err(), "another grid");
        let other = FeatureMap::new(grid, 11).expect("a map");
        assert!(flow.flow(&other, motion).is_err(), "another encoder");
        let shape = Shape { width: 12, latent: 8, hidden: 15 };
        assert!(LearnedFlow::new(shape, grid, *intrinsics, vec![]).is_err());
        let shape = Shape { hidden: 16, ..shape };
        let few = vec![0.0; shape.parameters() - 1];
        assert!(LearnedFlow::new(shape, grid, *intrinsics, few).is_err());
        let wrong = vec![f32::NAN; shape.parameters()];
        assert!(LearnedFlow::new(shape, grid, *intrinsics, wrong).is_err());
    }
}

//! [`LearnedFlow`]: flow from two perceptrons (section 4.3.1). The first maps the camera's motion
//! to a latent vector; the second maps this vector and the features of a patch to the displacement
//! of the patch.
//!
//! Four choices are ours. The rotation is computed in closed form, so that only the parallax is
//! learned, and of the parallax its length: a point at depth `z` is displaced by `(e_xy - d e_z) / z`
//! times the focal length, where `e` is the later camera in the earlier one's axes and `d` the
//! direction of the patch, with z = 1. The second perceptron therefore has one output, which takes
//! the place of `1 / z`; what was learned holds behind other lenses and on other grids
//! ([`LearnedFlow::behind`]). The second perceptron also reads that direction, which a transformer's
//! features imply by themselves. Its first layer is a sum over both inputs, so the latent's part is
//! computed once for all patches, and the latent may be narrower than the features.

use super::{CameraFlow, CameraMotion, FlowEstimator, Intrinsics, PatchFlow, Structure};
use crate::{
    AriaError, FeatureMap, Grid, Instructions,
    simd::{ROWS, SimdVector, dots, vectorised},
};
use std::sync::Arc;

/// Sizes of the perceptrons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Features per patch.
    pub width: usize,
    /// Of the latent vector.
    pub latent: usize,
    /// Hidden units of the second perceptron, a multiple of 4.
    pub hidden: usize,
}

/// Numbers that describe a motion: the later camera in the earlier one's axes.
pub(super) const MOTION: usize = 3;
/// Metres to numbers around 1.
const SCALE: f32 = 10.0;
/// Furthest direction that is distinguished: twice as far to the side as ahead.
const FURTHEST: f32 = 2.0;

impl Shape {
    /// Checks the sizes.
    pub(super) fn checked(self) -> Result<Self, AriaError> {
        let fits = |size: usize| (1..=1 << 16).contains(&size);
        if fits(self.width)
            && fits(self.latent)
            && fits(self.hidden)
            && self.hidden.is_multiple_of(ROWS)
        {
            return Ok(self);
        }
        Err(AriaError::setting(
            "the shape of a learned flow",
            format!("{self:?}"),
            "1 to 65536 each, and a multiple of 4 hidden units",
        ))
    }

    /// Lengths of the parts, in the order of [`Parts`].
    fn lengths(self) -> [usize; 10] {
        let Self { width, latent, hidden } = self;
        [
            latent * MOTION,
            latent,
            latent * latent,
            latent,
            hidden * latent,
            hidden,
            hidden * 2,
            hidden * width,
            hidden,
            1,
        ]
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(self) -> usize {
        self.lengths().iter().sum()
    }

    pub(super) fn cut(self, mut rest: &[f32]) -> Parts<&[f32]> {
        Parts::of(self.lengths().map(|length| {
            let (now, later) = rest.split_at(length);
            rest = later;
            now
        }))
    }

    pub(super) fn cut_mut(self, mut rest: &mut [f32]) -> Parts<&mut [f32]> {
        Parts::of(self.lengths().map(|length| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(length);
            rest = later;
            now
        }))
    }
}

/// The parameters by purpose; weights row by row of their outputs.
pub(super) struct Parts<T> {
    pub motion: T,
    pub motion_bias: T,
    pub latent: T,
    pub latent_bias: T,
    pub context: T,
    pub context_bias: T,
    pub place: T,
    pub features: T,
    pub out: T,
    pub out_bias: T,
}

impl<T> Parts<T> {
    fn of(
        [
            motion,
            motion_bias,
            latent,
            latent_bias,
            context,
            context_bias,
            place,
            features,
            out,
            out_bias,
        ]: [T; 10],
    ) -> Self {
        Self {
            motion,
            motion_bias,
            latent,
            latent_bias,
            context,
            context_bias,
            place,
            features,
            out,
            out_bias,
        }
    }
}

/// The two perceptrons before a camera.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedFlow {
    perceptrons: Arc<Perceptrons>,
    grid: Grid,
    intrinsics: Intrinsics,
}

/// The two perceptrons.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Perceptrons {
    pub shape: Shape,
    pub parameters: Vec<f32>,
}

/// The first perceptron's output for a motion.
pub(super) struct Thought {
    pub motion: [f32; MOTION],
    pub first: Vec<f32>,
    pub latent: Vec<f32>,
    pub context: Vec<f32>,
}

/// The second perceptron's output, by target patch.
pub(super) struct Patches {
    pub base: PatchFlow,
    /// The patch of the source whose features are read.
    pub looked: Vec<usize>,
    /// The direction of that patch.
    pub directions: Vec<[f32; 2]>,
    /// Displacement for an output of 1, in patches.
    pub parallax: Vec<[f32; 2]>,
    /// After the rectifier, `hidden` numbers for each.
    pub hidden: Vec<f32>,
    pub outputs: Vec<f32>,
}

impl LearnedFlow {
    /// From parameters that were trained before, for frames of `grid` patches that a lens in these
    /// patches sees.
    ///
    /// # Errors
    /// When the shape is invalid, or there are too many or too few parameters for it, or one is not
    /// finite.
    pub fn new(
        shape: Shape,
        grid: Grid,
        intrinsics: Intrinsics,
        parameters: Vec<f32>,
    ) -> Result<Self, AriaError> {
        let shape = shape.checked()?;
        if parameters.len() != shape.parameters() || !parameters.iter().all(|x| x.is_finite()) {
            return Err(AriaError::setting(
                "the parameters of a learned flow",
                format!("{} numbers", parameters.len()),
                "finite, and as many as its shape has",
            ));
        }
        let perceptrons = Arc::new(Perceptrons { shape, parameters });
        Ok(Self { perceptrons, grid, intrinsics })
    }

    /// The same parameters for frames of other patches, or behind another lens.
    #[must_use]
    pub fn behind(&self, grid: Grid, intrinsics: Intrinsics) -> Self {
        Self { grid, intrinsics, ..self.clone() }
    }

    /// Sizes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.perceptrons.shape
    }

    /// The patches of the frames that it is for.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// All parameters, to be kept.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.perceptrons.parameters
    }
}

impl Perceptrons {
    pub fn think(&self, motion: &CameraMotion) -> Thought {
        let parts = self.shape.cut(&self.parameters);
        let motion = motion.to_source([0.0; 3]).map(|x| SCALE * x as f32);
        let first = layer(parts.motion, parts.motion_bias, &motion, true);
        let latent = layer(parts.latent, parts.latent_bias, &first, false);
        let context = layer(parts.context, parts.context_bias, &latent, false);
        Thought { motion, first, latent, context }
    }

    pub fn look(
        &self,
        intrinsics: Intrinsics,
        source: &FeatureMap,
        motion: &CameraMotion,
        thought: &Thought,
    ) -> Result<Patches, AriaError> {
        if source.width() != self.shape.width {
            let (left, right) = (
                format!("{} features", source.width()),
                format!("{} that the flow was trained for", self.shape.width),
            );
            return Err(AriaError::Shapes { what: "the features of a patch", left, right });
        }
        let grid = source.grid();
        let base = CameraFlow::new(intrinsics, Structure::Distant).over(grid, motion)?;
        let looked: Vec<usize> = base
            .sources()
            .iter()
            .enumerate()
            .map(|(patch, point)| grid.at(*point).unwrap_or(patch))
            .collect();
        let directions: Vec<[f32; 2]> =
            base.sources().iter().map(|point| direction(&intrinsics, *point)).collect();
        let parallax = directions.iter().map(|d| parallax(&intrinsics, &thought.motion, *d));
        let parallax: Vec<[f32; 2]> = parallax.collect();
        let parts = self.shape.cut(&self.parameters);
        let mut hidden = vec![0.0; grid.patches() * self.shape.hidden];
        feature_products(Instructions::best(), source, &looked, parts.features, &mut hidden);
        let mut outputs = Vec::with_capacity(grid.patches());
        for (patch, units) in hidden.chunks_exact_mut(self.shape.hidden).enumerate() {
            let (scale, [x, y]) = (scale(source, looked[patch]), directions[patch]);
            for ((unit, context), place) in
                units.iter_mut().zip(&thought.context).zip(parts.place.as_chunks::<2>().0)
            {
                *unit = (*unit * scale + context + place[0] * x + place[1] * y).max(0.0);
            }
            outputs.extend(layer(parts.out, parts.out_bias, units, false));
        }
        Ok(Patches { base, looked, directions, parallax, hidden, outputs })
    }
}

impl Patches {
    pub fn flow(&self) -> PatchFlow {
        let moved = |patch: usize| {
            let ([x, y], [dx, dy]) = (self.base.sources()[patch], self.parallax[patch]);
            let by = self.outputs[patch];
            Some([x + by * dx, y + by * dy])
        };
        PatchFlow::of(self.base.grid(), moved)
    }
}

impl FlowEstimator for LearnedFlow {
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        if source.grid() != self.grid {
            let (left, right) = (source.grid().to_string(), self.grid.to_string());
            return Err(AriaError::Shapes {
                what: "the patches of a frame and of a learned flow",
                left,
                right,
            });
        }
        let thought = self.perceptrons.think(motion);
        Ok(self.perceptrons.look(self.intrinsics, source, motion, &thought)?.flow())
    }
}

/// Makes the features of a patch as long as the square root of their number.
pub(super) fn scale(source: &FeatureMap, patch: usize) -> f32 {
    let norm = source.norms()[patch];
    if norm > 0.0 { (source.width() as f32).sqrt() / norm } else { 0.0 }
}

/// Where a point of the picture lies, with z = 1.
fn direction(intrinsics: &Intrinsics, point: [f32; 2]) -> [f32; 2] {
    let [x, y, _] = intrinsics.direction(point.map(f64::from));
    [x, y].map(|x| (x as f32).clamp(-FURTHEST, FURTHEST))
}

/// How far a point in this direction is displaced for an output of 1, in patches.
fn parallax(intrinsics: &Intrinsics, [x, y, z]: &[f32; MOTION], to: [f32; 2]) -> [f32; 2] {
    let [fx, fy] = intrinsics.focal().map(|focal| focal as f32 / SCALE);
    [fx * (x - to[0] * z), fy * (y - to[1] * z)]
}

/// One layer, with or without a rectifier.
fn layer(weights: &[f32], biases: &[f32], inputs: &[f32], rectified: bool) -> Vec<f32> {
    let sums = weights
        .chunks_exact(inputs.len())
        .zip(biases)
        .map(|(row, bias)| bias + row.iter().zip(inputs).map(|(w, x)| w * x).sum::<f32>());
    sums.map(|sum| if rectified { sum.max(0.0) } else { sum }).collect()
}

vectorised!(fn feature_products(source: &FeatureMap, looked: &[usize], weights: &[f32], out: &mut [f32]) = products);

/// Inner products of the features of each patch with each row of weights.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn products<L: SimdVector>(
    source: &FeatureMap,
    looked: &[usize],
    weights: &[f32],
    out: &mut [f32],
) {
    let (width, hidden) = (source.width(), weights.len() / source.width());
    for (unit, rows) in weights.chunks_exact(width * ROWS).enumerate() {
        let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &rows[r * width..][..width]);
        for (pair, out) in looked.chunks(2).zip(out.chunks_mut(2 * hidden)) {
            match pair {
                [a, b] => {
                    // SAFETY: the caller has the instructions of `L`.
                    let [first, second] =
                        unsafe { dots::<L, 2>([source.row(*a), source.row(*b)], rows) };
                    out[unit * ROWS..][..ROWS].copy_from_slice(&first);
                    out[hidden + unit * ROWS..][..ROWS].copy_from_slice(&second);
                }
                [a] => {
                    // SAFETY: the caller has the instructions of `L`.
                    let [only] = unsafe { dots::<L, 1>([source.row(*a)], rows) };
                    out[unit * ROWS..][..ROWS].copy_from_slice(&only);
                }
                _ => {}
            }
        }
    }
}

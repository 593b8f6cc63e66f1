//! [`LearnedFlow`]: flow from two perceptrons (section 4.3.1). The first maps the camera's motion
//! to a latent vector; the second maps this vector and the features of a patch to the displacement
//! of the patch.
//!
//! Three choices are ours. The rotation is computed in closed form, so that only the parallax is
//! learned. The second perceptron also reads the position of a patch, which a transformer's
//! features imply by themselves. Its first layer is a sum over both inputs, so the latent's part is
//! computed once for all patches, and the latent may be narrower than the features.

use super::{CameraFlow, CameraMotion, FlowEstimator, Intrinsics, PatchFlow, Structure};
use crate::{
    AriaError, FeatureMap, Grid, Instructions,
    simd::{ROWS, SimdVector, dots, vectorised},
};

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

/// Numbers that describe a motion: three of the rotation, three of the translation.
pub(super) const MOTION: usize = 6;
/// Radians and metres to numbers around 1.
const SCALE: f64 = 10.0;

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
            2 * hidden,
            2,
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

/// The two perceptrons.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedFlow {
    pub(super) shape: Shape,
    pub(super) parameters: Vec<f32>,
    rotation: CameraFlow,
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
    /// After the rectifier, `hidden` numbers for each.
    pub hidden: Vec<f32>,
    pub displacements: Vec<[f32; 2]>,
}

impl LearnedFlow {
    /// From parameters that were trained before.
    ///
    /// # Errors
    /// When the shape is invalid, or there are too many or too few parameters for it, or one is not
    /// finite.
    pub fn new(
        shape: Shape,
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
        Ok(Self { shape, parameters, rotation: CameraFlow::new(intrinsics, Structure::Distant) })
    }

    /// Sizes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All parameters, to be kept.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    pub(super) fn think(&self, motion: &CameraMotion) -> Thought {
        let parts = self.shape.cut(&self.parameters);
        let motion = described(motion);
        let first = layer(parts.motion, parts.motion_bias, &motion, true);
        let latent = layer(parts.latent, parts.latent_bias, &first, false);
        let context = layer(parts.context, parts.context_bias, &latent, false);
        Thought { motion, first, latent, context }
    }

    pub(super) fn look(
        &self,
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
        let base = self.rotation.over(grid, motion)?;
        let looked: Vec<usize> = base
            .sources()
            .iter()
            .enumerate()
            .map(|(patch, point)| grid.at(*point).unwrap_or(patch))
            .collect();
        let parts = self.shape.cut(&self.parameters);
        let mut hidden = vec![0.0; grid.patches() * self.shape.hidden];
        feature_products(Instructions::best(), source, &looked, parts.features, &mut hidden);
        let mut displacements = Vec::with_capacity(grid.patches());
        for (patch, units) in hidden.chunks_exact_mut(self.shape.hidden).enumerate() {
            let (scale, [x, y]) = (scale(source, looked[patch]), place(grid, patch));
            for ((unit, context), place) in
                units.iter_mut().zip(&thought.context).zip(parts.place.as_chunks::<2>().0)
            {
                *unit = (*unit * scale + context + place[0] * x + place[1] * y).max(0.0);
            }
            let out = layer(parts.out, parts.out_bias, units, false);
            displacements.push([out[0], out[1]]);
        }
        Ok(Patches { base, looked, hidden, displacements })
    }
}

impl Patches {
    pub fn flow(&self) -> PatchFlow {
        let moved = |patch: usize| {
            let ([x, y], [dx, dy]) = (self.base.sources()[patch], self.displacements[patch]);
            Some([x + dx, y + dy])
        };
        PatchFlow::of(self.base.grid(), moved)
    }
}

impl FlowEstimator for LearnedFlow {
    fn flow(&self, source: &FeatureMap, motion: &CameraMotion) -> Result<PatchFlow, AriaError> {
        Ok(self.look(source, motion, &self.think(motion))?.flow())
    }
}

/// Rotation as axis times angle, and translation.
fn described(motion: &CameraMotion) -> [f32; MOTION] {
    let r = &motion.rotation;
    // For small turns the antisymmetric part is axis times angle.
    let turn = [(r[2][1] - r[1][2]) / 2.0, (r[0][2] - r[2][0]) / 2.0, (r[1][0] - r[0][1]) / 2.0];
    let [a, b, c] = turn.map(|x| (x * SCALE) as f32);
    let [x, y, z] = motion.translation.map(|x| (x * SCALE) as f32);
    [a, b, c, x, y, z]
}

/// Makes the features of a patch as long as the square root of their number.
pub(super) fn scale(source: &FeatureMap, patch: usize) -> f32 {
    let norm = source.norms()[patch];
    if norm > 0.0 { (source.width() as f32).sqrt() / norm } else { 0.0 }
}

/// Where a patch is, from -1 to 1.
pub(super) fn place(grid: Grid, patch: usize) -> [f32; 2] {
    let [x, y] = grid.centre(patch);
    [2.0 * x / grid.cols() as f32 - 1.0, 2.0 * y / grid.rows() as f32 - 1.0]
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

//! [`Warped`]: features of an earlier frame, moved to where the current frame shows them (section
//! 4.3.1): bilinear between the four patches around the source of the flow.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchFlow, PatchSet,
    features::cosine,
    quantized::{Quantized, inverse_of, scale},
    simd::{Blend, SOON, SimdVector, blend, blend_rounded, vectorised},
};

/// Features moved along a flow, and the patches that the earlier frame did not show, which have the
/// nearest features.
#[derive(Clone, Debug, PartialEq)]
pub struct Warped {
    /// The features after the motion.
    pub features: FeatureMap,
    /// Patches that the earlier frame did not show.
    pub unseen: PatchSet,
    samples: Samples,
}

/// Four patches and what each counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub patches: [u32; 4],
    pub weights: [f32; 4],
}

/// The source of each patch: the upper left of four patches, and the fractions towards the one on
/// the right and the one below.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Samples {
    grid: Grid,
    corners: Vec<u32>,
    across: Vec<f32>,
    down: Vec<f32>,
}

/// Features, and where they are moved.
#[derive(Clone, Copy)]
pub(crate) struct Warp<'a> {
    pub source: &'a FeatureMap,
    pub samples: &'a Samples,
}

/// Patches that updates will cover, and those of them that are computed nevertheless, quantised.
pub(crate) struct Covered<'a> {
    pub patches: &'a PatchSet,
    pub made: &'a PatchSet,
    pub rows: &'a mut Quantized,
}

impl Warped {
    /// Room for features of a shape.
    ///
    /// # Errors
    /// When `width` is 0.
    pub fn new(grid: Grid, width: usize) -> Result<Self, AriaError> {
        Ok(Self {
            features: FeatureMap::new(grid, width)?,
            unseen: PatchSet::new(grid),
            samples: Samples::still(grid),
        })
    }

    /// Moves `source` along `flow` into this room; no memory is allocated.
    ///
    /// # Errors
    /// When shapes differ.
    pub fn warp(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        flow: &PatchFlow,
    ) -> Result<(), AriaError> {
        self.aim(instructions, source, flow)?;
        self.blend(instructions, source, None);
        Ok(())
    }

    /// Computes where a flow moves `source`, and which patches it does not show.
    ///
    /// # Errors
    /// When shapes differ.
    pub(crate) fn aim(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        flow: &PatchFlow,
    ) -> Result<(), AriaError> {
        self.features.same_shape(source)?;
        self.samples.aim(instructions, flow, &mut self.unseen)
    }

    /// Moves `source` there. Covered patches do not change.
    pub(crate) fn blend(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        covered: Option<Covered>,
    ) {
        let (values, norms) = self.features.parts_mut();
        blend_rows(instructions, Warp { source, samples: &self.samples }, values, norms, covered);
    }

    /// The sources of all patches.
    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }
}

/// Features moved along a flow as integers, and the patches that the earlier frame did not
/// show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WarpedQuantized {
    pub rows: Quantized,
    pub unseen: PatchSet,
    samples: Samples,
}

impl WarpedQuantized {
    /// Room for features of a shape.
    pub fn new(grid: Grid, width: usize) -> Self {
        Self {
            rows: Quantized::new(grid, width),
            unseen: PatchSet::new(grid),
            samples: Samples::still(grid),
        }
    }

    /// Moves `source` along `flow` into this buffer, and in the same pass computes the lengths of
    /// the features of `current` and the cosine similarities of the result with the same patches of
    /// `current`.
    ///
    /// # Errors
    /// When shapes differ, and when a value of `current` is not finite.
    pub fn warp_compared(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        flow: &PatchFlow,
        current: &mut FeatureMap,
        similarities: &mut Vec<f32>,
    ) -> Result<(), AriaError> {
        source.same_shape(current)?;
        self.samples.aim(instructions, flow, &mut self.unseen)?;
        similarities.clear();
        similarities.resize(current.grid().patches(), 0.0);
        let stride = self.rows.stride();
        let (out, inverses) = self.rows.parts_mut();
        let (others, norms) = current.parts_mut();
        let compared = Compared { others, norms, similarities };
        blend_rows_compared(
            instructions,
            Warp { source, samples: &self.samples },
            out,
            stride,
            inverses,
            compared,
        );
        current.finite()
    }

    /// The rows, and their source.
    pub fn rows_and_warp<'a>(
        &'a mut self,
        source: &'a FeatureMap,
    ) -> (&'a mut Quantized, Warp<'a>) {
        (&mut self.rows, Warp { source, samples: &self.samples })
    }
}

impl Samples {
    /// Each patch is its own source.
    fn still(grid: Grid) -> Self {
        let patches = grid.patches();
        Self {
            grid,
            corners: (0..patches as u32).collect(),
            across: vec![0.0; patches],
            down: vec![0.0; patches],
        }
    }

    /// The sources of a flow, and those outside of the frame.
    ///
    /// # Errors
    /// When the flow has another shape.
    fn aim(
        &mut self,
        instructions: Instructions,
        flow: &PatchFlow,
        unseen: &mut PatchSet,
    ) -> Result<(), AriaError> {
        let (grid, points) = (self.grid, flow.sources());
        if flow.grid() != grid {
            return Err(AriaError::Shapes {
                what: "flow and features",
                left: flow.grid().to_string(),
                right: grid.to_string(),
            });
        }
        unseen.refill(|patch| !grid.holds(points[patch]));
        take_apart(instructions, self, points);
        Ok(())
    }

    /// The source of a patch; `None` outside of the grid.
    #[inline(always)]
    fn get(&self, patch: usize) -> Option<Sample> {
        let (corner, across, down) =
            (*self.corners.get(patch)?, *self.across.get(patch)?, *self.down.get(patch)?);
        let (cols, last) = (self.grid.cols() as u32, self.grid.patches() as u32 - 1);
        // Patches beyond the last row or column have weight 0, so any other may be read instead.
        let patches =
            [corner, corner + 1, corner + cols, corner + cols + 1].map(|patch| patch.min(last));
        Some(Sample {
            patches,
            weights: [
                (1.0 - down) * (1.0 - across),
                (1.0 - down) * across,
                down * (1.0 - across),
                down * across,
            ],
        })
    }
}

vectorised!(fn take_apart(samples: &mut Samples, points: &[[f32; 2]]) = take_apart_each);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn take_apart_each<L: SimdVector>(
    Samples { grid, corners, across, down }: &mut Samples,
    points: &[[f32; 2]],
) {
    let (rows, cols) = (grid.rows() as f32, grid.cols() as f32);
    for (((corner, across), down), [x, y]) in corners.iter_mut().zip(across).zip(down).zip(points) {
        let within = |x: f32, sides: f32| (x - 0.5).max(0.0).min(sides - 1.0);
        let (x, y) = (within(*x, cols), within(*y, rows));
        let (left, top) = (x.floor(), y.floor());
        (*across, *down) = (x - left, y - top);
        // SAFETY: a whole number between 0 and the most patches of a grid, which 32 bits hold.
        *corner = unsafe { (top * cols + left).to_int_unchecked::<i32>() } as u32;
    }
}

impl<'a> Warp<'a> {
    /// The last source row of a patch, which is the newest if patches are computed in order.
    #[inline(always)]
    pub fn newest(&self, patch: usize) -> &'a [f32] {
        self.samples.get(patch).map_or(&[], |sample| sample.rows(self.source)[3])
    }

    /// Makes the row of a patch as integers.
    ///
    /// # Safety
    /// As [`SimdVector`].
    #[inline(always)]
    pub unsafe fn make<L: SimdVector>(&self, patch: usize, rows: &mut Quantized) {
        let Some(sample) = self.samples.get(patch) else { return };
        // SAFETY: the caller has the instructions of `L`.
        rows.fill(patch, |out| unsafe { sample.round::<L>(self.source, &[], out, None)[0] });
    }
}

impl Sample {
    /// The four patches whose centres surround a point; of one outside, the nearest.
    pub fn around(grid: Grid, [x, y]: [f32; 2]) -> Self {
        let (left, right, across) = between(x, grid.cols());
        let (top, bottom, down) = between(y, grid.rows());
        let patches = [(top, left), (top, right), (bottom, left), (bottom, right)]
            .map(|(row, col)| grid.index(row, col) as u32);
        let weights = [
            (1.0 - down) * (1.0 - across),
            (1.0 - down) * across,
            down * (1.0 - across),
            down * across,
        ];
        Self { patches, weights }
    }

    /// How the weights change along x and along y.
    pub fn slopes(&self) -> [[f32; 4]; 2] {
        let [a, b, c, d] = self.weights;
        [[-a - b, a + b, -c - d, c + d], [-a - c, -b - d, a + c, b + d]]
    }
}

/// The two centres around a coordinate, and how far it is from the first to the second.
fn between(x: f32, sides: usize) -> (usize, usize, f32) {
    let last = sides - 1;
    let x = (x - 0.5).clamp(0.0, last as f32);
    let first = (x as i32 as usize).min(last);
    (first, (first + 1).min(last), x - first as f32)
}

vectorised!(fn blend_rows(warp: Warp, out: &mut [f32], norms: &mut [f32], covered: Option<Covered>) = blend_each);
vectorised!(fn blend_rows_compared(warp: Warp, out: &mut [i16], stride: usize, inverses: &mut [f32], compared: Compared) = blend_each_compared);

/// Rows that are compared with blended ones, and the results.
struct Compared<'a> {
    others: &'a [f32],
    norms: &'a mut [f32],
    similarities: &'a mut [f32],
}

impl Sample {
    /// Its four source rows.
    #[inline(always)]
    fn rows<'a>(&self, source: &'a FeatureMap) -> [&'a [f32]; 4] {
        let (values, width) = (source.values(), source.width());
        let row = |patch: u32| &values[patch as usize * width..][..width];
        let [a, b, c, d] = self.patches;
        [row(a), row(b), row(c), row(d)]
    }

    /// An upper bound on the length of their blend.
    #[inline(always)]
    fn longest(&self, source: &FeatureMap) -> f32 {
        self.patches
            .iter()
            .zip(self.weights)
            .map(|(patch, weight)| weight * source.norms()[*patch as usize])
            .sum()
    }

    /// Their blend as integers. Returns its length, its inner product with `other`, and the squared
    /// length of that.
    ///
    /// # Safety
    /// As [`SimdVector`].
    #[inline(always)]
    unsafe fn round<L: SimdVector>(
        &self,
        source: &FeatureMap,
        ahead: &[f32],
        out: &mut [i16],
        other: Option<&[f32]>,
    ) -> [f32; 3] {
        let (by, _) = scale(self.longest(source));
        let scaled = Blend {
            rows: self.rows(source),
            weights: self.weights.map(|weight| weight * by),
            ahead,
        };
        // SAFETY: the caller has the instructions of `L`.
        let [square, product, other] = unsafe { blend_rounded::<L>(scaled, out, other) };
        [square.sqrt(), product, other]
    }
}

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn blend_each<L: SimdVector>(
    warp: Warp,
    out: &mut [f32],
    norms: &mut [f32],
    mut covered: Option<Covered>,
) {
    let Warp { source, samples } = warp;
    for (number, (out, norm)) in out.chunks_exact_mut(source.width()).zip(norms).enumerate() {
        let (Some(sample), ahead) = (samples.get(number), warp.newest(number + SOON)) else {
            break;
        };
        if let Some(Covered { made, rows, .. }) =
            covered.as_mut().filter(|covered| covered.patches.contains(number))
        {
            if made.contains(number) {
                // SAFETY: the caller has the instructions of `L`.
                rows.fill(number, |out| unsafe { sample.round::<L>(source, ahead, out, None)[0] });
            }
            continue;
        }
        let rows = Blend { rows: sample.rows(source), weights: sample.weights, ahead };
        // SAFETY: the caller has the instructions of `L`.
        *norm = unsafe { blend::<L>(rows, out) }.sqrt();
    }
}

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn blend_each_compared<L: SimdVector>(
    warp: Warp,
    out: &mut [i16],
    stride: usize,
    inverses: &mut [f32],
    compared: Compared,
) {
    let Warp { source, samples } = warp;
    let others = compared
        .others
        .chunks_exact(source.width())
        .zip(compared.norms.iter_mut().zip(compared.similarities));
    let blended = out.chunks_exact_mut(stride).zip(inverses);
    for (number, ((out, inverse), (other, (other_norm, similarity)))) in
        blended.zip(others).enumerate()
    {
        let (Some(sample), ahead) = (samples.get(number), warp.newest(number + SOON)) else {
            break;
        };
        // SAFETY: the caller has the instructions of `L`.
        let [norm, product, other_square] =
            unsafe { sample.round::<L>(source, ahead, out, Some(other)) };
        *inverse = inverse_of(norm);
        *other_norm = other_square.sqrt();
        *similarity = cosine(product, norm, *other_norm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn warping_is_bilinear_interpolation_with_all_instructions() {
        let grid = Grid::new(6, 9).expect("a grid");
        let mut random = Random::new(3);
        for width in [5, 16, 40, 384] {
            let values: Vec<f32> =
                (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
            let flow = PatchFlow::of(grid, |_| {
                Some([random.between(-1.0, 10.0) as f32, random.between(-1.0, 7.0) as f32])
            });
            for instructions in Instructions::available() {
                let map =
                    FeatureMap::from_values(instructions, grid, width, &values).expect("a map");
                let mut warped = Warped::new(grid, width).expect("room");
                warped.warp(instructions, &map, &flow).expect("a warp");
                for (patch, point) in flow.sources().iter().enumerate() {
                    let x = (point[0] - 0.5).clamp(0.0, 8.0);
                    let y = (point[1] - 0.5).clamp(0.0, 5.0);
                    let mut squares = 0.0;
                    for feature in 0..width {
                        let at = |row: f32, col: f32| {
                            map.row(grid.index(row as usize, col as usize))[feature]
                        };
                        let along = |row: f32| {
                            at(row, x.floor()) * (1.0 - x.fract()) + at(row, x.ceil()) * x.fract()
                        };
                        let expected =
                            along(y.floor()) * (1.0 - y.fract()) + along(y.ceil()) * y.fract();
                        assert!((warped.features.row(patch)[feature] - expected).abs() < 1e-5);
                        squares += expected * expected;
                    }
                    assert!((warped.features.norms()[patch] - squares.sqrt()).abs() < 1e-3);
                    assert_eq!(warped.unseen.contains(patch), !grid.holds(*point));
                }
            }
        }
    }

    #[test]
    fn warping_and_comparing_in_one_pass_is_doing_each_alone() {
        let grid = Grid::new(5, 8).expect("a grid");
        let mut random = Random::new(4);
        for width in [7, 48, 384] {
            let mut values = || -> Vec<f32> {
                (0..grid.patches() * width).map(|_| random.normal() as f32).collect()
            };
            let (before, mut now) = (values(), values());
            let flow = PatchFlow::of(grid, |_| {
                Some([random.between(-1.0, 9.0) as f32, random.between(-1.0, 6.0) as f32])
            });
            for instructions in Instructions::available() {
                let map = |values: &[f32]| {
                    FeatureMap::from_values(instructions, grid, width, values).expect("a map")
                };
                let (source, current) = (map(&before), map(&now));
                let (mut alone, mut together) =
                    (Warped::new(grid, width).expect("room"), WarpedQuantized::new(grid, width));
                let mut taken = FeatureMap::new(grid, width).expect("room");
                taken.exchange(&mut now.clone()).expect("values");
                let (mut similarities, mut expected) = (Vec::new(), Vec::new());
                alone.warp(instructions, &source, &flow).expect("a warp");
                together
                    .warp_compared(instructions, &source, &flow, &mut taken, &mut similarities)
                    .expect("a warp");
                alone
                    .features
                    .similarities(instructions, &current, &mut expected)
                    .expect("similarities");
                assert_eq!((&together.unseen, taken.values()), (&alone.unseen, current.values()));
                let near = |a: &[f32], b: &[f32]| {
                    a.iter()
                        .zip(b)
                        .all(|(a, b)| (a - b).abs() < crate::TOLERANCE * b.abs().max(1.0))
                };
                assert!(near(taken.norms(), current.norms()) && near(&similarities, &expected));
                for patch in 0..grid.patches() {
                    let norm = alone.features.norms()[patch];
                    let restored = together
                        .rows
                        .row(patch)
                        .iter()
                        .map(|value| f32::from(*value) * together.rows.inverse(patch) * norm);
                    let off = restored
                        .zip(alone.features.row(patch))
                        .map(|(a, b)| (a - b).abs())
                        .fold(0.0, f32::max);
                    assert!(off < 1e-4 * norm, "{width} {patch}: {off}");
                }
            }
            now[3 * width] = f32::INFINITY;
            let (best, source) = (
                Instructions::best(),
                FeatureMap::from_values(Instructions::best(), grid, width, &before).expect("a map"),
            );
            let (mut warped, mut taken) =
                (WarpedQuantized::new(grid, width), FeatureMap::new(grid, width).expect("room"));
            assert!(matches!(
                taken.exchange(&mut now[1..].to_vec()),
                Err(AriaError::Values { .. })
            ));
            taken.exchange(&mut now).expect("values");
            assert_eq!(
                warped.warp_compared(best, &source, &flow, &mut taken, &mut Vec::new()),
                Err(AriaError::NotFinite { patch: 3 })
            );
        }
    }

    #[test]
    fn samples_of_a_flow_are_those_of_its_points() {
        let grid = Grid::new(7, 11).expect("a grid");
        let mut random = Random::new(5);
        let flow = PatchFlow::of(grid, |patch| {
            (patch % 10 > 0)
                .then(|| [random.between(-2.0, 13.0) as f32, random.between(-2.0, 9.0) as f32])
        });
        for instructions in Instructions::available() {
            let (mut samples, mut unseen) = (Samples::still(grid), PatchSet::new(grid));
            samples.aim(instructions, &flow, &mut unseen).expect("a flow");
            for (patch, point) in flow.sources().iter().enumerate() {
                let (sample, expected) =
                    (samples.get(patch).expect("a sample"), Sample::around(grid, *point));
                assert_eq!(
                    (sample.weights, unseen.contains(patch)),
                    (expected.weights, !grid.holds(*point))
                );
                let counting = sample
                    .weights
                    .iter()
                    .zip(sample.patches.iter().zip(expected.patches))
                    .filter(|(weight, _)| **weight > 0.0);
                assert!(
                    counting.clone().count() > 0 && counting.clone().all(|(_, (a, b))| *a == b),
                    "{point:?}"
                );
            }
            assert!(samples.get(grid.patches()).is_none());
        }
    }

    #[test]
    fn without_motion_nothing_changes() {
        let grid = Grid::new(3, 4).expect("a grid");
        let best = Instructions::best();
        let values: Vec<f32> = (0..grid.patches() * 20).map(|i| i as f32).collect();
        let map = FeatureMap::from_values(best, grid, 20, &values).expect("a map");
        let mut warped = Warped::new(grid, 20).expect("room");
        warped.warp(best, &map, &PatchFlow::still(grid)).expect("a warp");
        assert_eq!(warped.features.values(), map.values());
        assert_eq!(warped.unseen.count(), 0);
        assert!(
            warped.warp(best, &map, &PatchFlow::still(Grid::new(3, 3).expect("a grid"))).is_err()
        );
    }
}

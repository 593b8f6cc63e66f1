//! [`Warped`]: features of an earlier frame where the current one would show them (section 4.3.1): bilinear between the four patches around the flow's source.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchFlow, PatchSet,
    features::cosine,
    lanes::{Lanes, blend, vectorised},
};

/// Features moved along a flow, and the patches that the earlier frame did not show: they hold what was nearest to them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Warped {
    pub features: FeatureMap,
    pub unseen: PatchSet,
    samples: Vec<Sample>,
}

/// Four patches and what each counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub patches: [usize; 4],
    pub weights: [f32; 4],
}

impl Warped {
    /// Room for features of a shape.
    ///
    /// # Errors
    /// When `width` is 0.
    pub fn new(grid: Grid, width: usize) -> Result<Self, AriaError> {
        Ok(Self { features: FeatureMap::new(grid, width)?, unseen: PatchSet::new(grid), samples: Vec::with_capacity(grid.patches()) })
    }

    /// Moves `source` along `flow` into this room; no memory is allocated.
    ///
    /// # Errors
    /// When shapes differ.
    pub fn warp(&mut self, instructions: Instructions, source: &FeatureMap, flow: &PatchFlow) -> Result<(), AriaError> {
        self.look_up(source, flow)?;
        let (values, norms) = self.features.parts_mut();
        blend_rows(instructions, &self.samples, source.values(), source.width(), values, norms);
        Ok(())
    }

    /// The same, and into `copy` too.
    pub(crate) fn warp_twice(&mut self, instructions: Instructions, source: &FeatureMap, flow: &PatchFlow, copy: &mut FeatureMap) -> Result<(), AriaError> {
        self.features.same_shape(copy)?;
        self.look_up(source, flow)?;
        let ((values, norms), (copied, copied_norms)) = (self.features.parts_mut(), copy.parts_mut());
        blend_rows_twice(instructions, &self.samples, source.values(), source.width(), values, copied, norms);
        copied_norms.copy_from_slice(norms);
        Ok(())
    }

    /// The same as [`Self::warp`], and cosine similarities of what comes out with the same patches of `current`.
    pub(crate) fn warp_compared(
        &mut self,
        instructions: Instructions,
        source: &FeatureMap,
        flow: &PatchFlow,
        current: &FeatureMap,
        similarities: &mut Vec<f32>,
    ) -> Result<(), AriaError> {
        self.features.same_shape(current)?;
        self.look_up(source, flow)?;
        similarities.clear();
        similarities.resize(source.grid().patches(), 0.0);
        let (values, norms) = self.features.parts_mut();
        let compared = Compared { other: current.values(), norms, products: similarities };
        blend_rows_compared(instructions, &self.samples, source.values(), source.width(), values, compared);
        let norms = self.features.norms();
        for (similarity, (a, b)) in similarities.iter_mut().zip(norms.iter().zip(current.norms())) {
            *similarity = cosine(*similarity, *a, *b);
        }
        Ok(())
    }

    /// Which patches of the source each patch is made of.
    fn look_up(&mut self, source: &FeatureMap, flow: &PatchFlow) -> Result<(), AriaError> {
        self.features.same_shape(source)?;
        let grid = source.grid();
        if flow.grid() != grid {
            return Err(AriaError::Shapes { what: "flow and features", left: flow.grid().to_string(), right: grid.to_string() });
        }
        self.unseen.clear();
        self.samples.clear();
        for (patch, point) in flow.sources().iter().enumerate() {
            self.samples.push(Sample::around(grid, *point));
            if !grid.holds(*point) {
                self.unseen.insert(patch);
            }
        }
        Ok(())
    }
}

impl Sample {
    /// The four patches whose centres surround a point; of one outside, the nearest.
    pub fn around(grid: Grid, [x, y]: [f32; 2]) -> Self {
        let (left, right, across) = between(x, grid.cols());
        let (top, bottom, down) = between(y, grid.rows());
        let patches = [grid.index(top, left), grid.index(top, right), grid.index(bottom, left), grid.index(bottom, right)];
        let weights = [(1.0 - down) * (1.0 - across), (1.0 - down) * across, down * (1.0 - across), down * across];
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
    let first = (x as usize).min(last);
    (first, (first + 1).min(last), x - first as f32)
}

vectorised!(fn blend_rows(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], norms: &mut [f32]) = blend_each);
vectorised!(fn blend_rows_twice(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], copy: &mut [f32], norms: &mut [f32]) = blend_each_twice);
vectorised!(fn blend_rows_compared(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], compared: Compared) = blend_each_compared);

/// What blended rows are compared with, and what comes of it.
struct Compared<'a> {
    other: &'a [f32],
    norms: &'a mut [f32],
    products: &'a mut [f32],
}

/// The four rows that a sample is made of.
#[inline(always)]
fn rows_of<'a>(sample: &Sample, source: &'a [f32], width: usize) -> [&'a [f32]; 4] {
    sample.patches.map(|patch| &source[patch * width..][..width])
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn blend_each<L: Lanes>(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], norms: &mut [f32]) {
    for ((sample, out), norm) in samples.iter().zip(out.chunks_exact_mut(width)).zip(norms) {
        // SAFETY: as for this function.
        let [square, _] = unsafe { blend::<L, 1, false>(rows_of(sample, source, width), sample.weights, [out], &[]) };
        *norm = square.sqrt();
    }
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn blend_each_twice<L: Lanes>(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], copy: &mut [f32], norms: &mut [f32]) {
    let outs = out.chunks_exact_mut(width).zip(copy.chunks_exact_mut(width));
    for ((sample, (out, copy)), norm) in samples.iter().zip(outs).zip(norms) {
        // SAFETY: as for this function.
        let [square, _] = unsafe { blend::<L, 2, false>(rows_of(sample, source, width), sample.weights, [out, copy], &[]) };
        *norm = square.sqrt();
    }
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn blend_each_compared<L: Lanes>(samples: &[Sample], source: &[f32], width: usize, out: &mut [f32], compared: Compared) {
    let results = compared.norms.iter_mut().zip(compared.products);
    for (((sample, out), other), (norm, product)) in samples.iter().zip(out.chunks_exact_mut(width)).zip(compared.other.chunks_exact(width)).zip(results) {
        // SAFETY: as for this function.
        let [square, with_other] = unsafe { blend::<L, 1, true>(rows_of(sample, source, width), sample.weights, [out], other) };
        (*norm, *product) = (square.sqrt(), with_other);
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
            let values: Vec<f32> = (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
            let flow = PatchFlow::of(grid, |_| Some([random.between(-1.0, 10.0) as f32, random.between(-1.0, 7.0) as f32]));
            for instructions in Instructions::available() {
                let map = FeatureMap::from_values(instructions, grid, width, &values).expect("a map");
                let mut warped = Warped::new(grid, width).expect("room");
                warped.warp(instructions, &map, &flow).expect("a warp");
                for (patch, point) in flow.sources().iter().enumerate() {
                    let x = (point[0] - 0.5).clamp(0.0, 8.0);
                    let y = (point[1] - 0.5).clamp(0.0, 5.0);
                    let mut squares = 0.0;
                    for feature in 0..width {
                        let at = |row: f32, col: f32| map.row(grid.index(row as usize, col as usize))[feature];
                        let along = |row: f32| at(row, x.floor()) * (1.0 - x.fract()) + at(row, x.ceil()) * x.fract();
                        let expected = along(y.floor()) * (1.0 - y.fract()) + along(y.ceil()) * y.fract();
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
    fn copies_and_comparisons_are_those_of_the_plain_warp() {
        let grid = Grid::new(5, 8).expect("a grid");
        let mut random = Random::new(4);
        for width in [7, 48, 384] {
            let mut map = |best| {
                let values: Vec<f32> = (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
                FeatureMap::from_values(best, grid, width, &values).expect("a map")
            };
            let (source, current) = (map(Instructions::best()), map(Instructions::best()));
            let flow = PatchFlow::of(grid, |_| Some([random.between(-1.0, 9.0) as f32, random.between(-1.0, 6.0) as f32]));
            for instructions in Instructions::available() {
                let room = || Warped::new(grid, width).expect("room");
                let (mut plain, mut twice, mut compared) = (room(), room(), room());
                plain.warp(instructions, &source, &flow).expect("a warp");
                let (mut copy, mut similarities, mut expected) = (FeatureMap::new(grid, width).expect("room"), Vec::new(), Vec::new());
                twice.warp_twice(instructions, &source, &flow, &mut copy).expect("a warp");
                compared.warp_compared(instructions, &source, &flow, &current, &mut similarities).expect("a warp");
                plain.features.similarities(instructions, &current, &mut expected).expect("similarities");
                assert_eq!((&twice, &compared, &copy), (&plain, &plain, &plain.features));
                assert!(similarities.iter().zip(&expected).all(|(a, b)| (a - b).abs() < crate::TOLERANCE));
            }
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
        assert!(warped.warp(best, &map, &PatchFlow::still(Grid::new(3, 3).expect("a grid"))).is_err());
    }
}

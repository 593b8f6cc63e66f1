//! [`Warped`]: features of an earlier frame where the current one would show them (section 4.3.1): bilinear between the four patches around the flow's source.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, PatchFlow, PatchSet,
    features::cosine,
    lanes::{Blend, Lanes, SOON, blend, blend_compared, vectorised},
    whole::{Whole, scale},
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
    pub patches: [u32; 4],
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
        self.aim(source, flow)?;
        self.blend(instructions, source, None);
        Ok(())
    }

    /// Where `source` goes along a flow.
    ///
    /// # Errors
    /// When shapes differ.
    pub(crate) fn aim(&mut self, source: &FeatureMap, flow: &PatchFlow) -> Result<(), AriaError> {
        self.features.same_shape(source)?;
        look_up(source.grid(), flow, &mut self.samples, &mut self.unseen)
    }

    /// Moves `source` there. Some patches can be made as whole numbers only, and are then as they were here.
    pub(crate) fn blend(&mut self, instructions: Instructions, source: &FeatureMap, covered: Option<(&PatchSet, &mut Whole)>) {
        let (values, norms) = self.features.parts_mut();
        blend_rows(instructions, &self.samples, source, values, norms, covered);
    }
}

/// Features moved along a flow as whole numbers, and the patches that the earlier frame did not show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WarpedWhole {
    pub whole: Whole,
    pub unseen: PatchSet,
    samples: Vec<Sample>,
}

impl WarpedWhole {
    /// Room for features of a shape.
    pub fn new(grid: Grid, width: usize) -> Self {
        Self { whole: Whole::new(grid, width), unseen: PatchSet::new(grid), samples: Vec::with_capacity(grid.patches()) }
    }

    /// Moves `source` along `flow` into this room, in one pass with the lengths of the features of `current`, and cosine similarities of what comes out with the
    /// same patches of that.
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
        look_up(source.grid(), flow, &mut self.samples, &mut self.unseen)?;
        similarities.clear();
        similarities.resize(source.grid().patches(), 0.0);
        let stride = self.whole.stride();
        let (out, inverses) = self.whole.parts_mut();
        let (others, norms) = current.parts_mut();
        blend_rows_compared(instructions, &self.samples, source, out, stride, inverses, Compared { others, norms, similarities });
        current.finite()
    }
}

/// Which patches of the source each patch is made of, and which the source does not show.
fn look_up(grid: Grid, flow: &PatchFlow, samples: &mut Vec<Sample>, unseen: &mut PatchSet) -> Result<(), AriaError> {
    if flow.grid() != grid {
        return Err(AriaError::Shapes { what: "flow and features", left: flow.grid().to_string(), right: grid.to_string() });
    }
    samples.clear();
    unseen.clear();
    samples.extend(flow.sources().iter().enumerate().map(|(patch, point)| {
        if !grid.holds(*point) {
            unseen.insert(patch);
        }
        Sample::around(grid, *point)
    }));
    Ok(())
}

impl Sample {
    /// The four patches whose centres surround a point; of one outside, the nearest.
    pub fn around(grid: Grid, [x, y]: [f32; 2]) -> Self {
        let (left, right, across) = between(x, grid.cols());
        let (top, bottom, down) = between(y, grid.rows());
        let patches = [(top, left), (top, right), (bottom, left), (bottom, right)].map(|(row, col)| grid.index(row, col) as u32);
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
    let first = (x as i32 as usize).min(last);
    (first, (first + 1).min(last), x - first as f32)
}

vectorised!(
    fn blend_rows(samples: &[Sample], source: &FeatureMap, out: &mut [f32], norms: &mut [f32], covered: Option<(&PatchSet, &mut Whole)>) = blend_each
);
vectorised!(
    fn blend_rows_compared(samples: &[Sample], source: &FeatureMap, out: &mut [i16], stride: usize, inverses: &mut [f32], compared: Compared) = blend_each_compared
);

/// Rows that are compared with blended ones, and what comes of it.
struct Compared<'a> {
    others: &'a [f32],
    norms: &'a mut [f32],
    similarities: &'a mut [f32],
}

impl Sample {
    /// The four rows that it is made of.
    #[inline(always)]
    fn rows<'a>(&self, source: &'a FeatureMap) -> [&'a [f32]; 4] {
        let (values, width) = (source.values(), source.width());
        let row = |patch: u32| &values[patch as usize * width..][..width];
        let [a, b, c, d] = self.patches;
        [row(a), row(b), row(c), row(d)]
    }

    /// The most that what is made of them can be long.
    #[inline(always)]
    fn longest(&self, source: &FeatureMap) -> f32 {
        self.patches.iter().zip(self.weights).map(|(patch, weight)| weight * source.norms()[*patch as usize]).sum()
    }
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn blend_each<L: Lanes>(samples: &[Sample], source: &FeatureMap, out: &mut [f32], norms: &mut [f32], mut covered: Option<(&PatchSet, &mut Whole)>) {
    let mut below = vec![0.0; source.width()];
    for (number, ((sample, out), norm)) in samples.iter().zip(out.chunks_exact_mut(source.width())).zip(norms).enumerate() {
        let ahead = samples.get(number + SOON).map_or(&[][..], |sample| sample.rows(source)[3]);
        let rows = Blend { rows: sample.rows(source), weights: sample.weights, ahead };
        match &mut covered {
            // SAFETY: as for this function.
            Some((covered, whole)) if covered.contains(number) => unsafe {
                let norm = blend::<L>(rows, &mut below).sqrt();
                whole.put::<L>(number, &below, norm);
            },
            // SAFETY: as for this function.
            _ => *norm = unsafe { blend::<L>(rows, out) }.sqrt(),
        }
    }
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn blend_each_compared<L: Lanes>(samples: &[Sample], source: &FeatureMap, out: &mut [i16], stride: usize, inverses: &mut [f32], compared: Compared) {
    let others = compared.others.chunks_exact(source.width()).zip(compared.norms.iter_mut().zip(compared.similarities));
    let blended = samples.iter().zip(out.chunks_exact_mut(stride)).zip(inverses);
    for (number, (((sample, out), inverse), (row, (row_norm, similarity)))) in blended.zip(others).enumerate() {
        let ahead = samples.get(number + SOON).map_or(&[][..], |sample| sample.rows(source)[3]);
        let (by, _) = scale(sample.longest(source));
        let scaled = Blend { rows: sample.rows(source), weights: sample.weights.map(|weight| weight * by), ahead };
        // SAFETY: as for this function.
        let [square, with_row, row_square] = unsafe { blend_compared::<L>(scaled, out, row) };
        let norm = square.sqrt();
        *inverse = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        *row_norm = row_square.sqrt();
        *similarity = cosine(with_row, norm, *row_norm);
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
    fn warping_and_comparing_in_one_pass_is_doing_each_alone() {
        let grid = Grid::new(5, 8).expect("a grid");
        let mut random = Random::new(4);
        for width in [7, 48, 384] {
            let mut values = || -> Vec<f32> { (0..grid.patches() * width).map(|_| random.normal() as f32).collect() };
            let (before, mut now) = (values(), values());
            let flow = PatchFlow::of(grid, |_| Some([random.between(-1.0, 9.0) as f32, random.between(-1.0, 6.0) as f32]));
            for instructions in Instructions::available() {
                let map = |values: &[f32]| FeatureMap::from_values(instructions, grid, width, values).expect("a map");
                let (source, current) = (map(&before), map(&now));
                let (mut alone, mut together) = (Warped::new(grid, width).expect("room"), WarpedWhole::new(grid, width));
                let mut taken = FeatureMap::new(grid, width).expect("room");
                taken.exchange(&mut now.clone()).expect("values");
                let (mut similarities, mut expected) = (Vec::new(), Vec::new());
                alone.warp(instructions, &source, &flow).expect("a warp");
                together.warp_compared(instructions, &source, &flow, &mut taken, &mut similarities).expect("a warp");
                alone.features.similarities(instructions, &current, &mut expected).expect("similarities");
                assert_eq!((&together.unseen, taken.values()), (&alone.unseen, current.values()));
                let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < crate::TOLERANCE * b.abs().max(1.0));
                assert!(near(taken.norms(), current.norms()) && near(&similarities, &expected));
                for patch in 0..grid.patches() {
                    let norm = alone.features.norms()[patch];
                    let whole = together.whole.row(patch).iter().map(|value| f32::from(*value) * together.whole.inverse(patch) * norm);
                    let off = whole.zip(alone.features.row(patch)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(off < 1e-4 * norm, "{width} {patch}: {off}");
                }
            }
            now[3 * width] = f32::INFINITY;
            let (best, source) = (Instructions::best(), FeatureMap::from_values(Instructions::best(), grid, width, &before).expect("a map"));
            let (mut warped, mut taken) = (WarpedWhole::new(grid, width), FeatureMap::new(grid, width).expect("room"));
            assert!(matches!(taken.exchange(&mut now[1..].to_vec()), Err(AriaError::Values { .. })));
            taken.exchange(&mut now).expect("values");
            assert_eq!(warped.warp_compared(best, &source, &flow, &mut taken, &mut Vec::new()), Err(AriaError::NotFinite { patch: 3 }));
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

//! Aligns two clocks better than one event does: the offset and the rate at which the logged phases
//! explain the trace best.
//!
//! An event in the trace is known to about one sample, and clocks differ in speed by some parts per
//! million, which adds up over minutes. Offset and rate are searched on a grid that gets finer. In
//! the search each phase has several parts in turn: a phase whose power changes within it would
//! otherwise shift the clock towards where it draws more. The offset is kept within what the event
//! allows, with the rate that fits it best.

use super::{
    regression::{Fit, Segment, fit},
    samples::Samples,
};

/// The search for the rate: clocks run at rates that differ by no more than this share.
pub(super) const RATE: f64 = 200e-6;
/// Least range of the search for the offset, s, to either side.
const OFFSET_S: f64 = 0.03;
/// Points of the first grid to either side: offset, rate.
const GRID: (i32, i32) = (10, 5);
/// Refinements: each halves the steps.
const ROUNDS: usize = 8;
/// Parts of a phase in the search.
const SLICES: usize = 5;
/// Where the best offset is at the end of the first range, the range is this many times as large.
const WIDER: i32 = 6;
/// Twice the logarithm of the likelihood ratio that the search must gain; otherwise the event
/// stands. Neighbouring samples are correlated, so that it is far above what two parameters gain by
/// chance.
const WORTH: f64 = 60.0;

/// How the monitor's clock differs from the device's, beside the event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Alignment {
    /// Added to times of the device, s.
    pub offset_s: f64,
    /// Share by which the monitor's clock is faster.
    pub rate: f64,
}

impl Alignment {
    /// Segments on the monitor's clock; `pivot_s` is the event.
    pub fn apply(self, segments: &[Segment], pivot_s: f64) -> Vec<Segment> {
        let to = |at_s: f64| at_s + self.offset_s + self.rate * (at_s - pivot_s);
        let moved = |s: &Segment| Segment { start_s: to(s.start_s), end_s: to(s.end_s), ..*s };
        segments.iter().map(moved).collect()
    }
}

/// What the search found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Aligned {
    /// Within what the event allows.
    pub kept: Alignment,
    /// The offset that explains the trace best; where it is not worth the search, that of the event.
    pub best_offset_s: f64,
}

/// What a regression needs beside samples and segments.
#[derive(Clone, Copy)]
pub(super) struct Problem {
    pub parts: usize,
    pub preview_w: f64,
    pub drift_from_s: Option<f64>,
    /// Time of the event on the monitor's clock, s.
    pub pivot_s: f64,
    /// By how much the event may be earlier and later than that, s.
    pub uncertainty_s: (f64, f64),
    /// Whether there are enough frames to tell the rates of the clocks apart.
    pub searches_rate: bool,
}

impl Problem {
    /// The regression of samples on segments.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn fit(self, samples: &Samples, segments: &[Segment]) -> Result<Fit, usize> {
        fit(samples, segments, self.parts, self.preview_w, self.drift_from_s)
    }

    /// The mean powers of parts whose power changes within them, by a sensor that averages: a sample
    /// at the edge of a part covers its edge alone. The parts as they are, where samples do not tell
    /// slices of them apart.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn fit_changing(
        self,
        samples: &Samples,
        segments: &[Segment],
        slices: usize,
    ) -> Result<Fit, usize> {
        let fine = Self { parts: slices * self.parts, ..self };
        let Ok(fit) = fine.fit(samples, &sliced(segments, slices)) else {
            return self.fit(samples, segments);
        };
        let (parts, drift) = fit.watts.split_at(fine.parts);
        let mean = |slices: &[f64]| slices.iter().sum::<f64>() / slices.len() as f64;
        let watts = parts.chunks(slices).map(mean).chain(drift.iter().copied()).collect();
        Ok(Fit { watts, ..fit })
    }

    /// The alignment that explains the samples best.
    pub fn align(self, samples: &Samples, segments: &[Segment]) -> Aligned {
        let coarse = samples.binned();
        let sliced = sliced(segments, SLICES);
        let fine = Self { parts: SLICES * self.parts, ..self };
        let of = |alignment: Alignment| fine.fit(&coarse, &alignment.apply(&sliced, self.pivot_s));
        let residual = |alignment| of(alignment).map_or(f64::INFINITY, |fit| fit.residual);
        let Ok(unaligned) = of(Alignment::default()) else { return Aligned::default() };
        let is_worth =
            |value: f64| unaligned.count as f64 * (unaligned.residual / value).ln() > WORTH;
        let (earlier_s, later_s) = self.uncertainty_s;
        let range_s = earlier_s.max(later_s).max(OFFSET_S);
        let step = (range_s / f64::from(GRID.0), RATE / f64::from(GRID.1));
        let grid = (GRID.0, if self.searches_rate { GRID.1 } else { 0 });
        let start = Search { value: unaligned.residual, at: Alignment::default() };
        let mut found = start.around(&residual, grid, step);
        if found.at.offset_s.abs() > range_s - 0.5 * step.0 {
            found = start.around(&residual, (WIDER * grid.0, grid.1), step);
        }
        let found = found.refined(&residual, grid, step);
        if !is_worth(found.value) {
            return Aligned::default();
        }
        let best_offset_s = found.at.offset_s;
        let offset_s = best_offset_s.clamp(-earlier_s, later_s);
        if offset_s == best_offset_s {
            return Aligned { kept: found.at, best_offset_s };
        }
        let at = Alignment { offset_s, rate: 0.0 };
        let (grid, step) = ((0, grid.1), (0.0, step.1));
        let limited = Search { value: residual(at), at }.around(&residual, grid, step);
        let limited = limited.refined(&residual, grid, step);
        let kept = if is_worth(limited.value) { limited.at } else { Alignment::default() };
        Aligned { kept, best_offset_s }
    }
}

/// The best alignment so far, and its residual.
#[derive(Clone, Copy)]
struct Search {
    value: f64,
    at: Alignment,
}

impl Search {
    /// The best on a grid around this one: steps of offset and rate, to either side.
    fn around(
        self,
        residual: &impl Fn(Alignment) -> f64,
        steps: (i32, i32),
        step: (f64, f64),
    ) -> Self {
        let mut best = self;
        for i in -steps.0..=steps.0 {
            for j in -steps.1..=steps.1 {
                let at = Alignment {
                    offset_s: self.at.offset_s + f64::from(i) * step.0,
                    rate: self.at.rate + f64::from(j) * step.1,
                };
                let value = residual(at);
                if value < best.value {
                    best = Self { value, at };
                }
            }
        }
        best
    }

    /// The best with steps that get smaller.
    fn refined(
        mut self,
        residual: &impl Fn(Alignment) -> f64,
        grid: (i32, i32),
        mut step: (f64, f64),
    ) -> Self {
        for _ in 0..ROUNDS {
            step = (0.5 * step.0, 0.5 * step.1);
            self = self.around(residual, (grid.0.min(1), grid.1.min(1)), step);
        }
        self
    }
}

/// Segments cut into `slices` equal parts of their own.
fn sliced(segments: &[Segment], slices: usize) -> Vec<Segment> {
    let slice = |s: &Segment, index: usize| {
        let at = |index: usize| s.start_s + (s.end_s - s.start_s) * index as f64 / slices as f64;
        Segment { start_s: at(index), end_s: at(index + 1), part: slices * s.part + index }
    };
    segments.iter().flat_map(|s| (0..slices).map(move |index| slice(s, index))).collect()
}

//! Aligns two clocks better than one event does: the offset and the rate at which the logged phases
//! explain the trace best.
//!
//! An event in the trace is known to about one sample, and clocks differ in speed by some parts per
//! million, which adds up over minutes. Offset and rate are searched on a grid that gets finer. In
//! the search each phase has several parts in turn: a phase whose power changes within it would
//! otherwise shift the clock towards where it draws more. The offset found is kept within what the
//! event allows.

use super::regression::{Fit, Samples, Segment, fit};

/// Clocks run at rates that differ by no more than this share.
const RATE: f64 = 200e-6;
/// Least range of the search for the offset, s, to either side.
const OFFSET_S: f64 = 0.03;
/// Points of the first grid to either side: offset, rate.
const GRID: (i32, i32) = (10, 5);
/// Refinements: each halves the steps.
const ROUNDS: usize = 8;
/// Parts of a phase in the search.
const SLICES: usize = 5;
/// Samples closer than this are averaged for the search, s.
const BIN_S: f64 = 0.005;
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
}

impl Problem {
    /// The regression of samples on segments.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn fit(self, samples: Samples<'_>, segments: &[Segment]) -> Result<Fit, usize> {
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
        samples: Samples<'_>,
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
    pub fn align(self, samples: Samples<'_>, segments: &[Segment]) -> Alignment {
        let (time_s, power_w, width_s) = binned(samples);
        let averaging_s = samples.averaging_s.max(width_s);
        let coarse = Samples { time_s: &time_s, power_w: &power_w, averaging_s };
        let sliced = sliced(segments, SLICES);
        let fine = Self { parts: SLICES * self.parts, ..self };
        let of = |alignment: Alignment| fine.fit(coarse, &alignment.apply(&sliced, self.pivot_s));
        let residual = |alignment| of(alignment).map_or(f64::INFINITY, |fit| fit.residual);
        let (earlier_s, later_s) = self.uncertainty_s;
        let range_s = earlier_s.max(later_s).max(OFFSET_S);
        let mut step = (range_s / f64::from(GRID.0), RATE / f64::from(GRID.1));
        let start = Alignment::default();
        let unaligned = residual(start);
        let mut best = (unaligned, start);
        let mut around = |centre: Alignment, reach: (i32, i32), step: (f64, f64)| {
            for i in -reach.0..=reach.0 {
                for j in -reach.1..=reach.1 {
                    let alignment = Alignment {
                        offset_s: centre.offset_s + f64::from(i) * step.0,
                        rate: centre.rate + f64::from(j) * step.1,
                    };
                    let value = residual(alignment);
                    if value < best.0 {
                        best = (value, alignment);
                    }
                }
            }
            best
        };
        let mut centre = around(start, GRID, step).1;
        for _ in 0..ROUNDS {
            step = (0.5 * step.0, 0.5 * step.1);
            centre = around(centre, (1, 1), step).1;
        }
        let (value, found) = around(centre, (0, 0), step);
        let offset_s = found.offset_s.clamp(-earlier_s, later_s);
        let samples = of(start).map_or(0, |fit| fit.count) as f64;
        match samples * (unaligned / value).ln() > WORTH {
            true => Alignment { offset_s, ..found },
            false => start,
        }
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

/// The usual time between samples, s.
fn median_step_s(time_s: &[f64]) -> f64 {
    let mut steps: Vec<f64> = time_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).copied().unwrap_or(0.0)
}

/// Means over short times of a sensor that samples more often; the width of these times, s, or 0.
fn binned(samples: Samples<'_>) -> (Vec<f64>, Vec<f64>, f64) {
    let step_s = median_step_s(samples.time_s);
    if step_s > 0.5 * BIN_S || samples.averaging_s > 0.0 {
        return (samples.time_s.to_vec(), samples.power_w.to_vec(), 0.0);
    }
    let wanted = (BIN_S / step_s) as usize;
    let (mut time_s, mut power_w) = (Vec::new(), Vec::new());
    let mut start = 0;
    while start < samples.time_s.len() {
        let from_s = samples.time_s[start];
        let length = samples.time_s[start..].partition_point(|&t| t < from_s + BIN_S);
        let end = start + length.max(1);
        // Times with few samples would not be means over the whole.
        if 2 * length >= wanted {
            time_s.push(from_s + BIN_S);
            power_w.push(samples.power_w[start..end].iter().sum::<f64>() / (end - start) as f64);
        }
        start = end;
    }
    (time_s, power_w, BIN_S)
}

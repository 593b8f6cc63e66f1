//! [`bisect`]: the bandwidth at which two splits are equally fast, from measurements at some
//! bandwidths.
//!
//! The split for slower links sends less; the one for faster links computes less where it is slow.
//! The difference of their latencies is d(x) = a - b x with x = 1 / bandwidth: below 0 on slow
//! links, above 0 on fast ones, and linear in x. Bisection starts from a range at whose ends d has
//! its sign beyond the noise of its measurement; without one there is no break point. It narrows the
//! range until d is within the noise, or the range within a hundredth; the break point follows by
//! linear interpolation in x between the ends of the range.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use vitempo_planners::split::BandwidthRange;

/// First step away from the predicted bandwidth, as a factor.
const STEP: f64 = 1.5;
/// The search ends at this factor away from it.
pub const FARTHEST: f64 = 16.0;
/// Most measurements.
pub const MOST: usize = 12;
/// A range is narrow enough when its ends are within this share of each other.
const NARROW: f64 = 0.01;

/// Latency of the split for slower links minus that of its neighbour, at one bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The bandwidth, bytes per second.
    pub bytes_per_s: f64,
    /// Median over pairs of frames, ns; below 0 where the split for slower links is faster.
    pub median_ns: f64,
    /// Half the 95 % interval of that median, ns.
    pub noise_ns: f64,
}

impl Difference {
    /// The split for slower links is faster, beyond the noise.
    fn is_below(&self) -> bool {
        self.median_ns < -self.noise_ns
    }

    /// Its neighbour is faster, beyond the noise.
    fn is_above(&self) -> bool {
        self.median_ns > self.noise_ns
    }

    /// Why a search that ends with this found no break point.
    fn reason(&self) -> NotFound {
        match (self.is_below(), self.is_above()) {
            (true, _) => NotFound::Faster,
            (_, true) => NotFound::Slower,
            _ => NotFound::Noise,
        }
    }
}

/// A predicted break point: two neighbours of a list over bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakPointOf {
    /// Their indices; the first is for slower links.
    pub splits: [usize; 2],
    /// Where the first ends and the second begins.
    pub bytes_per_s: f64,
}

/// The break points of a list over bandwidth, from the slowest link on.
#[must_use]
pub fn break_points_of(ranges: &[BandwidthRange]) -> Vec<BreakPointOf> {
    let point = |(index, range): (usize, &BandwidthRange)| BreakPointOf {
        splits: [index, index + 1],
        bytes_per_s: range.to_bytes_per_s,
    };
    let last = ranges.len().saturating_sub(1);
    ranges[..last].iter().enumerate().map(point).collect()
}

/// Why there is no measured break point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFound {
    /// The split for slower links is faster up to the fastest link tried.
    Faster,
    /// Its neighbour is faster down to the slowest link tried.
    Slower,
    /// Differences are within the noise of their measurement as far as the search goes.
    Noise,
    /// The predicted bandwidth is one at which the link cannot be shaped.
    OutOfReach,
}

/// A break point, predicted and measured; bandwidths in bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveBreakPoint {
    /// Where the costs put it.
    pub predicted_bytes_per_s: f64,
    /// Where it was measured.
    pub measured: Result<f64, NotFound>,
    /// The range in which the difference changes its sign, beyond the noise at both ends.
    pub range_bytes_per_s: Option<(f64, f64)>,
    /// Every measurement, in the order in which they were made.
    pub tried: Vec<Difference>,
}

impl LiveBreakPoint {
    /// The measured bandwidth relative to the predicted one: 0.1 for 10 % more.
    #[must_use]
    pub fn off(&self) -> Option<f64> {
        Some(self.measured.ok()? / self.predicted_bytes_per_s - 1.0)
    }

    pub(super) fn out_of_reach(predicted_bytes_per_s: f64) -> Self {
        let measured = Err(NotFound::OutOfReach);
        Self { predicted_bytes_per_s, measured, range_bytes_per_s: None, tried: Vec::new() }
    }
}

/// Finds the break point near the predicted one; `measure` measures at a bandwidth, of those that
/// the link can have.
///
/// # Errors
/// Those of `measure`.
pub fn bisect<E>(
    predicted: f64,
    possible: &RangeInclusive<f64>,
    mut measure: impl FnMut(f64) -> Result<Difference, E>,
) -> Result<LiveBreakPoint, E> {
    let mut tried = Vec::new();
    let mut at = |bytes_per_s: f64| -> Result<Difference, E> {
        let found = measure(bytes_per_s)?;
        tried.push(found);
        Ok(found)
    };
    let first = at(predicted)?;
    let low =
        outwards(first, |factor| predicted / factor, Difference::is_below, possible, &mut at)?;
    let high = match low {
        Ok(_) => {
            outwards(first, |factor| predicted * factor, Difference::is_above, possible, &mut at)?
        }
        Err(last) => Err(last),
    };
    let (Ok(mut low), Ok(mut high)) = (low, high) else {
        let last = low.and(high).err().unwrap_or(first);
        return Ok(LiveBreakPoint {
            predicted_bytes_per_s: predicted,
            measured: Err(last.reason()),
            range_bytes_per_s: None,
            tried,
        });
    };
    for step in 0..MOST {
        if high.bytes_per_s < low.bytes_per_s * (1.0 + NARROW) {
            break;
        }
        // Where the line between the ends crosses zero, and the middle of the range in turn.
        let cut = if step % 2 == 0 { crossing(&low, &high) } else { middle(&low, &high) };
        let found = at(cut)?;
        if found.median_ns.abs() <= found.noise_ns {
            break;
        }
        if found.median_ns < 0.0 {
            low = found;
        } else {
            high = found;
        }
    }
    Ok(LiveBreakPoint {
        predicted_bytes_per_s: predicted,
        measured: Ok(crossing(&low, &high)),
        range_bytes_per_s: Some((low.bytes_per_s, high.bytes_per_s)),
        tried,
    })
}

/// From the first measurement on, away by growing factors, one with a clear sign; else the last.
fn outwards<E>(
    first: Difference,
    away: impl Fn(f64) -> f64,
    is_clear: impl Fn(&Difference) -> bool,
    possible: &RangeInclusive<f64>,
    measure: &mut impl FnMut(f64) -> Result<Difference, E>,
) -> Result<Result<Difference, Difference>, E> {
    let (mut found, mut factor) = (first, STEP);
    while !is_clear(&found) {
        let wanted = away(factor);
        found = measure(wanted.clamp(*possible.start(), *possible.end()))?;
        if !is_clear(&found) && (factor >= FARTHEST || !possible.contains(&wanted)) {
            return Ok(Err(found));
        }
        factor = (factor * factor).min(FARTHEST);
    }
    Ok(Ok(found))
}

/// The bandwidth at which a line in 1 / bandwidth through both differences is 0.
fn crossing(low: &Difference, high: &Difference) -> f64 {
    let share = low.median_ns / (low.median_ns - high.median_ns);
    let (from, to) = (1.0 / low.bytes_per_s, 1.0 / high.bytes_per_s);
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
    1.0 / (from + (to - from) * share)
}

/// The middle of a range in 1 / bandwidth.
fn middle(low: &Difference, high: &Difference) -> f64 {
    2.0 / (1.0 / low.bytes_per_s + 1.0 / high.bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Measures two splits that are equally fast at `at`, with errors of up to `noise_ns`.
    fn found(predicted: f64, at: f64, noise_ns: f64) -> LiveBreakPoint {
        let mut count = 0;
        let measure = |bytes_per_s: f64| -> Result<Difference, Infallible> {
            count += 1;
            let error = noise_ns * [0.9, -0.7, 0.3, -0.9, 0.6][count % 5];
            let median_ns = 40e6 - 40e6 * at / bytes_per_s + error;
            Ok(Difference { bytes_per_s, median_ns, noise_ns })
        };
        bisect(predicted, &(1.0..=1e12), measure).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn the_break_point_is_found_on_either_side_of_the_prediction() {
        for at in [0.2e6, 0.9e6, 1e6, 1.1e6, 7e6] {
            let point = found(1e6, at, 0.0);
            let off = point.off().map(|off| (1.0 + off) * 1e6 / at - 1.0);
            assert!(off.is_some_and(|off| off.abs() < 1e-6), "{at}: {point:?}");
            assert!(point.range_bytes_per_s.is_some_and(|(low, high)| low <= at && at <= high));
            assert!(point.tried.len() <= 10, "{}", point.tried.len());
        }
    }

    #[test]
    fn it_ends_in_the_noise() {
        for at in [0.3e6, 1e6, 4e6] {
            let point = found(1e6, at, 1e6);
            let measured = point.measured.unwrap_or(0.0);
            // An error of 1 ms of 40 is one of 2.5 % of the bandwidth.
            assert!((measured / at - 1.0).abs() < 0.08, "{at}: {measured}");
            assert!(point.tried.len() <= 10, "{}", point.tried.len());
        }
        let noise = found(1e6, 1e6, 1e9);
        assert_eq!((noise.measured, noise.off()), (Err(NotFound::Noise), None), "noise alone");
    }

    #[test]
    fn splits_that_never_meet_have_no_break_point() {
        assert_eq!(found(1e6, 40e6, 0.0).measured, Err(NotFound::Faster));
        let slower = found(1e6, 0.02e6, 0.0);
        assert_eq!((slower.measured, slower.off()), (Err(NotFound::Slower), None));
        let least = slower.tried.iter().map(|d| d.bytes_per_s).fold(f64::INFINITY, f64::min);
        assert!((least - 1e6 / FARTHEST).abs() < 1e-6);
    }

    #[test]
    fn only_possible_bandwidths_are_tried() {
        let mut tried = Vec::new();
        let measure = |bytes_per_s: f64| -> Result<Difference, Infallible> {
            tried.push(bytes_per_s);
            Ok(Difference { bytes_per_s, median_ns: -1.0, noise_ns: 0.0 })
        };
        let point = bisect(1e6, &(1e5..=2e6), measure).unwrap_or_else(|never| match never {});
        assert_eq!(point.measured, Err(NotFound::Faster));
        assert_eq!(tried, [1e6, 1.5e6, 2e6]);
    }
}

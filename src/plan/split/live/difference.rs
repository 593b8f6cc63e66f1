//! The difference of two splits' latencies, from frames that alternate between them.

use crate::plan::split::Difference;
use vitempo_profiler::{
    split::{FrameTimes, Pass},
    statistics,
};

/// Latency of the one split minus that of the other, over pairs of frames that follow each other.
pub(super) fn difference(pass: &Pass, slower: usize, bytes_per_s: f64) -> Option<Difference> {
    let is_pair = |pair: &&[FrameTimes]| {
        pair[0].frame + 1 == pair[1].frame && pair[0].frame.is_multiple_of(2)
    };
    let signed = |pair: &[FrameTimes]| {
        let (a, b) = (pair[0].latency_ns as f64, pair[1].latency_ns as f64);
        if pair[0].split == slower { a - b } else { b - a }
    };
    let differences: Vec<f64> = pass.frames.windows(2).filter(is_pair).map(signed).collect();
    // Order statistics take whole numbers from 0.
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let shifted: Vec<u64> = differences.iter().map(|d| (d - least) as u64).collect();
    let median_ns = statistics::median(&shifted)? + least;
    let range = || Some(*shifted.iter().max()? as f64 / 2.0);
    let of_median = |(low, high): (u64, u64)| (high - low) as f64 / 2.0;
    let noise_ns = statistics::median_interval(&shifted).map(of_median).or_else(range)?;
    Some(Difference { bytes_per_s, median_ns, noise_ns })
}

//! How the benches of planners take a time.

use std::time::Instant;

/// Median over `repeats` runs, us.
pub fn median_us(repeats: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[repeats / 2]
}

//! How the benches measure time.

use std::time::Instant;

/// Median over `repeats` runs, us.
pub fn median_us(repeats: usize, mut run: impl FnMut()) -> f64 {
    let times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    median(times)
}

/// Of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

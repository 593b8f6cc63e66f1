//! Time per run from OpenVINO's counters, which report averages.
//!
//! The CPU plugin keeps, per node, the time of all runs so far in whole microseconds, and reports
//! this sum divided by the number of runs, truncated. After run n a reading of a means a sum T(n)
//! between n a and n a + n - 1: exact after the first run, less exact after each further one. The
//! time of one run is the difference of two sums. Of all sequences of sums that fit the readings,
//! the one whose runs differ least is used: the path between the bounds that turns only where a
//! bound forces it to (the taut string). A run that was disturbed by more than the width of the
//! bounds is still visible, and the total is exact within one microsecond per run.

/// Microseconds that a time cut off to whole microseconds falls short on average; the engine cuts
/// off every run's.
const CUT_OFF_US: f64 = 0.5;

/// Time of each run, ns, from the counter's readings after each of them, us; the first reading is
/// that after the model's very first run.
#[must_use]
pub fn runs_ns(readings_us: &[u64]) -> Vec<u64> {
    let sums = taut_path(&bounds(readings_us));
    let differences = sums.windows(2).map(|pair| pair[1] - pair[0]);
    differences.map(|us| ((us + CUT_OFF_US).max(0.0) * 1000.0).round() as u64).collect()
}

/// Bounds of the sums after 0, 1, ... runs.
fn bounds(readings_us: &[u64]) -> Vec<(f64, f64)> {
    let after = |(index, &reading): (usize, &u64)| {
        let runs = (index + 1) as f64;
        (reading as f64 * runs, reading as f64 * runs + runs - 1.0)
    };
    std::iter::once((0.0, 0.0)).chain(readings_us.iter().enumerate().map(after)).collect()
}

/// A path over 0, 1, ... within the bounds, of straight pieces. Towards the open end it continues
/// straight as far as the bounds allow. If only the very first run came before, which is slower
/// than others, it takes the middle between the bounds.
fn taut_path(bounds: &[(f64, f64)]) -> Vec<f64> {
    let Some(&(start, _)) = bounds.first() else { return Vec::new() };
    let mut path = vec![start];
    while path.len() < bounds.len() {
        let (from, height) = (path.len() - 1, path[path.len() - 1]);
        let slope_to = |to: usize, bound: f64| (bound - height) / (to - from) as f64;
        // The steepest and the flattest straight line from here that all bounds so far allow, and
        // where they touch.
        let (mut flattest, mut steepest) = ((f64::NEG_INFINITY, from), (f64::INFINITY, from));
        let mut turn = None;
        for (to, &(low, high)) in bounds.iter().enumerate().skip(from + 1) {
            let (low, high) = (slope_to(to, low), slope_to(to, high));
            if low > steepest.0 {
                turn = Some(steepest);
                break;
            }
            if high < flattest.0 {
                turn = Some(flattest);
                break;
            }
            flattest = if low >= flattest.0 { (low, to) } else { flattest };
            steepest = if high <= steepest.0 { (high, to) } else { steepest };
        }
        let onwards = || {
            let before = path.len().checked_sub(2).map(|i| height - path[i]).filter(|_| from > 1);
            let slope = before.map_or(f64::midpoint(flattest.0, steepest.0), |slope| {
                slope.clamp(flattest.0, steepest.0)
            });
            (slope, bounds.len() - 1)
        };
        let (slope, until) = turn.unwrap_or_else(onwards);
        path.extend((from + 1..=until).map(|to| height + slope * (to - from) as f64));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the counter would report for these runs.
    fn readings(runs_us: &[u64]) -> Vec<u64> {
        let mut sum = 0;
        runs_us
            .iter()
            .enumerate()
            .map(|(i, run)| {
                sum += run;
                sum / (i as u64 + 1)
            })
            .collect()
    }

    #[test]
    fn steady_runs_come_back_behind_a_slow_first_one() {
        for steady in [0u64, 1, 7, 343, 12_345] {
            let mut runs = vec![50_000];
            runs.extend([steady; 13]);
            let found = runs_ns(&readings(&runs));
            assert_eq!(found.len(), 14);
            assert_eq!(found[0], 50_000_500);
            for run in &found[1..] {
                assert!(run.abs_diff(steady * 1000 + 500) <= 1000, "{steady} us: {found:?}");
            }
        }
    }

    #[test]
    fn any_runs_keep_their_sum_and_disturbed_ones_stand_out() {
        let runs = [900, 40, 42, 39, 5000, 41, 40, 44, 40, 41];
        let reported = readings(&runs);
        let found = runs_ns(&reported);
        let (sum, expected) = (
            found.iter().sum::<u64>(),
            (runs.iter().sum::<u64>() * 1000) + 500 * runs.len() as u64,
        );
        assert!(sum.abs_diff(expected) <= 1000 * runs.len() as u64, "{sum} {expected}");
        assert!(
            found[4] > 4_900_000
                && found.iter().enumerate().all(|(i, &t)| i == 4 || i == 0 || t < 60_000),
            "{found:?}"
        );
        // The result is consistent with the counter's readings.
        let mut sum_us = 0.0;
        for (n, (run, reading)) in found.iter().zip(&reported).enumerate() {
            sum_us += *run as f64 / 1000.0 - CUT_OFF_US;
            let low = (*reading * (n as u64 + 1)) as f64;
            assert!(sum_us >= low - 1e-2 && sum_us <= low + n as f64 + 1e-2, "{n}: {sum_us}");
        }
    }

    #[test]
    fn nothing_told_is_nothing_found() {
        assert!(runs_ns(&[]).is_empty());
        assert_eq!(runs_ns(&[7]), [7500]);
    }
}

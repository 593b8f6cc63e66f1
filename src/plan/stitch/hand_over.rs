//! [`MeasuredHandOver`]: the hand-over of a subgraph on each processor, estimated from stitched
//! variants that were run.
//!
//! A run of a stitched variant takes longer than its subgraphs one by one: e = measured - sum. With
//! n_p pieces on processor p, e = sum over p of n_p h_p. The h_p are least squares with h_p >= 0
//! over all runs, each drawn towards the mean of all pieces as by one more run of one piece. That
//! decides where the runs do not: with each processor once in every order, only the sum of all h_p
//! is known. The interval of h_p holds the middle of the runs that used p, each with its residual
//! divided among its pieces. Times are in ns.

use super::record::Tried;
use serde::{Deserialize, Serialize};
use vitempo_planners::{cost::Interval, stitch::HandOver};

/// Passes over the processors; each brings every hand-over nearer to the one best fit.
const PASSES: usize = 1000;
/// Share of the runs below, and above, an interval.
const TAIL: f64 = 0.1;

/// The hand-over of a subgraph by processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredHandOver {
    /// By processor, ns.
    pub piece_ns: Vec<Interval>,
    /// Stitched variants that it was estimated from.
    pub runs: usize,
}

/// A run: its number of pieces on each processor, and its time beside their own.
#[derive(Debug)]
struct Excess {
    pieces: Vec<f64>,
    ns: f64,
}

impl Excess {
    fn of(tried: &Tried, processors: &[String]) -> Self {
        let count = |name: &String| tried.order.iter().filter(|own| *own == name).count() as f64;
        Self {
            pieces: processors.iter().map(count).collect(),
            ns: tried.measured_ns as f64 - tried.summed_ns as f64,
        }
    }

    /// Its time beyond the hand-over of its pieces.
    fn residual_ns(&self, hand_over: &[f64]) -> f64 {
        self.ns - self.pieces.iter().zip(hand_over).map(|(n, ns)| n * ns).sum::<f64>()
    }

    fn count(&self) -> f64 {
        self.pieces.iter().sum()
    }
}

impl MeasuredHandOver {
    /// The estimate for these processors; `None` without runs.
    #[must_use]
    pub fn of(tried: &[Tried], processors: &[String]) -> Option<Self> {
        let runs: Vec<Excess> = tried.iter().map(|one| Excess::of(one, processors)).collect();
        let pieces: f64 = runs.iter().map(Excess::count).sum();
        if pieces == 0.0 {
            return None;
        }
        let mean = (runs.iter().map(|run| run.ns).sum::<f64>() / pieces).max(0.0);
        let fitted = fitted(&runs, mean, processors.len());
        let interval = |processor: usize| interval(&runs, &fitted, processor);
        Some(Self { piece_ns: (0..processors.len()).map(interval).collect(), runs: runs.len() })
    }

    /// As part of the costs of a zoo.
    #[must_use]
    pub fn costs(&self) -> HandOver {
        HandOver::Measured(self.piece_ns.clone())
    }

    /// The sum of the subgraphs of a run, with the hand-over of its pieces, ns.
    #[must_use]
    pub fn predicted_ns(&self, tried: &Tried, processors: &[String]) -> u64 {
        let of = |name: &String| processors.iter().position(|own| own == name);
        let pieces = tried.order.iter().filter_map(|name| self.piece_ns.get(of(name)?));
        pieces.map(|ns| ns.point()).fold(tried.summed_ns, u64::saturating_add)
    }
}

/// Coordinate descent on the squared residuals and the squared distances from the mean.
fn fitted(runs: &[Excess], mean: f64, processors: usize) -> Vec<f64> {
    let mut found = vec![mean; processors];
    for _ in 0..PASSES {
        for p in 0..processors {
            let own = |run: &Excess| run.residual_ns(&found) + run.pieces[p] * found[p];
            let along: f64 = runs.iter().map(|run| run.pieces[p] * own(run)).sum();
            let weight: f64 = runs.iter().map(|run| run.pieces[p] * run.pieces[p]).sum();
            found[p] = ((along + mean) / (weight + 1.0)).max(0.0);
        }
    }
    found
}

/// The hand-over on a processor, with the middle of its runs.
fn interval(runs: &[Excess], hand_over: &[f64], processor: usize) -> Interval {
    let point = hand_over[processor];
    let used = runs.iter().filter(|run| run.pieces[processor] > 0.0);
    let mut each: Vec<f64> =
        used.map(|run| point + run.residual_ns(hand_over) / run.count()).collect();
    each.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = each.len().saturating_sub(1);
        each.get((share * last as f64).round() as usize).copied().unwrap_or(point)
    };
    let ns = |value: f64| value.max(0.0).round() as u64;
    Interval::clamped(ns(point), ns(at(TAIL)), ns(at(1.0 - TAIL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(order: &[&str], summed_ns: u64, measured_ns: u64) -> Tried {
        Tried {
            task: String::new(),
            order: order.iter().map(|&name| name.to_owned()).collect(),
            variants: Vec::new(),
            summed_ns,
            forecast_ns: None,
            measured_ns,
        }
    }

    fn names() -> Vec<String> {
        ["a", "b"].map(str::to_owned).to_vec()
    }

    fn points(tried: &[Tried]) -> Vec<u64> {
        let found = MeasuredHandOver::of(tried, &names()).expect("runs");
        found.piece_ns.iter().map(|ns| ns.point()).collect()
    }

    #[test]
    fn runs_of_different_orders_give_the_hand_over_of_each_processor() {
        let orders = [["a", "a"], ["a", "b"], ["b", "a"], ["b", "b"]];
        let ns = |order: &[&str; 2]| {
            order.iter().map(|name| if *name == "a" { 400_000 } else { 100_000 }).sum::<u64>()
        };
        let each = |order: &[&str; 2]| tried(order, 7_000_000, 7_000_000 + ns(order));
        let runs: Vec<Tried> = orders.iter().cycle().take(4000).map(each).collect();
        let found = points(&runs);
        assert!(found[0].abs_diff(400_000) < 200 && found[1].abs_diff(100_000) < 200, "{found:?}");
        let found = MeasuredHandOver::of(&runs, &names()).expect("runs");
        assert_eq!(found.runs, 4000);
        let widest = found.piece_ns.iter().map(|ns| ns.upper() - ns.lower()).max();
        assert!(widest.is_some_and(|ns| ns < 500), "{found:?}");
    }

    #[test]
    fn what_runs_do_not_tell_apart_is_shared_evenly() {
        let runs = [tried(&["a", "b"], 1000, 1600), tried(&["b", "a"], 2000, 2600)];
        assert_eq!(points(&runs), [300, 300]);
        let interval = MeasuredHandOver::of(&runs, &names()).expect("runs").piece_ns[0];
        assert_eq!((interval.lower(), interval.upper()), (300, 300));
    }

    #[test]
    fn intervals_hold_the_middle_of_the_runs_and_nothing_is_below_zero() {
        let runs: Vec<Tried> = (0..=10).map(|i| tried(&["a", "a"], 1000, 1000 + 100 * i)).collect();
        let found = MeasuredHandOver::of(&runs, &names()).expect("runs").piece_ns;
        assert_eq!((found[0].lower(), found[0].point(), found[0].upper()), (50, 250, 450));
        assert_eq!(points(&[tried(&["a", "b"], 1000, 900)]), [0, 0]);
        assert_eq!(MeasuredHandOver::of(&[], &names()), None);
    }
}

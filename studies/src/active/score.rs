//! What a record says: error over measuring time by order, and how long the active order needs for
//! the error of a random one.

use super::{Order, Point, Record};
use std::collections::BTreeMap;

/// Errors of an order by budget, means over seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The order.
    pub order: Order,
    /// Ascending.
    pub points: Vec<Mean>,
}

/// Means over the seeds of one order at one budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// The budget, s.
    pub budget_s: f64,
    /// Wall time, s.
    pub seconds: f64,
    /// Networks around operators.
    pub networks: f64,
    /// Synthetic models.
    pub models: f64,
    /// Error on held-out synthetic models, percent.
    pub synthetic_mape: f64,
    /// Standard deviation of it over seeds.
    pub spread: f64,
    /// Error on real models, percent.
    pub real_mape: Option<f64>,
}

/// Curves of a record, and what they say.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// By order.
    pub curves: Vec<Curve>,
    /// For each budget and random order: the time that the active order takes for the same error,
    /// as a share of the random one's; `None`: it never gets there.
    pub shares: Vec<(Order, f64, Option<f64>)>,
}

/// Sums a record up.
#[must_use]
pub fn summary(record: &Record) -> Summary {
    let mut by_order: BTreeMap<Order, BTreeMap<u64, Vec<&Point>>> = BTreeMap::new();
    for point in &record.points {
        let budgets = by_order.entry(point.order).or_default();
        budgets.entry((point.budget_s * 1e3) as u64).or_default().push(point);
    }
    let curve = |(order, budgets): (Order, BTreeMap<u64, Vec<&Point>>)| Curve {
        order,
        points: budgets.values().filter_map(|points| mean(points)).collect(),
    };
    let curves: Vec<Curve> = by_order.into_iter().map(curve).collect();
    let active = curves.iter().find(|curve| curve.order == Order::Active);
    let mut shares = Vec::new();
    for curve in curves.iter().filter(|curve| curve.order != Order::Active) {
        for point in &curve.points {
            let reached = active.and_then(|active| active.reaches(point.synthetic_mape));
            shares.push((curve.order, point.budget_s, reached.map(|s| s / point.seconds)));
        }
    }
    Summary { curves, shares }
}

fn mean(points: &[&Point]) -> Option<Mean> {
    let n = points.len() as f64;
    let of = |value: &dyn Fn(&Point) -> f64| points.iter().map(|p| value(p)).sum::<f64>() / n;
    let synthetic_mape = of(&|p| p.synthetic_mape);
    let squares = of(&|p| (p.synthetic_mape - synthetic_mape).powi(2));
    let real = points.iter().map(|p| p.real_mape).sum::<Option<f64>>();
    Some(Mean {
        budget_s: points.first()?.budget_s,
        seconds: of(&|p| p.seconds),
        networks: of(&|p| p.networks as f64),
        models: of(&|p| p.models as f64),
        synthetic_mape,
        spread: (squares * n / (n - 1.0).max(1.0)).sqrt(),
        real_mape: real.map(|sum| sum / n),
    })
}

impl Curve {
    /// The least time with at most this error, between budgets by straight lines; `None`: never.
    #[must_use]
    pub fn reaches(&self, mape: f64) -> Option<f64> {
        let first = self.points.iter().position(|p| p.synthetic_mape <= mape)?;
        let after = &self.points[first];
        let Some(before) = first.checked_sub(1).map(|i| &self.points[i]) else {
            return Some(after.seconds);
        };
        let fall = before.synthetic_mape - after.synthetic_mape;
        let part = if fall > 0.0 { (before.synthetic_mape - mape) / fall } else { 1.0 };
        Some(before.seconds + part.clamp(0.0, 1.0) * (after.seconds - before.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(order: Order, seed: u64, budget_s: f64, synthetic_mape: f64) -> Point {
        Point {
            order,
            seed,
            budget_s,
            seconds: budget_s,
            networks: 1,
            models: 1,
            synthetic_mape,
            real_mape: None,
            coverage: 0.9,
            width: 0.2,
        }
    }

    #[test]
    fn time_for_an_error_is_read_off_the_curve() {
        let record = Record {
            dataset: "d".into(),
            environment: "e".into(),
            held_out: 1,
            real: 0,
            pool: (2, 80.0),
            points: vec![
                point(Order::Active, 0, 10.0, 20.0),
                point(Order::Active, 0, 20.0, 10.0),
                point(Order::Random, 0, 20.0, 14.0),
                point(Order::Random, 1, 20.0, 16.0),
                point(Order::Random, 0, 40.0, 5.0),
            ],
        };
        let summary = summary(&record);
        let share = |budget: f64| {
            let found = summary.shares.iter().find(|(_, at, _)| *at == budget);
            found.and_then(|(_, _, share)| *share)
        };
        // 15 % lies half way between 10 and 20 s; 5 % is never reached.
        assert_eq!((share(20.0), share(40.0)), (Some(0.75), None));
        let random = &summary.curves[1].points[0];
        assert_eq!(random.synthetic_mape, 15.0);
        assert!((random.spread - 2f64.sqrt()).abs() < 1e-12);
    }
}

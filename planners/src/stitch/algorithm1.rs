//! Algorithm 1 as printed: filter, then the order with the least mean of the tasks' fastest
//! variants, then those variants.
//!
//! Theta^t holds the stitched variants of task t that are accurate enough and fast enough in some
//! order, not necessarily the one chosen: a chosen variant may violate its latency objective. Tasks
//! whose Theta is empty leave the printed mean undefined; they are left out of it and count as
//! violations. The paper's text words the second step differently, as a mean over all variants:
//! [`Reading::Text`].

use super::{
    Assignment, Optimiser, Order, Slo, StitchError, Stitched, each_variant, menu::Menu,
    search::Search,
};
use crate::meter::Meter;
use vitempo_graph::Budget;

/// The variants over which "lowest average latency" is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The fastest variant of each task (line 4 of algorithm 1).
    Algorithm,
    /// All variants of Theta^t, then all tasks (section 3.3, in words).
    Text,
}

/// The choice of algorithm 1 within a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The choice among the orders that were compared.
    pub plan: Assignment,
    /// Number of orders that were not compared to their end, because the budget ended.
    pub left: usize,
    /// In no order the variants of the tasks that have one are faster in sum, ns.
    pub latency_at_least_ns: u64,
}

impl Optimiser<'_> {
    /// The choice of algorithm 1 for one configuration, within a budget. When that ends, it is the
    /// choice among the orders that were compared, of which there is one at least.
    ///
    /// # Errors
    /// As [`Optimiser::as_printed`].
    pub fn as_printed_within(&self, slos: &[Slo], budget: &Budget) -> Result<Printed, StitchError> {
        self.zoo.check_configurations(std::slice::from_ref(&slos.to_vec()))?;
        let mut meter = Meter::new(budget);
        let mut accurate: Vec<Vec<Option<Stitched>>> = Vec::new();
        for order in self.orders {
            let of_order = self.menus(order).ok_or_else(|| self.impossible())?;
            // The end of the budget is seen below.
            let _ = meter.spend(of_order.iter().map(Menu::steps).sum());
            let each = of_order.iter().zip(slos);
            let found: Vec<Option<Stitched>> =
                each.map(|(menu, slo)| menu.fastest_within(slo.accuracy_bp, &mut meter)).collect();
            if meter.is_over() && !accurate.is_empty() {
                break;
            }
            accurate.push(found);
        }
        let count = accurate.len();
        let compared = Self { orders: &self.orders[..count], ..*self };
        let plan = compared.printed(accurate, slos, Reading::Algorithm, &mut meter)?;
        let left = if meter.is_over() { (self.orders.len() - count).max(1) } else { 0 };
        let chosen = self.zoo.tasks().iter().zip(&plan.choices).filter(|(_, c)| c.is_some());
        let at_least = chosen.map(|(task, _)| task.at_least_ns()).fold(0, u64::saturating_add);
        let latency_at_least_ns = if left == 0 { plan.total_latency_ns } else { at_least };
        Ok(Printed { plan, left, latency_at_least_ns })
    }

    /// The choice of algorithm 1 for each configuration. If Theta is empty for all tasks, the first
    /// order.
    ///
    /// # Errors
    /// As [`Optimiser::best`]; [`StitchError::TooMany`] where [`Reading::Text`] would have to
    /// enumerate too many variants.
    pub fn as_printed(
        &self,
        configurations: &[Vec<Slo>],
        reading: Reading,
    ) -> Result<Vec<Assignment>, StitchError> {
        self.zoo.check_configurations(configurations)?;
        let menus = self
            .orders
            .iter()
            .map(|order| self.menus(order))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| self.impossible())?;
        let one = |slos: &Vec<Slo>| {
            let of_order = |menus: &Vec<Menu<'_>>| {
                menus.iter().zip(slos).map(|(menu, slo)| menu.fastest(slo.accuracy_bp)).collect()
            };
            let accurate = menus.iter().map(of_order).collect();
            self.printed(accurate, slos, reading, &mut Meter::unlimited())
        };
        configurations.iter().map(one).collect()
    }

    /// `by_order` has the fastest accurate variant of each task in each order.
    fn printed(
        &self,
        by_order: Vec<Vec<Option<Stitched>>>,
        slos: &[Slo],
        reading: Reading,
        meter: &mut Meter<'_>,
    ) -> Result<Assignment, StitchError> {
        // By order, then task: the fastest of Theta; `None` for an empty Theta.
        let mut fastest: Vec<Vec<Option<Stitched>>> =
            vec![vec![None; slos.len()]; self.orders.len()];
        let mut with_theta = vec![false; slos.len()];
        for (task, slo) in slos.iter().enumerate() {
            let accurate: Vec<Option<Stitched>> =
                by_order.iter().map(|of_order| of_order.get(task).cloned().flatten()).collect();
            let witnesses: Vec<&Order> = self
                .orders
                .iter()
                .zip(&accurate)
                .filter(|(_, s)| s.as_ref().is_some_and(|s| s.latency_ns <= slo.latency_ns))
                .map(|(order, _)| order)
                .collect();
            with_theta[task] = !witnesses.is_empty();
            for ((of_order, order), accurate) in fastest.iter_mut().zip(self.orders).zip(accurate) {
                of_order[task] = match accurate {
                    Some(found) if found.latency_ns <= slo.latency_ns => Some(found),
                    // In this order all of Theta is slower than the fastest accurate one, which is
                    // fast enough in no order or another.
                    Some(_) => witnesses
                        .iter()
                        .filter_map(|&other| {
                            self.fastest_that_is_fast_in(task, (order, other), *slo, meter)
                        })
                        .min_by_key(|s| s.latency_ns),
                    None => None,
                };
            }
        }
        let mut best: Option<((usize, f64), usize)> = None;
        for (index, of_order) in fastest.iter().enumerate() {
            let lacks = |(found, theta): &(&Option<Stitched>, &bool)| found.is_some() != **theta;
            let lacking = of_order.iter().zip(&with_theta).filter(lacks).count();
            // Where the budget ended, variants may be missing that an order has.
            if lacking > 0 && !meter.is_over() {
                continue;
            }
            let mean = match reading {
                Reading::Algorithm => of_order.iter().flatten().map(|s| s.latency_ns as f64).sum(),
                Reading::Text => self.mean_of_all(index, slos)?,
            };
            if best.is_none_or(|(least, _)| (lacking, mean) < least) {
                best = Some(((lacking, mean), index));
            }
        }
        let (_, index) = best.ok_or_else(|| self.impossible())?;
        Ok(Assignment::of(self.zoo, &self.orders[index], slos, fastest.swap_remove(index)))
    }

    /// The fastest in `order` of those that are accurate enough, and fast enough in `other`.
    fn fastest_that_is_fast_in(
        &self,
        task: usize,
        (order, other): (&Order, &Order),
        slo: Slo,
        meter: &mut Meter<'_>,
    ) -> Option<Stitched> {
        let mut parts = self.zoo.parts(task, order);
        for (position, row) in parts.iter_mut().enumerate() {
            row.retain_mut(|part| {
                let ns = self.zoo.step_ns(task, other, position, part.variant);
                part.other_ns = ns.map_or(0, |ns| ns.point());
                ns.is_some() && self.allows(task, position, part.variant)
            });
        }
        Search::new(self.zoo.tasks().get(task)?.accuracy.as_ref(), &parts).fastest(
            slo.accuracy_bp,
            slo.latency_ns,
            meter,
        )
    }

    /// The mean over tasks of the mean latency of Theta^t in one order, times the number of tasks,
    /// ns.
    fn mean_of_all(&self, order: usize, slos: &[Slo]) -> Result<f64, StitchError> {
        let mut sum = 0.0;
        for (task, slo) in slos.iter().enumerate() {
            // Fast enough in some order: the least latency of each variant over all orders,
            // variants in the same sequence each time.
            let mut least: std::collections::BTreeMap<Vec<usize>, (u64, Option<u64>)> =
                std::collections::BTreeMap::new();
            for (index, each) in self.orders.iter().enumerate() {
                each_variant(self.zoo, task, each, |stitched, latency_ns, accuracy_bp| {
                    if accuracy_bp >= slo.accuracy_bp
                        && stitched
                            .iter()
                            .enumerate()
                            .all(|(position, &variant)| self.allows(task, position, variant))
                    {
                        let entry = least.entry(stitched.to_vec()).or_insert((u64::MAX, None));
                        entry.0 = entry.0.min(latency_ns);
                        if index == order {
                            entry.1 = Some(latency_ns);
                        }
                    }
                })?;
            }
            let theta: Vec<f64> = least
                .values()
                .filter(|(least, _)| *least <= slo.latency_ns)
                .filter_map(|(_, here)| here.map(|ns| ns as f64))
                .collect();
            sum += theta.iter().sum::<f64>() / theta.len().max(1) as f64;
        }
        Ok(sum)
    }
}

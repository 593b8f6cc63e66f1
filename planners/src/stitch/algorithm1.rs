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

/// The variants over which "lowest average latency" is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The fastest variant of each task (line 4 of algorithm 1).
    Algorithm,
    /// All variants of Theta^t, then all tasks (section 3.3, in words).
    Text,
}

impl Optimiser<'_> {
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
        configurations.iter().map(|slos| self.printed(&menus, slos, reading)).collect()
    }

    fn printed(
        &self,
        menus: &[Vec<Menu<'_>>],
        slos: &[Slo],
        reading: Reading,
    ) -> Result<Assignment, StitchError> {
        // By order, then task: the fastest of Theta; `None` for an empty Theta.
        let mut fastest: Vec<Vec<Option<Stitched>>> =
            vec![vec![None; slos.len()]; self.orders.len()];
        let mut with_theta = vec![false; slos.len()];
        for (task, slo) in slos.iter().enumerate() {
            let accurate: Vec<Option<Stitched>> =
                menus.iter().map(|of_order| of_order.get(task)?.fastest(slo.accuracy_bp)).collect();
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
                        .filter_map(|other| self.fastest_that_is_fast_in(task, order, other, *slo))
                        .min_by_key(|s| s.latency_ns),
                    None => None,
                };
            }
        }
        let mut best: Option<(f64, usize)> = None;
        for (index, of_order) in fastest.iter().enumerate() {
            let complete =
                of_order.iter().zip(&with_theta).all(|(found, theta)| found.is_some() == *theta);
            let mean = match reading {
                Reading::Algorithm => of_order.iter().flatten().map(|s| s.latency_ns as f64).sum(),
                Reading::Text => self.mean_of_all(index, slos)?,
            };
            if complete && best.is_none_or(|(least, _)| mean < least) {
                best = Some((mean, index));
            }
        }
        let (_, index) = best.ok_or_else(|| self.impossible())?;
        Ok(Assignment::of(self.zoo, &self.orders[index], slos, fastest.swap_remove(index)))
    }

    /// The fastest in `order` of those that are accurate enough, and fast enough in `other`.
    fn fastest_that_is_fast_in(
        &self,
        task: usize,
        order: &Order,
        other: &Order,
        slo: Slo,
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
            &mut Meter::unlimited(),
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

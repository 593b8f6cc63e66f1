//! [`Optimiser`]: one order of processors for all tasks, and a stitched variant for each task.
//!
//! [`Optimiser::best`] meets the most objectives; among equals, it has the least missing accuracy
//! in sum, then the least mean latency, then the least load on the busiest processor, which bounds
//! throughput. In a given order, tasks do not depend on each other: each takes its fastest variant
//! that is accurate enough, and meets its objective if any variant does. A task that cannot be fast
//! enough takes the fastest accurate variant; one that cannot be accurate enough takes its most
//! accurate variant.

use super::{Order, Slo, StitchError, Stitched, Zoo, loaded::Loaded, menu::Menu};
use crate::{cost::Interval, meter::Meter};
use vitempo_graph::{Budget, Limits};

/// Default budget of a search over orders, steps: of each point of a front, and eight for each
/// prefix of a stitched variant.
pub const STEPS: u64 = 1 << 31;

/// The default budget of a search.
#[must_use]
pub fn default_budget() -> Budget {
    Budget::new(Limits { steps: STEPS, ..Limits::NONE })
}

/// The variant that a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The variant.
    pub stitched: Stitched,
    /// Eq. 5 with its interval, ns.
    pub latency_ns: Interval,
    /// The latency above the objective, ns.
    pub late_ns: u64,
    /// The accuracy below the objective, basis points.
    pub short_bp: u32,
}

impl Choice {
    /// Whether it meets its objective.
    #[must_use]
    pub const fn meets_slo(&self) -> bool {
        self.late_ns == 0 && self.short_bp == 0
    }
}

/// An order, and the variant that each task runs in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The order, which is the same for all tasks.
    pub order: Order,
    /// By task; `None` where [`Optimiser::as_printed`] defines none.
    pub choices: Vec<Option<Choice>>,
    /// Number of tasks that violate their objective.
    pub violations: usize,
    /// Sum of the latencies of all tasks that have a choice, ns.
    pub total_latency_ns: u64,
    /// Load of one query of each task on the busiest processor, ns: at most one query of each task
    /// completes in this time.
    pub bottleneck_ns: u64,
}

impl Assignment {
    /// Mean latency over the tasks that have a choice, ns; 0 without any.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        self.total_latency_ns as f64 / self.choices.iter().flatten().count().max(1) as f64
    }

    /// Assembles the choices of all tasks in an order.
    pub(super) fn of(
        zoo: &Zoo,
        order: &Order,
        slos: &[Slo],
        stitched: Vec<Option<Stitched>>,
    ) -> Self {
        let mut loads = vec![0u64; zoo.processors().len()];
        let mut choices = Vec::with_capacity(stitched.len());
        for (task, (stitched, slo)) in stitched.into_iter().zip(slos).enumerate() {
            choices.push(stitched.map(|stitched| {
                let mut latency_ns = Interval::ZERO;
                for (position, (&variant, &processor)) in
                    stitched.variants.iter().zip(order.processors()).enumerate()
                {
                    let step = zoo.step_ns(task, order, position, variant).unwrap_or_default();
                    latency_ns = latency_ns + step;
                    if let Some(load) = loads.get_mut(processor) {
                        *load = load.saturating_add(step.point());
                    }
                }
                let late_ns = stitched.latency_ns.saturating_sub(slo.latency_ns);
                let short_bp = slo.accuracy_bp.saturating_sub(stitched.accuracy_bp);
                Choice { stitched, latency_ns, late_ns, short_bp }
            }));
        }
        let violations =
            choices.iter().filter(|c| !c.as_ref().is_some_and(Choice::meets_slo)).count();
        let total_latency_ns =
            choices.iter().flatten().map(|c| c.stitched.latency_ns).fold(0, u64::saturating_add);
        Self {
            order: order.clone(),
            choices,
            violations,
            total_latency_ns,
            bottleneck_ns: loads.into_iter().max().unwrap_or(0),
        }
    }

    /// Sum of the tasks' missing accuracy, basis points.
    #[must_use]
    pub fn total_short_bp(&self) -> u64 {
        self.choices.iter().flatten().map(|choice| u64::from(choice.short_bp)).sum()
    }

    /// The criteria of the comparison, in this order: less is better.
    #[must_use]
    pub fn rank(&self) -> (usize, u64, u64, u64) {
        (self.violations, self.total_short_bp(), self.total_latency_ns, self.bottleneck_ns)
    }
}

/// The best plan in each order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EachOrder {
    /// The orders that were searched, each with its best plan; `None` where a task cannot run in it.
    pub plans: Vec<(Order, Option<Assignment>)>,
    /// Number of orders that were not searched to their end, because the budget ended.
    pub left: usize,
    /// In no order fewer tasks violate their objective.
    pub violations_at_least: usize,
}

impl EachOrder {
    /// The best plan of all orders; the first of equals.
    #[must_use]
    pub fn best(&self) -> Option<&Assignment> {
        self.plans.iter().filter_map(|(_, plan)| plan.as_ref()).min_by_key(|plan| plan.rank())
    }
}

/// The tasks on a chip, and the orders to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Optimiser<'a> {
    pub(super) zoo: &'a Zoo,
    pub(super) orders: &'a [Order],
    pub(super) loaded: Option<&'a Loaded>,
}

impl<'a> Optimiser<'a> {
    /// An optimiser over these orders; among equals it chooses the first.
    ///
    /// # Errors
    /// [`StitchError`] for no orders, and for orders of another length or with processors that do
    /// not exist.
    pub fn new(zoo: &'a Zoo, orders: &'a [Order]) -> Result<Self, StitchError> {
        orders.iter().try_for_each(|order| zoo.check_order(order))?;
        if orders.is_empty() {
            Err(StitchError::zoo("there is no order of processors to choose"))
        } else {
            Ok(Self { zoo, orders, loaded: None })
        }
    }

    /// Restricts the choice to variants whose subgraphs are all loaded.
    #[must_use]
    pub const fn among(self, loaded: &'a Loaded) -> Self {
        Self { loaded: Some(loaded), ..self }
    }

    /// The best order and variants for each configuration, each of which has one objective per
    /// task.
    ///
    /// # Errors
    /// [`StitchError::Impossible`] when in each order some task cannot run; [`StitchError::Zoo`]
    /// for a configuration of another number of tasks.
    pub fn best(&self, configurations: &[Vec<Slo>]) -> Result<Vec<Assignment>, StitchError> {
        Ok(self.best_within(configurations, None)?.0)
    }

    /// The same within a budget: the best found, and the number of orders that were not searched to
    /// their end. Each configuration has a plan if there is one.
    ///
    /// # Errors
    /// As [`Optimiser::best`].
    pub fn best_within(
        &self,
        configurations: &[Vec<Slo>],
        budget: Option<&Budget>,
    ) -> Result<(Vec<Assignment>, usize), StitchError> {
        self.zoo.check_configurations(configurations)?;
        let mut meter = budget.map_or_else(Meter::unlimited, Meter::new);
        let mut best: Vec<Option<Assignment>> = vec![None; configurations.len()];
        let mut searched = 0;
        for order in self.orders {
            if meter.is_over() && best.iter().all(Option::is_some) {
                break;
            }
            let Some(menus) = self.menus(order) else {
                searched += 1;
                continue;
            };
            // The end of the budget is seen above.
            let _ = meter.spend(menus.iter().map(Menu::steps).sum());
            for (slos, best) in configurations.iter().zip(&mut best) {
                let Some(found) = self.in_order(order, &menus, slos, &mut meter) else {
                    break;
                };
                if best.as_ref().is_none_or(|best| found.rank() < best.rank()) {
                    *best = Some(found);
                }
            }
            searched += usize::from(!meter.is_over());
        }
        let best = best.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| self.impossible())?;
        Ok((best, self.orders.len() - searched))
    }

    /// The best plan of each order, for one configuration. When the budget ends, at least one order
    /// in which all tasks run has a plan, if there is one, but this may not be its best.
    ///
    /// # Errors
    /// [`StitchError::Impossible`] when in each order some task cannot run; [`StitchError::Zoo`] for
    /// a configuration of another number of tasks.
    pub fn each_order(&self, slos: &[Slo], budget: &Budget) -> Result<EachOrder, StitchError> {
        self.zoo.check_configurations(std::slice::from_ref(&slos.to_vec()))?;
        let mut meter = Meter::new(budget);
        let mut plans: Vec<(Order, Option<Assignment>)> = Vec::new();
        let (mut searched, mut runs) = (0, false);
        for order in self.orders {
            let plan = match self.menus(order) {
                Some(menus) => {
                    let steps: usize = menus.iter().map(Menu::steps).sum();
                    // The end of the budget is seen below.
                    let _ = meter.spend(steps);
                    self.in_order(order, &menus, slos, &mut meter)
                }
                None => None,
            };
            if meter.is_over() && runs {
                break;
            }
            searched += usize::from(!meter.is_over());
            runs |= plan.is_some();
            plans.push((order.clone(), plan));
        }
        let left = self.orders.len() - searched;
        let each = EachOrder { plans, left, violations_at_least: 0 };
        let best = each.best().ok_or_else(|| self.impossible())?;
        let violations_at_least =
            if left == 0 { best.violations } else { self.never_met(slos).min(best.violations) };
        Ok(EachOrder { violations_at_least, ..each })
    }

    /// The best plan in one order; `None` where a task cannot run in it.
    fn in_order(
        &self,
        order: &Order,
        menus: &[Menu<'_>],
        slos: &[Slo],
        meter: &mut Meter<'_>,
    ) -> Option<Assignment> {
        let each = menus.iter().zip(slos);
        let stitched = each.map(|(menu, slo)| menu.choose(slo.accuracy_bp, meter));
        let stitched: Vec<Option<Stitched>> = stitched.collect();
        let runs = stitched.iter().all(Option::is_some);
        runs.then(|| Assignment::of(self.zoo, order, slos, stitched))
    }

    /// Number of tasks that violate their objective in every order: no variant is as accurate, or
    /// the fastest subgraphs on the fastest processors are too slow together.
    fn never_met(&self, slos: &[Slo]) -> usize {
        let is_met = |task: &super::Task, slo: &Slo| {
            task.accuracy.at_most(&[]) >= slo.accuracy_bp && task.at_least_ns() <= slo.latency_ns
        };
        self.zoo.tasks().iter().zip(slos).filter(|(task, slo)| !is_met(task, slo)).count()
    }

    /// Whether a subgraph may be used at all.
    pub(super) fn allows(&self, task: usize, position: usize, variant: usize) -> bool {
        self.loaded.is_none_or(|loaded| loaded.holds(task, position, variant))
    }

    pub(super) fn menus(&self, order: &Order) -> Option<Vec<Menu<'a>>> {
        (0..self.zoo.tasks().len())
            .map(|task| Menu::new(self.zoo, task, order, self.loaded))
            .collect()
    }

    /// Names a task that cannot run in the first order; the first task where it takes several to
    /// rule out all orders.
    pub(super) fn impossible(&self) -> StitchError {
        let stuck = |task: &usize| {
            self.orders.iter().all(|order| self.zoo.parts(*task, order).iter().any(Vec::is_empty))
        };
        let task = (0..self.zoo.tasks().len()).find(stuck).unwrap_or(0);
        let name = self.zoo.tasks().get(task).map_or_else(String::new, |t| t.name.clone());
        StitchError::Impossible {
            task: name,
            orders: self
                .orders
                .iter()
                .map(|order| self.zoo.named(order))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

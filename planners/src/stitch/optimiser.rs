//! [`Optimiser`]: one order of processors for all tasks, and a stitched variant for each task.
//!
//! [`Optimiser::best`] meets the most objectives; among equals, it has the least missing accuracy
//! in sum, then the least mean latency, then the least load on the busiest processor, which bounds
//! throughput. In a given order, tasks do not depend on each other: each takes its fastest variant
//! that is accurate enough, and meets its objective if any variant does. A task that cannot be fast
//! enough takes the fastest accurate variant; one that cannot be accurate enough takes its most
//! accurate variant.

use super::{Order, Slo, StitchError, Stitched, Zoo, loaded::Loaded, menu::Menu};
use crate::cost::Interval;

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

/// The tasks on a chip, and the orders to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Optimiser<'a> {
    pub(super) zoo: &'a Zoo,
    pub(super) orders: &'a [Order],
    loaded: Option<&'a Loaded>,
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
        self.zoo.check_configurations(configurations)?;
        let mut best: Vec<Option<Assignment>> = vec![None; configurations.len()];
        for order in self.orders {
            let Some(menus) = self.menus(order) else { continue };
            for (slos, best) in configurations.iter().zip(&mut best) {
                let stitched = menus.iter().zip(slos).map(|(menu, slo)| {
                    menu.fastest(slo.accuracy_bp).or_else(|| menu.most_accurate())
                });
                let stitched: Vec<Option<Stitched>> = stitched.collect();
                if stitched.iter().any(Option::is_none) {
                    break;
                }
                let found = Assignment::of(self.zoo, order, slos, stitched);
                if best.as_ref().is_none_or(|best| found.rank() < best.rank()) {
                    *best = Some(found);
                }
            }
        }
        best.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| self.impossible())
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

//! [`Stitching`]: a plan of stitched variants, and its entry for each task.

use super::{
    PrintedSearch, Selection,
    forecasts::CannotRun,
    hand_over::MeasuredHandOver,
    preloading::Preloading,
    record::{AccuracySource, Record, RecordError, Trials, Tried},
    systems::Compared,
};
use vitempo_planners::{
    cost::End,
    stitch::{Assignment, Choice, Order, Slo, Zoo},
};

/// Information on a task beside its costs.
#[derive(Clone, Debug)]
pub struct TaskSource {
    /// Tensors between its positions.
    pub cuts: Vec<String>,
    /// The source of the accuracies of its stitched variants.
    pub accuracy: AccuracySource,
}

/// A plan, with its inputs.
#[derive(Clone, Debug)]
pub struct Stitching {
    /// Costs and accuracies.
    pub zoo: Zoo,
    /// In the order of the file.
    pub tasks: Vec<TaskSource>,
    /// In the order of the file.
    pub slos: Vec<Slo>,
    /// The extent of the search for the plan.
    pub search: Searched,
    /// The best order and each task's stitched variant.
    pub plan: Assignment,
    /// All orders to choose from.
    pub orders: Vec<Order>,
    /// The best of each order, best first, then those in which a task cannot run; at most
    /// [`MOST_LISTED`](super::planning::MOST_LISTED).
    pub each: Vec<(Order, Option<Assignment>)>,
    /// The subgraphs that stay in memory, if a budget was given.
    pub preloading: Option<Preloading>,
    /// Outcomes of systems that do not stitch, if requested.
    pub systems: Compared,
    /// The method of choice.
    pub selection: Selection,
    /// A description of the accuracies.
    pub accuracy_is: Option<String>,
    /// Processors with the environments of their bundles, or with their engines.
    pub environments: Vec<(String, String)>,
    /// Subgraphs that cannot run on a processor, by its bundle: the plan has none of them there.
    pub cannot_run: Vec<CannotRun>,
    /// The measurements on engines, if there are any.
    pub measured: Option<Measured>,
}

/// The extent of a search over orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Number of orders that were not searched to their end, because the budget ended.
    pub orders_left: usize,
    /// In no order fewer tasks violate their objective, even with all subgraphs in memory.
    pub violations_at_least: usize,
    /// The extent of the search of algorithm 1, where that chose.
    pub printed: Option<PrintedSearch>,
}

impl Searched {
    /// Whether no part of the search ended before its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.orders_left == 0 && self.printed.is_none_or(|printed| printed.orders_left == 0)
    }
}

/// The measurements on engines.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The zoo, with measured costs.
    pub zoo: Zoo,
    /// Names of the engines with descriptions.
    pub engines: Vec<(String, String)>,
    /// Stitched variants and orders that were run.
    pub trials: Trials,
    /// Time of a piece beside its subgraphs, estimated from these stitched variants; `None` without
    /// any.
    pub hand_over: Option<MeasuredHandOver>,
}

impl Measured {
    /// The sum of the subgraphs of a run, with the hand-over of its pieces as estimated, ns.
    #[must_use]
    pub fn with_hand_over_ns(&self, tried: &Tried) -> Option<u64> {
        Some(self.hand_over.as_ref()?.predicted_ns(tried, self.zoo.processors()))
    }
}

impl Stitching {
    /// The record of the measurements.
    ///
    /// # Errors
    /// [`RecordError::NotMeasured`] for a plan from forecasts alone, [`RecordError::Stitch`] for a
    /// task with too many stitched variants.
    pub fn record(&self) -> Result<Record, RecordError> {
        let measured = self.measured.as_ref().ok_or(RecordError::NotMeasured)?;
        let sources: Vec<_> = self.tasks.iter().map(|task| task.accuracy.clone()).collect();
        let engines = measured.engines.clone();
        let (orders, slos) = (&self.orders, &self.slos);
        let record = Record::of(&measured.zoo, &sources, engines, orders, slos, &measured.trials)?;
        let hand_over = measured.hand_over.clone();
        Ok(Record { accuracy_is: self.accuracy_is.clone(), hand_over, ..record })
    }

    /// Each task with its objective and its variant.
    pub fn planned(&self) -> impl Iterator<Item = PlannedTask<'_>> {
        let tasks = self.zoo.tasks().iter().zip(&self.slos).zip(&self.plan.choices).enumerate();
        tasks.map(|(index, ((task, slo), choice))| PlannedTask {
            stitching: self,
            index,
            name: &task.name,
            slo: *slo,
            choice: choice.as_ref(),
        })
    }

    /// Whether no part of the search ended before its end: over orders, and within the memory.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let left = |preloading: &Preloading| preloading.order.orders_left() > 0;
        self.search.is_complete() && !self.preloading.as_ref().is_some_and(left)
    }

    /// Tasks whose objective an assignment meets.
    #[must_use]
    pub fn slos_met(&self, assignment: &Assignment) -> usize {
        self.slos.len().saturating_sub(assignment.violations)
    }

    /// Names of the variants whose subgraph of a task stays in memory at a position; none without a
    /// memory budget.
    #[must_use]
    pub fn loaded(&self, task: usize, position: usize) -> Vec<&str> {
        let Some(preloading) = &self.preloading else { return Vec::new() };
        let variants = self.zoo.tasks().get(task).map_or(&[][..], |task| task.variants.as_slice());
        let held = variants
            .iter()
            .enumerate()
            .filter(|(variant, _)| preloading.loaded.holds(task, position, *variant));
        held.map(|(_, name)| name.as_str()).collect()
    }
}

/// A task of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlannedTask<'a> {
    stitching: &'a Stitching,
    /// Its number in the file.
    pub index: usize,
    /// Its name.
    pub name: &'a str,
    /// The objective.
    pub slo: Slo,
    /// The variant that it runs; `None` where no stitched variant meets the objective in any order.
    pub choice: Option<&'a Choice>,
}

/// Whether an objective is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SloStatus {
    /// Met also at the upper end of the forecast's interval.
    Met,
    /// Met by the forecast, but not at the upper end of its interval.
    MetByForecast,
    /// Violated.
    Violated {
        /// Missing accuracy, basis points.
        short_bp: u32,
        /// Excess latency, ns.
        late_ns: u64,
    },
    /// There is no stitched variant that meets it.
    NoVariant,
}

impl SloStatus {
    /// The status of a choice for an objective.
    #[must_use]
    pub fn of(choice: Option<&Choice>, slo: Slo) -> Self {
        match choice {
            None => Self::NoVariant,
            Some(choice) if !choice.meets_slo() => {
                Self::Violated { short_bp: choice.short_bp, late_ns: choice.late_ns }
            }
            Some(choice) if choice.latency_ns.at(End::Upper) <= slo.latency_ns => Self::Met,
            Some(_) => Self::MetByForecast,
        }
    }
}

impl<'a> PlannedTask<'a> {
    /// Whether its objective is met.
    #[must_use]
    pub fn status(&self) -> SloStatus {
        SloStatus::of(self.choice, self.slo)
    }

    /// Names of the variants that it is stitched of, by position.
    #[must_use]
    pub fn variants(&self) -> Option<Vec<&'a str>> {
        let tasks = self.stitching.zoo.tasks();
        let names = tasks.get(self.index).map_or(&[][..], |task| task.variants.as_slice());
        let name = |&variant: &usize| names.get(variant).map_or("?", String::as_str);
        Some(self.choice?.stitched.variants.iter().map(name).collect())
    }

    /// Positions whose subgraph is not in memory, counted from 1; `None` without a memory budget.
    #[must_use]
    pub fn fetched(&self) -> Option<Vec<usize>> {
        let choice = self.choice?;
        let Some(preloading) = &self.stitching.preloading else { return Some(Vec::new()) };
        let positions = choice.stitched.variants.iter().enumerate();
        let is_fetched = |&(position, &variant): &(usize, &usize)| {
            !preloading.loaded.holds(self.index, position, variant)
        };
        Some(positions.filter(is_fetched).map(|(position, _)| position + 1).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_planners::{cost::Interval, stitch::Stitched};

    #[test]
    fn an_objective_is_met_by_forecast_where_the_interval_reaches_beyond_it() {
        let slo = Slo { accuracy_bp: 7000, latency_ns: 100 };
        let choice = |latency: [u64; 3], late_ns, short_bp| {
            let latency_ns =
                Interval::new(latency[1], latency[0], latency[2]).expect("an interval");
            let stitched =
                Stitched { variants: vec![0], latency_ns: latency[1], accuracy_bp: 7000 };
            Choice { stitched, latency_ns, late_ns, short_bp }
        };
        let of = |choice: &Choice| SloStatus::of(Some(choice), slo);
        assert_eq!(of(&choice([80, 90, 100], 0, 0)), SloStatus::Met);
        assert_eq!(of(&choice([80, 90, 101], 0, 0)), SloStatus::MetByForecast);
        let violated = SloStatus::Violated { short_bp: 5, late_ns: 20 };
        assert_eq!(of(&choice([80, 120, 130], 20, 5)), violated);
        assert_eq!(SloStatus::of(None, slo), SloStatus::NoVariant);
    }
}

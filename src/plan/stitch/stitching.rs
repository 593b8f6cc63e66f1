//! [`Stitching`]: a plan of stitched variants, and what it says of each task.

use super::{
    Selection,
    preloading::Preloading,
    record::{AccuracySource, Record, RecordError, Trials},
    systems::SystemOutcome,
};
use vitempo_planners::{
    cost::End,
    stitch::{Assignment, Choice, Order, Slo, Zoo},
};

/// What is known of a task beside its costs.
#[derive(Clone, Debug)]
pub struct TaskSource {
    /// Tensors between its positions.
    pub cuts: Vec<String>,
    /// How accuracies of its stitched variants are known.
    pub accuracy: AccuracySource,
}

/// A plan, with all it was made of.
#[derive(Clone, Debug)]
pub struct Stitching {
    /// Costs and accuracies.
    pub zoo: Zoo,
    /// In the order of the file.
    pub tasks: Vec<TaskSource>,
    /// In the order of the file.
    pub slos: Vec<Slo>,
    /// The best order and each task's stitched variant.
    pub plan: Assignment,
    /// Those there were to choose from.
    pub orders: Vec<Order>,
    /// The best of each order, best first, then those in which a task cannot run; at most
    /// [`MOST_LISTED`](super::planning::MOST_LISTED).
    pub each: Vec<(Order, Option<Assignment>)>,
    /// What is kept in memory, where that was asked.
    pub preloading: Option<Preloading>,
    /// Where they were asked for.
    pub systems: Vec<SystemOutcome>,
    /// As asked.
    pub selection: Selection,
    /// What accuracies are accuracies of.
    pub accuracy_is: Option<String>,
    /// Processors, and where their bundles were measured or what engines they are.
    pub environments: Vec<(String, String)>,
    /// What engines measured, where there are some.
    pub measured: Option<Measured>,
}

/// What engines measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// With measured costs.
    pub zoo: Zoo,
    /// Names of the engines, and what they are.
    pub engines: Vec<(String, String)>,
    /// Stitched variants and orders that were run.
    pub trials: Trials,
}

impl Stitching {
    /// What was measured, to be kept.
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
        Ok(Record { accuracy_is: self.accuracy_is.clone(), ..record })
    }

    /// Each task with its objective and what it runs.
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

    /// Tasks whose objective an assignment meets.
    #[must_use]
    pub fn slos_met(&self, assignment: &Assignment) -> usize {
        self.slos.len().saturating_sub(assignment.violations)
    }

    /// Names of the variants whose subgraph of a task is kept in memory at a position; none where
    /// nothing was asked about memory.
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
    /// What was asked.
    pub slo: Slo,
    /// What it runs; `None` where no stitched variant keeps the objective in any order.
    pub choice: Option<&'a Choice>,
}

/// Whether an objective is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SloStatus {
    /// Also at the upper end of the forecast's interval.
    Met,
    /// By the forecast, but not at the upper end of its interval.
    MetByForecast,
    /// Not.
    Violated {
        /// Too little accuracy, basis points.
        short_bp: u32,
        /// Too much latency, ns.
        late_ns: u64,
    },
    /// There is no stitched variant that meets it.
    NoVariant,
}

impl SloStatus {
    /// Of a choice for an objective.
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

    /// Positions whose subgraph is not in memory, counted from 1; none where nothing was asked
    /// about memory.
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

//! [`Assessment`]: compares stitching with systems that do not stitch, on a measured zoo and by the
//! paper's method. No model runs again.

use super::{
    record::{Record, RecordedTask},
    systems::{QUERIES, fixed_order, longest_ns, objectives},
};
use crate::plan::multi_dnn::{
    PlacingError, Request,
    grid::{GridRow, grid},
};
use crate::zoo::{
    ZooError,
    recall::{Recall, SAMPLES},
};
use std::collections::BTreeSet;
use vitempo_planners::{
    multi_dnn::{Kind, MultiDnnError, Settings},
    stitch::{
        Order, Slo, StitchError, Task, Zoo, default_budget, hotness,
        pareto::{OnFront, pareto},
        preload::{self, Loaded},
        profiling::Profiling,
        slo::Ranges,
        systems::{Setting, System},
    },
};

/// Memory budgets, percent of the memory of all subgraphs.
const BUDGETS: [u64; 8] = [5, 10, 15, 25, 40, 55, 75, 100];

/// Additional violation rate up to which memory counts as enough: one percentage point.
const AS_MANY: f64 = 0.01;

/// Evaluations of the planner for several models at once, for each configuration of the grid.
pub const EVALUATIONS: u64 = 2000;

/// Why a record cannot be assessed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssessmentError {
    /// Costs, accuracies or orders that do not fit each other.
    #[error(transparent)]
    Stitch(#[from] StitchError),
    /// Accuracies that no estimator can be fitted to.
    #[error(transparent)]
    Recall(#[from] ZooError),
    /// The tasks cannot be planned together.
    #[error(transparent)]
    Placing(#[from] PlacingError),
    /// A record without orders.
    #[error("there is no order of processors")]
    NoOrder,
}

/// One system's violation rates and queries per second.
#[derive(Clone, Debug)]
pub struct SystemRates {
    /// The system's name.
    pub name: String,
    /// Each query alone, over the grid.
    pub alone: f64,
    /// A query of each task at the same time, over the grid.
    pub at_once: f64,
    /// Each query alone, over objectives at the best accuracy of any original.
    pub best_accuracy: f64,
    /// Each query alone, over objectives at the least latency of any original.
    pub least_latency: f64,
    /// Queries per second with [`QUERIES`] queries of each task, mean over the grid.
    pub queries_per_s: f64,
}

/// Violation rate within a memory budget: the share of the grid's SLOs that no stitched variant
/// wholly in memory meets.
#[derive(Clone, Debug)]
pub struct Budgeted {
    /// The budget, percent of the memory of all subgraphs.
    pub percent: u64,
    /// With the subgraphs that an exact search keeps in memory.
    pub exact: f64,
    /// With the subgraphs chosen round-robin by hotness.
    pub round_robin: f64,
}

/// What no variant of a task beats, alone on the chip.
#[derive(Clone, Debug)]
pub struct TaskFront {
    /// Name of the task.
    pub task: String,
    /// Its variants on the front of latency and accuracy, by rising latency.
    pub front: Vec<OnFront>,
    /// Objectives of the grid.
    pub asked: usize,
    /// Those that some original meets whole on one processor.
    pub met_whole: usize,
    /// Those that some variant meets.
    pub met: usize,
}

impl TaskFront {
    /// Variants of a kind on the front.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.front.iter().filter(|found| found.kind() == kind).count()
    }
}

/// The comparison on a measured zoo.
#[derive(Clone, Debug)]
pub struct Assessment<'a> {
    /// The zoo, with measured costs.
    pub zoo: Zoo,
    /// The systems that do not stitch, then stitching.
    pub systems: Vec<SystemRates>,
    /// The planner for several models at once, over the grid with a query of each task at the same
    /// time: for the fewest violations, and for the most queries per second. Empty where there are
    /// too many tasks or variants for it.
    pub together: Vec<GridRow>,
    /// By task, which variants are worth running.
    pub fronts: Vec<TaskFront>,
    /// Memory budgets, rising; the last one holds all subgraphs.
    pub budgets: Vec<Budgeted>,
    /// Recalls of the tasks whose stitched variants were all measured, each table of accuracies
    /// once.
    pub recalls: Vec<(&'a RecordedTask, Recall)>,
}

impl<'a> Assessment<'a> {
    /// Simulates the systems with the measured costs.
    ///
    /// # Errors
    /// [`AssessmentError`] where the record is not consistent.
    pub fn of(record: &'a Record) -> Result<Self, AssessmentError> {
        let zoo = record.zoo()?;
        let orders: Vec<Order> = record.orders.iter().cloned().map(Order::new).collect();
        let fixed = fixed_order(&zoo);
        let systems = systems(&zoo, &orders, &fixed)?;
        let together = together(&zoo)?;
        let grid = objectives(&zoo, &fixed, Ranges::grid)?;
        let fronts = fronts(&zoo, &orders, &grid)?;
        let budgets = budgets(&zoo, &orders, &grid)?;
        let recalls = recalls(record)?;
        Ok(Self { zoo, systems, together, fronts, budgets, recalls })
    }

    /// Whether every other system does better with several tasks at once, in both respects.
    #[must_use]
    pub fn stitching_is_worst(&self) -> bool {
        self.systems.split_last().is_some_and(|(stitched, others)| {
            others.iter().all(|other| {
                other.at_once < stitched.at_once && other.queries_per_s > stitched.queries_per_s
            })
        })
    }

    /// A figure of stitching, then its minimum and maximum over the systems that do not stitch.
    #[must_use]
    pub fn beside_others(&self, of: impl Fn(&SystemRates) -> f64) -> Option<(f64, [f64; 2])> {
        let (stitched, others) = self.systems.split_last()?;
        let others = || others.iter().map(&of);
        let range = [others().min_by(f64::total_cmp)?, others().max_by(f64::total_cmp)?];
        Some((of(stitched), range))
    }

    /// The least budget, percent, at which the violation rate is at most one percentage point
    /// higher than with everything in memory.
    #[must_use]
    pub fn enough(&self) -> Option<u64> {
        let full = self.budgets.last()?.exact;
        self.budgets.iter().find(|b| b.exact <= full + AS_MANY).map(|b| b.percent)
    }

    /// Memory that the least sufficient budget saves, percent of the memory of all subgraphs.
    #[must_use]
    pub fn memory_saved_percent(&self) -> Option<u64> {
        self.enough().map(|percent| 100 - percent)
    }

    /// Recall of the first task whose stitched variants were all measured.
    #[must_use]
    pub fn recall(&self) -> Option<&Recall> {
        self.recalls.first().map(|(_, recall)| recall)
    }

    /// The numbers of profiling runs with and without estimators (eq. 6).
    #[must_use]
    pub fn profiling(&self) -> Profiling {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let variants = self.zoo.tasks().iter().map(|task| task.variants.len()).max().unwrap_or(0);
        Profiling {
            tasks: count(self.zoo.tasks().len()),
            variants: count(variants),
            subgraphs: count(self.zoo.positions()),
            processors: count(self.zoo.processors().len()),
        }
    }
}

fn systems(zoo: &Zoo, orders: &[Order], fixed: &Order) -> Result<Vec<SystemRates>, StitchError> {
    let setting = Setting { zoo, fixed, orders, loaded: None, budget: None };
    let apart = longest_ns(zoo);
    let grid = objectives(zoo, fixed, Ranges::grid)?;
    let accurate = objectives(zoo, fixed, Ranges::accuracy_guaranteed)?;
    let fast = objectives(zoo, fixed, Ranges::latency_guaranteed)?;
    let one = |system: System| -> Result<SystemRates, StitchError> {
        let missed = |slos: &[Vec<Slo>], spacing: u64| -> Result<f64, StitchError> {
            Ok(setting.violations(system, slos, spacing)?.rate())
        };
        let rates = grid
            .iter()
            .map(|slos| setting.throughput(system, slos, QUERIES))
            .collect::<Result<Vec<f64>, _>>()?;
        Ok(SystemRates {
            name: system.to_string(),
            alone: missed(&grid, apart)?,
            at_once: missed(&grid, 0)?,
            best_accuracy: missed(&accurate, apart)?,
            least_latency: missed(&fast, apart)?,
            queries_per_s: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        })
    };
    System::BASELINES.into_iter().chain([System::STITCHED]).map(one).collect()
}

fn together(zoo: &Zoo) -> Result<Vec<GridRow>, PlacingError> {
    let settings = Settings { evaluations: EVALUATIONS, ..Settings::default() };
    match grid(zoo, &Request { saturation: QUERIES, settings, ..Request::default() }) {
        Ok(grid) => Ok(grid.planned().to_vec()),
        Err(PlacingError::Plan(MultiDnnError::TooMany { .. })) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn fronts(zoo: &Zoo, orders: &[Order], grid: &[Vec<Slo>]) -> Result<Vec<TaskFront>, StitchError> {
    let of_task = |(index, task): (usize, &Task)| {
        let of = |kinds: &[Kind]| pareto(zoo, index, orders, kinds);
        let front = of(&[Kind::Whole, Kind::Cut, Kind::Stitched])?;
        let own = || grid.iter().filter_map(|slos| slos.get(index));
        let met = |by: &[OnFront]| own().filter(|slo| by.iter().any(|one| one.meets(slo))).count();
        Ok(TaskFront {
            task: task.name.clone(),
            asked: own().count(),
            met_whole: met(&of(&[Kind::Whole])?),
            met: met(&front),
            front,
        })
    };
    zoo.tasks().iter().enumerate().map(of_task).collect()
}

/// Violation rates with part of the memory, in the order that meets the most SLOs with all of it.
fn budgets(
    zoo: &Zoo,
    orders: &[Order],
    grid: &[Vec<Slo>],
) -> Result<Vec<Budgeted>, AssessmentError> {
    let everything = Loaded::everything(zoo);
    let mut best: Option<(usize, &Order)> = None;
    for order in orders {
        let keeps = everything.keeps(zoo, order, grid)?;
        if best.is_none_or(|(most, _)| keeps > most) {
            best = Some((keeps, order));
        }
    }
    let (_, order) = best.ok_or(AssessmentError::NoOrder)?;
    let own =
        |task: usize| grid.iter().filter_map(|slos| slos.get(task).copied()).collect::<Vec<Slo>>();
    let hotness = (0..zoo.tasks().len())
        .map(|task| hotness::hotness(zoo, task, order, &own(task)))
        .collect::<Result<Vec<_>, _>>()?;
    let asked = (grid.len() * zoo.tasks().len()).max(1);
    let missed = |loaded: &Loaded| -> Result<f64, StitchError> {
        Ok(1.0 - loaded.keeps(zoo, order, grid)? as f64 / asked as f64)
    };
    let at = |&percent: &u64| -> Result<Budgeted, AssessmentError> {
        let bytes = u128::from(everything.memory_bytes()) * u128::from(percent) / 100;
        let budget = u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok(Budgeted {
            percent,
            exact: missed(&preload::exact(zoo, order, grid, budget, &default_budget())?.loaded)?,
            round_robin: missed(&preload::round_robin(zoo, &hotness, budget))?,
        })
    };
    BUDGETS.iter().map(at).collect()
}

/// How well a sample finds the best stitched variants, of tasks that have enough of them.
fn recalls(record: &Record) -> Result<Vec<(&RecordedTask, Recall)>, AssessmentError> {
    let mut seen = BTreeSet::new();
    let known =
        |task: &&RecordedTask| task.measured == task.accuracies_bp.len() && task.measured > SAMPLES;
    let once = record.tasks.iter().filter(known).filter(|task| seen.insert(&task.accuracies_bp));
    let recall = |task: &'_ RecordedTask| {
        Recall::of(&task.accuracies_bp, task.variants.len(), task.subgraphs.len())
    };
    once.map(|task| Ok((task, recall(task)?))).collect()
}

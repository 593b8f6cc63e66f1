//! [`Record`]: measurements of a zoo on engines, as a file from which all results can be computed
//! again: costs of all subgraphs, accuracies of all stitched variants, stitched variants and orders
//! that were run, and the hand-over of a subgraph.

use super::hand_over::MeasuredHandOver;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo_planners::stitch::{
    HandOver, Order, Slo, StitchError, Subgraph, Table, Task, Zoo, each_variant,
};

/// Why a record cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a record.
    #[error("{}: {source}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The parts of the file contradict each other.
    #[error("{}: {reason}", .path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// The part that does.
        reason: String,
    },
    /// A plan from forecasts alone.
    #[error("nothing was measured")]
    NotMeasured,
    /// There is no order of processors.
    #[error("a zoo without orders")]
    NoOrder,
    /// The costs or accuracies are not consistent.
    #[error(transparent)]
    Stitch(#[from] StitchError),
}

/// One stitched variant that was run, ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Its task.
    pub task: String,
    /// Processors by position.
    pub order: Vec<String>,
    /// Variants by position.
    pub variants: Vec<String>,
    /// Sum of its subgraphs' latencies, measured one by one.
    pub summed_ns: u64,
    /// Sum of their forecasts, where there are bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_ns: Option<u64>,
    /// Median of its measured latencies.
    pub measured_ns: u64,
}

/// An order with the best variants for it, run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriedOrder {
    /// Processors by position.
    pub order: Vec<String>,
    /// Predicted mean latency over tasks, ns.
    pub predicted_ns: u64,
    /// The same as measured.
    pub measured_ns: u64,
    /// Predicted SLO violations.
    pub predicted_misses: usize,
    /// The same as measured.
    pub measured_misses: usize,
}

/// The source of the accuracies of a task's stitched variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccuracySource {
    /// A description.
    pub how: String,
    /// Stitched variants whose accuracy was measured.
    pub measured: usize,
}

/// Measured latencies of stitched variants and orders on engines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    /// Stitched variants drawn at random.
    pub tried: Vec<Tried>,
    /// Every order with the variants that are best in it.
    pub orders: Vec<TriedOrder>,
}

/// Errors of the predicted latencies of the stitched variants that were run: ns, and a share;
/// `None` where there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyErrors<'a> {
    /// The task; `None` for all together.
    pub task: Option<&'a str>,
    /// Stitched variants that were run.
    pub count: usize,
    /// Error of the sum of subgraphs measured one by one.
    pub summed: Option<(f64, f64)>,
    /// Error of the sum of forecasts.
    pub forecast: Option<(f64, f64)>,
}

/// A measured zoo.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Names of the processors with descriptions.
    pub processors: Vec<(String, String)>,
    /// Processor indices by position, of all orders to choose from.
    pub orders: Vec<Vec<usize>>,
    /// Tasks in the order of the tasks file.
    pub tasks: Vec<RecordedTask>,
    /// A description of the accuracies.
    pub accuracy_is: Option<String>,
    /// Stitched variants and orders that were run.
    #[serde(rename = "rehearsal")]
    pub trials: Trials,
    /// Time of a piece beside its subgraphs, estimated from these runs; `None` in older records and
    /// without runs: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<MeasuredHandOver>,
}

/// A measured task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTask {
    /// Its name.
    pub name: String,
    /// Names of its variants.
    pub variants: Vec<String>,
    /// The source of the accuracies.
    pub accuracy_how: String,
    /// Stitched variants whose accuracy was measured.
    pub measured: usize,
    /// Accuracies of all stitched variants, basis points, the last position changing fastest.
    pub accuracies_bp: Vec<u32>,
    /// The objective: basis points and ns.
    pub asked: (u32, u64),
    /// Subgraphs by position, then variant.
    pub subgraphs: Vec<Vec<Subgraph>>,
}

impl Record {
    /// The record of a zoo with measured costs.
    ///
    /// # Errors
    /// [`RecordError::NoOrder`], or [`RecordError::Stitch`] naming a task with too many stitched
    /// variants.
    pub fn of(
        zoo: &Zoo,
        accuracies: &[AccuracySource],
        processors: Vec<(String, String)>,
        orders: &[Order],
        slos: &[Slo],
        trials: &Trials,
    ) -> Result<Self, RecordError> {
        let first = orders.first().ok_or(RecordError::NoOrder)?;
        let mut tasks = Vec::new();
        for (index, ((task, source), slo)) in
            zoo.tasks().iter().zip(accuracies).zip(slos).enumerate()
        {
            let mut accuracies_bp = Vec::new();
            each_variant(zoo, index, first, |_, _, bp| accuracies_bp.push(bp))?;
            tasks.push(RecordedTask {
                name: task.name.clone(),
                variants: task.variants.clone(),
                accuracy_how: source.how.clone(),
                measured: source.measured,
                accuracies_bp,
                asked: (slo.accuracy_bp, slo.latency_ns),
                subgraphs: task.subgraphs.clone(),
            });
        }
        let orders = orders.iter().map(|order| order.processors().to_vec()).collect();
        let trials = trials.clone();
        Ok(Self { processors, orders, tasks, accuracy_is: None, trials, hand_over: None })
    }

    /// The file's text.
    ///
    /// # Errors
    /// Where a number cannot be written as JSON.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`RecordError`] naming the file.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let path = || path.to_owned();
        let text = vitempo_graph::files::read_text(&path())
            .map_err(|source| RecordError::Read { path: path(), source })?;
        let record: Self = serde_json::from_str(&text)
            .map_err(|source| RecordError::Format { path: path(), source })?;
        let refused = |reason| RecordError::Contradiction { path: path(), reason };
        record.check().map_err(refused)?;
        Ok(record)
    }

    /// Whether what was run fits the tasks and processors.
    fn check(&self) -> Result<(), String> {
        for task in &self.tasks {
            let (name, measured, all) = (&task.name, task.measured, task.accuracies_bp.len());
            if measured > all {
                return Err(format!("task `{name}`: {measured} measured of {all} variants"));
            }
            if let Some(twice) = first_again(&task.variants) {
                return Err(format!("task `{name}`: variant `{twice}` is listed twice"));
            }
        }
        for (at, tried) in self.trials.tried.iter().enumerate() {
            self.check_tried(tried).map_err(|reason| format!("rehearsal.tried[{at}]: {reason}"))?;
        }
        for (at, tried) in self.trials.orders.iter().enumerate() {
            let reason = self.check_order(&tried.order).err().or_else(|| {
                let misses = tried.measured_misses.max(tried.predicted_misses);
                let tasks = self.tasks.len();
                (misses > tasks).then(|| format!("{misses} missed SLOs of {tasks} tasks"))
            });
            if let Some(reason) = reason {
                return Err(format!("rehearsal.orders[{at}]: {reason}"));
            }
        }
        Ok(())
    }

    fn check_tried(&self, tried: &Tried) -> Result<(), String> {
        let task = self.tasks.iter().find(|task| task.name == tried.task);
        let task = task.ok_or_else(|| format!("there is no task `{}`", tried.task))?;
        let is_unknown = |name: &&String| !task.variants.contains(name);
        if let Some(name) = tried.variants.iter().find(is_unknown) {
            return Err(format!("task `{}` has no variant `{name}`", task.name));
        }
        if tried.variants.len() != task.subgraphs.len() {
            let (variants, positions) = (tried.variants.len(), task.subgraphs.len());
            return Err(format!("{variants} variants for {positions} positions"));
        }
        if tried.measured_ns == 0 {
            return Err("measured_ns is 0".to_owned());
        }
        self.check_order(&tried.order)
    }

    fn check_order(&self, order: &[String]) -> Result<(), String> {
        let is_known = |name: &String| self.processors.iter().any(|(known, _)| known == name);
        if let Some(name) = order.iter().find(|name| !is_known(name)) {
            return Err(format!("there is no processor `{name}`"));
        }
        match self.tasks.iter().find(|task| task.subgraphs.len() != order.len()) {
            Some(task) => Err(format!(
                "an order of {} processors for the {} positions of task `{}`",
                order.len(),
                task.subgraphs.len(),
                task.name
            )),
            None => Ok(()),
        }
    }

    /// The objective of each task.
    #[must_use]
    pub fn asked(&self) -> Vec<Slo> {
        let slo = |task: &RecordedTask| Slo { accuracy_bp: task.asked.0, latency_ns: task.asked.1 };
        self.tasks.iter().map(slo).collect()
    }

    /// The zoo, with measured costs; these contain the hand-over of each subgraph where it is known.
    ///
    /// # Errors
    /// [`StitchError`] where costs or accuracies are not consistent.
    pub fn zoo(&self) -> Result<Zoo, StitchError> {
        let task = |recorded: &RecordedTask| -> Result<Task, StitchError> {
            let accuracy = Table::new(
                recorded.subgraphs.len(),
                recorded.variants.len(),
                recorded.accuracies_bp.clone(),
            )?;
            let (name, variants, subgraphs) =
                (recorded.name.clone(), recorded.variants.clone(), recorded.subgraphs.clone());
            Ok(Task { name, variants, subgraphs, accuracy: Arc::new(accuracy) })
        };
        let names = self.processors.iter().map(|(name, _)| name.clone()).collect();
        let tasks = self.tasks.iter().map(task).collect::<Result<_, StitchError>>()?;
        let hand_over = self.hand_over.as_ref().map_or(HandOver::Unknown, MeasuredHandOver::costs);
        Zoo::new(names, BTreeMap::new(), tasks)?.with_hand_over(hand_over)
    }
}

fn first_again(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| name)
}

impl Trials {
    /// Mean absolute error and mean absolute percentage error of a prediction over the stitched
    /// variants that were run; `None` without any. ns, share.
    #[must_use]
    pub fn error(&self, predicted: impl Fn(&Tried) -> Option<u64>) -> Option<(f64, f64)> {
        let off: Vec<(f64, f64)> = self
            .tried
            .iter()
            .filter_map(|tried| {
                let ns = predicted(tried)?.abs_diff(tried.measured_ns) as f64;
                Some((ns, ns / tried.measured_ns.max(1) as f64))
            })
            .collect();
        let mean =
            |of: &dyn Fn(&(f64, f64)) -> f64| off.iter().map(of).sum::<f64>() / off.len() as f64;
        (!off.is_empty()).then(|| (mean(&|o| o.0), mean(&|o| o.1)))
    }

    /// The same for sums of measured subgraphs and of forecasts: of each of these tasks, then of
    /// all.
    #[must_use]
    pub fn errors<'a>(&self, tasks: impl IntoIterator<Item = &'a str>) -> Vec<LatencyErrors<'a>> {
        let of = |task: Option<&'a str>| {
            let is_its = |tried: &Tried| task.is_none_or(|name| tried.task == name);
            LatencyErrors {
                task,
                count: self.tried.iter().filter(|tried| is_its(tried)).count(),
                summed: self.error(|tried| is_its(tried).then_some(tried.summed_ns)),
                forecast: self.error(|tried| tried.forecast_ns.filter(|_| is_its(tried))),
            }
        };
        tasks.into_iter().map(Some).chain([None]).map(of).collect()
    }

    /// The chosen order: fewest predicted violations, then least predicted mean latency.
    #[must_use]
    pub fn chosen(&self) -> Option<&TriedOrder> {
        self.orders.iter().min_by_key(|tried| (tried.predicted_misses, tried.predicted_ns))
    }

    /// The most by which the chosen order is slower than the fastest order with no more violations,
    /// as measured; a share.
    #[must_use]
    pub fn regret(&self) -> Option<f64> {
        let chosen = self.chosen()?;
        let best = self
            .orders
            .iter()
            .filter(|tried| tried.measured_misses <= chosen.measured_misses)
            .map(|tried| tried.measured_ns)
            .min()?;
        Some(chosen.measured_ns as f64 / best.max(1) as f64 - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(
        name: &str,
        predicted_ns: u64,
        measured_ns: u64,
        misses: (usize, usize),
    ) -> TriedOrder {
        TriedOrder {
            order: vec![name.to_owned()],
            predicted_ns,
            measured_ns,
            predicted_misses: misses.0,
            measured_misses: misses.1,
        }
    }

    #[test]
    fn regret_is_against_the_best_order_measured() {
        let of = |orders| Trials { tried: Vec::new(), orders };
        let trials = of(vec![
            order("a", 10, 22, (0, 0)),
            order("b", 11, 20, (0, 0)),
            order("c", 5, 5, (1, 1)),
        ]);
        assert_eq!(trials.chosen().map(|chosen| chosen.predicted_ns), Some(10));
        assert!(trials.regret().is_some_and(|regret| (regret - 0.1).abs() < 1e-12));
        assert_eq!(of(Vec::new()).regret(), None);
        let tried = |summed_ns, measured_ns| Tried {
            task: String::new(),
            order: Vec::new(),
            variants: Vec::new(),
            summed_ns,
            forecast_ns: None,
            measured_ns,
        };
        let trials = Trials { tried: vec![tried(90, 100), tried(240, 200)], orders: Vec::new() };
        assert!(
            trials
                .error(|t| Some(t.summed_ns))
                .is_some_and(|(ns, share)| (ns - 25.0).abs() < 1e-9 && (share - 0.15).abs() < 1e-9)
        );
        assert_eq!(trials.error(|t| t.forecast_ns), None);
        let errors = trials.errors(["other"]);
        assert_eq!(
            errors.iter().map(|e| (e.task, e.count)).collect::<Vec<_>>(),
            [(Some("other"), 0), (None, 2),]
        );
        assert!(errors[0].summed.is_none() && errors[1].summed.is_some_and(|e| e.0 == 25.0));
    }
}

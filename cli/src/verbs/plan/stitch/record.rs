//! [`Record`]: what `--live` measured of a zoo, as a file from which everything can be computed
//! again without engines: costs of all subgraphs, accuracies of all stitched variants, and stitched
//! variants and orders that were run.

use super::{
    super::super::{
        error::{CliError, CliResult, io_error},
        files,
    },
    live::{Tried, TriedOrder},
    report::TaskReport,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use vitempo::planners::stitch::{Order, Slo, Subgraph, Table, Task, Zoo, each_variant};

/// What engines said to a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rehearsal {
    /// Stitched variants drawn at random.
    pub tried: Vec<Tried>,
    /// Every order with the variants that are best in it.
    pub orders: Vec<TriedOrder>,
}

/// A measured zoo.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Names, and what they are.
    pub processors: Vec<(String, String)>,
    /// Processor indices by position, of all orders there were to choose from.
    pub orders: Vec<Vec<usize>>,
    pub tasks: Vec<RecordedTask>,
    /// What accuracies are accuracies of.
    pub accuracy_is: Option<String>,
    pub rehearsal: Rehearsal,
}

/// A measured task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTask {
    pub name: String,
    pub variants: Vec<String>,
    /// How accuracies are known.
    pub accuracy_how: String,
    /// Stitched variants whose accuracy was measured.
    pub measured: usize,
    /// Basis points of all stitched variants, the last position counting fastest.
    pub accuracies_bp: Vec<u32>,
    /// What was asked: basis points and ns.
    pub asked: (u32, u64),
    /// By position, then variant.
    pub subgraphs: Vec<Vec<Subgraph>>,
}

impl Record {
    /// Of a zoo with measured costs.
    pub fn of(
        zoo: &Zoo,
        reports: &[TaskReport],
        processors: Vec<(String, String)>,
        orders: &[Order],
        slos: &[Slo],
        rehearsal: &Rehearsal,
    ) -> CliResult<Self> {
        let first = orders.first().ok_or_else(|| CliError::ours("a zoo without orders"))?;
        let mut tasks = Vec::new();
        for (index, ((task, report), slo)) in zoo.tasks().iter().zip(reports).zip(slos).enumerate()
        {
            let mut accuracies_bp = Vec::new();
            each_variant(zoo, index, first, |_, _, bp| accuracies_bp.push(bp))?;
            tasks.push(RecordedTask {
                name: task.name.clone(),
                variants: task.variants.clone(),
                accuracy_how: report.accuracy_how.clone(),
                measured: report.measured,
                accuracies_bp,
                asked: (slo.accuracy_bp, slo.latency_ns),
                subgraphs: task.subgraphs.clone(),
            });
        }
        let orders = orders.iter().map(|order| order.processors().to_vec()).collect();
        Ok(Self { processors, orders, tasks, accuracy_is: None, rehearsal: rehearsal.clone() })
    }

    /// Writes a file.
    pub fn write(&self, path: &Path) -> CliResult {
        files::write(path, serde_json::to_string(self).map_err(CliError::ours)?.as_bytes())
    }

    /// Reads a file.
    pub fn read(path: &Path) -> CliResult<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            io_error("read", path, &e).hint("`vitempo plan stitch --live ... --record` writes one")
        })?;
        serde_json::from_str(&text).map_err(|e| CliError::user(format!("{}: {e}", path.display())))
    }

    /// The zoo, with measured costs.
    pub fn zoo(&self) -> CliResult<Zoo> {
        let task = |recorded: &RecordedTask| -> CliResult<Task> {
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
        Ok(Zoo::new(
            names,
            BTreeMap::new(),
            self.tasks.iter().map(task).collect::<CliResult<_>>()?,
        )?)
    }
}

impl Rehearsal {
    /// Mean absolute error and mean absolute percentage error of a prediction over the stitched
    /// variants that were run; `None` without any. ns, share.
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

    /// The order chosen: fewest misses, then least mean latency by prediction.
    pub fn chosen(&self) -> Option<&TriedOrder> {
        self.orders.iter().min_by_key(|tried| (tried.predicted_misses, tried.predicted_ns))
    }

    /// By how much the order chosen takes longer than the fastest of those that miss no more
    /// objectives, as measured; a share.
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
        let of = |orders| Rehearsal { tried: Vec::new(), orders };
        let rehearsal = of(vec![
            order("a", 10, 22, (0, 0)),
            order("b", 11, 20, (0, 0)),
            order("c", 5, 5, (1, 1)),
        ]);
        assert_eq!(rehearsal.chosen().map(|chosen| chosen.predicted_ns), Some(10));
        assert!(rehearsal.regret().is_some_and(|regret| (regret - 0.1).abs() < 1e-12));
        assert_eq!(of(Vec::new()).regret(), None);
        let tried = |summed_ns, measured_ns| Tried {
            task: String::new(),
            order: Vec::new(),
            variants: Vec::new(),
            summed_ns,
            forecast_ns: None,
            measured_ns,
        };
        let rehearsal =
            Rehearsal { tried: vec![tried(90, 100), tried(240, 200)], orders: Vec::new() };
        assert!(
            rehearsal
                .error(|t| Some(t.summed_ns))
                .is_some_and(|(ns, share)| (ns - 25.0).abs() < 1e-9 && (share - 0.15).abs() < 1e-9)
        );
        assert_eq!(rehearsal.error(|t| t.forecast_ns), None);
    }
}

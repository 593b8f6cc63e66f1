//! [`Plan`]: which node runs where, what moves, what it should cost, what it is optimal with
//! respect to, and how wrong that can be.

use crate::{Evidence, cost::Interval};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use vitempo_graph::Latency;

/// The nodes that run on one processor, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the processor.
    pub processor: String,
    /// In the order they run.
    pub nodes: Vec<String>,
    /// Computing, without transfers.
    pub latency_ns: Interval,
    /// Weights.
    pub memory_bytes: u64,
}

/// Tensors handed from one processor to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Name of the processor that sends.
    pub from: String,
    /// Name of the processor that receives.
    pub to: String,
    /// Names of what is sent.
    pub tensors: Vec<String>,
    /// Sum of their sizes.
    pub size_bytes: u64,
    /// How long sending takes.
    pub latency_ns: Interval,
}

/// What a plan should cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// From a frame's input to its results.
    pub latency_ns: Interval,
    /// Between the results of two frames, where frames overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Interval>,
    /// What the device draws for one frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_energy_nj: Option<Interval>,
}

/// In which sense a plan is the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimality {
    /// What was minimised.
    pub minimised: String,
    /// What had to be kept.
    pub bounds: Vec<String>,
    /// The cost model, in a sentence: optimality holds in it, not in the world.
    pub cost_model: String,
    /// No plan in that model is better by more than this share: 0 when proven best.
    pub gap: f64,
}

/// How much worse than the best plan this one can turn out, when each cost lies somewhere in its
/// interval: the worst case over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// In the unit of what was minimised (ns, nJ, bytes).
    pub worst: u64,
    /// As a share of the predicted value.
    pub share: f64,
}

impl Regret {
    /// A worst case beside the predicted value.
    #[must_use]
    pub fn of(worst: u64, predicted: u64) -> Self {
        Self { worst, share: if worst == 0 { 0.0 } else { worst as f64 / predicted.max(1) as f64 } }
    }
}

/// Where each part of a model runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The model's name.
    pub model: String,
    /// In the order a frame passes through them.
    pub stages: Vec<Stage>,
    /// What moves between stages.
    pub transfers: Vec<Transfer>,
    /// What it should cost.
    pub predicted: Predicted,
    /// In which sense it is the best.
    pub optimal: Optimality,
    /// How wrong that can be; `None` where no planner computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regret: Option<Regret>,
    /// How strong the predicted figures are.
    pub evidence: Evidence,
}

/// `68.4 ms [65.9 ms .. 71.2 ms]`, or the point alone where there is no interval.
#[must_use]
pub fn duration(interval: Interval) -> String {
    use crate::cost::End::{Lower, Upper};
    let show = |ns: u64| Latency::from_ns(ns as f64).to_string();
    let point = show(interval.point());
    if interval.at(Lower) == interval.at(Upper) {
        point
    } else {
        format!("{point} [{} .. {}]", show(interval.at(Lower)), show(interval.at(Upper)))
    }
}

/// `3.21 mJ`: an energy given in nanojoules.
#[must_use]
pub fn energy(nj: u64) -> String {
    match nj as f64 {
        nj if nj < 1e3 => format!("{nj:.0} nJ"),
        nj if nj < 1e6 => format!("{:.2} uJ", nj / 1e3),
        nj if nj < 1e9 => format!("{:.2} mJ", nj / 1e6),
        nj => format!("{:.2} J", nj / 1e9),
    }
}

impl fmt::Display for Plan {
    /// A table for people: stages and transfers in the order a frame passes them, then what they
    /// add up to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["Step", "Nodes", "Bytes", "Time"].map(str::to_owned)];
        let row = |transfer: &Transfer| {
            let tensors = format!(
                "{} tensor{}",
                transfer.tensors.len(),
                if transfer.tensors.len() == 1 { "" } else { "s" }
            );
            [
                format!("  -> {}", transfer.to),
                tensors,
                transfer.size_bytes.to_string(),
                duration(transfer.latency_ns),
            ]
        };
        // From where nothing runs: the model's inputs, on their way to the first stage.
        rows.extend(
            self.transfers
                .iter()
                .filter(|t| self.stages.iter().all(|s| s.processor != t.from))
                .map(row),
        );
        for (index, stage) in self.stages.iter().enumerate() {
            let span = match (stage.nodes.first(), stage.nodes.last()) {
                (Some(first), Some(last)) if stage.nodes.len() > 1 => {
                    format!("{} ({first} .. {last})", stage.nodes.len())
                }
                (Some(only), _) => format!("1 ({only})"),
                _ => "none".to_owned(),
            };
            rows.push([
                stage.processor.clone(),
                span,
                stage.memory_bytes.to_string(),
                duration(stage.latency_ns),
            ]);
            rows.extend(
                self.transfers
                    .iter()
                    .filter(|t| t.from == stage.processor && self.follows(index, t))
                    .map(row),
            );
        }
        aligned(f, &rows)?;
        let mut sums = format!("latency {}", duration(self.predicted.latency_ns));
        if let Some(period) = self.predicted.period_ns {
            let _ = write!(
                sums,
                "; period {} ({:.1} frames/s)",
                duration(period),
                1e9 / period.point().max(1) as f64
            );
        }
        if let Some(nj) = self.predicted.device_energy_nj {
            let _ = write!(sums, "; device energy {}", energy(nj.point()));
        }
        writeln!(f, "{sums}   ({})", self.evidence)?;
        let bounds = if self.optimal.bounds.is_empty() {
            String::new()
        } else {
            format!(" with {}", self.optimal.bounds.join(" and "))
        };
        let proven = if self.optimal.gap == 0.0 {
            "proven best".to_owned()
        } else {
            format!("within {:.2} % of the best", 100.0 * self.optimal.gap)
        };
        writeln!(
            f,
            "{proven}: least {}{bounds}; {}",
            self.optimal.minimised, self.optimal.cost_model
        )?;
        if let Some(regret) = self.regret {
            writeln!(
                f,
                "if costs are anywhere in their intervals, another plan is better by at most \
                {:.1} %",
                100.0 * regret.share
            )?;
        }
        Ok(())
    }
}

impl Plan {
    /// Whether a transfer leaves after this stage: it goes to a later one, or back to where results
    /// are wanted.
    fn follows(&self, stage: usize, transfer: &Transfer) -> bool {
        let last_of_processor = self.stages.iter().rposition(|s| s.processor == transfer.from);
        last_of_processor == Some(stage)
    }
}

/// Writes rows with columns of equal width, two spaces apart.
fn aligned<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

//! [`Plan`]: the processor of each node, the transfers, the predicted cost, the sense in which the
//! plan is optimal, and its regret.

use crate::{Evidence, Regret, cost::Interval, energy::PlanFrame};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use vitempo_graph::Latency;

/// The nodes that run on one processor, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the processor.
    pub processor: String,
    /// The nodes, in the order in which they run.
    pub nodes: Vec<String>,
    /// Latency of the nodes, without transfers.
    pub latency_ns: Interval,
    /// Memory that the engine takes for the nodes, or of their weights where that is not known,
    /// bytes.
    pub memory_bytes: u64,
}

/// Tensors handed from one processor to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Name of the processor that sends.
    pub from: String,
    /// Name of the processor that receives.
    pub to: String,
    /// Names of the tensors.
    pub tensors: Vec<String>,
    /// Sum of their sizes.
    pub size_bytes: u64,
    /// Latency of the transfer, with what its link takes once.
    pub latency_ns: Interval,
    /// The part of the latency that the link takes once per inference: a round trip, a wake-up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub setup_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// The predicted cost of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Time from a frame's input to its results.
    pub latency_ns: Interval,
    /// Time between the results of two frames, where frames overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Interval>,
    /// Energy of the device for one frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_energy_nj: Option<Interval>,
    /// A whole frame on a device: camera, conversion, radio and base beside the stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<PlanFrame>,
}

/// In which sense a plan is the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Optimality {
    /// The minimised quantity.
    pub minimised: String,
    /// The bounds that the plan satisfies.
    pub bounds: Vec<String>,
    /// The cost model, in a sentence: the plan is optimal in this model, not necessarily on a
    /// machine.
    pub cost_model: String,
    /// No plan in that model is better by more than this share: 0 when proven best.
    pub gap: f64,
}

/// Where each part of a model runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The model's name.
    pub model: String,
    /// In the order a frame passes through them.
    pub stages: Vec<Stage>,
    /// The transfers between stages.
    pub transfers: Vec<Transfer>,
    /// The predicted cost.
    pub predicted: Predicted,
    /// In which sense it is the best.
    pub optimal: Optimality,
    /// The regret; `None` where the planner does not compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regret: Option<Regret>,
    /// The level of evidence of the predicted figures.
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

/// `17.1 Mbit/s`: a bandwidth given in bytes per second, with four significant digits.
#[must_use]
pub fn rate(bytes_per_s: f64) -> String {
    let bits = 8.0 * bytes_per_s;
    let (value, unit) = match bits {
        bits if bits >= 1e9 => (bits / 1e9, "Gbit/s"),
        bits if bits >= 1e6 => (bits / 1e6, "Mbit/s"),
        bits if bits >= 1e3 => (bits / 1e3, "kbit/s"),
        bits => (bits, "bit/s"),
    };
    let before = if value >= 1.0 { value.log10().floor() as usize + 1 } else { 1 };
    let decimals = 4usize.saturating_sub(before);
    match value {
        0.0 => "0 bit/s".to_owned(),
        value if value < 1e-3 => format!("{value:.3e} {unit}"),
        value => format!("{value:.decimals$} {unit}"),
    }
}

impl fmt::Display for Plan {
    /// Writes a table: stages and transfers in the order in which a frame passes them, then the
    /// totals.
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
        // Transfers from processors without a stage: the model's inputs, sent to the first stage.
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
        if let Some(frame) = self.predicted.frame {
            writeln!(f, "{frame}")?;
        }
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
            let bound = if regret.is_bound { " (an upper bound)" } else { "" };
            writeln!(
                f,
                "if costs are anywhere in their intervals, another plan saves at most {:.1} % of \
                what this one then takes{bound}",
                100.0 * regret.share
            )?;
        }
        Ok(())
    }
}

impl Plan {
    /// Whether a transfer follows this stage: to a later stage, or back to the processor that
    /// receives the results.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_printed_as_zero_but_zero() {
        for (bytes_per_s, text) in [
            (0.0, "0 bit/s"),
            (1.0, "8.000 bit/s"),
            (20.0, "160.0 bit/s"),
            (2_137_500.0, "17.10 Mbit/s"),
            (125e6, "1.000 Gbit/s"),
            (1.25e14, "1000000 Gbit/s"),
            (1e-6, "8.000e-6 bit/s"),
        ] {
            assert_eq!(rate(bytes_per_s), text);
        }
    }
}

//! Plans as tables, JSON and CSV.

use super::super::{
    error::{CliError, CliResult},
    output::{Report, Table},
};
use std::fmt::Write;
use vitempo::planners::{Plan, cost::End, duration, energy};

/// One plan, or the plans of a Pareto front.
pub struct Plans {
    plans: Vec<Plan>,
    /// Whether the first plan is chosen; of a list none is.
    is_chosen: bool,
    /// Extra fields of the JSON object of a plan that is chosen.
    extra: Option<serde_json::Value>,
    /// Lines below the table.
    notes: Vec<String>,
}

impl Plans {
    /// The plan that is chosen.
    pub fn one(plan: Plan, extra: Option<serde_json::Value>, notes: Vec<String>) -> Self {
        Self { plans: vec![plan], is_chosen: true, extra, notes }
    }

    /// Plans to choose from.
    pub fn front(plans: Vec<Plan>, notes: Vec<String>) -> Self {
        Self { plans, is_chosen: false, extra: None, notes }
    }
}

impl Report for Plans {
    fn table(&self) -> String {
        let mut text = match &self.plans[..] {
            [plan] if self.is_chosen => format!("{}\n\n{plan}", plan.model),
            plans => list(plans),
        };
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "model",
                "stages",
                "latency_ns",
                "lower_ns",
                "upper_ns",
                "period_ns",
                "device_energy_nj",
                "gap",
                "regret_share",
                "regret_is_bound",
                "frame_energy_j",
                "frame_period_s",
            ],
            2,
        );
        for plan in &self.plans {
            let p = &plan.predicted;
            let optional = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
            table.row([
                plan.model.clone(),
                outline(plan),
                p.latency_ns.point().to_string(),
                p.latency_ns.at(End::Lower).to_string(),
                p.latency_ns.at(End::Upper).to_string(),
                optional(p.period_ns.map(|i| i.point())),
                optional(p.device_energy_nj.map(|i| i.point())),
                plan.optimal.gap.to_string(),
                plan.regret.map_or_else(String::new, |r| r.share.to_string()),
                plan.regret.map_or_else(String::new, |r| r.is_bound.to_string()),
                p.frame.map_or_else(String::new, |frame| frame.energy_j.to_string()),
                p.frame.map_or_else(String::new, |frame| frame.period_s.to_string()),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let one = |plan: &Plan| -> CliResult<serde_json::Value> {
            let mut value = serde_json::to_value(plan).map_err(CliError::ours)?;
            if let Some(object) = value.as_object_mut() {
                object.insert("chosen".to_owned(), self.is_chosen.into());
                if let Some(serde_json::Value::Object(extra)) = &self.extra {
                    object.extend(extra.clone());
                }
            }
            Ok(value)
        };
        self.plans.iter().map(one).collect()
    }
}

/// `npu: 120, cpu: 31`: operators per stage.
fn outline(plan: &Plan) -> String {
    let stages: Vec<String> =
        plan.stages.iter().map(|s| format!("{}: {}", s.processor, s.nodes.len())).collect();
    stages.join(", ")
}

fn list(plans: &[Plan]) -> String {
    let has_frames = plans.iter().any(|plan| plan.predicted.frame.is_some());
    let mut headings = vec!["Operators", "Sent", "Latency", "Period", "Device energy", "Regret"];
    headings.extend(has_frames.then_some("Whole frame"));
    let mut table = Table::new(&headings, 1);
    for plan in plans {
        let p = &plan.predicted;
        let dash = || "-".to_owned();
        let mut cells = vec![
            outline(plan),
            format!("{} B", plan.transfers.iter().map(|t| t.size_bytes).sum::<u64>()),
            duration(p.latency_ns),
            p.period_ns.map_or_else(dash, duration),
            p.device_energy_nj.map_or_else(dash, |nj| energy(nj.point())),
            plan.regret.map_or_else(dash, |r| r.percent()),
        ];
        cells.extend(p.frame.map(|frame| format!("{:.3} J", frame.energy_j)));
        table.row(cells);
    }
    let model = plans.first().map_or("", |p| p.model.as_str());
    format!("{model}\n\n{}", table.to_text())
}

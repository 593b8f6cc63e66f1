//! A plan as text, CSV and JSON.

use super::super::super::{
    error::{CliError, CliResult},
    output::{Report, Table, percent},
};
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::aria::Scenario;
use vitempo::planners::aria::{PlannedLevel, Tried};
use vitempo_report::aria::success;

/// The plan to print.
pub struct Planned<'a>(pub &'a Scenario);

fn time(ns: f64) -> String {
    Latency::from_ns(ns).to_string()
}

impl Planned<'_> {
    fn levels(&self) -> Table {
        let headings = [
            "Level",
            "Patches",
            "Full frame",
            "Interval",
            "Frames between",
            "Rest of a frame",
            "Cycles",
            "Cycles at point",
            "In time",
        ];
        let mut table = Table::new(&headings, 2);
        for level in self.0.plan.levels.iter().rev() {
            let PlannedLevel { height, width, rows, cols, .. } = level;
            let [low, high] = level.full_frame_ns;
            let between = level.interval_frames;
            let between = if between[0] == between[2] {
                between[1].to_string()
            } else {
                format!("{} ({} - {})", between[1], between[0], between[2])
            };
            table.row([
                format!("{height} x {width}"),
                format!("{rows} x {cols}"),
                time(level.full_frame.point_ns()),
                format!("{} - {}", time(low), time(high)),
                between,
                time(level.rest_ns),
                level.cycles.to_string(),
                level.cycles_at_point.to_string(),
                if level.unusable.is_some() {
                    "-".to_owned()
                } else {
                    success(level.success.expected)
                },
            ]);
        }
        table
    }

    fn regions(&self) -> Table {
        let mut table =
            Table::new(&["Region", "Pixels", "Cycle", "Interval", "Cycles", "Patches updated"], 2);
        for Tried { region, cycles, updated, .. } in &self.0.plan.tried {
            let [low, high] = region.cycle.interval(self.0.plan.requirements.confidence);
            let chosen = if *region == self.0.plan.region && *cycles > 0 { " *" } else { "" };
            table.row([
                format!("{} x {}{chosen}", region.rows, region.cols),
                format!(
                    "{} x {}",
                    region.rows * self.0.costs.patch,
                    region.cols * self.0.costs.patch
                ),
                time(region.cycle.point_ns()),
                format!("{} - {}", time(low), time(high)),
                cycles.to_string(),
                updated.to_string(),
            ]);
        }
        table
    }

    fn conclusion(&self) -> String {
        let plan = &self.0.plan;
        let mut text = String::new();
        let target = time(plan.requirements.target_ns);
        if let (Some(success_rates), Some(frames), Some(top)) =
            (plan.success, plan.interval_frames, plan.usable().next_back())
        {
            let (region, cycle) = (&plan.region, time(plan.region.cycle.point_ns()));
            let cycles = if plan.cycles == 1 {
                "1 cycle".to_owned()
            } else {
                format!("{} cycles", plan.cycles)
            };
            let _ = writeln!(
                text,
                "{cycles} of {} x {} patches per frame ({cycle} each) at up to {} x {} pixels",
                region.rows, region.cols, top.height, top.width
            );
            let _ = writeln!(
                text,
                "Full frames every {frames:.1} camera frames, if quantiles of the camera's motion \
                use each usable level equally often"
            );
            let rates = [success_rates.expected, success_rates.at_point, success_rates.at_upper]
                .map(success);
            let _ = writeln!(
                text,
                "Deadline success rate: {} to expect; {} if forecasts are right, {} at the \
                pessimistic end",
                rates[0], rates[1], rates[2]
            );
        } else {
            let _ = writeln!(text, "Nothing fits {target}.");
        }
        for level in plan.levels.iter().rev() {
            if let Some(reason) = &level.unusable {
                let _ = writeln!(text, "Not usable: {} x {}: {reason}", level.height, level.width);
            }
        }
        if !plan.advice.is_empty() {
            let full_frames =
                plan.advice.iter().filter(|advice| advice.is_for_full_frames()).count();
            let both = (1..plan.advice.len()).contains(&full_frames);
            let _ = writeln!(
                text,
                "What would have to change{}:",
                if both {
                    ", one for full frames and one for the frame itself"
                } else {
                    "; any one is enough"
                }
            );
            plan.advice.iter().for_each(|advice| text += &format!("  {advice}\n"));
        }
        text
    }
}

impl Report for Planned<'_> {
    fn table(&self) -> String {
        let requirements = &self.0.plan.requirements;
        let mut text = String::new();
        self.0.costs.sources.iter().for_each(|source| text += &format!("{source}\n"));
        let (share, confidence) = (percent(requirements.share), percent(requirements.confidence));
        let rate = 1e9 / requirements.frame_ns;
        let _ = writeln!(
            text,
            "\n{} per frame at {rate:.0} frames a second: {share} of frames in time at \
            {confidence} confidence\n",
            time(requirements.target_ns)
        );
        text += &self.levels().to_text();
        text.push('\n');
        text += &self.regions().to_text();
        text.push('\n');
        text + &self.conclusion() + &format!("Evidence: {}\n", self.0.plan.evidence)
    }

    fn csv(&self) -> CliResult<String> {
        self.levels().to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let advice: Vec<Value> =
            self.0.plan.advice.iter().map(|a| json!({"what": a, "says": a.to_string()})).collect();
        let mut plan = serde_json::to_value(&self.0.plan).map_err(CliError::ours)?;
        if let Some(fields) = plan.as_object_mut() {
            fields.insert("advice".to_owned(), Value::from(advice));
        }
        Ok(json!({"plan": plan, "costs": self.0.costs}))
    }
}

//! The choices of `vitempo plan offload`, printed.

use super::super::super::{
    error::{CliError, CliResult},
    output::{self, Report, Table},
};
use super::on_off;
use serde_json::json;
use vitempo::{
    plan::offload::{BreakEven, Weighed},
    planners::{
        energy::offload::{Choice, Place},
        rate,
    },
};

/// From which bandwidth on the server is worth it.
fn note(break_even: BreakEven) -> String {
    match break_even {
        BreakEven::Always => "the server is better at any bandwidth".to_owned(),
        BreakEven::From(bytes_per_s) => {
            format!("the server is better from {} on", rate(bytes_per_s))
        }
    }
}

/// What is printed.
pub struct Printed {
    pub weighed: Weighed,
    pub shown: Shown,
}

/// Settings that the table shows beside the frequency.
pub struct Shown {
    pub previews: bool,
    pub conversions: bool,
    pub post_processing: bool,
}

fn place(choice: &Choice) -> &'static str {
    match choice.place {
        Place::Local => "local",
        Place::Remote => "remote",
    }
}

/// The setting, with what the table shows beside it.
fn setting(choice: &Choice, shown: &Shown) -> String {
    let Some(modelled) = &choice.modelled else { return choice.setting.clone() };
    let mut text = choice.setting.clone();
    let more = [
        (shown.previews, modelled.preview.to_string()),
        (shown.conversions, modelled.conversion.clone()),
        (shown.post_processing, format!("post {}", on_off(modelled.post_processing))),
    ];
    for (is_shown, what) in more {
        if is_shown {
            text += ", ";
            text += &what;
        }
    }
    text
}

fn percent_or_dash(accuracy: Option<f64>) -> String {
    accuracy.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"))
}

impl Report for Printed {
    fn table(&self) -> String {
        let modelled = self.weighed.choices.iter().any(|choice| choice.modelled.is_some());
        let mut headings =
            vec!["", "Place", "Setting", "Input", "Camera", "Latency", "Energy", "Power"];
        headings.extend(modelled.then_some("Sampled"));
        headings.push("Accuracy");
        let mut table = Table::new(&headings, 3);
        for c in &self.weighed.choices {
            let mut cells = vec![
                if *c == self.weighed.best { "*" } else { "" }.to_owned(),
                place(c).to_owned(),
                setting(c, &self.shown),
                format!("{} px", c.size_px),
                c.camera_fps.map_or_else(|| "-".to_owned(), |fps| format!("{fps} fps")),
                format!("{:.3} s", c.latency_s),
                format!("{:.3} J", c.energy_j),
                format!("{:.2} W", c.mean_w()),
            ];
            cells.extend(c.modelled.as_ref().map(|m| output::percent(m.sampling_share)));
            cells.push(percent_or_dash(c.accuracy));
            table.row(cells);
        }
        let sampled = match modelled {
            true => {
                "Sampled: share of the power of camera and preview for frames that are detected\n"
            }
            false => "",
        };
        let note = self.weighed.break_even.map_or_else(String::new, |even| note(even) + "\n");
        let evidence = &self.weighed.evidence;
        format!("{}* the best within the bounds   ({evidence})\n{sampled}{note}", table.to_text())
    }

    fn csv(&self) -> CliResult<String> {
        let columns = [
            "chosen",
            "place",
            "setting",
            "size_px",
            "camera_fps",
            "latency_s",
            "energy_j",
            "accuracy",
            "preview",
            "post_processing",
            "conversion",
            "period_s",
            "mean_ghz",
            "sampling_share",
        ];
        let mut table = Table::new(&columns, 3);
        let text = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
        for c in &self.weighed.choices {
            let m = c.modelled.as_ref();
            table.row([
                (*c == self.weighed.best).to_string(),
                place(c).to_owned(),
                c.setting.clone(),
                c.size_px.to_string(),
                text(c.camera_fps),
                c.latency_s.to_string(),
                c.energy_j.to_string(),
                text(c.accuracy),
                m.map_or_else(String::new, |m| m.preview.to_string()),
                m.map_or_else(String::new, |m| on_off(m.post_processing).to_owned()),
                m.map_or_else(String::new, |m| m.conversion.clone()),
                text(m.map(|m| m.period_s)),
                text(m.map(|m| m.mean_ghz)),
                text(m.map(|m| m.sampling_share)),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let rows = self.weighed.choices.iter().map(|c| -> CliResult<serde_json::Value> {
            let mut row = serde_json::to_value(c).map_err(CliError::ours)?;
            if let Some(fields) = row.as_object_mut() {
                fields.insert("chosen".to_owned(), json!(*c == self.weighed.best));
            }
            Ok(row)
        });
        Ok(
            json!({"choices": rows.collect::<CliResult<Vec<_>>>()?, "evidence": self.weighed.evidence, "note": self.weighed.break_even.map(note)}),
        )
    }
}

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
        energy::offload::{BREAK_EVEN_STEPS, Choice, Place},
        rate,
    },
};

/// From which bandwidth on the server is worth it, and how that was found.
fn note(break_even: BreakEven) -> String {
    let (wide, narrow) = BREAK_EVEN_STEPS;
    match break_even {
        BreakEven::Always => format!(
            "the server is better at any bandwidth (compared in steps of {:.0} %)",
            100.0 * wide
        ),
        BreakEven::From(bytes_per_s) => format!(
            "the server is better from {} on (compared in steps of {:.0} %, above ten times that \
            of {:.0} %)",
            rate(bytes_per_s),
            100.0 * narrow,
            100.0 * wide
        ),
    }
}

/// Whether a choice's network has the costs of the line over input sizes.
fn is_by_size(choice: &Choice) -> bool {
    choice.modelled.as_ref().is_some_and(|modelled| modelled.by_size)
}

/// The explanation of the mark of such choices.
fn by_size_note(choices: &[Choice]) -> &'static str {
    match choices.iter().any(is_by_size) {
        true if choices.iter().all(is_by_size) => {
            "~ costs by a straight line over input sizes (`by_size`)\n"
        }
        true => {
            "~ costs by a straight line over input sizes (`by_size`): not comparable with those of \
            listed networks, which the line need not go through\n"
        }
        false => "",
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

impl Printed {
    /// The index of the best choice; of equal ones the first.
    fn best(&self) -> Option<usize> {
        self.weighed.choices.iter().position(|choice| *choice == self.weighed.best)
    }
}

impl Report for Printed {
    fn table(&self) -> String {
        let modelled = self.weighed.choices.iter().any(|choice| choice.modelled.is_some());
        let mut headings =
            vec!["", "Place", "Setting", "Input", "Camera", "Latency", "Energy", "Power"];
        headings.extend(modelled.then_some("Sampled"));
        headings.push("Accuracy");
        let mut table = Table::new(&headings, 3);
        let best = self.best();
        for (index, c) in self.weighed.choices.iter().enumerate() {
            let mut cells = vec![
                if best == Some(index) { "*" } else { "" }.to_owned(),
                place(c).to_owned(),
                setting(c, &self.shown),
                format!("{} px{}", c.size_px, if is_by_size(c) { " ~" } else { "" }),
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
        let by_size = by_size_note(&self.weighed.choices);
        let table = table.to_text();
        format!("{table}* the best within the bounds   ({evidence})\n{by_size}{sampled}{note}")
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
            "by_size",
        ];
        let mut table = Table::new(&columns, 3);
        let text = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
        let best = self.best();
        for (index, c) in self.weighed.choices.iter().enumerate() {
            let m = c.modelled.as_ref();
            table.row([
                (best == Some(index)).to_string(),
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
                m.map_or_else(String::new, |m| m.by_size.to_string()),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let best = self.best();
        let row = |(index, c): (usize, &Choice)| -> CliResult<serde_json::Value> {
            let mut row = serde_json::to_value(c).map_err(CliError::ours)?;
            if let Some(fields) = row.as_object_mut() {
                fields.insert("chosen".to_owned(), json!(best == Some(index)));
            }
            Ok(row)
        };
        let rows = self.weighed.choices.iter().enumerate().map(row);
        Ok(
            json!({"choices": rows.collect::<CliResult<Vec<_>>>()?, "evidence": self.weighed.evidence, "note": self.weighed.break_even.map(note)}),
        )
    }
}

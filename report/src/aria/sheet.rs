//! [`Sheet`]: tables and text as Markdown, plots as files beside it, each with its level of
//! evidence.

use crate::{chart::Chart, draw, table::Table};
use vitempo::planners::{
    Evidence,
    aria::{AriaOutcome, System},
};

/// The text and the plots written so far.
pub struct Sheet {
    text: String,
    figures: Vec<(String, String)>,
}

impl Sheet {
    /// A sheet with a title and nothing below it.
    pub fn new(title: &str) -> Self {
        Self { text: format!("# {title}\n"), figures: Vec::new() }
    }

    /// The names and contents of its files, the text first.
    pub fn files(self) -> Vec<(String, String)> {
        std::iter::once(("report.md".to_owned(), self.text)).chain(self.figures).collect()
    }

    pub fn heading(&mut self, text: &str) {
        self.text += &format!("\n## {text}\n");
    }

    pub fn words(&mut self, text: &str) {
        self.text += &format!("\n{text}\n");
    }

    pub fn table(&mut self, table: &Table) {
        self.text += &format!("\n{}", table.markdown());
    }

    pub fn figure(&mut self, name: &str, caption: &str, chart: &Chart) {
        let caption = simulation(caption);
        if chart.is_empty() {
            self.words(&format!("Not shown: {caption} Nothing of it happened."));
            return;
        }
        self.text +=
            &format!("\n![{}]({name}.svg)\n\n{caption}\n", caption.replace(['[', ']'], ""));
        self.figures.push((format!("{name}.svg"), draw::svg(chart)));
    }
}

/// A caption with the level of evidence of a simulation.
pub fn simulation(what: &str) -> String {
    format!("{what} Evidence: {}.", Evidence::Simulation)
}

/// The outcome of a system.
pub fn of(outcomes: &[AriaOutcome], system: System) -> Option<&AriaOutcome> {
    outcomes.iter().find(|outcome| outcome.system == system)
}

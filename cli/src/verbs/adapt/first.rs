//! The models to measure first, before a latency of the device is known.

use super::{names_of, say_left_out};
use crate::verbs::{
    error::CliResult,
    output::{Report, Table},
};
use serde_json::json;
use vitempo::adaptation::FirstModels;

/// As it is printed.
pub struct First(pub FirstModels);

impl First {
    /// Lists the environments that are left out.
    pub fn warn(&self) {
        say_left_out(&self.0.left_out);
    }

    fn rows(&self) -> Table {
        let mut table = Table::new(&["Order", "Model"], 2);
        for (place, model) in self.0.suggested.iter().enumerate() {
            table.row([(place + 1).to_string(), model.clone()]);
        }
        table
    }
}

impl Report for First {
    fn table(&self) -> String {
        let sources = names_of(&self.0.sources);
        format!(
            "Sources      {sources}\n\n{}\nhint: measure these, and give their latencies to \
            --measured\n",
            self.rows().to_text()
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(json!({"suggested": self.0.suggested, "sources": self.0.sources,
            "left_out": self.0.left_out}))
    }
}

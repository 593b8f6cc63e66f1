//! The bundles that names find, as a table, CSV and JSON.

use crate::verbs::{
    error::CliResult,
    error_tables::evaluation_json,
    output::{Report, Table},
    progress,
};
use serde_json::json;
use vitempo::graph::LatencyModel;
use vitempo::predictors::Evaluation;
use vitempo::{
    Bundle,
    bundle::{Contents, Location, whole_models},
};

/// What is printed.
pub struct Listed {
    bundles: Vec<Bundle>,
}

impl Listed {
    /// Opens all of them; warns of those that cannot be opened.
    pub fn read() -> Self {
        let mut bundles = Vec::new();
        for bundle in Bundle::all() {
            match bundle {
                Ok(bundle) => bundles.push(bundle),
                Err(e) => progress::say(format!("warning: left out {e}")),
            }
        }
        Self { bundles }
    }

    fn rows(&self) -> Table {
        let mut table = Table::new(
            &["Bundle", "Environment", "Method", "Models", "Synthetic", "Real", "Where"],
            4,
        );
        for bundle in &self.bundles {
            let error = |e: Option<&Evaluation>| {
                e.and_then(|e| e.e2e.as_ref())
                    .map_or_else(|| "-".to_owned(), |e| format!("{:.1} %", e.mape))
            };
            let models = match bundle.contents() {
                Contents::Trained(b) => whole_models(b),
                Contents::Adapted(b) => b.measured.len(),
            };
            let trained = bundle.trained();
            table.row([
                bundle.name().to_owned(),
                bundle.environment().describe(),
                bundle.method().to_owned(),
                models.to_string(),
                error(trained.map(|b| &b.held_out)),
                error(trained.and_then(|b| b.on_real.as_ref())),
                folder(bundle.location()),
            ]);
        }
        table
    }
}

/// The folder of a bundle's file, or `embedded`.
fn folder(location: &Location) -> String {
    let Some(path) = location.path() else { return "embedded".to_owned() };
    path.parent().map(|p| p.display().to_string()).unwrap_or_default()
}

impl Report for Listed {
    fn table(&self) -> String {
        if self.bundles.is_empty() {
            return "there is no bundle; `vitempo train` makes one\n".to_owned();
        }
        self.rows().to_text()
            + "mean end-to-end errors: of held-out synthetic models, cross-validated, and of real \
                models never trained on; `vitempo bundle inspect NAME` shows more\n"
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |bundle: &Bundle| {
            let mut row = json!({
                "name": bundle.name(),
                "location": bundle.location(),
                "kind": bundle.kind(),
                "environment": bundle.environment().id(),
                "method": bundle.method(),
                "origin": bundle.origin(),
                "digest": bundle.digest(),
            });
            match bundle.contents() {
                Contents::Adapted(b) => row["models"] = b.measured.len().into(),
                Contents::Trained(b) => {
                    row["models"] = b.provenance.models.into();
                    row["held_out"] = evaluation_json(&b.held_out);
                }
            }
            row
        };
        Ok(self.bundles.iter().map(row).collect())
    }
}

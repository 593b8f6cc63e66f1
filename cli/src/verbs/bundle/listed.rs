//! The bundles that names find, as a table, CSV and JSON.

use crate::verbs::{
    error::CliResult,
    output::{Report, Table},
    progress,
};
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
            let error =
                |e: Option<f64>| e.map_or_else(|| "-".to_owned(), |mape| format!("{mape:.1} %"));
            let [held_out, on_real] = errors(bundle).map(error);
            table.row([
                bundle.name().to_owned(),
                bundle.environment().describe(),
                bundle.method().to_owned(),
                models(bundle).to_string(),
                held_out,
                on_real,
                folder(bundle.location()),
            ]);
        }
        table
    }
}

/// How many models it was trained on or adapted with.
fn models(bundle: &Bundle) -> usize {
    match bundle.contents() {
        Contents::Trained(b) => whole_models(b),
        Contents::Adapted(b) => b.measured.len(),
    }
}

/// Mean errors in percent: of synthetic models that were held out, and of real ones.
fn errors(bundle: &Bundle) -> [Option<f64>; 2] {
    let mape = |e: Option<&Evaluation>| e.and_then(|e| e.e2e.as_ref()).map(|e| e.mape);
    let trained = bundle.trained();
    [mape(trained.map(|b| &b.held_out)), mape(trained.and_then(|b| b.on_real.as_ref()))]
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
        let mut table = Table::new(
            &[
                "bundle",
                "environment",
                "method",
                "models",
                "held_out_mape",
                "real_mape",
                "location",
            ],
            3,
        );
        for bundle in &self.bundles {
            let [held_out, on_real] =
                errors(bundle).map(|mape| mape.map_or_else(String::new, |mape| mape.to_string()));
            table.row([
                bundle.name().to_owned(),
                bundle.environment().id(),
                bundle.method().to_owned(),
                models(bundle).to_string(),
                held_out,
                on_real,
                bundle.location().to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.bundles.iter().map(Bundle::summary).collect())
    }
}

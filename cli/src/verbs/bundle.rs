//! `vitempo bundle`: lists bundles by name, and shows contents and held-out errors of one.

use super::{
    error::{CliError, CliResult},
    error_tables::{E2E_HEADINGS, e2e_row, evaluation_json, kinds_table},
    output::{self, Format, Report, Table},
    progress,
};
use clap::Subcommand;
use serde_json::json;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo::graph::{Latency, LatencyModel};
use vitempo::predictors::{AdaptedBundle, Evaluation, PredictorBundle};
use vitempo::{
    Bundle, BundleError,
    bundle::{Contents, Location},
};

/// Lists and inspects bundles, trained or adapted
///
/// Example: vitempo bundle inspect demo.vtb
#[derive(Subcommand, Debug)]
pub enum BundleCommand {
    /// Lists the bundles that `--bundle NAME` finds
    ///
    /// A name is searched for in this order: the folders of the variable VITEMPO_BUNDLES (a path
    /// list like PATH), `bundles` in vitempo's own folder (VITEMPO_HOME), `share/vitempo/bundles`
    /// beside the program, and the bundles that are embedded in the program.
    ///
    /// Example: vitempo bundle list
    List {
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Shows environment, provenance and held-out metrics
    ///
    /// Example: vitempo bundle inspect demo.vtb
    Inspect {
        /// A file, or a name that `vitempo bundle list` shows
        #[arg(value_name = "NAME")]
        bundle: PathBuf,
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

/// Warns where kernels of `what` were forecast without a predictor of their own.
pub fn warn_of_estimates(what: &str, estimated: usize, kernels: usize) {
    if estimated > 0 {
        progress::say(format!(
            "warning: {what}: {estimated} of {kernels} kernels have no trained predictor; their \
            latency is an estimate"
        ));
    }
}

pub fn run(command: &BundleCommand) -> CliResult {
    match command {
        BundleCommand::List { format } => output::print(&Listed::read(), *format),
        BundleCommand::Inspect { bundle, format } => {
            let opened = open(bundle)?;
            let location = opened.location();
            match opened.contents() {
                Contents::Adapted(bundle) => {
                    output::print(&AdaptedReport { bundle, location }, *format)
                }
                Contents::Trained(bundle) => {
                    output::print(&BundleReport { bundle, location }, *format)
                }
            }
        }
    }
}

impl From<BundleError> for CliError {
    fn from(error: BundleError) -> Self {
        let unknown = matches!(error, BundleError::Unknown { .. });
        let error = Self::user(error);
        if unknown {
            error.hint("name a .vtb file, or one that `vitempo bundle list` shows")
        } else {
            error
        }
    }
}

/// Opens what `--bundle` names, trained on operators or adapted from end-to-end latencies.
pub fn open(bundle: &Path) -> CliResult<Bundle> {
    Ok(Bundle::open(bundle)?)
}

/// Opens what `--bundle` names, where a bundle with predictors of kernels is needed.
pub fn open_trained(bundle: &Path) -> CliResult<Arc<PredictorBundle>> {
    let opened = open(bundle)?;
    let refused = || {
        CliError::user(format!(
            "{}: it was adapted from end-to-end latencies and has no predictors of kernels, which \
            are what is evaluated",
            opened.location()
        ))
        .hint("`vitempo predict` forecasts models with it")
    };
    opened.trained().cloned().ok_or_else(refused)
}

struct Listed {
    bundles: Vec<Bundle>,
}

impl Listed {
    fn read() -> Self {
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

/// Models trained on, without the networks around single operators.
fn whole_models(bundle: &PredictorBundle) -> usize {
    bundle.held_out.e2e.as_ref().or(bundle.held_out.e2e_executed.as_ref()).map_or(0, |e| e.models)
}

/// A bundle, described.
pub struct BundleReport<'a> {
    pub bundle: &'a PredictorBundle,
    pub location: &'a Location,
}

impl Report for BundleReport<'_> {
    fn table(&self) -> String {
        let b = self.bundle;
        let p = &b.provenance;
        let mut text = String::new();
        let _ = writeln!(text, "{}   {}   {}\n", self.location, b.method, b.environment.describe());
        let _ = writeln!(text, "Environment  {}", b.environment.id());
        let whole = whole_models(b);
        let _ = writeln!(
            text,
            "Trained on   {whole} models and {} single operators, {} rows ({:?})",
            p.models.saturating_sub(whole),
            p.rows,
            b.origin
        );
        let _ = writeln!(text, "Data         {}", p.data_digest);
        let _ =
            writeln!(text, "By           {} with {}, seed {}", p.created_by, p.libraries, p.seed);
        if p.skipped > 0 {
            let _ = writeln!(text, "Left out     {} rows that could not be used", p.skipped);
        }
        let _ = writeln!(text, "\nHeld out ({}-fold cross-validation by architecture):\n", p.folds);
        text += &kinds_table(&b.held_out).to_text();
        let mut table = Table::new(E2E_HEADINGS, 2);
        e2e_row(&mut table, "training space", &b.held_out);
        b.on_real.iter().for_each(|e| e2e_row(&mut table, "real, never trained on", e));
        text.push('\n');
        text + &table.to_text()
    }

    fn csv(&self) -> CliResult<String> {
        kinds_table(&self.bundle.held_out).to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let b = self.bundle;
        let p = &b.provenance;
        Ok(json!({
            "bundle": self.location,
            "method": b.method,
            "environment": b.environment,
            "environment_id": b.environment.id(),
            "origin": b.origin,
            "provenance": {
                "created_by": p.created_by,
                "libraries": p.libraries,
                "data_digest": p.data_digest,
                "seed": p.seed,
                "folds": p.folds,
                "models": p.models,
                "architectures": p.architectures,
                "rows": p.rows,
                "skipped": p.skipped,
                "trained_on": p.trained_on,
            },
            "held_out": evaluation_json(&b.held_out),
            "on_real": b.on_real.as_ref().map(evaluation_json),
        }))
    }
}

/// A bundle adapted from end-to-end latencies, described.
struct AdaptedReport<'a> {
    bundle: &'a AdaptedBundle,
    location: &'a Location,
}

impl AdaptedReport<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(
            &["Measured model", "Latency", "Forecast", "Lower", "Upper", "From the others"],
            1,
        );
        for model in &self.bundle.measured {
            let text = |l: Option<Latency>| l.map_or_else(|| "-".to_owned(), |l| l.to_string());
            let (forecast, others) = (model.forecast, model.from_others);
            table.row([
                model.name.clone(),
                Latency::from_ns(model.latency_ns).to_string(),
                text(forecast.map(|p| p.point())),
                text(forecast.map(|p| p.lower())),
                text(forecast.map(|p| p.upper())),
                text(others.map(|p| p.point())),
            ]);
        }
        table
    }

    /// What the columns mean.
    fn legend(&self) -> &'static str {
        if self.bundle.measured.iter().any(|m| m.forecast.is_some()) {
            "\nForecast: of the graph that the latency was adapted with; another export of a model \
            is another graph.\nFrom the others: of that graph, without the latency.\n"
        } else {
            "\nThe file is of an older version, without the graphs of the measured models.\n"
        }
    }
}

/// So many sources are more than a line should list.
const MANY: usize = 4;

impl Report for AdaptedReport<'_> {
    fn table(&self) -> String {
        let b = self.bundle;
        let mut text = format!(
            "{}   adapted   {}\n\nEnvironment  {}\n",
            self.location,
            b.environment.describe(),
            b.environment.id()
        );
        let source = b.source.as_ref().map_or_else(String::new, |s| format!(" ({s})"));
        let _ = writeln!(text, "Latencies    {:?}{source}", b.origin);
        let sources = match b.sources.as_slice() {
            [] => "no other device".to_owned(),
            [first, others @ ..] if others.len() >= MANY => format!(
                "{first}, and {} other environments (--format json lists them)",
                others.len()
            ),
            few => few.join(", "),
        };
        let _ = writeln!(text, "Learnt from  {sources}\nBy           {}\n", b.created_by);
        text + &self.rows().to_text() + self.legend()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let b = self.bundle;
        Ok(json!({
            "bundle": self.location,
            "method": "adapted",
            "environment": b.environment,
            "environment_id": b.environment.id(),
            "origin": b.origin,
            "source": b.source,
            "created_by": b.created_by,
            "measured": b.measured,
            "sources": b.sources,
        }))
    }
}

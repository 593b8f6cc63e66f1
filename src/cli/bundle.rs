//! `vitempo bundle`: which bundles are there by name, what is inside one, and how good is it?

use super::{
    error::{CliError, CliResult},
    evaluate::{e2e_row, kinds_table},
    output::{self, Format, Report, Table},
    progress,
};
use clap::Subcommand;
use serde_json::json;
use std::{
    collections::BTreeMap,
    env,
    fmt::Write,
    path::{Path, PathBuf},
};
use vitempo_graph::{Latency, LatencyModel};
use vitempo_predictors::{AdaptedBundle, Evaluation, PredictorBundle, PredictorError};

/// Looks into trained bundles
///
/// Example: vitempo bundle inspect demo.vtb
#[derive(Subcommand, Debug)]
pub enum BundleCommand {
    /// Shows the bundles that `--bundle NAME` finds: those that ship with vitempo and those of your
    /// own folder
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
            let path = find(bundle)?;
            match load(&path)? {
                Opened::Adapted(bundle) => {
                    output::print(&AdaptedReport { bundle: &bundle, path: &path }, *format)
                }
                Opened::Trained(bundle) => {
                    output::print(&BundleReport { bundle: &bundle, path: &path }, *format)
                }
            }
        }
    }
}

/// What bundles end with.
const EXTENSION: &str = "vtb";
/// Within a folder of bundles, those adapted from what others published: a service, which forecasts
/// by regressors, is given the folder without them.
const ADAPTED: &str = "adapted";

/// Where bundles are looked for by name, in this order.
fn folders() -> Vec<PathBuf> {
    let home = env::var_os("VITEMPO_HOME").map(|home| PathBuf::from(home).join("bundles"));
    let installed = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.parent()?.join("share/vitempo/bundles")));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
    let folders =
        [Some(PathBuf::from("bundles")), home, installed, Some(source)].into_iter().flatten();
    folders.flat_map(|folder| [folder.clone(), folder.join(ADAPTED)]).collect()
}

/// The bundles found by name; where a name is in several folders, the first counts.
fn by_name() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for entry in
        folders().iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten()
    {
        let path = entry.path();
        if let (Some(name), true) = (
            path.file_stem().and_then(|s| s.to_str()),
            path.extension().is_some_and(|e| e == EXTENSION),
        ) {
            found.entry(name.to_owned()).or_insert(path);
        }
    }
    found
}

/// The file that `--bundle` means: a path, or the name of a bundle that ships with vitempo or lies
/// in a folder of yours.
pub fn find(bundle: &Path) -> CliResult<PathBuf> {
    let is_name =
        bundle.components().count() == 1 && bundle.extension().is_none_or(|e| e != EXTENSION);
    if bundle.exists() || !is_name {
        return Ok(bundle.to_owned());
    }
    let known = by_name();
    bundle.to_str().and_then(|name| known.get(name)).cloned().ok_or_else(|| {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "none is here".to_owned() } else { names.join(", ") };
        CliError::user(format!("there is no bundle `{}`", bundle.display()))
            .hint(format!("name a .vtb file, or one of: {names}"))
    })
}

/// Opens what `--bundle` means.
pub fn open(bundle: &Path) -> CliResult<PredictorBundle> {
    Ok(PredictorBundle::load(&find(bundle)?)?)
}

/// A bundle of either kind.
pub enum Opened {
    Trained(Box<PredictorBundle>),
    Adapted(Box<AdaptedBundle>),
}

impl Opened {
    pub fn model(&self) -> &dyn LatencyModel {
        match self {
            Self::Trained(bundle) => &**bundle,
            Self::Adapted(bundle) => &**bundle,
        }
    }

    /// `None` where it was trained on operators.
    pub fn adapted(&self) -> Option<&AdaptedBundle> {
        match self {
            Self::Trained(_) => None,
            Self::Adapted(bundle) => Some(bundle),
        }
    }
}

/// Opens what `--bundle` means, trained on operators or adapted from end-to-end latencies.
pub fn open_any(bundle: &Path) -> CliResult<Opened> {
    Ok(load(&find(bundle)?)?)
}

fn load(path: &Path) -> Result<Opened, PredictorError> {
    Ok(match AdaptedBundle::load(path)? {
        Some(adapted) => Opened::Adapted(Box::new(adapted)),
        None => Opened::Trained(Box::new(PredictorBundle::load(path)?)),
    })
}

struct Listed {
    bundles: Vec<(String, PathBuf, Opened)>,
}

impl Listed {
    fn read() -> Self {
        let mut bundles = Vec::new();
        for (name, path) in by_name() {
            match load(&path) {
                Ok(bundle) => bundles.push((name, path, bundle)),
                Err(e) => progress::say(format!("warning: left out {}: {e}", path.display())),
            }
        }
        Self { bundles }
    }

    fn rows(&self) -> Table {
        let mut table = Table::new(
            &["Bundle", "Environment", "Method", "Models", "Synthetic", "Real", "Where"],
            4,
        );
        for (name, path, opened) in &self.bundles {
            let error = |e: Option<&Evaluation>| {
                e.and_then(|e| e.e2e.as_ref())
                    .map_or_else(|| "-".to_owned(), |e| format!("{:.1} %", e.mape))
            };
            let environment = opened.model().environment().describe();
            let folder = path.parent().map(|p| p.display().to_string()).unwrap_or_default();
            let [method, models, synthetic, real] = match opened {
                Opened::Trained(b) => [
                    b.method.to_string(),
                    whole_models(b).to_string(),
                    error(Some(&b.held_out)),
                    error(b.on_real.as_ref()),
                ],
                Opened::Adapted(b) => {
                    ["adapted".to_owned(), b.measured.len().to_string(), error(None), error(None)]
                }
            };
            table.row([name.clone(), environment, method, models, synthetic, real, folder]);
        }
        table
    }
}

impl Report for Listed {
    fn table(&self) -> String {
        if self.bundles.is_empty() {
            return "no bundle is here; `vitempo train` makes one\n".to_owned();
        }
        self.rows().to_text()
            + "mean end-to-end errors: of held-out synthetic models, cross-validated, and of real \
                models never trained on; `vitempo bundle inspect NAME` shows more\n"
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(name, path, opened): &(String, PathBuf, Opened)| match opened {
            Opened::Adapted(b) => {
                json!({"name": name, "path": path, "environment": b.environment.id(), "method": "adapted", "models": b.measured.len(), "origin": b.origin})
            }
            Opened::Trained(b) => {
                json!({"name": name, "path": path, "environment": b.environment.id(), "method": b.method, "models": b.provenance.models,
                "held_out": super::evaluate::evaluation_json(&b.held_out)})
            }
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
    pub path: &'a Path,
}

impl Report for BundleReport<'_> {
    fn table(&self) -> String {
        let b = self.bundle;
        let p = &b.provenance;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}   {}   {}\n",
            self.path.display(),
            b.method,
            b.environment.describe()
        );
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
        let mut table = Table::new(super::evaluate::E2E_HEADINGS, 2);
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
        Ok(
            json!({"bundle": self.path, "method": b.method, "environment": b.environment, "environment_id": b.environment.id(), "origin": b.origin,
            "provenance": {"created_by": p.created_by, "libraries": p.libraries, "data_digest": p.data_digest, "seed": p.seed, "folds": p.folds,
                "models": p.models, "architectures": p.architectures, "rows": p.rows, "skipped": p.skipped, "trained_on": p.trained_on},
            "held_out": super::evaluate::evaluation_json(&b.held_out), "on_real": b.on_real.as_ref().map(super::evaluate::evaluation_json)}),
        )
    }
}

/// A bundle adapted from end-to-end latencies, described.
struct AdaptedReport<'a> {
    bundle: &'a AdaptedBundle,
    path: &'a Path,
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
                text(forecast.map(|p| p.point)),
                text(forecast.map(|p| p.lower)),
                text(forecast.map(|p| p.upper)),
                text(others.map(|p| p.point)),
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
            self.path.display(),
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
        Ok(
            json!({"bundle": self.path, "method": "adapted", "environment": b.environment, "environment_id": b.environment.id(), "origin": b.origin,
            "source": b.source, "created_by": b.created_by, "measured": b.measured, "sources": b.sources}),
        )
    }
}

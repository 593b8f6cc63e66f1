//! `vitempo bundle`: lists bundles by name, and shows contents and held-out errors of one.

mod adapted;
mod listed;
mod trained;

pub use trained::{BundleReport, warn_of_support};

use super::{
    error::{CliError, CliResult},
    output::{self, Format},
    progress,
};
use adapted::AdaptedReport;
use clap::Subcommand;
use listed::Listed;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo::predictors::PredictorBundle;
use vitempo::{
    Bundle, BundleError,
    bundle::{Contents, VARIABLE, unusable_listed_folders},
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
    /// beside the program, and the bundles that are embedded in the program. Where
    /// VITEMPO_BUNDLES lists what is no folder, looking up a name is an error.
    ///
    /// Example: vitempo bundle list
    List {
        /// Format of the output
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
        /// Format of the output
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
        BundleCommand::List { format } => {
            if let Some(warning) = unusable_folders() {
                progress::say(format!("warning: {warning}"));
            }
            output::print(&Listed::read(), *format)
        }
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
        if let BundleError::NoFolder { variable, .. } = error {
            let hint = format!("correct or unset {variable}, or name the file of a bundle");
            return Self::user(error).hint(hint);
        }
        let is_name = matches!(error, BundleError::Unknown { .. } | BundleError::NoMatch { .. });
        let error = Self::user(error);
        if !is_name {
            return error;
        }
        let hint = "name a .vtb file, or one that `vitempo bundle list` shows";
        match unusable_folders() {
            None => error.hint(hint),
            Some(folders) => error.hint(format!("{hint}; {folders}")),
        }
    }
}

/// Says which folders of the variable are none.
fn unusable_folders() -> Option<String> {
    let folders = unusable_listed_folders();
    let named: Vec<String> = folders.iter().map(|path| path.display().to_string()).collect();
    (!named.is_empty()).then(|| format!("{VARIABLE} lists no folders: {}", named.join(", ")))
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

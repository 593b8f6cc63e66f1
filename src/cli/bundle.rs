//! `vitempo bundle inspect`: what is inside a bundle, and how good is it?

use super::{
    error::CliResult,
    evaluate::{e2e_row, kinds_table},
    output::{self, Format, Report, Table},
};
use clap::Subcommand;
use serde_json::json;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};
use vitempo_predictors::PredictorBundle;

/// Looks into trained bundles
///
/// Example: vitempo bundle inspect demo.vtb
#[derive(Subcommand, Debug)]
pub enum BundleCommand {
    /// Shows environment, provenance and held-out metrics
    ///
    /// Example: vitempo bundle inspect demo.vtb
    Inspect {
        #[arg(value_name = "NAME.vtb")]
        bundle: PathBuf,
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

pub fn run(command: &BundleCommand) -> CliResult {
    let BundleCommand::Inspect { bundle: path, format } = command;
    let bundle = PredictorBundle::load(path)?;
    output::print(&BundleReport { bundle: &bundle, path }, *format)
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
        let _ = writeln!(text, "{}   {}   {}\n", self.path.display(), b.method, b.environment.describe());
        let _ = writeln!(text, "Environment  {}", b.environment.id());
        let whole = b.held_out.e2e.as_ref().or(b.held_out.e2e_executed.as_ref()).map_or(0, |e| e.models);
        let _ = writeln!(text, "Trained on   {whole} models and {} single operators, {} rows ({:?})", p.models.saturating_sub(whole), p.rows, b.origin);
        let _ = writeln!(text, "Data         {}", p.data_digest);
        let _ = writeln!(text, "By           {} with {}, seed {}", p.created_by, p.libraries, p.seed);
        if p.skipped > 0 {
            let _ = writeln!(text, "Left out     {} rows that could not be used", p.skipped);
        }
        let _ = writeln!(text, "\nHeld out ({}-fold cross-validation by architecture):\n", p.folds);
        text += &kinds_table(&b.held_out).to_text();
        let mut table = Table::new(super::evaluate::E2E_HEADINGS, 2);
        e2e_row(&mut table, "training space", &b.held_out);
        text.push('\n');
        text + &table.to_text()
    }

    fn csv(&self) -> CliResult<String> {
        kinds_table(&self.bundle.held_out).to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let b = self.bundle;
        let p = &b.provenance;
        Ok(json!({"bundle": self.path, "method": b.method, "environment": b.environment, "environment_id": b.environment.id(), "origin": b.origin,
            "provenance": {"created_by": p.created_by, "libraries": p.libraries, "data_digest": p.data_digest, "seed": p.seed, "folds": p.folds,
                "models": p.models, "architectures": p.architectures, "rows": p.rows, "skipped": p.skipped, "trained_on": p.trained_on},
            "held_out": super::evaluate::evaluation_json(&b.held_out)}))
    }
}

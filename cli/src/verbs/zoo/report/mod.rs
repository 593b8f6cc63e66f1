//! `vitempo zoo report`: compares stitching with systems that do not stitch on a measured zoo,
//! beside the paper's claims; each figure has its level of evidence.

mod claims;
mod measured;
mod simulated;

use crate::verbs::{
    error::{CliError, CliResult},
    files,
};
use std::path::PathBuf;
use vitempo::plan::stitch::{assessment::Assessment, record::Record};

/// Writes a report on a measured zoo: violated SLOs, throughput, memory, and the errors of
/// estimators
///
/// Example: vitempo zoo report datasets/stitching/record.json --out stitching.md
///
/// The file is the one that `vitempo plan stitch --live ... --record FILE.json` writes. No model
/// runs again: systems are simulated with the measured costs.
#[derive(clap::Args, Debug)]
pub struct ReportArgs {
    /// The file with the measurements
    #[arg(value_name = "FILE.json")]
    pub record: PathBuf,

    /// Write the report here, as Markdown, instead of printing it
    #[arg(long, value_name = "FILE.md")]
    pub out: Option<PathBuf>,
}

pub fn run(args: &ReportArgs) -> CliResult {
    let record = Record::read(&args.record)?;
    let name = args.record.display();
    let found = Assessment::of(&record).map_err(|e| CliError::user(e).about(name))?;
    let page = Page { record: &record, found }.text(&args.record.display().to_string());
    match &args.out {
        Some(path) => {
            files::write(path, page.as_bytes())?;
            println!("{}", path.display());
        }
        None => print!("{page}"),
    }
    Ok(())
}

/// The contents of the report.
struct Page<'a> {
    record: &'a Record,
    found: Assessment<'a>,
}

impl Page<'_> {
    fn text(&self, file: &str) -> String {
        let mut text = format!(
            "# Stitching, measured and simulated\n\nWritten by `vitempo zoo report {file}`.\n\n"
        );
        text.push_str(&self.claims());
        text.push_str(&self.systems());
        text.push_str(&self.fronts());
        text.push_str(&self.memory());
        text.push_str(&self.accuracy());
        text.push_str(&self.latency());
        text.push_str(&self.origin());
        text
    }
}

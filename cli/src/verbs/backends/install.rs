//! `vitempo backends install`: puts an engine's library into vitempo's own folder.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    progress,
};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf};
use vitempo::profiler::{
    Availability, RunOptions,
    backends::{self, discovery},
    install::{self, InstallError, Installed, Source, Step, pip},
};

/// Fetches an engine's library with pip, checks its digest, and keeps it in vitempo's own folder
///
/// No Python is needed to run the engine. What is there already is left alone.
///
/// Example: vitempo backends install onnxruntime openvino
#[derive(clap::Args, Debug)]
pub struct InstallArgs {
    /// onnxruntime, openvino, litert, torch or qnn
    #[arg(required = true, value_name = "ENGINE")]
    engines: Vec<String>,
    /// The wheel, downloaded already: needs neither a network nor Python. Once for each wheel of an
    /// engine that has several
    #[arg(long, value_name = "FILE.whl")]
    from: Vec<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One engine, and the version its library gave when it was opened; `None` when this build of
/// vitempo has no backend for it.
struct Row(Installed, Option<String>);

struct Rows(Vec<Row>);

pub fn run(args: &InstallArgs) -> CliResult {
    if args.engines.len() > 1 && !args.from.is_empty() {
        return Err(CliError::user("--from goes with one engine").hint("install engine by engine"));
    }
    let home = discovery::engines_folder().ok_or(InstallError::NoFolder)?;
    let mut rows = Vec::new();
    for name in args.engines.iter().collect::<BTreeSet<_>>() {
        let engine = install::by_name(name)?;
        let wheels = engine.wheels(std::env::consts::OS, std::env::consts::ARCH)?;
        let source = || {
            if args.from.is_empty() {
                pip::find().map(Source::Pip)
            } else {
                Ok(Source::Files(args.from.clone()))
            }
        };
        let mut watch = Watch::default();
        let installed =
            install::install(engine, wheels, &home, &source, &mut |step| watch.show(step))?;
        watch.done();
        if let Some(notice) = engine.notice {
            progress::say(format!("note: {name}: {notice}"));
        }
        let opened = open(&installed)?;
        rows.push(Row(installed, opened));
    }
    output::print(&Rows(rows), args.format)
}

/// Opens the library: what was installed must also run here.
fn open(installed: &Installed) -> CliResult<Option<String>> {
    let Ok(backend) = backends::by_name(&installed.engine) else { return Ok(None) };
    let options = RunOptions { library: Some(installed.library.clone()), ..RunOptions::default() };
    match backend.probe(&options) {
        Availability::Available(capabilities) => Ok(Some(capabilities.version)),
        Availability::Unavailable { reason, hint } => Err(CliError::user(format!(
            "{} is installed but does not run here: {reason}",
            installed.engine
        ))
        .hint(hint)),
    }
}

/// A bar while a wheel is fetched, a line for what follows.
#[derive(Default)]
struct Watch(Option<ProgressBar>);

impl Watch {
    fn show(&mut self, step: Step<'_>) {
        match step {
            Step::Fetch { file, done_bytes, total_bytes } => {
                let start = || {
                    progress::say(format!("fetching {file} ({})", HumanBytes(total_bytes)));
                    progress::bar(total_bytes, "bytes")
                };
                self.0.get_or_insert_with(start).set_position(done_bytes);
            }
            Step::Verify { .. } => self.done(),
            Step::Unpack { file } => progress::say(format!("unpacking {file}")),
        }
    }

    fn done(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        let takes_files = matches!(
            error,
            InstallError::NoPip { .. }
                | InstallError::Fetch { .. }
                | InstallError::WheelMissing { .. }
        );
        let hint = error.hint().map(|hint| match takes_files {
            true => format!("{hint} (--from FILE.whl, once for each wheel)"),
            false => hint,
        });
        let error = Self::user(error);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl Rows {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Engine", "Version", "State", "Folder", "Files", "Size"], 4);
        for Row(installed, _) in &self.0 {
            let state = if installed.already_there { "was there" } else { "installed" };
            let folder = installed.folder.display().to_string();
            let size = HumanBytes(installed.size_bytes).to_string();
            table.row([
                installed.engine.clone(),
                installed.version.clone(),
                state.to_owned(),
                folder,
                installed.files.to_string(),
                size,
            ]);
        }
        table
    }
}

impl Report for Rows {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |Row(i, opened): &Row| {
            json!({"engine": i.engine, "version": i.version, "already_there": i.already_there, "folder": i.folder, "library": i.library,
                "files": i.files, "size_bytes": i.size_bytes, "opened_version": opened})
        };
        Ok(self.0.iter().map(row).collect())
    }
}

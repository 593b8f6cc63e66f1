//! `vitempo backends install`: puts an engine's library into vitempo's own folder.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    progress,
};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use std::path::PathBuf;
use vitempo::{
    engines::install::{InstallEnginesError, InstallProgress, InstalledEngine, install},
    profiler::install::{InstallError, Step},
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

struct Rows(Vec<InstalledEngine>);

pub fn run(args: &InstallArgs) -> CliResult {
    let mut watch = Watch::default();
    let engines = install(&args.engines, &args.from, &mut |event| match event {
        InstallProgress::Step(step) => watch.show(step),
        InstallProgress::Installed(name, notice) => {
            watch.done();
            if let Some(notice) = notice {
                progress::say(format!("note: {name}: {notice}"));
            }
        }
    })?;
    output::print(&Rows(engines), args.format)
}

impl From<InstallEnginesError> for CliError {
    fn from(error: InstallEnginesError) -> Self {
        match error {
            InstallEnginesError::WheelsOfSeveral(_) => {
                Self::user("--from goes with one engine").hint("install engine by engine")
            }
            InstallEnginesError::Install(error) => error.into(),
            InstallEnginesError::DoesNotRun { ref hint, .. } => Self::user(&error).hint(hint),
            other => Self::user(other),
        }
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
        for InstalledEngine { installed, .. } in &self.0 {
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
        let row = |InstalledEngine { installed: i, opened_version }: &InstalledEngine| {
            json!({"engine": i.engine, "version": i.version, "already_there": i.already_there, "folder": i.folder, "library": i.library,
                "files": i.files, "size_bytes": i.size_bytes, "opened_version": opened_version})
        };
        Ok(self.0.iter().map(row).collect())
    }
}

//! Finds foreign files, and incomplete lines of the journal.

use super::{Inspection, Readable, Severity};
use crate::{
    Warning,
    files::{UNFINISHED, UNFINISHED_WRITE},
    journal::{ENDING, FOLDER, Journal},
    lock::{LOCK_FILE, Lock},
    schema::SCHEMA_FILE,
    tables::{TABLES, model_measurements},
};
use std::{fs, path::Path};

impl Inspection<'_> {
    pub(super) fn check_files(&mut self, folder: &Path, journal: &Journal) {
        // The question takes a lock for a moment: it is only asked where the answer matters.
        let written = || Lock::is_held(folder);
        for name in names(folder) {
            let ours = [SCHEMA_FILE, LOCK_FILE, FOLDER].contains(&name.as_str())
                || TABLES.iter().any(|table| table.file_name() == name);
            if name == UNFINISHED_WRITE {
                let (severity, what) = if written() {
                    (Severity::Note, "another process fills the dataset")
                } else {
                    (
                        Severity::Error,
                        "a merge or import was cut short; repeat it into a new folder",
                    )
                };
                self.find(severity, "unfinished-write", &name, None, what);
            } else if name.ends_with(UNFINISHED) {
                self.find_unfinished(&name, written());
            } else if !ours {
                self.find(Severity::Note, "foreign-file", &name, None, "not part of the dataset");
            }
        }
        for name in names(&folder.join(FOLDER)) {
            if name.ends_with(UNFINISHED) {
                self.find_unfinished(&format!("{FOLDER}/{name}"), written());
            } else if Path::new(&name).extension().is_none_or(|ending| ending != ENDING) {
                self.find(
                    Severity::Note,
                    "foreign-file",
                    &format!("{FOLDER}/{name}"),
                    None,
                    "not part of the dataset",
                );
            }
        }
        for warning in &journal.warnings {
            if let Warning::TornLine { path, line, .. } = warning {
                let file =
                    format!("{FOLDER}/{}", path.file_name().unwrap_or_default().to_string_lossy());
                self.warn(
                    "torn-line",
                    &file,
                    *line,
                    "the sweep was killed while it wrote this line; it is left out",
                );
            }
        }
    }
}

impl Inspection<'_> {
    /// A temporary file; where no process writes, it is stale.
    fn find_unfinished(&mut self, name: &str, written: bool) {
        let (severity, what) = if written {
            (Severity::Note, "another process is writing it")
        } else {
            (Severity::Warning, "left by a write that was cut short; it can be removed")
        };
        self.find(severity, "unfinished-file", name, None, what);
    }

    /// Is there a model run, and was the table of model runs, which is the last, written?
    pub(super) fn check_written(&mut self, readable: &Readable) {
        let Some(runs) = &readable.runs else { return };
        if !runs.is_empty() || readable.journal.runs().next().is_some() {
            return;
        }
        let file = model_measurements::SCHEMA.file_name();
        let others = ["environments", "operators", "operator_measurements"];
        let (severity, what) = if others.iter().any(|name| self.report.rows.get(name) > Some(&0)) {
            let what = "there is no model run, but rows that only model runs bring: a write was \
                        cut short; repeat it into a new folder";
            (Severity::Error, what)
        } else {
            (Severity::Warning, "there is no model run: nothing was measured, merged or imported")
        };
        self.find(severity, "no-model-runs", &file, None, what);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

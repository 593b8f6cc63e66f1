//! Finds foreign files, and incomplete lines of the journal.

use super::{Inspection, Severity};
use crate::{
    Warning,
    files::UNFINISHED,
    journal::{ENDING, FOLDER, Journal},
    lock::LOCK_FILE,
    schema::SCHEMA_FILE,
    tables::TABLES,
};
use std::{fs, path::Path};

impl Inspection<'_> {
    pub(super) fn check_files(&mut self, journal: &Journal) {
        for name in names(self.folder) {
            let ours = [SCHEMA_FILE, LOCK_FILE, FOLDER].contains(&name.as_str())
                || TABLES.iter().any(|table| table.file_name() == name);
            if name.ends_with(UNFINISHED) {
                self.find(
                    Severity::Note,
                    "unfinished-file",
                    &name,
                    None,
                    "left by a write that was cut short; it can be removed",
                );
            } else if !ours {
                self.find(Severity::Note, "foreign-file", &name, None, "not part of the dataset");
            }
        }
        for name in names(&self.folder.join(FOLDER)) {
            if Path::new(&name).extension().is_none_or(|ending| ending != ENDING) {
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

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

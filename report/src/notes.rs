//! Reads notes of the authors of a dataset: `notes.toml` in its folder, with a text per section.
//! Datasets of earlier versions call the file `remarks.toml`.

use super::{ReportError, Topic, site::Notes};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Names of the file, in the order in which they are read.
const FILES: [&str; 2] = ["notes.toml", "remarks.toml"];

/// The notes of these folders, in the order of folders; most have none.
///
/// # Errors
/// [`ReportError`] naming the file that cannot be read, is no table of texts, or has a note on a
/// section that the report lacks.
pub fn read(folders: &[PathBuf]) -> Result<Notes, ReportError> {
    let mut notes = Notes::new();
    let files = folders.iter().flat_map(|folder| FILES.map(|name| folder.join(name)));
    for path in files.filter(|path| path.exists()) {
        for (section, text) in sections(&path)? {
            let Some(topic) = Topic::named(&section) else {
                return Err(ReportError::UnknownSection { path, section });
            };
            notes.entry(topic).or_default().push(text.trim().to_owned());
        }
    }
    Ok(notes)
}

/// Texts by the name of their section.
fn sections(path: &Path) -> Result<BTreeMap<String, String>, ReportError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ReportError::UnreadableNotes { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|source| ReportError::InvalidNotes {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_file_names_are_read_in_the_order_of_folders() {
        let [first, second] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
        fs::write(first.path().join("remarks.toml"), "latency = ' Warm. '").expect("a file");
        fs::write(second.path().join("notes.toml"), "latency = 'Cold.'").expect("a file");
        let folders = [first.path().to_owned(), second.path().to_owned()];
        let notes = read(&folders).expect("two files of notes");
        assert_eq!(notes[&Topic::Latency], ["Warm.", "Cold."]);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.toml");
        let error = |text: &str| {
            fs::write(&path, text).expect("a file");
            read(&[folder.path().to_owned()]).expect_err(text)
        };
        assert!(matches!(
            error("lateness = 'Late.'"),
            ReportError::UnknownSection { path, section }
                if path.ends_with("notes.toml") && section == "lateness"
        ));
        assert!(matches!(error("latency = 3"), ReportError::InvalidNotes { .. }));
    }
}

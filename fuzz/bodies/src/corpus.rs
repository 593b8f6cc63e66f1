//! The corpus: `fuzz/corpus/<target>/`, one file per input.

use crate::Target;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The folder of a target's files.
#[must_use]
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name)
}

/// The files of a target by name, in the order of their names.
///
/// # Errors
/// A folder or a file that cannot be read.
pub fn files(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder(target))? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

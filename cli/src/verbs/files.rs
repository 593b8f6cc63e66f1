//! Writing files of the user's: whole or not at all.

use super::error::{CliResult, io_error};
use std::{fs, io::Write, path::Path};

/// Writes beside `path` and moves the file there once it is on the disk; nothing is left behind
/// where that fails.
pub fn write(path: &Path, bytes: &[u8]) -> CliResult {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.unfinished-{}", std::process::id()));
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        io_error("write", path, &error)
    })
}

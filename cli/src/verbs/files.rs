//! Writes the user's files, whole or not at all, with an error that says what to do.

use super::error::{CliError, CliResult, io_error};
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::{Path, PathBuf};

/// Refuses a file whose folder does not exist, before long work for it begins.
pub fn check_folder(path: &Path) -> CliResult {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let refused = |what: &str| CliError::user(format!("{}: {what}", path.display()));
    match parent {
        Some(folder) if folder.is_dir() => Ok(()),
        Some(folder) if folder.exists() => {
            Err(refused(&format!("{} is a file, not a folder", folder.display()))
                .hint("write to a folder"))
        }
        Some(_) => {
            Err(refused("the folder does not exist").hint("make it, or write to another folder"))
        }
        None => Ok(()),
    }
}

/// Reads the name of a figure: figures are SVG files.
pub fn svg() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let other = path.extension().is_some_and(|ending| !ending.eq_ignore_ascii_case("svg"));
        if other { Err("a figure is an SVG file: give it the ending .svg") } else { Ok(path) }
    })
}

/// Refuses a file that cannot be written, before long work for it begins.
pub fn check(path: &Path) -> CliResult {
    check_folder(path)?;
    if path.is_dir() {
        return Err(
            CliError::user(format!("{} is a folder", path.display())).hint("name a file in it")
        );
    }
    vitempo::graph::files::check_writable(path).map_err(|error| io_error("write", path, &error))
}

/// Refuses the file of a bundle that cannot be written, before long work for it begins. A device can
/// be opened but not keep it.
pub fn check_bundle(path: &Path) -> CliResult {
    if is_device(path) {
        return Err(CliError::user(format!("{} is a device, not a file", path.display()))
            .hint("name a file, e.g. mine.vtb"));
    }
    check(path)
}

#[cfg(unix)]
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = std::fs::metadata(path).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_char_device() || kind.is_block_device())
}

#[cfg(not(unix))]
const fn is_device(_: &Path) -> bool {
    false
}

/// Writes a file, or leaves none on failure.
pub fn write(path: &Path, bytes: &[u8]) -> CliResult {
    vitempo::graph::files::write_whole(path, bytes).map_err(|error| io_error("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        check(&file).expect("a new file");
        std::fs::write(&file, "").expect("a file");
        check(&file).expect("a file that is replaced");
        for (path, says) in [
            (folder.path().to_owned(), "is a folder"),
            (folder.path().join("none/x.vtb"), "the folder does not exist"),
            (file.join("x.vtb"), "is a file, not a folder"),
        ] {
            let error = check(&path).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_device_keeps_no_bundle() {
        let error = check_bundle("/dev/full".as_ref()).expect_err("a device").to_string();
        assert!(error.contains("/dev/full is a device"), "{error}");
        let folder = tempfile::tempdir().expect("a folder");
        check_bundle(&folder.path().join("new.vtb")).expect("a new file");
    }
}

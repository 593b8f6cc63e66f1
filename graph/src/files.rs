//! [`write_whole`], [`write_new`]: write files whole or not at all. [`own_folder`]: the folder of vitempo's own
//! files.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Ending of the name of a file that was being written when the process ended.
pub const UNFINISHED: &str = "unfinished";

/// Replaces `path` by a file with these bytes: written beside its place, flushed to the disk, then
/// renamed. A crash leaves the old file or the new one. Where it is a symbolic link, the file that
/// it leads to is replaced; a device or a pipe is written to.
///
/// # Errors
/// The path has no file name, or the folder cannot be written; no file remains then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = if path.is_symlink() { path.canonicalize()? } else { path.to_owned() };
    let path = target.as_path();
    if path.exists() && !path.is_file() && !path.is_dir() {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    written_beside(path, bytes)?.persist(path).map_err(|error| error.error)?;
    sync_folder(path)
}

/// The same where there is no file yet; of several processes that do it at once, one succeeds.
///
/// # Errors
/// As [`write_whole`]; [`io::ErrorKind::AlreadyExists`] where there is a file.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    written_beside(path, bytes)?.persist_noclobber(path).map_err(|error| error.error)?;
    sync_folder(path)
}

fn written_beside(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let (prefix, suffix) = (format!(".{}.", name.to_string_lossy()), format!(".{UNFINISHED}"));
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(&suffix);
    // Permissions as of other new files, by the process's umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Makes renames and removals in the folder of `path` survive a power loss.
///
/// # Errors
/// The folder cannot be opened or flushed.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        std::fs::File::open(folder_of(path))?.sync_all()?;
    }
    Ok(())
}

/// vitempo's own folder, for engines, bundles and models of agents: `$VITEMPO_HOME`, else
/// `$XDG_DATA_HOME/vitempo`, else `~/.local/share/vitempo`. `None` where no variable is set.
#[must_use]
pub fn own_folder() -> Option<PathBuf> {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    named("VITEMPO_HOME")
        .or_else(|| named("XDG_DATA_HOME").map(|data| data.join("vitempo")))
        .or_else(|| named("HOME").map(|home| home.join(".local/share/vitempo")))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_where_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [b"one", b"two"] {
            write_whole(&path, bytes).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
        let error = write_new(&path, b"three").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let taken = folder.path().join("folder");
        std::fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(write_whole(&taken, b"three").is_err());
        assert!(write_whole(&folder.path().join("none/file"), b"four").is_err());
        assert!(write_whole(&folder.path().join(".."), b"five").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_remain_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, b"one").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write_whole(&link, b"two").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(write_whole(&socket, b"three").is_err());
        assert!(socket.exists() && !socket.is_file());
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_a_file_as_any_other_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (whole, usual) = (folder.path().join("whole"), folder.path().join("usual"));
        write_whole(&whole, b"").unwrap();
        std::fs::write(&usual, b"").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&usual));
    }
}

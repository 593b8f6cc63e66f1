//! [`write_whole`], [`write_new`]: write files whole or not at all; [`check_writable`] says before
//! long work whether that is possible. [`read_limited`]: reads files that may be endless;
//! [`read_text`]: reads text with or without a byte order mark.
//! [`own_folder`]: the folder of vitempo's own files.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// Ending of the name of a file that was being written when the process ended.
pub const UNFINISHED: &str = "unfinished";
/// What some editors begin a file in UTF-8 with.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Links that lead to links, as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Replaces `path` by a file with these bytes: written beside its place, flushed to the disk, then
/// renamed. A crash leaves the old file or the new one. Where it is a symbolic link, the file that
/// it leads to is replaced or made; a device or a pipe is written to.
///
/// # Errors
/// The path has no file name, or the folder cannot be written; no file remains then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_stream(path) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = end_of_links(path)?;
    written_beside(&path, bytes)?.persist(&path).map_err(|error| error.error)?;
    sync_folder(&path)
}

/// Whether [`write_whole`] can write `path`, for before long work whose result goes there: it is no
/// folder, and a file can be made beside it. Leaves nothing.
///
/// # Errors
/// As [`write_whole`]; [`io::ErrorKind::IsADirectory`] where it is a folder.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_stream(path) {
        return Ok(());
    }
    beside(&end_of_links(path)?).map(drop)
}

/// The bytes of a file that has at most `limit` of them. An endless or larger one is not read to
/// its end.
///
/// # Errors
/// The file cannot be read; [`io::ErrorKind::FileTooLarge`] where it has more.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let says = format!("it has more than {limit} bytes, the most that is read");
        io::Error::new(io::ErrorKind::FileTooLarge, says)
    };
    let file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(0))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// The text of a file, without the byte order mark with which some editors begin UTF-8.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = std::fs::read_to_string(path)?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Whether it is a device, a pipe or a socket, also behind links.
fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The path that symbolic links lead to, whether or not something is there.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match path.is_symlink() {
            true => path = folder_of(&path).join(std::fs::read_link(&path)?),
            false => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
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
    let mut file = beside(path)?;
    // Not by the file with its name, which has the name in its errors.
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// An empty file beside `path`, removed when it is dropped.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let (prefix, suffix) = (format!(".{}.", name.to_string_lossy()), format!(".{UNFINISHED}"));
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(&suffix);
    // Permissions as of other new files, by the process's umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder_of(path)).map_err(|error| without_name(&error))
}

/// Without the name of the unfinished file, which the caller did not give.
fn without_name(error: &io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|named| named.source());
    match cause.and_then(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error()) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
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
    fn links_without_a_file_lead_to_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, link) = (folder.path().join("inside"), folder.path().join("link"));
        std::fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink("inside/second", &link).unwrap();
        std::os::unix::fs::symlink("file", inside.join("second")).unwrap();
        write_whole(&link, b"one").unwrap();
        assert!(link.is_symlink() && inside.join("second").is_symlink());
        assert_eq!(std::fs::read(inside.join("file")).unwrap(), b"one");
        let round = folder.path().join("round");
        std::os::unix::fs::symlink("round", &round).unwrap();
        assert!(write_whole(&round, b"two").unwrap_err().to_string().contains("symbolic links"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_written_to_by_its_descriptor() {
        use std::os::fd::AsRawFd as _;
        let (mut reader, writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        check_writable(&path).unwrap();
        write_whole(&path, b"one").unwrap();
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one");
    }

    #[test]
    fn a_byte_order_mark_is_not_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        for (bytes, text) in [("\u{feff}{}", "{}"), ("{}\u{feff}", "{}\u{feff}"), ("", "")] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read_text(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &Path| check_writable(path).unwrap_err().kind();
        assert_eq!(kind(folder.path()), io::ErrorKind::IsADirectory);
        assert_eq!(kind(&folder.path().join("none/file")), io::ErrorKind::NotFound);
        check_writable(&folder.path().join("file")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(folder.path().join("file"), "one").unwrap();
        check_writable(&folder.path().join("file")).unwrap();
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"one");
    }

    #[test]
    fn errors_do_not_have_the_name_of_the_unfinished_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_whole(&folder.path().join("none/file"), b"one").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let says = error.to_string();
        assert!(!says.contains(UNFINISHED) && !says.contains("path"), "{says}");
    }

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read_limited(&path, 5).unwrap(), b"12345");
        let error = read_limited(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("more than 4 bytes"), "{error}");
        if cfg!(unix) {
            let endless = read_limited(Path::new("/dev/zero"), 10).unwrap_err();
            assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        }
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

//! Writes files whole or not at all.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Writes beside `path` and moves the file there once it is on the disk; nothing is left behind
/// where that fails.
///
/// # Errors
/// What the system reports.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // As `File::create` would make it: the process's mask takes rights away.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    let mut file = builder.prefix(".unfinished-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    // The rename itself is on the disk once the folder is.
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

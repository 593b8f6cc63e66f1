//! Wheels: whether a file is the pinned one, and unpacking what is needed of it. A wheel is a ZIP
//! archive.

use super::{Engine, InstallError, Wheel};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Component, Path, PathBuf},
};

/// A file that was unpacked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unpacked {
    /// Below the engine's folder, with slashes.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
}

/// Refuses a file that is not the pinned wheel: first by its size, then by its digest.
pub(super) fn verify(path: &Path, wheel: &Wheel<'_>) -> Result<(), InstallError> {
    let found = path.metadata().map_err(InstallError::io(path))?.len();
    if found != wheel.size_bytes {
        return Err(InstallError::Size {
            path: path.to_owned(),
            found,
            expected: wheel.size_bytes,
        });
    }
    let found = digest(path)?;
    if found == wheel.sha256 {
        Ok(())
    } else {
        Err(InstallError::Digest {
            path: path.to_owned(),
            found,
            expected: wheel.sha256.to_owned(),
        })
    }
}

/// SHA-256 in lower-case hexadecimals.
pub(super) fn digest(path: &Path) -> Result<String, InstallError> {
    let mut file = File::open(path).map_err(InstallError::io(path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(InstallError::io(path))? {
            0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// Unpacks what `engine` needs into `folder` and writes it to disk. Nothing lands outside: a name
/// that leads elsewhere, or a link, is refused.
pub(super) fn unpack(
    path: &Path,
    engine: &Engine<'_>,
    folder: &Path,
) -> Result<Vec<Unpacked>, InstallError> {
    let refuse = |reason: String| InstallError::Wheel { path: path.to_owned(), reason };
    let file = File::open(path).map_err(InstallError::io(path))?;
    let mut archive = zip::ZipArchive::new(BufReader::new(file))
        .map_err(|e| refuse(format!("it is no ZIP archive: {e}")))?;
    let mut unpacked = Vec::new();
    for index in 0..archive.len() {
        let mut entry =
            archive.by_index(index).map_err(|e| refuse(format!("entry {index}: {e}")))?;
        let name = entry
            .name()
            .map_err(|e| refuse(format!("entry {index} has no name: {e}")))?
            .into_owned();
        let inside = inside(&name)
            .ok_or_else(|| refuse(format!("entry `{name}` leads out of its folder")))?;
        if entry.is_dir() || !engine.needs(&name) {
            continue;
        }
        if entry.is_symlink() {
            return Err(refuse(format!("entry `{name}` is a link")));
        }
        let target = folder.join(inside);
        let parent = target.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(InstallError::io(parent))?;
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .open(&target)
            .map_err(InstallError::io(&target))?;
        let stated = entry.size();
        let size_bytes = copy(&mut entry, stated, &mut file)
            .map_err(|e| refuse(format!("entry `{name}`: {e}")))?;
        file.sync_all().map_err(InstallError::io(&target))?;
        unpacked.push(Unpacked { path: name, size_bytes });
    }
    Ok(unpacked)
}

/// Up to the size the archive states and not a byte more.
fn copy(entry: &mut impl Read, stated: u64, file: &mut File) -> std::io::Result<u64> {
    let copied = std::io::copy(&mut entry.take(stated.saturating_add(1)), file)?;
    if copied == stated {
        Ok(copied)
    } else {
        Err(std::io::Error::other(format!("{stated} bytes were announced, {copied} came")))
    }
}

/// The path of an entry, if it stays inside.
fn inside(name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty()
        && !name.contains(['\\', '\0', ':'])
        && Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    plain.then(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["a/b.so", "a-1.dist-info/METADATA", "a/"] {
            assert!(inside(name).is_some(), "{name}");
        }
        for name in ["../x", "a/../../x", "/etc/x", "", "a\\..\\x", "c:/x", "./../x", "a\0b"] {
            assert!(inside(name).is_none(), "{name}");
        }
    }
}

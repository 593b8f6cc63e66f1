//! Installs an engine: its pinned wheels, checked against their digests, unpacked into vitempo's
//! own folder.
//!
//! | question | file |
//! |---|---|
//! | which wheels, and which files of them? | [`pins`] |
//! | where do they come from? | [`pip`], or files that are there already |
//! | is it the right file, and how is it unpacked? | `wheel` |
//!
//! The engine's folder is `<engines>/<name>-<version>` and has the layout of `site-packages`, so
//! that libraries find their neighbours. It appears by one rename when all of its files are on
//! disk, so that no engine is ever incomplete. `installed.json` in it lists wheels and files; if
//! all of them exist, nothing is done again. [`crate::backends::discovery`] looks there.

pub mod pins;
pub mod pip;
#[cfg(test)]
mod tests;
mod wheel;

pub use pins::{ENGINES, Engine, Platform, Wheel};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use vitempo_graph::files::write_whole;
pub use wheel::Unpacked;

/// Where the wheels come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Fetched by this Python's pip.
    Pip(PathBuf),
    /// These files, in any order.
    Files(Vec<PathBuf>),
}

/// A step of an installation, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A wheel is downloaded.
    Fetch {
        /// Name of the wheel.
        file: &'a str,
        /// Bytes downloaded so far.
        done_bytes: u64,
        /// Size of the wheel.
        total_bytes: u64,
    },
    /// The digest of a wheel is computed.
    Verify {
        /// Name of the wheel.
        file: &'a str,
    },
    /// A wheel is unpacked.
    Unpack {
        /// Name of the wheel.
        file: &'a str,
    },
}

/// An engine in vitempo's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its library.
    pub library: PathBuf,
    /// Number of files.
    pub files: usize,
    /// Their size.
    pub size_bytes: u64,
    /// Whether it was there before.
    pub already_there: bool,
}

/// Why an engine was not installed. No files remain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// There is no engine of this name.
    #[error("no engine called `{name}` can be installed; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// There is no wheel for this machine.
    #[error(
        "there is no wheel of {engine} {version} for {os} on {arch}; there are wheels for: \
        {offered}"
    )]
    Platform {
        /// Name of the engine.
        engine: String,
        /// Its version.
        version: String,
        /// Operating system.
        os: String,
        /// Architecture of the processor.
        arch: String,
        /// What there is.
        offered: String,
    },
    /// There is no folder to install into.
    #[error("no folder to install into: neither VITEMPO_HOME nor XDG_DATA_HOME nor HOME is set")]
    NoFolder,
    /// There is no Python with pip.
    #[error("no Python with pip was found to fetch wheels with (tried {tried})")]
    NoPip {
        /// What was tried.
        tried: String,
    },
    /// A wheel cannot be fetched.
    #[error("{file} could not be fetched: {reason}")]
    Fetch {
        /// Name of the file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A wheel has another size.
    #[error("{path} has {found} bytes, but the pinned wheel has {expected}", path = path.display())]
    Size {
        /// The file or folder.
        path: PathBuf,
        /// What was found.
        found: u64,
        /// What was expected.
        expected: u64,
    },
    /// A wheel has another digest.
    #[error("{path} is not the pinned wheel: its SHA-256 is {found}, not {expected}", path = path.display())]
    Digest {
        /// The file or folder.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A file is none of the wheels.
    #[error("{path} is none of the wheels of {engine}; wanted: {wanted}", path = path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Name of the engine.
        engine: String,
        /// What is wanted instead.
        wanted: String,
    },
    /// A wheel is missing.
    #[error("{engine} needs {missing} too")]
    WheelMissing {
        /// Name of the engine.
        engine: String,
        /// What is missing.
        missing: String,
    },
    /// A wheel cannot be unpacked.
    #[error("{path} cannot be unpacked: {reason}", path = path.display())]
    Wheel {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The wheels lack a library.
    #[error("the wheels of {engine} {version} lack {library}")]
    NoLibrary {
        /// Name of the engine.
        engine: String,
        /// Its version.
        version: String,
        /// Name of the library.
        library: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl InstallError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// What to do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoPip { .. } => {
                "install python3 with pip, or download the wheel elsewhere and install from the file"
            }
            Self::Fetch { .. } => {
                "`python3 -m pip config list` shows the index in use; or download the wheel elsewhere \
                 and install from the file"
            }
            Self::Size { .. } | Self::Digest { .. } => {
                "download it again; if it differs still, do not use it"
            }
            Self::WheelMissing { .. } => "name each of the engine's wheels",
            Self::Platform { .. } => {
                "build or install the engine's library yourself and name it in the variable \
                VITEMPO_ and the engine's name"
            }
            Self::NoFolder => "set VITEMPO_HOME to a folder for vitempo's files",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// The engine of that name.
///
/// # Errors
/// [`InstallError::Unknown`], which lists the names there are.
pub fn by_name(name: &str) -> Result<&'static Engine<'static>, InstallError> {
    let known = || ENGINES.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
    ENGINES
        .iter()
        .find(|e| e.name == name)
        .ok_or_else(|| InstallError::Unknown { name: name.to_owned(), known: known() })
}

/// The contents of `installed.json`.
#[derive(Serialize, Deserialize)]
struct Manifest {
    engine: String,
    version: String,
    wheels: Vec<String>,
    files: Vec<Unpacked>,
}

const MANIFEST: &str = "installed.json";
const PARTIAL: &str = ".installing-";

impl Engine<'_> {
    /// The wheels for a machine, e.g. `linux`, `x86_64`.
    ///
    /// # Errors
    /// [`InstallError::Platform`].
    pub fn wheels(&self, os: &str, arch: &str) -> Result<&[Wheel<'_>], InstallError> {
        let offered = || {
            self.platforms
                .iter()
                .map(|p| format!("{} on {}", p.os, p.arch))
                .collect::<Vec<_>>()
                .join(", ")
        };
        self.platforms.iter().find(|p| (p.os, p.arch) == (os, arch)).map(|p| p.wheels).ok_or_else(
            || InstallError::Platform {
                engine: self.name.to_owned(),
                version: self.version.to_owned(),
                os: os.to_owned(),
                arch: arch.to_owned(),
                offered: offered(),
            },
        )
    }

    /// What `folder` holds of this engine, if it is all there.
    fn installed(&self, folder: &Path, wheels: &[Wheel<'_>]) -> Option<Installed> {
        let manifest: Manifest =
            serde_json::from_slice(&std::fs::read(folder.join(MANIFEST)).ok()?).ok()?;
        let same = manifest.wheels.iter().map(String::as_str).eq(wheels.iter().map(|w| w.sha256));
        let there = |file: &Unpacked| {
            folder
                .join(&file.path)
                .metadata()
                .is_ok_and(|m| m.is_file() && m.len() == file.size_bytes)
        };
        let library = manifest.files.iter().find(|f| self.is_library(&f.path))?;
        (same && manifest.files.iter().all(there)).then(|| Installed {
            engine: self.name.to_owned(),
            version: self.version.to_owned(),
            folder: folder.to_owned(),
            library: folder.join(&library.path),
            files: manifest.files.len(),
            size_bytes: manifest.files.iter().map(|f| f.size_bytes).sum(),
            already_there: true,
        })
    }
}

/// Installs `engine` from these wheels into its folder below `engines`, unless it is installed;
/// `source` is called only if it is not.
///
/// # Errors
/// [`InstallError`]; the folder is then unchanged.
pub fn install(
    engine: &Engine<'_>,
    wheels: &[Wheel<'_>],
    engines: &Path,
    source: &dyn Fn() -> Result<Source, InstallError>,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Installed, InstallError> {
    std::fs::create_dir_all(engines).map_err(InstallError::io(engines))?;
    let folder = engines.join(format!("{}-{}", engine.name, engine.version));
    let _alone = lock(engines)?;
    remove_partial(engines);
    if let Some(installed) = engine.installed(&folder, wheels) {
        return Ok(installed);
    }
    let scratch = tempfile::Builder::new()
        .prefix(PARTIAL)
        .tempdir_in(engines)
        .map_err(InstallError::io(engines))?;
    let unpacked = scratch.path().join("unpacked");
    std::fs::create_dir(&unpacked).map_err(InstallError::io(&unpacked))?;
    let source = source()?;
    let mut files = Vec::new();
    for (index, (wheel, path)) in gather(engine, wheels, &source)?.into_iter().enumerate() {
        let path = match (path, &source) {
            (Some(path), _) => path,
            (None, Source::Pip(python)) => {
                let folder = scratch.path().join(format!("wheel-{index}"));
                let total_bytes = wheel.size_bytes;
                pip::fetch(python, &wheel, &folder, &mut |done_bytes| {
                    progress(Step::Fetch { file: wheel.file, done_bytes, total_bytes });
                })?
            }
            (None, Source::Files(_)) => continue,
        };
        progress(Step::Verify { file: wheel.file });
        wheel::verify(&path, &wheel)?;
        progress(Step::Unpack { file: wheel.file });
        files.extend(wheel::unpack(&path, engine, &unpacked)?);
    }
    let lacking = || InstallError::NoLibrary {
        engine: engine.name.to_owned(),
        version: engine.version.to_owned(),
        library: engine.library.to_owned(),
    };
    if !files.iter().any(|f| engine.is_library(&f.path)) {
        return Err(lacking());
    }
    let wheels_taken = wheels.iter().map(|w| w.sha256.to_owned()).collect();
    write_manifest(
        &unpacked,
        &Manifest {
            engine: engine.name.to_owned(),
            version: engine.version.to_owned(),
            wheels: wheels_taken,
            files,
        },
    )?;
    put_in_place(&unpacked, &folder, scratch.path())?;
    let installed = engine.installed(&folder, wheels).ok_or_else(lacking)?;
    Ok(Installed { already_there: false, ..installed })
}

/// Each wheel with its file, where files were named: by name, or by digest when a file was renamed.
fn gather<'w>(
    engine: &Engine<'_>,
    wheels: &[Wheel<'w>],
    source: &Source,
) -> Result<Vec<(Wheel<'w>, Option<PathBuf>)>, InstallError> {
    let mut gathered: Vec<(Wheel<'w>, Option<PathBuf>)> =
        wheels.iter().map(|w| (*w, None)).collect();
    let Source::Files(paths) = source else { return Ok(gathered) };
    for path in paths {
        let named =
            gathered.iter().position(|(w, _)| path.file_name().is_some_and(|name| name == w.file));
        let index = match named {
            Some(index) => Some(index),
            None => {
                let digest = wheel::digest(path)?;
                gathered.iter().position(|(w, _)| w.sha256 == digest)
            }
        };
        let wanted = || wheels.iter().map(|w| w.file).collect::<Vec<_>>().join(", ");
        let index = index.ok_or_else(|| InstallError::Foreign {
            path: path.clone(),
            engine: engine.name.to_owned(),
            wanted: wanted(),
        })?;
        gathered[index].1 = Some(path.clone());
    }
    match gathered.iter().find(|(_, path)| path.is_none()) {
        Some((wheel, _)) => Err(InstallError::WheelMissing {
            engine: engine.name.to_owned(),
            missing: wheel.file.to_owned(),
        }),
        None => Ok(gathered),
    }
}

/// One installation at a time per folder: held until it is dropped.
fn lock(engines: &Path) -> Result<std::fs::File, InstallError> {
    let path = engines.join(".lock");
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(InstallError::io(&path))?;
    file.lock().map_err(InstallError::io(&path))?;
    Ok(file)
}

/// Deletes files of interrupted installations; the lock excludes a running one.
fn remove_partial(engines: &Path) {
    for entry in std::fs::read_dir(engines).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), InstallError> {
    let path = folder.join(MANIFEST);
    let write =
        || -> std::io::Result<()> { write_whole(&path, &serde_json::to_vec_pretty(manifest)?) };
    write().map_err(InstallError::io(&path))
}

/// Moves a finished folder to its place by a rename; an existing damaged one is moved away, and is
/// deleted with the temporary folder.
fn put_in_place(unpacked: &Path, folder: &Path, scratch: &Path) -> Result<(), InstallError> {
    if folder.exists() {
        std::fs::rename(folder, scratch.join("replaced")).map_err(InstallError::io(folder))?;
    }
    std::fs::rename(unpacked, folder).map_err(InstallError::io(folder))
}

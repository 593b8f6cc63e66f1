//! [`Shelf`]: the bundles that answer, read anew when their files change.
//!
//! A file counts as changed when its length or its time of modification does. What is asked while
//! files are read is answered by the bundles from before; then all change at once. A file that
//! cannot be used leaves the bundle of that name as it was, a folder that cannot be read all of
//! them.

use super::desk::Desk;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::SystemTime,
};
use vitempo::predictors::{PredictorBundle, PredictorError};

/// What bundles end with.
pub const EXTENSION: &str = "vtb";
/// No bundle's file is larger.
const LARGEST: u64 = 1 << 29;

/// One bundle under the name that clients use.
#[derive(Debug)]
pub struct Shelved {
    /// Its file's name without the extension.
    pub name: String,
    /// Digest of its file.
    pub digest: String,
    /// What forecasts.
    pub bundle: Arc<PredictorBundle>,
    /// What it has looked up.
    pub(super) desk: Desk,
}

/// Bundles by name.
pub type Bundles = BTreeMap<String, Arc<Shelved>>;

/// When and how long a file was when it was read.
type Stamp = (u64, Option<SystemTime>);

/// What a look at the files changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Names of bundles that were read.
    pub loaded: Vec<String>,
    /// Names of bundles whose file is gone from its folder.
    pub dropped: Vec<String>,
    /// Files that cannot be used, and why.
    pub failed: Vec<(PathBuf, String)>,
}

impl Refreshed {
    /// Whether all is as it was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty() && self.dropped.is_empty() && self.failed.is_empty()
    }
}

/// Where bundles are.
#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    /// All bundles in a folder, whichever they are at the time.
    Folder(PathBuf),
}

/// Bundles in files, and in whole folders of files.
#[derive(Debug)]
pub struct Shelf {
    places: Vec<Place>,
    current: RwLock<Arc<Bundles>>,
    /// What each file was like when it was last read, whether or not that went well.
    seen: Mutex<BTreeMap<PathBuf, Stamp>>,
}

impl Shelf {
    /// Bundles in `places`: files, or folders whose `.vtb` files all count. Nothing is read yet.
    #[must_use]
    pub fn new(places: Vec<PathBuf>) -> Self {
        let place =
            |path: PathBuf| if path.is_dir() { Place::Folder(path) } else { Place::File(path) };
        Self {
            places: places.into_iter().map(place).collect(),
            current: RwLock::default(),
            seen: Mutex::default(),
        }
    }

    /// A name that two of the files share: only the first would answer.
    #[must_use]
    pub fn ambiguous(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut files = self.places.iter().filter_map(|place| {
            if let Place::File(path) = place { Some(name_of(path)) } else { None }
        });
        files.find(|name| !names.insert(name.clone()))
    }

    /// What answers now; stays as it is however long it is held.
    #[must_use]
    pub fn current(&self) -> Arc<Bundles> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads what is new or has changed; with `all`, everything.
    pub fn refresh(&self, all: bool) -> Refreshed {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let mut changes = Refreshed::default();
        let files = match self.files() {
            Ok(files) => files,
            Err(failed) => {
                changes.failed.push(failed);
                return changes;
            }
        };
        let mut next = Bundles::new();
        for (name, path) in &files {
            let old = before.get(name);
            let stamp = stamp(path);
            if !all && stamp.is_some() && stamp.as_ref() == seen.get(path) {
                next.extend(old.map(|old| (name.clone(), old.clone())));
                continue;
            }
            match read(name, path) {
                Ok(new) => {
                    changes.loaded.push(name.clone());
                    next.insert(name.clone(), Arc::new(new));
                }
                Err(reason) => {
                    // A file that is not there is spoken of once.
                    if stamp.is_some() || seen.contains_key(path) || before.is_empty() {
                        changes.failed.push((path.clone(), reason));
                    }
                    next.extend(old.map(|old| (name.clone(), old.clone())));
                }
            }
            match stamp {
                Some(stamp) => seen.insert(path.clone(), stamp),
                None => seen.remove(path),
            };
        }
        changes.dropped =
            before.keys().filter(|name| !files.contains_key(*name)).cloned().collect();
        let known: BTreeSet<&PathBuf> = files.values().collect();
        seen.retain(|path, _| known.contains(path));
        if !changes.loaded.is_empty() || !changes.dropped.is_empty() {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        }
        changes
    }

    /// Name and file of each bundle; of several with one name, the first.
    fn files(&self) -> Result<BTreeMap<String, PathBuf>, (PathBuf, String)> {
        let mut files = BTreeMap::new();
        for place in &self.places {
            let found = match place {
                Place::File(path) => vec![path.clone()],
                Place::Folder(folder) => bundles_in(folder).map_err(|e| {
                    (folder.clone(), format!("cannot read folder {}: {e}", folder.display()))
                })?,
            };
            for path in found {
                files.entry(name_of(&path)).or_insert(path);
            }
        }
        Ok(files)
    }
}

/// The name a bundle's file gives it.
#[must_use]
pub fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn bundles_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == EXTENSION) && !hidden(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|data| (data.len(), data.modified().ok()))
}

fn read(name: &str, path: &Path) -> Result<Shelved, String> {
    let io =
        |source| PredictorError::Io { action: "read", path: path.to_owned(), source }.to_string();
    if fs::metadata(path).map_err(io)?.len() > LARGEST {
        return Err(format!("{}: no bundle has more than {LARGEST} bytes", path.display()));
    }
    let bytes = fs::read(path).map_err(io)?;
    let format = |reason| PredictorError::Format { path: path.to_owned(), reason }.to_string();
    let bundle = PredictorBundle::from_bytes(&bytes).map_err(format)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    Ok(Shelved { name: name.to_owned(), digest, bundle: Arc::new(bundle), desk: Desk::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_spoken_of_once_until_they_change() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap_or_else(|e| panic!("{e}"))
        };
        write("broken.vtb", "no bundle");
        write(".hidden.vtb", "not finished");
        write("notes.txt", "nothing");
        let shelf = Shelf::new(vec![folder.path().to_owned(), folder.path().join("absent.vtb")]);
        let first = shelf.refresh(false);
        assert!(
            first
                .failed
                .iter()
                .any(|(path, reason)| path.ends_with("broken.vtb") && reason.contains("too short")),
            "{first:?}"
        );
        assert_eq!((first.failed.len(), first.loaded.len(), shelf.current().len()), (2, 0, 0));
        write("broken.vtb", "no bundle either");
        assert!(shelf.refresh(false).failed.iter().any(|(path, _)| path.ends_with("broken.vtb")));
        drop(folder);
        assert!(
            shelf
                .refresh(false)
                .failed
                .iter()
                .any(|(_, reason)| reason.contains("cannot read folder"))
        );
    }

    #[test]
    fn two_files_of_one_name_are_noticed() {
        let shelf = |paths: &[&str]| Shelf::new(paths.iter().map(PathBuf::from).collect());
        assert_eq!(shelf(&["a/x.vtb", "b/x.vtb"]).ambiguous().as_deref(), Some("x"));
        assert_eq!(shelf(&["a/x.vtb", "b/y.vtb"]).ambiguous(), None);
    }
}

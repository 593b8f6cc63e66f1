//! [`BundleRegistry`]: the bundles that the service forecasts with, reloaded when their files
//! change.
//!
//! A file has changed if its length or its time of modification differs. While files are read,
//! requests use the previous bundles; then all change at once. If a file cannot be read, the
//! previous bundle of that name stays; if a folder cannot be read, all of its bundles stay. A file
//! that has the previous bytes again keeps its bundle and the bundle's tables.

use super::table_cache::TableCache;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::SystemTime,
};
use vitempo::bundle::{self, Bundle, BundleError, Location};

/// One bundle under the name that clients use.
#[derive(Debug)]
pub struct RegisteredBundle {
    /// The bundle.
    pub bundle: Bundle,
    /// Its tables.
    pub(super) table_cache: TableCache,
}

impl RegisteredBundle {
    /// Reads the bundle at a location; `old` is the previous one of its name.
    fn load(location: &Location, old: Option<&Arc<Self>>) -> Result<Arc<Self>, BundleError> {
        let old = old.filter(|old| old.bundle.location() == location);
        let bundle = match old {
            Some(old) => old.bundle.again()?,
            None => Bundle::load(location.clone())?,
        };
        let unchanged = old.filter(|old| old.bundle.digest() == bundle.digest());
        Ok(unchanged
            .cloned()
            .unwrap_or_else(|| Arc::new(Self { bundle, table_cache: TableCache::default() })))
    }
}

/// Bundles by name.
pub type Bundles = BTreeMap<String, Arc<RegisteredBundle>>;

/// Length and time of modification of a file when it was read.
type Stamp = (u64, Option<SystemTime>);

/// What a refresh changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Names of bundles that were read.
    pub loaded: Vec<String>,
    /// Names of bundles whose file is gone from its folder.
    pub dropped: Vec<String>,
    /// Locations that cannot be read, and why.
    pub failed: Vec<(Location, String)>,
}

impl Refreshed {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty() && self.dropped.is_empty() && self.failed.is_empty()
    }
}

/// A file or a folder of bundles.
#[derive(Clone, Debug)]
enum BundleSource {
    One(Location),
    /// All bundles in a folder, including later ones.
    Folder(PathBuf),
}

/// Bundles in files, and in whole folders of files.
#[derive(Debug)]
pub struct BundleRegistry {
    sources: Vec<BundleSource>,
    current: RwLock<Arc<Bundles>>,
    /// The stamp of each file when it was last read, with or without success.
    seen: Mutex<BTreeMap<Location, Stamp>>,
}

impl BundleRegistry {
    /// Bundles in `places`: files, folders whose `.vtb` files all count, or embedded ones. Nothing
    /// is read yet.
    #[must_use]
    pub fn new(places: Vec<Location>) -> Self {
        let source = |location| match location {
            Location::File(path) if path.is_dir() => BundleSource::Folder(path),
            location => BundleSource::One(location),
        };
        Self {
            sources: places.into_iter().map(source).collect(),
            current: RwLock::default(),
            seen: Mutex::default(),
        }
    }

    /// A name that two of the bundles share; only the first would be used.
    #[must_use]
    pub fn ambiguous(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut own = self.sources.iter().filter_map(|source| {
            if let BundleSource::One(location) = source { Some(location.name()) } else { None }
        });
        own.find(|name| !names.insert(name.clone()))
    }

    /// The current bundles, as a snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Bundles> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads new and changed bundles; with `all`, every bundle.
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
        for (name, location) in &files {
            let old = before.get(name);
            let stamp = stamp(location);
            if !all && stamp.is_some() && stamp.as_ref() == seen.get(location) {
                next.extend(old.map(|old| (name.clone(), old.clone())));
                continue;
            }
            match RegisteredBundle::load(location, old) {
                Ok(bundle) => {
                    changes.loaded.push(name.clone());
                    next.insert(name.clone(), bundle);
                }
                Err(error) => {
                    // A missing file is reported once.
                    if stamp.is_some() || seen.contains_key(location) || before.is_empty() {
                        changes.failed.push((location.clone(), error.to_string()));
                    }
                    next.extend(old.map(|old| (name.clone(), old.clone())));
                }
            }
            match stamp {
                Some(stamp) => seen.insert(location.clone(), stamp),
                None => seen.remove(location),
            };
        }
        changes.dropped =
            before.keys().filter(|name| !files.contains_key(*name)).cloned().collect();
        let known: BTreeSet<&Location> = files.values().collect();
        seen.retain(|location, _| known.contains(location));
        if !changes.loaded.is_empty() || !changes.dropped.is_empty() {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        }
        changes
    }

    /// Name and location of each bundle; of several with one name, the first.
    fn files(&self) -> Result<BTreeMap<String, Location>, (Location, String)> {
        let mut files = BTreeMap::new();
        for source in &self.sources {
            let found = match source {
                BundleSource::One(location) => vec![location.clone()],
                BundleSource::Folder(folder) => bundle::files_in(folder).map_err(|e| {
                    let reason = format!("cannot read folder {}: {e}", folder.display());
                    (folder.clone().into(), reason)
                })?,
            };
            for location in found {
                files.entry(location.name()).or_insert(location);
            }
        }
        Ok(files)
    }
}

/// An embedded bundle does not change.
fn stamp(location: &Location) -> Option<Stamp> {
    match location {
        Location::File(path) => {
            fs::metadata(path).ok().map(|data| (data.len(), data.modified().ok()))
        }
        Location::Embedded(_) => Some((0, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_reported_once_until_they_change() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap_or_else(|e| panic!("{e}"));
        };
        write("broken.vtb", "no bundle");
        write(".hidden.vtb", "not finished");
        write("notes.txt", "nothing");
        let places = [folder.path().to_owned(), folder.path().join("absent.vtb")];
        let registry = BundleRegistry::new(places.map(Location::File).into());
        let first = registry.refresh(false);
        assert!(
            first
                .failed
                .iter()
                .any(|(at, reason)| at.name() == "broken" && reason.contains("too short")),
            "{first:?}"
        );
        assert_eq!((first.failed.len(), first.loaded.len(), registry.current().len()), (2, 0, 0));
        write("broken.vtb", "no bundle either");
        assert!(registry.refresh(false).failed.iter().any(|(at, _)| at.name() == "broken"));
        drop(folder);
        assert!(
            registry
                .refresh(false)
                .failed
                .iter()
                .any(|(_, reason)| reason.contains("cannot read folder"))
        );
    }

    #[test]
    fn a_file_with_the_same_bytes_again_keeps_its_bundle() {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let shipped = |name: &str| {
            let path = format!("{}/../bundles/{name}.vtb", env!("CARGO_MANIFEST_DIR"));
            fs::read(path).unwrap_or_else(|e| panic!("{e}"))
        };
        let (one, other) = (shipped("epyc-rten-f32-1t"), shipped("epyc-openvino-f32-1t"));
        let path = folder.path().join("b.vtb");
        let registry = BundleRegistry::new(vec![Location::File(folder.path().to_owned())]);
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap_or_else(|e| panic!("{e}"));
            let changes = registry.refresh(true);
            (registry.current()["b"].clone(), changes.loaded.len(), changes.failed.len())
        };
        let (first, ..) = read(&one);
        let (damaged, loaded, failed) = read(&one[..one.len() / 2]);
        assert!(Arc::ptr_eq(&first, &damaged) && (loaded, failed) == (0, 1));
        let (mended, loaded, failed) = read(&one);
        assert!(Arc::ptr_eq(&first, &mended) && (loaded, failed) == (1, 0));
        let (changed, ..) = read(&other);
        assert_ne!(changed.bundle.digest(), first.bundle.digest());
    }

    #[test]
    fn two_files_of_one_name_are_noticed() {
        let file = |path: &&str| Location::File(path.into());
        let registry = |paths: &[&str]| BundleRegistry::new(paths.iter().map(file).collect());
        assert_eq!(registry(&["a/x.vtb", "b/x.vtb"]).ambiguous().as_deref(), Some("x"));
        assert_eq!(registry(&["a/x.vtb", "b/y.vtb"]).ambiguous(), None);
    }
}

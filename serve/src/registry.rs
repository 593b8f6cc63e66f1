//! [`BundleRegistry`]: the bundles that the service forecasts with, reloaded when their files
//! change.
//!
//! A file has changed if its length or its time of modification differs. While files are read,
//! requests use the previous bundles; then all change at once. If a file cannot be read, the
//! previous bundle of that name stays; if a folder cannot be read, all of its bundles stay, and the
//! other sources are read. A file that has the previous bytes again keeps its bundle and the
//! bundle's tables. Where two files have one name, the one that is in use stays, else the first one
//! is taken; the other is refused.

use super::table_cache::TableCache;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
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
    /// Locations that cannot be read, and bundles whose name another one has, with the reason. A
    /// folder that cannot be read and a name that is taken are reported once, until that changes or
    /// every bundle is read.
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
    seen: Mutex<Seen>,
}

/// What the last refresh found.
#[derive(Debug, Default)]
struct Seen {
    /// The stamp of each file when it was last read, with or without success.
    stamps: BTreeMap<Location, Stamp>,
    /// The bundles of each folder when it was last read.
    folders: BTreeMap<PathBuf, Vec<Location>>,
    /// Folders that cannot be read, and bundles whose name another one has, with the reason.
    refused: BTreeMap<Location, String>,
}

/// What the sources have.
#[derive(Debug, Default)]
struct Listed {
    /// The locations of each name, in the order of the sources.
    named: BTreeMap<String, Vec<Location>>,
    /// Those of folders that cannot be read: their bundles stay as they are.
    kept: BTreeSet<Location>,
    /// Folders that cannot be read, and why.
    unreadable: BTreeMap<Location, String>,
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

    /// A name that two of the bundles share. A bundle that is named itself and lies in a folder is
    /// one bundle.
    #[must_use]
    pub fn ambiguous(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut own = self.sources.iter().filter_map(|source| {
            if let BundleSource::One(location) = source { Some(location.name()) } else { None }
        });
        own.find(|name| !names.insert(name.clone())).or_else(|| {
            let named = self.listed(&mut BTreeMap::new()).named;
            named.into_iter().find(|(_, locations)| locations.len() > 1).map(|(name, _)| name)
        })
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
        let Listed { named, kept, mut unreadable } = self.listed(&mut seen.folders);
        let files = chosen(named, &before, &mut unreadable);
        let mut changes =
            Refreshed { failed: seen.reported(unreadable, all), ..Refreshed::default() };
        let stamps = &mut seen.stamps;
        let mut next = Bundles::new();
        for (name, location) in &files {
            let old = before.get(name);
            let stamp = stamp(location);
            let is_unchanged = !all && stamp.is_some() && stamp.as_ref() == stamps.get(location);
            if is_unchanged || kept.contains(location) {
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
                    if stamp.is_some() || stamps.contains_key(location) || before.is_empty() {
                        changes.failed.push((location.clone(), error.to_string()));
                    }
                    next.extend(old.map(|old| (name.clone(), old.clone())));
                }
            }
            match stamp {
                Some(stamp) => stamps.insert(location.clone(), stamp),
                None => stamps.remove(location),
            };
        }
        changes.dropped =
            before.keys().filter(|name| !files.contains_key(*name)).cloned().collect();
        let known: BTreeSet<&Location> = files.values().collect();
        stamps.retain(|location, _| known.contains(location));
        if !changes.loaded.is_empty() || !changes.dropped.is_empty() {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        }
        changes
    }

    /// What the sources have now; of a folder that cannot be read, what it had before.
    fn listed(&self, folders: &mut BTreeMap<PathBuf, Vec<Location>>) -> Listed {
        let mut listed = Listed::default();
        for source in &self.sources {
            let found = match source {
                BundleSource::One(location) => vec![location.clone()],
                BundleSource::Folder(folder) => listed.files_in(folder, folders),
            };
            for location in found {
                let same_name = listed.named.entry(location.name()).or_default();
                if !same_name.iter().any(|other| is_same(other, &location)) {
                    same_name.push(location);
                }
            }
        }
        listed
    }
}

impl Listed {
    fn files_in(
        &mut self,
        folder: &Path,
        folders: &mut BTreeMap<PathBuf, Vec<Location>>,
    ) -> Vec<Location> {
        match bundle::files_in(folder) {
            Ok(files) => {
                folders.insert(folder.to_owned(), files.clone());
                files
            }
            Err(error) => {
                let reason = format!("cannot read folder {}: {error}", folder.display());
                self.unreadable.insert(folder.to_owned().into(), reason);
                let files = folders.get(folder).cloned().unwrap_or_default();
                self.kept.extend(files.iter().cloned());
                files
            }
        }
    }
}

impl Seen {
    /// What is refused now, without what was reported before; with `all`, each of it.
    fn reported(
        &mut self,
        refused: BTreeMap<Location, String>,
        all: bool,
    ) -> Vec<(Location, String)> {
        let before = std::mem::replace(&mut self.refused, refused);
        let is_new = |(location, reason): &(&Location, &String)| {
            all || before.get(*location) != Some(*reason)
        };
        let new = self.refused.iter().filter(is_new);
        new.map(|(location, reason)| (location.clone(), reason.clone())).collect()
    }
}

/// The location of each name: the one that is in use, else the first. The others are `refused`.
fn chosen(
    named: BTreeMap<String, Vec<Location>>,
    current: &Bundles,
    refused: &mut BTreeMap<Location, String>,
) -> BTreeMap<String, Location> {
    let choose = |(name, mut locations): (String, Vec<Location>)| {
        let used = current.get(&name).map(|registered| registered.bundle.location());
        let place = locations.iter().position(|location| Some(location) == used);
        let location = locations.remove(place.unwrap_or(0));
        refused.extend(locations.into_iter().map(|other| {
            let reason = format!("{location} has the name `{name}` already: {other} is not used");
            (other, reason)
        }));
        (name, location)
    };
    named.into_iter().map(choose).collect()
}

/// Whether both are the same file, by whatever path.
fn is_same(one: &Location, other: &Location) -> bool {
    match (one, other) {
        _ if one == other => true,
        (Location::File(one), Location::File(other)) => {
            let both = [one, other].map(|path| path.canonicalize().ok());
            both[0].is_some() && both[0] == both[1]
        }
        _ => false,
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

    /// Folders `a` and so on, the first of which has a bundle `x`.
    fn folders(names: &[&str]) -> (tempfile::TempDir, Vec<Location>) {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let made = names.iter().map(|name| folder.path().join(name)).collect::<Vec<_>>();
        made.iter().for_each(|made| fs::create_dir(made).unwrap_or_else(|e| panic!("{e}")));
        put(&made[0].join("x.vtb"));
        (folder, made.into_iter().map(Location::File).collect())
    }

    fn put(path: &Path) {
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-rten-f32-1t.vtb");
        fs::copy(shipped, path).unwrap_or_else(|e| panic!("{e}"));
    }

    #[test]
    fn a_folder_that_cannot_be_read_keeps_its_bundles_and_hinders_no_other() {
        let (folder, places) = folders(&["a", "b"]);
        let (lost, moved) = (folder.path().join("a"), folder.path().join("moved"));
        let registry = BundleRegistry::new(places);
        assert_eq!(registry.refresh(true).loaded, ["x"]);
        fs::rename(&lost, &moved).unwrap_or_else(|e| panic!("{e}"));
        put(&folder.path().join("b/y.vtb"));
        let changes = registry.refresh(false);
        assert_eq!((&*changes.loaded, &*changes.dropped), (&["y".to_owned()][..], &[][..]));
        assert!(
            changes.failed.len() == 1 && changes.failed[0].1.contains("cannot read folder"),
            "{changes:?}"
        );
        assert!(registry.refresh(false).is_empty(), "it is reported once");
        assert_eq!(registry.refresh(true).failed.len(), 1, "unless everything is read");
        assert_eq!(registry.current().keys().collect::<Vec<_>>(), ["x", "y"]);
        fs::rename(&moved, &lost).unwrap_or_else(|e| panic!("{e}"));
        assert!(registry.refresh(false).failed.is_empty());
        fs::remove_file(lost.join("x.vtb")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(registry.refresh(false).dropped, ["x"]);
    }

    #[test]
    fn a_second_file_of_a_name_is_refused_wherever_it_lies() {
        let (folder, places) = folders(&["b", "a"]);
        let registry = BundleRegistry::new(places.iter().rev().cloned().collect());
        assert_eq!(registry.ambiguous(), None);
        registry.refresh(true);
        let second = folder.path().join("a/x.vtb");
        put(&second);
        assert_eq!(registry.ambiguous().as_deref(), Some("x"));
        let changes = registry.refresh(false);
        assert!(changes.loaded.is_empty() && changes.dropped.is_empty(), "{changes:?}");
        let [(location, reason)] = &changes.failed[..] else { panic!("{changes:?}") };
        assert_eq!(location, &Location::File(second.clone()));
        assert!(reason.contains("the name `x` already"), "{reason}");
        assert!(registry.refresh(false).is_empty(), "it is reported once");
        fs::remove_file(folder.path().join("b/x.vtb")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(registry.refresh(false).loaded, ["x"], "the second one takes its place");
        assert_eq!(registry.current()["x"].bundle.location(), &Location::File(second.clone()));
        let twice = BundleRegistry::new(vec![places[1].clone(), Location::File(second)]);
        assert_eq!(twice.ambiguous(), None, "one file, named twice");
        let apart = folder.path().join("x.vtb");
        put(&apart);
        let both = BundleRegistry::new(vec![Location::File(apart), places[1].clone()]);
        assert_eq!(both.ambiguous().as_deref(), Some("x"));
    }
}

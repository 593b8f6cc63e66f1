//! [`Location`]: where a bundle is, and the places in which names are looked up.

use super::{BundleError, near::near};
use serde::{Serialize, Serializer};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use vitempo_graph::files::own_folder;
use vitempo_predictors::LARGEST_BUNDLE_BYTES;

include!(concat!(env!("OUT_DIR"), "/embedded_bundles.rs"));

/// The ending of bundles' files.
pub const EXTENSION: &str = "vtb";
/// Path list of folders with bundles, as `PATH` is one of folders with programs.
pub const VARIABLE: &str = "VITEMPO_BUNDLES";
/// The subfolder for bundles that were adapted from published latencies.
const ADAPTED: &str = "adapted";

/// Where a bundle is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// In a file.
    File(PathBuf),
    /// In this program, under that name.
    Embedded(&'static str),
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Embedded(name) => write!(f, "embedded:{name}"),
        }
    }
}

impl Serialize for Location {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Location {
    /// The location of a bundle by its name, or by the path of its file. A name has no folder and
    /// no `.vtb`; `./NAME` is always a path.
    ///
    /// # Errors
    /// [`BundleError::Unknown`] for a name that no place has and that is no file either;
    /// [`BundleError::NoFolder`] for a name where [`VARIABLE`] lists what is no folder.
    pub fn find(bundle: impl AsRef<Path>) -> Result<Self, BundleError> {
        let path = bundle.as_ref();
        let Some(name) = as_name(path) else { return Ok(Self::File(path.to_owned())) };
        if let Some(folder) = unusable_listed_folders().into_iter().next() {
            return Err(BundleError::NoFolder { variable: VARIABLE, folder });
        }
        let mut known = Self::by_name();
        if let Some(found) = known.remove(name) {
            return Ok(found);
        }
        if path.exists() {
            return Ok(Self::File(path.to_owned()));
        }
        let near = near(name, known.keys().map(String::as_str));
        Err(BundleError::Unknown { name: name.to_owned(), near })
    }

    /// Every bundle that has a name, by name. Of several with one name, the first counts.
    #[must_use]
    pub fn by_name() -> BTreeMap<String, Self> {
        let readable = |folder: PathBuf| files_in(&folder).unwrap_or_default();
        let in_files = folders().into_iter().flat_map(readable);
        let embedded = EMBEDDED.iter().map(|(name, _)| Self::Embedded(name));
        let mut found = BTreeMap::new();
        for location in in_files.chain(embedded) {
            found.entry(location.name()).or_insert(location);
        }
        found
    }

    /// The name of the bundle: that of its file without `.vtb`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => {
                path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Self::Embedded(name) => (*name).to_owned(),
        }
    }

    /// The file; `None` for an embedded bundle.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Embedded(_) => None,
        }
    }

    /// The bundle's bytes.
    pub(super) fn read(&self) -> Result<Cow<'static, [u8]>, BundleError> {
        match self {
            Self::File(path) => self.read_file(path).map(Cow::Owned),
            Self::Embedded(name) => {
                let bytes = EMBEDDED.iter().find(|(other, _)| other == name);
                let (_, bytes) = bytes.ok_or_else(|| BundleError::Unknown {
                    name: (*name).to_owned(),
                    near: Vec::new(),
                })?;
                Ok(Cow::Borrowed(*bytes))
            }
        }
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>, BundleError> {
        let unreadable = |source| BundleError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(LARGEST_BUNDLE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > LARGEST_BUNDLE_BYTES {
            let reason = format!("it is larger than {LARGEST_BUNDLE_BYTES} bytes");
            return Err(BundleError::Format { location: self.clone(), reason });
        }
        Ok(bytes)
    }
}

/// Whether a text is a name instead of a path.
pub(super) fn as_name(path: &Path) -> Option<&str> {
    let is_name = path.components().count() == 1
        && path.file_name() == Some(path.as_os_str())
        && path.extension().is_none_or(|extension| extension != EXTENSION);
    path.to_str().filter(|_| is_name)
}

/// The folders of [`VARIABLE`].
fn listed() -> Vec<PathBuf> {
    let listed = env::var_os(VARIABLE).unwrap_or_default();
    env::split_paths(&listed).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

/// Those of [`VARIABLE`] in which no name can be found, because they are not there or no folders.
#[must_use]
pub fn unusable_listed_folders() -> Vec<PathBuf> {
    listed().into_iter().filter(|folder| !folder.is_dir()).collect()
}

/// The folders in which names are looked for, in this order.
fn folders() -> Vec<PathBuf> {
    let own = own_folder().map(|folder| folder.join("bundles"));
    let program = env::current_exe().ok();
    let places = program.iter().flat_map(|program| program.ancestors().skip(1).take(2));
    let installed = places.map(|place| place.join("share/vitempo/bundles"));
    let folders = listed().into_iter().chain(own).chain(installed);
    folders.flat_map(|folder| [folder.clone(), folder.join(ADAPTED)]).collect()
}

/// The bundles of a folder, sorted.
///
/// # Errors
/// Where the folder cannot be read.
pub fn files_in(folder: &Path) -> io::Result<Vec<Location>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) && !is_hidden(&path) {
            found.push(Location::File(path));
        }
    }
    found.sort();
    Ok(found)
}

/// Hidden files are incomplete ones that are being written.
fn is_hidden(path: &Path) -> bool {
    path.file_name().map(OsStr::to_string_lossy).is_some_and(|name| name.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_from_paths() {
        for name in ["epyc-rten-f32-1t", "galaxy", "a.b"] {
            assert_eq!(as_name(Path::new(name)), Some(name));
        }
        for path in ["a.vtb", "./a", "a/b", "/a", "a/", ".", ".."] {
            assert_eq!(as_name(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn locations_say_where_and_what() {
        let file = Location::File("some/board.vtb".into());
        assert_eq!((file.name(), file.to_string()), ("board".into(), "some/board.vtb".into()));
        let embedded = Location::Embedded("board");
        assert_eq!(
            (embedded.name(), embedded.to_string()),
            ("board".into(), "embedded:board".into())
        );
        assert!(matches!(
            Location::Embedded("nobody").read(),
            Err(BundleError::Unknown { name, .. }) if name == "nobody"
        ));
    }

    #[cfg(feature = "embedded-bundles")]
    #[test]
    fn every_shipped_bundle_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        let files = [folder.clone(), folder.join(ADAPTED)].map(|f| files_in(&f).expect("files"));
        assert_eq!(files.concat().len(), EMBEDDED.len());
        for location in files.concat() {
            let name = location.name();
            let (embedded, _) = EMBEDDED.iter().find(|(n, _)| *n == name).expect("it is embedded");
            assert_eq!(
                Location::Embedded(embedded).read().expect("bytes"),
                location.read().expect("bytes"),
                "{name}"
            );
        }
    }
}

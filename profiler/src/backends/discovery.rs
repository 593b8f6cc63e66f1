//! Finds the shared library of an engine, and checks that it can be used.
//!
//! Order: the library named in the options; `VITEMPO_<ENGINE>`, then the engine's own variables
//! (each a file, or a folder that contains it; a library that is named explicitly is used or
//! refused, and ends the search); the Python packages of `$VIRTUAL_ENV`, `$CONDA_PREFIX`, `./.venv`
//! and `./.tools/venv`; vitempo's own folder, where `vitempo backends install` unpacks wheels
//! (`$VITEMPO_HOME`, `$XDG_DATA_HOME/vitempo` or `~/.local/share/vitempo`, then
//! `engines/<engine>-<version>`); the system's library folders. The first library that passes the
//! engine's own check is taken; when none does, every library found is named with the reason why it
//! was refused.

use std::path::{Path, PathBuf};
use vitempo_graph::files::own_folder;

/// The name of an engine's library, and its place in the wheel.
#[derive(Clone, Copy, Debug)]
pub struct EngineLibrary {
    /// Name in flags and folders, e.g. `onnxruntime`.
    pub engine: &'static str,
    /// Name for people, e.g. `ONNX Runtime`.
    pub title: &'static str,
    /// Variables that the engine itself reads, e.g. `ORT_DYLIB_PATH`.
    pub variables: &'static [&'static str],
    /// Folder of the library below `site-packages`, e.g. `onnxruntime/capi`.
    pub folder: &'static str,
    /// File name without suffix and version: `libonnxruntime` stands for
    /// `libonnxruntime.so.1.31.1`, `libonnxruntime.1.31.1.dylib`, `onnxruntime.dll`.
    pub stem: &'static str,
    /// The required version as text, e.g. `1.24 or newer`.
    pub wanted: &'static str,
}

/// A library that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its file.
    pub path: PathBuf,
    /// Its own version string.
    pub version: String,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What was found.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

impl EngineLibrary {
    /// Finds the library. `explicit` comes from the options; `check` gives the version of the
    /// library in that file, or why it cannot be used.
    ///
    /// # Errors
    /// [`Missing`], which names every library found and why it was refused.
    pub fn find(
        &self,
        explicit: Option<&Path>,
        check: impl Fn(&Path) -> Result<String, String>,
    ) -> Result<Library, Missing> {
        let check = |file: &Path| {
            let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
            check(&path).map(|version| Library { path, version })
        };
        let variables =
            std::iter::once(self.variable()).chain(self.variables.iter().map(|&v| v.to_owned()));
        if let Some(path) =
            explicit.map(Path::to_owned).or_else(|| variables.filter_map(|v| path_in(&v)).next())
        {
            let file = if path.is_dir() {
                self.libraries_below(&path).into_iter().next()
            } else {
                Some(path.clone())
            };
            let absent = || {
                self.missing(format!("there is no {} library at {}", self.title, path.display()))
            };
            return check(&file.filter(|f| f.is_file()).ok_or_else(absent)?)
                .map_err(|reason| self.missing(reason));
        }
        let mut refused = Vec::new();
        for file in self.folders().iter().flat_map(|folder| self.libraries_in(folder)) {
            match check(&file) {
                Ok(library) => return Ok(library),
                Err(reason) => refused.push(reason),
            }
        }
        Err(self.missing(if refused.is_empty() {
            format!("no {} library was found", self.title)
        } else {
            refused.join("; ")
        }))
    }

    /// With what to do about it.
    #[must_use]
    pub fn missing(&self, reason: impl Into<String>) -> Missing {
        let Self { engine, wanted, stem, .. } = self;
        let hint = format!(
            "`vitempo backends install {engine}` fetches it; or set {} to the path of {stem}, \
            version {wanted}",
            self.variable()
        );
        Missing { reason: reason.into(), hint }
    }

    /// The variable that names the library: `VITEMPO_ONNXRUNTIME`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("VITEMPO_{}", self.engine.replace('-', "_").to_uppercase())
    }

    /// Folders that may hold the library, in order.
    fn folders(&self) -> Vec<PathBuf> {
        let environments = [
            path_in("VIRTUAL_ENV"),
            path_in("CONDA_PREFIX"),
            Some(PathBuf::from(".venv")),
            Some(PathBuf::from(".tools/venv")),
        ];
        let mut folders: Vec<PathBuf> = environments
            .iter()
            .flatten()
            .flat_map(|root| site_packages(root))
            .map(|p| p.join(self.folder))
            .collect();
        folders.extend(
            engines_folder()
                .iter()
                .flat_map(|engines| self.installed_in(engines))
                .flat_map(|root| [root.join(self.folder), root]),
        );
        folders.extend(path_list("LD_LIBRARY_PATH"));
        folders.extend(
            ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/opt/homebrew/lib"].map(PathBuf::from),
        );
        folders.push(PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH)));
        folders
    }

    /// Folders of this engine in vitempo's own folder, the highest version first.
    fn installed_in(&self, engines: &Path) -> Vec<PathBuf> {
        let ours = |name: &str| {
            name.strip_prefix(self.engine)
                .is_some_and(|rest| rest.is_empty() || is_version(rest.trim_start_matches('-')))
        };
        newest_first(
            entries(engines).into_iter().filter(|p| p.is_dir() && ours(&file_name(p))).collect(),
        )
    }

    /// Libraries in a folder that was named: in itself, or where a wheel unpacked there has them.
    fn libraries_below(&self, folder: &Path) -> Vec<PathBuf> {
        [folder.to_owned(), folder.join(self.folder)]
            .iter()
            .flat_map(|f| self.libraries_in(f))
            .collect()
    }

    /// Files in `folder` that are called like the library; the highest version first.
    fn libraries_in(&self, folder: &Path) -> Vec<PathBuf> {
        newest_first(
            entries(folder).into_iter().filter(|p| self.is_library(&file_name(p))).collect(),
        )
    }

    fn is_library(&self, name: &str) -> bool {
        let rest = || {
            let rest = name.strip_prefix(self.stem)?;
            rest.strip_prefix(".so").or_else(|| rest.strip_suffix(".dylib"))
        };
        let windows = format!("{}.dll", self.stem.trim_start_matches("lib"));
        rest().is_some_and(|version| {
            version.is_empty() || version.strip_prefix('.').is_some_and(is_version)
        }) || name.eq_ignore_ascii_case(&windows)
    }
}

/// Where vitempo keeps engines it installed.
#[must_use]
pub fn engines_folder() -> Option<PathBuf> {
    own_folder().map(|folder| folder.join("engines"))
}

/// The version of the wheel that `library` came with, for engines that do not report their own:
/// read from the name of `<distribution>-<version>.dist-info` beside the package.
#[must_use]
pub fn wheel_version(library: &Path, distribution: &str) -> Option<String> {
    let named = |path: &PathBuf| {
        let name = file_name(path);
        let version =
            name.strip_prefix(distribution)?.strip_prefix('-')?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    };
    library.ancestors().skip(1).take(4).find_map(|folder| entries(folder).iter().find_map(named))
}

/// Whether version `found` is `least` or newer, number by number: `1.31.1` is newer than `1.24`.
/// Text without a number is older than everything.
#[must_use]
pub fn at_least(found: &str, least: &[u64]) -> bool {
    numbers(found).as_slice() >= least
}

fn path_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

fn path_list(variable: &str) -> Vec<PathBuf> {
    std::env::var_os(variable)
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|p| !p.as_os_str().is_empty())
        .collect()
}

/// `lib/python3*/site-packages`, and `Lib/site-packages` as on Windows; the newest Python first.
fn site_packages(root: &Path) -> Vec<PathBuf> {
    let mut found = newest_first(
        entries(&root.join("lib"))
            .into_iter()
            .filter(|p| file_name(p).starts_with("python3"))
            .collect(),
    );
    found.push(root.join("Lib"));
    found.into_iter().map(|p| p.join("site-packages")).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .map(|dir| dir.flatten().map(|e| e.path()).collect())
        .unwrap_or_default()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn newest_first(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by_key(|p| std::cmp::Reverse((numbers(&file_name(p)), file_name(p))));
    paths
}

/// Digits and dots, from a digit on; a local label such as `+cu130` may follow.
fn is_version(text: &str) -> bool {
    let numbers = text.split('+').next().unwrap_or_default();
    numbers.starts_with(|c: char| c.is_ascii_digit())
        && numbers.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// The numbers in a name, for comparing versions: `libonnxruntime.so.1.31.1` gives 1, 31, 1.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ENGINE: EngineLibrary = EngineLibrary {
        engine: "some-engine",
        title: "Some Engine",
        variables: &[],
        folder: "some/libs",
        stem: "libsome",
        wanted: "2.1 or newer",
    };

    /// Accepts files by their contents: a version from 2.1 on.
    fn check(file: &Path) -> Result<String, String> {
        let version = std::fs::read_to_string(file).unwrap();
        if at_least(&version, &[2, 1]) {
            Ok(version)
        } else {
            Err(format!("{} is version {version}", file.display()))
        }
    }

    fn put(path: &Path, version: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, version).unwrap();
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        for name in [
            "libsome.so",
            "libsome.so.2641",
            "libsome.so.1.31.1",
            "libsome.1.31.1.dylib",
            "libsome.dylib",
            "Some.dll",
        ] {
            assert!(ENGINE.is_library(name), "{name}");
        }
        for name in
            ["libsome_providers.so", "libsome.so.old", "some.py", "libother.so", "libsome.so."]
        {
            assert!(!ENGINE.is_library(name), "{name}");
        }
        assert_eq!(ENGINE.variable(), "VITEMPO_SOME_ENGINE");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (found, enough) in [
            ("1.31.1", true),
            ("1.24", true),
            ("1.24.0", true),
            ("2", true),
            ("1.9", false),
            ("1", false),
            ("what", false),
        ] {
            assert_eq!(at_least(found, &[1, 24]), enough, "{found}");
        }
    }

    #[test]
    fn what_is_named_is_taken_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let absent = ENGINE.find(Some(&folder.path().join("none.so")), check).unwrap_err();
        assert!(
            absent.reason.contains("none.so")
                && absent.hint.contains("backends install some-engine"),
            "{absent:?}"
        );
        assert!(
            ENGINE
                .find(Some(folder.path()), check)
                .unwrap_err()
                .reason
                .contains("no Some Engine library")
        );
        put(&folder.path().join("some/libs/libsome.so.1.0"), "1.0");
        let old = ENGINE.find(Some(folder.path()), check).unwrap_err();
        assert!(
            old.reason.contains("libsome.so.1.0 is version 1.0")
                && old.hint.contains("2.1 or newer"),
            "{old:?}"
        );
        put(&folder.path().join("some/libs/libsome.so.2.9"), "2.9");
        put(&folder.path().join("some/libs/libsome.so.2.10"), "2.10");
        assert_eq!(ENGINE.find(Some(folder.path()), check).unwrap().version, "2.10");
    }

    #[test]
    fn engines_in_the_own_folder_come_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "some-engine-2.9",
            "some-engine-2.10.1",
            "some-engine-2.10.1+cu130",
            "some-engine",
            "some-engine-extra-3.0",
            "other-2.0",
            ".some-engine-4.part",
        ] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let found: Vec<String> =
            ENGINE.installed_in(folder.path()).iter().map(|p| file_name(p)).collect();
        assert_eq!(
            found,
            ["some-engine-2.10.1+cu130", "some-engine-2.10.1", "some-engine-2.9", "some-engine"]
        );
    }

    #[test]
    fn a_wheel_tells_the_version() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("some/libs/libsome.so");
        put(&library, "");
        assert_eq!(wheel_version(&library, "some_wheel"), None);
        std::fs::create_dir(folder.path().join("some_wheel-2.3.0.dist-info")).unwrap();
        assert_eq!(wheel_version(&library, "some_wheel"), Some("2.3.0".to_owned()));
    }
}

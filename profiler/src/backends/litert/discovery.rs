//! Finds LiteRT's library ([`discovery`]) and checks its version.
//!
//! The library does not report its version; its wheel does. Versions before 2.1.6 create models
//! without an environment, by functions of the same names, so that calling them would crash. A
//! function that exists only since 2.1.6 is therefore looked up first.

use super::api::Api;
use crate::backends::discovery::{self, EngineLibrary};
pub use discovery::{Library, Missing};
use std::path::Path;

/// What to look for.
pub const LIBRARY: EngineLibrary = EngineLibrary {
    engine: "litert",
    title: "LiteRT",
    variables: &[],
    folder: "ai_edge_litert",
    stem: "libLiteRt",
    wanted: "2.1.6 or newer",
};

const LEAST: &[u64] = &[2, 1, 6];

/// Finds the library. `explicit` comes from the options.
///
/// # Errors
/// [`Missing`], which names every library found and why it was refused.
pub fn find(explicit: Option<&Path>) -> Result<Library, Missing> {
    LIBRARY.find(explicit, |file| {
        let version = gate(file, discovery::wheel_version(file, "ai_edge_litert"))?;
        Api::load(file)?;
        Ok(version)
    })
}

/// A version that will do; a library that came without a wheel says `unknown`.
fn gate(path: &Path, version: Option<String>) -> Result<String, String> {
    match version {
        Some(version) if discovery::at_least(&version, LEAST) => Ok(version),
        Some(version) => {
            Err(format!("{} is version {version}, but 2.1.6 or newer is needed", path.display()))
        }
        None => Ok("unknown".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_too_old_is_refused() {
        let path = Path::new("/x/libLiteRt.so");
        assert_eq!(gate(path, Some("2.3.0".to_owned())), Ok("2.3.0".to_owned()));
        assert_eq!(gate(path, None), Ok("unknown".to_owned()));
        let old = gate(path, Some("2.1.4".to_owned())).unwrap_err();
        assert!(
            old.contains("/x/libLiteRt.so") && old.contains("2.1.4") && old.contains("2.1.6"),
            "{old}"
        );
    }

    #[test]
    fn what_is_no_library_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("libLiteRt.so");
        std::fs::write(&foreign, b"not a library").unwrap();
        assert!(find(Some(&foreign)).unwrap_err().reason.contains("cannot be opened"));
    }
}

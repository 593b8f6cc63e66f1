//! [`Selection`]: the bundles that texts name: names, paths, globs over both, and `all`.

use super::{BundleError, Location, location::as_name, near::near};
use glob::{MatchOptions, Pattern};
use std::{collections::BTreeMap, path::Path};

/// Selects every bundle that a name finds.
pub const ALL: &str = "all";
/// What makes a text a glob.
const SPECIAL: [char; 3] = ['*', '?', '['];

/// Bundles, each once: in the order of the texts that select them, those of one glob in the order
/// of their names.
///
/// ```
/// use vitempo::bundle::Selection;
///
/// let phones = Selection::of(&["bundles/adapted/samsung-*.vtb"])?;
/// assert!(phones.locations().len() > 1 && phones.single().is_none());
/// # Ok::<(), vitempo::BundleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    locations: Vec<Location>,
    one_named: bool,
}

impl Selection {
    /// The bundles that these texts select. A glob without a folder is one over names; with a
    /// folder or the ending `.vtb` it is one over files.
    ///
    /// # Errors
    /// [`BundleError::Unknown`] for a name that no place has, [`BundleError::NoMatch`] for a glob
    /// that matches nothing, [`BundleError::Glob`] for one that cannot be read.
    pub fn of<S: AsRef<Path>>(texts: &[S]) -> Result<Self, BundleError> {
        let mut locations = Vec::new();
        let mut one_named = texts.len() == 1;
        for text in texts {
            let text = text.as_ref();
            let found = match pattern(text) {
                None => vec![Location::find(text)?],
                Some(pattern) => {
                    one_named = false;
                    matching(text, pattern)?
                }
            };
            for location in found {
                if !locations.contains(&location) {
                    locations.push(location);
                }
            }
        }
        Ok(Self { locations, one_named })
    }

    /// All of them.
    #[must_use]
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// The bundle, where exactly one name or path was given; `None` for several texts, globs and
    /// `all`, however many bundles these select.
    #[must_use]
    pub fn single(&self) -> Option<&Location> {
        self.locations.first().filter(|_| self.one_named)
    }
}

/// The text, where it is `all` or a glob and not a file.
fn pattern(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    (text == ALL || text.contains(SPECIAL) && !path.exists()).then_some(text)
}

fn matching(path: &Path, text: &str) -> Result<Vec<Location>, BundleError> {
    let known = Location::by_name();
    if text == ALL {
        return some(known.into_values().collect(), text, &BTreeMap::new());
    }
    let wrong = |reason: &dyn std::fmt::Display| BundleError::Glob {
        pattern: text.to_owned(),
        reason: reason.to_string(),
    };
    if as_name(path).is_some() {
        let pattern = Pattern::new(text).map_err(|e| wrong(&e))?;
        let options = MatchOptions { case_sensitive: false, ..MatchOptions::default() };
        let matches = known.iter().filter(|(name, _)| pattern.matches_with(name, options));
        return some(matches.map(|(_, location)| location.clone()).collect(), text, &known);
    }
    let mut files: Vec<Location> = glob::glob(text)
        .map_err(|e| wrong(&e))?
        .flatten()
        .filter(|path| path.is_file())
        .map(Location::File)
        .collect();
    files.sort();
    some(files, text, &BTreeMap::new())
}

/// These, where there are some.
fn some(
    found: Vec<Location>,
    text: &str,
    known: &BTreeMap<String, Location>,
) -> Result<Vec<Location>, BundleError> {
    if !found.is_empty() {
        return Ok(found);
    }
    let near = near(text, known.keys().map(String::as_str));
    Err(BundleError::NoMatch { pattern: text.to_owned(), near })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Result<Vec<String>, BundleError> {
        let selection = Selection::of(texts)?;
        Ok(selection.locations().iter().map(Location::name).collect())
    }

    #[test]
    fn globs_over_files_select_each_bundle_once_and_in_order() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        let at = |name: &str| folder.join(name).display().to_string();
        let one = at("epyc-rten-f32-1t.vtb");
        let all = at("epyc-rten-*.vtb");
        let found = names(&[&one, &all]).expect("bundles");
        assert_eq!(found[0], "epyc-rten-f32-1t");
        assert!(found.iter().filter(|name| *name == "epyc-rten-f32-1t").count() == 1, "{found:?}");
        assert!(Selection::of(&[&one]).expect("a bundle").single().is_some());
        assert!(Selection::of(&[&all]).expect("bundles").single().is_none(), "a glob");
        assert!(Selection::of(&[&one, &one]).expect("a bundle").single().is_none(), "two texts");
    }

    #[test]
    fn texts_that_select_nothing_are_refused_by_name() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let nothing = format!("{folder}/bundles/nobody-*.vtb");
        assert!(matches!(names(&[&nothing]),
            Err(BundleError::NoMatch { pattern, .. }) if pattern == nothing));
        assert!(matches!(names(&["[a-"]), Err(BundleError::Glob { .. })));
        assert!(matches!(names(&["nobody"]), Err(BundleError::Unknown { .. })));
    }

    #[cfg(feature = "embedded-bundles")]
    #[test]
    fn names_globs_and_all_select_from_every_place() {
        assert_eq!(names(&["all"]).expect("bundles").len(), Location::by_name().len());
        let phones = names(&["samsung-*", "SAMSUNG-galaxy-*"]).expect("bundles");
        assert!(phones.len() > 1 && phones.iter().all(|name| name.starts_with("samsung-")));
        assert!(matches!(names(&["samsun-galxy-*"]),
            Err(BundleError::NoMatch { near, .. }) if near.iter().all(|n| n.contains("samsung"))
                && !near.is_empty()));
    }
}

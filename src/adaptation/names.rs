//! Names of models: [`SameName`], and those similar to an unknown one, for hints.

use super::Model;
use std::collections::{BTreeMap, BTreeSet};
use strsim::levenshtein;

/// So many are offered.
const OFFERED: usize = 3;

/// Two models of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two of the models are called `{name}`")]
pub struct SameName {
    /// Of both.
    pub name: String,
    /// Their indices among the models.
    pub models: [usize; 2],
}

/// Whether each model has a name of its own.
pub(super) fn distinct(models: &[Model<'_>]) -> Result<(), SameName> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, model) in models.iter().enumerate() {
        if let Some(first) = known.insert(model.name, index) {
            return Err(SameName { name: model.name.to_owned(), models: [first, index] });
        }
    }
    Ok(())
}

/// The known names that contain `name` or are contained in it, or are a few edits away; nearest
/// first, at most three, without regard to case.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let known: BTreeSet<&str> = known.into_iter().collect();
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|known| Some((distance(&wanted, &known.to_lowercase())?, known)))
        .collect();
    near.sort_unstable();
    near.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

/// `None` where two names have little in common.
fn distance(a: &str, b: &str) -> Option<usize> {
    let edits = levenshtein(a, b);
    let contained = !a.is_empty() && !b.is_empty() && (a.contains(b) || b.contains(a));
    (contained || 3 * edits <= a.chars().count().max(3)).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        for (a, b, expected) in [("kitten", "sitting", 3), ("", "abc", 3), ("same", "same", 0)] {
            assert_eq!(levenshtein(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let known = ["pixel3", "pixel4", "Samsung Galaxy S24", "titan_rtx_1"];
        assert_eq!(nearest("pixle4", known), ["pixel4"]);
        assert_eq!(nearest("galaxy s24", known), ["Samsung Galaxy S24"]);
        assert!(nearest("nonsense", known).is_empty());
    }
}

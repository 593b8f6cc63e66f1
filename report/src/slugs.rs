//! [`Slugs`]: names of files from names of anything, each given once.

use std::collections::BTreeSet;

/// Most characters of a name.
const MOST: usize = 80;

/// The names given so far.
#[derive(Default)]
pub struct Slugs {
    given: BTreeSet<String>,
}

impl Slugs {
    /// Lower case letters, digits and dashes. The second thing of a name has `digest` behind it,
    /// where there is one, and a number where that is not enough.
    pub fn unique(&mut self, name: &str, digest: &str) -> String {
        let whole = crate::slug(name);
        let short = whole.get(..MOST).unwrap_or(&whole).trim_matches('-');
        let base = if short.is_empty() { "unnamed" } else { short };
        let digest = crate::slug(digest.get(..8).unwrap_or(digest));
        let longer = if digest.is_empty() { base.to_owned() } else { format!("{base}-{digest}") };
        let numbered = (2..).map(|number| format!("{longer}-{number}"));
        let mut names = [base.to_owned(), longer.clone()].into_iter().chain(numbered);
        // The names never end.
        let free = names.find(|name| !self.given.contains(name)).unwrap_or(longer);
        self.given.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_given_once() {
        let mut slugs = Slugs::default();
        let given = [
            ("ResNet-18", "0123456789abcdef", "resnet-18"),
            ("resnet 18", "fedcba9876543210", "resnet-18-fedcba98"),
            ("resnet_18", "fedcba9876543210", "resnet-18-fedcba98-2"),
            ("resnet-18-fedcba98", "00", "resnet-18-fedcba98-00"),
            ("../../x", "", "x"),
            ("x", "", "x-2"),
            ("<script>", "", "script"),
            ("\u{4e00}", "", "unnamed"),
            ("", "", "unnamed-2"),
        ];
        for (name, digest, expected) in given {
            assert_eq!(slugs.unique(name, digest), expected, "{name}");
        }
        let long = slugs.unique(&"n".repeat(5000), "");
        assert_eq!(long.len(), MOST);
    }
}

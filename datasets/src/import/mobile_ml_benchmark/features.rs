//! [`Features`]: the publishers' description of an operator, a Python dict such as `{'Input_shape':
//! '224', 'Input_channel': 3, 'Stride': '-'}`.
//!
//! Names differ between frameworks in case only. A value is kept as text without its quotes; `-`
//! and `None` mean an absent value.

use std::collections::BTreeMap;

/// Longest dict that is read: real ones have a few hundred characters.
const LONGEST: usize = 1 << 16;

/// Features by name, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Features(BTreeMap<String, String>);

impl Features {
    /// Reads a dict of quoted names, and of numbers, quoted texts, lists or tuples.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "-" {
            return Ok(Self::default());
        }
        let inside = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|_| text.len() < LONGEST);
        let mut rest = inside.ok_or("it is not a dict in braces")?.trim_start();
        let mut features = BTreeMap::new();
        while !rest.is_empty() {
            let (name, after) = quoted(rest)
                .ok_or_else(|| format!("no quoted name where `{}` stands", start(rest)))?;
            let after = after
                .trim_start()
                .strip_prefix(':')
                .ok_or_else(|| format!("no colon after `{name}`"))?;
            let (value, after) =
                value(after.trim_start()).ok_or_else(|| format!("no value of `{name}`"))?;
            features.insert(name.to_lowercase(), value.trim().to_owned());
            rest = match after.trim_start() {
                "" => "",
                after => after
                    .strip_prefix(',')
                    .ok_or_else(|| format!("no comma after `{name}`"))?
                    .trim_start(),
            };
        }
        Ok(Self(features))
    }

    /// All that say something.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(_, value)| said(value))
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        names
            .iter()
            .find_map(|name| self.0.get(*name))
            .map(String::as_str)
            .filter(|value| said(value))
    }

    /// The sizes in the first of these features that exists: one, or a list.
    pub(super) fn sizes(&self, names: &[&str]) -> Option<Vec<usize>> {
        let text = self.text(names)?;
        let inside = text.trim_matches(|c| "()[]".contains(c));
        let sizes: Option<Vec<usize>> = inside
            .split([',', 'x', '*', ' '])
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(size)
            .collect();
        sizes.filter(|sizes| !sizes.is_empty())
    }

    /// The same, if it is a single number.
    pub(super) fn size(&self, names: &[&str]) -> Option<usize> {
        match self.sizes(names)?.as_slice() {
            [size] => Some(*size),
            _ => None,
        }
    }

    /// The same for height and width: a single number means both.
    pub(super) fn pair(&self, names: &[&str]) -> Option<[usize; 2]> {
        match self.sizes(names)?.as_slice() {
            [size] => Some([*size, *size]),
            [height, width] => Some([*height, *width]),
            _ => None,
        }
    }
}

fn said(value: &str) -> bool {
    !matches!(value, "" | "-" | "None" | "nan")
}

/// A whole number; Python may have written it as a float.
fn size(text: &str) -> Option<usize> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

fn start(text: &str) -> String {
    text.chars().take(20).collect()
}

/// A text in single or double quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    text.get(1..)?.split_once(quote)
}

/// A quoted text, a list or tuple, or a bare word, and what follows it.
fn value(text: &str) -> Option<(&str, &str)> {
    if let Some(found) = quoted(text) {
        return Some(found);
    }
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            '\'' | '"' | ':' if depth == 0 => return None,
            ',' if depth == 0 => return Some(text.split_at(at)).filter(|_| at > 0),
            _ => {}
        }
    }
    (depth == 0 && !text.is_empty()).then_some((text, ""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_styles_are_read() {
        let lite = Features::parse("{'Input_shape': '224', 'Input_channel': 3, 'Stride': '-', 'Kernel': '(3, 5)', 'Shape': [1, 197, 64]}").unwrap();
        assert_eq!(
            (lite.size(&["input_shape"]), lite.size(&["input_channel"]), lite.size(&["stride"])),
            (Some(224), Some(3), None)
        );
        assert_eq!(
            (lite.pair(&["kernel"]), lite.pair(&["input_shape"])),
            (Some([3, 5]), Some([224, 224]))
        );
        assert_eq!(
            (lite.sizes(&["none", "shape"]), lite.iter().count()),
            (Some(vec![1, 197, 64]), 4)
        );
        let torch = Features::parse("{\"input_channel\": 64.0, 'input_shape': '14x7',}").unwrap();
        assert_eq!(
            (torch.size(&["input_channel"]), torch.sizes(&["input_shape"])),
            (Some(64), Some(vec![14, 7]))
        );
        for nothing in ["", "-", "{}", " - "] {
            assert_eq!(Features::parse(nothing), Ok(Features::default()), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_dict_is_said() {
        for wrong in [
            "x",
            "{",
            "{'a'}",
            "{'a': }",
            "{'a': 1 'b': 2}",
            "{a: 1}",
            "{'a': [1}",
            "{'a': 1)}",
            "{'a': (1, 2}",
            "{'\u{e4}': \u{e4}'}x",
        ] {
            assert!(Features::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            Features::parse("{'a': '-3', 'b': '1e9', 'c': '99999999999999999999999'}")
                .unwrap()
                .size(&["a", "b"]),
            None
        );
    }
}

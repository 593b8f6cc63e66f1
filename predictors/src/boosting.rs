//! [`Boosting`]: the hyper-parameters of boosted trees, for searches over held-out error.

use crate::PredictorError;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// Hyper-parameters of boosted trees; those that are `None` are the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Boosting {
    /// Trees of a regressor; by default 100, 200 or 400, by its rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trees: Option<u32>,
    /// Most leaves of a tree; by default 31. With at most 32, forests are forecast fastest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u32>,
    /// Learning rate; by default 10 / trees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Fewest rows of a leaf; by default 3 to 10, by the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_in_leaf: Option<u32>,
    /// L2 penalty of the values of leaves; by default 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<f64>,
    /// Share of the columns that a tree sees; by default 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<f64>,
}

/// A hyper-parameter: its name, its value where it is given, and the least and the largest value.
type Named = (&'static str, Option<f64>, f64, f64);

impl Boosting {
    /// The usual ones.
    pub const USUAL: Self = Self {
        trees: None,
        leaves: None,
        learning_rate: None,
        rows_in_leaf: None,
        l2: None,
        columns: None,
    };

    /// Whether all are the usual ones.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    fn named(&self) -> [Named; 6] {
        [
            ("trees", self.trees.map(f64::from), 1.0, 10_000.0),
            ("leaves", self.leaves.map(f64::from), 2.0, 128.0),
            ("learning_rate", self.learning_rate, 1e-4, 1.0),
            ("rows_in_leaf", self.rows_in_leaf.map(f64::from), 1.0, 1e6),
            ("l2", self.l2, 0.0, 1e6),
            ("columns", self.columns, 0.01, 1.0),
        ]
    }

    /// # Errors
    /// [`PredictorError::Option`] for a value out of its range.
    pub(crate) fn check(&self) -> Result<(), PredictorError> {
        for (option, value, least, most) in self.named() {
            if value.is_some_and(|v| !(least..=most).contains(&v)) {
                let reason = format!("must lie between {least} and {most}");
                return Err(PredictorError::Option { option, reason });
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "trees" => self.trees = read(name, value)?,
            "leaves" => self.leaves = read(name, value)?,
            "learning_rate" => self.learning_rate = read(name, value)?,
            "rows_in_leaf" => self.rows_in_leaf = read(name, value)?,
            "l2" => self.l2 = read(name, value)?,
            "columns" => self.columns = read(name, value)?,
            _ => {
                let known = self.named().map(|(name, ..)| name).join(", ");
                return Err(format!("`{name}` is none of {known}"));
            }
        }
        Ok(())
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<Option<T>, String> {
    value.parse().map(Some).map_err(|_| format!("`{value}` is no value of {name}"))
}

/// `trees=200,leaves=15`; nothing where all are the usual ones.
impl fmt::Display for Boosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.named().into_iter().filter_map(|(name, v, ..)| Some((name, v?)));
        let texts: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
        f.pad(&texts.join(","))
    }
}

impl FromStr for Boosting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut boosting = Self::default();
        let mut names = BTreeSet::new();
        for given in text.split(',').filter(|given| !given.trim().is_empty()) {
            let (name, value) =
                given.split_once('=').ok_or_else(|| format!("`{given}`: expected NAME=VALUE"))?;
            if !names.insert(name.trim()) {
                return Err(format!("`{}` has two values", name.trim()));
            }
            boosting.set(name.trim(), value.trim())?;
        }
        boosting.check().map_err(|error| error.to_string())?;
        Ok(boosting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_which_are_not_usual() {
        let text = "trees=200,leaves=15,learning_rate=0.05,rows_in_leaf=5,l2=2,columns=0.5";
        let all: Boosting = text.parse().expect("hyper-parameters");
        assert_eq!((all.trees, all.columns, all.to_string()), (Some(200), Some(0.5), text.into()));
        assert!("".parse::<Boosting>().expect("none").is_usual());
        for (text, why) in [
            ("trees", "NAME=VALUE"),
            ("trees=many", "no value of trees"),
            ("trees=-1", "no value of trees"),
            ("leaves=1", "between 2 and 128"),
            ("columns=NaN", "between 0.01 and 1"),
            ("trees=5,trees=6", "`trees` has two values"),
            ("depth=3", "none of trees, leaves"),
        ] {
            let error = text.parse::<Boosting>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

//! [`Checker`]: checks the values of a space's TOML, with the same messages for every family.

use crate::SpaceError;
use crate::choices::Choices;
use crate::values::Values;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Checks values and remembers which file they are from.
pub(crate) struct Checker<'a> {
    file: &'a str,
}

/// Numbers of attention heads, as a space's TOML bounds them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heads {
    max: u8,
    #[serde(default = "one")]
    min_channels: u16,
}

fn one() -> u16 {
    1
}

impl<'a> Checker<'a> {
    /// Of a file that errors call `file`.
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file }
    }

    /// A family's definition from the text of the file.
    pub(crate) fn definition<T: DeserializeOwned>(&self, text: &str) -> Result<T, SpaceError> {
        toml::from_str(text).map_err(|e| SpaceError::Toml {
            file: self.file.to_owned(),
            reason: e.to_string().trim_end().to_owned(),
        })
    }

    pub(crate) fn refuse<T>(
        &self,
        key: &str,
        problem: String,
        allowed: impl Into<String>,
    ) -> Result<T, SpaceError> {
        Err(SpaceError::Invalid {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem,
            allowed: allowed.into(),
        })
    }

    /// The name of a space: fit for file names.
    pub(crate) fn name(&self, name: &str) -> Result<String, SpaceError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return self.refuse(
                "name",
                format!("is `{name}`"),
                "letters, digits, `-`, `_` and `.`, at least one",
            );
        }
        Ok(name.to_owned())
    }

    /// The value as a smaller type, when it lies in `1..=max`.
    pub(crate) fn number<T: TryFrom<u32>>(
        &self,
        key: &str,
        value: u32,
        max: u32,
    ) -> Result<T, SpaceError> {
        match T::try_from(value) {
            Ok(small) if (1..=max).contains(&value) => Ok(small),
            _ => self.refuse(key, format!("is {value}"), format!("1 to {max}")),
        }
    }

    /// The values as a smaller type, when all lie in `min..=max`.
    pub(crate) fn numbers<T: TryFrom<u32> + Copy + Into<usize>>(
        &self,
        key: &str,
        choices: &Choices,
        min: u32,
        max: u32,
    ) -> Result<Values<T>, SpaceError> {
        let number = |&value: &u32| match T::try_from(value) {
            Ok(small) if (min..=max).contains(&value) => Ok(small),
            _ => self.refuse(key, format!("has {value}"), format!("{min} to {max}")),
        };
        choices.values().iter().map(number).collect::<Result<_, _>>().map(Values::new)
    }

    /// Distinct words, at least one.
    pub(crate) fn words<T: PartialEq + Copy>(
        &self,
        key: &str,
        words: &[T],
        known: &str,
    ) -> Result<Vec<T>, SpaceError> {
        let repeated = words.iter().enumerate().any(|(i, word)| words[..i].contains(word));
        match words {
            [] => self.refuse(key, "is empty".to_owned(), format!("one or more of {known}")),
            _ if repeated => self.refuse(
                key,
                "lists a value twice".to_owned(),
                format!("each of {known} at most once"),
            ),
            _ => Ok(words.to_vec()),
        }
    }

    /// For each of `channels`, the numbers of heads it allows.
    pub(crate) fn heads(
        &self,
        key: &str,
        heads: &Heads,
        channels: &Values<u16>,
    ) -> Result<Vec<Values<u8>>, SpaceError> {
        if heads.max == 0 || heads.min_channels == 0 {
            return self.refuse(key, "has 0".to_owned(), "max and min_channels of 1 or more");
        }
        Ok(channels.iter().map(|&c| heads.of(c)).collect())
    }
}

impl Heads {
    /// The divisors of `channels` up to `max` that leave `min_channels` to each head; 1 in any
    /// case.
    fn of(&self, channels: u16) -> Values<u8> {
        let fits = |&h: &u8| {
            h == 1
                || (channels.is_multiple_of(u16::from(h))
                    && channels / u16::from(h) >= self.min_channels)
        };
        Values::new((1..=self.max).filter(fits).collect())
    }
}

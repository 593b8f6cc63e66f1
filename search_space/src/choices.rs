//! [`Choices`]: the values that a number of a search space may take, written in TOML as a list or
//! as a range with both ends included.

use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// More values than this for one number is taken for a slip of the pen.
const MOST: usize = 65_536;

/// Distinct values in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choices(Vec<u32>);

impl Choices {
    pub(crate) fn values(&self) -> &[u32] {
        &self.0
    }

    fn new(mut values: Vec<u32>) -> Result<Self, String> {
        values.sort_unstable();
        match values.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} is listed twice", pair[0])),
            None if values.is_empty() => {
                Err("the list of values is empty; give at least one".to_owned())
            }
            None if values.len() > MOST => {
                Err(format!("{} values are more than {MOST}", values.len()))
            }
            None => Ok(Self(values)),
        }
    }

    fn range(range: &Range) -> Result<Self, String> {
        let Range { min, max, step } = *range;
        if step == 0 {
            return Err("step is 0; it must be 1 or more".to_owned());
        }
        if min > max {
            return Err(format!("the range is empty: min {min} is above max {max}"));
        }
        if (max - min) / step >= MOST as u32 {
            return Err(format!(
                "a range from {min} to {max} in steps of {step} has more than {MOST} values"
            ));
        }
        Self::new((min..=max).step_by(step as usize).collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    min: u32,
    max: u32,
    #[serde(default = "one")]
    step: u32,
}

fn one() -> u32 {
    1
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = Choices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers, [1, 3, 5], or a range, { min = 16, max = 32, step = 8 }")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Choices, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Choices::new(values).map_err(de::Error::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, access: A) -> Result<Choices, A::Error> {
        let range = Range::deserialize(de::value::MapAccessDeserializer::new(access))?;
        Choices::range(&range).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Holder {
        x: Choices,
    }

    #[test]
    fn lists_and_ranges() {
        let cases: [(&str, Result<&[u32], &str>); 11] = [
            ("x = [1, 3, 5]", Ok(&[1, 3, 5])),
            ("x = [5, 1]", Ok(&[1, 5])),
            ("x = { min = 1, max = 3 }", Ok(&[1, 2, 3])),
            ("x = { min = 16, max = 33, step = 8 }", Ok(&[16, 24, 32])),
            ("x = []", Err("list of values is empty")),
            ("x = [2, 2]", Err("2 is listed twice")),
            ("x = { min = 3, max = 1 }", Err("min 3 is above max 1")),
            ("x = { min = 3, max = 4, step = 0 }", Err("step is 0")),
            ("x = { min = 0, max = 4294967295 }", Err("more than 65536 values")),
            ("x = { min = 0, max = 4, stop = 1 }", Err("unknown field `stop`")),
            ("x = \"all\"", Err("a list of numbers")),
        ];
        for (text, expected) in cases {
            match (toml::from_str::<Holder>(text), expected) {
                (Ok(holder), Ok(values)) => assert_eq!(holder.x.values(), values, "{text}"),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{text}: {error}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }
}

//! [`Recipe`]: how a variant is made from the base model: `dense`, `int8`, `integer`,
//! `structured=50%`, `masked=80%`, or several joined by `+`.

use super::ZooError;
use std::{fmt, str::FromStr};
use vitempo_graph::{
    Graph,
    quantity::{self, QuantityError},
    quantize::{self, Options, Values},
    sparsify,
};

/// Steps from the base model to a variant; if empty, the base model itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe(Vec<Step>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// Static int8, Q/DQ pairs.
    Int8,
    /// Integer products, with ranges computed at run time.
    Integer,
    /// Channels and features removed, percent.
    Structured(f64),
    /// Smallest weights set to 0, percent.
    Masked(f64),
}

/// Why a text is not a recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRecipeError {
    /// A step that does not exist.
    #[error(
        "`{0}` is not a recipe; expected dense, int8, integer, structured=50%, masked=80%, or \
         several joined by `+`"
    )]
    Unknown(String),
    /// A share of 0 % or 100 %.
    #[error("`{0}`: a share lies above 0 % and below 100 %")]
    Share(String),
    /// A step after quantising.
    #[error("`{0}`: quantise last, weights that are integers are not pruned")]
    Order(String),
    /// Two shares of the same smallest weights.
    #[error("`{0}`: weights are masked twice; write the larger share alone")]
    Masked(String),
}

impl FromStr for Recipe {
    type Err = ParseRecipeError;

    fn from_str(text: &str) -> Result<Self, ParseRecipeError> {
        if text == "dense" {
            return Ok(Self(Vec::new()));
        }
        let steps: Vec<Step> = text.split('+').map(step).collect::<Result<_, _>>()?;
        if steps.windows(2).any(|pair| matches!(pair, [Step::Masked(_), Step::Masked(_)])) {
            return Err(ParseRecipeError::Masked(text.to_owned()));
        }
        match steps.iter().position(|step| matches!(step, Step::Int8 | Step::Integer)) {
            Some(index) if index + 1 < steps.len() => Err(ParseRecipeError::Order(text.to_owned())),
            _ => Ok(Self(steps)),
        }
    }
}

fn step(text: &str) -> Result<Step, ParseRecipeError> {
    let unknown = || ParseRecipeError::Unknown(text.to_owned());
    let (kind, percent) = match text.split_once('=') {
        Some((kind, share)) => match quantity::percent(share) {
            Ok(percent) => (kind, Some(percent)),
            Err(QuantityError::Range(_)) => return Err(ParseRecipeError::Share(text.to_owned())),
            Err(_) => return Err(unknown()),
        },
        None => (text, None),
    };
    match (kind, percent) {
        (_, Some(percent)) if !(percent > 0.0 && percent < 100.0) => {
            Err(ParseRecipeError::Share(text.to_owned()))
        }
        ("int8", None) => Ok(Step::Int8),
        ("integer", None) => Ok(Step::Integer),
        ("structured", Some(percent)) => Ok(Step::Structured(percent)),
        ("masked", Some(percent)) => Ok(Step::Masked(percent)),
        _ => Err(unknown()),
    }
}

/// Writes the recipe as a name: `structured-50-int8`.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = |step: &Step| match step {
            Step::Int8 => "int8".to_owned(),
            Step::Integer => "integer".to_owned(),
            Step::Structured(percent) => format!("structured-{percent}"),
            Step::Masked(percent) => format!("masked-{percent}"),
        };
        let name = self.0.iter().map(step).collect::<Vec<_>>().join("-");
        f.pad(if name.is_empty() { "dense" } else { &name })
    }
}

impl Recipe {
    /// Makes the variant, under its name. Tensors at the cuts keep their shapes. Values of weights
    /// that the model lacks follow from the seed.
    ///
    /// # Errors
    /// [`ZooError::Sparsify`] and [`ZooError::Graph`] where a step does not suit the model.
    pub fn apply(&self, base: &Graph, cuts: &[String], seed: u64) -> Result<Graph, ZooError> {
        let keep: Vec<&str> = cuts.iter().map(String::as_str).collect();
        let options = Options { values: Values::Seeded(seed), ..Options::default() };
        let mut graph = base.clone();
        for step in &self.0 {
            graph = match step {
                Step::Int8 => quantize::qdq(&graph, &options)?,
                Step::Integer => quantize::integer(&graph, &options)?,
                Step::Structured(percent) => sparsify::structured(&graph, percent / 100.0, &keep)?,
                Step::Masked(percent) => sparsify::masked(&graph, percent / 100.0)?,
            };
        }
        Ok(graph.with_name(self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read_and_named() {
        for (text, name) in [
            ("dense", "dense"),
            ("int8", "int8"),
            ("structured=50%", "structured-50"),
            ("structured=12.5%+int8", "structured-12.5-int8"),
        ] {
            assert_eq!(text.parse::<Recipe>().map(|r| r.to_string()), Ok(name.to_owned()));
        }
        let cases = [
            ("fp4", "is not a recipe"),
            ("masked=0%", "above 0 %"),
            ("masked=50", "is not a recipe"),
            ("int8+masked=50%", "quantise last"),
            ("masked=50%+masked=80%", "masked twice"),
            ("dense=5%", "is not a recipe"),
        ];
        for (text, expected) in cases {
            assert!(
                text.parse::<Recipe>().is_err_and(|e| e.to_string().contains(expected)),
                "{text}"
            );
        }
    }
}

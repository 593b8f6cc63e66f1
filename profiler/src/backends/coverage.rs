//! [`Coverage`]: which operators of a model a processor takes, and who runs the others.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One operator and who runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// The engine's name for who runs it, e.g. `QNNExecutionProvider`.
    pub provider: String,
    /// The operator's node.
    pub node: String,
    /// The operator, e.g. `Conv`.
    pub operator: String,
}

/// Which operators of a model an NPU takes. Operators are those of the model that was compiled, its
/// Q and DQ and the engine's transpositions included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Operators on the NPU.
    pub taken: Vec<Assigned>,
    /// Operators left to another processor.
    pub left: Vec<Assigned>,
}

impl Coverage {
    /// Whether the NPU runs the whole model.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.left.is_empty() && !self.taken.is_empty()
    }
}

/// How many of each operator.
#[must_use]
pub fn counts(operators: &[Assigned]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    operators.iter().for_each(|o| *counts.entry(o.operator.as_str()).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_counted_and_the_whole_is_told_from_a_part() {
        let assigned = |operator: &str| Assigned {
            provider: "NPU".into(),
            node: "n".into(),
            operator: operator.into(),
        };
        let all = Coverage {
            taken: vec![assigned("Conv"), assigned("Relu"), assigned("Conv")],
            left: Vec::new(),
        };
        assert_eq!(counts(&all.taken).into_iter().collect::<Vec<_>>(), [("Conv", 2), ("Relu", 1)]);
        assert!(all.whole() && !Coverage::default().whole());
        assert!(!Coverage { left: vec![assigned("Erf")], ..all }.whole());
    }
}

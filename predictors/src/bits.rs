//! Writes floats as their 64 bits in JSON, so that they are loaded exactly as they were saved.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_bits().serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    u64::deserialize(deserializer).map(f64::from_bits)
}

/// The same for coefficients by column.
pub(crate) mod by_column {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[(usize, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values.iter().map(|(i, v)| (*i, v.to_bits())).collect::<Vec<_>>().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(usize, f64)>, D::Error> {
        Ok(Vec::<(usize, u64)>::deserialize(deserializer)?
            .into_iter()
            .map(|(i, v)| (i, f64::from_bits(v)))
            .collect())
    }
}

/// The same for ranges.
pub(crate) mod ranges {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[(f64, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values
            .iter()
            .map(|(a, b)| (a.to_bits(), b.to_bits()))
            .collect::<Vec<_>>()
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(f64, f64)>, D::Error> {
        Ok(Vec::<(u64, u64)>::deserialize(deserializer)?
            .into_iter()
            .map(|(a, b)| (f64::from_bits(a), f64::from_bits(b)))
            .collect())
    }
}

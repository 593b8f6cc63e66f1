//! Floats in JSON without loss: JSON has no infinities and no NaN, but models do (masks of minus
//! infinity, clips without a bound).
//!
//! Finite floats are JSON numbers; the others are the texts `inf`, `-inf` and `nan`. Used with
//! `#[serde(with = "exact_floats")]` for lists, and by the JSON of [`crate::Attribute`], which
//! wraps them in an object to distinguish them from texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// One float as JSON holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Exact {
    Finite(f64),
    Text(String),
}

impl From<f64> for Exact {
    fn from(value: f64) -> Self {
        match value {
            v if v.is_finite() => Self::Finite(v),
            v if v.is_nan() => Self::Text("nan".to_owned()),
            v if v > 0.0 => Self::Text("inf".to_owned()),
            _ => Self::Text("-inf".to_owned()),
        }
    }
}

impl TryFrom<Exact> for f64 {
    type Error = String;

    fn try_from(value: Exact) -> Result<Self, String> {
        match value {
            Exact::Finite(v) => Ok(v),
            Exact::Text(text) => match text.as_str() {
                "nan" => Ok(Self::NAN),
                "inf" => Ok(Self::INFINITY),
                "-inf" => Ok(Self::NEG_INFINITY),
                other => Err(format!("`{other}` is not a float")),
            },
        }
    }
}

/// Writes a list.
pub(crate) fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&v| Exact::from(v)))
}

/// Reads a list.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Exact>::deserialize(deserializer)?;
    values.into_iter().map(|v| f64::try_from(v).map_err(D::Error::custom)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{Attribute, ConstantData};

    #[test]
    fn every_float_survives_json() {
        let floats = [
            0.1,
            -0.0,
            1.0,
            9.999_999_747_378_752e-6,
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let mut attributes: Vec<Attribute> = floats.iter().map(|&v| Attribute::Float(v)).collect();
        attributes.extend([
            Attribute::Floats(floats.to_vec()),
            Attribute::Int(-3),
            Attribute::Text("inf".into()),
            Attribute::Ints([1, 2].as_slice().into()),
        ]);
        for attribute in attributes {
            let json = serde_json::to_string(&attribute).unwrap();
            assert_eq!(serde_json::from_str::<Attribute>(&json).unwrap(), attribute, "{json}");
        }
        let json = serde_json::to_string(&ConstantData::Floats(floats.to_vec())).unwrap();
        let ConstantData::Floats(back) = serde_json::from_str(&json).unwrap() else {
            panic!("{json}")
        };
        assert!(back.iter().zip(&floats).all(|(a, b)| a.to_bits() == b.to_bits()), "{json}");
        assert!(serde_json::from_str::<ConstantData>("{\"Floats\":[\"big\"]}").is_err());
    }
}

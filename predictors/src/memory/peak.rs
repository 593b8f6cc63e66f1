//! A peak of memory in JSON, whose upper end is `null` where it has none.

use super::UNBOUNDED_BYTES;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use vitempo_graph::Interval;

#[derive(Serialize, Deserialize)]
struct Ends {
    point: u64,
    lower: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    upper: Option<u64>,
}

pub(super) fn serialize<S: Serializer>(
    peak: &Interval<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let upper = Some(peak.upper()).filter(|&bytes| bytes != UNBOUNDED_BYTES);
    Ends { point: peak.point(), lower: peak.lower(), upper }.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(peak: D) -> Result<Interval<u64>, D::Error> {
    let Ends { point, lower, upper } = Ends::deserialize(peak)?;
    Interval::checked(point, lower, upper.unwrap_or(UNBOUNDED_BYTES)).map_err(D::Error::custom)
}

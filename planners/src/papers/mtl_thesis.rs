//! A. Funk, "Efficient Multi-Task Learning for Augmented Reality" (thesis, Brown University):
//! multi-task models split over a phone's CPU and NPU.
//!
//! [`claims`] recomputes its percentages; [`frame_rates()`] lets the simulator find its frame
//! rates; [`sustained_rates`] is where the simulator's estimates are put to the test.

mod frame_rates;
mod percentages;
mod sustained;

pub use frame_rates::{Fitted, FrameRates, frame_rates, pipelined_rates};
pub use percentages::claims;
pub use sustained::sustained_rates;

use crate::{simulator::ScenarioError, stitch::StitchError};
use serde::Deserialize;

/// A model run as one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Whole {
    pub table: String,
    pub model: String,
    pub processor: String,
    pub inference_ms: f64,
    /// With postprocessing.
    pub runtime_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
    pub delta_c: f64,
}

/// A model run as encoder and decoders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SplitRow {
    pub table: String,
    pub encoder: String,
    pub decoders: String,
    pub encoder_ms: f64,
    /// Encoder, waiting, decoders and postprocessing.
    pub both_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
    pub delta_c: f64,
    /// Table 4.7, pipelined rows only.
    pub percent_of_both: Option<f64>,
    pub percent_of_twice_encoder: Option<f64>,
}

/// Ten seconds of the switching policy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Switching {
    pub processor: String,
    pub frames_per_s: f64,
    pub final_c: f64,
}

/// Tables 3.2 and 3.3.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Device {
    pub name: String,
    pub inference_ms: f64,
    pub frames_per_s: f64,
    pub energy_mwh: f64,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Tables {
    pub whole: Vec<Whole>,
    pub split: Vec<SplitRow>,
    pub switching: Vec<Switching>,
    pub device: Vec<Device>,
}

/// Why the paper's rows cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum PaperError {
    #[error("the shipped table of the paper is damaged: {0}")]
    Table(#[from] toml::de::Error),
    #[error("the shipped table of the paper has no row for {0}")]
    Row(String),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Stitch(#[from] StitchError),
}

impl Tables {
    /// The tables as shipped.
    ///
    /// # Errors
    /// [`PaperError::Table`] when the shipped file is damaged.
    pub fn shipped() -> Result<Self, PaperError> {
        Ok(toml::from_str(include_str!("../../data/mtl_thesis.toml"))?)
    }

    fn whole(&self, model: &str, processor: &str) -> Result<&Whole, PaperError> {
        let found = self.whole.iter().find(|w| w.model == model && w.processor == processor);
        found.ok_or_else(|| PaperError::Row(format!("{model} on {processor}")))
    }

    fn split(&self, table: &str, encoder: &str, decoders: &str) -> Result<&SplitRow, PaperError> {
        let found = self
            .split
            .iter()
            .find(|s| s.table == table && s.encoder == encoder && s.decoders == decoders);
        found.ok_or_else(|| PaperError::Row(format!("{encoder}-{decoders} in table {table}")))
    }
}

const PAIRS: [(&str, &str); 4] = [("npu", "cpu"), ("npu", "npu"), ("cpu", "cpu"), ("cpu", "npu")];
const SEQUENTIAL: &str = "4.5";
const PIPELINED: &str = "4.6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switching_by_temperature_lost_frames_in_the_thesis_too() {
        let tables = Tables::shipped().expect("the shipped tables");
        let rates: Vec<f64> = tables.switching.iter().map(|s| s.frames_per_s).collect();
        assert!(rates[2..].iter().all(|after| rates[..2].iter().all(|before| after < before)));
        assert!(tables.switching.windows(2).all(|w| w[1].final_c >= w[0].final_c));
    }
}

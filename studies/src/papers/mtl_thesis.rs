//! A. Funk, "Efficient Multi-Task Learning for Augmented Reality" (thesis, Brown University):
//! multi-task models split over a phone's CPU and NPU.
//!
//! [`claims`] recomputes its percentages; [`frame_rates()`] lets the simulator find its frame
//! rates; [`sustained`] is where the simulator's estimates are put to the test.

mod frame_rates;
mod percentages;
mod sustained;

pub use frame_rates::{Fitted, FrameRates, frame_rates, pipelined_rates};
pub use percentages::claims;
pub use sustained::{Sustained, sustained, sustained_rates};

use super::PaperError;
use serde::Deserialize;

/// A model run as one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whole {
    /// Number of the table.
    pub table: String,
    /// Name of the model.
    pub model: String,
    /// `cpu` or `npu`.
    pub processor: String,
    /// Of one frame, ms.
    pub inference_ms: f64,
    /// With postprocessing.
    pub runtime_ms: f64,
    /// Results per second.
    pub frames_per_s: f64,
    /// As printed, mWh.
    pub energy_mwh: f64,
    /// How much warmer the phone got, K.
    pub delta_c: f64,
}

/// A model run as encoder and decoders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRow {
    /// Number of the table.
    pub table: String,
    /// Processor of the encoder.
    pub encoder: String,
    /// Processor of the decoders.
    pub decoders: String,
    /// The encoder, ms.
    pub encoder_ms: f64,
    /// Encoder, waiting, decoders and postprocessing.
    pub both_ms: f64,
    /// Results per second.
    pub frames_per_s: f64,
    /// As printed, mWh.
    pub energy_mwh: f64,
    /// How much warmer the phone got, K.
    pub delta_c: f64,
    /// Table 4.7, pipelined rows only.
    pub percent_of_both: Option<f64>,
    /// As `percent_of_both`.
    pub percent_of_twice_encoder: Option<f64>,
}

/// Ten seconds of the switching policy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switching {
    /// `cpu` or `npu`.
    pub processor: String,
    /// Results per second.
    pub frames_per_s: f64,
    /// Temperature at the end, degrees Celsius.
    pub final_c: f64,
}

/// Tables 3.2 and 3.3.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name of the device.
    pub name: String,
    /// Of one frame, ms.
    pub inference_ms: f64,
    /// Results per second.
    pub frames_per_s: f64,
    /// As printed, mWh.
    pub energy_mwh: f64,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Models run as one.
    pub whole: Vec<Whole>,
    /// Models run as encoder and decoders.
    pub split: Vec<SplitRow>,
    /// The switching policy.
    pub switching: Vec<Switching>,
    /// Other devices.
    pub device: Vec<Device>,
}

impl Tables {
    /// The tables as printed.
    ///
    /// # Errors
    /// [`PaperError::Table`] when the file is damaged.
    pub fn read() -> Result<Self, PaperError> {
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
        let tables = Tables::read().expect("the tables");
        let rates: Vec<f64> = tables.switching.iter().map(|s| s.frames_per_s).collect();
        assert!(rates[2..].iter().all(|after| rates[..2].iter().all(|before| after < before)));
        assert!(tables.switching.windows(2).all(|w| w[1].final_c >= w[0].final_c));
    }
}

//! [`Phones`]: 102 CNNs with known FLOPs and bytes, on phones.

use super::text;
use crate::DatasetError;
use std::path::Path;

const US: f64 = 1e3;
const FILE: &str = "cnn_phones_e2e_us.csv";

/// One setting of a phone: which cores or the GPU, and the precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Phone {
    /// The phone.
    pub device: String,
    /// Cores such as `1large1med`, or `gpu`.
    pub cores: String,
    /// `float` or `quant`.
    pub precision: String,
    /// ns by model; `None` where not measured.
    pub ns: Vec<Option<f64>>,
}

/// The models, and their latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Phones {
    /// Names.
    pub models: Vec<String>,
    /// Multiply-accumulates.
    pub macs: Vec<f64>,
    /// Bytes of the weights.
    pub weight_bytes: Vec<f64>,
    /// Settings.
    pub settings: Vec<Phone>,
}

impl Phones {
    /// Whether a folder has the file.
    #[must_use]
    pub fn are_in(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Reads `cnn_phones_e2e_us.csv`.
    ///
    /// # Errors
    /// [`DatasetError`] naming file, line and column.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        let table = text::Table::read(&folder.join(FILE))?;
        let (model, flops, size) =
            (table.column("model")?, table.column("FLOPS")?, table.column("size")?);
        let rows = 0..table.rows.len();
        let numbers = |column: usize, factor: f64| -> Result<Vec<f64>, DatasetError> {
            rows.clone().map(|row| Ok(table.number(row, column)?.unwrap_or(0.0) * factor)).collect()
        };
        let mut settings = Vec::new();
        for (column, heading) in table.headings.iter().enumerate() {
            let parts: Vec<&str> = heading.split('|').collect();
            let [device, cores, precision, "mean"] = parts[..] else { continue };
            let ns: Result<Vec<Option<f64>>, DatasetError> =
                rows.clone().map(|row| table.latency(row, column, US)).collect();
            settings.push(Phone {
                device: device.to_owned(),
                cores: cores.to_owned(),
                precision: precision.to_owned(),
                ns: ns?,
            });
        }
        let models = rows.clone().map(|row| table.text(row, model).to_owned()).collect();
        Ok(Self { models, macs: numbers(flops, 0.5)?, weight_bytes: numbers(size, 1.0)?, settings })
    }
}

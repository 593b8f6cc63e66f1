//! Published end-to-end latencies of many devices, read from a folder of files. No operator is
//! measured.
//!
//! | data | reader | published files | tables made of them |
//! |---|---|---|---|
//! | NAS-Bench-201 cells | [`Cells::nas_bench_201`] | `nasbench201/*.pt` | `nb201_*.gz` |
//! | FBNet architectures | [`Cells::fbnet`] | `fbnet/*.pt` | `fbnet_*.gz` |
//! | Snapdragon processors | [`AiHub::read`] | `MODEL/perf.yaml` | `aihub_latency.csv` |
//! | CNNs on phones | [`Phones::read`] | | `cnn_phones_e2e_us.csv` |
//!
//! Cells come from HELP (Lee et al. 2021, MIT), described further by `devices.json`; Snapdragon
//! processors from Qualcomm AI Hub Models (BSD-3-Clause), with graphs in `aihub_graphs/`; phones
//! from Li, Paolieri, Golubchik (MIT).
//!
//! Latencies are ns, whatever the unit of the file. An empty cell was not measured; a cell that is
//! not a number is an error that names file, line and column.

mod ai_hub;
mod cells;
mod device;
mod phones;
mod text;
mod torch;

pub use ai_hub::{AiHub, Row};
pub use cells::Cells;
pub use device::device_of;
pub use phones::{Phone, Phones};

/// Latencies of one device in one layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// As the file names it.
    pub name: String,
    /// The kind of device in `devices.json` (`gpu`, `cpu`, `phone`...); empty without an entry.
    pub class: String,
    /// Which of the readings of an architecture `devices.json` says it runs: index into
    /// `Cells::readings`.
    pub reading: usize,
    /// Whether it is a sum of table entries instead of a run, according to `devices.json`.
    pub summed: bool,
    /// ns by model; `None` where not measured.
    pub ns: Vec<Option<f64>>,
}

/// Who published NAS-Bench-201 and FBNet latencies, and the licence.
pub const HELP: &str = "HELP (Lee et al., NeurIPS 2021), https://github.com/HayeonLee/HELP, MIT";
/// Who published latencies of Snapdragon processors, and the licence.
pub const AI_HUB: &str =
    "Qualcomm AI Hub Models, https://github.com/quic/ai-hub-models, BSD-3-Clause";

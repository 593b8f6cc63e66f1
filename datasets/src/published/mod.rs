//! End-to-end latencies that others published, as they lie in a folder of files: many devices, no
//! operator measured.
//!
//! | data | reader | published files | tables made of them |
//! |---|---|---|---|
//! | NAS-Bench-201 cells | [`Cells::nas_bench_201`] | `nasbench201/*.pt` | `nb201_*.gz` |
//! | FBNet architectures | [`Cells::fbnet`] | `fbnet/*.pt` | `fbnet_*.gz` |
//! | Snapdragon processors | [`AiHub::read`] | `MODEL/perf.yaml` | `aihub_latency.csv` |
//! | CNNs on phones | [`Phones::read`] | | `cnn_phones_e2e_us.csv` |
//!
//! Cells are of HELP (Lee et al. 2021, MIT), described further by `devices.json`; Snapdragon
//! processors of Qualcomm AI Hub Models (BSD-3-Clause), with graphs in `aihub_graphs/`; phones of
//! Li, Paolieri, Golubchik (MIT).
//!
//! Latencies are ns whatever the file's unit. A cell that is empty was not measured; one that is no
//! number is an error naming file, line and column.

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
    /// What kind of device `devices.json` says it is (`gpu`, `cpu`, `phone`...); empty where it
    /// says nothing.
    pub class: String,
    /// Which of the readings of an architecture `devices.json` says it runs: index into
    /// `Cells::readings`.
    pub reading: usize,
    /// Whether `devices.json` says that it is a sum of table entries and no run.
    pub summed: bool,
    /// ns by model; `None` where not measured.
    pub ns: Vec<Option<f64>>,
}

/// Who published NAS-Bench-201 and FBNet latencies, and the licence.
pub const HELP: &str = "HELP (Lee et al., NeurIPS 2021), https://github.com/HayeonLee/HELP, MIT";
/// Who published latencies of Snapdragon processors, and the licence.
pub const AI_HUB: &str =
    "Qualcomm AI Hub Models, https://github.com/quic/ai-hub-models, BSD-3-Clause";

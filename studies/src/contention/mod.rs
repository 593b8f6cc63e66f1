//! How much two models slow each other down on two processors, and how well slowdown models
//! forecast it that were fitted to loads alone: [`measure`] writes a [`Record`] of raw samples,
//! [`score`] compares forecasts with it. Times are in ns.
//!
//! Each model runs again and again in a process of its own, on an engine pinned to a core. A pair
//! runs in turns: the first alone, the second alone, both together. Beside a stream over a buffer
//! larger than the last-level cache, models with attention are compared with others (the mobile ViT
//! study's figure 6).
//!
//! | question | where |
//! |---|---|
//! | what runs, and in which order? | [`measure`] |
//! | how far are forecasts off, and what is hit harder? | [`score`] |

pub mod measure;
pub mod score;

use serde::{Deserialize, Serialize};
use vitempo::graph::Environment;

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The two engines, each on a core of its own.
    pub engines: Vec<Environment>,
    /// Least time for which a pair was sampled, ms.
    pub window_ms: u64,
    /// Turns in which that time was spent; models run alone in each, too.
    #[serde(default = "one_turn")]
    pub turns: u32,
    /// Pairs of models.
    pub pairs: Vec<PairRecord>,
    /// Models beside a stream on the other engine's core.
    pub streams: Vec<StreamRecord>,
}

/// Records before there were turns have one.
fn one_turn() -> u32 {
    1
}

/// Two models, the first on the first engine, the second on the second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Their names.
    pub models: [String; 2],
    /// Time of each run of each, alone.
    pub alone_ns: [Vec<u64>; 2],
    /// The same while the other runs.
    pub beside_ns: [Vec<u64>; 2],
}

/// A model and a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Index of the model's engine.
    pub engine: usize,
    /// The model's name.
    pub model: String,
    /// Time of each run alone.
    pub alone_ns: Vec<u64>,
    /// The same beside the stream.
    pub beside_ns: Vec<u64>,
    /// Traffic of the stream beside the model, bytes per second.
    pub stream_bytes_per_s: u64,
}

impl Record {
    fn has_pair(&self, models: [&str; 2]) -> bool {
        self.pairs.iter().any(|pair| pair.models.each_ref().map(String::as_str) == models)
    }

    fn has_stream(&self, engine: usize, model: &str) -> bool {
        self.streams.iter().any(|row| row.engine == engine && row.model == model)
    }
}

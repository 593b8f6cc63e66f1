//! [`SplitRecord`]: a live run of splits as a file: environments, engines, links, forecasts and
//! every sample.

use super::{
    bisection::LiveBreakPoint,
    forecast::Forecast,
    live::{End, LiveSplit, MeasuredSplit, Similarity},
};
use serde::{Deserialize, Serialize};
use std::{io, path::Path};
use vitempo_profiler::split::{Features, FrameTimes, Lost, Shape, Throughput};

/// A live run of one split, or of neighbours over bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitRecord {
    /// Version of vitempo.
    pub version: String,
    /// The model.
    pub model: String,
    /// Precision in which tensors were sent.
    pub features: Features,
    /// The device's end, and the server's where it was used.
    pub ends: Vec<End>,
    /// The declared link to the server, and back.
    pub declared: [Option<Shape>; 2],
    /// The split that was run, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RecordedRun>,
    /// Break points, where they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub break_points: Vec<LiveBreakPoint>,
}

/// One split that was run; ns and bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// Operators on the device.
    pub on_device: usize,
    /// Bytes of the tensors sent per frame, and of the results that come back.
    pub tensor_bytes: [u64; 2],
    /// What the costs say.
    pub forecast: Forecast,
    /// The measured link.
    pub link: Option<Throughput>,
    /// Frames one at a time.
    pub alone: Vec<FrameTimes>,
    /// Frames that follow each other.
    pub streamed: Vec<FrameTimes>,
    /// Times between their results.
    pub periods_ns: Vec<u64>,
    /// Frames that were lost.
    pub lost: Vec<Lost>,
    /// Frames that did not begin.
    pub not_run: usize,
    /// Similarity with the whole model.
    pub similarity: Option<Similarity>,
}

impl RecordedRun {
    /// A split that was run.
    #[must_use]
    pub fn of(
        on_device: &[bool],
        tensor_bytes: [u64; 2],
        forecast: Forecast,
        measured: &MeasuredSplit,
    ) -> Self {
        let MeasuredSplit { alone, streamed, periods_ns, lost, not_run, link, similarity } =
            measured.clone();
        Self {
            on_device: on_device.iter().filter(|here| **here).count(),
            tensor_bytes,
            forecast,
            link,
            alone,
            streamed,
            periods_ns,
            lost,
            not_run,
            similarity,
        }
    }
}

impl SplitRecord {
    /// A record without results.
    #[must_use]
    pub fn of(model: &str, features: Features, live: &LiveSplit) -> Self {
        let declared = live.declared();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: model.to_owned(),
            features,
            ends: live.ends(),
            declared: [declared.there, declared.back],
            run: None,
            break_points: Vec::new(),
        }
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        bytes.push(b'\n');
        std::fs::write(path, bytes)
    }
}

//! [`LoadSpec`]: a load as command lines have it: `stream`, `stream:2GB/s`, `stream:64MiB`,
//! `stream:2GB/s,64MiB`, `matmul`, `model:FILE@ENGINE`.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};
use vitempo_graph::quantity::{self, BYTE_UNITS};

/// Smallest buffer of a stream, bytes.
const SMALLEST: u64 = 1 << 20;
/// Largest buffer of a stream, and largest rate, bytes (per second).
const LARGEST: u64 = 1 << 40;

/// A stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// Bytes per second; `None`: as fast as it goes.
    pub rate_bytes_per_s: Option<u64>,
    /// Size of the three arrays together; `None`: four times the last-level cache.
    pub size_bytes: Option<u64>,
}

/// A load that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadSpec {
    /// See [`super::Load::Stream`].
    Stream(StreamSpec),
    /// See [`super::Load::Matmul`].
    Matmul,
    /// A model on an engine.
    Model {
        /// Its file.
        file: PathBuf,
        /// Name of the backend.
        backend: String,
    },
}

/// Why a text is no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no load: {reason}; expected stream, stream:2GB/s, stream:64MiB, matmul or \
    model:FILE@ENGINE"
)]
pub struct LoadSpecError {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub reason: String,
}

impl FromStr for LoadSpec {
    type Err = LoadSpecError;

    fn from_str(text: &str) -> Result<Self, LoadSpecError> {
        parse(text).map_err(|reason| LoadSpecError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<LoadSpec, String> {
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (text, None),
    };
    match (kind, rest) {
        ("stream", None) => Ok(LoadSpec::Stream(StreamSpec::default())),
        ("stream", Some(rest)) => stream(rest).map(LoadSpec::Stream),
        ("matmul", None) => Ok(LoadSpec::Matmul),
        ("matmul", Some(_)) => Err("a matmul has no settings".to_owned()),
        ("model", Some(rest)) => match rest.rsplit_once('@') {
            Some((file, backend)) if !file.is_empty() && !backend.is_empty() => {
                Ok(LoadSpec::Model { file: file.into(), backend: backend.to_owned() })
            }
            _ => Err("a model has a file and an engine".to_owned()),
        },
        _ => Err("the kind is unknown".to_owned()),
    }
}

fn stream(settings: &str) -> Result<StreamSpec, String> {
    let mut stream = StreamSpec::default();
    for setting in settings.split(',') {
        let (slot, bytes) = match setting.trim().strip_suffix("/s") {
            Some(bytes) => (&mut stream.rate_bytes_per_s, bytes),
            None => (&mut stream.size_bytes, setting.trim()),
        };
        let bytes = quantity::bytes(bytes.trim()).ok().filter(|size| (1..=LARGEST).contains(size));
        let bytes = bytes.ok_or_else(|| format!("`{setting}` has no size or rate"))?;
        if slot.replace(bytes).is_some() {
            return Err("a setting is given twice".to_owned());
        }
    }
    if stream.size_bytes.is_some_and(|size| size < SMALLEST) {
        return Err("the buffer is smaller than 1 MiB".to_owned());
    }
    Ok(stream)
}

/// In the largest unit in which the number is whole.
fn spelled(bytes: u64) -> String {
    let units = BYTE_UNITS.iter().map(|&(unit, size)| (unit, size as u64));
    let whole = units.filter(|(_, size)| bytes.is_multiple_of(*size));
    let (unit, size) = whole.min_by_key(|(_, size)| bytes / size).unwrap_or(("B", 1));
    format!("{}{unit}", bytes / size)
}

impl fmt::Display for StreamSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate_bytes_per_s.map(|rate| spelled(rate) + "/s");
        let settings: Vec<String> = rate.into_iter().chain(self.size_bytes.map(spelled)).collect();
        match settings.is_empty() {
            true => f.write_str("stream"),
            false => write!(f, "stream:{}", settings.join(",")),
        }
    }
}

impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(stream) => stream.fmt(f),
            Self::Matmul => f.write_str("matmul"),
            Self::Model { file, backend } => write!(f, "model:{}@{backend}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_and_written_alike() {
        for (text, spelled) in [
            ("stream", "stream"),
            ("stream:2GB/s", "stream:2GB/s"),
            ("stream:2000MB/s", "stream:2GB/s"),
            ("stream:64MiB", "stream:64MiB"),
            ("stream:64MiB, 0.5GB/s", "stream:500MB/s,64MiB"),
            ("stream:1500000B/s", "stream:1500kB/s"),
            ("matmul", "matmul"),
            ("model:a/b@c.onnx@rten", "model:a/b@c.onnx@rten"),
        ] {
            let load: Result<LoadSpec, _> = text.parse();
            assert_eq!(load.as_ref().map(ToString::to_string).as_deref(), Ok(spelled), "{text}");
            assert_eq!(spelled.parse(), load, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "the kind"),
            ("streams", "the kind"),
            ("stream:", "no size or rate"),
            ("stream:2", "no size or rate"),
            ("stream:-2GB/s", "no size or rate"),
            ("stream:nanGB", "no size or rate"),
            ("stream:infGB/s", "no size or rate"),
            ("stream:1kB", "smaller than 1 MiB"),
            ("stream:1GB/s,2GB/s", "twice"),
            ("matmul:3", "no settings"),
            ("model:a.onnx", "a file and an engine"),
            ("model:@rten", "a file and an engine"),
        ] {
            let refused = text.parse::<LoadSpec>();
            assert!(refused.is_err_and(|e| e.reason.contains(reason)), "{text}");
        }
    }
}

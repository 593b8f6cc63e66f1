//! [`Setting`]: what is asked of an engine besides threads, precision and memory format.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A setting that differs from the engine's default and changes latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// The kernels of a run are recorded once as a CUDA graph, which is launched as a whole.
    CudaGraph,
    /// Convolutions and matrix products in f32 compute in TF32 (10 bits of mantissa).
    Tf32,
    /// Nothing in f32 computes in TF32, although the engine does by default.
    NoTf32,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CudaGraph, Self::Tf32, Self::NoTf32];

    /// Its name in flags, files and identifiers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CudaGraph => "cuda-graph",
            Self::Tf32 => "tf32",
            Self::NoTf32 => "no-tf32",
        }
    }

    /// Whether both can be asked for at once.
    #[must_use]
    pub const fn agrees(self, other: Self) -> bool {
        !matches!((self, other), (Self::Tf32, Self::NoTf32) | (Self::NoTf32, Self::Tf32))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no such setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no setting is called `{0}`; there are: {names}", names = Setting::ALL.map(Setting::name).join(", "))]
pub struct UnknownSetting(String);

impl FromStr for Setting {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        let found = Self::ALL.into_iter().find(|setting| setting.name() == text);
        found.ok_or_else(|| UnknownSetting(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for setting in Setting::ALL {
            assert_eq!(setting.to_string().parse(), Ok(setting));
            assert_eq!(
                serde_json::to_value(setting).ok(),
                Some(serde_json::Value::from(setting.name()))
            );
            assert!(setting.agrees(setting) && setting.agrees(Setting::CudaGraph));
        }
        assert!(!Setting::Tf32.agrees(Setting::NoTf32));
        let unknown = "fast".parse::<Setting>().map_err(|e| e.to_string());
        assert!(unknown.is_err_and(|words| words.contains("`fast`") && words.contains("no-tf32")));
    }
}

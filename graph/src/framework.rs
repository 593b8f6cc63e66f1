//! [`Framework`]: the inference engines that vitempo measures or has rules for.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An inference engine. An [`Environment`](crate::Environment) has only its name, because datasets
/// may come from other engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum Framework {
    /// LiteRT (TensorFlow Lite) with the delegate XNNPACK.
    LiteRt,
    /// LiteRT with its own kernels only.
    LiteRtBuiltin,
    /// ONNX Runtime on the CPU.
    OnnxRuntime,
    /// ONNX Runtime with Qualcomm's execution provider.
    Qnn,
    /// OpenVINO.
    OpenVino,
    /// rten.
    Rten,
    /// PyTorch.
    Torch,
    /// tract.
    Tract,
    /// Runs nothing: measures the harness.
    Null,
}

impl Framework {
    /// All of them, by name.
    pub const ALL: [Self; 9] = [
        Self::LiteRt,
        Self::LiteRtBuiltin,
        Self::Null,
        Self::OnnxRuntime,
        Self::OpenVino,
        Self::Qnn,
        Self::Rten,
        Self::Torch,
        Self::Tract,
    ];

    /// The name in files, on the command line and in [`Environment`](crate::Environment).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LiteRt => "litert",
            Self::LiteRtBuiltin => "litert-builtin",
            Self::Null => "null",
            Self::OnnxRuntime => "onnxruntime",
            Self::Qnn => "qnn",
            Self::OpenVino => "openvino",
            Self::Rten => "rten",
            Self::Torch => "torch",
            Self::Tract => "tract",
        }
    }

    /// The engine of this name, if it is one of [`Self::ALL`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|framework| framework.name() == name)
    }
}

impl fmt::Display for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no [`Framework`] has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no framework `{name}`; expected one of {}", Framework::ALL.map(Framework::name).join(", "))]
pub struct UnknownFramework {
    /// The name.
    pub name: String,
}

impl FromStr for Framework {
    type Err = UnknownFramework;

    fn from_str(name: &str) -> Result<Self, UnknownFramework> {
        Self::named(name).ok_or_else(|| UnknownFramework { name: name.to_owned() })
    }
}

impl TryFrom<String> for Framework {
    type Error = UnknownFramework;

    fn try_from(name: String) -> Result<Self, UnknownFramework> {
        name.parse()
    }
}

impl From<Framework> for &'static str {
    fn from(framework: Framework) -> Self {
        framework.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for framework in Framework::ALL {
            assert_eq!(framework.to_string().parse(), Ok(framework));
            let json = serde_json::to_string(&framework).expect("JSON");
            assert_eq!(json, format!("\"{framework}\""));
            assert_eq!(serde_json::from_str::<Framework>(&json).expect("a framework"), framework);
        }
        assert!(Framework::ALL.map(Framework::name).is_sorted());
        let error = "abacus".parse::<Framework>().expect_err("no framework").to_string();
        assert!(error.contains("`abacus`") && error.contains("litert, litert-builtin, null, "));
    }
}

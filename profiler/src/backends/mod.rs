//! Inference engines that can be measured: [`all`] lists those that are compiled in.
//!
//! An engine implements [`Backend`] and [`Session`] in one file or folder here, behind a cargo
//! feature, and has one line in [`all`]. A session runs in the process it is loaded in:
//! [`crate::worker`] gives each engine and thread count a process of its own.
//!
//! | question | where |
//! |---|---|
//! | what must an engine offer? | [`Backend`], [`Session`] |
//! | how does it run? | [`RunOptions`] |
//! | can it run here, and what does it offer? | [`Availability`], [`Capabilities`] |
//! | which operators does its processor take? | [`Coverage`] |
//! | where are its libraries? | [`discovery`] |

pub(crate) mod availability;
#[cfg(any(feature = "litert", feature = "rten", feature = "torch"))]
mod capture;
pub(crate) mod coverage;
pub mod discovery;
pub(crate) mod engine;
pub(crate) mod error;
#[cfg(feature = "litert")]
pub mod litert;
#[cfg(feature = "null")]
pub mod null;
#[cfg(feature = "onnxruntime")]
pub mod onnxruntime;
#[cfg(feature = "openvino")]
pub mod openvino;
pub(crate) mod options;
#[cfg(feature = "rten")]
pub mod rten;
#[cfg(feature = "torch")]
pub mod torch;
#[cfg(feature = "tract")]
pub mod tract;
pub(crate) mod values;

pub use availability::{AbsentDevice, Availability, Capabilities};
pub use coverage::{Assigned, Coverage};
pub use engine::{Backend, Loader, Model, ModelSource, ProfiledRuns, Session};
pub use error::BackendError;
pub use options::RunOptions;
pub use values::OutputValues;

/// Every backend compiled in; the default first.
#[must_use]
pub fn all() -> Vec<Box<dyn Backend>> {
    vec![
        #[cfg(feature = "rten")]
        Box::new(rten::Rten),
        #[cfg(feature = "onnxruntime")]
        Box::new(onnxruntime::OnnxRuntime),
        #[cfg(feature = "onnxruntime")]
        Box::new(onnxruntime::qnn::Qnn),
        #[cfg(feature = "torch")]
        Box::new(torch::TorchEager),
        #[cfg(feature = "openvino")]
        Box::new(openvino::OpenVino),
        #[cfg(feature = "tract")]
        Box::new(tract::Tract),
        #[cfg(feature = "litert")]
        Box::new(litert::XNNPACK),
        #[cfg(feature = "litert")]
        Box::new(litert::BUILTIN),
        #[cfg(feature = "null")]
        Box::new(null::Null),
    ]
}

/// Names of the backends whose engines compute what a model says.
#[must_use]
pub fn that_compute() -> Vec<&'static str> {
    all().iter().map(|backend| backend.name()).filter(|&name| name != "null").collect()
}

/// The backend of that name.
///
/// # Errors
/// [`BackendError::Unknown`], which lists the names there are.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>, BackendError> {
    let all = all();
    let known = all.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    all.into_iter()
        .find(|b| b.name() == name)
        .ok_or_else(|| BackendError::Unknown { name: name.to_owned(), known })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backend_is_told_what_there_is() {
        let error = by_name("nope").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("`nope`") && error.contains("null"), "{error}");
    }
}

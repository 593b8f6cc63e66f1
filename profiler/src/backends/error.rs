//! [`BackendError`]: why an engine did not do what it was asked.

/// Why an engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend of this name.
    #[error("no backend is called `{name}`; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Its library is not here.
    #[error("backend `{backend}` is not available: {reason}; {hint}")]
    Unavailable {
        /// Name of the backend.
        backend: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: String,
    },
    /// It does not offer what was asked for.
    #[error("backend `{backend}` does not offer {asked}; it offers {offered}")]
    Option {
        /// Name of the backend.
        backend: &'static str,
        /// What was asked for.
        asked: String,
        /// What there is.
        offered: String,
    },
    /// It does not take a model.
    #[error("backend `{backend}` does not take model `{model}`: {reason}")]
    Load {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// It failed while running.
    #[error("backend `{backend}` failed while running model `{model}`: {reason}")]
    Run {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
    /// It takes no values from outside.
    #[error(
        "this backend cannot be handed values from outside, so it runs no part of a divided \
        model; rten and onnxruntime can"
    )]
    NotFed,
    /// The operators' times cannot be read.
    #[error(
        "backend `{backend}` timed the operators of model `{model}` in a way that cannot be read: \
        {reason}"
    )]
    Profile {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the model.
        model: String,
        /// What is wrong.
        reason: String,
    },
}

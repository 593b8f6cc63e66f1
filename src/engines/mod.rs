//! The inference engines of this machine: which there are, whether they compute correct results,
//! what an NPU takes of a model, and how one is installed.
//!
//! | question | where |
//! |---|---|
//! | which engines are here, and what do they offer? | [`list`] |
//! | does each compute what it should, and do its operator times account for the whole? | [`check`] |
//! | which operators of a model does an NPU take? | `coverage`, with the feature `dataset` |
//! | how well are the kernels predicted that an engine runs? | `lowering`, with the feature `dataset` |
//! | how does an engine get into vitempo's folder? | [`install`] |
//! | how do models compare across engines? | `campaign::compare` |
//!
//! ```
//! let engines = vitempo::engines::list();
//! for engine in &engines {
//!     println!("{}: {}", engine.name, engine.description);
//! }
//! // Only processors of engines that are here can be absent.
//! assert!(engines.iter().all(|engine| engine.is_available() || engine.absent.is_empty()));
//! ```

pub mod check;
#[cfg(feature = "dataset")]
pub mod coverage;
pub mod install;
#[cfg(feature = "dataset")]
pub mod lowering;

use vitempo_profiler::{
    Availability, Backend, RunOptions,
    backends::{self, AbsentDevice},
};

/// An engine of this build, and whether it runs here.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The name that commands and functions take.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// What it offers, or why it is not here.
    pub availability: Availability,
    /// Processors that it could use if they were here; empty where it is not here itself.
    pub absent: Vec<AbsentDevice>,
}

impl Engine {
    /// Whether it runs here.
    #[must_use]
    pub fn is_available(&self) -> bool {
        matches!(self.availability, Availability::Available(_))
    }
}

/// Every engine of this build, here or not; the default first.
#[must_use]
pub fn list() -> Vec<Engine> {
    let options = RunOptions::default();
    let probe = |backend: &dyn Backend| {
        let mut engine = Engine {
            name: backend.name(),
            description: backend.description(),
            availability: backend.probe(&options),
            absent: Vec::new(),
        };
        if engine.is_available() {
            engine.absent = backend.absent_devices(&options);
        }
        engine
    };
    backends::all().iter().map(|backend| probe(backend.as_ref())).collect()
}

//! Variants of base models that can be stitched: [`make`] writes them as files with a
//! [`TasksFile`], [`mod@measure`] computes the accuracy of stitched variants on labelled images,
//! [`stitch`] assembles stitched variants and runs them.
//!
//! | question | where |
//! |---|---|
//! | which variants and objectives does a task have? | [`tasks`] |
//! | how is a variant made from its base model? | [`recipe`] |
//! | which graphs are the subgraphs of a task's variants? | [`variants`] |
//! | how are stitched variants numbered? | [`codes`] |
//! | which stitched variants are measured when not all can be? | [`sampling`] |
//! | how many of the best variants does a sample find? | [`recall`] |
//! | what do models of a zoo compute on one engine? | [`engine`] |

pub mod codes;
#[cfg(feature = "profile")]
pub mod engine;
mod error;
#[cfg(feature = "profile")]
pub mod labelled;
#[cfg(feature = "profile")]
pub mod make;
#[cfg(all(feature = "profile", feature = "train"))]
pub mod measure;
#[cfg(feature = "profile")]
mod npy;
#[cfg(feature = "train")]
pub mod recall;
pub mod recipe;
#[cfg(feature = "train")]
pub mod sampling;
#[cfg(feature = "profile")]
pub mod stitch;
pub mod tasks;
pub mod variants;
mod weights;

pub use error::ZooError;
pub use recipe::Recipe;
pub use tasks::TasksFile;
pub use variants::Variants;
pub use weights::weights;

/// The progress of a computation on engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps that are done.
    pub done: usize,
    /// Total number of steps.
    pub total: usize,
}

impl Progress {
    /// An error if the caller stops the computation.
    #[cfg(feature = "profile")]
    fn check(self, watch: &mut dyn FnMut(Self) -> bool) -> Result<(), ZooError> {
        if watch(self) { Ok(()) } else { Err(ZooError::Interrupted) }
    }
}

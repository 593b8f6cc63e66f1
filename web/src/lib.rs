//! Forecasts in a browser: what the page of `web/page` asks, as functions over plain values.
//!
//! Conversions alone: every number and every error is one of the facade `vitempo`. A [`Session`]
//! holds the models and bundles that were dropped on the page; nothing leaves it.
//!
//! | question | where |
//! |---|---|
//! | which models and bundles are open? | [`Session`] |
//! | how long does a model take, and why? | `forecasts` |
//! | how does the latency change with the size of images? | `sizes` |
//! | what runs on the device, and what on a server? | `split` |
//! | how fast are the architectures of a search space? | `sampler` |
//! | what does the page get? | [`answers`] and, as TypeScript, the declarations made from it |
//! | what crosses the border to JavaScript? | `boundary` |

pub mod answers;
#[cfg(target_arch = "wasm32")]
mod boundary;
mod failure;
mod forecasts;
mod sampler;
mod session;
mod sizes;
mod split;

#[cfg(target_arch = "wasm32")]
pub use boundary::Explorer;
pub use failure::Failure;
pub use session::Session;

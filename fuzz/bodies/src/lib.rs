//! The bodies of the fuzz targets. Each body is a plain function: it returns for every input, and
//! panics only where vitempo does. cargo-fuzz (`fuzz/fuzz_targets`), the campaign on stable Rust
//! (`src/bin/campaign.rs`) and the test of the corpus (`tests/corpus.rs`) run the same ones.
//!
//! | question | where |
//! |---|---|
//! | which targets are there? | [`TARGETS`] |
//! | what is done with a model's bytes? | [`onnx`] |
//! | with a bundle's, a dataset's, a text's, a request's, an agent's? | [`bundles`], [`datasets`], [`texts`], [`http`], [`agent`] |
//! | where do inputs come from? | [`mutation`], [`models`] |
//! | how much memory did one take? | [`memory`] |

pub mod agent;
pub mod bundles;
pub mod corpus;
pub mod datasets;
pub mod http;
pub mod memory;
pub mod models;
pub mod mutation;
mod numbers;
pub mod onnx;
pub mod texts;

use mutation::Mutation;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its folder in `fuzz/corpus` too.
    pub name: &'static str,
    /// What is done with the bytes.
    pub body: fn(&[u8]),
    /// How its inputs are changed.
    pub mutation: Mutation,
}

/// Memory that one input may take beyond its own size, bytes.
pub const MEMORY_LIMIT: usize = 64 << 20;

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "onnx_read", body: onnx::read, mutation: Mutation::Model },
    Target { name: "onnx_lower", body: onnx::lower, mutation: Mutation::Model },
    Target { name: "bundle", body: bundles::trained, mutation: Mutation::Text },
    Target { name: "adapted_bundle", body: bundles::adapted, mutation: Mutation::Text },
    Target { name: "journal", body: datasets::journal, mutation: Mutation::Text },
    Target { name: "parquet", body: datasets::parquet, mutation: Mutation::Bytes },
    Target { name: "encoding", body: texts::encoding, mutation: Mutation::Text },
    Target { name: "costs", body: texts::costs, mutation: Mutation::Text },
    Target { name: "space", body: texts::space, mutation: Mutation::Text },
    Target { name: "http", body: http::body, mutation: Mutation::Text },
    Target { name: "agent_frames", body: agent::frames, mutation: Mutation::Text },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

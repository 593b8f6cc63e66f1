//! Bundles. The input is the body of a file, which is put here into an envelope with the right
//! lengths and digest, so that damage reaches what is behind these checks; an input that begins
//! like a file is taken for one.

use std::sync::LazyLock;
use vitempo::graph::{Graph, GraphBuilder, LatencyModel, TensorSpec};
use vitempo::predictors::{AdaptedBundle, BUNDLE_VERSION, PredictorBundle, adapt::ADAPTED_VERSION};

/// Reads a trained bundle, forecasts with it and writes it.
pub fn trained(bytes: &[u8]) {
    if let Ok(bundle) = PredictorBundle::from_bytes(&file(bytes, TRAINED)) {
        forecast(&bundle);
        let _ = bundle.to_bytes();
    }
}

/// Reads an adapted bundle, forecasts with it and writes it.
pub fn adapted(bytes: &[u8]) {
    if let Ok(bundle) = AdaptedBundle::from_bytes(&file(bytes, ADAPTED)) {
        forecast(&bundle);
        let _ = (bundle.listed("model", &MODEL), bundle.to_bytes());
    }
}

fn forecast(bundle: &impl LatencyModel) {
    if let Ok(prediction) = bundle.predict(&MODEL) {
        let latency = prediction.latency;
        assert!(latency.lower() <= latency.upper(), "an interval that ends before it begins");
    }
}

/// A few operators of several classes.
static MODEL: LazyLock<Graph> = LazyLock::new(|| {
    let layers = || {
        let mut graph = GraphBuilder::new("model");
        let image = graph.input("image", TensorSpec::f32([1, 3, 16, 16]));
        let features = graph.conv("conv", image, 8, 3, 1, 1, 1, true)?;
        let active = graph.silu("act", features)?;
        let tokens = graph.reshape("tokens", active, &[1, 8, 256])?;
        let normed = graph.layer_norm("norm", tokens)?;
        let out = graph.linear("head", normed, 10, true)?;
        graph.finish(vec![out])
    };
    layers().unwrap_or_else(|error| panic!("the model of the bodies: {error}"))
});

/// Bytes of an envelope before its body.
const HEADER: usize = 60;

/// What a kind of file begins with.
#[derive(Clone, Copy, Debug)]
pub struct Envelope(&'static [u8; 8], u32);

/// Of trained bundles.
pub const TRAINED: Envelope = Envelope(b"VTBUNDLE", BUNDLE_VERSION);
/// Of adapted bundles.
pub const ADAPTED: Envelope = Envelope(b"VTADAPTD", ADAPTED_VERSION);

/// The file around a body.
#[must_use]
pub fn file(body: &[u8], Envelope(magic, version): Envelope) -> Vec<u8> {
    if body.starts_with(magic) {
        return body.to_vec();
    }
    let packed = zstd_of(body);
    let mut bytes = Vec::with_capacity(HEADER + packed.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&(packed.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    let digest = blake3::Hasher::new().update(&bytes).update(&packed).finalize();
    bytes.extend_from_slice(digest.as_bytes());
    bytes.extend_from_slice(&packed);
    bytes
}

/// A zstd frame of raw blocks (RFC 8878, section 3.1): nothing is compressed, and so it is quick.
fn zstd_of(body: &[u8]) -> Vec<u8> {
    const MAGIC: u32 = 0xFD2F_B528;
    /// One segment, a content size of four bytes.
    const DESCRIPTOR: u8 = 0xA0;
    const LARGEST_BLOCK: usize = 1 << 17;
    let mut frame = MAGIC.to_le_bytes().to_vec();
    frame.push(DESCRIPTOR);
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    let blocks = body.len().div_ceil(LARGEST_BLOCK).max(1);
    for index in 0..blocks {
        let from = index * LARGEST_BLOCK;
        let block = &body[from..body.len().min(from + LARGEST_BLOCK)];
        let header = u32::from(index + 1 == blocks) | (block.len() as u32) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

//! Packs and unpacks the bodies of bundles by zstd: with the C library, and in WebAssembly, which
//! has no C compiler, with a decoder written in Rust. There bundles are read and not written.

use std::io::Read;

#[cfg(not(target_family = "wasm"))]
const LEVEL: i32 = 6;

/// The packed bytes; the same input always gives the same.
///
/// # Errors
/// A sentence from the library, or that this platform does not write bundles.
#[cfg(not(target_family = "wasm"))]
pub fn pack(plain: &[u8]) -> Result<Vec<u8>, String> {
    zstd::encode_all(plain, LEVEL).map_err(|e| e.to_string())
}

/// The packed bytes; the same input always gives the same.
///
/// # Errors
/// A sentence from the library, or that this platform does not write bundles.
#[cfg(target_family = "wasm")]
pub fn pack(_plain: &[u8]) -> Result<Vec<u8>, String> {
    Err("bundles are not written in WebAssembly".to_owned())
}

/// Reads the unpacked bytes.
///
/// # Errors
/// A sentence where the bytes do not begin as packed ones do.
pub fn unpacked(packed: &[u8]) -> Result<impl Read + '_, String> {
    #[cfg(not(target_family = "wasm"))]
    let decoder = zstd::Decoder::new(packed);
    #[cfg(target_family = "wasm")]
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
    decoder.map_err(|e| e.to_string())
}

//! Packs and unpacks the bodies of bundles in the zstd format: with the C library where the feature
//! `zstd` is on, else with an encoder and a decoder written in Rust, which need no C compiler and
//! run in WebAssembly. Either reads what the other wrote; the C library packs tighter and unpacks
//! faster.

use std::io::Read;

/// The packed bytes; the same input always gives the same in builds with the same features.
///
/// # Errors
/// A sentence from the library.
#[cfg(all(feature = "zstd", not(target_family = "wasm")))]
pub fn pack(plain: &[u8]) -> Result<Vec<u8>, String> {
    const LEVEL: i32 = 6;
    zstd::encode_all(plain, LEVEL).map_err(|e| e.to_string())
}

/// Reads the unpacked bytes.
///
/// # Errors
/// A sentence where the bytes do not begin as packed ones do.
#[cfg(all(feature = "zstd", not(target_family = "wasm")))]
pub fn unpacked(packed: &[u8]) -> Result<impl Read + '_, String> {
    zstd::Decoder::new(packed).map_err(|e| e.to_string())
}

/// The unpacked bytes in one step, where there are exactly `size` of them; `None` otherwise, and
/// where this needs a stream: then [`unpacked`] says what is wrong.
#[cfg(all(feature = "zstd", not(target_family = "wasm")))]
pub fn unpacked_at_once(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    plain.try_reserve_exact(size).ok()?;
    let mut decompressor = zstd::bulk::Decompressor::new().ok()?;
    let written = decompressor.decompress_to_buffer(packed, &mut plain).ok()?;
    (written == size).then_some(plain)
}

#[cfg(not(all(feature = "zstd", not(target_family = "wasm"))))]
pub use in_rust::{pack, unpacked};

/// `None`: the bytes are read from a stream.
#[cfg(not(all(feature = "zstd", not(target_family = "wasm"))))]
pub fn unpacked_at_once(_packed: &[u8], _size: usize) -> Option<Vec<u8>> {
    None
}

#[cfg(any(test, not(all(feature = "zstd", not(target_family = "wasm")))))]
mod in_rust {
    use super::Read;
    use ruzstd::{
        decoding::StreamingDecoder,
        encoding::{CompressionLevel, compress_to_vec},
    };

    /// The packed bytes; the same input always gives the same in builds with the same features.
    ///
    /// # Errors
    /// A sentence where the packed bytes do not give back the plain ones.
    pub fn pack(plain: &[u8]) -> Result<Vec<u8>, String> {
        let packed = compress_to_vec(plain, CompressionLevel::Fastest);
        let mut again = Vec::new();
        unpacked(&packed)?.read_to_end(&mut again).map_err(|e| e.to_string())?;
        if again == plain { Ok(packed) } else { Err("packing lost bytes".to_owned()) }
    }

    /// Reads the unpacked bytes.
    ///
    /// # Errors
    /// A sentence where the bytes do not begin as packed ones do.
    pub fn unpacked(packed: &[u8]) -> Result<impl Read + '_, String> {
        StreamingDecoder::new(packed).map_err(|e| e.to_string())
    }
}

#[cfg(all(test, feature = "zstd"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(mut from: impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn either_library_reads_what_the_other_wrote() {
        let text = "a bundle's body, ".repeat(9000);
        let noise: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for plain in [&b""[..], b"x", text.as_bytes(), &noise] {
            assert_eq!(read(in_rust::unpacked(&pack(plain).unwrap()).unwrap()), plain);
            assert_eq!(read(unpacked(&in_rust::pack(plain).unwrap()).unwrap()), plain);
            let packed = pack(plain).unwrap();
            assert_eq!(unpacked_at_once(&packed, plain.len()).as_deref(), Some(plain));
            assert_eq!(unpacked_at_once(&packed, plain.len() + 1), None, "fewer than claimed");
            if let Some(less) = plain.len().checked_sub(1) {
                assert_eq!(unpacked_at_once(&packed, less), None, "more than claimed");
            }
            assert_eq!(unpacked_at_once(&packed[..packed.len() - 1], plain.len()), None);
        }
    }
}

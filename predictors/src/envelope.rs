//! The file around a bundle's body: magic (8 bytes), version (u32), length of the body (u64),
//! length of the body unpacked (u64), BLAKE3 digest of all that and the body, body (zstd). Little
//! endian. Reading checks everything before anything is used.

use crate::{PredictorError, packing};
use std::{io::Read, path::Path};
use vitempo_graph::files::write_whole;

const HEADER: usize = 8 + 4 + 8 + 8 + 32;
/// No bundle's file is larger, and none unpacks to more.
pub const LARGEST_BUNDLE_BYTES: u64 = 1 << 29;
/// No body is packed more tightly.
const LARGEST_RATIO: u64 = 2000;
/// Up to here, memory for what a file claims to unpack to is taken before it is unpacked.
const USUAL_RATIO: u64 = 16;

/// The magic of a kind of file, and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub magic: &'static [u8; 8],
    /// The version that is written.
    pub version: u32,
    /// The oldest version that is read.
    pub oldest: u32,
}

impl Envelope {
    /// The file's bytes; the same body always gives the same.
    pub fn seal(self, plain: &[u8]) -> Result<Vec<u8>, PredictorError> {
        let body = packing::pack(plain).map_err(PredictorError::Encode)?;
        let mut bytes = self.magic.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(plain.len() as u64).to_le_bytes());
        let digest = digest(&bytes, &body);
        bytes.extend_from_slice(&digest);
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Whether a file begins as this kind does.
    pub fn is_on(self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.magic)
    }

    /// The unpacked body of a file with the right magic, version, lengths and digest; or a sentence
    /// with the reason.
    pub fn open(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let (header, body) =
            bytes.split_at_checked(HEADER).ok_or("it is too short for a bundle")?;
        let number = |from: usize| {
            header.get(from..from + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        if !self.is_on(header) {
            return Err("it is not a vitempo bundle".to_owned());
        }
        let version =
            header.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
        if !(self.oldest..=self.version).contains(&version) {
            let read = if self.oldest == self.version {
                self.version.to_string()
            } else {
                format!("{} to {}", self.oldest, self.version)
            };
            return Err(format!(
                "its format version is {version}, this program reads {read}: train it again"
            ));
        }
        let (packed, plain) = (number(12), number(20));
        if packed != body.len() as u64 {
            return Err(format!(
                "its body has {} bytes instead of {packed}: it is truncated or has something \
                appended",
                body.len()
            ));
        }
        if digest(&header[..28], body) != header[28..] {
            return Err("its checksum does not fit: it is damaged".to_owned());
        }
        if plain > LARGEST_BUNDLE_BYTES || plain > packed.saturating_mul(LARGEST_RATIO) {
            return Err(format!("it claims to unpack to {plain} bytes"));
        }
        if plain <= packed.saturating_mul(USUAL_RATIO)
            && let Some(unpacked) = packing::unpacked_at_once(body, plain as usize)
        {
            return Ok(unpacked);
        }
        let mut unpacked = Vec::new();
        packing::unpacked(body)?
            .take(plain + 1)
            .read_to_end(&mut unpacked)
            .map_err(|e| format!("it cannot be unpacked: {e}"))?;
        if unpacked.len() as u64 != plain {
            return Err(format!("it does not unpack to {plain} bytes"));
        }
        Ok(unpacked)
    }
}

/// Writes a file whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), PredictorError> {
    write_whole(path, bytes).map_err(|source| PredictorError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// Reads a file, up to the size that any bundle has.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, PredictorError> {
    let io = |source| PredictorError::Io { action: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .map_err(io)?
        .take(LARGEST_BUNDLE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    Ok(bytes)
}

fn digest(header: &[u8], body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(header).update(body).finalize().as_bytes()
}

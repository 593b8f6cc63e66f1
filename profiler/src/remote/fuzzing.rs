//! The entry points of fuzz targets in this module: decoding of data from another machine.

use super::frame::{self, FrameWriter, Kind};
use super::message::{Answer, Ask};

/// Largest message, in bytes.
const LIMIT: usize = 1 << 20;

/// Decodes bytes as frames, each payload as a message of either end; then each of their lines as
/// the payload of a whole frame.
pub fn frames(bytes: &[u8]) {
    decode(bytes);
    let mut writer = FrameWriter::new(Vec::new());
    for payload in bytes.split(|&byte| byte == b'\n') {
        let is_json = payload.starts_with(b"{") || payload.starts_with(b"\"");
        // A vector takes every write.
        let _ = writer.write(if is_json { Kind::Message } else { Kind::Piece }, payload);
    }
    decode(&writer.into_inner());
}

fn decode(bytes: &[u8]) {
    let mut rest = bytes;
    let mut number = 0;
    while let Ok(frame) = frame::read(&mut rest, number, LIMIT) {
        number += 1;
        if frame.kind == Kind::Message {
            let _ = serde_json::from_slice::<Ask>(&frame.payload);
            let _ = serde_json::from_slice::<Answer>(&frame.payload);
        }
    }
}

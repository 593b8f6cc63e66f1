//! Data that another machine sends: frames, and the messages in them.

use vitempo::profiler::remote::fuzzing;

/// Decodes the input as a line of frames with right tags, and each payload as a message.
pub fn frames(bytes: &[u8]) {
    fuzzing::frames(bytes);
}

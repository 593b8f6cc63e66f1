#![no_main]
//! Runs the body of this name; inputs are changed as `vitempo_fuzz_bodies::mutation` does.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vitempo_fuzz_bodies::onnx::lower(bytes));

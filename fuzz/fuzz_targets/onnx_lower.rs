#![no_main]

vitempo_fuzz::target!("onnx_lower");

//! The domains of operators that are read by default. Here the reader, which is independent of
//! frameworks, gets the frameworks' domains.

use crate::{
    Limits, Stop,
    lowering::onnxruntime,
    onnx::{Domain, ReadOptions},
};
use std::collections::BTreeMap;

const DOMAINS: &[Domain] = &[onnxruntime::DOMAIN];

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            dimensions: BTreeMap::new(),
            domains: DOMAINS,
            limits: Limits::default(),
            stop: Stop::default(),
        }
    }
}

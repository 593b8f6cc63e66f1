//! A bundle that ships, with a slowdown model: for tests of several packages. The file that includes
//! this one has `graph` and `predictors` in scope.

use super::{
    graph::Processor,
    predictors::{
        PredictorBundle,
        contention::{Demand, FittedLoad, Form, Peaks, SlowdownModel},
    },
};
use std::path::{Path, PathBuf};

/// The load that the model was fitted to.
pub const STREAM: Demand = Demand { flops_per_s: 1e9, bytes_per_s: 1e10, footprint_bytes: 1e9 };

/// Writes the bundle, by whose model memory traffic of both makes kernels slower, into a folder.
/// `root` is the folder of the project.
pub fn bundle(root: &Path, folder: &Path) -> PathBuf {
    let shipped = root.join("bundles/epyc-rten-f32-1t.vtb");
    let mut bundle = PredictorBundle::load(&shipped).expect("a bundle that ships");
    bundle.contention = Some(SlowdownModel {
        other: Processor::Cpu,
        form: Form::Traffic,
        coefficients: vec![0.5],
        peaks: Peaks { flops_per_s: 1e11, bytes_per_s: 1e10, cache_bytes: 32e6 },
        largest: 3.0,
        level: 0.9,
        log_error: 0.1,
        loads: vec![FittedLoad {
            load: "stream".to_owned(),
            demand: STREAM,
            models: 3,
            slowdown: 1.3,
            error: 0.02,
            error_of_none: 0.2,
        }],
        forms: Vec::new(),
    });
    let path = folder.join("contended.vtb");
    bundle.save(&path).expect("a file");
    path
}

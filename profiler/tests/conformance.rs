//! Runs the conformance suite on every backend of this machine. Absent backends are skipped, with a
//! notice.

#![allow(clippy::unwrap_used)]

mod here;

use here::offered;
use std::{path::Path, sync::atomic::AtomicBool};
use vitempo_graph::{MemoryFormat, OpKind, Status};
use vitempo_profiler::{
    Backend, Model, ModelSource, ProfiledRuns, RunOptions, RunProtocol, WorkerCommand, backends,
    profile_operators, reference,
};

/// The backends that can run here, but for the null backend.
fn engines() -> Vec<Box<dyn Backend>> {
    // An engine that runs only on emulated processors reports no times.
    let available = |backend: &dyn Backend| {
        offered(backend, &RunOptions::default()).is_some_and(|capabilities| {
            assert!(!capabilities.version.is_empty());
            capabilities.operator_timing
        })
    };
    backends::all().into_iter().filter(|b| b.name() != "null" && available(b.as_ref())).collect()
}

/// Of each profiled run: operators' time as a share of the whole run's, by wall time and by CPU
/// time: on a loaded machine the process may be kept waiting between its operators, or within them.
fn shares(profile: &ProfiledRuns) -> Vec<f64> {
    let sum =
        |run: usize| profile.operators.iter().map(|o| o.samples.wall_ns[run] as f64).sum::<f64>();
    let share = |(run, &whole): (usize, &u64)| sum(run) / whole as f64;
    profile
        .e2e
        .wall_ns
        .iter()
        .enumerate()
        .map(share)
        .chain(profile.e2e.cpu_ns.iter().enumerate().map(share))
        .collect()
}

fn operators_add_up_to_the_model() {
    for backend in engines() {
        let mut session =
            backend.load(&reference::model().unwrap(), &RunOptions::default()).unwrap();
        let time = session.run().unwrap();
        assert!(
            time.wall_ns > 0 && time.cpu_ns.is_some_and(|cpu| cpu > 0) == cfg!(unix),
            "{time:?}"
        );
        let profile = session.profile(3, 11).unwrap();
        assert_eq!(
            (profile.e2e.wall_ns.len(), profile.e2e.cpu_ns.len()),
            (11, if cfg!(unix) { 11 } else { 0 })
        );
        assert!(
            profile
                .operators
                .iter()
                .all(|o| o.status == Status::Ok && o.samples.wall_ns.len() == 11),
            "{}",
            backend.name()
        );
        let shares = shares(&profile);
        assert!(
            shares.iter().any(|share| (0.5..1.5).contains(share)),
            "{}: operators are {shares:.2?} of the whole",
            backend.name()
        );
        session.run().unwrap();
    }
}

fn executed_kernels_are_known_operators() {
    for backend in engines() {
        let mut session =
            backend.load(&reference::model().unwrap(), &RunOptions::default()).unwrap();
        let operators = session.profile(1, 2).unwrap().operators;
        let unknown: Vec<_> = operators
            .iter()
            .filter(|o| matches!(o.op.kind, OpKind::Unsupported(_)))
            .map(|o| (&o.node, &o.kernel))
            .collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", backend.name());
        // An engine may run attention as one kernel.
        for kinds in [[OpKind::Conv, OpKind::Conv], [OpKind::Softmax, OpKind::Attention]] {
            assert!(
                operators.iter().any(|o| kinds.contains(&o.op.kind)),
                "{}: none of {kinds:?}",
                backend.name()
            );
        }
        assert!(operators.iter().all(|o| !o.op.outputs.is_empty()), "{}", backend.name());
    }
}

fn bytes_that_are_no_model_are_refused() {
    for backend in engines() {
        let good = reference::model().unwrap();
        for source in [
            ModelSource::Bytes(b"not a model".to_vec()),
            ModelSource::Bytes(Vec::new()),
            ModelSource::File(Path::new("/nonexistent.onnx").into()),
        ] {
            let model = Model { source, ..good.clone() };
            let error = backend
                .load(&model, &RunOptions::default())
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default();
            assert!(error.contains("`reference`"), "{}: {error}", backend.name());
        }
    }
}

fn options_an_engine_does_not_offer_are_refused() {
    for backend in engines() {
        let options =
            RunOptions { processor: vitempo_graph::Processor::Npu, ..RunOptions::default() };
        let error = backend
            .load(&reference::model().unwrap(), &options)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains("npu") && error.contains("cpu"), "{}: {error}", backend.name());
    }
}

fn single_operators_are_measured_on_their_own() {
    let worker = WorkerCommand {
        program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
        args: Vec::new(),
        env: Vec::new(),
    };
    let graph = reference::graph().unwrap();
    let wanted = [OpKind::Softmax, OpKind::Conv, OpKind::Transpose];
    let operators: Vec<_> = wanted
        .iter()
        .map(|kind| graph.nodes().iter().find(|n| n.op.kind == *kind).unwrap().op.clone())
        .collect();
    for backend in engines() {
        let name = backend.name();
        let protocol = RunProtocol::default();
        let rows = profile_operators(
            &operators,
            name,
            &RunOptions::default(),
            &protocol,
            &worker,
            &AtomicBool::new(false),
        )
        .unwrap();
        let own_layout = !backend
            .probe(&RunOptions::default())
            .require(name)
            .unwrap()
            .memory_formats
            .contains(&MemoryFormat::ChannelsFirst);
        for kind in &wanted {
            // An engine that stores tensors as it likes may have nothing to move.
            let row = rows.iter().find(|r| r.op.kind == *kind);
            if row.is_none() && own_layout && *kind == OpKind::Transpose {
                continue;
            }
            let row = row.unwrap_or_else(|| panic!("{name}: no {kind} in {rows:?}"));
            assert_eq!((&row.status, row.node.as_str()), (&Status::Ok, ""), "{name}");
            assert_eq!(row.samples.wall_ns.len(), protocol.profiled_repeats, "{name}");
        }
    }
}

/// The same graph, weights and inputs give the same outputs on every engine, within the rounding of
/// single precision.
fn engines_agree_on_outputs() {
    let engines = engines();
    let mut all = engines.iter().map(|b| {
        (
            b.name(),
            b.load(&reference::model().unwrap(), &RunOptions::default())
                .unwrap()
                .outputs()
                .unwrap(),
        )
    });
    let (first, expected) = all.next().unwrap();
    for (name, outputs) in all {
        assert_eq!(outputs.len(), expected.len(), "{name}");
        for (a, b) in expected.iter().zip(&outputs) {
            assert_eq!((&a.name, &a.shape), (&b.name, &b.shape), "{first} and {name}");
            let largest = a.values.iter().fold(0f32, |m, v| m.max(v.abs()));
            let apart =
                a.values.iter().zip(&b.values).map(|(x, y)| (x - y).abs()).fold(0f32, f32::max);
            assert!(
                largest > 0.0 && apart <= 1e-4 * largest,
                "{first} and {name} are {apart} apart on `{}`, whose largest value is {largest}",
                a.name
            );
        }
    }
}

/// One test, so that the harness prints nothing into an engine's account on standard output
/// meanwhile.
#[test]
fn every_engine_conforms() {
    operators_add_up_to_the_model();
    executed_kernels_are_known_operators();
    bytes_that_are_no_model_are_refused();
    options_an_engine_does_not_offer_are_refused();
    single_operators_are_measured_on_their_own();
    engines_agree_on_outputs();
}

//! The Hexagon NPU's provider, where it is installed: which operators it takes, what it computes,
//! and that it reports no latency.

#![cfg(feature = "onnxruntime")]
#![allow(clippy::unwrap_used)]

use vitempo_graph::{Attributes, Graph, GraphBuilder, OpKind, Precision, Processor, TensorSpec};
use vitempo_profiler::{
    Availability, Backend, RunOptions,
    backends::onnxruntime::qnn::Qnn,
    coverage::counts,
    source::{self, Source},
};

fn model(with_cpu_operator: bool) -> Graph {
    let mut b = GraphBuilder::new("convolutions");
    let image = b.input("image", TensorSpec::f32([1, 3, 16, 16]));
    let x = b.conv("stem", image, 8, 3, 2, 1, 1, true).unwrap();
    let x = b.unary("stem.relu", OpKind::Relu, x).unwrap();
    let x = b.conv("pointwise", x, 8, 1, 1, 0, 1, true).unwrap();
    let x = b.unary("pool", OpKind::GlobalAveragePool, x).unwrap();
    let x = b.reshape("flat", x, &[1, 8]).unwrap();
    let y = b.linear("head", x, 10, true).unwrap();
    // The provider has no such operator.
    let y = if with_cpu_operator {
        b.op(
            "celu",
            OpKind::Elu,
            Attributes::new().with("op", vitempo_graph::Attribute::Text("Celu".into())),
            &[y],
        )
        .unwrap()
    } else {
        y
    };
    b.finish(vec![y]).unwrap()
}

fn options(precision: Precision) -> Option<RunOptions> {
    let options = RunOptions { processor: Processor::Npu, precision, ..RunOptions::default() };
    match Qnn.probe(&options) {
        Availability::Available(capabilities) => {
            assert!(!capabilities.operator_timing && capabilities.devices == [Processor::Npu]);
            Some(options)
        }
        Availability::Unavailable { reason, hint } => {
            eprintln!("skipped: qnn is not available: {reason}");
            assert!(hint.contains("qnn"));
            None
        }
    }
}

#[test]
fn the_npu_takes_a_network_computes_it_and_tells_no_latency() {
    for precision in [Precision::I8, Precision::F16] {
        let Some(options) = options(precision) else { return };
        let graph = model(false);
        let ready = source::ready("convolutions", &Source::Graph, &graph, &Qnn, &options).unwrap();
        let coverage = Qnn.coverage(&ready, &options).unwrap();
        assert!(
            coverage.taken.iter().all(|a| a.provider == "QNNExecutionProvider"),
            "{precision}: {coverage:?}"
        );
        assert!(coverage.whole(), "{precision}: {:?}", coverage.left);
        let counts = counts(&coverage.taken);
        assert_eq!((counts["Conv"], counts["Gemm"]), (2, 1), "{precision}: {counts:?}");
        let mut session = Qnn.load(&ready, &options).unwrap();
        let outputs = session.outputs().unwrap();
        assert_eq!(outputs[0].shape[..], [1, 10]);
        assert!(
            outputs[0].values.iter().all(|v| v.is_finite())
                && outputs[0].values.iter().any(|v| *v != 0.0),
            "{precision}: {outputs:?}"
        );
        for error in
            [session.run().unwrap_err().to_string(), session.profile(0, 1).unwrap_err().to_string()]
        {
            assert!(
                error.contains("no latency") && error.contains("backends check --backend qnn"),
                "{error}"
            );
        }
    }
}

/// Outputs within what the precision explains, and in half precision farther off than single
/// precision would be.
#[cfg(feature = "rten")]
#[test]
fn transformers_pooling_and_norms_run_on_the_npu_as_a_whole_in_the_precision_asked_for() {
    use vitempo_profiler::{backends::rten::Rten, conformance};
    for precision in [Precision::F16, Precision::I8] {
        let Some(options) = options(precision) else { return };
        for graph in conformance::graphs::all().unwrap() {
            let name = graph.name();
            let ready = |backend: &dyn Backend, options: &RunOptions| {
                source::ready(name, &Source::Graph, &graph, backend, options).unwrap()
            };
            let coverage = Qnn.coverage(&ready(&Qnn, &options), &options).unwrap();
            assert!(coverage.whole(), "{name} {precision}: {:?}", coverage.left);
            let found = Qnn.load(&ready(&Qnn, &options), &options).unwrap().outputs().unwrap();
            let single = RunOptions::default();
            let expected = Rten.load(&ready(&Rten, &single), &single).unwrap().outputs().unwrap();
            let (apart, output) = conformance::difference(&expected, &found).unwrap();
            assert!(
                (1e-5..=conformance::tolerance(precision)).contains(&apart),
                "{name} {precision}: `{output}` is {apart:.1e} away"
            );
        }
    }
}

#[test]
fn what_the_npu_does_not_take_is_named_and_never_run_elsewhere_in_silence() {
    let Some(options) = options(Precision::F16) else { return };
    let ready =
        source::ready("convolutions", &Source::Graph, &model(true), &Qnn, &options).unwrap();
    let coverage = Qnn.coverage(&ready, &options).unwrap();
    assert!(
        !coverage.whole()
            && coverage.left.iter().any(|a| a.operator == "Celu")
            && !coverage.taken.is_empty(),
        "{coverage:?}"
    );
    assert!(Qnn.load(&ready, &options).is_err());
}

//! Models: reading, the kernels of every framework, writing, reading again.

use vitempo::graph::{
    Budget, Environment, Framework, Graph, Limits, MemoryFormat, Precision, Processor, Work,
    lowering,
    onnx::{self, ReadOptions, WriteOptions},
    quantize, tflite,
};

/// What one lowering of an input may cost.
const LIMITS: Limits = Limits { bytes: 16 << 20, steps: 20_000_000, nodes: 100_000 };

/// Reads a model, and counts its work.
pub fn read(bytes: &[u8]) {
    if let Ok(graph) = onnx::read_bytes("input", bytes, &ReadOptions::default()) {
        let _ = (Work::of_graph(&graph), graph.architecture(), graph.unsupported().count());
    }
}

/// Reads a model, lowers it for every framework, converts it to int8 and f16, writes all that, and
/// reads it again: the same operators, and of the model itself the same kernels.
pub fn lower(bytes: &[u8]) {
    let Ok(graph) = onnx::read_bytes("input", bytes, &ReadOptions::default()) else { return };
    let lowered = kernels(&graph);
    for kernels in lowered.iter().flatten() {
        let _ = (Work::of_graph(kernels), kernels.architecture());
    }
    let _ = tflite::plan(&graph, Precision::I8);
    let options = quantize::Options::default();
    let budget = Budget::new(LIMITS);
    let converted = [
        quantize::qdq_within(&graph, &options, &budget).ok(),
        quantize::integer_within(&graph, &options, &budget).ok(),
        quantize::half_within(&graph, &budget).ok(),
    ];
    for other in converted.iter().flatten() {
        if let Some(again) = write(other, &budget) {
            assert_same(other, &again);
        }
    }
    if let Some(again) = write(&graph, &budget) {
        assert_same(&graph, &again);
        for (before, after) in lowered.iter().zip(kernels(&again)) {
            if let (Some(before), Some(after)) = (before, after) {
                assert_same(before, &after);
            }
        }
    }
}

/// The kernels of every environment that lowers the graph within the limits.
fn kernels(graph: &Graph) -> Vec<Option<Graph>> {
    let lowered = |(framework, precision, format): &(Framework, Precision, MemoryFormat)| {
        let environment = environment(framework, *precision, *format);
        lowering::lower_within(graph, &environment, &Budget::new(LIMITS)).ok()
    };
    ENVIRONMENTS.iter().map(lowered).collect()
}

/// Writes a graph; what can be written can be read.
fn write(graph: &Graph, budget: &Budget) -> Option<Graph> {
    let bytes = onnx::to_bytes_within(graph, &WriteOptions::default(), budget).ok()?;
    let again = onnx::read_bytes(graph.name(), &bytes, &ReadOptions::default());
    Some(again.unwrap_or_else(|error| panic!("the reader refuses what was written: {error}")))
}

fn assert_same(graph: &Graph, again: &Graph) {
    let operators = |g: &Graph| g.nodes().iter().map(|n| n.op.clone()).collect::<Vec<_>>();
    assert_eq!(operators(graph), operators(again), "operators change when written and read");
    assert_eq!(Work::of_graph(graph), Work::of_graph(again), "work changes");
}

const ENVIRONMENTS: &[(Framework, Precision, MemoryFormat)] = &[
    (Framework::LiteRt, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::LiteRt, Precision::I8, MemoryFormat::ChannelsFirst),
    (Framework::LiteRtBuiltin, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::OnnxRuntime, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::OnnxRuntime, Precision::I8, MemoryFormat::ChannelsFirst),
    (Framework::OpenVino, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::OpenVino, Precision::I8, MemoryFormat::ChannelsFirst),
    (Framework::Rten, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::Rten, Precision::I8, MemoryFormat::ChannelsFirst),
    (Framework::Torch, Precision::F32, MemoryFormat::ChannelsFirst),
    (Framework::Torch, Precision::Bf16, MemoryFormat::ChannelsLast),
];

fn environment(framework: &Framework, precision: Precision, format: MemoryFormat) -> Environment {
    Environment {
        device: "fuzz".into(),
        processor: Processor::Cpu,
        cores_available: 1,
        cores: Vec::new(),
        framework: framework.name().into(),
        framework_version: "1".into(),
        threads: 1,
        precision,
        memory_format: Some(format),
        power_mode: None,
        isa: "avx2".into(),
        os: "Linux".into(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

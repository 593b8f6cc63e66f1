//! Small files that would take a reader terabytes or hours are read or refused within a budget of
//! steps and 64 MB beyond the size of the file; larger ones cost steps in proportion to their
//! nodes.
//!
//! It is the only test of its program, so that no other test allocates meanwhile.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vitempo_graph::onnx::{
    OnnxError, ReadOptions, WriteOptions, read_bytes, read_file, read_weights, to_bytes,
};
use vitempo_graph::{Limits, Stop};

/// Counts the bytes that are allocated, and the most there ever were.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory that reading may take beyond the size of the file, and for each byte of it: a node of
/// twelve bytes becomes a kilobyte.
const ROOM: usize = 64 << 20;
const ROOM_PER_BYTE: usize = 128;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "onnx") {
            found.push(path);
        }
    }
}

/// Steps that reading takes: the least budget that is enough, by bisection.
fn steps(read: impl Fn(&ReadOptions) -> Result<(), OnnxError>) -> u64 {
    let fits = |steps: u64| {
        let limits = Limits { steps, ..Limits::default() };
        let options = ReadOptions { limits, ..ReadOptions::default() };
        !matches!(read(&options), Err(OnnxError::Budget { .. }))
    };
    let (mut least, mut most) = (0, 1 << 32);
    while least < most {
        let middle = (least + most) / 2;
        if fits(middle) { most = middle } else { least = middle + 1 }
    }
    least
}

/// One test, because the allocations of another would be counted.
#[test]
fn small_files_cost_little_and_large_ones_in_proportion() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile"), &mut found);
    assert!(found.len() >= 70, "{} files", found.len());
    let limits = Limits { bytes: 1 << 25, steps: 50_000_000, nodes: 100_000 };
    let options = ReadOptions { limits, ..ReadOptions::default() };
    for file in &found {
        let bytes = std::fs::read(file).unwrap();
        let room = ROOM + ROOM_PER_BYTE * bytes.len();
        for read in [read_bytes, read_weights] {
            let before = NOW.load(Relaxed);
            MOST.store(before, Relaxed);
            let _ = read("hostile", &bytes, &options);
            let most = MOST.load(Relaxed) - before;
            assert!(most <= room, "{}: {most} bytes", file.display());
        }
    }
    growth();
    a_stopped_read_ends_soon();
    what_ran_out_is_named();
}

/// A file of a chain of `count` activations, one value that all of them read, or their
/// concatenation.
fn chain(count: usize, shape: Shape) -> Vec<u8> {
    use vitempo_graph::onnx::proto::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/slow");
    let relu = read_file(&seed.join("chain_relu_10000.onnx"), &ReadOptions::default()).unwrap();
    let bytes = to_bytes(&relu, &WriteOptions::default()).unwrap();
    let mut model: ModelProto = prost::Message::decode(bytes.as_slice()).unwrap();
    let graph: &mut GraphProto = model.graph.as_mut().unwrap();
    let input = graph.input[0].name.clone();
    let node = |index: usize| NodeProto {
        op_type: "Relu".to_owned(),
        name: format!("n{index}"),
        input: vec![match (shape, index) {
            (Shape::Chain, 1..) => format!("v{}", index - 1),
            _ => input.clone(),
        }],
        output: vec![format!("v{index}")],
        ..NodeProto::default()
    };
    graph.node = (0..count).map(node).collect();
    let last: String = if shape == Shape::Concatenation {
        let mut joined = NodeProto {
            op_type: "Concat".to_owned(),
            input: (0..count).map(|index| format!("v{index}")).collect(),
            output: vec!["joined".to_owned()],
            ..NodeProto::default()
        };
        joined.attribute.push(vitempo_graph::onnx::proto::AttributeProto {
            name: "axis".to_owned(),
            r#type: 2,
            i: Some(0),
            ..Default::default()
        });
        graph.node.push(joined);
        "joined".to_owned()
    } else {
        format!("v{}", count - 1)
    };
    graph.output = vec![ValueInfoProto { name: last, ..graph.output[0].clone() }];
    prost::Message::encode_to_vec(&model)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Chain,
    FanOut,
    Concatenation,
}

fn growth() {
    for shape in [Shape::Chain, Shape::FanOut, Shape::Concatenation] {
        let cost = |count: usize| {
            let bytes = chain(count, shape);
            read_bytes("grown", &bytes, &ReadOptions::default()).unwrap();
            steps(|options| read_bytes("grown", &bytes, options).map(drop))
        };
        let (small, large) = (cost(500), cost(5_000));
        let exponent = (large as f64 / small as f64).log10();
        assert!(exponent < 1.2, "{shape:?}: {small} steps, {large} for ten times the nodes");
    }
}

fn a_stopped_read_ends_soon() {
    let bytes = chain(50_000, Shape::Chain);
    let options = ReadOptions { stop: Stop::when(|| true), ..ReadOptions::default() };
    let error = read_bytes("stopped", &bytes, &options).unwrap_err();
    assert!(matches!(&error, OnnxError::Budget { .. }), "{error}");
}

fn what_ran_out_is_named() {
    let bytes = chain(1_000, Shape::Chain);
    let limits = Limits { nodes: 700, ..Limits::default() };
    let options = ReadOptions { limits, ..ReadOptions::default() };
    let error = read_bytes("m", &bytes, &options).unwrap_err().to_string();
    assert_eq!(
        error,
        "m: node `n700`: the model takes more than the limit of 700 nodes for one model"
    );
}

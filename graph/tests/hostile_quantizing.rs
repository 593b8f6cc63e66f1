//! Quantising and writing draw on the budget of reading and lowering: the hostile files are
//! converted and written, or refused, within 64 MB beyond the size of the file and 8 KiB for each
//! node; steps grow in proportion to nodes; errors name the node and the limit.
//!
//! Alone in its program, so that no other test allocates meanwhile.

#![allow(clippy::unwrap_used)]

mod growing;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vitempo_graph::onnx::{
    OnnxError, ReadOptions, WriteOptions, read_file, read_weights, to_bytes_within,
};
use vitempo_graph::quantize::{Conversion, Options};
use vitempo_graph::{Budget, Graph, GraphBuilder, GraphError, Limits, TensorSpec};

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

const ROOM: usize = 64 << 20;
const ROOM_PER_NODE: usize = 8 << 10;

const CONVERSIONS: [Conversion; 4] =
    [Conversion::Qdq, Conversion::QdqResults, Conversion::Integer, Conversion::Half];

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

/// Bytes allocated at most while `work` runs, beyond those there were before.
fn most_allocated(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

/// Converts and writes a graph; whether that was done.
fn convert_and_write(graph: &Graph, options: &Options, budget: &Budget) -> usize {
    let write = WriteOptions::seeded(1);
    let mut done = usize::from(to_bytes_within(graph, &write, budget).is_ok());
    for conversion in CONVERSIONS {
        if let Ok(converted) = conversion.apply_within(graph, options, budget) {
            done += usize::from(to_bytes_within(&converted, &write, budget).is_ok());
        }
    }
    done
}

/// One test, because the allocations of another would be counted.
#[test]
fn quantising_and_writing_are_bounded() {
    small_files_take_little();
    steps_grow_with_nodes();
    what_ran_out_is_named();
    a_tensor_without_elements_has_no_scales();
}

fn small_files_take_little() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile"), &mut found);
    found.sort();
    let mut done = 0;
    for file in &found {
        let bytes = std::fs::read(file).unwrap();
        let shapes = read_file(file, &ReadOptions::default());
        let weights = read_weights("hostile", &bytes, &ReadOptions::default());
        for graph in [shapes, weights].into_iter().flatten() {
            let room = ROOM + bytes.len() + ROOM_PER_NODE * graph.nodes().len();
            for options in [Options::default(), Options::seeded(1)] {
                let limits = Limits { bytes: 1 << 24, steps: 4_000_000, nodes: 200_000 };
                let budget = Budget::new(limits);
                let most = most_allocated(|| done += convert_and_write(&graph, &options, &budget));
                assert!(most <= room, "{}: {most} bytes", file.display());
            }
        }
    }
    assert!(done > found.len(), "{done} models of {} files", found.len());
}

fn steps_grow_with_nodes() {
    for (name, make) in growing::CASES {
        let cost = |nodes: usize| {
            let budget = Budget::new(Limits::NONE);
            assert!(convert_and_write(&make(nodes), &Options::default(), &budget) > 0, "{name}");
            budget.steps_spent()
        };
        let (small, large) = (cost(300), cost(3_000));
        let exponent = (large as f64 / small as f64).log10();
        assert!(exponent < 1.2, "{name}: {small} steps, {large} for ten times the nodes");
    }
}

fn products(count: usize) -> Graph {
    let mut b = GraphBuilder::new("m");
    let mut x = b.input("x", TensorSpec::f32([1, 4, 8]));
    for index in 0..count {
        x = b.linear(&format!("n{index}"), x, 8, true).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

fn what_ran_out_is_named() {
    let graph = products(1_000);
    let cases = [
        (Limits { nodes: 700, ..Limits::NONE }, "700 nodes"),
        (Limits { steps: 5_000, ..Limits::NONE }, "5000 steps"),
        (Limits { bytes: 90_000, ..Limits::NONE }, "90000 bytes"),
    ];
    for (limits, says) in cases {
        for conversion in [Conversion::Qdq, Conversion::Integer] {
            let error = conversion
                .apply_within(&graph, &Options::seeded(1), &Budget::new(limits))
                .unwrap_err();
            assert!(matches!(&error, GraphError::Exceeded { .. }), "{error}");
            assert!(error.node().is_some_and(|node| node.starts_with('n')), "{error}");
            assert!(error.to_string().ends_with(&format!("{says} for one model")), "{error}");
        }
        if limits.nodes == u64::MAX {
            let budget = Budget::new(limits);
            let error = to_bytes_within(&graph, &WriteOptions::seeded(1), &budget).unwrap_err();
            assert!(matches!(&error, OnnxError::Budget { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(says) && text.starts_with("m: "), "{text}");
            assert!(text.contains("node `n") || text.contains("initializer `n"), "{text}");
        }
    }
    let half = Conversion::Half.apply_within(
        &graph,
        &Options::default(),
        &Budget::new(Limits { steps: 3_000, ..Limits::NONE }),
    );
    assert!(half.unwrap_err().node().is_some_and(|node| node.starts_with('n')));
}

/// Weights of no rows and 2^40 columns have no number, and as many scales.
fn a_tensor_without_elements_has_no_scales() {
    let mut b = GraphBuilder::new("m");
    let x = b.input("x", TensorSpec::f32([1, 0]));
    let weight = b.constant(
        "w",
        TensorSpec::f32([0, 1 << 38]),
        vitempo_graph::ConstantData::Floats(Vec::new()),
    );
    let y =
        b.op("y", vitempo_graph::OpKind::Linear, vitempo_graph::Attributes::new(), &[x, weight]);
    let graph = b.finish(vec![y.unwrap()]).unwrap();
    let most = most_allocated(|| {
        let budget = Budget::new(Limits { bytes: 1 << 24, steps: 4_000_000, nodes: 1_000 });
        for conversion in CONVERSIONS {
            let converted = conversion.apply_within(&graph, &Options::seeded(1), &budget).unwrap();
            let written = to_bytes_within(&converted, &WriteOptions::seeded(1), &budget);
            assert_eq!(written.is_ok(), conversion == Conversion::Half, "{conversion:?}");
        }
    });
    assert!(most <= ROOM, "{most} bytes");
}

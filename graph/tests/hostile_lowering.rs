//! Small files that declare terabytes, use indices out of range, or repeat an operator ten thousand
//! times: every framework lowers or refuses them within a budget of steps, and takes at most 64 MB
//! beyond the size of the file, and 4 KiB for each of its nodes; so does giving them images of
//! another size.
//!
//! It is the only test of its program, so that no other test allocates meanwhile.

#![allow(clippy::unwrap_used)]

mod growing;

use growing::environments;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vitempo_graph::lowering::lower_within;
use vitempo_graph::onnx::{ReadOptions, read_file};
use vitempo_graph::{Budget, ImageSize, Limits, with_image_size_within};

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
/// Memory of a node of the model, including its quantised form and copies.
const ROOM_PER_NODE: usize = 4 << 10;

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

#[test]
fn small_files_take_little() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile"), &mut found);
    found.sort();
    assert!(found.len() >= 30, "{} files", found.len());
    let sizes = [(1, 1), (1, 65536), (224, 320), (65536, 65536)]
        .map(|(height, width)| ImageSize::new(height, width).unwrap());
    let limits = Limits { bytes: 1 << 24, steps: 4_000_000, nodes: 200_000 };
    let (mut lowered, mut resized) = (0, 0);
    for file in &found {
        let Ok(graph) = read_file(file, &ReadOptions::default()) else { continue };
        let bytes = std::fs::metadata(file).unwrap().len() as usize;
        let room = ROOM + bytes + ROOM_PER_NODE * graph.nodes().len();
        for (name, environment) in environments() {
            let budget = Budget::new(limits);
            let most = most_allocated(|| {
                lowered += usize::from(lower_within(&graph, &environment, &budget).is_ok());
            });
            assert!(most <= room, "{} {name}: {most} bytes", file.display());
        }
        for size in sizes {
            let most = most_allocated(|| {
                let other = with_image_size_within(&graph, size, &Budget::new(limits));
                let Ok(other) = other else { return };
                resized += 1;
                let _ = lower_within(&other, &environments()[0].1, &Budget::new(limits));
            });
            assert!(most <= room, "{} at {size}: {most} bytes", file.display());
        }
    }
    assert!(lowered > found.len(), "{lowered} lowerings of {} files", found.len());
    assert!(resized >= 8, "{resized} files and sizes");
}

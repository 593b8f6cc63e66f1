//! [`Counting`]: counts the system allocator's bytes, so that the memory of one input can be
//! measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Memory of the process at which an allocation fails, bytes: an input that asks for more ends the
/// process, and not the machine.
const CEILING: usize = 3 << 30;

/// Counts what the whole process has allocated.
#[derive(Debug)]
pub struct Counting;

fn take(size: usize) -> bool {
    let now = CURRENT.fetch_add(size, Relaxed).saturating_add(size);
    PEAK.fetch_max(now, Relaxed);
    if now > CEILING {
        give(size);
    }
    now <= CEILING
}

fn give(size: usize) {
    CURRENT.fetch_sub(size, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with its own arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the pointer came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the pointer came from `System` with this layout.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        give(if moved.is_null() { size } else { layout.size() });
        moved
    }
}

/// Runs `work`, and returns by how many bytes the process grew at most meanwhile; 0 where
/// [`Counting`] is not the program's allocator.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = CURRENT.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (result, PEAK.load(Relaxed).saturating_sub(before))
}

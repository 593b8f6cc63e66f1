//! The allocator of the binary: mimalloc, and in workers the system's own allocator.
//!
//! Reading and lowering a model makes thousands of small objects, which mimalloc allocates faster.
//! Workers run engines, and an engine written in Rust uses the allocator of its program. Workers
//! therefore keep the system's allocator, the default of Rust programs.

use mimalloc::MiMalloc;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU8, Ordering},
};
use vitempo::profiler::worker;

#[global_allocator]
static GLOBAL: Allocator = Allocator;

struct Allocator;

const UNDECIDED: u8 = 0;
const FAST: u8 = 1;
const SYSTEM: u8 = 2;
/// The first allocation, before `main`, chooses the allocator; no memory moves from one to the
/// other.
static CHOICE: AtomicU8 = AtomicU8::new(UNDECIDED);

fn choice() -> u8 {
    match CHOICE.load(Ordering::Relaxed) {
        UNDECIDED => {
            let choice = if worker::is_worker() { SYSTEM } else { FAST };
            CHOICE.store(choice, Ordering::Relaxed);
            choice
        }
        decided => decided,
    }
}

// SAFETY: each call goes on to one and the same allocator, as the caller made it.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { if choice() == FAST { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if choice() == FAST {
                MiMalloc.alloc_zeroed(layout)
            } else {
                System.alloc_zeroed(layout)
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe {
            if choice() == FAST {
                MiMalloc.dealloc(memory, layout);
            } else {
                System.dealloc(memory, layout);
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe {
            if choice() == FAST {
                MiMalloc.realloc(memory, layout, size)
            } else {
                System.realloc(memory, layout, size)
            }
        }
    }
}

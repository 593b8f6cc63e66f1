//! The kernels that a CUDA device runs, with the times of their starts and ends, by CUPTI's
//! activity records.
//!
//! Offsets in records are those of `cupti_activity.h` (`CUpti_ActivityKernel4` to `10`,
//! `CUpti_ActivityMemcpy`, `CUpti_ActivityMemset`), whose first fields stay from version to version.

use super::library::Raw;
use std::{
    alloc::{Layout, alloc, dealloc},
    ffi::{CStr, c_char, c_void},
    ptr,
    sync::{Mutex, OnceLock, PoisonError},
};

type Status = i32;
type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// Kinds of records: copies, fills, kernels.
const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const KERNEL: u32 = 10;
const KINDS: [u32; 3] = [MEMCPY, MEMSET, KERNEL];
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`.
const FORCED: u32 = 1;
/// Start, then end, ns, in every kind of record.
const START: usize = 16;
const END: usize = 24;
/// Name of a kernel.
const NAME: usize = 104;

/// What to do without records.
const INSTEAD: &str = "without the setting cuda-graph operators are timed by events; a graph can be measured without \
    timing its operators";

/// Bytes and alignment of a buffer for records.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

#[derive(Clone, Copy, Debug)]
struct Functions {
    register: unsafe extern "C" fn(Requested, Completed) -> Status,
    enable: unsafe extern "C" fn(u32) -> Status,
    disable: unsafe extern "C" fn(u32) -> Status,
    flush: unsafe extern "C" fn(u32) -> Status,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Status,
    message: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
static RECORDED: Mutex<Vec<Activity>> = Mutex::new(Vec::new());

/// Something that the device did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    /// The kernel's function, without the arguments of its templates.
    pub name: String,
    /// When it began, ns of CUPTI's clock.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// Records while it lives. One at a time.
pub(super) struct Recorder(Functions);

impl Recorder {
    /// Begins.
    ///
    /// # Errors
    /// In CUPTI's words, e.g. where the driver does not let this user read counters.
    pub(super) fn start(library: &Raw) -> Result<Self, String> {
        let functions = match FUNCTIONS.get() {
            Some(functions) => *functions,
            None => {
                let functions = functions(library)?;
                *FUNCTIONS.get_or_init(|| functions)
            }
        };
        let recorder = Self(functions);
        // SAFETY: both callbacks are functions of this file, for the whole process.
        recorder.check(unsafe { (functions.register)(requested, completed) })?;
        for kind in KINDS {
            // SAFETY: the function takes a number.
            recorder.check(unsafe { (functions.enable)(kind) })?;
        }
        Ok(recorder)
    }

    fn check(&self, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut text = ptr::null();
        // SAFETY: the text has a place, and is static where there is one.
        let words = unsafe {
            (self.0.message)(status, &raw mut text);
            if text.is_null() { "".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("CUPTI records no kernels: {words} (error {status}); {INSTEAD}"))
    }

    /// What the device did since this was last asked, in order; it must have been waited for.
    pub(super) fn take(&self) -> Result<Vec<Activity>, String> {
        // SAFETY: the function takes a number.
        self.check(unsafe { (self.0.flush)(FORCED) })?;
        let mut taken = std::mem::take(&mut *lock());
        if taken.iter().any(|activity| activity.start == 0 || activity.end < activity.start) {
            return Err(format!("CUPTI's records are incomplete; {INSTEAD}"));
        }
        taken.sort_by_key(|activity| activity.start);
        Ok(taken)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for kind in KINDS {
            // SAFETY: the function takes a number.
            unsafe { (self.0.disable)(kind) };
        }
        // SAFETY: as above.
        unsafe { (self.0.flush)(FORCED) };
        lock().clear();
    }
}

fn functions(library: &Raw) -> Result<Functions, String> {
    // SAFETY: the signatures are those of `cupti_activity.h`; enumerations are 32 bits wide.
    unsafe {
        Ok(Functions {
            register: library.symbol("cuptiActivityRegisterCallbacks")?,
            enable: library.symbol("cuptiActivityEnable")?,
            disable: library.symbol("cuptiActivityDisable")?,
            flush: library.symbol("cuptiActivityFlushAll")?,
            next: library.symbol("cuptiActivityGetNextRecord")?,
            message: library.symbol("cuptiGetResultString")?,
        })
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Activity>> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CUPTI asks for a buffer.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    // SAFETY: the layout is not empty; CUPTI gives places for the three values, and takes a null
    // buffer as none.
    unsafe {
        *buffer = alloc(BUFFER);
        *size = if (*buffer).is_null() { 0 } else { BUFFER.size() };
        *records = 0;
    }
}

/// CUPTI gives a buffer back.
unsafe extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    let mut record = ptr::null_mut();
    // SAFETY: the buffer is one of `requested`; CUPTI walks over the records in it, each of which
    // is as long as its kind says.
    unsafe {
        if let Some(functions) = FUNCTIONS.get() {
            while (functions.next)(buffer, valid, &raw mut record) == 0 {
                lock().extend(activity(record));
            }
        }
        dealloc(buffer, BUFFER);
    }
}

/// # Safety
/// `record` must point at a record of CUPTI's.
unsafe fn activity(record: *const u8) -> Option<Activity> {
    // SAFETY: the caller's promise; a record of these kinds has the fields at these offsets.
    unsafe {
        let long = |offset| record.add(offset).cast::<u64>().read_unaligned();
        let name = match record.cast::<u32>().read_unaligned() {
            MEMCPY => "memcpy".to_owned(),
            MEMSET => "memset".to_owned(),
            KERNEL => match record.add(NAME).cast::<*const c_char>().read_unaligned() {
                name if name.is_null() => String::new(),
                name => function(&CStr::from_ptr(name).to_string_lossy()),
            },
            _ => return None,
        };
        Some(Activity { name, start: long(START), end: long(END) })
    }
}

/// `at::native::softmax_warp_forward` of `_ZN2at6native20softmax_warp_forwardIfffLi8E...`; names
/// that are not C++'s stay as they are.
fn function(mangled: &str) -> String {
    let Some(mut rest) = mangled.strip_prefix("_Z") else { return mangled.to_owned() };
    rest = rest.strip_prefix('N').unwrap_or(rest);
    let mut parts = Vec::new();
    while let Some(digits) = rest.find(|c: char| !c.is_ascii_digit()).filter(|&n| n > 0) {
        let Some((length, after)) = rest[..digits].parse::<usize>().ok().zip(rest.get(digits..))
        else {
            break;
        };
        let Some((part, after)) = after.split_at_checked(length) else { break };
        if !part.starts_with("_GLOBAL__N_") {
            parts.push(part);
        }
        rest = after;
    }
    if parts.is_empty() { mangled.to_owned() } else { parts.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_are_readable() {
        for (mangled, name) in [
            (
                "_ZN2at6native20softmax_warp_forwardIfffLi8ELb0ELb0EEvPT0_PKT_iiiPKbib",
                "at::native::softmax_warp_forward",
            ),
            (
                "_ZN2at6native12_GLOBAL__N_126CatArrayBatchedCopy_contigIffEE",
                "at::native::CatArrayBatchedCopy_contig",
            ),
            ("_Z17fmha_cutlassF_f32v", "fmha_cutlassF_f32"),
            ("sm80_xmma_gemm_f32f32_tn_n", "sm80_xmma_gemm_f32f32_tn_n"),
            ("_ZN", "_ZN"),
            ("_ZN9", "_ZN9"),
            ("_ZN99short", "_ZN99short"),
        ] {
            assert_eq!(function(mangled), name);
        }
    }

    #[test]
    fn records_are_read_by_their_offsets() {
        let mut record = [0u8; 160];
        let name = c"_Z3addv";
        record[..4].copy_from_slice(&KERNEL.to_ne_bytes());
        record[START..START + 8].copy_from_slice(&5u64.to_ne_bytes());
        record[END..END + 8].copy_from_slice(&9u64.to_ne_bytes());
        record[NAME..NAME + 8].copy_from_slice(&(name.as_ptr() as usize).to_ne_bytes());
        // SAFETY: the record has all fields of a kernel's.
        let read = unsafe { activity(record.as_ptr()) };
        assert_eq!(read, Some(Activity { name: "add".to_owned(), start: 5, end: 9 }));
        record[..4].copy_from_slice(&3u32.to_ne_bytes());
        // SAFETY: as above.
        assert_eq!(unsafe { activity(record.as_ptr()) }, None);
    }
}

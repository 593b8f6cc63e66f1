//! Which provider of a session runs which operator: the engine's own list, which sessions with
//! [`RECORD`] store.

use crate::coverage::Assigned;
use ort::AsPointer;
use std::ffi::{CStr, c_char};

/// The option that makes the engine keep the list.
pub(super) const RECORD: (&str, &str) = ("session.record_ep_graph_assignment_info", "1");

/// Every operator of a session, in the engine's order.
///
/// # Errors
/// The engine's reason.
pub(super) fn assigned(session: &ort::session::Session) -> Result<Vec<Assigned>, String> {
    let api = ort::api();
    let mut all = Vec::new();
    // SAFETY: the session lives; the lists and names the engine hands out belong to it and are
    // copied before it is used again. Every function is part of the API version that the library
    // was checked for.
    unsafe {
        let (mut groups, mut count) = (std::ptr::null(), 0);
        succeeded((api.Session_GetEpGraphAssignmentInfo)(
            session.ptr(),
            &raw mut groups,
            &raw mut count,
        ))?;
        for &group in list(groups, count) {
            let provider = text(|out| (api.EpAssignedSubgraph_GetEpName)(group, out))?;
            let (mut nodes, mut count) = (std::ptr::null(), 0);
            succeeded((api.EpAssignedSubgraph_GetNodes)(group, &raw mut nodes, &raw mut count))?;
            for &node in list(nodes, count) {
                let name = text(|out| (api.EpAssignedNode_GetName)(node, out))?;
                let operator = text(|out| (api.EpAssignedNode_GetOperatorType)(node, out))?;
                all.push(Assigned { provider: provider.clone(), node: name, operator });
            }
        }
    }
    Ok(all)
}

/// # Safety
/// `first` points to `count` elements, or `count` is 0.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// # Safety
/// `get` writes a string that lives until the call returns, or fails.
unsafe fn text(
    get: impl FnOnce(*mut *const c_char) -> ort::sys::OrtStatusPtr,
) -> Result<String, String> {
    let mut out: *const c_char = std::ptr::null();
    // SAFETY: as the caller promises.
    unsafe {
        succeeded(get(&raw mut out))?;
        Ok(if out.is_null() {
            String::new()
        } else {
            CStr::from_ptr(out).to_string_lossy().into_owned()
        })
    }
}

/// # Safety
/// The status comes from a function of the API and is not used again.
unsafe fn succeeded(status: ort::sys::OrtStatusPtr) -> Result<(), String> {
    // SAFETY: as the caller promises; the message is copied before the status is released.
    unsafe {
        if status.0.is_null() {
            return Ok(());
        }
        let api = ort::api();
        let message =
            CStr::from_ptr((api.GetErrorMessage)(status.0)).to_string_lossy().into_owned();
        (api.ReleaseStatus)(status.0);
        Err(message)
    }
}

//! Tables through the Arrow C data interface, in the capsules of Arrow's PyCapsule interface: what
//! polars, pandas, pyarrow and DuckDB take without a copy.
//!
//! The structures are those of <https://arrow.apache.org/docs/format/CDataInterface.html> and
//! <https://arrow.apache.org/docs/format/CStreamInterface.html>. Whoever takes one out of its
//! capsule sets its `release` to null; a structure that nobody took is released with the capsule.
//! Buffers are those of [`Columns`], which every exported structure keeps alive.

use crate::column::{Column, Columns};
use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr::null_mut,
    sync::Arc,
};

/// Flag of a column of which values may be missing.
const NULLABLE: i64 = 2;

/// On the heap, owned by whoever releases it.
fn boxed<T>(structure: T) -> *mut T {
    Box::into_raw(Box::new(structure))
}

/// `ArrowSchema`: names and types.
#[repr(C)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `ArrowArray`: buffers.
#[repr(C)]
pub struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// `ArrowArrayStream`: a schema and arrays of it.
#[repr(C)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// What a schema points to.
struct SchemaParts {
    format: CString,
    name: CString,
    children: Vec<*mut Schema>,
}

/// What an array points to; the buffers belong to `_columns`.
struct ArrayParts {
    _columns: Arc<Columns>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// What a stream points to: the table, until it was taken.
struct StreamParts {
    columns: Arc<Columns>,
    is_taken: bool,
}

// SAFETY: the pointers of the three structures are to heap memory that they own (their parts) or
// that is never written again (buffers of `Columns`), so any thread may use and release them.
unsafe impl Send for Schema {}
// SAFETY: as above.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Send for Stream {}

impl Schema {
    /// Of a table: a struct with a field per column.
    pub fn of(columns: &Columns) -> Self {
        let field = |(name, column): &(String, Column)| Self::of_column(name, column);
        Self::new("+s", "", columns.named().iter().map(field).map(boxed).collect())
    }

    fn of_column(name: &str, column: &Column) -> Self {
        let element = || boxed(Self::new("L", "item", Vec::new()));
        let children = column.elements().map(|_| element()).into_iter().collect();
        let mut schema = Self::new(column.format(), name, children);
        if column.missing() > 0 {
            schema.flags = NULLABLE;
        }
        schema
    }

    fn new(format: &str, name: &str, children: Vec<*mut Schema>) -> Self {
        // Names are ours and hold no zero byte.
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let mut parts = Box::new(SchemaParts { format: text(format), name: text(name), children });
        Self {
            format: parts.format.as_ptr(),
            name: parts.name.as_ptr(),
            metadata: std::ptr::null(),
            flags: 0,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Array {
    /// Of a table: a struct with a child per column.
    pub fn of(columns: &Arc<Columns>) -> Self {
        let child = |(_, column): &(String, Column)| Self::of_column(columns, column);
        let children = columns.named().iter().map(child).map(boxed).collect();
        Self::new(columns, columns.rows(), vec![std::ptr::null()], children)
    }

    fn of_column(columns: &Arc<Columns>, column: &Column) -> Self {
        let elements = column.elements().map(|values| {
            let buffers = vec![std::ptr::null(), values.as_ptr().cast()];
            boxed(Self::new(columns, values.len(), buffers, Vec::new()))
        });
        let children = elements.into_iter().collect();
        let mut array = Self::new(columns, column.len(), column.buffers(), children);
        array.null_count = column.missing() as i64;
        array
    }

    fn new(
        columns: &Arc<Columns>,
        rows: usize,
        buffers: Vec<*const c_void>,
        children: Vec<*mut Array>,
    ) -> Self {
        let mut parts = Box::new(ArrayParts { _columns: columns.clone(), buffers, children });
        Self {
            length: rows as i64,
            null_count: 0,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Stream {
    /// Of one table.
    pub fn of(columns: Arc<Columns>) -> Self {
        let parts = Box::new(StreamParts { columns, is_taken: false });
        Self {
            get_schema: Some(stream_schema),
            get_next: Some(stream_next),
            get_last_error: Some(stream_error),
            release: Some(release_stream),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

macro_rules! released_when_dropped {
    ($($name:ty),+) => {$(
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a structure whose `release` is set has not been taken or released.
                    unsafe { release(self) };
                }
            }
        }
    )+};
}

released_when_dropped!(Schema, Array, Stream);

/// # Safety
/// `schema` is one that [`Schema::new`] made, not yet released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: by the contract, `private_data` is a `SchemaParts`, whose children are boxed; dropping
    // a child releases it unless somebody took it.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        parts.children.iter().for_each(|&child| drop(Box::from_raw(child)));
        (*schema).release = None;
    }
}

/// # Safety
/// `array` is one that [`Array::new`] made, not yet released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as in `release_schema`.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        parts.children.iter().for_each(|&child| drop(Box::from_raw(child)));
        (*array).release = None;
    }
}

/// # Safety
/// `stream` is one that [`Stream::of`] made, not yet released.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: by the contract, `private_data` is a `StreamParts`.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamParts>()));
        (*stream).release = None;
    }
}

/// # Safety
/// `stream` is one that [`Stream::of`] made, not yet released; `out` may be written.
unsafe extern "C" fn stream_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: by the contract; what `out` held before is not a structure to drop.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        out.write(Schema::of(&parts.columns));
    }
    0
}

/// # Safety
/// As [`stream_schema`].
unsafe extern "C" fn stream_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as in `stream_schema`; an array without `release` ends the stream.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        if parts.is_taken {
            (&raw mut (*out).release).write(None);
        } else {
            parts.is_taken = true;
            out.write(Array::of(&parts.columns));
        }
    }
    0
}

/// # Safety
/// None: no call fails.
unsafe extern "C" fn stream_error(_: *mut Stream) -> *const c_char {
    std::ptr::null()
}

//! [`Writer`]: a table that need not fit in memory. Rows are compressed group by group, as
//! [`write`](super::write) compresses those of a whole table.

use super::{GROUP, encoder, finish, frame, unstorable};
use crate::{DatasetError, column::Table, files::write_whole, schema::TableSchema};
use polars::prelude as pl;
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// Writes a table of any length: rows are compressed group by group; [`Writer::finish`] puts the
/// file in its place.
pub(crate) struct Writer {
    pending: Table,
    encoder: pl::BatchedWriter<Shared>,
    bytes: Shared,
    /// What the rows take that were compressed.
    row_bytes: u64,
}

/// The bytes of a file in the making.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    pub(crate) fn new(schema: &'static TableSchema, folder: &Path) -> Result<Self, DatasetError> {
        let (pending, bytes) = (Table::new(schema, folder), Shared::default());
        let empty = frame(&pending).map_err(|e| unstorable(&pending, e))?;
        let encoder = encoder(schema, bytes.clone())
            .batched(empty.schema())
            .map_err(|e| unstorable(&pending, e))?;
        Ok(Self { pending, encoder, bytes, row_bytes: 0 })
    }

    /// The table to add rows to.
    pub(crate) fn rows(&mut self) -> Result<&mut Table, DatasetError> {
        if self.pending.rows() >= GROUP {
            self.flush()?;
        }
        Ok(&mut self.pending)
    }

    fn flush(&mut self) -> Result<(), DatasetError> {
        let mut frame = frame(&self.pending).map_err(|e| unstorable(&self.pending, e))?;
        frame.align_chunks_par();
        self.encoder.write_batch(&frame).map_err(|e| unstorable(&self.pending, e))?;
        self.row_bytes = self.row_bytes.saturating_add(self.pending.bytes());
        self.pending.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), DatasetError> {
        if self.pending.rows() > 0 {
            self.flush()?;
        }
        self.encoder.finish().map_err(|e| unstorable(&self.pending, e))?;
        let mut bytes =
            std::mem::take(&mut *self.bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
        finish(&mut bytes, self.row_bytes);
        write_whole(&self.pending.path, &bytes)
    }
}

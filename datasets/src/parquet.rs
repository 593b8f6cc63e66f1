//! [`Table`] to Parquet and back, through polars: zstd pages, statistics, and a digest over the whole file in its own metadata.
//!
//! The digest is written in two steps: the file is made with 64 zeros for a digest, then the BLAKE3 digest of these bytes takes the place of the zeros.
//! A reader puts the zeros back and compares, so that any changed byte is found before polars sees it. polars panics on some malformed files;
//! such a panic becomes an error all the same.
//!
//! Rows are compressed in groups of [`GROUP`], so that [`read_where`] need not decode the groups without a row that is wanted, and [`Writer`] holds one
//! group at a time.

use crate::{
    DatasetError,
    column::{Column, Lists, Table},
    files::write_whole,
    schema::{ColumnType, FORMAT, SCHEMA_VERSION, TableSchema, check_version},
    text::Texts,
};
use polars::prelude as pl;
use polars::prelude::{IntoSeries as _, ListBuilderTrait as _, SerReader as _};
use std::{
    fs,
    io::{self, Cursor},
    panic::AssertUnwindSafe,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

const MAGIC: &[u8] = b"PAR1";
const DIGEST_MARK: &[u8] = b"vitempo-blake3:";
const DIGEST_LEN: usize = 64;
/// Rows that are compressed together.
pub(crate) const GROUP: usize = 1 << 16;

/// Writes a table into its folder, whole or not at all.
pub(crate) fn write(table: &Table) -> Result<(), DatasetError> {
    write_whole(&table.path, &encode(table)?)
}

/// The rows to read: those whose text in this column is wanted.
pub(crate) type Wanted<'w> = (&'static str, &'w dyn Fn(&str) -> bool);

/// Reads a table of a dataset folder.
pub(crate) fn read(schema: &'static TableSchema, folder: &Path) -> Result<Table, DatasetError> {
    read_some(schema, folder, None)
}

/// Reads some rows of a table.
pub(crate) fn read_where(schema: &'static TableSchema, folder: &Path, wanted: Wanted<'_>) -> Result<Table, DatasetError> {
    read_some(schema, folder, Some(wanted))
}

fn read_some(schema: &'static TableSchema, folder: &Path, wanted: Option<Wanted<'_>>) -> Result<Table, DatasetError> {
    let path = folder.join(schema.file_name());
    let bytes = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DatasetError::MissingTable { path: path.clone() },
        _ => DatasetError::Io { action: "read", path: path.clone(), source },
    })?;
    decode(schema, folder, bytes, wanted)
}

/// The bytes of a table's file.
pub(crate) fn encode(table: &Table) -> Result<Vec<u8>, DatasetError> {
    let mut frame = frame(table).map_err(|e| unstorable(table, e))?;
    let mut bytes = Vec::new();
    encoder(table.schema, &mut bytes).finish(&mut frame).map_err(|e| unstorable(table, e))?;
    stamp(&mut bytes);
    Ok(bytes)
}

fn encoder<W: io::Write>(schema: &TableSchema, out: W) -> pl::ParquetWriter<W> {
    let placeholder = format!("{}{}", String::from_utf8_lossy(DIGEST_MARK), "0".repeat(DIGEST_LEN));
    let metadata = pl::KeyValueMetadata::from_static(vec![
        ("vitempo.format".to_owned(), FORMAT.to_owned()),
        ("vitempo.table".to_owned(), schema.name.to_owned()),
        ("vitempo.schema_version".to_owned(), SCHEMA_VERSION.to_string()),
        ("vitempo.digest".to_owned(), placeholder),
    ]);
    let writer = pl::ParquetWriter::new(out).with_compression(pl::ParquetCompression::Zstd(None)).with_key_value_metadata(Some(metadata));
    writer.with_row_group_size(Some(GROUP))
}

/// Writes a table of any length: rows are compressed group by group; [`Writer::finish`] puts the file in its place.
pub(crate) struct Writer {
    pending: Table,
    encoder: pl::BatchedWriter<Shared>,
    bytes: Shared,
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
        let encoder = encoder(schema, bytes.clone()).batched(empty.schema()).map_err(|e| unstorable(&pending, e))?;
        Ok(Self { pending, encoder, bytes })
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
        self.pending.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), DatasetError> {
        if self.pending.rows() > 0 {
            self.flush()?;
        }
        self.encoder.finish().map_err(|e| unstorable(&self.pending, e))?;
        let mut bytes = std::mem::take(&mut *self.bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
        stamp(&mut bytes);
        write_whole(&self.pending.path, &bytes)
    }
}

fn unstorable(table: &Table, error: pl::PolarsError) -> DatasetError {
    DatasetError::Unstorable { what: table.path.display().to_string(), reason: error.to_string() }
}

fn frame(table: &Table) -> pl::PolarsResult<pl::DataFrame> {
    let columns = table.schema.columns.iter().zip(&table.columns).map(|((name, _), column)| to_polars(name, column));
    pl::DataFrame::new(table.rows(), columns.collect())
}

fn to_polars(name: &str, column: &Column) -> pl::Column {
    use pl::NamedFrom as _;
    let series = match column {
        Column::Text(values) | Column::OptionalText(values) => pl::Series::new(name.into(), values.iter().collect::<Vec<Option<&str>>>()),
        Column::Integer(values) => pl::Series::new(name.into(), values),
        Column::OptionalInteger(values) => pl::Series::new(name.into(), values),
        Column::IntegerList(lists) => {
            let rows = lists.ends.len();
            let mut builder = pl::ListPrimitiveChunkedBuilder::<pl::UInt64Type>::new(name.into(), rows, lists.values.len(), pl::DataType::UInt64);
            for row in 0..rows {
                builder.append_slice(lists.get(row));
            }
            builder.finish().into_series()
        }
    };
    series.into()
}

/// Where in the file the digits of its digest stand: in the footer, which is at the end.
fn digest_position(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let mark = bytes.windows(DIGEST_MARK.len()).rposition(|window| window == DIGEST_MARK)?;
    let start = mark + DIGEST_MARK.len();
    (start + DIGEST_LEN <= bytes.len()).then_some(start..start + DIGEST_LEN)
}

/// Replaces the digits of the digest by zeros and computes it anew.
fn digest(bytes: &mut [u8], position: std::ops::Range<usize>) -> String {
    bytes[position].fill(b'0');
    blake3::hash(bytes).to_hex().to_string()
}

pub(crate) fn stamp(bytes: &mut [u8]) {
    if let Some(position) = digest_position(bytes) {
        let digits = digest(bytes, position.clone());
        bytes[position].copy_from_slice(digits.as_bytes());
    }
}

fn verify(path: &Path, bytes: &mut [u8]) -> Result<(), DatasetError> {
    if bytes.len() < 12 || !bytes.starts_with(MAGIC) {
        let reason = if bytes.is_empty() { "it is empty" } else { "it is not a Parquet file" };
        return Err(DatasetError::foreign(path, reason));
    }
    if !bytes.ends_with(MAGIC) {
        return Err(DatasetError::damaged(path, "its end is missing, it was truncated"));
    }
    let Some(position) = digest_position(bytes) else {
        return Err(DatasetError::foreign(path, "vitempo did not write this Parquet file"));
    };
    let found = bytes[position.clone()].to_vec();
    if digest(bytes, position).as_bytes() != found {
        return Err(DatasetError::damaged(path, "its bytes do not match its digest"));
    }
    Ok(())
}

/// The table in the bytes of a file.
fn decode(schema: &'static TableSchema, folder: &Path, mut bytes: Vec<u8>, wanted: Option<Wanted<'_>>) -> Result<Table, DatasetError> {
    let path = folder.join(schema.file_name());
    verify(&path, &mut bytes)?;
    std::panic::catch_unwind(AssertUnwindSafe(|| decode_verified(schema, &path, &bytes, wanted)))
        .unwrap_or_else(|_| Err(DatasetError::damaged(&path, "the Parquet reader gave up on it")))
}

fn decode_verified(schema: &'static TableSchema, path: &Path, bytes: &[u8], wanted: Option<Wanted<'_>>) -> Result<Table, DatasetError> {
    let broken = |e: pl::PolarsError| DatasetError::damaged(path, e.to_string());
    let mut reader = pl::ParquetReader::new(Cursor::new(bytes));
    let version = check_metadata(schema, path, &mut reader)?;
    let names: Vec<String> = schema.columns.iter().map(|(name, _)| (*name).to_owned()).filter(|name| schema.has(name, version)).collect();
    let present = reader.schema().map_err(broken)?;
    for name in &names {
        if present.get(name).is_none() {
            return Err(DatasetError::foreign(path, format!("column `{name}` is missing")));
        }
    }
    let choice = wanted.map(|wanted| Choice::of(path, bytes, wanted)).transpose()?;
    if choice.as_ref().is_some_and(|choice| choice.keep.is_empty()) {
        return Ok(Table::new(schema, path.parent().unwrap_or(Path::new(""))));
    }
    let span = choice.as_ref().map(|choice| (choice.first, choice.keep.len()));
    let frame = reader.with_columns(Some(names)).with_slice(span).set_rechunk(true).finish().map_err(broken)?;
    let kept = choice.as_ref().map_or(frame.height(), |choice| choice.keep.iter().filter(|&&k| k).count());
    let columns = schema.columns.iter().map(|(name, kind)| {
        let absent = (!schema.has(name, version)).then(|| Column::nulls(*kind, kept)).flatten();
        absent.map_or_else(|| from_polars(path, frame.column(name).map_err(broken)?, name, *kind, choice.as_ref()), Ok)
    });
    Ok(Table { schema, path: path.to_owned(), columns: columns.collect::<Result<_, _>>()?, chosen: choice.as_ref().map(Choice::rows) })
}

/// Which rows of a file are wanted, from the first wanted one to the last.
struct Choice {
    first: usize,
    keep: Vec<bool>,
}

impl Choice {
    fn of(path: &Path, bytes: &[u8], (column, wanted): Wanted<'_>) -> Result<Self, DatasetError> {
        let broken = |e: pl::PolarsError| DatasetError::damaged(path, e.to_string());
        let reader = pl::ParquetReader::new(Cursor::new(bytes)).with_columns(Some(vec![column.to_owned()]));
        let frame = reader.set_rechunk(true).finish().map_err(broken)?;
        let texts = frame.column(column).map_err(broken)?.as_materialized_series().str().map_err(broken)?;
        let mut last: Option<(&str, bool)> = None;
        let mut keep: Vec<bool> = Vec::with_capacity(texts.len());
        for text in texts.iter() {
            let known = last.filter(|(known, _)| Some(*known) == text);
            last = known.or_else(|| text.map(|text| (text, wanted(text))));
            keep.push(last.is_some_and(|(_, wanted)| wanted) && text.is_some());
        }
        let first = keep.iter().position(|&k| k).unwrap_or(keep.len());
        keep.truncate(keep.iter().rposition(|&k| k).map_or(0, |last| last + 1));
        keep.drain(..first.min(keep.len()));
        Ok(Self { first, keep })
    }

    /// Where the wanted rows stand.
    fn rows(&self) -> Vec<usize> {
        self.keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(row, _)| self.first + row).collect()
    }
}

/// Checks whose table this is and gives its schema version.
fn check_metadata(schema: &TableSchema, path: &Path, reader: &mut pl::ParquetReader<Cursor<&[u8]>>) -> Result<u64, DatasetError> {
    let metadata = reader.get_metadata().map_err(|e| DatasetError::damaged(path, e.to_string()))?;
    let pairs = metadata.key_value_metadata().as_deref().unwrap_or_default();
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref()).unwrap_or_default();
    if value("vitempo.format") != FORMAT {
        return Err(DatasetError::foreign(path, "vitempo did not write this Parquet file"));
    }
    let version = value("vitempo.schema_version");
    let version = version.parse().map_err(|_| DatasetError::foreign(path, format!("`{version}` is no schema version")))?;
    check_version(path, version)?;
    match value("vitempo.table") {
        name if name == schema.name => Ok(version),
        other => Err(DatasetError::foreign(path, format!("it holds the table `{other}`"))),
    }
}

/// `choice`: which of the rows are kept; all by default.
fn from_polars(path: &Path, column: &pl::Column, name: &str, kind: ColumnType, choice: Option<&Choice>) -> Result<Column, DatasetError> {
    let wrong_type = || {
        let reason = format!("the column has the type {:?}, which the schema does not know", column.dtype());
        DatasetError::Row { path: path.to_owned(), row: 0, column: name.to_owned(), reason }
    };
    let first = choice.map_or(0, |choice| choice.first);
    let null = |row| DatasetError::Row { path: path.to_owned(), row: first + row, column: name.to_owned(), reason: "there is no value".to_owned() };
    let series = column.as_materialized_series();
    let kept = |row: &usize| choice.is_none_or(|choice| choice.keep.get(*row) == Some(&true));
    let texts = || Ok(series.str().map_err(|_| wrong_type())?.iter().enumerate().filter(|(row, _)| kept(row)));
    let integers = || Ok(series.u64().map_err(|_| wrong_type())?.iter().enumerate().filter(|(row, _)| kept(row)));
    match kind {
        ColumnType::Text => {
            let mut column = Texts::default();
            for (row, text) in texts()? {
                column.push(Some(text.ok_or_else(|| null(row))?));
            }
            Ok(Column::Text(column))
        }
        ColumnType::OptionalText => {
            let mut column = Texts::default();
            texts()?.for_each(|(_, text)| column.push(text));
            Ok(Column::OptionalText(column))
        }
        ColumnType::Integer => Ok(Column::Integer(integers()?.map(|(row, v)| v.ok_or_else(|| null(row))).collect::<Result<_, _>>()?)),
        ColumnType::OptionalInteger => Ok(Column::OptionalInteger(integers()?.map(|(_, v)| v).collect())),
        ColumnType::IntegerList => Ok(Column::IntegerList(lists(series, kept).ok_or_else(wrong_type)?)),
    }
}

/// The kept lists of a column; `None` when it holds something else, or nothing in places.
fn lists(series: &pl::Series, kept: impl Fn(&usize) -> bool) -> Option<Lists> {
    let list = series.list().ok().filter(|list| list.null_count() == 0)?;
    let mut lists = Lists::default();
    let mut row = 0;
    for chunk in list.downcast_iter() {
        let inner = pl::Series::try_from((pl::PlSmallStr::EMPTY, chunk.values().clone())).ok()?;
        if inner.null_count() > 0 {
            return None;
        }
        let inner = inner.u64().ok()?.rechunk();
        let values = inner.cont_slice().ok()?;
        for window in chunk.offsets().as_slice().windows(2) {
            let list = values.get(window[0] as usize..window[1] as usize)?;
            if kept(&row) {
                lists.push(list);
            }
            row += 1;
        }
    }
    Some(lists)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Dataset, schema::TABLES, simulated::stored};

    /// Small and reproducible: xorshift.
    fn next(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    }

    fn mutate(bytes: &[u8], state: &mut u64) -> Vec<u8> {
        let mut mutated = bytes.to_vec();
        let at = next(state) % bytes.len();
        match next(state) % 4 {
            0 => mutated[at] ^= 1 << (next(state) % 8),
            1 => mutated.truncate(at),
            2 => drop(mutated.splice(at..bytes.len().min(at + 8), [0xff; 8])),
            _ => drop(mutated.splice(at..at, [next(state) as u8; 3])),
        }
        mutated
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let folder = tempfile::tempdir().unwrap();
        stored(folder.path(), 3);
        let mut state = 1;
        for schema in TABLES {
            let whole = fs::read(folder.path().join(schema.file_name())).unwrap();
            decode(schema, folder.path(), whole.clone(), None).unwrap();
            for _ in 0..400 {
                let mutated = mutate(&whole, &mut state);
                if mutated != whole {
                    let error = decode(schema, folder.path(), mutated, None).unwrap_err();
                    assert!(error.to_string().contains(&schema.file_name()), "{error}");
                }
            }
        }
    }

    #[test]
    fn malformed_tables_with_a_right_digest_do_not_panic() {
        let folder = tempfile::tempdir().unwrap();
        stored(folder.path(), 3);
        let mut state = 2;
        let (mut refused, mut read) = (0, 0);
        for schema in TABLES {
            let path = folder.path().join(schema.file_name());
            let whole = fs::read(&path).unwrap();
            for _ in 0..120 {
                let mut mutated = mutate(&whole, &mut state);
                stamp(&mut mutated);
                fs::write(&path, mutated).unwrap();
                match Dataset::load(folder.path()) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
            fs::write(&path, whole).unwrap();
        }
        assert_eq!(refused + read, 600);
        assert!(refused > 300, "{refused} refused, {read} read");
    }

    #[test]
    fn columns_that_an_older_version_lacks_are_null() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("measured/epyc-onnxruntime-f32-1t");
        for (schema, values) in TABLES.map(|schema| (schema, read(schema, &folder).unwrap())) {
            assert!(values.rows() > 0, "{}", schema.name);
            for (column, _) in schema.added {
                let absent = |row| values.optional_text(column, row).is_none() && values.optional_integer(column, row).is_none();
                assert!((0..values.rows()).all(absent), "{}: {column}", schema.name);
            }
        }
        let dataset = Dataset::load(&folder).unwrap();
        assert!(dataset.profiles.iter().all(|p| p.executed.is_none() && p.peak_memory_bytes.is_none() && p.environment.memory_format.is_none()));
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let folder = tempfile::tempdir().unwrap();
        stored(folder.path(), 2);
        let path = folder.path().join("operators.parquet");
        let whole = fs::read(&path).unwrap();
        let mut plain = Vec::new();
        let mut frame = pl::df!("op_id" => ["a"], "flops" => [f64::NAN]).unwrap();
        pl::ParquetWriter::new(&mut plain).finish(&mut frame).unwrap();
        let models = fs::read(folder.path().join("models.parquet")).unwrap();
        for (bytes, says) in [
            (Vec::new(), "it is empty"),
            (b"date,price\n2020-01-01,3\n".to_vec(), "not a Parquet file"),
            (whole[..whole.len() / 2].to_vec(), "truncated"),
            (plain, "vitempo did not write"),
            (models, "it holds the table `models`"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = Dataset::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("operators.parquet"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(Dataset::load(folder.path()), Err(DatasetError::MissingTable { .. })));
    }

    #[test]
    fn columns_of_another_type_or_without_values_are_named() {
        let folder = Path::new("data");
        let schema = &crate::tables::model_measurements::SCHEMA;
        let column = |values: pl::Series| values.into_column();
        use pl::{IntoColumn as _, NamedFrom as _};
        for (series, kind, says) in [
            (pl::Series::new("x".into(), [1.0, f64::NAN]), ColumnType::Integer, "Float64"),
            (pl::Series::new("x".into(), [Some(1u64), None]), ColumnType::Integer, "no value"),
            (pl::Series::new("x".into(), [Some("a"), None]), ColumnType::Text, "no value"),
            (pl::Series::new("x".into(), [1u64]), ColumnType::IntegerList, "UInt64"),
        ] {
            let error = from_polars(&folder.join(schema.file_name()), &column(series), "x", kind, None).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("column `x`"), "{error}");
        }
    }
}

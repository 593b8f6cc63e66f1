//! [`Table`] to Parquet and back, through polars: zstd pages, statistics, and a digest over the
//! whole file in its own metadata.
//!
//! The digest is written in two steps: the file is encoded with 64 zeros in place of the digest,
//! then the BLAKE3 digest of these bytes replaces the zeros. A reader puts the zeros back and
//! compares, so that any changed byte is found before polars sees it. polars panics on some
//! malformed files; such a panic is converted to an error.
//!
//! Rows are compressed in groups of [`GROUP`], so that [`read_where`] need not decode the groups
//! without a row that is wanted, and [`Writer`] holds one group at a time.

mod choice;
mod columns;
mod writer;

pub(crate) use choice::Wanted;
pub(crate) use writer::Writer;

use crate::{
    DatasetError,
    column::{Column, Table},
    files::write_whole,
    schema::{FORMAT, SCHEMA_VERSION, TableSchema, check_version},
};
use choice::Choice;
use polars::prelude as pl;
use polars::prelude::SerReader as _;
use polars_utils::compression::ZstdLevel;
use std::{
    fs,
    io::{self, Cursor},
    panic::AssertUnwindSafe,
    path::Path,
};

const MAGIC: &[u8] = b"PAR1";
const DIGEST_MARK: &[u8] = b"vitempo-blake3:";
const DIGEST_LEN: usize = 64;
/// Rows that are compressed together.
pub(crate) const GROUP: usize = 1 << 17;
/// Bytes of a page before it is compressed: graphs and operators resemble each other, which
/// compresses only within a page.
const PAGE_BYTES: usize = 1 << 23;
/// How hard zstd tries.
const LEVEL: i32 = 12;

/// Writes a table into its folder, whole or not at all.
pub(crate) fn write(table: &Table) -> Result<(), DatasetError> {
    write_whole(&table.path, &encode(table)?)
}

/// Reads a table of a dataset folder.
pub(crate) fn read(schema: &'static TableSchema, folder: &Path) -> Result<Table, DatasetError> {
    read_some(schema, folder, &|_| true, None)
}

/// Reads some columns of a table; the others are empty.
pub(crate) fn read_columns(
    schema: &'static TableSchema,
    folder: &Path,
    columns: &[&str],
) -> Result<Table, DatasetError> {
    read_some(schema, folder, &|name| columns.contains(&name), None)
}

/// Reads some rows of a table.
pub(crate) fn read_where(
    schema: &'static TableSchema,
    folder: &Path,
    wanted: Wanted<'_>,
) -> Result<Table, DatasetError> {
    read_some(schema, folder, &|_| true, Some(wanted))
}

fn read_some(
    schema: &'static TableSchema,
    folder: &Path,
    asked: &dyn Fn(&str) -> bool,
    wanted: Option<Wanted<'_>>,
) -> Result<Table, DatasetError> {
    let path = folder.join(schema.file_name());
    let bytes = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DatasetError::MissingTable { path: path.clone() },
        _ => DatasetError::Io { action: "read", path: path.clone(), source },
    })?;
    decode(schema, folder, bytes, asked, wanted)
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
    let writer = pl::ParquetWriter::new(out)
        .with_compression(compression())
        .with_key_value_metadata(Some(metadata));
    writer.with_row_group_size(Some(GROUP)).with_data_page_size(Some(PAGE_BYTES))
}

fn compression() -> pl::ParquetCompression {
    pl::ParquetCompression::Zstd(ZstdLevel::try_new(LEVEL).ok())
}

fn unstorable(table: &Table, error: pl::PolarsError) -> DatasetError {
    DatasetError::Unstorable { what: table.path.display().to_string(), reason: error.to_string() }
}

fn frame(table: &Table) -> pl::PolarsResult<pl::DataFrame> {
    let columns = table
        .schema
        .columns
        .iter()
        .zip(&table.columns)
        .map(|((name, _), column)| columns::to_polars(name, column));
    pl::DataFrame::new(table.rows(), columns.collect())
}

/// Where in the file the digits of its digest stand: in the footer, which is at the end.
fn digest_position(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let mark = bytes.windows(DIGEST_MARK.len()).rposition(|window| window == DIGEST_MARK)?;
    let start = mark + DIGEST_MARK.len();
    (start + DIGEST_LEN <= bytes.len()).then_some(start..start + DIGEST_LEN)
}

/// Replaces the digits of the digest by zeros and computes it again.
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
fn decode(
    schema: &'static TableSchema,
    folder: &Path,
    mut bytes: Vec<u8>,
    asked: &dyn Fn(&str) -> bool,
    wanted: Option<Wanted<'_>>,
) -> Result<Table, DatasetError> {
    let path = folder.join(schema.file_name());
    verify(&path, &mut bytes)?;
    let decode = || decode_verified(schema, &path, &bytes, asked, wanted);
    std::panic::catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(DatasetError::damaged(&path, "the Parquet reader gave up on it")))
}

fn decode_verified(
    schema: &'static TableSchema,
    path: &Path,
    bytes: &[u8],
    asked: &dyn Fn(&str) -> bool,
    wanted: Option<Wanted<'_>>,
) -> Result<Table, DatasetError> {
    let broken = |e: pl::PolarsError| DatasetError::damaged(path, e.to_string());
    let mut reader = pl::ParquetReader::new(Cursor::new(bytes));
    let version = check_metadata(schema, path, &mut reader)?;
    let names: Vec<String> = schema
        .columns
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .filter(|name| schema.has(name, version))
        .collect();
    let present = reader.schema().map_err(broken)?;
    for name in &names {
        if present.get(name).is_none() {
            return Err(DatasetError::foreign(path, format!("column `{name}` is missing")));
        }
    }
    let metadata = reader.get_metadata().map_err(broken)?.clone();
    let choice = wanted.map(|wanted| Choice::of(path, bytes, wanted)).transpose()?;
    if choice.as_ref().is_some_and(|choice| choice.rows().is_empty()) {
        return Ok(Table::new(schema, path.parent().unwrap_or(Path::new(""))));
    }
    let chosen = choice.as_ref().map(Choice::rows);
    let rows = chosen.as_ref().map_or(metadata.num_rows, Vec::len);
    // One after the other: a column as polars has it takes far more memory than afterwards.
    let columns = schema.columns.iter().map(|(name, kind)| {
        if !asked(name) {
            return Ok(Column::empty(*kind));
        }
        match (!schema.has(name, version)).then(|| Column::nulls(*kind, rows)).flatten() {
            Some(absent) => Ok(absent),
            None => {
                let mut reader = pl::ParquetReader::new(Cursor::new(bytes))
                    .with_columns(Some(vec![(*name).to_owned()]));
                reader.set_metadata(metadata.clone());
                let frame = reader
                    .with_slice(choice.as_ref().map(Choice::span))
                    .set_rechunk(true)
                    .finish()
                    .map_err(broken)?;
                columns::from_polars(
                    path,
                    frame.column(name).map_err(broken)?,
                    name,
                    *kind,
                    choice.as_ref(),
                )
            }
        }
    });
    Ok(Table { schema, path: path.to_owned(), columns: columns.collect::<Result<_, _>>()?, chosen })
}

/// Checks whose table this is and gives its schema version.
fn check_metadata(
    schema: &TableSchema,
    path: &Path,
    reader: &mut pl::ParquetReader<Cursor<&[u8]>>,
) -> Result<u64, DatasetError> {
    let metadata = reader.get_metadata().map_err(|e| DatasetError::damaged(path, e.to_string()))?;
    let pairs = metadata.key_value_metadata().as_deref().unwrap_or_default();
    let value = |key: &str| {
        pairs
            .iter()
            .find(|pair| pair.key == key)
            .and_then(|pair| pair.value.as_deref())
            .unwrap_or_default()
    };
    if value("vitempo.format") != FORMAT {
        return Err(DatasetError::foreign(path, "vitempo did not write this Parquet file"));
    }
    let version = value("vitempo.schema_version");
    let version = version
        .parse()
        .map_err(|_| DatasetError::foreign(path, format!("`{version}` is not a schema version")))?;
    check_version(path, version)?;
    match value("vitempo.table") {
        name if name == schema.name => Ok(version),
        other => Err(DatasetError::foreign(path, format!("it holds the table `{other}`"))),
    }
}

#[cfg(test)]
mod tests;

//! [`Table`] to Parquet and back: zstd pages, statistics, and a digest over the whole file in its
//! own metadata.
//!
//! The digest is written in two steps: the file is made with 64 zeros for a digest, then the BLAKE3
//! digest of these bytes takes the place of the zeros. A reader puts the zeros back and compares,
//! so that any changed byte is found before the file is decoded.
//!
//! polars writes. What it writes is read here, and nothing else of the format: whoever can change a
//! file can compute its digest as well, and a general reader trusts sizes and counts of the file.
//! This one spends from an [`Allowance`], in proportion to the file, before it allocates; the
//! writer keeps every table within it, see [`fill`].
//!
//! Rows are compressed in groups of [`GROUP`], so that the groups without a row that is wanted
//! need not be decoded, and [`Writer`] holds one group at a time.

mod choice;
mod columns;
mod fault;
mod footer;
mod hybrid;
mod pages;
mod thrift;
mod values;
#[cfg(feature = "write")]
mod writer;

pub(crate) use choice::Wanted;
#[cfg(feature = "write")]
pub(crate) use writer::Writer;

use crate::{
    DatasetError,
    column::{Column, Table},
    schema::{ColumnType, FORMAT, TableSchema, check_version},
};
#[cfg(feature = "write")]
use crate::{files::write_whole, schema::SCHEMA_VERSION};
use choice::Choice;
use columns::File;
use fault::{ALWAYS, Allowance, EXPANSION, Outcome};
use footer::Footer;
#[cfg(feature = "write")]
use polars::prelude as pl;
#[cfg(feature = "write")]
use polars_utils::compression::ZstdLevel;
use std::{
    fs, io,
    path::{Path, PathBuf},
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
#[cfg(feature = "write")]
pub(crate) fn write(table: &Table) -> Result<(), DatasetError> {
    write_with(table, 0)
}

/// The same; `spare_bytes`: what the file has to allow beyond the table's own rows.
#[cfg(feature = "write")]
pub(crate) fn write_with(table: &Table, spare_bytes: u64) -> Result<(), DatasetError> {
    write_whole(&table.path, &bytes(table, spare_bytes)?)
}

/// The bytes of its file.
#[cfg(feature = "write")]
pub(crate) fn bytes(table: &Table, spare_bytes: u64) -> Result<Vec<u8>, DatasetError> {
    let mut bytes = encode(table)?;
    finish(&mut bytes, table.bytes().saturating_add(spare_bytes));
    Ok(bytes)
}

/// What to read of a table.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    /// Names of columns, where not all; the others are empty.
    pub(crate) columns: Option<&'a [&'a str]>,
    /// Which rows, where not all.
    pub(crate) rows: Option<Wanted<'a>>,
    /// Files of a lake for environments that are not among these hold nothing that is asked for.
    pub(crate) environments: Option<&'a dyn Fn(&str) -> bool>,
}

impl<'a> Asked<'a> {
    /// All of it.
    pub(crate) const ALL: Self = Self { columns: None, rows: None, environments: None };

    /// Some columns.
    pub(crate) const fn columns(columns: &'a [&'a str]) -> Self {
        Self { columns: Some(columns), ..Self::ALL }
    }

    /// Some rows: those whose text in this column is wanted.
    pub(crate) const fn rows(column: &'static str, wanted: &'a dyn Fn(&str) -> bool) -> Self {
        Self { rows: Some((column, wanted)), ..Self::ALL }
    }

    /// The rows of some environments.
    pub(crate) const fn of_environments(wanted: &'a dyn Fn(&str) -> bool) -> Self {
        Self { environments: Some(wanted), ..Self::rows("environment_id", wanted) }
    }
}

/// Reads a table of a dataset folder.
pub(crate) fn read(schema: &'static TableSchema, folder: &Path) -> Result<Table, DatasetError> {
    read_some(schema, folder, Asked::ALL)
}

/// Reads what is asked for of a table.
pub(crate) fn read_some(
    schema: &'static TableSchema,
    folder: &Path,
    asked: Asked<'_>,
) -> Result<Table, DatasetError> {
    let path = folder.join(schema.file_name());
    let bytes = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DatasetError::MissingTable { path: path.clone() },
        _ => DatasetError::Io { action: "read", path: path.clone(), source },
    })?;
    decode(schema, path, bytes, asked)
}

/// The bytes of a table's file, but for its digest.
#[cfg(feature = "write")]
fn encode(table: &Table) -> Result<Vec<u8>, DatasetError> {
    let mut frame = frame(table).map_err(|e| unstorable(table, e))?;
    let mut bytes = Vec::new();
    encoder(table.schema, &mut bytes).finish(&mut frame).map_err(|e| unstorable(table, e))?;
    Ok(bytes)
}

/// Completes the bytes of a file whose rows take so many bytes.
fn finish(bytes: &mut Vec<u8>, row_bytes: u64) {
    fill(bytes, row_bytes);
    stamp(bytes);
}

/// Puts zeros between pages and metadata where a file compresses so well that its [`Allowance`]
/// would not hold its rows. A column by which rows are chosen is read twice.
fn fill(bytes: &mut Vec<u8>, row_bytes: u64) {
    let (Ok(footer), Ok((metadata, _))) = (Footer::read(bytes), footer::metadata(bytes)) else {
        return;
    };
    let needed = footer.page_bytes().saturating_add(row_bytes).saturating_mul(2);
    let length = needed.saturating_sub(ALWAYS).div_ceil(EXPANSION) as usize;
    let zeros = length.saturating_sub(bytes.len());
    bytes.splice(metadata.start..metadata.start, std::iter::repeat_n(0, zeros));
}

#[cfg(feature = "write")]
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

#[cfg(feature = "write")]
fn compression() -> pl::ParquetCompression {
    pl::ParquetCompression::Zstd(ZstdLevel::try_new(LEVEL).ok())
}

#[cfg(feature = "write")]
fn unstorable(table: &Table, error: pl::PolarsError) -> DatasetError {
    DatasetError::Unstorable { what: table.path.display().to_string(), reason: error.to_string() }
}

#[cfg(feature = "write")]
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
pub(crate) fn decode(
    schema: &'static TableSchema,
    path: PathBuf,
    mut bytes: Vec<u8>,
    asked: Asked<'_>,
) -> Result<Table, DatasetError> {
    verify(&path, &mut bytes)?;
    let footer = Footer::read(&bytes).map_err(|fault| fault.of_file(&path))?;
    let version = check_metadata(schema, &path, &footer)?;
    let allowance = Allowance::of_file(bytes.len());
    let file = File { bytes: &bytes, footer, allowance: &allowance };
    let table = read_table(schema, version, &file, asked);
    let (columns, chosen) = table.map_err(|fault| fault.of_file(&path))?;
    Ok(Table { schema, path, columns, chosen, spare_bytes: allowance.left() })
}

/// The columns that are asked for, and where their rows stand if those were chosen.
fn read_table(
    schema: &'static TableSchema,
    version: u64,
    file: &File<'_>,
    asked: Asked<'_>,
) -> Outcome<(Vec<Column>, Option<Vec<usize>>)> {
    let is_asked = |name| asked.columns.is_none_or(|columns| columns.contains(&name));
    let choice = asked.rows.map(|(name, wanted)| {
        let column = columns::read(file, name, ColumnType::OptionalText, None);
        column.map(|column| Choice::of(&column, wanted))
    });
    let choice = choice.transpose()?;
    let chosen = choice.as_ref().map(Choice::rows);
    let rows = chosen.as_ref().map_or_else(|| file.footer.rows().unwrap_or(0), Vec::len);
    let columns = schema.columns.iter().map(|&(name, kind)| {
        let mut column = Column::empty(kind);
        if is_asked(name) && schema.has(name, version) {
            column = columns::read(file, name, kind, choice.as_ref())?;
        } else if is_asked(name) {
            file.allowance.spend(rows, column.least_cell_bytes())?;
            column = Column::nulls(kind, rows).unwrap_or(column);
        }
        Ok(column)
    });
    Ok((columns.collect::<Outcome<_>>()?, chosen))
}

/// Checks whose table this is and gives its schema version.
fn check_metadata(
    schema: &TableSchema,
    path: &Path,
    footer: &Footer<'_>,
) -> Result<u64, DatasetError> {
    if footer.value("vitempo.format") != FORMAT {
        return Err(DatasetError::foreign(path, "vitempo did not write this Parquet file"));
    }
    let version = footer.value("vitempo.schema_version");
    let version = version
        .parse()
        .map_err(|_| DatasetError::foreign(path, format!("`{version}` is not a schema version")))?;
    check_version(path, version)?;
    match footer.value("vitempo.table") {
        name if name == schema.name => Ok(version),
        other => Err(DatasetError::foreign(path, format!("it holds the table `{other}`"))),
    }
}

#[cfg(all(test, feature = "write"))]
mod tests;

//! [`Stream`]: writes tables as an Arrow IPC stream (`application/vnd.apache.arrow.stream`), which
//! pandas, polars, DuckDB and pyarrow read without copies.
//!
//! The stream is a schema, the dictionaries, and record batches. Each is a message: a marker, the
//! length of a FlatBuffer, the FlatBuffer, and the buffers that it describes, all padded to 8 bytes
//! (Arrow columnar format, version 1.5, section "Encapsulated message format"). FlatBuffer tables
//! are written by field number, as in `graph/src/tflite/flatbuffer.rs`.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};
use std::io::{self, Write};

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;

/// `MetadataVersion::V5`.
const VERSION: i16 = 4;
const ALIGNMENT: usize = 8;
const MARKER: [u8; 4] = [0xff; 4];

/// Members of the union `MessageHeader`.
const SCHEMA: u8 = 1;
const DICTIONARY_BATCH: u8 = 2;
const RECORD_BATCH: u8 = 3;

const fn slot(number: u16) -> u16 {
    4 + 2 * number
}

/// The values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Whole numbers of 32 bits.
    U32,
    /// Numbers of 64 bits.
    F64,
    /// UTF-8.
    Text,
    /// Places of 16 bits in the dictionary of texts with this number.
    TextOf(i64),
}

impl Type {
    /// Bytes of a value; `None` for texts.
    fn width(self) -> Option<usize> {
        match self {
            Self::U32 => Some(4),
            Self::F64 => Some(8),
            Self::TextOf(_) => Some(2),
            Self::Text => None,
        }
    }
}

/// A column's name and type; every column may have missing values.
pub type Field = (&'static str, Type);

/// Values of one column.
#[derive(Debug)]
pub struct Column {
    width: Option<usize>,
    data: Vec<u8>,
    /// Ends of texts, i32 each.
    offsets: Vec<u8>,
    /// A bit per row: whether it has a value.
    valid: Vec<u8>,
    rows: usize,
    nulls: usize,
}

impl Column {
    /// Without rows.
    pub fn new(kind: Type) -> Self {
        let width = kind.width();
        let offsets = if width.is_none() { vec![0; 4] } else { Vec::new() };
        Self { width, data: Vec::new(), offsets, valid: Vec::new(), rows: 0, nulls: 0 }
    }

    /// Adds a row: the bytes of its value, little end first, or nothing.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let bit = self.rows % 8;
        if bit == 0 {
            self.valid.push(0);
        }
        if let Some(last) = self.valid.last_mut() {
            *last |= u8::from(value.is_some()) << bit;
        }
        self.rows += 1;
        self.nulls += usize::from(value.is_none());
        self.data.extend_from_slice(value.unwrap_or_default());
        match self.width {
            Some(width) => self.data.resize(self.rows * width, 0),
            None => self
                .offsets
                .extend(i32::try_from(self.data.len()).unwrap_or(i32::MAX).to_le_bytes()),
        }
    }

    fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let valid: &[u8] = if self.nulls == 0 { &[] } else { &self.valid };
        let offsets = self.width.is_none().then_some(&self.offsets[..]);
        [valid].into_iter().chain(offsets).chain([&self.data[..]])
    }
}

/// A stream that is being written.
#[derive(Debug)]
pub struct Stream<W>(W);

impl<W: Write> Stream<W> {
    /// Begins a stream of tables with these columns; dictionaries are numbered from 0.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(
        writer: W,
        fields: &[Field],
        metadata: &[(&str, &str)],
        dictionaries: &[Vec<&str>],
    ) -> io::Result<Self> {
        let mut stream = Self(writer);
        let mut b = Builder::new();
        let schema = schema(&mut b, fields, metadata);
        stream.message(b, (SCHEMA, schema), &[])?;
        for (id, texts) in (0i64..).zip(dictionaries) {
            let mut column = Column::new(Type::Text);
            texts.iter().for_each(|text| column.push(Some(text.as_bytes())));
            let mut b = Builder::new();
            let columns = [column];
            let data = record_batch(&mut b, &columns);
            let start = b.start_table();
            b.push_slot_always(slot(0), id);
            b.push_slot_always(slot(1), data);
            let dictionary = b.end_table(start);
            stream.message(b, (DICTIONARY_BATCH, dictionary), &columns)?;
        }
        Ok(stream)
    }

    /// Adds rows: a column for each field, all of one length.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn batch(&mut self, columns: &[Column]) -> io::Result<()> {
        let mut b = Builder::new();
        let batch = record_batch(&mut b, columns);
        self.message(b, (RECORD_BATCH, batch), columns)
    }

    /// Writes the mark of the end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end(&mut self) -> io::Result<()> {
        self.0.write_all(&MARKER)?;
        self.0.write_all(&[0; 4])
    }

    /// The writer.
    pub fn writer(&mut self) -> &mut W {
        &mut self.0
    }

    /// The writer, by value.
    pub fn into_writer(self) -> W {
        self.0
    }

    fn message(
        &mut self,
        mut b: Builder,
        (kind, header): (u8, Table),
        body: &[Column],
    ) -> io::Result<()> {
        let buffers = || body.iter().flat_map(Column::buffers);
        let body_bytes: usize = buffers().map(|buffer| padded(buffer.len())).sum();
        let start = b.start_table();
        b.push_slot_always(slot(0), VERSION);
        b.push_slot_always(slot(1), kind);
        b.push_slot_always(slot(2), header);
        b.push_slot_always(slot(3), body_bytes as i64);
        let message = b.end_table(start);
        b.finish(message, None);
        let head = b.finished_data();
        let length = padded(head.len());
        self.0.write_all(&MARKER)?;
        self.0.write_all(&(length as u32).to_le_bytes())?;
        self.padded(head)?;
        buffers().try_for_each(|buffer| self.padded(buffer))
    }

    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.write_all(&[0; ALIGNMENT][..padded(bytes.len()) - bytes.len()])
    }
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

fn schema(b: &mut Builder, fields: &[Field], metadata: &[(&str, &str)]) -> Table {
    let fields: Vec<Table> = fields.iter().map(|field| one_field(b, *field)).collect();
    let fields = b.create_vector(&fields);
    let pairs: Vec<Table> = metadata.iter().map(|pair| key_value(b, *pair)).collect();
    let pairs = b.create_vector(&pairs);
    let start = b.start_table();
    b.push_slot_always(slot(0), 0i16);
    b.push_slot_always(slot(1), fields);
    b.push_slot_always(slot(2), pairs);
    b.end_table(start)
}

fn key_value(b: &mut Builder, (key, value): (&str, &str)) -> Table {
    let (key, value) = (b.create_string(key), b.create_string(value));
    let start = b.start_table();
    b.push_slot_always(slot(0), key);
    b.push_slot_always(slot(1), value);
    b.end_table(start)
}

fn integer(b: &mut Builder, bits: i32) -> Table {
    let start = b.start_table();
    b.push_slot_always(slot(0), bits);
    b.push_slot_always(slot(1), false);
    b.end_table(start)
}

/// The table of a type, and its place in the union `Type`.
fn one_type(b: &mut Builder, kind: Type) -> (u8, Table) {
    match kind {
        Type::U32 => (2, integer(b, 32)),
        Type::F64 => {
            let start = b.start_table();
            // `Precision::DOUBLE`.
            b.push_slot_always(slot(0), 2i16);
            (3, b.end_table(start))
        }
        Type::Text | Type::TextOf(_) => {
            let start = b.start_table();
            (5, b.end_table(start))
        }
    }
}

fn one_field(b: &mut Builder, (name, kind): Field) -> Table {
    let name = b.create_string(name);
    let (number, described) = one_type(b, kind);
    let dictionary = match kind {
        Type::TextOf(id) => {
            let index = integer(b, 16);
            let start = b.start_table();
            b.push_slot_always(slot(0), id);
            b.push_slot_always(slot(1), index);
            Some(b.end_table(start))
        }
        _ => None,
    };
    let children = b.create_vector::<Table>(&[]);
    let start = b.start_table();
    b.push_slot_always(slot(0), name);
    b.push_slot_always(slot(1), true);
    b.push_slot_always(slot(2), number);
    b.push_slot_always(slot(3), described);
    if let Some(dictionary) = dictionary {
        b.push_slot_always(slot(4), dictionary);
    }
    b.push_slot_always(slot(5), children);
    b.end_table(start)
}

fn record_batch(b: &mut Builder, columns: &[Column]) -> Table {
    let rows = columns.first().map_or(0, |column| column.rows);
    let nodes = columns.iter().map(|column| [column.rows as i64, column.nulls as i64]);
    let nodes = pairs(b, &nodes.collect::<Vec<_>>());
    let mut offset = 0;
    let places = columns.iter().flat_map(Column::buffers).map(|buffer| {
        let place = [offset as i64, buffer.len() as i64];
        offset += padded(buffer.len());
        place
    });
    let buffers = pairs(b, &places.collect::<Vec<_>>());
    let start = b.start_table();
    b.push_slot_always(slot(0), rows as i64);
    b.push_slot_always(slot(1), nodes);
    b.push_slot_always(slot(2), buffers);
    b.end_table(start)
}

/// A vector of structures of two numbers.
fn pairs(b: &mut Builder, pairs: &[[i64; 2]]) -> WIPOffset<flatbuffers::Vector<'static, i64>> {
    b.start_vector::<i64>(2 * pairs.len());
    for number in pairs.iter().flatten().rev() {
        b.push(*number);
    }
    b.end_vector::<i64>(pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two batches of ten and eleven rows; numbers and texts are missing in turn.
    fn table() -> Vec<u8> {
        let fields = [
            ("row", Type::U32),
            ("bundle", Type::TextOf(0)),
            ("value", Type::F64),
            ("problem", Type::Text),
        ];
        let names = vec![vec!["first", "second, longer"]];
        let mut stream =
            Stream::begin(Vec::new(), &fields, &[("level", "0.9")], &names).expect("memory");
        for batch in 0..2u32 {
            let mut columns: Vec<Column> =
                fields.iter().map(|(_, kind)| Column::new(*kind)).collect();
            for row in 0..10 + batch {
                let has_value = row % 3 != 1;
                columns[0].push(Some(&row.to_le_bytes()));
                columns[1].push(Some(&((row % 2) as u16).to_le_bytes()));
                let value = (f64::from(row) * 0.5).to_le_bytes();
                columns[2].push(has_value.then_some(&value[..]));
                columns[3].push((!has_value).then_some("no \u{e9}".as_bytes()));
            }
            stream.batch(&columns).expect("memory");
        }
        stream.end().expect("memory");
        stream.into_writer()
    }

    /// `python/tests/test_arrow_stream.py` reads this file with pyarrow and polars.
    #[test]
    fn a_stream_has_the_bytes_that_other_readers_read() {
        assert!(table() == include_bytes!("../tests/table.arrows"), "the format has changed");
    }

    #[test]
    fn everything_is_aligned_to_eight_bytes() {
        let bytes = table();
        let (mut at, mut messages) = (0, 0);
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        loop {
            assert_eq!((at % 8, &bytes[at..at + 4]), (0, &MARKER[..]));
            let length = number(at + 4) as usize;
            if length == 0 {
                break;
            }
            assert_eq!(length % 8, 0);
            // Behind a head come the buffers that it describes, up to the next marker.
            let next = (at + 8 + length..bytes.len()).step_by(8);
            at = next.into_iter().find(|at| bytes[*at..*at + 4] == MARKER).expect("the end");
            messages += 1;
        }
        assert_eq!((messages, at + 8), (4, bytes.len()), "schema, dictionary, two batches");
    }
}

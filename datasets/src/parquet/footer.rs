//! [`Footer`]: what the end of a Parquet file says of its tables: its columns, and where the pages
//! of each group of rows lie.
//!
//! The structures:
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

use super::{
    MAGIC,
    fault::{Fault, Outcome, damaged, foreign},
    thrift::Compact,
};
use crate::schema::ColumnType;
use std::ops::Range;

/// Bytes after the metadata: its length, and the four letters.
const TAIL: usize = 8;

/// The metadata of a file.
#[derive(Debug)]
pub(super) struct Footer<'b> {
    pub(super) groups: Vec<Group<'b>>,
    leaves: Vec<Leaf<'b>>,
    pairs: Vec<(&'b str, &'b str)>,
}

/// Rows that were compressed together.
#[derive(Debug)]
pub(super) struct Group<'b> {
    pub(super) rows: usize,
    chunks: Vec<Chunk<'b>>,
}

/// One column of a group.
#[derive(Debug)]
pub(super) struct Chunk<'b> {
    name: &'b str,
    /// Values with those that are null, and an empty list as one.
    pub(super) values: usize,
    pub(super) compressed: bool,
    /// Bytes of its pages when they are decompressed.
    uncompressed: usize,
    /// Where its pages lie in the file.
    pub(super) pages: Range<usize>,
}

/// A column that holds values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'b> {
    name: &'b str,
    physical: i64,
    /// What the physical type stands for, where the file says so.
    converted: Option<i64>,
    pub(super) list: bool,
    /// Whether a value of the column can be null: for a list, the whole list.
    pub(super) optional: bool,
    /// Whether an element of a list can be null.
    pub(super) optional_element: bool,
}

/// Parquet's numbers of types.
mod parquet_type {
    pub(super) const INT64: i64 = 2;
    pub(super) const BYTE_ARRAY: i64 = 6;
    pub(super) const UINT_64: i64 = 14;
    pub(super) const UNCOMPRESSED: i64 = 0;
    pub(super) const ZSTD: i64 = 6;
    pub(super) const REQUIRED: i64 = 0;
    pub(super) const REPEATED: i64 = 2;
    pub(super) const NAMES: [&str; 8] = [
        "BOOLEAN",
        "INT32",
        "INT64",
        "INT96",
        "FLOAT",
        "DOUBLE",
        "BYTE_ARRAY",
        "FIXED_LEN_BYTE_ARRAY",
    ];
}

impl<'b> Footer<'b> {
    /// The footer of a whole file.
    pub(super) fn read(bytes: &'b [u8]) -> Outcome<Self> {
        let (metadata, pages) = metadata(bytes)?;
        let (mut elements, mut groups, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = None;
        Compact::new(&bytes[metadata]).fields(|reader, number, kind| match number {
            2 => reader.list(kind, |reader, kind| {
                elements.push(Element::read(reader, kind)?);
                Ok(())
            }),
            3 => {
                rows = Some(reader.size(kind)?);
                Ok(())
            }
            4 => reader.list(kind, |reader, kind| {
                groups.push(Group::read(reader, kind, &pages)?);
                Ok(())
            }),
            5 => reader.list(kind, |reader, kind| {
                pairs.push(pair(reader, kind)?);
                Ok(())
            }),
            _ => reader.skip(kind),
        })?;
        let footer = Self { groups, leaves: leaves(&elements)?, pairs };
        if rows != footer.rows() {
            return damaged("its groups have more or fewer rows than the file");
        }
        Ok(footer)
    }

    /// Rows of all groups; `None` where they cannot be counted.
    pub(super) fn rows(&self) -> Option<usize> {
        self.groups.iter().try_fold(0usize, |rows, group| rows.checked_add(group.rows))
    }

    /// A value that the writer added under this key; empty where there is none.
    pub(super) fn value(&self, key: &str) -> &'b str {
        self.pairs.iter().find(|pair| pair.0 == key).map_or("", |pair| pair.1)
    }

    /// The column of that name, if its type is the schema's.
    pub(super) fn leaf(&self, name: &str, kind: ColumnType) -> Outcome<Leaf<'b>> {
        let Some(leaf) = self.leaves.iter().find(|leaf| leaf.name == name) else {
            return foreign(format!("column `{name}` is missing"));
        };
        let (physical, list) = match kind {
            ColumnType::Text | ColumnType::OptionalText => (parquet_type::BYTE_ARRAY, false),
            ColumnType::Integer | ColumnType::OptionalInteger => (parquet_type::INT64, false),
            ColumnType::IntegerList => (parquet_type::INT64, true),
        };
        let integer = physical == parquet_type::INT64;
        let signed = integer && leaf.converted != Some(parquet_type::UINT_64);
        if leaf.physical != physical || leaf.list != list || signed {
            return foreign(format!(
                "column `{name}` has the type {}, which the schema does not have",
                leaf.describe()
            ));
        }
        Ok(*leaf)
    }

    /// Bytes that reading the pages of all columns once spends.
    pub(super) fn page_bytes(&self) -> u64 {
        let chunks = self.groups.iter().flat_map(|group| &group.chunks);
        chunks.map(|chunk| (chunk.uncompressed as u64).saturating_add(chunk.values as u64)).sum()
    }
}

impl Leaf<'_> {
    fn describe(&self) -> String {
        let index = usize::try_from(self.physical).unwrap_or(usize::MAX);
        let name = parquet_type::NAMES.get(index).copied().unwrap_or("unknown");
        let signed =
            self.physical == parquet_type::INT64 && self.converted != Some(parquet_type::UINT_64);
        let sign = if signed { "signed " } else { "" };
        if self.list { format!("list of {sign}{name}") } else { format!("{sign}{name}") }
    }
}

impl<'b> Group<'b> {
    fn read(reader: &mut Compact<'b>, kind: u8, pages: &Range<usize>) -> Outcome<Self> {
        let (mut rows, mut chunks) = (None, Vec::new());
        reader.structure(kind, |reader, number, kind| match number {
            1 => reader.list(kind, |reader, kind| {
                chunks.push(Chunk::read(reader, kind, pages)?);
                Ok(())
            }),
            3 => {
                rows = Some(reader.size(kind)?);
                Ok(())
            }
            _ => reader.skip(kind),
        })?;
        match rows {
            Some(rows) => Ok(Self { rows, chunks }),
            None => damaged("a group does not say how many rows it has"),
        }
    }

    pub(super) fn chunk(&self, name: &str) -> Outcome<&Chunk<'b>> {
        match self.chunks.iter().find(|chunk| chunk.name == name) {
            Some(chunk) => Ok(chunk),
            None => damaged(&format!("a group has no column `{name}`")),
        }
    }
}

/// The fields of a chunk's metadata that are needed.
#[derive(Default)]
struct ChunkFields<'b> {
    name: Option<&'b str>,
    codec: Option<i64>,
    values: Option<usize>,
    uncompressed: Option<usize>,
    length: Option<usize>,
    first_page: Option<usize>,
    dictionary: Option<usize>,
}

impl<'b> Chunk<'b> {
    fn read(reader: &mut Compact<'b>, kind: u8, pages: &Range<usize>) -> Outcome<Self> {
        let mut fields = ChunkFields::default();
        reader.structure(kind, |reader, number, kind| match number {
            3 => reader.structure(kind, |reader, number, kind| fields.read(reader, number, kind)),
            _ => reader.skip(kind),
        })?;
        fields.chunk(pages)
    }
}

impl<'b> ChunkFields<'b> {
    fn read(&mut self, reader: &mut Compact<'b>, number: i64, kind: u8) -> Outcome<()> {
        match number {
            3 => reader.list(kind, |reader, kind| {
                let part = reader.text(kind)?;
                self.name.get_or_insert(part);
                Ok(())
            })?,
            4 => self.codec = Some(reader.integer(kind)?),
            5 => self.values = Some(reader.size(kind)?),
            6 => self.uncompressed = Some(reader.size(kind)?),
            7 => self.length = Some(reader.size(kind)?),
            9 => self.first_page = Some(reader.size(kind)?),
            11 => self.dictionary = Some(reader.size(kind)?),
            _ => reader.skip(kind)?,
        }
        Ok(())
    }

    fn chunk(self, pages: &Range<usize>) -> Outcome<Chunk<'b>> {
        let (Some(name), Some(values), Some(length), Some(first)) =
            (self.name, self.values, self.length, self.first_page)
        else {
            return damaged("a column of a group lacks its name, size or place");
        };
        let start = self.dictionary.map_or(first, |dictionary| dictionary.min(first));
        let end = start.checked_add(length).filter(|&end| end <= pages.end);
        let Some(end) = end.filter(|_| start >= pages.start) else {
            return damaged("a column of a group lies outside of the file");
        };
        let compressed = match self.codec {
            Some(parquet_type::ZSTD) => true,
            Some(parquet_type::UNCOMPRESSED) => false,
            _ => return foreign("its pages are compressed by another codec than zstd"),
        };
        let uncompressed = self.uncompressed.unwrap_or(0);
        Ok(Chunk { name, values, compressed, uncompressed, pages: start..end })
    }
}

/// Where the metadata lies, and where pages may lie.
pub(super) fn metadata(bytes: &[u8]) -> Outcome<(Range<usize>, Range<usize>)> {
    let end = bytes.len().saturating_sub(TAIL);
    let length = bytes.get(end..).and_then(|tail| tail.first_chunk::<4>());
    let length = length.map_or(usize::MAX, |length| u32::from_le_bytes(*length) as usize);
    match end.checked_sub(length).filter(|&start| start >= MAGIC.len()) {
        Some(start) => Ok((start..end, MAGIC.len()..start)),
        None => damaged("its metadata is longer than the file"),
    }
}

fn pair<'b>(reader: &mut Compact<'b>, kind: u8) -> Outcome<(&'b str, &'b str)> {
    let (mut key, mut value) = ("", "");
    reader.structure(kind, |reader, number, kind| {
        match number {
            1 => key = reader.text(kind)?,
            2 => value = reader.text(kind)?,
            _ => reader.skip(kind)?,
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// A node of the schema's tree, in depth-first order.
#[derive(Clone, Copy, Default)]
struct Element<'b> {
    name: &'b str,
    physical: Option<i64>,
    repetition: i64,
    children: usize,
    converted: Option<i64>,
}

impl<'b> Element<'b> {
    fn read(reader: &mut Compact<'b>, kind: u8) -> Outcome<Self> {
        let mut element = Self::default();
        reader.structure(kind, |reader, number, kind| {
            match number {
                1 => element.physical = Some(reader.integer(kind)?),
                3 => element.repetition = reader.integer(kind)?,
                4 => element.name = reader.text(kind)?,
                5 => element.children = reader.size(kind)?,
                6 => element.converted = Some(reader.integer(kind)?),
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        Ok(element)
    }
}

/// The columns of a schema of values and of lists of values: a list is a group with a repeated
/// group with an element.
fn leaves<'b>(elements: &[Element<'b>]) -> Outcome<Vec<Leaf<'b>>> {
    let Some((root, mut rest)) = elements.split_first() else {
        return damaged("it has no schema");
    };
    let mut leaves = Vec::new();
    while let Some((&first, after)) = rest.split_first() {
        let (leaf, after) = match (first.children, after) {
            (0, _) => (Leaf::flat(first)?, after),
            (1, [middle, element, after @ ..]) if middle.children == 1 => {
                (Leaf::list(first, *middle, *element)?, after)
            }
            _ => return foreign(format!("column `{}` is neither value nor list", first.name)),
        };
        leaves.push(leaf);
        rest = after;
    }
    if leaves.len() != root.children {
        return damaged("its schema has more or fewer columns than it says");
    }
    Ok(leaves)
}

impl<'b> Leaf<'b> {
    fn flat(element: Element<'b>) -> Outcome<Self> {
        let Some(physical) = element.physical.filter(|_| element.repetition < 2) else {
            return Err(Fault::Foreign(format!("column `{}` repeats", element.name)));
        };
        Ok(Self {
            name: element.name,
            physical,
            converted: element.converted,
            list: false,
            optional: element.repetition != parquet_type::REQUIRED,
            optional_element: false,
        })
    }

    fn list(outer: Element<'b>, middle: Element<'b>, element: Element<'b>) -> Outcome<Self> {
        if middle.repetition != parquet_type::REPEATED
            || outer.repetition == parquet_type::REPEATED
            || element.children > 0
        {
            return foreign(format!("column `{}` is no list of values", outer.name));
        }
        let element = Self::flat(element)?;
        Ok(Self {
            name: outer.name,
            list: true,
            optional: outer.repetition != parquet_type::REQUIRED,
            optional_element: element.optional,
            ..element
        })
    }
}

//! [`Pages`]: the pages of one column of one group, decompressed one at a time.
//!
//! Only what vitempo writes is read: data pages of the first version, values plain or as positions
//! in a dictionary, levels in runs.

use super::{
    fault::{Allowance, Outcome, damaged, foreign},
    footer::Chunk,
    thrift::Compact,
};
use zstd::bulk::Decompressor;

/// Parquet's numbers of page types and encodings.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const RLE_DICTIONARY: i64 = 8;

/// A page's kind, and how many values it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Dictionary {
        values: usize,
    },
    /// `positions`: values are positions in the dictionary.
    Data {
        values: usize,
        positions: bool,
    },
}

/// The pages that are left.
pub(super) struct Pages<'b> {
    rest: &'b [u8],
    compressed: bool,
    decompressor: Decompressor<'static>,
}

#[derive(Default)]
struct Header {
    kind: Option<i64>,
    uncompressed: Option<usize>,
    compressed: Option<usize>,
    values: Option<usize>,
    encoding: Option<i64>,
    /// Whether definition and repetition levels are in runs.
    levels: [Option<i64>; 2],
}

impl Header {
    fn read(reader: &mut Compact<'_>) -> Outcome<Self> {
        let mut header = Self::default();
        reader.fields(|reader, number, kind| {
            match number {
                1 => header.kind = Some(reader.integer(kind)?),
                2 => header.uncompressed = Some(reader.size(kind)?),
                3 => header.compressed = Some(reader.size(kind)?),
                5 | 7 => reader.structure(kind, |reader, number, kind| {
                    match number {
                        1 => header.values = Some(reader.size(kind)?),
                        2 => header.encoding = Some(reader.integer(kind)?),
                        3 | 4 if kind > 2 => {
                            header.levels[number as usize - 3] = Some(reader.integer(kind)?);
                        }
                        _ => reader.skip(kind)?,
                    }
                    Ok(())
                })?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        Ok(header)
    }

    fn page(&self) -> Outcome<Page> {
        let (Some(kind), Some(values)) = (self.kind, self.values) else {
            return damaged("a page does not say what it holds");
        };
        match (kind, self.encoding) {
            (DICTIONARY_PAGE, Some(PLAIN | PLAIN_DICTIONARY)) => Ok(Page::Dictionary { values }),
            (DATA_PAGE, Some(PLAIN)) if self.in_runs() => {
                Ok(Page::Data { values, positions: false })
            }
            (DATA_PAGE, Some(RLE_DICTIONARY)) if self.in_runs() => {
                Ok(Page::Data { values, positions: true })
            }
            _ => foreign("a page is of a kind that vitempo does not write"),
        }
    }

    fn in_runs(&self) -> bool {
        self.levels == [Some(RLE); 2]
    }
}

impl<'b> Pages<'b> {
    /// The pages of a chunk of this file.
    pub(super) fn of(bytes: &'b [u8], chunk: &Chunk<'_>) -> Outcome<Self> {
        let (Some(rest), Ok(decompressor)) = (bytes.get(chunk.pages.clone()), Decompressor::new())
        else {
            return damaged("its pages cannot be read");
        };
        Ok(Self { rest, compressed: chunk.compressed, decompressor })
    }

    /// Decompresses the next page into `buffer`; `None` after the last.
    pub(super) fn next(
        &mut self,
        buffer: &mut Vec<u8>,
        allowance: &Allowance,
    ) -> Outcome<Option<Page>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut reader = Compact::new(self.rest);
        let header = Header::read(&mut reader)?;
        let page = header.page()?;
        let (Some(uncompressed), Some(compressed)) = (header.uncompressed, header.compressed)
        else {
            return damaged("a page does not say how long it is");
        };
        let Some((content, rest)) = reader.rest().split_at_checked(compressed) else {
            return damaged("a page is longer than its column");
        };
        self.rest = rest;
        allowance.spend(uncompressed, 1)?;
        self.decompress(content, uncompressed, buffer)?;
        Ok(Some(page))
    }

    fn decompress(&mut self, content: &[u8], length: usize, buffer: &mut Vec<u8>) -> Outcome<()> {
        buffer.clear();
        if !self.compressed {
            buffer.extend_from_slice(content);
        } else {
            buffer.reserve_exact(length);
            buffer.resize(length, 0);
            let written = self.decompressor.decompress_to_buffer(content, buffer.as_mut_slice());
            buffer.truncate(written.unwrap_or(0));
        }
        if buffer.len() != length {
            return damaged("a page cannot be decompressed to the length that its header says");
        }
        Ok(())
    }
}

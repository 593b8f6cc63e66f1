//! Reads the values of one column of one group, with their nulls and lists, page by page.

use super::{
    fault::{Allowance, Outcome, damaged},
    footer::{Chunk, Leaf},
    hybrid::Hybrid,
    pages::{Page, Pages},
};
use std::ops::Range;

const CUT_SHORT: &str = "a page has fewer values than its header says";
const BAD_LEVEL: &str = "a page has a level that its column does not have";

/// How values follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Eight bytes each, the lowest first.
    Integers,
    /// Each after its length in four bytes.
    Texts,
}

impl Layout {
    fn take<'p>(self, bytes: &mut &'p [u8]) -> Option<&'p [u8]> {
        let length = match self {
            Self::Integers => 8,
            Self::Texts => {
                let (length, rest) = bytes.split_first_chunk::<4>()?;
                *bytes = rest;
                u32::from_le_bytes(*length) as usize
            }
        };
        let (value, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(value)
    }
}

/// What stands at one place of a column.
#[derive(Debug)]
pub(super) enum Content<'v> {
    /// No value, or no list.
    Null,
    /// A list without elements.
    Empty,
    /// The element of a missing list.
    NullElement,
    /// The bytes of a value.
    Value(&'v [u8]),
}

/// The distinct values of a chunk.
#[derive(Default)]
struct Dictionary {
    bytes: Vec<u8>,
    spans: Vec<Range<usize>>,
}

impl Dictionary {
    /// `bytes`: its page. There are no more distinct values than values.
    fn new(bytes: Vec<u8>, count: usize, layout: Layout, chunk: &Chunk<'_>) -> Outcome<Self> {
        if count > chunk.values {
            return damaged("a dictionary has more values than its column");
        }
        let mut spans = Vec::new();
        let mut rest = bytes.as_slice();
        for _ in 0..count {
            let Some(value) = layout.take(&mut rest) else { return damaged(CUT_SHORT) };
            let end = bytes.len() - rest.len();
            spans.push(end - value.len()..end);
        }
        Ok(Self { bytes, spans })
    }

    fn get(&self, position: u32) -> Option<&[u8]> {
        self.bytes.get(self.spans.get(position as usize)?.clone())
    }
}

/// A data page: levels, then values.
struct Data<'p> {
    repetitions: Option<Hybrid<'p>>,
    definitions: Option<Hybrid<'p>>,
    values: Values<'p>,
}

enum Values<'p> {
    Plain(Layout, &'p [u8]),
    Positions(Hybrid<'p>),
}

impl<'p> Data<'p> {
    fn open(mut page: &'p [u8], leaf: Leaf<'_>, layout: Layout, positions: bool) -> Outcome<Self> {
        let repetitions = levels(&mut page, u32::from(leaf.list))?;
        let definitions = levels(&mut page, leaf.highest())?;
        let values = match page.split_first() {
            _ if !positions => Values::Plain(layout, page),
            Some((&width, page)) => Values::Positions(Hybrid::new(page, width)?),
            None => Values::Positions(Hybrid::new(page, 0)?),
        };
        Ok(Self { repetitions, definitions, values })
    }

    /// Whether the next value begins a row.
    fn begins_row(&mut self) -> Outcome<bool> {
        match self.repetitions.as_mut().map_or(Ok(0), Hybrid::next)? {
            0 => Ok(true),
            1 => Ok(false),
            _ => damaged(BAD_LEVEL),
        }
    }

    fn content<'v>(
        &'v mut self,
        leaf: Leaf<'_>,
        dictionary: &'v Dictionary,
    ) -> Outcome<Content<'v>> {
        let highest = leaf.highest();
        let level = self.definitions.as_mut().map_or(Ok(highest), Hybrid::next)?;
        if level == highest {
            return Ok(Content::Value(self.value(dictionary)?));
        }
        match (leaf.list, level) {
            _ if level > highest => damaged(BAD_LEVEL),
            (_, 0) if leaf.optional => Ok(Content::Null),
            (true, _) if level == u32::from(leaf.optional) => Ok(Content::Empty),
            _ => Ok(Content::NullElement),
        }
    }

    fn value<'v>(&'v mut self, dictionary: &'v Dictionary) -> Outcome<&'v [u8]> {
        let value = match &mut self.values {
            Values::Plain(layout, bytes) => layout.take(bytes),
            Values::Positions(positions) => dictionary.get(positions.next()?),
        };
        match value {
            Some(value) => Ok(value),
            None => damaged(CUT_SHORT),
        }
    }
}

impl Leaf<'_> {
    /// The level of a value that is there.
    fn highest(self) -> u32 {
        u32::from(self.optional) + u32::from(self.list) + u32::from(self.optional_element)
    }
}

/// The levels up to `highest` before the values of a page; none are stored where there is one.
fn levels<'p>(page: &mut &'p [u8], highest: u32) -> Outcome<Option<Hybrid<'p>>> {
    if highest == 0 {
        return Ok(None);
    }
    let Some(bytes) = Layout::Texts.take(page) else { return damaged(CUT_SHORT) };
    Hybrid::new(bytes, (u32::BITS - highest.leading_zeros()) as u8).map(Some)
}

/// Gives `each` the values of a chunk one after the other, and whether each begins a row.
pub(super) fn read_chunk(
    bytes: &[u8],
    chunk: &Chunk<'_>,
    leaf: Leaf<'_>,
    layout: Layout,
    allowance: &Allowance,
    mut each: impl FnMut(bool, Content<'_>) -> Outcome<()>,
) -> Outcome<()> {
    // A run of values takes a few bytes, however long it is: looking at each is paid for too.
    allowance.spend(chunk.values, 1)?;
    let mut pages = Pages::of(bytes, chunk)?;
    let (mut buffer, mut dictionary) = (Vec::new(), Dictionary::default());
    let mut left = chunk.values;
    while let Some(page) = pages.next(&mut buffer, allowance)? {
        let (values, positions) = match page {
            Page::Data { values, positions } => (values, positions),
            Page::Dictionary { values } => {
                dictionary = Dictionary::new(std::mem::take(&mut buffer), values, layout, chunk)?;
                continue;
            }
        };
        left = match left.checked_sub(values) {
            Some(left) => left,
            None => return damaged("its pages have more values than its column"),
        };
        let mut data = Data::open(&buffer, leaf, layout, positions)?;
        for _ in 0..values {
            let begins_row = data.begins_row()?;
            each(begins_row, data.content(leaf, &dictionary)?)?;
        }
    }
    if left > 0 {
        return damaged("its pages have fewer values than its column");
    }
    Ok(())
}

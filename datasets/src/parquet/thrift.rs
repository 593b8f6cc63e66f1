//! [`Compact`]: reads Thrift's compact protocol, in which Parquet's metadata is written, from bytes
//! that nobody vouches for. Lengths are compared with the bytes that are left, structures are
//! nested to a bounded depth, and nothing is allocated.
//!
//! The protocol:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use super::fault::{Outcome, damaged};

/// Types on the wire.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Parquet's own metadata nests structures up to six deep.
const DEPTH: u8 = 16;

const WRONG_TYPE: &str = "a field of its metadata is of another type";
const CUT_SHORT: &str = "its metadata ends too early";

/// A position in the metadata.
#[derive(Clone, Debug)]
pub(super) struct Compact<'b> {
    rest: &'b [u8],
    depth: u8,
}

impl<'b> Compact<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// What was not read yet.
    pub(super) const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    fn take(&mut self, length: usize) -> Outcome<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => damaged(CUT_SHORT),
        }
    }

    fn byte(&mut self) -> Outcome<u8> {
        Ok(self.take(1)?[0])
    }

    fn unsigned(&mut self) -> Outcome<u64> {
        match varint(&mut self.rest) {
            Some(number) => Ok(number),
            None => damaged(CUT_SHORT),
        }
    }

    fn signed(&mut self) -> Outcome<i64> {
        let raw = self.unsigned()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A whole number, in a field of this type.
    pub(super) fn integer(&mut self, kind: u8) -> Outcome<i64> {
        match kind {
            BYTE => Ok(i64::from(self.byte()? as i8)),
            I16..=I64 => self.signed(),
            _ => damaged(WRONG_TYPE),
        }
    }

    /// A number that counts or measures something.
    pub(super) fn size(&mut self, kind: u8) -> Outcome<usize> {
        match usize::try_from(self.integer(kind)?) {
            Ok(size) => Ok(size),
            Err(_) => damaged("a size in its metadata is negative"),
        }
    }

    /// Text.
    pub(super) fn text(&mut self, kind: u8) -> Outcome<&'b str> {
        if kind != BINARY {
            return damaged(WRONG_TYPE);
        }
        let length = self.length()?;
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(text),
            Err(_) => damaged("a text in its metadata is not UTF-8"),
        }
    }

    /// A length of at most the bytes that are left: each element takes one at least.
    fn length(&mut self) -> Outcome<usize> {
        match usize::try_from(self.unsigned()?) {
            Ok(length) if length <= self.rest.len() => Ok(length),
            _ => damaged(CUT_SHORT),
        }
    }

    /// Reads each element of a list with `element`, which is given the element's type.
    pub(super) fn list(
        &mut self,
        kind: u8,
        mut element: impl FnMut(&mut Self, u8) -> Outcome<()>,
    ) -> Outcome<()> {
        if kind != LIST && kind != SET {
            return damaged(WRONG_TYPE);
        }
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.length()?,
            short => usize::from(short),
        };
        for _ in 0..length {
            element(self, head & 15)?;
        }
        Ok(())
    }

    /// Reads each field of a structure, which stands in a field of type `kind`, with `field`: it is
    /// given number and type, and has to read or [`skip`](Self::skip) the value.
    pub(super) fn structure(
        &mut self,
        kind: u8,
        field: impl FnMut(&mut Self, i64, u8) -> Outcome<()>,
    ) -> Outcome<()> {
        if kind != STRUCT {
            return damaged(WRONG_TYPE);
        }
        self.fields(field)
    }

    /// The fields of a structure that stands alone.
    pub(super) fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, i64, u8) -> Outcome<()>,
    ) -> Outcome<()> {
        self.deeper()?;
        let mut number = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                break;
            }
            number = match head >> 4 {
                0 => self.signed()?,
                step => number.saturating_add(i64::from(step)),
            };
            field(self, number, head & 15)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self) -> Outcome<()> {
        if self.depth == DEPTH {
            return damaged("its metadata is nested too deeply");
        }
        self.depth += 1;
        Ok(())
    }

    /// Reads past a field of this type.
    pub(super) fn skip(&mut self, kind: u8) -> Outcome<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(drop),
            I16..=I64 => self.signed().map(drop),
            DOUBLE => self.take(8).map(drop),
            BINARY => {
                let length = self.length()?;
                self.take(length).map(drop)
            }
            LIST | SET => {
                self.deeper()?;
                self.list(kind, Self::skip_element)?;
                self.depth -= 1;
                Ok(())
            }
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind)),
            MAP => damaged("its metadata has a map, which Parquet has nowhere"),
            _ => damaged(WRONG_TYPE),
        }
    }

    /// Reads past an element of a list, in which booleans take a byte.
    fn skip_element(&mut self, kind: u8) -> Outcome<()> {
        match kind {
            TRUE | FALSE => self.byte().map(drop),
            _ => self.skip(kind),
        }
    }
}

/// A number in groups of seven bits, the lowest first; `None` where the bytes end before it does,
/// or it has more than 64 bits.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_lists_are_read_by_the_specification() {
        // 1: i32 = -3, 2: binary = "ab", 5: list of two i64, 300: true, stop.
        let bytes = [0x15, 5, 0x18, 2, b'a', b'b', 0x39, 0x26, 2, 0x80, 1, 0x01, 0xd8, 4, 0];
        let mut seen = Vec::new();
        let mut reader = Compact::new(&bytes);
        reader
            .fields(|reader, number, kind| {
                match number {
                    1 => seen.push(reader.integer(kind)?.to_string()),
                    2 => seen.push(reader.text(kind)?.to_owned()),
                    5 => reader.list(kind, |reader, kind| {
                        seen.push(reader.size(kind)?.to_string());
                        Ok(())
                    })?,
                    _ => {
                        seen.push(number.to_string());
                        reader.skip(kind)?;
                    }
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, ["-3", "ab", "1", "64", "300"]);
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn lengths_beyond_the_bytes_and_deep_nesting_are_refused() {
        for bytes in [
            &[0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, b'a'][..], // a text of 4 GiB
            &[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f],     // a list of 4 Gi numbers
            &[0x1c; 100],                                    // structures in structures
            &[0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19, 0x19],
            &[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x1b, 0],
            &[],
        ] {
            let mut reader = Compact::new(bytes);
            assert!(reader.fields(|reader, _, kind| reader.skip(kind)).is_err(), "{bytes:?}");
        }
    }
}

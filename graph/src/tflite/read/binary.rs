//! [`Table`] and [`Vector`]: the parts of a FlatBuffer, read by field number. Every access is
//! checked against the length of the file; offsets may point anywhere in it.

/// Why bytes cannot be read.
pub(super) type Damage = &'static str;

const OUTSIDE: Damage = "an offset leads out of the file";
/// Bytes of a text that are read: tables may share one, and each of them would be checked.
const LONGEST_TEXT: usize = 256;

/// Four bytes at a place.
fn four(bytes: &[u8], at: usize) -> Result<[u8; 4], Damage> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(OUTSIDE)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Damage> {
    four(bytes, at).map(u32::from_le_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<usize, Damage> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(OUTSIDE)?;
    Ok(usize::from(u16::from_le_bytes(two)))
}

/// Where the offset at a place leads.
fn follow(bytes: &[u8], at: usize) -> Result<usize, Damage> {
    let offset = u32_at(bytes, at)? as usize;
    at.checked_add(offset).filter(|to| *to < bytes.len()).ok_or(OUTSIDE)
}

/// A table: fields by number, each there or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    vtable: usize,
    /// Bytes of the vtable.
    length: usize,
}

impl<'a> Table<'a> {
    /// The root of a file with that identifier.
    pub(super) fn root(bytes: &'a [u8], identifier: &[u8]) -> Result<Self, Damage> {
        if bytes.get(4..8) != Some(identifier) {
            return Err("it has not the identifier TFL3");
        }
        Self::at(bytes, follow(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], at: usize) -> Result<Self, Damage> {
        let back = i64::from(i32::from_le_bytes(four(bytes, at)?));
        let vtable = usize::try_from(at as i64 - back).map_err(|_| OUTSIDE)?;
        let length = u16_at(bytes, vtable)?;
        Ok(Self { bytes, at, vtable, length })
    }

    /// Where a field is; `None` where it has its default.
    fn field(&self, number: usize) -> Result<Option<usize>, Damage> {
        let slot = 4 + 2 * number;
        if slot + 2 > self.length {
            return Ok(None);
        }
        Ok(match u16_at(self.bytes, self.vtable + slot)? {
            0 => None,
            offset => Some(self.at + offset),
        })
    }

    /// A byte; `default` where it is not there.
    pub(super) fn byte(&self, number: usize, default: i8) -> Result<i8, Damage> {
        match self.field(number)? {
            None => Ok(default),
            Some(at) => self.bytes.get(at).map(|byte| *byte as i8).ok_or(OUTSIDE),
        }
    }

    /// A truth value; false where it is not there.
    pub(super) fn flag(&self, number: usize) -> Result<bool, Damage> {
        Ok(self.byte(number, 0)? != 0)
    }

    /// A whole number.
    pub(super) fn int(&self, number: usize, default: i32) -> Result<i32, Damage> {
        match self.field(number)? {
            None => Ok(default),
            Some(at) => Ok(i32::from_le_bytes(four(self.bytes, at)?)),
        }
    }

    /// A real number.
    pub(super) fn float(&self, number: usize, default: f32) -> Result<f32, Damage> {
        match self.field(number)? {
            None => Ok(default),
            Some(at) => Ok(f32::from_le_bytes(four(self.bytes, at)?)),
        }
    }

    /// A table.
    pub(super) fn table(&self, number: usize) -> Result<Option<Self>, Damage> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        Self::at(self.bytes, follow(self.bytes, at)?).map(Some)
    }

    /// A vector whose elements have `size` bytes; an empty one where it is not there.
    pub(super) fn vector(&self, number: usize, size: usize) -> Result<Vector<'a>, Damage> {
        let Some(at) = self.field(number)? else {
            return Ok(Vector { bytes: &[], at: 0, data: &[] });
        };
        let start = follow(self.bytes, at)?;
        let length = u32_at(self.bytes, start)? as usize;
        let from = start + 4;
        let end = length.checked_mul(size).and_then(|length| from.checked_add(length));
        let data = end.and_then(|end| self.bytes.get(from..end)).ok_or(OUTSIDE)?;
        Ok(Vector { bytes: self.bytes, at: from, data })
    }

    /// A text up to its first byte that is no UTF-8, cut where it is too long; an empty one where it
    /// is not there.
    pub(super) fn text(&self, number: usize) -> Result<&'a str, Damage> {
        let data = self.vector(number, 1)?.data;
        let data = &data[..data.len().min(LONGEST_TEXT)];
        let valid = std::str::from_utf8(data).map_or_else(|e| e.valid_up_to(), str::len);
        Ok(std::str::from_utf8(&data[..valid]).unwrap_or_default())
    }
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    at: usize,
    data: &'a [u8],
}

impl<'a> Vector<'a> {
    /// The bytes of all elements.
    pub(super) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whole numbers, of 4 bytes each.
    pub(super) fn ints(&self) -> impl ExactSizeIterator<Item = i32> + 'a {
        let (chunks, _) = self.data.as_chunks::<4>();
        chunks.iter().map(|chunk| i32::from_le_bytes(*chunk))
    }

    /// Number of tables, of 4 bytes each.
    pub(super) fn tables(&self) -> usize {
        self.data.len() / 4
    }

    /// One of the tables.
    pub(super) fn table(&self, index: usize) -> Result<Table<'a>, Damage> {
        let at = index.checked_mul(4).and_then(|offset| self.at.checked_add(offset));
        Table::at(self.bytes, follow(self.bytes, at.ok_or(OUTSIDE)?)?)
    }
}

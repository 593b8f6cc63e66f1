//! Protobuf's wire format: the fields of one message, without decoding what is inside them.

use std::ops::Range;

/// One field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// Field number.
    pub number: u64,
    /// Where key and value lie in the file.
    pub whole: Range<usize>,
    /// Its value.
    pub value: FieldValue,
}

/// The value of a field: a number, or where its bytes lie in the file.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Bytes, a text, a message or a packed list.
    Bytes(Range<usize>),
    /// Four or eight of them.
    Fixed(Range<usize>),
}

/// The fields of a message, one after the other. An error is a sentence that names the byte, and is
/// the last item.
pub struct Fields<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

/// All fields of the message at `range`.
pub(super) fn fields(file: &[u8], range: Range<usize>) -> Result<Vec<Field>, String> {
    Fields::new(file, range).collect()
}

impl<'a> Fields<'a> {
    /// Those of the message at `range` of `file`.
    #[must_use]
    pub fn new(file: &'a [u8], range: Range<usize>) -> Self {
        Self { file, at: range.start, end: range.end }
    }

    #[inline(always)]
    fn field(&mut self) -> Result<Field, String> {
        let start = self.at;
        let key = varint(self.file, &mut self.at, self.end)?;
        let value = match key & 7 {
            0 => FieldValue::Number(varint(self.file, &mut self.at, self.end)?),
            1 => FieldValue::Fixed(skip(&mut self.at, 8, self.end)?),
            2 => {
                let length = varint(self.file, &mut self.at, self.end)?;
                FieldValue::Bytes(skip(&mut self.at, length, self.end)?)
            }
            5 => FieldValue::Fixed(skip(&mut self.at, 4, self.end)?),
            wire => return Err(format!("not ONNX, or damaged: wire type {wire} at byte {start}")),
        };
        match key >> 3 {
            0 => Err(format!("not ONNX, or damaged: field number 0 at byte {start}")),
            number => Ok(Field { number, whole: start..self.at, value }),
        }
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, String>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at < self.end { Some(self.field()) } else { None }
    }
}

#[inline(always)]
fn skip(at: &mut usize, length: u64, end: usize) -> Result<Range<usize>, String> {
    let start = *at;
    if length > (end - start) as u64 {
        return Err(format!(
            "truncated: byte {start} promises {length} bytes, {} are left",
            end - start
        ));
    }
    *at = start + length as usize;
    Ok(start..*at)
}

/// Most numbers have one byte.
#[inline(always)]
fn varint(file: &[u8], at: &mut usize, end: usize) -> Result<u64, String> {
    match file.get(*at) {
        Some(&byte) if byte < 0x80 && *at < end => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => long_varint(file, at, end),
    }
}

#[inline(never)]
fn long_varint(file: &[u8], at: &mut usize, end: usize) -> Result<u64, String> {
    let mut value = 0u64;
    for (index, &byte) in file.get(*at..end).unwrap_or_default().iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return Ok(value);
        }
    }
    if end.saturating_sub(*at) < 10 {
        return Err(format!("truncated at byte {end}"));
    }
    Err(format!("not ONNX, or damaged: an endless number before byte {at}"))
}

/// Packed numbers; the first error is the last item.
pub(super) fn packed(
    file: &[u8],
    range: Range<usize>,
) -> impl Iterator<Item = Result<u64, String>> {
    let Range { start: mut at, end } = range;
    std::iter::from_fn(move || (at < end).then(|| varint(file, &mut at, end)))
}

/// Key and length of a field that holds bytes.
pub(super) fn header(number: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_varint(number << 3 | 2, &mut out);
    prost::encoding::encode_varint(length, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_wire_type() {
        let file =
            [0x08, 0x96, 0x01, 0x12, 2, 7, 8, 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let Ok(fields) = fields(&file, 0..file.len()) else { panic!("this is a message") };
        let numbers: Vec<u64> = fields.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(matches!(fields[0].value, FieldValue::Number(150)));
        assert!(matches!(&fields[1].value, FieldValue::Bytes(r) if *r == (5..7)));
        assert_eq!(fields[3].whole, 12..21);
    }

    #[test]
    fn damaged_messages_are_refused() {
        let cases: [(&[u8], &str); 6] = [
            (&[0x08], "truncated"),
            (&[0x12, 5, 1], "promises 5"),
            (&[0x0b], "wire type 3"),
            (&[0x02, 0], "field number 0"),
            (&[0xff; 12], "endless"),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "promises"),
        ];
        for (file, says) in cases {
            let Err(reason) = fields(file, 0..file.len()) else { panic!("{file:?} is damaged") };
            assert!(reason.contains(says), "{reason}");
        }
    }
}

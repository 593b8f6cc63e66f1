//! Protobuf's wire format, as far as rewriting a file needs it: the fields of one message, without decoding what is inside them.

use std::ops::Range;

/// One field of a message.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Field number.
    pub number: u64,
    /// Where key and value lie in the file.
    pub whole: Range<usize>,
    /// What it holds.
    pub value: FieldValue,
}

/// The value of a field: a number, or where its bytes lie in the file.
#[derive(Clone, Debug)]
pub(super) enum FieldValue {
    Number(u64),
    Bytes(Range<usize>),
    Fixed,
}

/// The fields of the message at `range`.
pub(super) fn fields(file: &[u8], range: Range<usize>) -> Result<Vec<Field>, String> {
    let (mut at, end) = (range.start, range.end);
    let mut fields = Vec::new();
    while at < end {
        let start = at;
        let key = varint(file, &mut at, end)?;
        let value = match key & 7 {
            0 => FieldValue::Number(varint(file, &mut at, end)?),
            1 => skip(&mut at, 8, end).map(|_| FieldValue::Fixed)?,
            2 => {
                let length = varint(file, &mut at, end)?;
                FieldValue::Bytes(skip(&mut at, length, end)?)
            }
            5 => skip(&mut at, 4, end).map(|_| FieldValue::Fixed)?,
            wire => return Err(format!("not ONNX, or damaged: wire type {wire} at byte {start}")),
        };
        fields.push(Field { number: key >> 3, whole: start..at, value });
    }
    Ok(fields)
}

fn skip(at: &mut usize, length: u64, end: usize) -> Result<Range<usize>, String> {
    let start = *at;
    let stop = usize::try_from(length).ok().and_then(|n| start.checked_add(n)).filter(|&stop| stop <= end);
    *at = stop.ok_or_else(|| format!("truncated: byte {start} promises {length} bytes, {} are left", end - start))?;
    Ok(start..*at)
}

fn varint(file: &[u8], at: &mut usize, end: usize) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *file.get(*at).filter(|_| *at < end).ok_or_else(|| format!("truncated at byte {at}"))?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(format!("not ONNX, or damaged: an endless number before byte {at}"))
}

/// Packed numbers.
pub(super) fn packed(file: &[u8], range: Range<usize>) -> Result<Vec<u64>, String> {
    let mut at = range.start;
    let mut numbers = Vec::new();
    while at < range.end {
        numbers.push(varint(file, &mut at, range.end)?);
    }
    Ok(numbers)
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
        let file = [0x08, 0x96, 0x01, 0x12, 2, 7, 8, 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let Ok(fields) = fields(&file, 0..file.len()) else { panic!("this is a message") };
        let numbers: Vec<u64> = fields.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(matches!(fields[0].value, FieldValue::Number(150)));
        assert!(matches!(&fields[1].value, FieldValue::Bytes(r) if *r == (5..7)));
        assert_eq!(fields[3].whole, 12..21);
    }

    #[test]
    fn damaged_messages_are_refused() {
        let cases: [(&[u8], &str); 5] = [
            (&[0x08], "truncated"),
            (&[0x12, 5, 1], "promises 5"),
            (&[0x0b], "wire type 3"),
            (&[0xff; 12], "endless"),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "promises"),
        ];
        for (file, says) in cases {
            let Err(reason) = fields(file, 0..file.len()) else { panic!("{file:?} is damaged") };
            assert!(reason.contains(says), "{reason}");
        }
    }
}

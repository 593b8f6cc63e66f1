//! [`Hybrid`]: small numbers as Parquet stores levels and positions in a dictionary: runs of one
//! number, and runs of numbers packed into as many bits as the largest takes.
//!
//! The format: <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>. A run may
//! be billions long in five bytes, so numbers are made one at a time, and callers count them.

use super::{
    fault::{Outcome, damaged},
    thrift::varint,
};

const CUT_SHORT: &str = "a page has fewer values than its header says";

/// The numbers that are left.
#[derive(Debug)]
pub(super) struct Hybrid<'b> {
    rest: &'b [u8],
    /// Bits of a number.
    width: u32,
    run: Run<'b>,
}

#[derive(Debug)]
enum Run<'b> {
    Repeated { number: u32, left: u64 },
    Packed { bytes: &'b [u8], bit: usize, left: u64 },
}

impl<'b> Hybrid<'b> {
    /// Numbers of `width` bits.
    pub(super) fn new(bytes: &'b [u8], width: u8) -> Outcome<Self> {
        if width > 32 {
            return damaged("numbers of more than 32 bits in a page");
        }
        let run = Run::Repeated { number: 0, left: 0 };
        Ok(Self { rest: bytes, width: width.into(), run })
    }

    pub(super) fn next(&mut self) -> Outcome<u32> {
        loop {
            match &mut self.run {
                Run::Repeated { number, left } if *left > 0 => {
                    *left -= 1;
                    return Ok(*number);
                }
                Run::Packed { bytes, bit, left } if *left > 0 => {
                    *left -= 1;
                    let Some(number) = unpack(bytes, *bit, self.width) else {
                        return damaged(CUT_SHORT);
                    };
                    *bit += self.width as usize;
                    return Ok(number);
                }
                _ => self.run = self.start_run()?,
            }
        }
    }

    fn start_run(&mut self) -> Outcome<Run<'b>> {
        let Some(head) = varint(&mut self.rest) else { return damaged(CUT_SHORT) };
        let packed = head & 1 == 1;
        let length = if packed {
            // Groups of eight numbers; writers may leave out the end of the last group.
            let groups = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            groups.saturating_mul(self.width as usize).min(self.rest.len())
        } else {
            self.width.div_ceil(8) as usize
        };
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return damaged(CUT_SHORT);
        };
        self.rest = rest;
        Ok(if packed {
            Run::Packed { bytes, bit: 0, left: (head >> 1).saturating_mul(8) }
        } else {
            let mut number = [0; 4];
            number[..length].copy_from_slice(bytes);
            Run::Repeated { number: u32::from_le_bytes(number), left: head >> 1 }
        })
    }
}

/// The number of `width` bits that begins at `bit`.
fn unpack(bytes: &[u8], bit: usize, width: u32) -> Option<u32> {
    let mask = (1u64 << width) - 1;
    let rest = bytes.get(bit / 8..)?;
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            if rest.len() * 8 < bit % 8 + width as usize {
                return None;
            }
            rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
        }
    };
    Some((word >> (bit % 8) & mask) as u32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8], width: u8, count: usize) -> Option<Vec<u32>> {
        let mut hybrid = Hybrid::new(bytes, width).ok()?;
        (0..count).map(|_| hybrid.next().ok()).collect()
    }

    #[test]
    fn runs_and_packed_numbers_are_read_by_the_specification() {
        // The specification's own example: 0 to 7 in three bits each.
        let packed = [3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(numbers(&packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(&packed, 3, 9), None);
        // Three times 300, then eight numbers of nine bits, of which one is there.
        let mixed = [6, 0x2c, 1, 3, 0xff, 1];
        assert_eq!(numbers(&mixed, 9, 4).unwrap(), [300, 300, 300, 511]);
        assert_eq!(numbers(&mixed, 9, 5), None);
        assert_eq!(numbers(&[0x80, 0x80, 0x80, 0x80, 0x10], 0, 1000).unwrap(), [0; 1000]);
        let wide = [9, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(numbers(&wide, 32, 2).unwrap(), [0x0403_0201, 0x0807_0605]);
        assert!(Hybrid::new(&[], 33).is_err());
        assert_eq!(numbers(&[], 1, 1), None);
        assert_eq!(numbers(&[0; 10], 1, 1), None);
    }
}

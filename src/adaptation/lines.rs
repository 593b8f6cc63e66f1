//! [`Lines`]: the line of a file on which a byte lies, as editors count.

/// Counts lines forward through a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The line of the first byte at or after `byte` that ends no line, from 1: a reader of records
    /// says where a record begins before it skips empty lines. Bytes are asked for in order.
    pub fn line(&mut self, byte: usize) -> usize {
        let ends_line = |at: usize| matches!(self.text.get(at), Some(b'\n' | b'\r'));
        while self.at < byte.min(self.text.len()) || ends_line(self.at) {
            let is_end = match self.text[self.at] {
                b'\n' => true,
                b'\r' => self.text.get(self.at + 1) != Some(&b'\n'),
                _ => false,
            };
            self.line += usize::from(is_end);
            self.at += 1;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_each_way() {
        let mut lines = Lines::of(b"a\nb\r\nc\rd\n\n\r\ne\n");
        let at: Vec<usize> = [0, 2, 5, 7, 9, 12].map(|byte| lines.line(byte)).to_vec();
        assert_eq!(at, [1, 2, 3, 4, 7, 7]);
        assert_eq!(Lines::of(b"").line(5), 1);
    }
}

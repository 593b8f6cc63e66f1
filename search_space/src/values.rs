//! [`Values`]: the allowed values of a number, with a fast test of membership.

use std::ops::Deref;

/// Distinct values in rising order, and where they are.
#[derive(Clone, Debug)]
pub(crate) struct Values<T> {
    list: Vec<T>,
    words: Vec<Word>,
}

/// Of 64 numbers, which are among the values.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bits: u64,
    /// How many values come before these.
    before: usize,
}

impl<T: Copy + Into<usize>> Values<T> {
    /// Of values in rising order.
    pub(crate) fn new(list: Vec<T>) -> Self {
        let mut words = vec![Word::default(); list.last().map_or(0, |&last| last.into() / 64 + 1)];
        for (position, &value) in list.iter().enumerate().rev() {
            let (word, bit) = place(value);
            words[word] = Word { bits: words[word].bits | bit, before: position };
        }
        Self { list, words }
    }

    /// Whether `value` is one of them.
    pub(crate) fn include(&self, value: T) -> bool {
        self.position(value).is_some()
    }

    /// Which of them `value` is.
    pub(crate) fn position(&self, value: T) -> Option<usize> {
        let (word, bit) = place(value);
        let word = self.words.get(word).filter(|word| word.bits & bit != 0)?;
        Some(word.before + (word.bits & (bit - 1)).count_ones() as usize)
    }
}

/// The word of a value's bit, and the bit.
fn place(value: impl Into<usize>) -> (usize, u64) {
    let value = value.into();
    (value / 64, 1 << (value % 64))
}

impl<T> Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_where_a_search_of_the_list_finds_them() {
        for list in [
            vec![],
            vec![0],
            vec![3, 63, 64, 65, 127, 128],
            (8..=640).step_by(8).collect(),
            vec![u16::MAX],
        ] {
            let values = Values::new(list.clone());
            assert_eq!(*values, *list);
            for value in 0..=u16::MAX {
                let found = list.binary_search(&value).ok();
                assert_eq!(
                    (values.position(value), values.include(value)),
                    (found, found.is_some()),
                    "{value} of {list:?}"
                );
            }
        }
    }
}

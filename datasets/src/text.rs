//! [`Texts`]: a column of text in memory. Each distinct text is stored once and a row is its index,
//! because a million rows have few distinct environments.

use std::{collections::HashMap, sync::Arc};

/// The number of a row without a text.
const NONE: u32 = u32::MAX;

/// A text, or none, per row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    distinct: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    rows: Vec<u32>,
}

impl Texts {
    /// `rows` rows without a text.
    pub(crate) fn nulls(rows: usize) -> Self {
        Self { rows: vec![NONE; rows], ..Self::default() }
    }

    pub(crate) fn push(&mut self, text: Option<&str>) {
        let number = self.number(text);
        self.rows.push(number);
    }

    /// Makes room for so many rows more.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.rows.reserve_exact(rows);
    }

    /// The number of a text; neighbours are often equal.
    fn number(&mut self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return NONE };
        match self.rows.last() {
            Some(&last)
                if self.distinct.get(last as usize).is_some_and(|known| **known == *text) =>
            {
                last
            }
            _ => self.numbers.get(text).copied().unwrap_or_else(|| self.add(text)),
        }
    }

    fn add(&mut self, text: &str) -> u32 {
        let number = self.distinct.len() as u32;
        let shared: Arc<str> = text.into();
        self.distinct.push(Arc::clone(&shared));
        self.numbers.insert(shared, number);
        number
    }

    pub(crate) fn get(&self, row: usize) -> Option<&Arc<str>> {
        self.rows.get(row).and_then(|&number| self.distinct.get(number as usize))
    }

    /// The text of each row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.rows.iter().map(|&number| self.distinct.get(number as usize).map(AsRef::as_ref))
    }

    /// Each text once, and the index of the text of each row.
    pub(crate) fn into_parts(self) -> (Vec<Arc<str>>, Vec<Option<u32>>) {
        let number = |number: u32| (number != NONE).then_some(number);
        (self.distinct, self.rows.into_iter().map(number).collect())
    }

    /// Every text that some row had.
    pub(crate) fn distinct(&self) -> &[Arc<str>] {
        &self.distinct
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    #[cfg(test)]
    pub(crate) fn set(&mut self, row: usize, text: &str) {
        self.rows[row] = self.number(Some(text));
    }

    #[cfg(test)]
    pub(crate) fn pop(&mut self) {
        self.rows.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in_and_equal_texts_are_one() {
        let texts = [Some("a"), Some("a"), None, Some("b"), Some("a"), Some(""), None];
        let mut column = Texts::default();
        texts.iter().for_each(|text| column.push(*text));
        assert_eq!(column.iter().collect::<Vec<_>>(), texts);
        assert_eq!((column.len(), column.distinct().len()), (7, 3));
        assert_eq!(
            (column.get(3).map(AsRef::as_ref), column.get(2), column.get(9)),
            (Some("b"), None, None)
        );
        assert_eq!(Texts::nulls(2).iter().collect::<Vec<_>>(), [None, None]);
    }
}

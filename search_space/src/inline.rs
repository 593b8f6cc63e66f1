//! [`Inline`]: a short list in place, so that an architecture is a small `Copy` value.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
};

/// What an [`Inline`] list holds.
pub trait Item: Copy {
    /// Stands in unused places.
    const BLANK: Self;
    /// What several are called in messages.
    const PLURAL: &'static str;
}

/// Up to `N` items, held in place; reads and writes like a slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    into = "Vec<T>",
    try_from = "Vec<T>",
    bound(serialize = "T: Item + Serialize", deserialize = "T: Item + Deserialize<'de>")
)]
pub struct Inline<T, const N: usize> {
    len: u8,
    items: [T; N],
}

impl<T: Hash, const N: usize> Hash for Inline<T, N>
where
    T: Item,
{
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|item| item.hash(state));
        state.write_u8(self.len);
    }
}

impl<T: Item, const N: usize> Inline<T, N> {
    /// No items.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, items: [T::BLANK; N] }
    }

    /// Adds an item at the end; false if all places are taken.
    pub fn push(&mut self, item: T) -> bool {
        let Some(slot) = self.items.get_mut(usize::from(self.len)) else { return false };
        *slot = item;
        self.len += 1;
        true
    }

    /// Drops items from the end until this many are left; unused places are blank again, so that
    /// equal lists have equal places.
    pub(crate) fn truncate(&mut self, len: usize) {
        while usize::from(self.len) > len {
            self.len -= 1;
            self.items[usize::from(self.len)] = T::BLANK;
        }
    }
}

impl<T: Item, const N: usize> Default for Inline<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug + Item, const N: usize> fmt::Debug for Inline<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T, const N: usize> Deref for Inline<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

impl<T, const N: usize> DerefMut for Inline<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..usize::from(self.len)]
    }
}

impl<T: Item, const N: usize> From<Inline<T, N>> for Vec<T> {
    fn from(list: Inline<T, N>) -> Self {
        list.to_vec()
    }
}

impl<T: Item, const N: usize> TryFrom<Vec<T>> for Inline<T, N> {
    type Error = String;

    fn try_from(list: Vec<T>) -> Result<Self, String> {
        let mut items = Self::new();
        match list.iter().all(|&item| items.push(item)) {
            true => Ok(items),
            false => Err(format!("{} {} are more than {N}", list.len(), T::PLURAL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for u16 {
        const BLANK: Self = 0;
        const PLURAL: &'static str = "numbers";
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let list: Vec<u16> = (1..=8).collect();
        let mut items: Inline<u16, 8> = list.clone().try_into().expect("there is room");
        assert_eq!((items.to_vec(), Vec::from(items)), (list.clone(), list));
        assert!(!items.push(9));
        assert_eq!(Inline::<u16, 8>::try_from(vec![0; 9]), Err("9 numbers are more than 8".into()));
        items.truncate(3);
        assert_eq!(items, Inline::try_from(vec![1, 2, 3]).expect("there is room"));
    }
}

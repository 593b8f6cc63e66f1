//! [`Aligned`]: numbers that begin where a line of the cache does, so that no register of them lies in two lines.

use std::ops::{Deref, DerefMut};

/// Bytes of a line of the cache, or a multiple.
const LINE: usize = 64;

/// Some numbers.
#[derive(Debug, Default)]
pub(crate) struct Aligned<T> {
    /// With what had to be left out to reach the beginning of a line.
    values: Vec<T>,
    first: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// So many zeros.
    pub fn zeros(count: usize) -> Self {
        let spare = LINE / size_of::<T>() - 1;
        let mut values = vec![T::default(); count + spare];
        let first = values.as_ptr().align_offset(LINE).min(spare);
        values.truncate(first + count);
        Self { values, first }
    }

    /// The numbers alone, which may begin anywhere.
    pub fn into_vec(mut self) -> Vec<T> {
        self.values.drain(..self.first);
        self.values
    }
}

impl<T> From<Vec<T>> for Aligned<T> {
    /// As they are: where they begin is up to whoever made them.
    fn from(values: Vec<T>) -> Self {
        Self { values, first: 0 }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.values[self.first..]
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.first..]
    }
}

impl<T: Copy + Default> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: PartialEq> PartialEq for Aligned<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_a_line_and_can_be_had_alone() {
        for count in [0, 1, 100, 100_000] {
            let mut numbers = Aligned::<i16>::zeros(count);
            assert_eq!((numbers.len(), numbers.as_ptr().align_offset(LINE)), (count, 0));
            numbers.fill(3);
            assert_eq!((&numbers.clone(), numbers.clone().into_vec()), (&numbers, vec![3; count]));
            assert_eq!(Aligned::from(vec![3; count]), numbers);
        }
    }
}

//! [`Aligned`]: numbers aligned to cache lines, so that no vector load touches two lines. Large
//! arrays lie in large pages where the system has some, which saves address translations.

use std::ops::{Deref, DerefMut};

/// Bytes of a line of the cache, or a multiple.
const LINE: usize = 64;
/// Bytes of a large page.
const LARGE: usize = 1 << 21;
/// Bytes from which an array gets large pages.
const MANY: usize = LARGE / 4;
/// Bytes of an ordinary page, or a multiple.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SMALL: usize = 1 << 16;

/// Some numbers.
#[derive(Debug, Default)]
pub(crate) struct Aligned<T> {
    /// With what had to be left out to reach the beginning of a line.
    values: Vec<T>,
    first: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// An array of zeros; memory that is not used is never touched.
    pub fn zeros(count: usize) -> Self {
        let bytes = count * size_of::<T>();
        let page = if bytes < MANY { LINE } else { LARGE };
        let (spare, whole) =
            (page / size_of::<T>() - 1, bytes.next_multiple_of(page) / size_of::<T>());
        let mut values = vec![T::default(); whole + spare];
        if page == LARGE {
            ask_for_large_pages(&values);
        }
        let first = values.as_ptr().align_offset(page).min(spare);
        values.truncate(first + count);
        Self { values, first }
    }

    /// The numbers alone, which may begin anywhere.
    pub fn into_vec(mut self) -> Vec<T> {
        self.values.drain(..self.first);
        self.values
    }
}

/// Memory that was not touched yet may come in large pages, where the system has some.
fn ask_for_large_pages<T>(values: &[T]) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let bytes = values.as_ptr_range();
        let start = bytes.start.map_addr(|address| address & !(SMALL - 1));
        // SAFETY: a hint on pages that are there; what is in them stays. Where it is refused,
        // nothing changes.
        unsafe {
            libc::madvise(
                start.cast_mut().cast(),
                bytes.end.addr() - start.addr(),
                libc::MADV_HUGEPAGE,
            )
        };
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = values;
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
        for count in [0, 1, 100, 100_000, 600_000, 1 << 20] {
            let mut numbers = Aligned::<i16>::zeros(count);
            assert_eq!((numbers.len(), numbers.as_ptr().align_offset(LINE)), (count, 0));
            numbers.fill(3);
            assert_eq!((&numbers.clone(), numbers.clone().into_vec()), (&numbers, vec![3; count]));
            assert_eq!(Aligned::from(vec![3; count]), numbers);
        }
    }
}

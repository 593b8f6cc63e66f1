//! Vectors of many megabytes in large pages: what is looked up all over them then waits for memory once, and not a second time for where the memory is.
//! Where the system has no large pages, or does not let programs ask for them, vectors are as they are anywhere.

/// An empty vector with room for so many.
pub(super) fn with_room<T>(items: usize) -> Vec<T> {
    let memory = Vec::with_capacity(items);
    prefer_large(memory.as_ptr() as usize, items * size_of::<T>());
    memory
}

/// Adds an item; a full vector moves to one of twice the room.
pub(super) fn push<T>(memory: &mut Vec<T>, item: T) {
    if memory.len() == memory.capacity() {
        let mut wider = with_room(2 * memory.len().max(512));
        wider.append(memory);
        *memory = wider;
    }
    memory.push(item);
}

#[cfg(target_os = "linux")]
fn prefer_large(start: usize, bytes: usize) {
    /// As large pages are almost everywhere, bytes; less is not worth the asking.
    const LARGE: usize = 2 << 20;
    let (first, end) = (start.next_multiple_of(LARGE), start + bytes);
    if first + LARGE <= end {
        // SAFETY: the range lies within memory that the caller has, and the advice changes nothing of what it holds.
        unsafe { libc::madvise(first as *mut libc::c_void, (end - first) / LARGE * LARGE, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_large(_: usize, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_stays_in_order_wherever_it_moves() {
        let mut memory = with_room(3);
        (0..1_000_000_u64).for_each(|i| push(&mut memory, i));
        assert!(memory.iter().enumerate().all(|(i, item)| i as u64 == *item) && memory.len() == 1_000_000);
    }
}

//! What every target has: the body of its name, and inputs that are changed by half as libFuzzer
//! does, by half as those of a campaign.

use vitempo_fuzz_bodies::{mutation, target};

/// The target of that name, in a program of libFuzzer's.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::run($name, bytes));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::change($name, data, size, max_size, seed)
        });
    };
}

/// Runs the body of this name.
///
/// # Panics
/// Where vitempo does, and where there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = target(name).expect("a target of `TARGETS`");
    (target.body)(bytes);
}

/// Changes the first `size` bytes of `data`, which has room for `max_size`; how many there are then.
///
/// # Panics
/// Where there is no such target.
pub fn change(name: &str, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed % 2 == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let target = target(name).expect("a target of `TARGETS`");
    let changed = mutation::seeded(target.mutation, &[data[..size].to_vec()], seed.into(), 0);
    let length = changed.len().min(max_size).min(data.len());
    data[..length].copy_from_slice(&changed[..length]);
    length
}

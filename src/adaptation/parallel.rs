//! Runs a job for many numbers on several threads.

use rayon::{
    ThreadPoolBuilder,
    iter::{IntoParallelIterator as _, ParallelIterator as _},
};

/// `job` of every number below `count`, on several threads, in order. Where the system refuses the
/// threads, on this one.
pub fn parallel<T: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize) -> T + Send + Sync,
) -> Vec<T> {
    match ThreadPoolBuilder::new().num_threads(threads.clamp(1, count.max(1))).build() {
        Ok(pool) => pool.install(|| (0..count).into_par_iter().map(job).collect()),
        Err(_) => (0..count).map(job).collect(),
    }
}

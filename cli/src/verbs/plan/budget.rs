//! `--budget`: how long a search for a plan may take.

use super::super::{interrupt::interrupted, progress, quantity};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use vitempo::graph::{Budget, Limits};

/// The time for which the counted steps of a search are meant.
const USUAL: Duration = Duration::from_secs(60);
/// Between two words on a search that goes on.
const BETWEEN_WORDS: Duration = Duration::from_secs(5);

/// How long a search may take.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct BudgetArgs {
    /// For the search; then the best plan found is shown, with the bound proven by then
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "60s")]
    pub budget: u64,
}

impl BudgetArgs {
    /// So many steps as are meant for the time, and no more time: on a machine that is fast enough
    /// the same plan is found each time. The clock starts with the search, not with measurements
    /// before it.
    pub fn start(self, steps: u64) -> Budget {
        let (begun, whole) = (OnceLock::new(), Duration::from_nanos(self.budget));
        let steps = (steps as f64 * whole.as_secs_f64() / USUAL.as_secs_f64()) as u64;
        let (said, stop) = (Arc::new(AtomicU64::new(0)), interrupted());
        let is_over = move || {
            let gone = begun.get_or_init(Instant::now).elapsed();
            let words = gone.as_secs() / BETWEEN_WORDS.as_secs();
            if said.fetch_max(words, Ordering::Relaxed) < words && gone < whole {
                let (gone, whole) = (gone.as_secs(), whole.as_secs_f64());
                progress::say(format!("searching: {gone} s of {whole} s (--budget)"));
            }
            gone >= whole || stop.load(Ordering::Relaxed)
        };
        Budget::new(Limits { steps: steps.max(1), ..Limits::NONE }).stopped_by(is_over)
    }
}

//! What to keep in memory within `--memory`: subgraphs that let the most objectives be kept when
//! these change.
//!
//! Objectives are those asked for, and the 25 of the paper's grid over the originals' ranges, which
//! stand for what may be asked later. Those asked for come first: each counts as more than the
//! whole grid.

use super::super::super::{error::CliResult, quantity};
use clap::ValueEnum;
use vitempo::planners::stitch::{
    Order, Slo, Zoo, hotness,
    preload::{self, Loaded},
    slo::{Ranges, shared},
};

/// `--memory`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Of what all subgraphs of all variants take.
    Share(f64),
    Bytes(u64),
}

/// `15%` or `64MB`.
pub fn parse_budget(text: &str) -> Result<Budget, String> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return quantity::bytes(text).map(Budget::Bytes);
    };
    let percent =
        percent.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent
        .map(|percent| Budget::Share(percent / 100.0))
        .ok_or_else(|| format!("`{text}` is no share between 0 and 100 %"))
}

/// `--preload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// The most objectives, by exact search
    #[default]
    Exact,
    /// The hottest of each task and position, round after round until nothing fits
    RoundRobin,
    /// One round only, as printed in the paper
    AsPrinted,
}

/// What is kept in memory.
pub struct Preloading {
    pub loaded: Loaded,
    pub budget_bytes: u64,
    /// Of all subgraphs.
    pub full_bytes: u64,
    /// Objectives of the grid that loaded subgraphs keep, and how many there are.
    pub keeps: (usize, usize),
    /// No preloading within the budget keeps more; `None` where nothing says so.
    pub proven: Option<bool>,
}

/// Chooses what to keep in memory in an order.
pub fn preload(
    zoo: &Zoo,
    order: &Order,
    asked: &[Slo],
    budget: Budget,
    way: Way,
) -> CliResult<Preloading> {
    let full_bytes = Loaded::everything(zoo).memory_bytes();
    let budget_bytes = match budget {
        Budget::Share(share) => (full_bytes as f64 * share) as u64,
        Budget::Bytes(bytes) => bytes,
    };
    let tasks = 0..zoo.tasks().len();
    let grids = tasks
        .clone()
        .map(|task| Ok(Ranges::of_originals(zoo, task, order)?.grid()))
        .collect::<CliResult<Vec<_>>>()?;
    let grid = shared(&grids);
    let first = std::iter::repeat_n(asked.to_vec(), grid.len() + 1);
    let configurations: Vec<Vec<Slo>> = first.chain(grid.iter().cloned()).collect();
    let own = |task: usize| {
        configurations.iter().filter_map(|slos| slos.get(task).copied()).collect::<Vec<_>>()
    };
    let hotness = || {
        tasks
            .clone()
            .map(|task| Ok(hotness::hotness(zoo, task, order, &own(task))?))
            .collect::<CliResult<Vec<_>>>()
    };
    let (loaded, proven) = match way {
        Way::Exact => {
            let found = preload::exact(zoo, order, &configurations, budget_bytes)?;
            let proven = found.keeps == found.at_most;
            (found.loaded, Some(proven))
        }
        Way::RoundRobin => (preload::round_robin(zoo, &hotness()?, budget_bytes), None),
        Way::AsPrinted => (preload::as_printed(zoo, &hotness()?, budget_bytes), None),
    };
    let keeps = (loaded.keeps(zoo, order, &grid)?, grid.len() * zoo.tasks().len());
    Ok(Preloading { loaded, budget_bytes, full_bytes, keeps, proven })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shares_or_bytes() {
        assert_eq!(parse_budget("15%"), Ok(Budget::Share(0.15)));
        assert_eq!(parse_budget("64MB"), Ok(Budget::Bytes(64_000_000)));
        assert!(parse_budget("150%").is_err_and(|e| e.contains("between 0 and 100")));
        assert!(parse_budget("some").is_err_and(|e| e.contains("number")));
    }
}

//! The options `--memory` and `--preload`.

use super::super::super::quantity;
use clap::ValueEnum;
use vitempo::plan::stitch::preloading::{self, Budget};

/// Parses `15%` or `64MB`.
pub fn parse_budget(text: &str) -> Result<Budget, String> {
    match text.trim().ends_with('%') {
        true => quantity::share(text).map(Budget::Share),
        false => quantity::bytes(text).map(Budget::Bytes),
    }
}

/// The values of `--preload`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Meet the most SLOs, by exact search
    #[default]
    Exact,
    /// The hottest subgraph of each task and position, round after round until nothing fits
    RoundRobin,
    /// One round only, as printed in the paper
    AsPrinted,
}

impl From<Way> for preloading::Way {
    fn from(way: Way) -> Self {
        match way {
            Way::Exact => Self::Exact,
            Way::RoundRobin => Self::RoundRobin,
            Way::AsPrinted => Self::AsPrinted,
        }
    }
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

//! The number of runs to profile every variant (table 1 and eq. 6). Eq. 6 does not include the runs
//! that train an accuracy estimator.

/// T tasks of V variants of S subgraphs on P processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profiling {
    /// Number of tasks.
    pub tasks: u32,
    /// Variants per task.
    pub variants: u32,
    /// Subgraphs per variant.
    pub subgraphs: u32,
    /// Number of processors.
    pub processors: u32,
}

impl Profiling {
    /// Eq. 6: T V runs for accuracy and T S V P for latency.
    #[must_use]
    pub fn estimated(self) -> u128 {
        let originals = u128::from(self.tasks) * u128::from(self.variants);
        originals + originals * u128::from(self.subgraphs) * u128::from(self.processors)
    }

    /// Table 1: each stitched variant once for accuracy and once in each of P! orders; `None` above
    /// 2^128.
    #[must_use]
    pub fn exhaustive(self) -> Option<u128> {
        let orders = (1..=u128::from(self.processors)).try_fold(1u128, u128::checked_mul)?;
        let variants = u128::from(self.variants).checked_pow(self.subgraphs)?;
        u128::from(self.tasks).checked_mul(variants)?.checked_mul(orders.checked_add(1)?)
    }

    /// Share of runs that estimation saves: 1 - (1 + S P) / (V^(S-1) (P! + 1)), for every T.
    /// Negative where it costs more.
    #[must_use]
    pub fn saved(self) -> Option<f64> {
        let exhaustive = self.exhaustive().filter(|&runs| runs > 0)?;
        Some(1.0 - self.estimated() as f64 / exhaustive as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_setting_takes_400_runs_instead_of_28000() {
        let of = |tasks, variants| Profiling { tasks, variants, subgraphs: 3, processors: 3 };
        assert_eq!((of(4, 10).estimated(), of(4, 10).exhaustive()), (400, Some(28_000)));
        let saved = |variants| of(4, variants).saved().expect("a share");
        assert!((saved(10) - 0.9857).abs() < 5e-5 && (saved(3) - 0.8413).abs() < 5e-5);
        assert!(saved(1) < 0.0, "with one variant there is nothing to estimate");
        assert_eq!(of(1, 7).saved(), of(9, 7).saved());
        assert_eq!(
            Profiling { tasks: 1, variants: u32::MAX, subgraphs: 40, processors: 3 }.exhaustive(),
            None
        );
    }
}

//! [`Drift`]: how fast the machine was during a model run, measured by the reference workload that
//! ran next to it.
//!
//! A model slows down with the reference, but not in proportion, because interference by other
//! programs depends on the workload. Latencies are therefore divided by (reference here / usual
//! reference) ^ exponent, with the one exponent between 0 and 1 at which repeated runs of the same
//! models agree best.

use crate::{elementary, location, metrics};
use std::collections::BTreeMap;
use vitempo_graph::{ModelProfile, Setting, Status};

/// Drift is limited to this factor, either way: a larger one is an error of the reference.
const LARGEST: f64 = 4.0;
/// Steps of the exponent that are tried.
const STEPS: usize = 20;

/// How drift is corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// Median over model runs of the reference workload's median, ns; `None`: nothing is corrected.
    pub reference_ns: Option<f64>,
    /// Between 0, nothing is corrected, and 1, models slow down in step with the reference.
    pub exponent: f64,
}

impl Drift {
    /// From all model runs. Without repeated model runs the effect of the reference is unknown, and
    /// nothing is corrected.
    #[must_use]
    pub fn of(profiles: &[ModelProfile]) -> Self {
        Self::with_exponent(profiles, 0.0)
    }

    /// The same, but without repeated model runs with this exponent, which may be another machine's.
    pub(crate) fn with_exponent(profiles: &[ModelProfile], otherwise: f64) -> Self {
        let medians: Vec<f64> =
            profiles.iter().filter_map(|p| p.reference.median_ns()).filter(|m| *m > 0.0).collect();
        let Some(usual) = metrics::median(&medians) else { return Self::default() };
        let pairs = pairs(profiles, usual);
        let disagreement = |exponent: f64| {
            pairs
                .iter()
                .map(|(latency, reference)| (latency - exponent * reference).abs())
                .sum::<f64>()
        };
        let exponents = (0..=STEPS).map(|step| step as f64 / STEPS as f64);
        let best = exponents
            .filter(|_| !pairs.is_empty())
            .min_by(|a, b| disagreement(*a).total_cmp(&disagreement(*b)))
            .unwrap_or(otherwise);
        if best > 0.0 {
            Self { reference_ns: Some(usual), exponent: best }
        } else {
            Self::default()
        }
    }

    /// By how much everything in this model run took longer than usual; 1 without a reference.
    #[must_use]
    pub fn factor(&self, profile: &ModelProfile) -> f64 {
        self.reference_ns
            .and_then(|usual| relative(profile, usual))
            .map_or(1.0, |relative| elementary::powf(relative, self.exponent))
    }

    /// The same for the operators of this model run: 1 in a CUDA graph, whose kernels are timed on the
    /// device, while the reference runs on the CPU.
    pub(crate) fn operator_factor(&self, profile: &ModelProfile) -> f64 {
        match profile.environment.settings.contains(&Setting::CudaGraph) {
            true => 1.0,
            false => self.factor(profile),
        }
    }

    /// By how much longer than usual the reference took beside these model runs: the median; `None`
    /// without a reference.
    #[must_use]
    pub fn slowdown(&self, profiles: &[ModelProfile]) -> Option<f64> {
        let usual = self.reference_ns?;
        let beside: Vec<f64> = profiles.iter().filter_map(|p| relative(p, usual)).collect();
        metrics::median(&beside)
    }

    /// By what these model runs are divided: the median; 1 where nothing is corrected.
    #[must_use]
    pub fn correction(&self, profiles: &[ModelProfile]) -> f64 {
        let factors: Vec<f64> = profiles.iter().map(|profile| self.factor(profile)).collect();
        metrics::median(&factors).unwrap_or(1.0)
    }

    /// Whether every number is finite and in its range.
    pub(crate) fn is_valid(&self) -> bool {
        self.reference_ns.is_none_or(|ns| ns.is_finite() && ns > 0.0)
            && (0.0..=1.0).contains(&self.exponent)
    }
}

/// The reference beside a model run relative to the usual one.
fn relative(profile: &ModelProfile, usual: f64) -> Option<f64> {
    profile
        .reference
        .median_ns()
        .filter(|here| *here > 0.0)
        .map(|here| (here / usual).clamp(1.0 / LARGEST, LARGEST))
}

/// When a model run started, and the logarithms of its latency and of the reference beside it.
type ModelRun = (u64, f64, f64);

/// Logarithms of how much longer a model run took than the one before to the same model, and of how
/// much longer the reference beside it took.
fn pairs(profiles: &[ModelProfile], usual: f64) -> Vec<(f64, f64)> {
    let mut runs: BTreeMap<(&str, &str), Vec<ModelRun>> = BTreeMap::new();
    for p in profiles.iter().filter(|p| p.status == Status::Ok) {
        if let Some((ns, reference)) = location::end_to_end_ns(p).zip(relative(p, usual)) {
            runs.entry((&p.model.name, &p.model.architecture)).or_default().push((
                p.started_unix_ms,
                ns.ln(),
                reference.ln(),
            ));
        }
    }
    let between = |mut runs: Vec<ModelRun>| {
        runs.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        runs.windows(2)
            .map(|pair| (pair[1].1 - pair[0].1, pair[1].2 - pair[0].2))
            .collect::<Vec<_>>()
    };
    runs.into_values().flat_map(between).collect()
}

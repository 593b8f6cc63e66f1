//! [`Form`]: which products of a kernel's and its neighbour's demand a slowdown has.

use super::{Demand, Kernel, Peaks};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a kernel demands, in shares of peaks between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Intensity {
    /// Arithmetic.
    pub compute: f64,
    /// Memory traffic, of caches or memory.
    pub memory: f64,
    /// The part of it that is weights: they return only with the next run of the model, and may
    /// have left the cache.
    pub weights: f64,
    /// What neither arithmetic nor traffic explains: the time bound by latencies.
    pub latency: f64,
}

/// What a neighbour demands, in shares of peaks between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Arithmetic.
    pub compute: f64,
    /// Traffic beyond the cache.
    pub traffic: f64,
    /// The share of the last-level cache that it fills.
    pub cache: f64,
}

impl Intensity {
    /// Of a kernel alone.
    #[must_use]
    pub fn of(kernel: &Kernel, peaks: &Peaks) -> Self {
        let share = |count: f64, peak: f64| match kernel.ns > 0.0 && peak > 0.0 {
            true => (count * 1e9 / kernel.ns / peak).clamp(0.0, 1.0),
            false => 0.0,
        };
        let compute = share(kernel.flops, peaks.flops_per_s);
        let memory = share(kernel.bytes, peaks.bytes_per_s);
        let weights = share(kernel.weight_bytes, peaks.bytes_per_s);
        Self { compute, memory, weights, latency: 1.0 - compute.max(memory) }
    }
}

impl Pressure {
    /// Of a neighbour. What fits into the cache causes no traffic beyond it.
    #[must_use]
    pub fn of(demand: &Demand, peaks: &Peaks) -> Self {
        let share = |of: f64, peak: f64| if peak > 0.0 { (of / peak).clamp(0.0, 1.0) } else { 0.0 };
        let cache = share(demand.footprint_bytes, peaks.cache_bytes);
        Self {
            compute: share(demand.flops_per_s, peaks.flops_per_s),
            traffic: share(demand.bytes_per_s, peaks.bytes_per_s) * cache,
            cache,
        }
    }
}

/// The products whose sum, each with a coefficient of at least 0, is the excess of a slowdown over
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The same for every kernel and every neighbour.
    Busy,
    /// Memory traffic of both.
    Traffic,
    /// Arithmetic of both, memory traffic of both.
    Shared,
    /// Memory traffic of both; weights that a neighbour evicts.
    Cache,
    /// Arithmetic of both; memory traffic of both, as far as together it exceeds the peak.
    Excess,
    /// [`Form::Shared`], and latencies that grow with the neighbour's traffic.
    Latency,
    /// [`Form::Shared`] and [`Form::Cache`], and a part for every neighbour.
    SharedCache,
    /// Every product of a kernel's demands and a neighbour's, and a part for every neighbour.
    All,
}

impl Form {
    /// Every form, those with fewer products first.
    pub const ALL: [Self; 8] = [
        Self::Busy,
        Self::Traffic,
        Self::Shared,
        Self::Cache,
        Self::Excess,
        Self::Latency,
        Self::SharedCache,
        Self::All,
    ];

    /// Its name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Traffic => "traffic",
            Self::Shared => "shared",
            Self::Cache => "cache",
            Self::Excess => "excess",
            Self::Latency => "latency",
            Self::SharedCache => "shared_cache",
            Self::All => "all",
        }
    }

    /// The products of a kernel and a neighbour.
    #[must_use]
    pub fn products(self, of: &Intensity, by: &Pressure) -> Vec<f64> {
        let compute = of.compute * by.compute;
        let traffic = of.memory * by.traffic;
        let evicted = of.weights * by.cache;
        match self {
            Self::Busy => vec![1.0],
            Self::Traffic => vec![traffic],
            Self::Shared => vec![compute, traffic],
            Self::Cache => vec![traffic, evicted],
            Self::Excess => {
                vec![compute, of.memory * (of.memory + by.traffic - 1.0).max(0.0)]
            }
            Self::Latency => vec![compute, traffic, of.latency * by.traffic],
            Self::SharedCache => vec![1.0, compute, traffic, evicted],
            Self::All => {
                let own = [of.compute, of.memory, of.weights, of.latency];
                let theirs = [by.compute, by.traffic, by.cache];
                let each = own.iter().flat_map(|own| theirs.map(|their| own * their));
                std::iter::once(1.0).chain(each).collect()
            }
        }
    }

    /// How many products it has.
    #[must_use]
    pub fn width(self) -> usize {
        self.products(&Intensity::default(), &Pressure::default()).len()
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEAKS: Peaks = Peaks { flops_per_s: 1e11, bytes_per_s: 1e10, cache_bytes: 32e6 };

    #[test]
    fn demands_are_shares_of_peaks() {
        let kernel = Kernel { ns: 1000.0, flops: 5e4, bytes: 2000.0, weight_bytes: 1000.0 };
        let of = Intensity::of(&kernel, &PEAKS);
        let expected = Intensity { compute: 0.5, memory: 0.2, weights: 0.1, latency: 0.5 };
        assert_eq!(of, expected);
        let nothing = Intensity::of(&Kernel::default(), &PEAKS);
        assert_eq!((nothing.compute, nothing.latency), (0.0, 1.0));
        let half = Demand { flops_per_s: 1e12, bytes_per_s: 5e9, footprint_bytes: 16e6 };
        let by = Pressure::of(&half, &PEAKS);
        assert_eq!(by, Pressure { compute: 1.0, traffic: 0.25, cache: 0.5 });
    }

    #[test]
    fn forms_have_more_and_more_products_that_are_never_negative() {
        let (of, by) = (
            Intensity { compute: 0.5, memory: 0.8, weights: 0.2, latency: 0.2 },
            Pressure { compute: 0.25, traffic: 0.5, cache: 1.0 },
        );
        assert!(Form::ALL.windows(2).all(|pair| pair[0].width() <= pair[1].width()));
        for form in Form::ALL {
            assert!(form.products(&of, &by).iter().all(|p| (0.0..=1.0).contains(p)), "{form}");
            let json = serde_json::to_string(&form).unwrap_or_default();
            assert_eq!(json, format!("\"{form}\""));
        }
        assert_eq!(Form::Shared.products(&of, &by), [0.125, 0.4]);
        let excess = Form::Excess.products(&of, &by);
        assert!((excess[1] - 0.8 * 0.3).abs() < 1e-12, "{excess:?}");
    }
}

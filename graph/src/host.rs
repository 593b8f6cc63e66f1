//! [`Host`]: the machine below an [`Environment`](crate::Environment), as it was when a session
//! began: what may explain why equal environments differ in speed.
//!
//! None of it is part of an environment's identity. The instruction sets, the operating system and
//! the power mode are fields of the environment.

use serde::{Deserialize, Serialize};

/// Processor, caches, clock, memory and counters of a machine; `None` and empty: not reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Family, model, stepping and microcode, e.g. `25/1/1/0xa0011d1`: several processors share one
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Whether a hypervisor runs below.
    pub virtualised: bool,
    /// Logical cores that share the measured core's execution units, it included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_per_core: Option<u64>,
    /// Caches of the measured core, the fastest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// Clock of the measured core, MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u64>,
    /// Highest clock of the measured core, MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_clock_mhz: Option<u64>,
    /// Memory of the machine, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Memory that programs can have, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<u64>,
    /// Logical cores of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_cores: Option<u64>,
    /// Time that the hypervisor gave to others while a core of this machine wanted to run, since
    /// the machine began, in clock ticks over all cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_ticks: Option<u64>,
    /// Time that no core wanted to run in, in the same ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ticks: Option<u64>,
    /// All time of all cores since the machine began, in the same ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u64>,
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u64,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// Logical cores that share it, e.g. `0-7`.
    pub shared_by: String,
}

impl Host {
    /// Family and model of the processor, e.g. `25/1`, without stepping and microcode.
    #[must_use]
    pub fn processor_model(&self) -> Option<&str> {
        let processor = self.processor.as_deref()?;
        let end = processor.match_indices('/').nth(1).map_or(processor.len(), |(at, _)| at);
        processor.get(..end)
    }

    /// Bytes of its texts and numbers in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let texts = self.caches.iter().flat_map(|c| [&c.kind, &c.shared_by]);
        let texts: usize = texts.chain(self.processor.as_ref()).map(String::len).sum();
        (size_of::<Self>() + self.caches.len() * size_of::<Cache>() + texts) as u64
    }

    /// Share of all time that was stolen between an earlier record of this machine and this one, 0
    /// to 1; `None` where it is not reported, or the machine began anew in between.
    #[must_use]
    pub fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        self.share_since(earlier, |host| host.stolen_ticks)
    }

    /// Cores that had something to run, mean since an earlier record, as [`Self::stolen_since`].
    #[must_use]
    pub fn busy_cores_since(&self, earlier: &Self) -> Option<f64> {
        let idle = self.share_since(earlier, |host| host.idle_ticks)?;
        Some((1.0 - idle) * self.logical_cores? as f64)
    }

    fn share_since(&self, earlier: &Self, of: fn(&Self) -> Option<u64>) -> Option<f64> {
        let part = of(self)?.checked_sub(of(earlier)?)?;
        let all = self.ticks?.checked_sub(earlier.ticks?)?;
        (all > 0).then(|| part as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stolen_ticks: u64, ticks: u64) -> Host {
        Host { stolen_ticks: Some(stolen_ticks), ticks: Some(ticks), ..Host::default() }
    }

    #[test]
    fn stolen_time_is_that_between_two_records() {
        assert_eq!(at(30, 600).stolen_since(&at(10, 500)), Some(0.2));
        assert_eq!(at(5, 600).stolen_since(&at(10, 500)), None);
        assert_eq!(at(10, 500).stolen_since(&at(10, 500)), None);
        assert_eq!(at(10, 500).stolen_since(&Host::default()), None);
    }

    #[test]
    fn what_is_not_idle_is_busy() {
        let at = |idle: u64, ticks: u64| Host {
            logical_cores: Some(4),
            idle_ticks: Some(idle),
            ..at(0, ticks)
        };
        assert_eq!(at(35, 600).busy_cores_since(&at(10, 500)), Some(3.0));
        assert_eq!(at(35, 600).busy_cores_since(&Host::default()), None);
    }

    #[test]
    fn processors_differ_by_family_and_model() {
        let of = |processor: &str| {
            let host = Host { processor: Some(processor.into()), ..Host::default() };
            host.processor_model().map(str::to_owned)
        };
        assert_eq!(of("25/1/1/0xa0011d1").as_deref(), Some("25/1"));
        assert_eq!(of("25/1").as_deref(), Some("25/1"));
        assert_eq!(of("25").as_deref(), Some("25"));
        assert_eq!(Host::default().processor_model(), None);
    }

    #[test]
    fn what_is_not_reported_is_not_written() {
        let json = serde_json::to_string(&Host::default()).unwrap_or_default();
        assert_eq!(json, r#"{"virtualised":false}"#);
        assert_eq!(serde_json::from_str::<Host>("{}").ok(), Some(Host::default()));
    }
}

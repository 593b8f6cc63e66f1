//! The best split as a function of the uplink's bandwidth: break points, not samples.
//!
//! A split costs A + B x, where x is the time per byte (1 / bandwidth): a line. The best cost is
//! the lower envelope of all lines. It is found by cutting where two known lines meet: either
//! nothing is below that point, and it is a break point, or a new line is found (Eisner and
//! Severance 1976). All arithmetic is in integers: x = p / q is tried by minimising A q + B p.

use super::{
    Criterion, Objective, Split, SplitError, SplitPlan,
    closure::{Side, Terms},
};
use crate::cost::{End, Interval, Link};

/// A range of bandwidths and the split that is best there.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthRange {
    /// From this bandwidth on, bytes per second; 0 for the slowest.
    pub from_bytes_per_s: f64,
    /// Up to this one; infinite for the fastest.
    pub to_bytes_per_s: f64,
    /// For each node, whether it is on the device.
    pub on_device: Vec<bool>,
    /// Cost at infinite bandwidth, in the criterion's unit.
    pub fixed: u64,
    /// Added per ns that a byte takes, in the criterion's unit.
    pub per_ns_of_byte: u64,
}

struct Line {
    fixed: u128,
    slope: u128,
    side: Side,
}

impl Split<'_> {
    /// Which split is best for which bandwidth of the uplink, slowest first. Device memory is not
    /// bounded here, and the link back stays as it is.
    ///
    /// # Errors
    /// As [`Split::best`].
    pub fn over_bandwidth(&self, criterion: Criterion) -> Result<Vec<BandwidthRange>, SplitError> {
        let (fixed, slope) = self.lines(criterion);
        let weight = (fixed.ceiling(), slope.ceiling());
        let find = |a: u128, b: u128| -> Result<(u128, Line), SplitError> {
            let none = || SplitError::Impossible { bounds: super::CONSTRAINTS.to_owned() };
            let (value, side) =
                self.closure.cheapest(&fixed.combined(a, &slope, b)).ok_or_else(none)?;
            let line = Line {
                fixed: fixed.cost(&self.closure, &side),
                slope: slope.cost(&self.closure, &side),
                side,
            };
            Ok((value, line))
        };
        // Fastest: least fixed cost, then least slope. Slowest: the other way round.
        let (_, fastest) = find(weight.1, 1)?;
        let (_, slowest) = find(1, weight.0)?;
        let mut envelope = vec![fastest];
        let mut right = vec![slowest];
        while let (Some(left), Some(next)) = (envelope.last(), right.pop()) {
            if next.slope >= left.slope {
                continue;
            }
            let (p, q) = (next.fixed - left.fixed, left.slope - next.slope);
            let (value, between) = find(q, p)?;
            if value < left.fixed * q + left.slope * p && between.slope < left.slope {
                right.push(next);
                right.push(between);
            } else {
                envelope.push(next);
            }
        }
        Ok(ranges(&envelope))
    }

    /// The part of each cost that does not depend on the bandwidth, and the part per ns that a byte
    /// takes.
    fn lines(&self, criterion: Criterion) -> (Terms, Terms) {
        let mut ends = self.ends;
        ends.up = Link { bandwidth_bytes_per_s: Interval::exact(u64::MAX), ..ends.up };
        let fixed_sent = |bytes: u64| match criterion {
            Criterion::Latency => u128::from(ends.up.fixed_ns(bytes)),
            Criterion::DeviceEnergy => u128::from(
                Interval::exact(ends.up.fixed_ns(bytes)).times(ends.up.transmit_w).point(),
            ),
            Criterion::DeviceMemory => 0,
            Criterion::BytesSent => u128::from(bytes),
        };
        let slope_sent = |bytes: u64| match criterion {
            Criterion::Latency => u128::from(bytes),
            Criterion::DeviceEnergy => {
                u128::from(Interval::exact(bytes).times(ends.up.transmit_w).point())
            }
            Criterion::DeviceMemory | Criterion::BytesSent => 0,
        };
        let sizes: Vec<u64> = super::criteria::sizes(self.costs).collect();
        let mut fixed = super::criteria::terms(self.costs, &ends, criterion, End::Point);
        fixed.sent = sizes.iter().map(|&bytes| fixed_sent(bytes)).collect();
        let none = vec![0; self.closure.nodes];
        let slope = Terms {
            device: none.clone(),
            server: none,
            sent: sizes.iter().map(|&bytes| slope_sent(bytes)).collect(),
            offloaded: 0,
        };
        (fixed, slope)
    }

    /// The plan of one range, at the bandwidth the costs give.
    ///
    /// # Errors
    /// As [`Split::plan_of`].
    pub fn plan_of_range(
        &self,
        range: &BandwidthRange,
        criterion: Criterion,
    ) -> Result<Option<SplitPlan>, SplitError> {
        self.plan_of(&range.on_device, &Objective::least(criterion))
    }
}

fn ranges(envelope: &[Line]) -> Vec<BandwidthRange> {
    // Between two lines that follow each other: x = p / q ns per byte, so a bandwidth of 1e9 q / p
    // bytes per second.
    let meet = |pair: &[Line]| {
        1e9 * (pair[0].slope - pair[1].slope) as f64 / (pair[1].fixed - pair[0].fixed).max(1) as f64
    };
    let breaks: Vec<f64> = envelope.windows(2).map(meet).collect();
    let range = |(index, line): (usize, &Line)| BandwidthRange {
        from_bytes_per_s: breaks.get(index).copied().unwrap_or(0.0),
        to_bytes_per_s: if index == 0 { f64::INFINITY } else { breaks[index - 1] },
        on_device: line.side.clone(),
        fixed: u64::try_from(line.fixed).unwrap_or(u64::MAX),
        per_ns_of_byte: u64::try_from(line.slope).unwrap_or(u64::MAX),
    };
    envelope.iter().enumerate().map(range).rev().collect()
}

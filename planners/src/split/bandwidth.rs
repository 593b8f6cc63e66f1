//! The best split as a function of the bandwidth: break points, not samples.
//!
//! A split costs A + B x, where x is the time per byte on the link to the server (1 / bandwidth): a
//! line. Bounds on latency or energy are lines as well, so a split satisfies them up to some x. The
//! best cost is the lower envelope of these lines, each up to the x at which it violates a bound.
//! The bandwidth of the link back changes with that of the link to the server, in the ratio of the
//! costs.
//!
//! The candidate lines come from dynamic programming over the frontier ([`super::frontier`]). On a
//! graph too wide for that, and without bounds, they come from minimum cuts at the points where two
//! known lines meet: either no line is below that point, and it is a break point, or the cut gives
//! a new line (Eisner and Severance 1976). All arithmetic is in integers: x = p / q is tried by
//! minimising A q + B p.

use super::{
    Bound, Criterion, Objective, Split, SplitError,
    bounded::half,
    closure::{Side, Terms},
    criteria::{self, At},
    frontier::{self, COLUMNS, Question},
};
use crate::cost::{End, Interval, Link};

/// Energies are counted in this fraction of a nanojoule, so that small powers have an effect.
const PARTS_OF_NJ: u64 = 256;
/// Slopes stay below this, so that products with costs stay exact.
const LARGEST_SLOPE: f64 = (1u64 << 55) as f64;

/// A range of bandwidths and the split that is best there.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthRange {
    /// From this bandwidth on, bytes per second; 0 for the slowest. Above 0 in the first range: no
    /// split satisfies the bounds on a slower link.
    pub from_bytes_per_s: f64,
    /// Up to this one; infinite for the fastest.
    pub to_bytes_per_s: f64,
    /// For each node, whether it is on the device.
    pub on_device: Vec<bool>,
    /// Cost at infinite bandwidth, in the criterion's unit.
    pub fixed: u64,
    /// Additional cost per ns of transfer time per byte, in the criterion's unit.
    pub per_ns_of_byte: f64,
}

#[derive(Clone)]
pub(super) struct Line {
    fixed: u128,
    slope: u128,
    /// The largest time per byte at which the bounds hold, ns; a fraction.
    until: Option<(u128, u128)>,
    side: Side,
}

impl Line {
    /// Cost at x = p / q, times q.
    fn at(&self, (p, q): (u128, u128)) -> u128 {
        self.fixed * q + self.slope * p
    }

    fn reaches_beyond(&self, (p, q): (u128, u128)) -> bool {
        self.until.is_none_or(|(up, uq)| up * q > p * uq)
    }
}

impl Split<'_> {
    /// The best split for each range of bandwidths, slowest first, within the bounds at each of
    /// them.
    ///
    /// # Errors
    /// As [`Split::best`]; [`SplitError::OutOfBudget`] where the break points are not complete.
    pub fn over_bandwidth(&self, objective: &Objective) -> Result<Vec<BandwidthRange>, SplitError> {
        self.check_energy(objective)?;
        self.check_links()?;
        let bounds = self.bounds(objective);
        let bounded = bounds.iter().map(|bound| bound.criterion);
        let criteria = std::iter::once(objective.minimise).chain(bounded);
        let units =
            Units { cost: scale(objective.minimise), byte: self.parts_of_byte(criteria, scale) };
        let lines = match self.lines_by_frontier(objective.minimise, &bounds, units.byte) {
            Some(lines) => lines,
            None if bounds.is_empty() => {
                let units = self.units_of_cuts(objective.minimise);
                return Ok(ranges(&self.envelope_by_cuts(objective)?, units));
            }
            None => return Err(SplitError::OutOfBudget { what: "all break points" }),
        };
        let envelope = envelope(&lines);
        if envelope.is_empty() {
            Err(self.impossible(objective))
        } else {
            Ok(ranges(&envelope, units))
        }
    }

    /// The parts of a byte of the link to the server in which slopes are counted. A byte of the link
    /// back takes the time of a fraction of bytes there, by the ratio of the bandwidths: parts of
    /// its denominator make that exact. Where sums would get too large, they are the smallest parts
    /// that there is room for.
    fn parts_of_byte(
        &self,
        criteria: impl Iterator<Item = Criterion>,
        scale: impl Fn(Criterion) -> u64,
    ) -> u64 {
        let Some((up, down)) = self.ends.bandwidths_there_and_back() else { return 1 };
        let exact = down / greatest_divisor(up, down);
        let returned = criteria::returned_bytes(self.costs, &self.ends);
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.map(|size| size as f64).sum::<f64>();
        let back = sum(&mut returned.iter().flatten().copied()) * up as f64 / down as f64;
        let bytes = sum(&mut criteria::sizes(self.costs)) + back;
        let power_w = self.ends.up.transmit_w.max(self.costs.processors()[self.ends.device].idle_w);
        let weight = |criterion: Criterion| match criterion {
            Criterion::DeviceEnergy => power_w.max(1.0) * scale(criterion) as f64,
            _ => 1.0,
        };
        let room = LARGEST_SLOPE / (bytes * criteria.map(weight).fold(1.0, f64::max)).max(1.0);
        if exact as f64 <= room { exact } else { 1 << room.max(1.0).log2() as u32 }
    }

    /// What the lines of minimum cuts are counted in.
    pub(super) fn units_of_cuts(&self, minimise: Criterion) -> Units {
        Units { cost: 1, byte: self.parts_of_byte(std::iter::once(minimise), |_| 1) }
    }

    /// Every split that may be best at some bandwidth; `None` where the search exceeds its budget.
    fn lines_by_frontier(
        &self,
        minimise: Criterion,
        bounds: &[Bound],
        byte: u64,
    ) -> Option<Vec<Line>> {
        let units = |criterion: Criterion| Units { cost: scale(criterion), byte };
        let (fixed, slope) = self.lines(minimise, units(minimise));
        let (mut columns, mut order) = (vec![fixed, slope], vec![0, 1]);
        let (mut within, mut limits) = (Vec::new(), Vec::new());
        for bound in bounds {
            let units = units(bound.criterion);
            let allowed = bound.at_most.saturating_mul(units.cost);
            let is_minimised = bound.criterion == minimise;
            let column = if is_minimised { 0 } else { columns.len() };
            within.push((column, allowed));
            if depends_on_bandwidth(bound.criterion) {
                limits.push((column, allowed));
                within.push((column + 1, u64::MAX));
            }
            if !is_minimised {
                let (fixed, slope) = self.lines(bound.criterion, units);
                columns.push(fixed);
                columns.extend(depends_on_bandwidth(bound.criterion).then_some(slope));
            }
        }
        for tie in minimise.then_ties().into_iter().skip(1) {
            if columns.len() < COLUMNS {
                order.push(columns.len());
                columns.push(self.terms(tie, At::all(End::Point)));
            }
        }
        let question = Question {
            columns: &columns,
            order: &order,
            leading: 2,
            within: &within,
            at_most: u64::MAX,
            hull: within.is_empty(),
        };
        if columns.len() > COLUMNS {
            return None;
        }
        let found =
            frontier::undominated(&self.closure, &question, &mut half(&self.budget)).ok()?;
        let line = |split: frontier::Labelled| {
            let until = |&(column, allowed): &(usize, u64)| {
                let (fixed, slope) = (split.values[column], split.values[column + 1]);
                (slope > 0).then(|| (u128::from(allowed - fixed), u128::from(slope)))
            };
            let nearest =
                |a: (u128, u128), b: (u128, u128)| if a.0 * b.1 <= b.0 * a.1 { a } else { b };
            Line {
                fixed: u128::from(split.values[0]),
                slope: u128::from(split.values[1]),
                until: limits.iter().filter_map(until).reduce(nearest),
                side: split.side.clone(),
            }
        };
        Some(found.into_iter().map(line).collect())
    }

    /// The lower envelope by minimum cuts, fastest first, without bounds.
    pub(super) fn envelope_by_cuts(&self, objective: &Objective) -> Result<Vec<Line>, SplitError> {
        let (fixed, slope) = self.lines(objective.minimise, self.units_of_cuts(objective.minimise));
        let weight = (fixed.ceiling(), slope.ceiling());
        let step = 4 * (self.closure.nodes + self.closure.tensors.len()) as u64;
        let find = |a: u128, b: u128| -> Result<(u128, Line), SplitError> {
            let out = |_| SplitError::OutOfBudget { what: "all break points" };
            self.budget.steps(step).map_err(out)?;
            let none = || self.impossible(objective);
            let (value, side) =
                self.closure.cheapest(&fixed.combined(a, &slope, b)).ok_or_else(none)?;
            let line = Line {
                fixed: fixed.cost(&self.closure, &side),
                slope: slope.cost(&self.closure, &side),
                until: None,
                side,
            };
            Ok((value, line))
        };
        // Fastest: least fixed cost, then least slope. Slowest: least slope, then least fixed cost.
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
        Ok(envelope)
    }

    /// The part of each cost that does not depend on the bandwidth, and the part per ns of transfer
    /// time per part of a byte to the server.
    fn lines(&self, criterion: Criterion, units: Units) -> (Terms, Terms) {
        let mut ends = self.ends;
        let fast = |link: Link| Link { bandwidth_bytes_per_s: Interval::exact(u64::MAX), ..link };
        (ends.up, ends.down) = (fast(ends.up), ends.down.map(fast));
        // Without the bandwidth's part of the transfer, which is rounded up to a whole nanosecond.
        let mut fixed = criteria::terms(self.costs, &ends, criterion, At::all(End::Point));
        let sizes: Vec<u64> = criteria::sizes(self.costs).collect();
        let (idle_w, transmit_w) =
            (self.costs.processors()[self.ends.device].idle_w, self.ends.up.transmit_w);
        let weighed = |amount: f64, power_w: f64| match criterion {
            Criterion::Latency => amount.round() as u128,
            Criterion::DeviceEnergy => (amount * power_w * units.cost as f64).round() as u128,
            _ => 0,
        };
        let part = |ns: u64, power_w: f64| weighed(ns as f64, power_w);
        let latency = |node: usize, processor: usize| {
            self.costs.nodes()[node].latency_ns[processor].map_or(0, Interval::point)
        };
        let returned = criteria::returned_bytes(self.costs, &self.ends);
        let back = |node: usize, of: &dyn Fn(&Link, u64) -> f64| -> f64 {
            let sum = |down: Link| returned[node].iter().map(|&bytes| of(&down, bytes)).sum();
            self.ends.down.map_or(0.0, sum)
        };
        let nodes = 0..self.closure.nodes;
        if depends_on_bandwidth(criterion) {
            let up = &self.ends.up;
            fixed.sent = sizes.iter().map(|&bytes| part(up.fixed_ns(bytes), transmit_w)).collect();
            let returning = |node: usize| back(node, &|down, bytes| down.fixed_ns(bytes) as f64);
            fixed.server = nodes
                .clone()
                .map(|n| weighed(latency(n, self.ends.server) as f64 + returning(n), idle_w))
                .collect();
            let setup = |link: Option<Link>| part(link.map_or(0, |link| link.setup_ns), idle_w);
            (fixed.offloaded, fixed.returned) = (setup(Some(self.ends.up)), setup(self.ends.down));
        }
        if criterion == Criterion::DeviceEnergy {
            fixed.device.iter_mut().for_each(|nj| *nj *= u128::from(units.cost));
        }
        let per_ns = |parts: u128, power_w: f64| match criterion {
            Criterion::Latency => parts,
            _ => weighed(parts as f64, power_w),
        };
        let there = |bytes: u64| u128::from(bytes).saturating_mul(u128::from(units.byte));
        let (up, down) = self.ends.bandwidths_there_and_back().unwrap_or((1, 1));
        let as_there = |bytes: &u64| {
            let parts = there(*bytes).saturating_mul(u128::from(up));
            parts.saturating_add(u128::from(down / 2)) / u128::from(down)
        };
        let returned_parts = |node: usize| returned[node].iter().map(as_there).sum();
        let slope = Terms {
            device: vec![0; self.closure.nodes],
            server: nodes.map(|node| per_ns(returned_parts(node), idle_w)).collect(),
            sent: sizes.iter().map(|&bytes| per_ns(there(bytes), transmit_w)).collect(),
            offloaded: 0,
            returned: 0,
        };
        (fixed, slope)
    }
}

/// What lines are counted in.
#[derive(Clone, Copy)]
pub(super) struct Units {
    /// Parts of the criterion's unit.
    pub cost: u64,
    /// Parts of a byte of the link to the server.
    pub byte: u64,
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

const fn depends_on_bandwidth(criterion: Criterion) -> bool {
    matches!(criterion, Criterion::Latency | Criterion::DeviceEnergy)
}

const fn scale(criterion: Criterion) -> u64 {
    if matches!(criterion, Criterion::DeviceEnergy) { PARTS_OF_NJ } else { 1 }
}

/// The lower envelope of lines that end where they violate a bound; the fastest link first. Lines
/// that are equal come in the order of preference.
fn envelope(lines: &[Line]) -> Vec<Line> {
    let mut envelope: Vec<Line> = Vec::new();
    let mut at = (0u128, 1u128);
    loop {
        let possible = || lines.iter().filter(|line| line.reaches_beyond(at));
        // Just beyond the current point: the least cost there, then the least slope.
        let Some(best) = possible().min_by_key(|line| (line.at(at), line.slope)) else { break };
        // Up to the first point where another line is below this one, or this one ends.
        let meets = |line: &Line| {
            (line.slope < best.slope)
                .then(|| (line.fixed.saturating_sub(best.fixed), best.slope - line.slope))
        };
        let is_later = |place: &(u128, u128)| place.0 * at.1 > at.0 * place.1;
        let crossing = possible()
            .filter_map(|line| Some((meets(line)?, line)))
            .filter(|(place, line)| is_later(place) && line.reaches_beyond(*place))
            .map(|(place, _)| place);
        let next =
            crossing.chain(best.until).reduce(|a, b| if a.0 * b.1 <= b.0 * a.1 { a } else { b });
        let line = Line { until: next, ..best.clone() };
        match envelope.last_mut().filter(|last| last.side == line.side) {
            Some(last) => last.until = next,
            None => envelope.push(line),
        }
        match next {
            Some(place) => at = place,
            None => break,
        }
    }
    envelope
}

pub(super) fn ranges(envelope: &[Line], units: Units) -> Vec<BandwidthRange> {
    // Between two lines that follow each other: x = p / q ns per part of a byte, so a bandwidth of
    // 1e9 q / p parts per second.
    let parts = units.byte as f64;
    let bandwidth = |(p, q): (u128, u128)| 1e9 * q as f64 / p.max(1) as f64 / parts;
    let meet = |pair: &[Line]| {
        (pair[1].fixed.saturating_sub(pair[0].fixed).max(1), pair[0].slope - pair[1].slope)
    };
    let until = |index: usize| match (envelope[index].until, envelope.get(index..index + 2)) {
        (Some(place), _) => bandwidth(place),
        (None, Some(pair)) => bandwidth(meet(pair)),
        (None, None) => 0.0,
    };
    let range = |(index, line): (usize, &Line)| BandwidthRange {
        from_bytes_per_s: until(index),
        to_bytes_per_s: index.checked_sub(1).map_or(f64::INFINITY, until),
        on_device: line.side.clone(),
        fixed: u64::try_from(line.fixed / u128::from(units.cost)).unwrap_or(u64::MAX),
        per_ns_of_byte: line.slope as f64 / units.cost as f64 / parts,
    };
    envelope.iter().enumerate().map(range).rev().collect()
}

//! [`StageTimes`]: the time of any stage, computed in constant time from prefix sums of latencies
//! and from the tensors that are live at each possible cut.

use super::{Cut, PipelineObjective};
use crate::{
    cost::{Costs, End, Link, TensorCosts},
    regret::blended,
};
use std::ops::Range;

/// Times of all possible stages at one end of the costs' intervals, ns.
#[derive(Clone, Debug)]
pub(super) struct StageTimes {
    pub nodes: usize,
    pub processors: usize,
    pub home: usize,
    /// `[processor][i]`: the first `i` nodes; a node that cannot run there counts 0 and ends
    /// `reach`.
    prefix: Vec<Vec<u64>>,
    /// `[processor][i]`: the furthest end of a stage that starts at node `i`: it can run, fits the
    /// memory, and touches nothing that is confined to another processor.
    reach: Vec<Vec<usize>>,
    /// `[from * processors + to][i]`: time of transferring the tensors that are live before node
    /// `i`.
    receive: Vec<Vec<Option<u64>>>,
    /// `[used][i]`: at least this long for nodes `i` and after, each on the fastest processor that
    /// is not used yet.
    at_least: Vec<Vec<u64>>,
    /// `[i]`: whether a cut before node `i` is allowed.
    cuttable: Vec<bool>,
}

/// Tensors that a stage starting at node `at` reads or passes on.
pub(super) fn live(costs: &Costs, at: usize) -> impl Iterator<Item = &TensorCosts> {
    costs.tensors().iter().filter(move |t| live_span(t).contains(&at))
}

/// The cuts (by the node after each) at which a tensor is live.
fn live_span(tensor: &TensorCosts) -> Range<usize> {
    let first = tensor.producer.map_or(0, |p| p + 1);
    match tensor.consumers.iter().max() {
        Some(&last) => first..last + 1,
        None => 0..0,
    }
}

impl StageTimes {
    pub(super) fn of(costs: &Costs, home: usize, end: End) -> Self {
        let (nodes, processors) = (costs.nodes().len(), costs.processors().len());
        let latency =
            |node: usize, p: usize| costs.nodes()[node].latency_ns[p].map(|ns| ns.at(end));
        let prefix = |p: usize| {
            std::iter::once(0)
                .chain((0..nodes).scan(0u64, move |sum, n| add(sum, latency(n, p).unwrap_or(0))))
                .collect()
        };
        let mut cuttable = vec![true; nodes + 1];
        for group in costs.together() {
            if let (Some(&first), Some(&last)) = (group.iter().min(), group.iter().max()) {
                cuttable[first + 1..=last].fill(false);
            }
        }
        let at_least = |used: usize| {
            let fastest = |node: usize| {
                (0..processors)
                    .filter(|p| used >> p & 1 == 0)
                    .filter_map(|p| latency(node, p))
                    .min()
                    .unwrap_or(u64::MAX)
            };
            let mut rest = vec![0u64; nodes + 1];
            (0..nodes)
                .rev()
                .for_each(|node| rest[node] = rest[node + 1].saturating_add(fastest(node)));
            rest
        };
        let at_end = |link: &Link, bytes: u64| link.transfer_ns(bytes).map(|ns| ns.at(end));
        let pairs = (0..processors * processors)
            .map(|pair| receive(costs, (pair / processors, pair % processors), &at_end));
        Self {
            nodes,
            processors,
            home,
            prefix: (0..processors).map(prefix).collect(),
            reach: (0..processors).map(|p| reach(costs, p, home)).collect(),
            receive: pairs.collect(),
            at_least: (0..1 << processors).map(at_least).collect(),
            cuttable,
        }
    }

    /// Time of receiving the tensors that are live before node `at`; `None` where there is no link.
    pub(super) fn receive(&self, from: usize, to: usize, at: usize) -> Option<u64> {
        self.receive[from * self.processors + to][at]
    }

    pub(super) fn prefix(&self, processor: usize) -> &[u64] {
        &self.prefix[processor]
    }

    pub(super) fn reach(&self, processor: usize, from: usize) -> usize {
        self.reach[processor][from]
    }

    pub(super) fn cuttable(&self, at: usize) -> bool {
        self.cuttable[at]
    }

    /// `[i]`: a lower bound on the time of nodes `i` and after on the processors not used yet.
    pub(super) fn at_least(&self, used: usize) -> &[u64] {
        &self.at_least[used]
    }

    /// The work that the processors not used yet can do together in one period.
    pub(super) fn room(&self, used: usize, period: u64) -> u64 {
        period.saturating_mul((self.processors - used.count_ones() as usize) as u64)
    }

    /// The least period in which the processors not used yet could do this much together.
    pub(super) fn period_for(&self, used: usize, ns: u64) -> u64 {
        match self.processors - used.count_ones() as usize {
            0 => u64::MAX,
            processors => ns.div_ceil(processors as u64),
        }
    }

    /// One stage that takes over from a processor: receiving and computing. `None` when it cannot.
    pub(super) fn stage(&self, from: usize, cut: &Cut) -> Option<u64> {
        let possible = cut.to <= self.reach(cut.processor, cut.from)
            && self.cuttable(cut.from)
            && self.cuttable(cut.to);
        let prefix = self.prefix(cut.processor);
        let computing = prefix[cut.to] - prefix[cut.from];
        possible.then(|| {
            self.receive(from, cut.processor, cut.from).map(|ns| ns.saturating_add(computing))
        })?
    }

    /// Every stage in order.
    pub(super) fn each<'a>(&'a self, cuts: &'a [Cut]) -> impl Iterator<Item = Option<u64>> + 'a {
        let before = std::iter::once(self.home).chain(cuts.iter().map(|c| c.processor));
        before.zip(cuts).map(|(from, cut)| self.stage(from, cut))
    }

    /// The time of the slowest stage.
    pub(super) fn period(&self, cuts: &[Cut]) -> u64 {
        self.each(cuts).map(|t| t.unwrap_or(u64::MAX)).max().unwrap_or(0)
    }

    /// The sum over all stages.
    pub(super) fn latency(&self, cuts: &[Cut]) -> u64 {
        self.each(cuts).fold(0u64, |sum, t| sum.saturating_add(t.unwrap_or(u64::MAX)))
    }

    /// These times, but with the nodes' times of `upper` in the chosen stages of a pipeline.
    pub(super) fn raised(
        &self,
        upper: &Self,
        cuts: &[Cut],
        chosen: &dyn Fn(usize) -> bool,
    ) -> Self {
        self.blended(upper, cuts, chosen, 1.0)
    }

    /// These times, but in the chosen stages of a pipeline with a share of the way to the nodes'
    /// times of `upper`. Stages are rounded by 1 ns.
    pub(super) fn blended(
        &self,
        upper: &Self,
        cuts: &[Cut],
        chosen: &dyn Fn(usize) -> bool,
        share: f64,
    ) -> Self {
        let mut times = self.clone();
        for (_, cut) in cuts.iter().enumerate().filter(|(index, _)| chosen(*index)) {
            let more = |n: usize| {
                let end = n.clamp(cut.from, cut.to);
                let range = self.range(upper, cut.processor, cut.from..end);
                blended(0, range, share)
            };
            let low = &self.prefix[cut.processor];
            times.prefix[cut.processor] =
                (0..=self.nodes).map(|n| low[n].saturating_add(more(n))).collect();
        }
        times
    }

    /// The same times, in so many parts of a ns.
    pub(super) fn finer(&self, parts: u64) -> Self {
        let finer = |ns: &u64| ns.saturating_mul(parts);
        let rows =
            |rows: &[Vec<u64>]| rows.iter().map(|row| row.iter().map(finer).collect()).collect();
        let receive =
            |row: &Vec<Option<u64>>| row.iter().map(|ns| ns.as_ref().map(finer)).collect();
        Self {
            prefix: rows(&self.prefix),
            receive: self.receive.iter().map(receive).collect(),
            at_least: rows(&self.at_least),
            ..self.clone()
        }
    }

    /// How much longer nodes take by `upper` on a processor, ns.
    pub(super) fn range(&self, upper: &Self, processor: usize, nodes: Range<usize>) -> u64 {
        let of = |times: &Self| {
            let prefix = times.prefix(processor);
            prefix[nodes.end] - prefix[nodes.start]
        };
        of(upper).saturating_sub(of(self))
    }

    /// Replaces the times of receiving over one link, by cut.
    pub(super) fn set_link(&mut self, (from, to): (usize, usize), receive: Vec<Option<u64>>) {
        self.receive[from * self.processors + to] = receive;
    }

    /// Times of receiving over one link, by cut.
    pub(super) fn link(&self, (from, to): (usize, usize)) -> &[Option<u64>] {
        &self.receive[from * self.processors + to]
    }

    /// No pipeline has less of what is minimised, ns: the fastest processor of each node, and for a
    /// period all work divided evenly.
    pub(super) fn at_least_for(&self, objective: PipelineObjective) -> u64 {
        let rest = self.at_least(0);
        match objective {
            PipelineObjective::Latency { .. } => rest[0],
            PipelineObjective::Throughput { .. } => {
                let longest = rest.windows(2).map(|pair| pair[0].saturating_sub(pair[1])).max();
                self.period_for(0, rest[0]).max(longest.unwrap_or(0))
            }
        }
    }

    /// The same times with only those links that a pipeline uses: others have its order.
    pub(super) fn along(&self, cuts: &[Cut]) -> Self {
        let mut times = self.clone();
        let before = std::iter::once(self.home).chain(cuts.iter().map(|cut| cut.processor));
        let used: Vec<(usize, usize)> = before.zip(cuts.iter().map(|cut| cut.processor)).collect();
        for pair in (0..self.processors).flat_map(|a| (0..self.processors).map(move |b| (a, b))) {
            if pair.0 != pair.1 && !used.contains(&pair) {
                times.set_link(pair, vec![None; self.nodes + 1]);
            }
        }
        times
    }

    /// The same times with cuts at few places only, which divide the work evenly; and these places.
    pub(super) fn coarse(&self, most: usize) -> (Self, Vec<usize>) {
        let rest = self.at_least(0);
        let share = (rest[0] / most.max(1) as u64).max(1);
        let mut places = vec![0];
        let mut next = share;
        for place in (1..self.nodes).filter(|&place| self.cuttable[place]) {
            if rest[0] - rest[place].min(rest[0]) >= next {
                places.push(place);
                next = (rest[0] - rest[place]).saturating_add(share);
            }
        }
        places.push(self.nodes);
        let at = |row: &Vec<u64>| places.iter().map(|&place| row[place]).collect::<Vec<u64>>();
        let reach = |row: &Vec<usize>| {
            let within = |&place: &usize| {
                places.partition_point(|&other| other <= row[place]).saturating_sub(1)
            };
            places.iter().map(within).collect::<Vec<usize>>()
        };
        let receive = |row: &Vec<Option<u64>>| places.iter().map(|&place| row[place]).collect();
        let coarse = Self {
            nodes: places.len() - 1,
            processors: self.processors,
            home: self.home,
            prefix: self.prefix.iter().map(at).collect(),
            reach: self.reach.iter().map(reach).collect(),
            receive: self.receive.iter().map(receive).collect(),
            at_least: self.at_least.iter().map(at).collect(),
            cuttable: vec![true; places.len()],
        };
        (coarse, places)
    }
}

fn add(sum: &mut u64, ns: u64) -> Option<u64> {
    *sum = sum.saturating_add(ns);
    Some(*sum)
}

fn reach(costs: &Costs, processor: usize, home: usize) -> Vec<usize> {
    let nodes = costs.nodes();
    let mut runs: Vec<bool> = nodes.iter().map(|n| n.latency_ns[processor].is_some()).collect();
    for tensor in costs.tensors().iter().filter(|t| t.confined && processor != home) {
        tensor.consumers.iter().chain(&tensor.producer).for_each(|&node| runs[node] = false);
    }
    let limit = costs.processors()[processor].memory_bytes.unwrap_or(u64::MAX);
    let room = costs.room_bytes(processor, limit);
    let memory = |node: usize| costs.node_memory_bytes(node, processor);
    let mut reach = vec![0; nodes.len() + 1];
    let (mut end, mut used) = (0, 0u64);
    for (from, reached) in reach.iter_mut().enumerate() {
        if end < from {
            (end, used) = (from, 0);
        }
        while end < nodes.len() && runs[end] && memory(end) <= room.saturating_sub(used) {
            used += memory(end);
            end += 1;
        }
        *reached = end;
        if end > from {
            used -= memory(from);
        }
    }
    reach
}

/// Time of receiving over one link at every cut, where a tensor of so many bytes takes the given
/// time, ns.
pub(super) fn receive(
    costs: &Costs,
    (from, to): (usize, usize),
    transfer_ns: &dyn Fn(&Link, u64) -> Option<u64>,
) -> Vec<Option<u64>> {
    let places = costs.nodes().len() + 1;
    if from == to {
        return vec![Some(0); places];
    }
    let Some(link) = costs.link(from, to) else { return vec![None; places] };
    // Sums of the tensors that are live at each cut, from the differences where a tensor begins and
    // ends.
    let mut sums = vec![0i128; places + 1];
    let mut count = vec![0i64; places + 1];
    let mut down = vec![0i64; places + 1];
    for tensor in costs.tensors() {
        let span = live_span(tensor);
        if span.is_empty() {
            continue;
        }
        let (first, past) = (span.start, span.end);
        count[first] += 1;
        count[past] -= 1;
        let transfer = transfer_ns(link, tensor.size_bytes).filter(|_| !tensor.confined);
        match transfer {
            Some(ns) => {
                sums[first] += i128::from(ns);
                sums[past] -= i128::from(ns);
            }
            None => {
                down[first] += 1;
                down[past] -= 1;
            }
        }
    }
    let running = |(sum, tensors, blocked): &mut (i128, i64, i64), place: usize| {
        *sum += sums[place];
        *tensors += count[place];
        *blocked += down[place];
        let setup = if *tensors > 0 { i128::from(link.setup_ns) } else { 0 };
        Some((*blocked == 0).then(|| u64::try_from(*sum + setup).unwrap_or(u64::MAX)))
    };
    (0..places).scan((0, 0, 0), running).collect()
}

//! The regret of a pipeline: the most by which another pipeline can be better when every cost takes
//! any value in its interval. Other pipelines are those within the bounds by their point estimates.
//!
//! **Operators.** A latency is a sum over operators, and raising the time of one raises a period by
//! at most as much. So the worst case has this pipeline's operators at their upper ends (for a
//! period: those of one stage), and all others at their lower ends (Kasperski 2008).
//!
//! **Links.** A link has one bandwidth for everything that it carries. The difference of two
//! latencies is linear in its time per byte, so the worst case has it at one end. A period is not:
//! let stage k of this pipeline, and one stage of another, receive over the link, and let M be the
//! longest of the other stages of that pipeline. As the link gets slower, stage k gets longer; the
//! other pipeline takes M until its own stage over the link takes as long, and rises from there. If
//! that stage receives more bytes than stage k, the worst case is where it takes M, which may be
//! inside the interval. For each such stage M is the least over the ways before and after it, found
//! by two passes of dynamic programming, so that the maximum over all pipelines and bandwidths is
//! found. (Times are rounded up to whole ns for each tensor; between two bandwidths the result may
//! be off by one ns for each tensor that a stage receives.)
//!
//! With a bound on the latency, M is not independent before and after a stage. Where the ends of
//! the link's interval do not decide then, and where the budget ends, the regret is an upper bound,
//! and says so.
//!
//! The largest share is searched apart ([`share`]): its case may be another one.

mod share;

use super::{
    Cut, Pipeline, PipelineObjective,
    exact::{longest_after, longest_before, state},
    search::{NoPipeline, Times, least},
    stages::{StageTimes, live, receive},
};
use crate::{
    Regret,
    cost::{Costs, End, Link},
    meter::Meter,
    regret::Beyond,
};

/// In what parts of a ns the largest share is searched.
const PARTS_OF_NS: u64 = 1 << 13;

/// This pipeline's cost in a scenario, and the least of any other, ns.
#[derive(Clone, Copy)]
struct Scenario {
    paid: u64,
    best: u64,
}

impl Scenario {
    fn regret(self) -> Regret {
        Regret::of(self.paid.saturating_sub(self.best), self.paid)
    }
}

/// The two processors of a link.
type Pair = (usize, usize);

struct Regrets<'a> {
    costs: &'a Costs,
    objective: PipelineObjective,
    cuts: &'a [Cut],
    point: &'a StageTimes,
    lower: &'a StageTimes,
    upper: &'a StageTimes,
    meter: Meter<'a>,
}

impl Pipeline<'_> {
    /// The regret of a pipeline, or an upper bound on it.
    pub(super) fn regret(
        &self,
        objective: PipelineObjective,
        cuts: &[Cut],
        [lower, upper]: [&StageTimes; 2],
        is_complete: bool,
    ) -> Regret {
        let (costs, point) = (self.costs, &self.times);
        let meter = Meter::new(&self.budget);
        let mut regrets = Regrets { costs, objective, cuts, point, lower, upper, meter };
        let exact = match objective {
            _ if !is_complete => Err(NoPipeline::OutOfBudget { at_least: 0 }),
            PipelineObjective::Throughput { .. } => regrets.of_period(),
            PipelineObjective::Latency { .. } => regrets.of_latency(),
        };
        let paid = |times| super::value(objective, times, cuts);
        let Ok(regret) = exact else {
            let at_most = paid(upper).saturating_sub(lower.at_least_for(objective));
            return Regret::of(at_most, paid(upper)).as_bound();
        };
        // The share is searched in parts of a ns: shares of small times are not rounded then.
        let [low, high] = [lower, upper].map(|times| times.finer(PARTS_OF_NS));
        let mut fine = Regrets { lower: &low, upper: &high, ..regrets };
        let parts = PARTS_OF_NS as f64;
        let rounding_ns = fine.rounding() / parts;
        regret.with_largest_share(paid(lower), rounding_ns, |share| {
            let found = fine.beyond(share).ok()?;
            Some(Beyond { at_most: found.at_most / parts, ..found })
        })
    }
}

impl Regrets<'_> {
    /// The link over which a stage receives.
    fn pair(&self, stage: usize) -> Pair {
        let before = stage.checked_sub(1).map_or(self.lower.home, |b| self.cuts[b].processor);
        (before, self.cuts[stage].processor)
    }

    /// Whether the time in which a stage receives depends on the bandwidth.
    fn is_uncertain(&self, stage: usize) -> bool {
        let at = self.cuts[stage].from;
        let of = |times: &StageTimes| times.link(self.pair(stage))[at];
        of(self.lower) != of(self.upper)
    }

    /// These times with the slow end of the link of a stage.
    fn slowed(&self, times: &StageTimes, stage: usize) -> StageTimes {
        let (pair, mut slow) = (self.pair(stage), times.clone());
        slow.set_link(pair, self.upper.link(pair).to_vec());
        slow
    }

    fn scenario(&mut self, times: &StageTimes) -> Result<Scenario, NoPipeline> {
        let paid = super::value(self.objective, times, self.cuts);
        let question = Times::minimised(self.objective, times, self.point);
        match least(question, self.objective, &mut self.meter) {
            Ok(best) => Ok(Scenario { paid, best: best.min(paid) }),
            Err(NoPipeline::Impossible) => Ok(Scenario { paid, best: paid }),
            Err(stopped) => Err(stopped),
        }
    }

    /// All of this pipeline's operators at their upper ends, each of its links at either end.
    fn of_latency(&mut self) -> Result<Regret, NoPipeline> {
        let raised = self.lower.raised(self.upper, self.cuts, &|_| true);
        let mut worst = Regret::NONE;
        for slow in self.slow_links() {
            let slow = slow.into_iter();
            let times = slow.fold(raised.clone(), |times, stage| self.slowed(&times, stage));
            worst = worst.max(self.scenario(&times)?.regret());
        }
        Ok(worst)
    }

    /// Every set of stages whose links may be slow: those that are uncertain.
    fn slow_links(&self) -> Vec<Vec<usize>> {
        let uncertain: Vec<usize> =
            (0..self.cuts.len()).filter(|&stage| self.is_uncertain(stage)).collect();
        let set = |corner: usize| {
            let slow = uncertain.iter().enumerate().filter(|(bit, _)| corner >> bit & 1 == 1);
            slow.map(|(_, &stage)| stage).collect()
        };
        (0..1usize << uncertain.len()).map(set).collect()
    }

    /// One stage at a time: its operators at their upper ends, its link at every bandwidth.
    fn of_period(&mut self) -> Result<Regret, NoPipeline> {
        let mut worst = Regret::NONE;
        for stage in 0..self.cuts.len() {
            let fast = self.lower.raised(self.upper, self.cuts, &|s| s == stage);
            let at_fast = self.scenario(&fast)?;
            worst = worst.max(at_fast.regret());
            if !self.is_uncertain(stage) {
                continue;
            }
            let at_slow = self.scenario(&self.slowed(&fast, stage))?;
            worst = worst.max(at_slow.regret());
            let at_most = at_slow.paid.saturating_sub(at_fast.best);
            if at_most <= worst.worst {
                continue;
            }
            worst = match self.objective {
                PipelineObjective::Throughput { latency_at_most: None } => {
                    self.between(stage, &fast, at_slow.paid, worst)?
                }
                _ => worst.max(Regret::of(at_most, at_slow.paid).as_bound()),
            };
        }
        Ok(worst)
    }

    /// The worst case with a bandwidth between both ends: of all other pipelines with a stage that
    /// receives more over the link than this stage does. `at_most` is this pipeline's period with
    /// the slow end.
    fn between(
        &mut self,
        stage: usize,
        fast: &StageTimes,
        at_most: u64,
        mut worst: Regret,
    ) -> Result<Regret, NoPipeline> {
        let pair = self.pair(stage);
        let Some(own) = Own::of(self.costs, fast, self.cuts, stage, pair) else { return Ok(worst) };
        let below = at_most.saturating_sub(worst.worst);
        let before = longest_before(fast, below, &mut self.meter)?;
        let after = longest_after(fast, below, &mut self.meter)?;
        let (from, to) = pair;
        let rows = (0..1usize << fast.processors).filter(|used| used >> to & 1 == 0);
        let rows =
            rows.filter(|&used| if used == 0 { from == fast.home } else { used >> from & 1 == 1 });
        for used in rows {
            let starts = if used == 0 { 0..1 } else { 1..fast.nodes };
            for start in starts.filter(|&start| fast.cuttable(start) && own.is_beaten_by(start)) {
                let so_far = if used == 0 { 0 } else { before[state(fast, used, from) + start] };
                let Some(receive) = fast.receive(from, to, start) else { continue };
                let (row, prefix) = (state(fast, used | 1 << to, to), fast.prefix(to));
                let reach = fast.reach(to, start);
                self.meter.spend(reach.saturating_sub(start))?;
                for end in (start + 1..=reach).filter(|&end| fast.cuttable(end)) {
                    let computing = prefix[end] - prefix[start];
                    let below = at_most.saturating_sub(worst.worst);
                    if receive.saturating_add(computing) >= below {
                        break;
                    }
                    let others = so_far.max(after[row + end]);
                    if others < below {
                        let found = own.against(self.costs, start, computing, others);
                        worst = worst.max(found.map_or(Regret::NONE, Scenario::regret));
                    }
                }
            }
        }
        Ok(worst)
    }
}

/// The stage of this pipeline that receives over a link.
struct Own<'a> {
    link: &'a Link,
    /// The node before which it receives.
    at: usize,
    /// Time of its operators, ns.
    computing: u64,
    /// The longest of the other stages, ns.
    others: u64,
    /// By cut, the bytes that the link carries, and the part of their time that does not depend on
    /// the bandwidth, ns; `None` where a tensor may not be sent.
    sent: Vec<Option<(u64, u64)>>,
}

impl<'a> Own<'a> {
    fn of(
        costs: &'a Costs,
        fast: &StageTimes,
        cuts: &[Cut],
        stage: usize,
        pair: Pair,
    ) -> Option<Self> {
        let (link, cut) = (costs.link(pair.0, pair.1)?, cuts[stage]);
        let prefix = fast.prefix(cut.processor);
        let others = fast.each(cuts).enumerate().filter(|(index, _)| *index != stage);
        let bytes = receive(costs, pair, &|_, bytes| Some(bytes));
        let fixed = receive(costs, pair, &|link, bytes| Some(link.fixed_ns(bytes)));
        let sent = |(bytes, fixed): (Option<u64>, Option<u64>)| {
            Some((bytes?.saturating_sub(link.setup_ns), fixed?))
        };
        Some(Self {
            link,
            at: cut.from,
            computing: prefix[cut.to] - prefix[cut.from],
            others: others.map(|(_, ns)| ns.unwrap_or(u64::MAX)).max().unwrap_or(0),
            sent: bytes.into_iter().zip(fixed).map(sent).collect(),
        })
    }

    /// Whether a stage that starts there receives more.
    fn is_beaten_by(&self, start: usize) -> bool {
        matches!((self.sent[start], self.sent[self.at]), (Some(other), Some(own)) if other.0 > own.0)
    }

    /// Against a pipeline whose stage over the link starts at a node and computes for a time, and
    /// whose longest other stage is given: at the bandwidth at which both take as long. `None` where
    /// that is not inside the interval.
    fn against(
        &self,
        costs: &Costs,
        start: usize,
        computing: u64,
        others: u64,
    ) -> Option<Scenario> {
        let (bytes, fixed) = self.sent[start]?;
        let room = others.checked_sub(computing)?.checked_sub(fixed).filter(|&ns| ns > 0)?;
        let rate = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(room));
        let rate = u64::try_from(rate).ok()?;
        let interval = self.link.bandwidth_bytes_per_s;
        if rate <= interval.at(End::Lower) || rate >= interval.at(End::Upper) {
            return None;
        }
        let receive = |at: usize| -> Option<u64> {
            let sizes = live(costs, at).map(|tensor| tensor.size_bytes);
            let times = sizes.map(|bytes| self.link.transfer_at_ns(bytes, rate));
            Some(times.sum::<Option<u64>>()?.saturating_add(self.link.setup_ns))
        };
        Some(Scenario {
            paid: self.others.max(receive(self.at)?.saturating_add(self.computing)),
            best: others.max(receive(start)?.saturating_add(computing)),
        })
    }
}

//! The largest share of a pipeline's cost that another pipeline saves: the steps of
//! [`Regret::with_largest_share`](crate::Regret).
//!
//! **Latencies.** An operator that both pipelines run on one processor takes its lower end; so the
//! share is that of a difference of sums, as for splits ([`crate::split`]).
//!
//! **Periods.** Let s be the share, and let one stage of this pipeline be the longest. Raising a
//! time of this stage by 1 ns is worth 1 - s; it costs 1 where the other pipeline has that time in
//! its longest stage, and nothing elsewhere. The other pipeline is searched with this stage's
//! operators at s x lower + (1 - s) x upper end, and with the less expensive end of its link. That
//! counts no more time than there is, so the result bounds what is saved. It is exact where these
//! times are in the longest stage of the pipeline found. Elsewhere the most that this pipeline does
//! save is the start of the bound. The interval of an uncertain link is divided into pieces, which
//! makes the bound tight.
//!
//! All times here are in the units of the given ones, which may be parts of a ns.

use super::{
    super::{
        Cut, PipelineObjective,
        exact::{Limits, Table},
        search::{NoPipeline, Times, least},
        stages::StageTimes,
        value,
    },
    Regrets,
};
use crate::regret::{Beyond, blended};

/// Largest number of pieces of the interval of an uncertain link.
const MOST_PIECES: usize = 64;

impl Regrets<'_> {
    /// What other pipelines save beyond a share.
    pub(super) fn beyond(&mut self, share: f64) -> Result<Beyond, NoPipeline> {
        match self.objective {
            PipelineObjective::Throughput { .. } => self.beyond_of_period(share),
            PipelineObjective::Latency { .. } => self.beyond_of_latency(share),
        }
    }

    /// By what sums of times are rounded: twice for each stage of both pipelines.
    pub(super) fn rounding(&self) -> f64 {
        (2 * (self.cuts.len() + self.lower.processors)) as f64
    }

    /// The most stages of a pipeline.
    fn stages(&self) -> f64 {
        self.lower.processors as f64
    }

    /// The best pipeline by these times, and its cost; `None` where there is none.
    fn best(&mut self, times: &StageTimes) -> Result<Option<(u64, Vec<Cut>)>, NoPipeline> {
        let question = Times::minimised(self.objective, times, self.point);
        let mut table = || {
            let limits = match self.objective {
                PipelineObjective::Latency { period_at_most } => {
                    Limits { period: period_at_most.unwrap_or(u64::MAX), latency: u64::MAX }
                }
                PipelineObjective::Throughput { latency_at_most } => Limits {
                    period: least(question, self.objective, &mut self.meter)?,
                    latency: latency_at_most.unwrap_or(u64::MAX),
                },
            };
            Ok(Table::least_latency(question, limits, &mut self.meter)?.cuts())
        };
        match table() {
            Ok(cuts) => Ok(Some((value(self.objective, times, &cuts), cuts))),
            Err(NoPipeline::Impossible) => Ok(None),
            Err(stopped) => Err(stopped),
        }
    }

    fn beyond_of_latency(&mut self, share: f64) -> Result<Beyond, NoPipeline> {
        let blended = self.lower.blended(self.upper, self.cuts, &|_| true, 1.0 - share);
        let mut beyond = Beyond::NOTHING;
        for slow in self.slow_links() {
            let slowed = |times: &StageTimes| {
                slow.iter().fold(times.clone(), |times, &stage| self.slowed(&times, stage))
            };
            let (times, low) = (slowed(&blended), slowed(self.lower));
            let paid = slowed(&self.lower.raised(self.upper, self.cuts, &|_| true));
            let paid = paid.latency(self.cuts);
            let Some((least, other)) = self.best(&times)? else { continue };
            let shared: u64 = (0..self.cuts.len()).map(|stage| self.shared(stage, &other)).sum();
            let own = paid.saturating_sub(shared) as f64;
            beyond = beyond.max(Beyond {
                // A stage of the other pipeline may be rounded up by one unit.
                at_most: (1.0 - share) * paid as f64 - least as f64 + self.stages(),
                share: saved(own, low.latency(&other) as f64),
            });
        }
        Ok(beyond)
    }

    fn beyond_of_period(&mut self, share: f64) -> Result<Beyond, NoPipeline> {
        let mut beyond = Beyond::NOTHING;
        for stage in 0..self.cuts.len() {
            let blended = self.lower.blended(self.upper, self.cuts, &|s| s == stage, 1.0 - share);
            let mut pieces = vec![self.beyond_of_stage(stage, share, &blended, [0.0, 1.0])?];
            // The piece that may save most is divided, until none saves more than the share.
            let most = if self.is_uncertain(stage) { MOST_PIECES } else { 1 };
            while pieces.len() < most && pieces.iter().all(|(_, found)| found.share <= share) {
                pieces.sort_by(|(_, a), (_, b)| a.at_most.total_cmp(&b.at_most));
                let widest = pieces.pop_if(|(_, found)| found.at_most > self.rounding());
                let Some(([fast, slow], _)) = widest else { break };
                let middle = f64::midpoint(fast, slow);
                for piece in [[fast, middle], [middle, slow]] {
                    pieces.push(self.beyond_of_stage(stage, share, &blended, piece)?);
                }
            }
            beyond = pieces.into_iter().map(|(_, found)| found).fold(beyond, Beyond::max);
        }
        Ok(beyond)
    }

    /// The same where one stage of this pipeline is the longest, with its link in a piece of its
    /// interval (shares of the way to its slow end); and the piece.
    fn beyond_of_stage(
        &mut self,
        stage: usize,
        share: f64,
        blended_nodes: &StageTimes,
        piece: [f64; 2],
    ) -> Result<([f64; 2], Beyond), NoPipeline> {
        let (pair, at) = (self.pair(stage), self.cuts[stage].from);
        let [fast, slow] = piece.map(|end| self.receiving(stage, end));
        let [own_fast, own_slow] = [&fast, &slow].map(|receive| receive[at].unwrap_or(0));
        let paid = self.computing(stage).saturating_add(own_slow);
        let worth = (1.0 - share) * paid as f64;
        if worth <= self.lower.at_least_for(self.objective) as f64 {
            return Ok((piece, Beyond::NOTHING)); // No pipeline takes less.
        }
        let raised = blended(0, own_slow.saturating_sub(own_fast), 1.0 - share);
        let cheaper = |(fast, slow): (&Option<u64>, &Option<u64>)| {
            Some((*slow)?.min((*fast)?.saturating_add(raised)))
        };
        let mut times = blended_nodes.clone();
        times.set_link(pair, fast.iter().zip(&slow).map(cheaper).collect());
        let Some((least, other)) = self.best(&times)? else {
            return Ok((piece, Beyond::NOTHING));
        };
        let saved = self.saved_of_period(stage, &other);
        // The longest stage of the other pipeline may be rounded up by one unit.
        Ok((piece, Beyond { at_most: worth - least as f64 + 1.0, share: saved }))
    }

    /// The most that another pipeline saves of the time of one stage, as a share.
    fn saved_of_period(&self, stage: usize, other: &[Cut]) -> f64 {
        let own = self.cuts[stage];
        let (shared, computing) = (self.shared(stage, other) as f64, self.computing(stage) as f64);
        // The other's stage on the same processor; of its others the longest.
        let same = other.iter().position(|cut| cut.processor == own.processor);
        let others = self.lower.each(other).enumerate().filter(|(index, _)| Some(*index) != same);
        let longest = others.map(|(_, ns)| ns.unwrap_or(u64::MAX)).max().unwrap_or(0) as f64;
        let receive = |start: usize, slow: f64| self.receiving(stage, slow)[start].unwrap_or(0);
        let beside = |slow: f64| {
            let Some(index) = same else { return 0.0 };
            let cut = other[index];
            let prefix = self.lower.prefix(cut.processor);
            let before = index.checked_sub(1).map_or(self.lower.home, |b| other[b].processor);
            let received = if (before, cut.processor) == self.pair(stage) {
                receive(cut.from, slow)
            } else {
                self.lower.receive(before, cut.processor, cut.from).unwrap_or(0)
            };
            received.saturating_add(prefix[cut.to] - prefix[cut.from]) as f64
        };
        // At either end of the link, and where both stages of the other pipeline take as long: with
        // the operators that both pipelines have there at either end.
        let (fast, slow) = (beside(0.0), beside(1.0));
        let meets =
            |shared: f64| ((longest - shared - fast) / (slow - fast).max(1.0)).clamp(0.0, 1.0);
        let at = |slow: f64| {
            let beside = beside(slow);
            let raised = (longest - beside).clamp(0.0, shared);
            let paid = computing - shared + raised + receive(own.from, slow) as f64;
            saved(paid, longest.max(beside + raised))
        };
        [0.0, 1.0, meets(0.0), meets(shared)].into_iter().map(at).fold(0.0, f64::max)
    }

    /// Times of receiving over the link of a stage, a share of the way to its slow end.
    fn receiving(&self, stage: usize, slow: f64) -> Vec<Option<u64>> {
        let pair = self.pair(stage);
        let between =
            |(low, high): (&Option<u64>, &Option<u64>)| Some(blended((*low)?, (*high)?, slow));
        self.lower.link(pair).iter().zip(self.upper.link(pair)).map(between).collect()
    }

    /// Time of the operators of a stage at their upper ends.
    fn computing(&self, stage: usize) -> u64 {
        let Cut { processor, from, to } = self.cuts[stage];
        let prefix = self.lower.prefix(processor);
        let low = prefix[to] - prefix[from];
        low.saturating_add(self.lower.range(self.upper, processor, from..to))
    }

    /// By how much the time of those operators of a stage varies that another pipeline has on the
    /// same processor.
    fn shared(&self, stage: usize, other: &[Cut]) -> u64 {
        let own = self.cuts[stage];
        let same = other.iter().find(|cut| cut.processor == own.processor);
        same.map_or(0, |cut| {
            let (from, to) = (own.from.max(cut.from), own.to.min(cut.to));
            self.lower.range(self.upper, own.processor, from..to.max(from))
        })
    }
}

fn saved(paid: f64, other: f64) -> f64 {
    if paid > other { (paid - other) / paid } else { 0.0 }
}

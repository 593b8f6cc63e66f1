//! Rounds of queries: they arrive by the schedule, and take the way that is expected to end first.

use super::{
    super::{Outcome, RunEvent, routes::Route, schedule::Schedule, session::apart},
    Query, Runtime,
    switching::levels,
};
use vitempo_planners::multi_dnn::{Admission, Arrival, Expectation, MOST_QUERIES};
use vitempo_profiler::live::Report;

/// Interval of checks for an interruption, ns.
const SLICE_NS: u64 = 50_000_000;

impl Runtime<'_> {
    pub fn rounds(&mut self, schedule: &Schedule) {
        for (round, arrivals) in schedule.rounds.iter().cycle().enumerate() {
            let begun_ns = self.pieces.now_ns();
            let over = match schedule.repeated_until_ns {
                Some(until_ns) => begun_ns >= until_ns || self.queries.len() >= MOST_QUERIES,
                None => round >= schedule.rounds.len(),
            };
            if over {
                break;
            }
            if self.interrupted() {
                self.is_cut_short = true;
                break;
            }
            self.events.push(RunEvent::Round { round, at_ns: begun_ns });
            self.round(round, begun_ns, arrivals);
        }
        for (lane, last) in self.last.iter().enumerate() {
            let found = last.as_ref().and_then(|last| last.read().ok());
            let found = found.and_then(|found| apart(&self.wholes[lane], &found));
            let most = Some(self.session.tolerances[lane]);
            let event = |(share, output)| RunEvent::Apart { lane, share, output, most };
            self.events.extend(found.map(event));
        }
        self.events.push(RunEvent::End {
            at_ns: self.pieces.now_ns(),
            interrupted: self.is_cut_short,
            largest_bytes: self.memory.largest_bytes(),
        });
    }

    /// Lets the queries of a round arrive, and waits until all have ended.
    fn round(&mut self, round: usize, begun_ns: u64, arrivals: &[Arrival]) {
        self.expected = Expectation::default();
        let mut arriving = arrivals.iter().peekable();
        loop {
            let now = self.pieces.now_ns();
            if self.interrupted() && arriving.peek().is_some() {
                self.is_cut_short = true;
                arriving = [].iter().peekable();
            }
            if let Some(arrival) = arriving.next_if(|a| begun_ns.saturating_add(a.at_ns) <= now) {
                self.arrive(round, begun_ns, arrival);
                continue;
            }
            let next = arriving.peek().map(|arrival| begun_ns.saturating_add(arrival.at_ns));
            if next.is_none() && self.queues.is_idle() {
                return;
            }
            let until = next.unwrap_or(u64::MAX).min(now.saturating_add(SLICE_NS));
            match self.pieces.next(until) {
                Some(Report::Finished(finished)) => self.finished(finished),
                Some(Report::Unloaded(unloaded)) => self.unloaded(unloaded),
                None if !self.held.is_empty() => self.start_all(Vec::new()),
                None => {}
            }
        }
    }

    /// The lane of a query: of the ways of the task's level, else of all levels, those whose engines
    /// are there.
    fn choose(&mut self, task: usize, at_ns: u64) -> Option<usize> {
        let (queues, level) = (&self.queues, self.levels.level(task));
        let is_there =
            |route: &Route| route.lane.steps.iter().all(|step| !queues.is_lost(step.processor));
        let own = |route: &Route| route.level == level && is_there(route);
        let expected = &mut self.expected;
        let chosen = self.routes.choose(expected, task, at_ns, own);
        chosen.or_else(|| self.routes.choose(expected, task, at_ns, is_there))
    }

    fn arrive(&mut self, round: usize, begun_ns: u64, arrival: &Arrival) {
        let Arrival { at_ns, task } = *arrival;
        let arrived_ns = begun_ns.saturating_add(at_ns);
        let phase = self.routes.phase(at_ns);
        if phase != self.phase {
            self.phase = phase;
            let from_ns = self.plan.phases[phase].from_ns;
            let at_ns = begun_ns.saturating_add(from_ns);
            self.events.push(RunEvent::Phase { phase, at_ns });
            self.levels = levels(self.routes, phase);
        }
        let lane = self.choose(task, at_ns);
        let query = self.queries.len();
        self.queries.push(Query {
            round,
            task,
            lane: lane.unwrap_or(usize::MAX),
            arrived_ns,
            ready_ns: self.pieces.now_ns(),
            dispatched_ns: 0,
            pieces: Vec::new(),
            values: self.session.tensors[task].clone(),
            ended: false,
        });
        let mut starts = Vec::new();
        let admission =
            lane.map_or(Admission::Lost, |lane| self.queues.arrive(lane, query, &mut starts));
        match admission {
            Admission::Admitted => self.start_all(starts),
            Admission::Full => {
                let reason = format!("{} queries wait for its processor", self.options.bound);
                self.give_up(query, Outcome::Refused, &reason);
            }
            Admission::Lost => self.give_up(query, Outcome::Lost, "its engine has ended"),
        }
    }
}

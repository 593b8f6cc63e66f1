//! [`Placements`] of a multi-task model: forecast, simulated and measured times, and the regret of
//! the choice.
//!
//! The speed of a shared machine changes within minutes. A simulation is therefore compared with a
//! run round by round, with costs measured just before that run; the figures are medians over the
//! rounds. Times are in ns.

use vitempo_graph::Budget;
use vitempo_planners::{
    Regret,
    cost::Interval,
    pipeline::{
        Simulation,
        multitask::{Execution, MultiTask, Schedule, eta, percent_of_maximum},
    },
    simulator::StreamOutcome,
};
use vitempo_predictors::metrics;

/// One placement.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The processor of each part, with forecast times.
    pub schedule: Schedule,
    /// Its results, one per round.
    pub rounds: Vec<Round>,
}

/// The result of a placement in one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// In the simulator.
    pub simulated: StreamOutcome,
    /// On engines, where there are some.
    pub live: Option<StreamOutcome>,
    /// Difference of the results from the whole model's, as a share of the largest value.
    pub apart: Option<f64>,
}

impl Round {
    /// The measured result, or else the simulated one.
    fn outcome(&self) -> &StreamOutcome {
        self.live.as_ref().unwrap_or(&self.simulated)
    }

    fn error(&self) -> Option<f64> {
        Some(self.simulated.period_ns()? / self.live.as_ref()?.period_ns()? - 1.0)
    }
}

impl Placed {
    /// Forecast period, ns.
    #[must_use]
    pub fn forecast_ns(&self) -> f64 {
        self.schedule.period_ns.point() as f64
    }

    /// Simulated period, ns.
    #[must_use]
    pub fn simulated_ns(&self) -> Option<f64> {
        self.median(|round| round.simulated.period_ns())
    }

    /// Measured period, ns; `None` without engines.
    #[must_use]
    pub fn live_ns(&self) -> Option<f64> {
        self.median(|round| round.live.as_ref().and_then(StreamOutcome::period_ns))
    }

    /// Difference of the simulated from the measured period, as a share of it.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.median(Round::error)
    }

    /// Quantile of latency at this share of frames, measured or else simulated; ns.
    #[must_use]
    pub fn latency_ns(&self, share: f64) -> Option<f64> {
        self.median(|round| round.outcome().latency_quantile(share).map(|ns| ns as f64))
    }

    /// Share of frames that are late, as measured, else as simulated.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        self.median(|round| Some(1.0 - round.outcome().deadline_success_rate())).unwrap_or(0.0)
    }

    /// Difference of the results from the whole model's, as a share of the largest value.
    #[must_use]
    pub fn apart(&self) -> Option<f64> {
        self.median(|round| round.apart)
    }

    /// Median of a figure over the rounds that have it.
    #[must_use]
    pub fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        metrics::median(&self.rounds.iter().filter_map(of).collect::<Vec<f64>>())
    }
}

/// Every placement, least forecast period first.
#[derive(Clone, Debug)]
pub struct Placements {
    /// Costs of the parts.
    pub model: MultiTask,
    /// The placements.
    pub rows: Vec<Placed>,
    /// The simulator's parameters; its slowdown is empty without engines, and otherwise by
    /// processor the factor by which the encoder is slower while all others run it as well.
    pub simulation: Simulation,
    /// The search that these are the best of.
    pub search: Search,
    /// By processor, the latency of the undivided model in one session, ns; empty where it is not
    /// known.
    pub whole_ns: Vec<Option<Interval>>,
    /// The most by which another placement may have a shorter period than the chosen one, if each
    /// cost takes any value in its interval; `None` where it was not computed.
    pub cost_regret: Option<Regret>,
}

/// The extent of the search for the best placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Ways to place the parts, one frame after the other or overlapped.
    pub placements: u128,
    /// Whether all of them were tried.
    pub is_complete: bool,
    /// No placement has a shorter forecast period, ns.
    pub at_least_ns: u64,
}

impl Search {
    /// The most by which a period may be above the best, as a share of that bound.
    #[must_use]
    pub fn gap(&self, period_ns: f64) -> f64 {
        (period_ns / self.at_least_ns.max(1) as f64 - 1.0).max(0.0)
    }
}

impl Placements {
    /// Sorts placements by their forecast period, then by their forecast latency.
    #[must_use]
    pub fn new(
        model: MultiTask,
        mut rows: Vec<Placed>,
        simulation: Simulation,
        search: Search,
    ) -> Self {
        rows.sort_by_key(|row| (row.schedule.period_ns.point(), row.schedule.latency_ns.point()));
        Self { model, rows, simulation, search, whole_ns: Vec::new(), cost_regret: None }
    }

    /// With the latencies of the undivided model.
    #[must_use]
    pub fn with_whole(self, whole_ns: Vec<Option<Interval>>) -> Self {
        Self { whole_ns, ..self }
    }

    /// With the regret of the first placement against all placements of both executions.
    #[must_use]
    pub fn with_cost_regret(self, budget: &Budget) -> Self {
        let regret = |row: &Placed| self.model.regret(&row.schedule, Execution::Pipelined, budget);
        let cost_regret = self.rows.first().map(regret);
        Self { cost_regret, ..self }
    }

    /// By processor, the latency of all parts, one after the other, and of the undivided model, ns:
    /// the difference is what 1 + n sessions cost. `None` where a part does not run.
    #[must_use]
    pub fn sessions(&self) -> Vec<Option<(Interval, Interval)>> {
        let of = |(processor, whole): (usize, &Option<Interval>)| {
            let parts: Option<Interval> =
                self.model.parts().map(|part| part.latency_ns.get(processor).copied()?).sum();
            Some((parts?, (*whole)?))
        };
        self.whole_ns.iter().enumerate().map(of).collect()
    }

    /// Share of an ideal halving of the period that overlapping attains, against the same parts one
    /// frame after the other: 2 (1 - pipelined / sequential). Both as measured, else as simulated;
    /// `None` for a placement that does not overlap.
    #[must_use]
    pub fn eta(&self, row: &Placed) -> Option<f64> {
        let is_same = |other: &&Placed| {
            other.schedule.execution == Execution::Sequential
                && other.schedule.places() == row.schedule.places()
        };
        if row.schedule.execution != Execution::Pipelined {
            return None;
        }
        let sequential = self.rows.iter().find(is_same)?;
        let periods = match (row.live_ns(), sequential.live_ns()) {
            (Some(own), Some(other)) => (own, other),
            _ => (row.simulated_ns()?, sequential.simulated_ns()?),
        };
        Some(eta(percent_of_maximum(1e9 / periods.0, periods.1 / 1e6)))
    }

    /// Regret of the placement of least forecast period: its measured period beyond that of the
    /// best measured one, as a share of it; and that best one.
    #[must_use]
    pub fn regret(&self) -> Option<(f64, &Placed)> {
        let measured = self.rows.iter().filter_map(|row| Some((row.live_ns()?, row)));
        let (best_ns, best) = measured.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((self.rows.first()?.live_ns()? / best_ns - 1.0, best))
    }

    /// Differences of simulated from measured periods, as shares: their mean and the largest;
    /// `None` if nothing was measured.
    #[must_use]
    pub fn errors(&self) -> Option<(f64, f64)> {
        let errors: Vec<f64> = self.rows.iter().filter_map(Placed::error).map(f64::abs).collect();
        let largest = errors.iter().copied().reduce(f64::max)?;
        Some((errors.iter().sum::<f64>() / errors.len() as f64, largest))
    }

    /// The largest difference of any placement's results from the whole model's.
    #[must_use]
    pub fn apart(&self) -> Option<f64> {
        let rounds = self.rows.iter().flat_map(|row| &row.rounds);
        rounds.filter_map(|round| round.apart).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_planners::pipeline::Tasks;

    fn nothing() -> Tasks {
        Tasks { part_of: Vec::new(), names: Vec::new(), postprocessing: Vec::new() }
    }

    #[test]
    fn one_more_session_costs_what_the_parts_take_beyond_the_whole() {
        let names = ["encoder", "decoder"].map(str::to_owned).to_vec();
        let mut model = MultiTask::of_tasks("m", &Tasks { names, ..nothing() });
        let exact = |ns| Some(Interval::exact(ns));
        model.add_processor("a", &[exact(5), exact(4)], &|_| exact(0));
        model.add_processor("b", &[exact(5), None], &|_| exact(0));
        let all = Placements::new(model, Vec::new(), Simulation::plain(), SEARCH)
            .with_whole(vec![exact(7), exact(8)]);
        assert_eq!(all.sessions(), [Some((Interval::exact(9), Interval::exact(7))), None]);
    }

    /// A stream with a result every `period_ns`.
    fn outcome(period_ns: u64) -> StreamOutcome {
        StreamOutcome {
            name: "frames".to_owned(),
            completed: 3,
            dropped: 0,
            latency_ns: vec![2 * period_ns; 3],
            completed_ns: (1..=3).map(|frame| frame * period_ns).collect(),
            late: 0,
        }
    }

    /// A placement of a forecast period, with simulated and measured periods of each round.
    fn placed(forecast_ns: u64, execution: Execution, rounds: &[(u64, u64)]) -> Placed {
        let schedule = Schedule {
            encoder: 0,
            decoders: vec![0],
            postprocessing: Vec::new(),
            execution,
            encoder_ns: Interval::exact(forecast_ns),
            decoders_ns: Interval::exact(forecast_ns),
            postprocessing_ns: Interval::ZERO,
            period_ns: Interval::exact(forecast_ns),
            latency_ns: Interval::exact(2 * forecast_ns),
        };
        let round = |&(simulated, live): &(u64, u64)| Round {
            simulated: outcome(simulated),
            live: Some(outcome(live)),
            apart: Some(1.0 / live as f64),
        };
        Placed { schedule, rounds: rounds.iter().map(round).collect() }
    }

    fn near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn figures_are_medians_over_rounds() {
        let rounds = [(110, 100), (260, 200), (300, 400)];
        let row = placed(100, Execution::Pipelined, &rounds);
        assert!(near(row.live_ns(), 200.0) && near(row.simulated_ns(), 260.0));
        assert!(near(row.error(), 0.1), "errors are +10 %, +30 % and -25 %");
        assert!(near(row.latency_ns(0.5), 400.0) && near(row.apart(), 1.0 / 200.0));
        assert!(row.late_share().abs() < 1e-12);
    }

    const SEARCH: Search = Search { placements: 2, is_complete: true, at_least_ns: 100 };

    #[test]
    fn eta_is_a_share_of_halving_the_period() {
        let eta = |sequential: u64, pipelined: u64| {
            let rows = vec![
                placed(100, Execution::Pipelined, &[(7, pipelined)]),
                placed(101, Execution::Sequential, &[(9, sequential)]),
            ];
            let all = Placements::new(
                MultiTask::of_tasks("m", &nothing()),
                rows,
                Simulation::plain(),
                SEARCH,
            );
            assert_eq!(all.eta(&all.rows[1]), None);
            all.eta(&all.rows[0])
        };
        assert!(near(eta(200, 100), 1.0), "half the period");
        assert!(near(eta(200, 200), 0.0), "nothing gained, as with a camera slower than both");
        assert!(near(eta(200, 150), 0.5));
    }

    #[test]
    fn regret_is_against_the_best_placement_measured() {
        let rows = vec![
            placed(120, Execution::Sequential, &[(100, 100)]),
            placed(100, Execution::Sequential, &[(100, 125)]),
        ];
        let all = Placements::new(
            MultiTask::of_tasks("m", &nothing()),
            rows,
            Simulation::plain(),
            SEARCH,
        );
        assert!(near(Some(all.rows[0].forecast_ns()), 100.0), "least forecast period first");
        let (regret, best) = all.regret().expect("measured placements");
        assert!(near(Some(regret), 0.25) && near(best.live_ns(), 100.0));
        let (mean, largest) = all.errors().expect("measured placements");
        assert!(near(Some(mean), 0.1) && near(Some(largest), 0.2));
        assert!(near(all.apart(), 0.01));
    }
}

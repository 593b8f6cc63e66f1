//! [`score`]: how far forecasts are off, and how much worse than the best measured placement those
//! are that planners choose. The cost model: a frame's latency is the sum over its parts, the
//! period is the busy time of the busiest engine. Every part may take a hand-over more: what runs of
//! the other models on one engine took beyond their parts alone.

use super::{Division, ModelRecord, PlacementRecord, Record};
use serde::Serialize;
use vitempo::{graph::median, predictors::metrics, search::spearman};

/// What a placement is to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// From a frame to its result, one frame after the other.
    Latency,
    /// From result to result.
    Period,
}

/// How a placement is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planner {
    /// By the bundles' forecasts.
    Forecasts,
    /// By the measured times of the parts alone.
    MeasuredCosts,
    /// By FLOPs, as if all engines were equally fast.
    Flops,
    /// All parts on the first engine.
    Default,
}

impl Planner {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Forecasts, Self::MeasuredCosts, Self::Flops, Self::Default];
}

impl Goal {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Latency, Self::Period];

    /// The cost of a placement whose parts cost this, ns.
    fn cost(self, placement: &PlacementRecord, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let mut busy = vec![0.0; placement.engines.iter().max().map_or(0, |most| most + 1)];
        for (part, &engine) in placement.engines.iter().enumerate() {
            busy[engine] += cost(part, engine);
        }
        match self {
            Self::Latency => busy.iter().sum(),
            Self::Period => busy.into_iter().fold(0.0, f64::max),
        }
    }

    /// One value per round, ns.
    fn rounds(self, placement: &PlacementRecord) -> Vec<f64> {
        let period = |completed: &Vec<u64>| -> Option<f64> {
            let (first, last) = (completed.first()?, completed.last()?);
            let count = completed.len().checked_sub(1).filter(|&count| count > 0)?;
            Some(last.saturating_sub(*first) as f64 / count as f64)
        };
        match self {
            Self::Latency => placement.latency_ns.iter().filter_map(|of| median(of)).collect(),
            Self::Period => placement.completed_ns.iter().filter_map(period).collect(),
        }
    }

    /// The median over rounds, ns; NaN without rounds.
    fn measured(self, placement: &PlacementRecord) -> f64 {
        metrics::median(&self.rounds(placement)).unwrap_or(f64::NAN)
    }
}

/// Scores of one model in one number of parts, for one goal. Shares are of 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The model.
    pub model: String,
    /// Number of parts.
    pub parts: usize,
    /// What is minimised.
    pub goal: Goal,
    /// The hand-over that forecasts and measured costs of each part contain, mean over engines, ns;
    /// `None`: none.
    pub hand_over_ns: Option<f64>,
    /// Mean error of forecasts of a part alone on an engine.
    pub part_error: f64,
    /// Mean error of forecasts of a placement.
    pub forecast_error: f64,
    /// Mean error of placements' costs from the measured parts.
    pub cost_error: f64,
    /// Rank correlation of forecast and measured placements; `None` where all are equal.
    pub rank_correlation: Option<f64>,
    /// By planner, in the order of [`Planner::ALL`]: how much worse than the best measured
    /// placement its choice was measured. Where a planner finds several equally good, their mean.
    pub regret: [f64; 4],
    /// Mean difference of two rounds of one placement: the noise floor; `None` with one round.
    pub noise: Option<f64>,
}

/// Scores of everything that was measured, without hand-over and with it.
#[must_use]
pub fn score(record: &Record) -> Vec<Scores> {
    score_models(&record.models, record.engines.len())
}

fn score_models(models: &[ModelRecord], engines: usize) -> Vec<Scores> {
    let mut scores = Vec::new();
    for ModelRecord { model, divisions } in models {
        let others: Vec<&ModelRecord> = models.iter().filter(|of| of.model != *model).collect();
        let hand_over = (!others.is_empty()).then(|| hand_over(&others, engines));
        for (division, goal) in divisions.iter().flat_map(|d| Goal::ALL.map(|goal| (d, goal))) {
            scores.push(Scored { division, goal, hand_over: None }.scores(model));
            if let Some(ns) = &hand_over {
                scores.push(Scored { division, goal, hand_over: Some(ns) }.scores(model));
            }
        }
    }
    scores
}

/// What one part costs beyond its time alone, by engine, ns: the median over placements on one
/// engine; zero without any.
fn hand_over(models: &[&ModelRecord], engines: usize) -> Vec<f64> {
    let mut beyond = vec![Vec::new(); engines];
    for division in models.iter().flat_map(|model| &model.divisions) {
        for placement in &division.placements {
            let Some(&engine) = placement.engines.first() else { continue };
            if placement.engines.iter().all(|&other| other == engine) {
                let alone = Goal::Latency
                    .cost(placement, |part, on| division.cost(Planner::MeasuredCosts, part, on));
                let parts = placement.engines.len() as f64;
                beyond[engine].push((Goal::Latency.measured(placement) - alone) / parts);
            }
        }
    }
    beyond.iter().map(|of| metrics::median(of).map_or(0.0, |ns| ns.max(0.0))).collect()
}

/// A division to be scored for a goal.
#[derive(Clone, Copy)]
struct Scored<'a> {
    division: &'a Division,
    goal: Goal,
    /// By engine, ns for each part, if it counts.
    hand_over: Option<&'a [f64]>,
}

impl Scored<'_> {
    fn scores(self, model: &str) -> Scores {
        let Self { division, goal, .. } = self;
        let placements = &division.placements;
        let measured: Vec<f64> = placements.iter().map(|p| goal.measured(p)).collect();
        let (forecast, costs) = (self.by(Planner::Forecasts), self.by(Planner::MeasuredCosts));
        Scores {
            model: model.to_owned(),
            parts: division.parts.len(),
            goal,
            hand_over_ns: self.hand_over.and_then(|ns| mean(ns.iter().copied())),
            part_error: division.part_error(),
            forecast_error: error(&measured, &forecast),
            cost_error: error(&measured, &costs),
            rank_correlation: spearman(&forecast, &measured),
            regret: Planner::ALL.map(|planner| match planner {
                Planner::Default => regret(&measured, |index| {
                    placements[index].engines.iter().all(|&engine| engine == 0)
                }),
                _ => regret(&measured, is_least(&self.by(planner))),
            }),
            noise: noise(goal, placements),
        }
    }

    /// The cost of each placement, as a planner has it.
    fn by(self, planner: Planner) -> Vec<f64> {
        let in_time = matches!(planner, Planner::Forecasts | Planner::MeasuredCosts);
        let cost = |part: usize, engine: usize| {
            let hand_over = self.hand_over.filter(|_| in_time).map_or(0.0, |ns| ns[engine]);
            self.division.cost(planner, part, engine) + hand_over
        };
        self.division.placements.iter().map(|p| self.goal.cost(p, cost)).collect()
    }
}

impl Division {
    /// The cost of a part on an engine, as a planner has it.
    fn cost(&self, planner: Planner, part: usize, engine: usize) -> f64 {
        let part = &self.parts[part];
        match planner {
            Planner::Forecasts => part.forecast_ns[engine].point() as f64,
            Planner::MeasuredCosts => median(&part.measured_ns[engine]).unwrap_or(f64::NAN),
            Planner::Flops | Planner::Default => part.flops as f64,
        }
    }

    fn part_error(&self) -> f64 {
        let pairs = self.parts.iter().flat_map(|part| {
            let measured = part.measured_ns.iter().map(|of| median(of).unwrap_or(f64::NAN));
            measured.zip(part.forecast_ns.iter().map(|ns| ns.point() as f64))
        });
        let (measured, forecast): (Vec<f64>, Vec<f64>) = pairs.unzip();
        error(&measured, &forecast)
    }
}

/// Mean absolute error, as a share of what was measured; NaN without values.
fn error(measured: &[f64], predicted: &[f64]) -> f64 {
    metrics::mape(measured, predicted).map_or(f64::NAN, |percent| percent / 100.0)
}

/// Whether a placement's cost is the least one.
fn is_least(costs: &[f64]) -> impl Fn(usize) -> bool + '_ {
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    move |index| costs[index] <= least
}

/// Mean of the chosen placements over the best one, less 1.
fn regret(measured: &[f64], is_chosen: impl Fn(usize) -> bool) -> f64 {
    let chosen: Vec<f64> = (0..measured.len())
        .filter(|&index| is_chosen(index))
        .map(|index| measured[index])
        .collect();
    let best = measured.iter().copied().fold(f64::INFINITY, f64::min);
    mean(chosen).unwrap_or(f64::NAN) / best - 1.0
}

fn noise(goal: Goal, placements: &[PlacementRecord]) -> Option<f64> {
    let differences = placements.iter().flat_map(|placement| {
        let rounds = goal.rounds(placement);
        let pairs: Vec<f64> = rounds
            .windows(2)
            .map(|pair| 2.0 * (pair[0] - pair[1]).abs() / (pair[0] + pair[1]))
            .collect();
        pairs
    });
    mean(differences)
}

/// The mean; `None` without values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::{super::PartRecord, *};
    use vitempo::planners::cost::Interval;

    fn placement(engines: [usize; 2], latency: u64, period: u64) -> PlacementRecord {
        PlacementRecord {
            engines: engines.to_vec(),
            latency_ns: vec![vec![latency; 3], vec![latency; 3]],
            completed_ns: vec![vec![5, 5 + period, 5 + 2 * period]; 2],
            apart: None,
        }
    }

    /// The second engine is twice as fast, which FLOPs do not say and forecasts do.
    fn division() -> Division {
        let part = |ns: u64| PartRecord {
            flops: 10,
            forecast_ns: vec![Interval::exact(2 * ns), Interval::exact(ns)],
            measured_ns: vec![vec![2 * ns; 3], vec![ns; 3]],
        };
        Division {
            cuts: vec!["t".to_owned()],
            parts: vec![part(100), part(300)],
            placements: vec![
                placement([0, 0], 800, 800),
                placement([1, 0], 700, 600),
                placement([0, 1], 500, 300),
                placement([1, 1], 400, 400),
            ],
        }
    }

    fn scores(division: &Division, goal: Goal) -> Scores {
        Scored { division, goal, hand_over: None }.scores("m")
    }

    #[test]
    fn choices_are_compared_with_the_best_measured_placement() {
        let scores = Goal::ALL.map(|goal| scores(&division(), goal));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        for scores in &scores {
            assert!(near(scores.part_error, 0.0) && near(scores.forecast_error, 0.0));
            assert!(near(scores.cost_error, 0.0) && scores.noise.is_some_and(|n| near(n, 0.0)));
            assert_eq!(scores.rank_correlation, Some(1.0));
        }
        let expected = [[0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.5, 5.0 / 3.0]];
        for (scores, expected) in scores.iter().zip(expected) {
            for (found, expected) in scores.regret.iter().zip(expected) {
                assert!(near(*found, expected), "{:?}: {:?}", scores.goal, scores.regret);
            }
        }
    }

    #[test]
    fn wrong_forecasts_have_errors_and_regret() {
        let mut division = division();
        for part in &mut division.parts {
            part.forecast_ns.reverse();
        }
        let scores = scores(&division, Goal::Latency);
        // Half and twice: |100 - 200| / 200 and |200 - 100| / 100.
        assert!((scores.part_error - 0.75).abs() < 1e-12, "{}", scores.part_error);
        assert_eq!(scores.rank_correlation, Some(-1.0));
        assert!((scores.regret[0] - 1.0).abs() < 1e-12 && scores.regret[1].abs() < 1e-12);
    }

    #[test]
    fn rounds_that_differ_are_the_noise() {
        let mut division = division();
        for placement in &mut division.placements {
            placement.latency_ns[1].iter_mut().for_each(|ns| *ns = *ns * 3 / 2);
        }
        let scores = scores(&division, Goal::Latency);
        assert!(
            scores.noise.is_some_and(|noise| (noise - 0.4).abs() < 1e-12),
            "{:?}",
            scores.noise
        );
    }

    /// Each part takes 50 ns more on the second engine than alone.
    #[test]
    fn the_hand_over_of_a_part_is_that_of_the_other_models() {
        let mut division = division();
        for placement in &mut division.placements {
            let more = 50 * placement.engines.iter().sum::<usize>() as u64;
            placement.latency_ns.iter_mut().flatten().for_each(|ns| *ns += more);
        }
        let model =
            |name: &str| ModelRecord { model: name.to_owned(), divisions: vec![division.clone()] };
        let models = [model("m"), model("n")];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let found = hand_over(&models.iter().collect::<Vec<_>>(), 3);
        assert!(near(found[0], 0.0) && near(found[1], 50.0) && near(found[2], 0.0), "{found:?}");

        let scored = score_models(&models, 2);
        let latency = |is_in: bool| {
            let of = |s: &&Scores| s.goal == Goal::Latency && s.hand_over_ns.is_some() == is_in;
            scored.iter().find(of).map_or(f64::NAN, |s| s.cost_error)
        };
        assert!(latency(false) > 0.05, "{}", latency(false));
        assert!(near(latency(true), 0.0), "{}", latency(true));
    }
}

//! Placements on engines: in each round the parts are measured alone and side by side, then a
//! placement is simulated with these costs and run. Times are in ns.

use super::{MultitaskError, Placed, Placements, Planning, Round};
use crate::plan::live::{LiveSession, LiveSessionError, Measured, interval};
use std::sync::Arc;
use vitempo_planners::{
    cost::Interval,
    pipeline::multitask::{Schedule, default_budget},
};
use vitempo_predictors::metrics;
use vitempo_profiler::{
    OutputValues,
    live::{Stage, Task},
    statistics,
};

/// Largest number of frames of an engine, as a multiple of the slowest engine's, while all run side
/// by side.
const MOST_BESIDE: usize = 50;
/// Ratio of the standard deviation to the median absolute deviation of normally distributed
/// samples.
const DEVIATIONS: f64 = 1.4826;

/// The placement that runs next.
#[derive(Clone, Copy, Debug)]
pub struct RoundProgress<'a> {
    /// Counted from 1.
    pub round: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// The placement.
    pub placement: &'a Placed,
    /// Names of the processors.
    pub processors: &'a [String],
}

/// Times of the parts on the engines, measured once or several times.
#[derive(Default)]
struct PartTimes {
    /// By engine and part, ns.
    samples: Vec<Vec<Vec<u64>>>,
    /// By engine, of the undivided model, ns; empty where a bundle forecasts it.
    whole: Vec<Vec<u64>>,
    /// Slowdown of each engine while all others work, one value per measurement.
    slowdowns: Vec<Vec<f64>>,
}

impl PartTimes {
    fn extend(&mut self, other: Self) {
        self.slowdowns.extend(other.slowdowns);
        if self.samples.is_empty() {
            self.samples = other.samples;
            self.whole = other.whole;
            return;
        }
        let pairs = self.samples.iter_mut().flatten().zip(other.samples.into_iter().flatten());
        pairs.chain(self.whole.iter_mut().zip(other.whole)).for_each(|(own, new)| own.extend(new));
    }

    fn slowdown(&self, engine: usize) -> f64 {
        let of_engine = self.slowdowns.iter().filter_map(|of| of.get(engine).copied());
        metrics::median(&of_engine.collect::<Vec<f64>>()).unwrap_or(1.0)
    }

    /// Typical spread of one part on one engine.
    fn cv(&self) -> f64 {
        let spreads = self.samples.iter().flatten().map(|own| spread(own));
        metrics::median(&spreads.collect::<Vec<f64>>()).unwrap_or(0.0)
    }
}

impl Planning {
    /// Every placement with its forecast, simulated and run once per round, alternating with
    /// measurements of the parts. Costs are measured where no bundle forecasts them. `progress` is
    /// called before each run.
    ///
    /// # Errors
    /// [`MultitaskError::Live`] naming the processor without an engine, or the part that failed;
    /// [`MultitaskError::Cost`] where there are too many placements.
    pub fn measured(
        self,
        session: &LiveSession,
        rounds: usize,
        progress: &mut dyn FnMut(RoundProgress<'_>),
    ) -> Result<Placements, MultitaskError> {
        let mut all = self.part_times(session)?;
        let first = self.with(session, &all)?;
        let (mut rows, search) = first.placed()?;
        for round in 1..=rounds {
            for row in &mut rows {
                let processors = &first.model.processors;
                progress(RoundProgress { round, rounds, placement: row, processors });
                let times = self.part_times(session)?;
                let now = self.with(session, &times)?;
                all.extend(times);
                row.rounds.push(now.round(session, &row.schedule)?);
            }
        }
        let last = self.with(session, &all)?;
        for row in &mut rows {
            row.schedule = last.renewed(&row.schedule)?;
        }
        let placements = Placements::new(last.model, rows, last.simulation, search);
        Ok(placements.with_whole(last.whole_ns).with_cost_regret(&default_budget()))
    }

    /// Measures the times of the parts on the engines, and how much engines slow each other down.
    fn part_times(&self, session: &LiveSession) -> Result<PartTimes, LiveSessionError> {
        let frames = session.frames();
        let parts: Vec<usize> = (0..self.model.parts().count()).collect();
        let values = session.computed(&parts, 0)?;
        let on_engine = |engine: usize| {
            let alone = |&part: &usize| session.alone(part, engine, &values, frames);
            parts.iter().map(alone).collect::<Result<Vec<_>, LiveSessionError>>()
        };
        let engines = 0..session.engines().len();
        let samples =
            engines.clone().map(on_engine).collect::<Result<Vec<_>, LiveSessionError>>()?;
        let whole = match self.model.processors.is_empty() {
            true => {
                engines.map(|engine| session.whole(engine, frames)).collect::<Result<_, _>>()?
            }
            false => Vec::new(),
        };
        let slowdown = side_by_side(session, &values, &samples)?;
        Ok(PartTimes { samples, whole, slowdowns: vec![slowdown] })
    }

    /// The same with measured costs where no bundle forecasts them, and with the measured
    /// slowdowns.
    fn with(&self, session: &LiveSession, times: &PartTimes) -> Result<Self, LiveSessionError> {
        let mut with = self.clone();
        if self.model.processors.is_empty() {
            with.whole_ns = times.whole.iter().map(|samples| interval(samples)).collect();
            for (engine, own) in session.engines().iter().zip(&times.samples) {
                let latencies: Vec<Option<Interval>> =
                    own.iter().map(|samples| interval(samples)).collect();
                with.model.add_processor(&engine.name, &latencies, &|_| Some(Interval::ZERO));
            }
        }
        with.simulation.cv = times.cv();
        let slowdown = |name: &String| session.engine(name).map(|engine| times.slowdown(engine));
        with.simulation.slowdown =
            with.model.processors.iter().map(slowdown).collect::<Result<_, _>>()?;
        Ok(with)
    }

    /// One placement, simulated and run.
    fn round(&self, session: &LiveSession, schedule: &Schedule) -> Result<Round, MultitaskError> {
        let (schedule, simulated) = self.simulate(schedule)?;
        let Measured { outcome, apart } = session.measure(&self.stages(session, &schedule)?)?;
        Ok(Round { simulated, live: Some(outcome), apart })
    }

    /// The stages of a placement, with engines instead of processors.
    fn stages(
        &self,
        session: &LiveSession,
        schedule: &Schedule,
    ) -> Result<Vec<Stage>, LiveSessionError> {
        let engines = self.model.processors.iter().map(|name| session.engine(name));
        let engines = engines.collect::<Result<Vec<usize>, _>>()?;
        let task = |&(part, processor): &(usize, usize)| Task {
            part,
            processor: engines.get(processor).copied().unwrap_or(processor),
        };
        let step = |tasks: &Vec<(usize, usize)>| tasks.iter().map(task).collect();
        let stage = |(index, steps): (usize, Vec<Vec<(usize, usize)>>)| Stage {
            name: format!("stage {}", index + 1),
            queue: self.simulation.queue,
            steps: steps.iter().map(step).collect(),
        };
        Ok(schedule.stages().into_iter().enumerate().map(stage).collect())
    }
}

/// The factor by which the encoder is slower on each engine while all others run it as well; at
/// least 1.
fn side_by_side(
    session: &LiveSession,
    values: &[Arc<OutputValues>],
    alone: &[Vec<Vec<u64>>],
) -> Result<Vec<f64>, LiveSessionError> {
    let encoder = |parts: &Vec<Vec<u64>>| parts.first().and_then(|own| statistics::median(own));
    let typical: Vec<f64> = alone.iter().map(|parts| encoder(parts).unwrap_or(1.0)).collect();
    if typical.len() < 2 {
        return Ok(vec![1.0; typical.len()]);
    }
    let (frames, longest) = (session.frames(), typical.iter().copied().fold(0.0, f64::max));
    let beside = std::thread::scope(|scope| {
        let start = |(engine, own): (usize, &f64)| {
            let as_long_as_others = (frames as f64 * longest / own.max(1.0)).ceil() as usize;
            let frames = as_long_as_others.clamp(frames, MOST_BESIDE * frames);
            scope.spawn(move || session.alone(0, engine, values, frames))
        };
        let threads: Vec<_> = typical.iter().enumerate().map(start).collect();
        let ended = |_| Err(LiveSessionError::Ended);
        let threads = threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended));
        threads.collect::<Result<Vec<_>, LiveSessionError>>()
    })?;
    session.go_on()?;
    let slowdown = |(samples, own): (&Vec<u64>, &f64)| {
        (statistics::median(samples).unwrap_or(*own) / own).max(1.0)
    };
    Ok(beside.iter().zip(&typical).map(slowdown).collect())
}

/// Robust coefficient of variation: 1.4826 median absolute deviations over the median.
fn spread(samples: &[u64]) -> f64 {
    let deviation = statistics::median_absolute_deviation(samples).unwrap_or(0.0);
    DEVIATIONS * deviation / statistics::median(samples).unwrap_or(1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_several_rounds_are_taken_together() {
        assert!(spread(&[5, 5, 5]).abs() < 1e-12);
        let times = |ns: u64, slowdown: f64| PartTimes {
            samples: vec![vec![vec![ns, ns]]],
            whole: vec![vec![ns]],
            slowdowns: vec![vec![slowdown]],
        };
        let mut all = PartTimes::default();
        assert!((all.slowdown(0) - 1.0).abs() < 1e-12);
        for (ns, slowdown) in [(10, 1.5), (20, 1.1), (30, 1.2)] {
            all.extend(times(ns, slowdown));
        }
        assert_eq!(all.samples, [[[10, 10, 20, 20, 30, 30]]]);
        assert_eq!(all.whole, [[10, 20, 30]]);
        assert!((all.slowdown(0) - 1.2).abs() < 1e-12);
        assert!((all.cv() - DEVIATIONS * 10.0 / 20.0).abs() < 1e-12);
    }
}

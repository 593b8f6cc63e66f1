//! A placement of a multi-task model as a plan to print.

use super::{Execution, MultiTask, Part, Schedule, TransferTimes, default_budget};
use crate::{
    Evidence, Optimality, Plan, Predicted, Stage, Transfer,
    cost::{CostError, Interval},
    energy::Running,
};
use std::collections::BTreeSet;

impl MultiTask {
    /// By part, in the order of [`MultiTask::parts`]: its processor in a placement, and its time
    /// there with what it receives, ns. `None` where the placement cannot run.
    #[must_use]
    pub fn part_times(&self, places: &[usize]) -> Option<Vec<(usize, Interval)>> {
        let one = |(index, &processor): (usize, &usize)| {
            let own = (*self.part(index)?.latency_ns.get(processor)?)?;
            Some((processor, self.received_ns(places, index)? + own))
        };
        let is_whole = places.len() == self.parts().count();
        places.iter().enumerate().map(one).collect::<Option<_>>().filter(|_| is_whole)
    }

    /// A placement as a plan to print. Its gap and its regret are against all placements of the same
    /// execution.
    ///
    /// # Errors
    /// As [`MultiTask::check`].
    pub fn plan(&self, schedule: &Schedule) -> Result<Plan, CostError> {
        self.check()?;
        let mut least = u64::MAX;
        let is_complete = self.each(schedule.execution, &default_budget(), |other| {
            least = least.min(other.period_ns.point());
        });
        if !is_complete {
            least = self.period_at_least(schedule.execution);
        }
        let gap = schedule.period_ns.point().saturating_sub(least) as f64 / least.max(1) as f64;
        let Running { stages, transfers, .. } = self.running(schedule);
        let predicted = Predicted {
            latency_ns: schedule.latency_ns,
            period_ns: Some(schedule.period_ns),
            device_energy_nj: None,
            frame: None,
        };
        Ok(Plan {
            model: self.model.clone(),
            stages,
            transfers,
            predicted,
            optimal: Optimality {
                minimised: "period".to_owned(),
                bounds: Vec::new(),
                cost_model: "decoders on one processor run one after the other, on several at the \
                    same time, postprocessing likewise after all of them; nothing slows down what \
                    runs beside it"
                    .to_owned(),
                gap,
            },
            regret: Some(self.regret(schedule, schedule.execution, &default_budget())),
            evidence: Evidence::CostModel,
        })
    }

    /// What runs for a frame of a placement.
    #[must_use]
    pub fn running(&self, schedule: &Schedule) -> Running {
        let name = |processor: usize| self.processors[processor].clone();
        let stage = |part: &Part, processor: usize| Stage {
            processor: name(processor),
            nodes: vec![part.name.clone()],
            latency_ns: part.latency_ns[processor].unwrap_or_default(),
            memory_bytes: 0,
        };
        let transfer =
            |from: usize, to: usize, what: &str, size_bytes: u64, times: &TransferTimes| Transfer {
                from: name(from),
                to: name(to),
                tensors: vec![what.to_owned()],
                size_bytes,
                latency_ns: times[from][to].unwrap_or_default(),
                setup_ns: 0,
            };
        let places = schedule.places();
        let arrivals = self.inputs.iter().flat_map(|inputs| {
            let first = (0..places.len()).filter(|&part| inputs.arrive_for(&places, part));
            first.map(|part| places[part]).map(|to| Transfer {
                from: name(0),
                to: name(to),
                tensors: vec!["inputs".to_owned()],
                size_bytes: inputs.size_bytes,
                latency_ns: inputs.arrival_ns[to].unwrap_or_default(),
                setup_ns: 0,
            })
        });
        let features = receivers(schedule).into_iter().map(|to| {
            let (from, times) = (schedule.encoder, &self.hand_over_ns);
            transfer(from, to, "features", self.features_bytes, times)
        });
        let after = self.postprocessing.iter().zip(&schedule.postprocessing);
        let predictions = after.filter_map(|(after, &to)| {
            let from = schedule.decoders[after.decoder];
            let (size, times) = (after.prediction_bytes, &after.hand_over_ns);
            (from != to).then(|| transfer(from, to, "prediction", size, times))
        });
        let overlaps = schedule.execution == Execution::Pipelined;
        Running {
            stages: self.parts().zip(&places).map(|(p, &at)| stage(p, at)).collect(),
            transfers: arrivals.chain(features).chain(predictions).collect(),
            latency_ns: schedule.latency_ns,
            period_ns: overlaps.then_some(schedule.period_ns),
        }
    }
}

/// The processors that receive the features.
pub(super) fn receivers(schedule: &Schedule) -> BTreeSet<usize> {
    schedule.decoders.iter().copied().filter(|&p| p != schedule.encoder).collect()
}

//! One encoder, several decoders, a few processors: [`Planning`] holds the costs of the parts, and
//! forecasts and simulates every placement ([`Planning::simulated`]). With the feature `profile`,
//! `Planning::measured` runs every placement on engines as well. [`Placements`] has the results.

#[cfg(feature = "profile")]
mod measured;
mod placements;

#[cfg(feature = "profile")]
pub use measured::RoundProgress;
pub use placements::{Placed, Placements, Round};

#[cfg(feature = "profile")]
use super::live::LiveSessionError;
use std::collections::BTreeSet;
use vitempo_graph::{Graph, LatencyModel, PredictionError, TensorSpec};
use vitempo_planners::{
    cost::{CostError, Interval},
    pipeline::{
        Simulation,
        multitask::{Execution, MultiTask, Schedule},
    },
    simulator::{ScenarioError, StreamOutcome, simulate},
};

/// Why placements cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MultitaskError {
    /// The costs are not consistent.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// A placement cannot be simulated.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A placement that ran before cannot run with the costs of another round.
    #[error("a part that ran before has no cost")]
    NoCost,
    /// An engine does not run a part.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Live(#[from] LiveSessionError),
}

/// Costs of the parts of a multi-task model, and the simulator's parameters.
#[derive(Clone, Debug)]
pub struct Planning {
    model: MultiTask,
    simulation: Simulation,
}

impl Planning {
    /// A model of these parts, the encoder first; without processors yet. `camera_fps` and
    /// `deadline_ns` are those of the frames that are simulated.
    #[must_use]
    pub fn new(
        model: &str,
        names: &[String],
        parts: &[Graph],
        camera_fps: Option<f64>,
        deadline_ns: Option<u64>,
    ) -> Self {
        let mut model = MultiTask::of_parts(model, names);
        model.features_bytes = features_bytes(parts);
        Self { model, simulation: Simulation { camera_fps, deadline_ns, ..Simulation::plain() } }
    }

    /// Size of what the encoder provides to the decoders, bytes.
    #[must_use]
    pub fn features_bytes(&self) -> u64 {
        self.model.features_bytes
    }

    /// Adds a processor whose latencies a bundle forecasts; `received_ns` is the time of a transfer
    /// of the features.
    ///
    /// # Errors
    /// As [`LatencyModel::predict`].
    pub fn add_forecast(
        &mut self,
        processor: &str,
        bundle: &dyn LatencyModel,
        parts: &[Graph],
        received_ns: Option<Interval>,
    ) -> Result<(), PredictionError> {
        let latency = |part: &Graph| Ok(Some(Interval::from(&bundle.predict(part)?.latency)));
        let latencies = parts.iter().map(latency).collect::<Result<Vec<_>, PredictionError>>()?;
        self.model.add_processor(processor, &latencies, received_ns);
        Ok(())
    }

    /// Every placement with its forecast, simulated once.
    ///
    /// # Errors
    /// [`MultitaskError::Cost`] where a part can run nowhere or there are too many placements.
    pub fn simulated(self) -> Result<Placements, MultitaskError> {
        let mut rows = self.placed()?;
        for row in &mut rows {
            let (_, simulated) = self.simulate(&row.schedule)?;
            row.rounds.push(Round { simulated, live: None, apart: None });
        }
        Ok(Placements::new(self.model, rows, self.simulation.slowdown))
    }

    /// Every placement, one frame after the other and overlapped; no round yet.
    fn placed(&self) -> Result<Vec<Placed>, CostError> {
        let mut rows = Vec::new();
        for execution in [Execution::Sequential, Execution::Pipelined] {
            let schedules = self.model.all(execution)?.into_iter();
            rows.extend(schedules.map(|schedule| Placed { schedule, rounds: Vec::new() }));
        }
        Ok(rows)
    }

    /// The same placement with the current costs.
    fn renewed(&self, schedule: &Schedule) -> Result<Schedule, MultitaskError> {
        let same = self.model.schedule(schedule.encoder, &schedule.decoders, schedule.execution);
        same.ok_or(MultitaskError::NoCost)
    }

    /// The placement with the current costs, and its simulation.
    fn simulate(&self, schedule: &Schedule) -> Result<(Schedule, StreamOutcome), MultitaskError> {
        let schedule = self.renewed(schedule)?;
        let scenario = self.simulation.scenario(&self.model, &schedule);
        let simulated = simulate(&scenario, 0)?.streams.swap_remove(0);
        Ok((schedule, simulated))
    }
}

/// Size of the encoder's outputs that decoders read, bytes.
fn features_bytes(parts: &[Graph]) -> u64 {
    let inputs = |part: &Graph| -> Vec<String> {
        part.inputs().iter().map(|&id| part.value(id).name.clone()).collect()
    };
    let read: BTreeSet<String> = parts.iter().skip(1).flat_map(inputs).collect();
    let provided = parts
        .first()
        .into_iter()
        .flat_map(|encoder| encoder.outputs().iter().map(|&id| encoder.value(id)));
    provided
        .filter(|value| read.contains(&value.name))
        .filter_map(|value| value.tensor.as_ref())
        .map(TensorSpec::size_bytes)
        .sum()
}

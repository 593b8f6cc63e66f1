//! One encoder, several decoders, a few processors: [`Planning`] holds the costs of the parts, and
//! forecasts and simulates every placement ([`Planning::simulated`]). With the feature `profile`,
//! `Planning::measured` runs every placement on engines as well. [`Placements`] has the results.

#[cfg(feature = "profile")]
mod measured;
mod placements;

#[cfg(feature = "profile")]
pub use measured::RoundProgress;
pub use placements::{Placed, Placements, Round, Search};

#[cfg(feature = "profile")]
use super::live::LiveSessionError;
use super::parts::{self, WritePartsError};
use crate::models::Model;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_graph::{Budget, Graph, LatencyModel, PredictionError, TensorSpec};
use vitempo_planners::{
    cost::{CostError, Costs, Interval},
    pipeline::{
        Simulation, Tasks,
        multitask::{Execution, MultiTask, Schedule, default_budget},
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
    budget: Budget,
}

/// Largest number of placements of each execution that are simulated, run and listed; the best are
/// taken.
pub const MOST_PLACED: usize = 64;

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
        let simulation = Simulation { camera_fps, deadline_ns, ..Simulation::plain() };
        Self { model, simulation, budget: default_budget() }
    }

    /// The parts of costs from another source.
    ///
    /// # Errors
    /// As [`Tasks::costs`].
    pub fn of_costs(
        costs: &Costs,
        tasks: &Tasks,
        camera_fps: Option<f64>,
        deadline_ns: Option<u64>,
    ) -> Result<Self, CostError> {
        let model = tasks.costs(costs)?;
        let simulation = Simulation { camera_fps, deadline_ns, ..Simulation::plain() };
        Ok(Self { model, simulation, budget: default_budget() })
    }

    /// Size of the encoder's outputs that decoders read (the features), bytes.
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
    /// [`MultitaskError::Cost`] where a part cannot run on any processor or there are too many
    /// placements.
    pub fn simulated(self) -> Result<Placements, MultitaskError> {
        let (mut rows, search) = self.placed()?;
        for row in &mut rows {
            let (_, simulated) = self.simulate(&row.schedule)?;
            row.rounds.push(Round { simulated, live: None, apart: None });
        }
        Ok(Placements::new(self.model, rows, self.simulation.slowdown, search))
    }

    /// The same with another budget for trying placements.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// The best placements of each execution, and each of them in the other execution, without
    /// rounds.
    fn placed(&self) -> Result<(Vec<Placed>, Search), CostError> {
        let both = [Execution::Sequential, Execution::Pipelined];
        let found = both.map(|execution| self.model.leading(execution, MOST_PLACED, &self.budget));
        let [sequential, pipelined] = found;
        let (sequential, pipelined) = (sequential?, pipelined?);
        let search = Search {
            placements: self.model.placements().saturating_mul(2),
            is_complete: sequential.is_complete && pipelined.is_complete,
            at_least_ns: sequential.at_least.min(pipelined.at_least),
        };
        let places: BTreeSet<(usize, Vec<usize>)> = sequential
            .schedules
            .iter()
            .chain(&pipelined.schedules)
            .map(|schedule| (schedule.encoder, schedule.decoders.clone()))
            .collect();
        let schedule = |execution| {
            let places = places.iter();
            places.filter_map(move |(encoder, decoders)| {
                self.model.schedule(*encoder, decoders, execution)
            })
        };
        let rows = both.into_iter().flat_map(schedule);
        Ok((rows.map(|schedule| Placed { schedule, rounds: Vec::new() }).collect(), search))
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

/// Cuts the model's file into `MODEL.encoder.onnx` and `MODEL.decoder-1.onnx` and so on in a
/// folder. Returns their paths.
///
/// # Errors
/// As [`parts::write`].
pub fn write_parts(
    model: &Model,
    tasks: &Tasks,
    folder: &Path,
) -> Result<Vec<PathBuf>, WritePartsError> {
    let name = |part: usize| match part {
        0 => "encoder".to_owned(),
        decoder => format!("decoder-{decoder}"),
    };
    let names: Vec<String> = (0..tasks.names.len()).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    parts::write(&model.path, &model.graph, &tasks.part_of, &names, folder)
}

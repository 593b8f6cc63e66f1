//! One encoder, several decoders, a few processors: [`Planning`] holds the costs of the parts, and
//! forecasts and simulates every placement ([`Planning::simulated`]). With the feature `profile`,
//! `Planning::measured` runs every placement on engines as well. [`Placements`] has the results.

pub mod dynamic;
#[cfg(feature = "profile")]
mod measured;
mod placements;

#[cfg(feature = "profile")]
pub use measured::RoundProgress;
pub use placements::{Placed, Placements, Round, Search};

#[cfg(feature = "profile")]
use super::live::LiveSessionError;
use super::{
    partition::Partition,
    parts::{self, WritePartsError},
};
use crate::models::Model;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_graph::{Budget, Graph, LatencyModel, PredictionError, TensorSpec, ValueId};
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
    /// No placement can run.
    #[error(
        "no placement of `{model}` can run: each part needs a processor with a latency, and links \
        with a bandwidth above 0 for what it reads; inputs arrive on `{first}`"
    )]
    NoPlacement {
        /// The model's name.
        model: String,
        /// The processor on which inputs arrive.
        first: String,
    },
    /// No placement was found within the budget.
    #[error("no placement of `{model}` that can run was found within the budget; there may be one")]
    NoneFound {
        /// The model's name.
        model: String,
    },
    /// A placement that ran before cannot run with the costs of another round.
    #[error("a part that ran before has no cost")]
    NoCost,
    /// The dynamic rule cannot be simulated.
    #[error("the dynamic rule: {reason}")]
    Rule {
        /// What is wrong.
        reason: String,
    },
    /// An engine does not run a part.
    #[cfg(feature = "profile")]
    #[error(transparent)]
    Live(#[from] LiveSessionError),
}

/// Costs of the parts of a multi-task model, and the simulator's parameters.
#[derive(Clone, Debug)]
pub struct Planning {
    model: MultiTask,
    /// By processor, the latency of the undivided model.
    whole_ns: Vec<Option<Interval>>,
    simulation: Simulation,
    budget: Budget,
}

/// Largest number of placements of each execution that are simulated, run and listed; the best are
/// taken.
pub const MOST_PLACED: usize = 64;

impl Planning {
    /// A model of these parts, in the order of the tasks; without processors yet. `camera_fps` and
    /// `deadline_ns` are those of the frames that are simulated.
    #[must_use]
    pub fn new(
        model: &str,
        tasks: &Tasks,
        parts: &[Graph],
        camera_fps: Option<f64>,
        deadline_ns: Option<u64>,
    ) -> Self {
        let mut model = MultiTask::of_tasks(model, tasks);
        model.features_bytes = sent_bytes(parts, 0);
        for after in &mut model.postprocessing {
            after.prediction_bytes = sent_bytes(parts, 1 + after.decoder);
        }
        let simulation = Simulation { camera_fps, deadline_ns, ..Simulation::plain() };
        Self { model, whole_ns: Vec::new(), simulation, budget: default_budget() }
    }

    /// The parts of costs from another source. Inputs arrive on their first processor.
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
        let whole = |p: usize| costs.nodes().iter().map(|node| node.latency_ns[p]).sum();
        let whole_ns = (0..costs.processors().len()).map(whole).collect();
        Ok(Self { model, whole_ns, simulation, budget: default_budget() })
    }

    /// Adds a fixed time to every part, and to the undivided model: what one call of a session
    /// takes beside the operators, ns. Costs of nodes do not have it; forecasts of bundles and
    /// measurements do.
    #[must_use]
    pub fn with_session_overhead(mut self, ns: u64) -> Self {
        let add = |times: &mut Vec<Option<Interval>>| {
            times.iter_mut().flatten().for_each(|time| *time = *time + Interval::exact(ns));
        };
        self.model.parts_mut().for_each(|part| add(&mut part.latency_ns));
        add(&mut self.whole_ns);
        self
    }

    /// Adds a processor whose latencies a bundle forecasts; `transfer_ns` is the time of a transfer
    /// of so many bytes.
    ///
    /// # Errors
    /// As [`LatencyModel::predict_known`].
    pub fn add_forecast(
        &mut self,
        processor: &str,
        bundle: &dyn LatencyModel,
        Partition { whole, parts }: &Partition,
        transfer_ns: &dyn Fn(u64) -> Option<Interval>,
    ) -> Result<(), PredictionError> {
        let latency =
            |part: &Graph| Ok(Some(Interval::from(&bundle.predict_known(part)?.1.latency)));
        let latencies = parts.iter().map(latency).collect::<Result<Vec<_>, PredictionError>>()?;
        self.whole_ns.push(latency(whole)?);
        self.model.add_processor(processor, &latencies, transfer_ns);
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
        let placements = Placements::new(self.model, rows, self.simulation, search);
        Ok(placements.with_whole(self.whole_ns).with_cost_regret(&self.budget))
    }

    /// The same with another budget for trying placements.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// The best placements of each execution, and each of them in the other execution, without
    /// rounds.
    fn placed(&self) -> Result<(Vec<Placed>, Search), MultitaskError> {
        let both = [Execution::Sequential, Execution::Pipelined];
        let found = both.map(|execution| self.model.leading(execution, MOST_PLACED, &self.budget));
        let [sequential, pipelined] = found;
        let (sequential, pipelined) = (sequential?, pipelined?);
        let search = Search {
            placements: self.model.placements().saturating_mul(2),
            is_complete: sequential.is_complete && pipelined.is_complete,
            at_least_ns: sequential.at_least.min(pipelined.at_least),
        };
        let found = sequential.schedules.iter().chain(&pipelined.schedules);
        let places: BTreeSet<Vec<usize>> = found.map(Schedule::places).collect();
        let schedule = |execution| {
            places.iter().filter_map(move |places| self.model.schedule(places, execution))
        };
        let rows = both.into_iter().flat_map(schedule);
        if places.is_empty() {
            let model = self.model.model.clone();
            let first = self.model.processors.first().cloned().unwrap_or_default();
            return Err(match search.is_complete {
                true => MultitaskError::NoPlacement { model, first },
                false => MultitaskError::NoneFound { model },
            });
        }
        Ok((rows.map(|schedule| Placed { schedule, rounds: Vec::new() }).collect(), search))
    }

    /// The same placement with the current costs.
    fn renewed(&self, schedule: &Schedule) -> Result<Schedule, MultitaskError> {
        let same = self.model.schedule(&schedule.places(), schedule.execution);
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

/// Size of the tensors of a part that later parts read, bytes.
fn sent_bytes(parts: &[Graph], part: usize) -> u64 {
    let names = |part: &Graph, ids: &[ValueId]| -> Vec<String> {
        ids.iter().map(|&id| part.value(id).name.clone()).collect()
    };
    let later = parts.iter().skip(part + 1);
    let read: BTreeSet<String> = later.flat_map(|other| names(other, other.inputs())).collect();
    let provided =
        parts.get(part).into_iter().flat_map(|own| own.outputs().iter().map(|&id| own.value(id)));
    provided
        .filter(|value| read.contains(&value.name))
        .filter_map(|value| value.tensor.as_ref())
        .map(TensorSpec::size_bytes)
        .sum()
}

/// Cuts the model's file into `MODEL.encoder.onnx`, `MODEL.decoder-1.onnx`,
/// `MODEL.postprocessing-1.onnx` and so on in a folder; postprocessing has the number of its
/// decoder. Returns their paths.
///
/// # Errors
/// As [`parts::write`].
pub fn write_parts(
    model: &Model,
    tasks: &Tasks,
    folder: &Path,
) -> Result<Vec<PathBuf>, WritePartsError> {
    let decoders = (1..=tasks.decoders()).map(|decoder| format!("decoder-{decoder}"));
    let after = tasks.postprocessing.iter().map(|d| format!("postprocessing-{}", d + 1));
    let names: Vec<String> =
        std::iter::once("encoder".to_owned()).chain(decoders).chain(after).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    parts::write(&model.path, &model.graph, &tasks.part_of, &names, folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_planners::{cost::CostsFile, pipeline::Boundaries};

    /// An encoder and a decoder; both run on each processor, or the encoder on the second alone.
    fn planning(links: &str, encoder: &str) -> Result<Placements, MultitaskError> {
        let text = format!(
            r#"{{"model": "m", "processors": [{{"name": "a"}}, {{"name": "b"}}], "links": [{links}],
            "nodes": [{{"name": "enc", "latency_ns": {{{encoder}}}}},
            {{"name": "dec", "latency_ns": {{"a": 1000, "b": 1000}}}}],
            "tensors": [{{"name": "image", "size_bytes": 1000000, "consumers": ["enc"]}},
            {{"name": "f", "size_bytes": 1, "producer": "enc", "consumers": ["dec"]}},
            {{"name": "o", "size_bytes": 1, "producer": "dec", "output": true}}]}}"#
        );
        let file: CostsFile = serde_json::from_str(&text).expect("a costs file");
        let costs = file.check().expect("costs");
        let boundaries = Boundaries { encoder: Some("enc"), postprocessing: None };
        let tasks = Tasks::of_costs(&costs, boundaries).expect("tasks");
        Planning::of_costs(&costs, &tasks, None, None).expect("a planning").simulated()
    }

    fn link(from: &str, to: &str) -> String {
        let bandwidth = r#"{"bandwidth_bytes_per_s": 1000000000}"#;
        format!(r#"{{"from": "{from}", "to": "{to}", "link": {bandwidth}}}"#)
    }

    #[test]
    fn inputs_arrive_on_the_first_processor() {
        let both = r#""a": 100000, "b": 1000"#;
        let links = [link("a", "b"), link("b", "a")].join(", ");
        let placements = planning(&links, both).expect("placements");
        let best = &placements.rows[0].schedule;
        assert_eq!((best.encoder, best.period_ns.point()), (0, 100_000));
        let there = |row: &&Placed| row.schedule.encoder == 1;
        let there = placements.rows.iter().find(there).expect("a placement");
        assert_eq!(there.schedule.encoder_ns.point(), 1_000_000 + 1000);
        let simulated_ns = there.simulated_ns().expect("frames");
        assert!((simulated_ns - there.forecast_ns()).abs() < 1.0, "{simulated_ns}");
        let placements = planning(&link("b", "a"), both).expect("placements");
        assert!(placements.rows.iter().all(|row| row.schedule.encoder == 0));
        let refused = planning(&link("b", "a"), r#""b": 1000"#).map_err(|e| e.to_string());
        assert!(refused.is_err_and(
            |e| e.contains("no placement of `m` can run") && e.contains("inputs arrive on `a`")
        ));
    }
}

//! [`Scenario`]: costs on a device, requirements, and the plan within them; [`Simulated`]: what
//! every system does in it over a trace.

use super::{Accuracy, TraceOutcomes, perturbed};
use vitempo_planners::aria::{
    AriaCosts, AriaDevice, AriaPlan, AriaPlanError, Requirements, Simulation, SimulationError,
    Trace, Truth, estimates::Perturbation, plan,
};

/// What is planned, and what for.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What everything takes.
    pub costs: AriaCosts,
    /// Processors and their heat, for simulations.
    pub device: AriaDevice,
    /// Deadline, share of frames in time, interval of full frames.
    pub requirements: Requirements,
    /// The plan; no level of it is usable where nothing fits.
    pub plan: AriaPlan,
}

impl Scenario {
    /// Plans.
    ///
    /// # Errors
    /// [`AriaPlanError`] naming the cost or requirement that is invalid.
    pub fn new(
        costs: AriaCosts,
        device: AriaDevice,
        requirements: Requirements,
    ) -> Result<Self, AriaPlanError> {
        let plan = plan(&costs, &requirements)?;
        Ok(Self { costs, device, requirements, plan })
    }
}

/// Every system over one trace.
#[derive(Clone, Debug)]
pub struct Simulated<'a> {
    /// What is simulated.
    pub scenario: &'a Scenario,
    /// What moves.
    pub trace: Trace,
    /// Name of the trace's file.
    pub trace_name: String,
    /// Of runs that differ, and of systems that serve regions in no order.
    pub seed: u64,
    /// What the systems do.
    pub outcomes: TraceOutcomes,
}

impl<'a> Simulated<'a> {
    /// Runs every system.
    ///
    /// # Errors
    /// [`SimulationError`] where costs, requirements or device are invalid.
    pub fn of(
        scenario: &'a Scenario,
        trace: Trace,
        trace_name: impl Into<String>,
        seed: u64,
    ) -> Result<Self, SimulationError> {
        let outcomes = TraceOutcomes::of(&simulation(scenario, &trace, seed))?;
        Ok(Self { scenario, trace, trace_name: trace_name.into(), seed, outcomes })
    }

    /// What takes longer to compute than the outcomes, for a page.
    ///
    /// # Errors
    /// As [`Simulated::of`].
    pub fn details(&self) -> Result<Details, SimulationError> {
        Ok(Details {
            perturbed: perturbed(&simulation(self.scenario, &self.trace, self.seed))?,
            accuracy: Accuracy::of(self)?,
        })
    }
}

/// How far a simulation depends on estimates of the device, and how accurate is what systems show.
#[derive(Clone, Debug)]
pub struct Details {
    /// Outcomes with each estimate of heat and power moved by
    /// [`PERTURBATION`](super::PERTURBATION) either way, one at a time.
    pub perturbed: Vec<Perturbation>,
    /// Depth and labels of a stand-in model.
    pub accuracy: Accuracy,
}

fn simulation<'a>(scenario: &'a Scenario, trace: &'a Trace, seed: u64) -> Simulation<'a> {
    Simulation {
        trace,
        costs: &scenario.costs,
        device: &scenario.device,
        requirements: scenario.requirements,
        truth: Truth::Deviations(0.0),
        seed,
    }
}

//! [`Scenario`]: costs on a device, requirements, and the plan within them; [`Simulated`]: the
//! outcome of every system in it over a trace.

use super::{Accuracy, TraceOutcomes, perturbed};
use vitempo_planners::aria::{
    AriaCosts, AriaDevice, AriaPlan, AriaPlanError, Requirements, Simulation, SimulationError,
    Trace, Truth, estimates::Perturbation, plan,
};

/// Costs, device, requirements and plan.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The costs of all parts.
    pub costs: AriaCosts,
    /// Processors and their thermal model, for simulations.
    pub device: AriaDevice,
    /// Deadline, share of frames in time, interval of full frames.
    pub requirements: Requirements,
    /// The plan; it may have no usable level.
    pub plan: AriaPlan,
}

impl Scenario {
    /// Plans for these costs and requirements.
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
    /// The simulated scenario.
    pub scenario: &'a Scenario,
    /// The trace.
    pub trace: Trace,
    /// Name of the trace's file.
    pub trace_name: String,
    /// Seed of the spread of runs, and of the order of regions in systems without a scheduler.
    pub seed: u64,
    /// The outcomes of the systems.
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

    /// Results that take longer to compute than the outcomes, for a page.
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

/// The sensitivity of a simulation to the estimated constants of the device, and the accuracy of
/// the systems' output.
#[derive(Clone, Debug)]
pub struct Details {
    /// Outcomes with each thermal and power constant lower and higher by
    /// [`PERTURBATION`](super::PERTURBATION), one at a time.
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

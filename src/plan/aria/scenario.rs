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

    /// The same, planned for the trace's rate of frames and the device's spread, by which systems
    /// are simulated.
    fn over(&self, trace: &Trace) -> Result<Self, AriaPlanError> {
        let requirements = simulation(self, trace, 0).planned_by();
        Self::new(self.costs.clone(), self.device.clone(), requirements)
    }
}

/// Every system over one trace.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The simulated scenario, planned for the trace's rate of frames and the device's spread.
    pub scenario: Scenario,
    /// The trace.
    pub trace: Trace,
    /// Name of the trace's file.
    pub trace_name: String,
    /// Seed of the spread of runs, and of the order of regions in systems without a scheduler.
    pub seed: u64,
    /// The outcomes of the systems.
    pub outcomes: TraceOutcomes,
}

impl Simulated {
    /// Runs every system of a scenario; the rate of frames is the trace's, the spread the device's.
    ///
    /// # Errors
    /// [`SimulationError`] where costs, requirements or device are invalid.
    pub fn of(
        scenario: &Scenario,
        trace: Trace,
        trace_name: impl Into<String>,
        seed: u64,
    ) -> Result<Self, SimulationError> {
        let scenario = scenario.over(&trace)?;
        let outcomes = TraceOutcomes::of(&simulation(&scenario, &trace, seed))?;
        Ok(Self { scenario, trace, trace_name: trace_name.into(), seed, outcomes })
    }

    /// Results that take longer to compute than the outcomes, for a page.
    ///
    /// # Errors
    /// As [`Simulated::of`].
    pub fn details(&self) -> Result<Details, SimulationError> {
        Ok(Details {
            perturbed: perturbed(&simulation(&self.scenario, &self.trace, self.seed))?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::aria::Walk;

    #[test]
    fn what_is_simulated_is_planned_for_the_traces_rate_and_the_devices_spread() {
        let (costs, mut device) = AriaCosts::paper_phone().expect("what ships");
        device.spread = 0.02;
        let requirements = Requirements::for_target(33.3e6);
        let scenario = Scenario::new(costs, device, requirements).expect("a scenario");
        let walk = Walk { seconds: 2, scene_seconds: 2, ..Walk::default() };
        let trace = Trace { frames_per_s: 60.0, ..walk.trace().expect("a trace") };
        let simulated = Simulated::of(&scenario, trace, "walk.csv", 0).expect("outcomes");
        let planned = &simulated.scenario.plan;
        let asked = (planned.requirements.frame_ns, planned.requirements.spread);
        assert_eq!(asked, (1e9 / 60.0, 0.02));
        assert!(planned.usable().count() < scenario.plan.usable().count());
        assert_eq!(simulated.outcomes.plan_relaxed.requirements.frame_ns, 1e9 / 60.0);
        let usable = |height| planned.usable().any(|level| level.height == height);
        let of_aria = |outcome: &&vitempo_planners::aria::AriaOutcome| {
            outcome.system == vitempo_planners::aria::System::Aria
        };
        let aria = simulated.outcomes.outcomes.iter().find(of_aria).expect("ARIA");
        assert!(aria.resolutions.iter().all(|used| usable(used.height)));
    }
}

//! [`Simulation`]: simulates a system over a trace on a device.

use super::{
    AriaCosts, AriaDevice, AriaOutcome, AriaPlanError, Forecast, Requirements, Sight, System,
    Trace, application::Program, plan::plan, system::Setup,
};
use crate::simulator::{
    Contention, Scenario, ScenarioError, Source, StageModel, Stream, simulate_application,
};

/// Why a simulation cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] AriaPlanError),
    /// The simulator refuses the scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The runtime refuses its settings.
    #[error(transparent)]
    Aria(#[from] vitempo_aria::AriaError),
    /// The device does not have the three processors of ARIA.
    #[error(
        "the device has {count} processors; it needs three: CPU, the processor of full frames, \
        that of regions"
    )]
    Processors {
        /// Number of processors of the device.
        count: usize,
    },
}

/// The true latencies, relative to forecasts.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// Forecasts are biased by this number of standard deviations of their intervals; 0: exact.
    Deviations(f64),
    /// All latencies are this much longer than forecast: 0.1 for 10 %.
    Longer(f64),
}

impl Truth {
    /// The true latency, ns.
    #[must_use]
    pub fn of(self, forecast: &Forecast) -> f64 {
        match self {
            Self::Deviations(z) => forecast.at(z),
            Self::Longer(share) => forecast.point_ns() * (1.0 + share),
        }
    }
}

/// A simulation of a system over a trace.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// The motion in the video, frame by frame.
    pub trace: &'a Trace,
    /// The forecast latencies of all parts.
    pub costs: &'a AriaCosts,
    /// The processors and their thermal model.
    pub device: &'a AriaDevice,
    /// The deadline, and the share of frames that must meet it; the rate of frames is the trace's
    /// and the spread the device's.
    pub requirements: Requirements,
    /// The true latencies, relative to the forecasts.
    pub truth: Truth,
    /// Seed of the spread of runs, and of the order of regions in systems without a scheduler.
    pub seed: u64,
}

impl Simulation<'_> {
    /// Runs a system, planned from the forecasts, over the whole trace.
    ///
    /// # Errors
    /// [`SimulationError`] when costs, requirements or device are invalid.
    pub fn run(&self, system: System) -> Result<AriaOutcome, SimulationError> {
        let requirements = self.planned_by();
        let planned = plan(self.costs, &requirements)?;
        self.run_planned(Setup::of(system, self.costs, &requirements, &planned))
    }

    /// Runs a system as it was planned from other costs.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_planned(&self, setup: Setup) -> Result<AriaOutcome, SimulationError> {
        self.run_program(setup, None)
    }

    /// The same with regions that are seen in the frames, in place of the trace's; the camera's motion
    /// is the trace's. The outcome has no staleness, which needs the trace's regions.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_seeing(
        &self,
        setup: Setup,
        sight: &mut dyn Sight,
    ) -> Result<AriaOutcome, SimulationError> {
        self.run_program(setup, Some(sight))
    }

    fn run_program(
        &self,
        setup: Setup,
        sight: Option<&mut dyn Sight>,
    ) -> Result<AriaOutcome, SimulationError> {
        let requirements = self.planned_by();
        self.costs.check()?;
        if self.device.processors.len() != 3 {
            return Err(SimulationError::Processors { count: self.device.processors.len() });
        }
        let mut program =
            Program::new(self.trace, self.costs, &requirements, setup, self.truth, self.seed)?;
        if let Some(sight) = sight {
            program = program.seeing(sight);
        }
        let outcome = simulate_application(&self.scenario(), &mut program, self.seed)?;
        Ok(AriaOutcome::of(
            &program.setup,
            self.costs,
            self.trace,
            &requirements,
            &program.record,
            &outcome,
        ))
    }

    /// What runs are planned by: [`Self::requirements`] with the trace's rate of frames and the
    /// device's spread.
    #[must_use]
    pub fn planned_by(&self) -> Requirements {
        Requirements {
            frame_ns: 1e9 / self.trace.frames_per_s,
            spread: self.device.spread,
            ..self.requirements
        }
    }

    fn scenario(&self) -> Scenario {
        let stream = |name: &str| {
            Stream::new(
                name,
                Source::Application,
                vec![StageModel { name: name.to_owned(), queue: 0, steps: Vec::new() }],
            )
        };
        // One more second, in which the last frames end.
        let duration_ns = ((self.trace.seconds() + 1.0) * 1e9) as u64;
        Scenario {
            contention: Contention::NONE,
            base_w: self.device.base_w,
            thermal: Some(self.device.thermal.clone()),
            ..Scenario::new(
                self.device.processors.clone(),
                vec![stream("frames"), stream("full frames")],
                duration_ns,
            )
        }
    }
}

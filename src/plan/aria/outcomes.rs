//! Simulates ARIA and the baselines over one trace: at the target and at twice the target, with
//! biased forecasts, and with other estimates of heat and power ([`TraceOutcomes::of`]).

use vitempo_planners::aria::{
    AriaCosts, AriaOutcome, AriaPlan, Requirements, Simulation, SimulationError, System, Truth,
    estimates::{self, Perturbation},
    plan,
    robustness::{self, ForecastBias},
};

/// Forecast biases: all true latencies are the forecast times this factor.
const OFF: [f64; 5] = [-0.10, -0.05, 0.0, 0.05, 0.10];
/// The index in [`OFF`] from which biases are simulated at the tightest target: forecasts without a
/// bias.
const NOT_SHORTER: usize = 2;
/// Plans under biased forecasts use the points, and this confidence.
const PLANNED: [Option<f64>; 2] = [None, Some(0.9)];
/// Confidence whose pessimistic end is one of the biases.
const PESSIMISTIC: f64 = 0.9;

/// Perturbation of estimates of heat and power, as a share.
pub const PERTURBATION: f64 = 0.3;

/// The outcomes of all systems over a trace.
#[derive(Clone, Debug)]
pub struct TraceOutcomes {
    /// All systems at the target.
    pub outcomes: Vec<AriaOutcome>,
    /// The same at twice the target.
    pub relaxed: Vec<AriaOutcome>,
    /// ARIA with the other orders of regions, at the target and at twice the target.
    pub orders: [Vec<AriaOutcome>; 2],
    /// The plan at twice the target.
    pub plan_relaxed: AriaPlan,
    /// Outcomes under biased forecasts, at the target and at the tightest target that the point
    /// forecasts allow.
    pub off: Vec<ForecastBias>,
    /// Full frames of the highest and of the lowest resolution throughout, as in figure 7.
    pub ends: [AriaOutcome; 2],
}

impl TraceOutcomes {
    /// Every system and order at the target.
    pub fn at_target(&self) -> impl Iterator<Item = &AriaOutcome> {
        self.outcomes.iter().chain(&self.orders[0])
    }

    /// Every system and order at twice the target.
    pub fn at_twice_the_target(&self) -> impl Iterator<Item = &AriaOutcome> {
        self.relaxed.iter().chain(&self.orders[1])
    }

    /// Runs every system.
    ///
    /// # Errors
    /// [`SimulationError`] where costs, requirements or device are invalid.
    pub fn of(simulation: &Simulation<'_>) -> Result<Self, SimulationError> {
        let requirements = simulation.planned_by();
        let twice = Requirements { target_ns: 2.0 * requirements.target_ns, ..requirements };
        let later = Simulation { requirements: twice, ..*simulation };
        let orders = &System::ORDERS[1..];
        Ok(Self {
            outcomes: each(simulation, &System::ALL)?,
            relaxed: each(&later, &System::ALL)?,
            orders: [each(simulation, orders)?, each(&later, orders)?],
            off: off(simulation)?,
            ends: ends(simulation)?,
            plan_relaxed: plan(simulation.costs, &twice)?,
        })
    }
}

/// The outcomes with each thermal and power constant of the device lower and higher by
/// [`PERTURBATION`], one at a time.
///
/// # Errors
/// As [`TraceOutcomes::of`].
pub fn perturbed(simulation: &Simulation<'_>) -> Result<Vec<Perturbation>, SimulationError> {
    estimates::perturb(simulation, PERTURBATION)
}

fn each(
    simulation: &Simulation<'_>,
    systems: &[System],
) -> Result<Vec<AriaOutcome>, SimulationError> {
    systems.iter().map(|system| simulation.run(*system)).collect()
}

fn off(simulation: &Simulation<'_>) -> Result<Vec<ForecastBias>, SimulationError> {
    let pessimistic =
        Requirements { confidence: PESSIMISTIC, ..simulation.requirements }.pessimistic();
    let truths: Vec<Truth> =
        OFF.iter().map(|longer| Truth::Longer(*longer)).chain([pessimistic]).collect();
    let mut all = robustness::sweep(simulation, &truths, &PLANNED)?;
    let requirements = simulation.planned_by();
    let tightest = robustness::tightest(simulation.costs, &requirements)?;
    if let Some(target_ns) = tightest.filter(|tight| *tight < requirements.target_ns) {
        let tight =
            Simulation { requirements: Requirements { target_ns, ..requirements }, ..*simulation };
        all.extend(robustness::sweep(&tight, &truths[NOT_SHORTER..], &PLANNED)?);
    }
    Ok(all)
}

/// Full frames of one resolution throughout, beside the frames of a system that has no scheduler.
fn ends(simulation: &Simulation<'_>) -> Result<[AriaOutcome; 2], SimulationError> {
    let levels = &simulation.costs.levels;
    let only = |index: usize| {
        let region = simulation.costs.regions.iter().min_by_key(|region| region.rows * region.cols);
        let costs = AriaCosts {
            levels: levels.get(index).cloned().into_iter().collect(),
            regions: region.cloned().into_iter().collect(),
            ..simulation.costs.clone()
        };
        Simulation { costs: &costs, ..*simulation }.run(System::S1)
    };
    Ok([only(levels.len().saturating_sub(1))?, only(0)?])
}

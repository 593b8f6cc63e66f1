//! The deadline success rate under a bias of all forecasts.
//!
//! The plan is made from the forecasts; in the simulation everything takes longer or shorter.
//! ARIA's scheduler corrects its estimates by measured latencies; the same plan without corrections
//! shows the success of the plan alone. A plan at a confidence must succeed at the pessimistic end
//! of the intervals of that confidence. A plan from point forecasts may fail there, and does fail
//! at the [`tightest`] target that they allow.

use super::{
    AriaCosts, AriaPlanError, Requirements, Simulation, SimulationError, System, Truth, plan::plan,
    plan::work,
};
use serde::Serialize;

/// Outcomes at one bias of all forecasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForecastBias {
    /// The deadline, ns.
    pub target_ns: f64,
    /// The bias.
    pub truth: Truth,
    /// Confidence of the plan; `None`: planned from the point forecasts.
    pub confidence: Option<f64>,
    /// Cycles of the plan.
    pub planned_cycles: u64,
    /// Height of the highest usable level of the plan, px; `None` if no level is usable.
    pub planned_height: Option<usize>,
    /// Mean number of executed cycles per frame.
    pub cycles: f64,
    /// Share of frames in time with ARIA's scheduler, which corrects its estimates.
    pub success: f64,
    /// The same without corrections of the plan.
    pub success_held: f64,
}

/// A confidence close to 0: the interval is the point forecast.
const POINT: f64 = 1e-6;

/// Simulates every bias, planned at each confidence.
///
/// # Errors
/// As [`Simulation::run`].
pub fn sweep(
    simulation: &Simulation,
    truths: &[Truth],
    confidences: &[Option<f64>],
) -> Result<Vec<ForecastBias>, SimulationError> {
    let mut all = Vec::new();
    for &confidence in confidences {
        let requirements =
            Requirements { confidence: confidence.unwrap_or(POINT), ..simulation.planned_by() };
        let planned = plan(simulation.costs, &requirements)?;
        for &truth in truths {
            let off = Simulation { requirements, truth, ..*simulation };
            let (follows, held) = (off.run(System::Aria)?, off.run(System::S2)?);
            all.push(ForecastBias {
                target_ns: requirements.target_ns,
                truth,
                confidence,
                planned_cycles: planned.cycles,
                planned_height: planned.usable().next_back().map(|level| level.height),
                cycles: follows.cycles,
                success: follows.success_rate(),
                success_held: held.success_rate(),
            });
        }
    }
    Ok(all)
}

/// The shortest target at which the point forecasts allow the same level and number of cycles as at
/// the required target, ns; `None` if they allow none.
///
/// # Errors
/// [`AriaPlanError`] when costs or requirements are invalid.
pub fn tightest(
    costs: &AriaCosts,
    requirements: &Requirements,
) -> Result<Option<f64>, AriaPlanError> {
    let planned = plan(costs, &Requirements { confidence: POINT, ..*requirements })?;
    let Some(top) = planned.usable().next_back() else { return Ok(None) };
    let level = costs.levels.iter().find(|level| (level.rows, level.cols) == (top.rows, top.cols));
    Ok(level.map(|level| {
        work(costs, level, &planned.region, planned.cycles, requirements.spread)
            .least_target_ns(requirements.share, 0.0)
            .ceil()
            + 1.0
    }))
}

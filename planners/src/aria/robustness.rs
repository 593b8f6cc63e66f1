//! How the deadline success rate moves when forecasts are off.
//!
//! The plan is made from the forecasts; then everything really takes longer, or shorter. ARIA's
//! scheduler corrects what it counts with by what it sees; the same plan held fast shows what the
//! plan alone is worth. A plan at a confidence must hold at the pessimistic end of the intervals of
//! that confidence; one from the point forecasts need not, and at the [`tightest`] target that they
//! allow it does not.

use super::{
    AriaCosts, AriaPlanError, Rehearsal, RehearsalError, System, Truth, Wishes, plan::plan,
    plan::work,
};
use serde::Serialize;

/// One error of all forecasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Off {
    /// Longest latency that counts, ns.
    pub target_ns: f64,
    /// How far forecasts are off.
    pub truth: Truth,
    /// Confidence that was planned for; none: the point forecasts were taken as they are.
    pub confidence: Option<f64>,
    /// Cycles of the plan.
    pub planned_cycles: u64,
    /// Height of the highest level of the plan, px; none if nothing fits.
    pub planned_height: Option<usize>,
    /// Cycles per frame that ran, mean.
    pub cycles: f64,
    /// Share of frames in time with ARIA's scheduler, which follows what it sees.
    pub success: f64,
    /// The same with the plan held fast.
    pub success_held: f64,
}

/// As good as none: the point forecasts.
const POINT: f64 = 1e-6;

/// Rehearses with forecasts off in each way, planned at each confidence.
///
/// # Errors
/// As [`Rehearsal::run`].
pub fn sweep(
    rehearsal: &Rehearsal,
    truths: &[Truth],
    confidences: &[Option<f64>],
) -> Result<Vec<Off>, RehearsalError> {
    let mut all = Vec::new();
    for &confidence in confidences {
        let wishes = Wishes { confidence: confidence.unwrap_or(POINT), ..rehearsal.wishes };
        let planned = plan(rehearsal.costs, &wishes)?;
        for &truth in truths {
            let off = Rehearsal { wishes, truth, ..*rehearsal };
            let (follows, held) = (off.run(System::Aria)?, off.run(System::S2)?);
            all.push(Off {
                target_ns: wishes.target_ns,
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

/// The least target at which the point forecasts allow the cycles and the level that they allow at
/// the target wished for, ns; none if they allow nothing.
///
/// # Errors
/// [`AriaPlanError`] when costs or wishes make no sense.
pub fn tightest(costs: &AriaCosts, wishes: &Wishes) -> Result<Option<f64>, AriaPlanError> {
    let planned = plan(costs, &Wishes { confidence: POINT, ..*wishes })?;
    let Some(top) = planned.usable().next_back() else { return Ok(None) };
    let level = costs.levels.iter().find(|level| (level.rows, level.cols) == (top.rows, top.cols));
    Ok(level.map(|level| {
        work(costs, level, &planned.region, planned.cycles, wishes.spread)
            .least_target_ns(wishes.share, 0.0)
            .ceil()
            + 1.0
    }))
}

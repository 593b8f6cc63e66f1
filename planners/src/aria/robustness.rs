//! How the deadline success rate moves when forecasts are off.
//!
//! The plan is made from the forecasts; then everything really takes longer, or shorter. ARIA's scheduler corrects what it counts with by what it sees; the
//! same plan held fast shows what the plan alone is worth.

use super::{Rehearsal, RehearsalError, System, Truth, Wishes, plan::plan};
use serde::Serialize;

/// One error of all forecasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Off {
    /// Everything takes so much longer than forecast: 0.1 for 10 %.
    pub longer: f64,
    /// Confidence that was planned for; none: the point forecasts were taken as they are.
    pub confidence: Option<f64>,
    /// Cycles of the plan.
    pub planned_cycles: u64,
    /// Cycles per frame that ran, mean.
    pub cycles: f64,
    /// Share of frames in time with ARIA's scheduler, which follows what it sees.
    pub success: f64,
    /// The same with the plan held fast.
    pub success_held: f64,
}

/// Rehearses with forecasts off by each share, planned at each confidence.
///
/// # Errors
/// As [`Rehearsal::run`].
pub fn sweep(rehearsal: &Rehearsal, shares: &[f64], confidences: &[Option<f64>]) -> Result<Vec<Off>, RehearsalError> {
    let mut all = Vec::new();
    for &confidence in confidences {
        let wishes = Wishes { confidence: confidence.unwrap_or(1e-6), ..rehearsal.wishes };
        for &longer in shares {
            let off = Rehearsal { wishes, truth: Truth::Longer(longer), ..*rehearsal };
            let (follows, held) = (off.run(System::Aria)?, off.run(System::S2)?);
            let planned_cycles = plan(rehearsal.costs, &wishes)?.cycles;
            all.push(Off { longer, confidence, planned_cycles, cycles: follows.cycles, success: follows.success_rate(), success_held: held.success_rate() });
        }
    }
    Ok(all)
}

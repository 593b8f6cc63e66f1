//! ARIA and the systems it is compared with over one trace: at the target and at twice the target,
//! with forecasts that are off, and with other estimates of heat and power ([`Simulation::of`]).

use vitempo_planners::aria::{
    AriaCosts, AriaOutcome, AriaPlan, Rehearsal, RehearsalError, System, Truth, Wishes,
    estimates::{self, Shaken},
    plan,
    robustness::{self, Off},
};

/// How far forecasts are taken to be off: everything takes so much longer, or less.
const OFF: [f64; 5] = [-0.10, -0.05, 0.0, 0.05, 0.10];
/// Of [`OFF`], the first that is examined at the tightest target: forecasts that are right.
const NOT_SHORTER: usize = 2;
/// What is planned for when forecasts are off: the points, and this confidence.
const PLANNED: [Option<f64>; 2] = [None, Some(0.9)];
/// Confidence whose pessimistic end is one of the ways in which forecasts are off.
const PESSIMISTIC: f64 = 0.9;

/// How far estimates of heat and power are moved, as a share.
pub const SHAKEN: f64 = 0.3;

/// What all systems do over a trace.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// All systems at the target.
    pub outcomes: Vec<AriaOutcome>,
    /// The same at twice the target.
    pub relaxed: Vec<AriaOutcome>,
    /// The plan at twice the target.
    pub plan_relaxed: AriaPlan,
    /// Forecasts that are off, at the target and at the tightest that the point forecasts allow.
    pub off: Vec<Off>,
    /// The highest and the lowest resolution without end, as figure 7 has them.
    pub ends: [AriaOutcome; 2],
}

impl Simulation {
    /// Runs every system.
    ///
    /// # Errors
    /// [`RehearsalError`] where costs, requirements or device are invalid.
    pub fn of(rehearsal: &Rehearsal<'_>) -> Result<Self, RehearsalError> {
        let wishes = rehearsal.wishes;
        let twice = Wishes { target_ns: 2.0 * wishes.target_ns, ..wishes };
        Ok(Self {
            outcomes: each_system(rehearsal)?,
            relaxed: each_system(&Rehearsal { wishes: twice, ..*rehearsal })?,
            off: off(rehearsal)?,
            ends: ends(rehearsal)?,
            plan_relaxed: plan(rehearsal.costs, &twice)?,
        })
    }
}

/// The device's estimates of heat and power moved by [`SHAKEN`] either way, one at a time.
///
/// # Errors
/// As [`Simulation::of`].
pub fn shaken(rehearsal: &Rehearsal<'_>) -> Result<Vec<Shaken>, RehearsalError> {
    estimates::shaken(rehearsal, SHAKEN)
}

fn each_system(rehearsal: &Rehearsal<'_>) -> Result<Vec<AriaOutcome>, RehearsalError> {
    System::ALL.iter().map(|system| rehearsal.run(*system)).collect()
}

fn off(rehearsal: &Rehearsal<'_>) -> Result<Vec<Off>, RehearsalError> {
    let pessimistic = Wishes { confidence: PESSIMISTIC, ..rehearsal.wishes }.pessimistic();
    let truths: Vec<Truth> =
        OFF.iter().map(|longer| Truth::Longer(*longer)).chain([pessimistic]).collect();
    let mut all = robustness::sweep(rehearsal, &truths, &PLANNED)?;
    let wishes = Wishes {
        frame_ns: 1e9 / rehearsal.trace.frames_per_s,
        spread: rehearsal.device.spread,
        ..rehearsal.wishes
    };
    let tightest = robustness::tightest(rehearsal.costs, &wishes)?;
    if let Some(target_ns) = tightest.filter(|tight| *tight < wishes.target_ns) {
        let tight = Rehearsal { wishes: Wishes { target_ns, ..wishes }, ..*rehearsal };
        all.extend(robustness::sweep(&tight, &truths[NOT_SHORTER..], &PLANNED)?);
    }
    Ok(all)
}

/// Full frames of one resolution, without end, beside the frames of a system that has no scheduler.
fn ends(rehearsal: &Rehearsal<'_>) -> Result<[AriaOutcome; 2], RehearsalError> {
    let levels = &rehearsal.costs.levels;
    let only = |index: usize| {
        let region = rehearsal.costs.regions.iter().min_by_key(|region| region.rows * region.cols);
        let costs = AriaCosts {
            levels: levels.get(index).cloned().into_iter().collect(),
            regions: region.cloned().into_iter().collect(),
            ..rehearsal.costs.clone()
        };
        Rehearsal { costs: &costs, ..*rehearsal }.run(System::S1)
    };
    Ok([only(levels.len().saturating_sub(1))?, only(0)?])
}

//! Sensitivity of a simulation to estimated constants: powers and thermal constants of the device
//! are perturbed down and up by a share, one at a time.

use super::{AriaDevice, Simulation, SimulationError, System};
use crate::simulator::{Thermal, Throttle};
use serde::Serialize;

/// Outcomes with one constant perturbed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Perturbation {
    /// The constant.
    pub constant: String,
    /// With the constant low and high: by system, the share of frames in time, and the mean
    /// distance by which the shown moving regions lag behind, in patches, where any was shown.
    pub outcomes: [Vec<(System, f64, Option<f64>)>; 2],
}

impl Perturbation {
    /// Whether ARIA has at least this share of frames in time in both cases, and no other system
    /// with that share has a smaller lag.
    #[must_use]
    pub fn holds(&self, share: f64) -> bool {
        self.outcomes.iter().all(|outcome| {
            let aria = outcome.iter().find(|(system, ..)| *system == System::Aria);
            aria.is_some_and(|(_, success, behind)| {
                let is_behind = |least: f64| behind.is_some_and(|behind| least >= behind);
                *success >= share
                    && outcome
                        .iter()
                        .all(|(_, other, least)| *other < share || least.is_none_or(is_behind))
            })
        })
    }
}

/// Runs the systems that compute full frames beside the camera frames, with each constant lower and
/// higher by `share` (0.3 for 30 %).
///
/// # Errors
/// As [`Simulation::run`].
pub fn perturb(simulation: &Simulation, share: f64) -> Result<Vec<Perturbation>, SimulationError> {
    let mut device = simulation.device.clone();
    let names: Vec<String> = constants(&mut device).into_iter().map(|(name, _)| name).collect();
    type Outcome = (System, f64, Option<f64>);
    let one = |index: usize, factor: f64| -> Result<Vec<Outcome>, SimulationError> {
        let mut device = simulation.device.clone();
        if let Some((_, constant)) = constants(&mut device).into_iter().nth(index) {
            *constant *= factor;
        }
        let moved = Simulation { device: &device, ..*simulation };
        let run = |system: &System| -> Result<Outcome, SimulationError> {
            let outcome = moved.run(*system)?;
            Ok((
                *system,
                outcome.success_rate(),
                outcome.staleness.last().and_then(|all| all.mean_patches),
            ))
        };
        System::ALL.iter().filter(|system| system.is_parallel()).map(run).collect()
    };
    names
        .into_iter()
        .enumerate()
        .map(|(index, constant)| {
            Ok(Perturbation {
                constant,
                outcomes: [one(index, 1.0 - share)?, one(index, 1.0 + share)?],
            })
        })
        .collect()
}

/// The estimated constants of a device.
fn constants(device: &mut AriaDevice) -> Vec<(String, &mut f64)> {
    let AriaDevice { processors, base_w, thermal, .. } = device;
    let Thermal {
        junction_to_skin_k_per_w,
        junction_j_per_k,
        skin_to_ambient_k_per_w,
        skin_j_per_k,
        throttle,
        ..
    } = thermal;
    let mut all = vec![
        ("resistance from chip to skin".to_owned(), junction_to_skin_k_per_w),
        ("heat capacity of the chip".to_owned(), junction_j_per_k),
        ("resistance from skin to air".to_owned(), skin_to_ambient_k_per_w),
        ("heat capacity of the skin".to_owned(), skin_j_per_k),
        ("power that is always drawn".to_owned(), base_w),
    ];
    if let Throttle::PowerAllocator { sustainable_w, k_p_w_per_k, .. } = throttle {
        all.push(("sustainable power of the governor".to_owned(), sustainable_w));
        all.push(("answer of the governor to heat".to_owned(), k_p_w_per_k));
    }
    for processor in processors {
        let name = &processor.name;
        match &mut processor.dvfs {
            Some(dvfs) => {
                all.push((format!("power of {name} by frequency"), &mut dvfs.a_w_per_ghz));
                all.push((format!("power of {name} by cubed frequency"), &mut dvfs.b_w_per_ghz3));
            }
            None => all.push((format!("power of {name}"), &mut processor.active_w)),
        }
    }
    all
}

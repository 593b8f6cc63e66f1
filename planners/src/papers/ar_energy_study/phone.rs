//! The study's phone (a Nexus 6) in the terms of the phase model: frames as its tables have them,
//! and constants fitted to them.

use super::{PaperError, Tables};
use crate::energy::{
    Cycles, FrameEnergy, Phase, PowerLaw,
    dissect::OTHERS,
    offload::{Background, OffloadModel, Sized},
};

/// A frame of local execution under a governor, as tables I and II have it.
///
/// # Errors
/// [`PaperError::Row`] for a governor that the study does not have.
pub fn local_frame(governor: &str) -> Result<FrameEnergy, PaperError> {
    let tables = Tables::shipped()?;
    let (l, g) = (&tables.local, tables.column(governor)?);
    let phase = |name: &str, seconds: f64, joules: f64| Phase {
        name: name.to_owned(),
        seconds,
        watts: joules / seconds,
    };
    let phases = vec![
        phase("conversion", l.conversion_s[g], l.conversion_j[g]),
        phase(OTHERS, l.others_s[g], l.others_j[g]),
        phase("inference", l.inference_s[g], l.inference_j[g]),
    ];
    Ok(FrameEnergy {
        phases,
        base_w: l.base_j[g] / l.latency_s[g],
        camera_w: l.generation_and_preview_j[g] / l.latency_s[g],
    })
}

/// Constants of the study's phone and server: cycles from the performance governor, powers through
/// 0.3 and 2.649 GHz; local 300 px, remote 320 px. What is sent, and over which bandwidth, the
/// study does not print: communication is one round trip, whatever the bandwidth.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn device() -> Result<OffloadModel, PaperError> {
    let tables = Tables::shipped()?;
    let (local, remote) = (&tables.local, &tables.remote);
    let ((low, low_ghz), (high, high_ghz)) =
        (tables.governor("powersave")?, tables.governor("performance")?);
    let law = |joules: &[f64], seconds: &[f64]| {
        let watts = |g: usize| joules[g] / seconds[g];
        PowerLaw::through((low_ghz, watts(low)), (high_ghz, watts(high)))
            .ok_or_else(|| PaperError::Row("two frequencies".to_owned()))
    };
    let background = |joules: &[f64]| {
        let watts = |g: usize| joules[g] / local.latency_s[g];
        Background::through((low_ghz, watts(low)), (high_ghz, watts(high)))
    };
    let (base, camera) = (background(&local.base_j), background(&local.generation_and_preview_j));
    let conversion_power = law(&local.conversion_j, &local.conversion_s)?;
    // What a remote frame takes beside background, conversion and others, over the time of
    // communicating and waiting.
    let busy_s = remote.conversion_s[high] + remote.others_s[high];
    let always_w = base.watts(high_ghz) + camera.watts(high_ghz);
    let rest_j = remote.energy_j[high]
        - always_w * remote.latency_s[high]
        - conversion_power.watts(high_ghz) * busy_s;
    Ok(OffloadModel {
        conversion: Cycles::measured(local.conversion_s[high], high_ghz),
        others_s: local.others_s[high],
        conversion_power,
        inference_power: law(&local.inference_j, &local.inference_s)?,
        communication_w: rest_j / (remote.inference_s[high] + remote.communication_s[high]),
        local_base: base,
        remote_base: base,
        camera,
        camera_w_per_fps: 0.0,
        round_trip_s: remote.communication_s[high],
        bandwidth_bytes_per_s: f64::INFINITY,
        local: vec![Sized {
            size_px: 300,
            accuracy: tables.accuracy.local_map,
            inference: Cycles::measured(local.inference_s[high], high_ghz),
            sent_bytes: 0,
        }],
        remote: vec![Sized {
            size_px: 320,
            accuracy: tables.accuracy.remote_map,
            inference: Cycles(remote.inference_s[high]),
            sent_bytes: 0,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::offload::Place;

    #[test]
    fn a_frame_has_the_printed_energy() {
        // 5.037 J in 0.823 s.
        let frame = local_frame("performance").expect("a frame");
        assert!(
            (frame.latency_s() - 0.823).abs() < 1e-9 && (frame.energy_j() - 5.037).abs() < 1e-9
        );
        assert!(local_frame("turbo").is_err_and(|e| e.to_string().contains("governor turbo")));
    }

    #[test]
    fn constants_fitted_at_the_ends_hold_in_between() {
        let tables = Tables::shipped().expect("the shipped tables");
        let (g, ghz) = tables.governor("userspace").expect("a governor");
        let device = device().expect("a device");
        assert!(device.check().is_ok());
        for (place, network, latency_s, energy_j) in [
            (Place::Local, &device.local[0], tables.local.latency_s[g], tables.local.energy_j[g]),
            (
                Place::Remote,
                &device.remote[0],
                tables.remote.latency_s[g],
                tables.remote.energy_j[g],
            ),
        ] {
            let frame = device.frame(place, network, ghz, 15.0);
            let apart = |modelled: f64, printed: f64| (modelled / printed - 1.0).abs();
            assert!(
                apart(frame.latency_s(), latency_s) < 0.06,
                "{place:?}: {} s instead of {latency_s} s",
                frame.latency_s()
            );
            assert!(
                apart(frame.energy_j(), energy_j) < 0.06,
                "{place:?}: {} J instead of {energy_j} J",
                frame.energy_j()
            );
        }
    }
}

//! [`device`]: the constants of the phone, fitted to parts of the study's tables. What is fitted to
//! which figures:
//!
//! | constants | figures |
//! |---|---|
//! | powers of conversion, inference, base and camera over frequency | tables I and II at 0.3 and 2.649 GHz |
//! | cycles of conversion and of inference at 300 px | table I at 2.649 GHz |
//! | conversion by method and resolution | table VIII at [`FITTED_RESOLUTIONS`], scaled to the former |
//! | energy per sampled frame | observation 35, 5 frames/s; all of it is assumed to grow with the preview's pixels |
//! | share of post-processing | observation 33 |
//! | bandwidth, power of sending | tables III and VI at 2.649 GHz; three bytes per pixel are assumed |
//! | promotion, tail and idle of the radio | another paper (`planners/data/nexus6.toml`) |
//! | inference by input size | table VII at [`FITTED_SIZES_PX`], interactive |
//!
//! Everything else of these tables is predicted; `vitempo-studies paper ar-energy-study` prints both
//! with the errors.

use super::{Measured, Nexus6Error};
use crate::energy::{
    Background, Camera, Conversion, Cycles, Governor, PowerLaw, Resolution,
    offload::{BySize, Clock, OffloadModel, Place, SizeLaw, Sized, Use},
};

/// The input sizes of table VII that networks are fitted to: its ends, and one in between.
pub const FITTED_SIZES_PX: [u32; 3] = [128, 416, 608];

/// The rows of table VIII that conversions are fitted to: every other one.
pub const FITTED_RESOLUTIONS: [usize; 4] = [0, 2, 4, 6];

/// Bytes per pixel of a sent image: RGB, not compressed. An assumption: the study does not say.
const BYTES_PER_PIXEL: f64 = 3.0;

/// Camera rates of observation 35, frames per second: all enabled, all disabled.
const MANY_FPS: f64 = 30.0;
const FEW_FPS: f64 = 5.0;

/// The study's phone and server.
///
/// # Errors
/// [`Nexus6Error`] when the shipped measurements are damaged.
pub fn device() -> Result<OffloadModel, Nexus6Error> {
    let measured = Measured::shipped()?;
    let fit = Fit::of(&measured)?;
    let mut device = fit.without_sizes()?;
    device.by_size = Some(by_size(&measured, &device));
    Ok(device)
}

/// A frame as the study ran it: 15 camera frames per second, a preview of 800 x 600, conversion in
/// Java, all image processing on.
#[must_use]
pub fn as_measured(measured: &Measured, place: Place, network: Sized, clock: Clock) -> Use {
    let camera = measured.camera.as_used();
    Use { place, network, clock, camera, conversion: conversion_cycles(measured) }
}

/// Cycles of conversion at the study's preview: table I, performance.
fn conversion_cycles(measured: &Measured) -> Cycles {
    let at = measured.fixed("performance").ok();
    at.map_or(Cycles(f64::NAN), |(g, ghz)| Cycles::measured(measured.local.conversion_s[g], ghz))
}

/// The measurements, and the ends of the range of frequencies in them: governor and GHz.
struct Fit<'a> {
    measured: &'a Measured,
    low: (usize, f64),
    high: (usize, f64),
}

impl<'a> Fit<'a> {
    fn of(measured: &'a Measured) -> Result<Self, Nexus6Error> {
        let (low, high) = (measured.fixed("powersave")?, measured.fixed("performance")?);
        Ok(Self { measured, low, high })
    }

    fn without_sizes(&self) -> Result<OffloadModel, Nexus6Error> {
        let Measured { local, remote, accuracy, wifi, processor, .. } = self.measured;
        let (high, high_ghz) = self.high;
        let base = self.background(&local.base_j);
        let conversion_power = self.law(&local.conversion_j, &local.conversion_s)?;
        let camera = self.camera()?;
        let sent_bytes = BYTES_PER_PIXEL * 320.0 * 320.0;
        let awake = wifi.radio(0.0);
        let sending_s = remote.communication_s[high] - awake.promotion_s;
        let busy_s = remote.conversion_s[high] + remote.others_s[high];
        // The energy of a remote frame without all that is known.
        let background_w =
            base.watts(high_ghz) + camera.watts(high_ghz, self.measured.camera.as_used());
        let sending_j = remote.energy_j[high]
            - background_w * remote.latency_s[high]
            - conversion_power.watts(high_ghz) * busy_s
            - awake.frame_j(
                awake.promotion_after_s(busy_s),
                sending_s,
                remote.inference_s[high],
                busy_s,
            );
        Ok(OffloadModel {
            conversion: self.conversions(),
            others_s: local.others_s[high],
            conversion_power,
            inference_power: self.law(&local.inference_j, &local.inference_s)?,
            base,
            camera,
            radio: wifi.radio(sending_j / sending_s),
            round_trip_s: 0.0,
            bandwidth_bytes_per_s: sent_bytes / sending_s,
            local: vec![Sized {
                size_px: 300,
                accuracy: Some(accuracy.local_map),
                inference: Cycles::measured(local.inference_s[high], high_ghz),
                sent_bytes: 0,
            }],
            remote: vec![Sized {
                size_px: 320,
                accuracy: Some(accuracy.remote_map),
                inference: Cycles(remote.inference_s[high]),
                sent_bytes: sent_bytes as u64,
            }],
            by_size: None,
            processor: Some(processor.clone()),
        })
    }

    /// The power law of a phase.
    fn law(&self, joules: &[f64], seconds: &[f64]) -> Result<PowerLaw, Nexus6Error> {
        let at = |(g, ghz): (usize, f64)| (ghz, joules[g] / seconds[g]);
        PowerLaw::through(at(self.low), at(self.high)).ok_or(Nexus6Error::Row("two frequencies"))
    }

    /// The background power of a part that local frames draw all the time.
    fn background(&self, joules: &[f64]) -> Background {
        let at = |(g, ghz): (usize, f64)| (ghz, joules[g] / self.measured.local.latency_s[g]);
        Background::through(at(self.low), at(self.high))
    }

    /// The camera: with c its power at the study's rate r, o all other power of a remote frame, s
    /// the energy of a sampled frame and p the share of post-processing, observation 35 says
    /// (1 - p) (c + (5 - r) s) + o = (1 - 0.27) (c + (30 - r) s + o), at the default governor.
    fn camera(&self) -> Result<Camera, Nexus6Error> {
        let Measured { local, remote, camera, .. } = self.measured;
        let g = self.measured.governor("interactive")?;
        let camera_w = local.generation_and_preview_j[g] / local.latency_s[g];
        let other_w = remote.energy_j[g] / remote.latency_s[g] - camera_w;
        let left = 1.0 - camera.off_at_5_fps_pct / 100.0;
        let share = camera.post_processing_pct / 100.0;
        let sampled_j = ((1.0 - share) * camera_w + other_w - left * (camera_w + other_w))
            / (left * (MANY_FPS - camera.fps) + (1.0 - share) * (camera.fps - FEW_FPS));
        let all = self.background(&local.generation_and_preview_j);
        Ok(Camera {
            on: Background { fixed_w: all.fixed_w - camera.fps * sampled_j, ..all },
            frame_j: 0.0,
            frame_j_per_megapixel: sampled_j / camera.preview.megapixels(),
            post_processing_share: share,
            preview: camera.preview,
        })
    }

    /// Both methods of conversion. Table VIII was measured under conditions that the study does not
    /// name: its times are scaled to table I's in Java at the same resolution.
    fn conversions(&self) -> Vec<Conversion> {
        let table = &self.measured.conversion;
        let line_of = |times: &[f64]| {
            let point = |row: usize| {
                let (pixels, ms) = (table.resolution[row].megapixels(), times[row]);
                Point { x: pixels, y: ms, weight: ms.powi(-2) }
            };
            line(FITTED_RESOLUTIONS.map(point))
        };
        let (java, c) = (line_of(&table.java_ms), line_of(&table.c_ms));
        let preview: Resolution = self.measured.camera.preview;
        let per_ms = conversion_cycles(self.measured).0 / java.at(preview.megapixels());
        let method = |method: &str, line: Line| Conversion {
            method: method.to_owned(),
            image: per_ms * line.intercept,
            per_megapixel: per_ms * line.slope,
        };
        vec![method("java", java), method("c", c)]
    }
}

/// Inference by input size: the work that gives each fitted energy of table VII, and the straight
/// line over pixels through these.
fn by_size(measured: &Measured, device: &OffloadModel) -> BySize {
    let table = &measured.by_size;
    let law_of = |place: Place, energies: &[f64]| {
        let point = |size_px: u32| {
            let row = table.size_px.iter().position(|&px| px == size_px).unwrap_or(0);
            let work = inverse(energies[row], |work| {
                let sent_bytes = match place {
                    Place::Local => 0,
                    Place::Remote => (BYTES_PER_PIXEL * f64::from(size_px).powi(2)) as u64,
                };
                let network =
                    Sized { size_px, accuracy: None, inference: Cycles(work), sent_bytes };
                let clock = Clock::Governed(Governor::Interactive);
                device.frame(&as_measured(measured, place, network, clock)).energy_j()
            });
            let weight = energies[row].powi(-2);
            Point { x: f64::from(size_px).powi(2) / 1e6, y: work, weight }
        };
        let line = line(FITTED_SIZES_PX.map(point));
        Some(SizeLaw { fixed: line.intercept, per_megapixel: line.slope })
    };
    BySize {
        local: law_of(Place::Local, &table.local_j),
        remote: law_of(Place::Remote, &table.remote_j),
        sent_bytes_per_pixel: BYTES_PER_PIXEL,
    }
}

/// The argument, 0 or more, at which a function that rises almost in a straight line has a value.
fn inverse(value: f64, rising: impl Fn(f64) -> f64) -> f64 {
    let slope = rising(1.0) - rising(0.0);
    (0..8).fold(0.0, |at: f64, _| (at + (value - rising(at)) / slope).max(0.0))
}

/// A measured point, and how much it counts.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
    weight: f64,
}

/// A straight line.
#[derive(Clone, Copy)]
struct Line {
    intercept: f64,
    slope: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The line of least weighted squares that is nowhere below 0.
fn line<const N: usize>(points: [Point; N]) -> Line {
    let sum = |of: fn(&Point) -> f64| points.iter().map(|p| p.weight * of(p)).sum::<f64>();
    let (n, x, y) = (sum(|_| 1.0), sum(|p| p.x), sum(|p| p.y));
    let (xx, xy) = (sum(|p| p.x * p.x), sum(|p| p.x * p.y));
    let slope = (n * xy - x * y) / (n * xx - x * x);
    let intercept = (y - slope * x) / n;
    match (intercept < 0.0, slope < 0.0) {
        (true, _) => Line { intercept: 0.0, slope: xy / xx },
        (_, true) => Line { intercept: y / n, slope: 0.0 },
        _ => Line { intercept, slope },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::offload::Frame;

    fn device_and_tables() -> (OffloadModel, Measured) {
        (device().expect("a device"), Measured::shipped().expect("the shipped measurements"))
    }

    fn within(what: &str, modelled: f64, printed: f64, share: f64) {
        let error = modelled / printed - 1.0;
        assert!(error.abs() < share, "{what}: {modelled} instead of {printed} ({error:+.3})");
    }

    fn frame(
        device: &OffloadModel,
        measured: &Measured,
        place: Place,
        size: Option<u32>,
        clock: Clock,
    ) -> Frame {
        let listed = if place == Place::Local { device.local[0] } else { device.remote[0] };
        let by_size = device.by_size.expect("networks by size");
        let network = size.map_or(listed, |px| by_size.network(place, px).expect("a law"));
        device.frame(&as_measured(measured, place, network, clock))
    }

    #[test]
    fn the_constants_are_possible() {
        let (device, _) = device_and_tables();
        device.check().expect("constants in their ranges");
        assert!((1e6..1e7).contains(&device.bandwidth_bytes_per_s), "{device:?}");
        assert!((0.5..5.0).contains(&device.radio.transmit_w), "{:?}", device.radio);
    }

    #[test]
    fn frames_at_the_frequency_in_between_are_predicted() {
        let (device, measured) = device_and_tables();
        for (name, share) in [("userspace", 0.06), ("performance", 0.03)] {
            let (g, ghz) = measured.fixed(name).expect("a governor");
            let (local, remote) = (&measured.local, &measured.remote);
            for (place, latency_s, energy_j) in [
                (Place::Local, local.latency_s[g], local.energy_j[g]),
                (Place::Remote, remote.latency_s[g], remote.energy_j[g]),
            ] {
                let frame = frame(&device, &measured, place, None, Clock::Fixed(ghz));
                within(&format!("{name} {place:?} s"), frame.latency_s, latency_s, share);
                within(&format!("{name} {place:?} J"), frame.energy_j(), energy_j, share);
            }
        }
    }

    #[test]
    fn frames_under_governors_are_predicted() {
        let (device, measured) = device_and_tables();
        for governor in [Governor::Conservative, Governor::Ondemand, Governor::Interactive] {
            let g = measured.governor(&governor.to_string()).expect("a governor");
            let (local, remote) = (&measured.local, &measured.remote);
            for (place, latency_s, energy_j) in [
                (Place::Local, local.latency_s[g], local.energy_j[g]),
                (Place::Remote, remote.latency_s[g], remote.energy_j[g]),
            ] {
                let clock = Clock::Governed(governor);
                let frame = frame(&device, &measured, place, None, clock);
                within(&format!("{governor} {place:?} s"), frame.latency_s, latency_s, 0.11);
                within(&format!("{governor} {place:?} J"), frame.energy_j(), energy_j, 0.11);
            }
        }
    }

    #[test]
    fn half_of_the_sizes_predict_the_rest() {
        let (device, measured) = device_and_tables();
        let table = &measured.by_size;
        let clock = Clock::Governed(Governor::Interactive);
        for (place, energies) in [(Place::Local, &table.local_j), (Place::Remote, &table.remote_j)]
        {
            for (&size_px, &printed) in table.size_px.iter().zip(energies) {
                let frame = frame(&device, &measured, place, Some(size_px), clock);
                within(&format!("{place:?} {size_px} px"), frame.energy_j(), printed, 0.1);
            }
        }
    }

    #[test]
    fn conversions_at_half_of_the_resolutions_predict_the_rest() {
        let (device, measured) = device_and_tables();
        let table = &measured.conversion;
        let cycles =
            |method: usize, row: usize| device.conversion[method].cycles(table.resolution[row]).0;
        // Table VIII's conditions: cycles per ms, as for Java at 800 x 600.
        let per_ms = cycles(0, 5) / table.java_ms[5];
        for row in 0..table.resolution.len() {
            let what = table.resolution[row].to_string();
            within(&what, cycles(0, row) / per_ms, table.java_ms[row], 0.08);
            within(&what, cycles(1, row) / per_ms, table.c_ms[row], 0.15);
        }
    }

    #[test]
    fn lines_go_through_points_and_stay_above_zero() {
        let point = |x, y| Point { x, y, weight: 1.0 };
        let rising = line([point(0.0, 1.0), point(1.0, 3.0), point(2.0, 5.0)]);
        assert!((rising.intercept - 1.0).abs() < 1e-12 && (rising.slope - 2.0).abs() < 1e-12);
        assert_eq!(line([point(1.0, 0.0), point(2.0, 3.0)]).intercept, 0.0);
        assert_eq!(line([point(1.0, 3.0), point(2.0, 1.0)]).slope, 0.0);
        assert!((inverse(7.0, |x| 1.0 + 2.0 * x) - 3.0).abs() < 1e-9);
    }
}

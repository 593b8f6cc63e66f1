//! Every combination of place, input size, frequency or governor, camera and conversion, and the
//! bandwidth at which the answer changes.

use super::{
    Bounds, Choice, Clock, EnergyParts, Least, OffloadError, OffloadModel, Place, Sized, Use, best,
};
use crate::energy::{CameraUse, Processor, Resolution};
use serde::Serialize;

/// Frequencies to compare where none is given, GHz.
const USUAL_GHZ: [f64; 5] = [0.3, 0.72, 1.5, 2.26, 2.65];
/// A given frequency may be rounded by this share.
const ROUNDED: f64 = 0.01;
/// Bandwidths at which the server is compared with the device, bytes per second.
const BANDWIDTHS: (f64, f64) = (1.0, 1e10);
/// The shares by which these bandwidths differ: all of them, and up to ten times the break-even
/// bandwidth.
pub const BREAK_EVEN_STEPS: (f64, f64) = (0.06, 0.01);
/// The break-even bandwidth is known to this share.
const PRECISION: f64 = 1e-6;

/// The settings to combine. An empty list stands for the device's own: its preview,
/// post-processing on, its first conversion, its listed networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Frequencies and governors; empty: [`OffloadModel::usual_clocks`].
    pub clocks: Vec<Clock>,
    /// Frames per second of the camera.
    pub camera_fps: Vec<f64>,
    /// Resolutions of the preview.
    pub previews: Vec<Resolution>,
    /// Post-processing on or off.
    pub post_processing: Vec<bool>,
    /// Methods of conversion.
    pub conversions: Vec<String>,
    /// Sides of the input, pixels.
    pub sizes_px: Vec<u32>,
}

/// What a modelled choice says beside its costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// Resolution of the preview.
    pub preview: Resolution,
    /// Whether post-processing is on.
    pub post_processing: bool,
    /// Method of conversion.
    pub conversion: String,
    /// Whether the network's costs are those of the straight line over input sizes (`by_size`)
    /// instead of a listed network's. The line need not go through listed networks: costs of both
    /// kinds are not comparable.
    pub by_size: bool,
    /// Time from one detected frame to the next, s.
    pub period_s: f64,
    /// Mean frequency, GHz.
    pub mean_ghz: f64,
    /// Share of the power of camera and preview that goes into frames that are detected.
    pub sampling_share: f64,
    /// Energy by part.
    pub energy: EnergyParts,
}

impl OffloadModel {
    /// Every combination of the settings.
    ///
    /// # Errors
    /// [`OffloadError`] for a conversion or an input size that the device does not have, or a
    /// governor on a device without `processor`.
    pub fn options(&self, settings: &Settings) -> Result<Vec<Choice>, OffloadError> {
        self.check_clocks(&settings.clocks)?;
        let mut networks = self.networks(Place::Local, settings);
        networks.extend(self.networks(Place::Remote, settings));
        self.check_sizes(settings, &networks)?;
        self.combined(&networks, settings)
    }

    /// Every combination of these networks with the other settings.
    fn combined(
        &self,
        networks: &[(Place, Sized)],
        settings: &Settings,
    ) -> Result<Vec<Choice>, OffloadError> {
        let methods = self.methods(settings)?;
        let cameras = self.cameras(settings);
        let mut choices = Vec::new();
        for &(place, network) in networks {
            for &clock in &settings.clocks {
                for &camera in &cameras {
                    for &method in &methods {
                        choices.push(self.choice(place, network, clock, camera, method));
                    }
                }
            }
        }
        Ok(choices)
    }

    /// The network of a place at an input size: the listed one, else by size; `None` where there is
    /// neither.
    #[must_use]
    pub fn network(&self, place: Place, size_px: u32) -> Option<Sized> {
        let listed = self.listed(place).iter().find(|n| n.size_px == size_px).copied();
        listed.or_else(|| self.by_size.and_then(|law| law.network(place, size_px)))
    }

    /// The listed networks of a place.
    #[must_use]
    pub fn listed(&self, place: Place) -> &[Sized] {
        if place == Place::Local { &self.local } else { &self.remote }
    }

    fn networks(&self, place: Place, settings: &Settings) -> Vec<(Place, Sized)> {
        let find = |&size_px: &u32| self.network(place, size_px);
        let networks: Vec<Sized> = match settings.sizes_px.is_empty() {
            true => self.listed(place).to_vec(),
            false => settings.sizes_px.iter().filter_map(find).collect(),
        };
        networks.into_iter().map(|network| (place, network)).collect()
    }

    /// Frequencies to compare where none is given: of the usual ones, those that the device has;
    /// its lowest and its highest where it has none of them.
    #[must_use]
    pub fn usual_clocks(&self) -> Vec<Clock> {
        let usual = USUAL_GHZ.map(Clock::Fixed);
        let has = |clock: &Clock| self.check_clocks(&[*clock]).is_ok();
        let known: Vec<Clock> = usual.into_iter().filter(has).collect();
        match self.processor.as_ref().and_then(Processor::range_ghz) {
            Some((lowest, highest)) if known.is_empty() => {
                [lowest, highest].map(Clock::Fixed).to_vec()
            }
            _ => known,
        }
    }

    /// Whether the device can run under these clocks.
    ///
    /// # Errors
    /// [`OffloadError::NoProcessor`] for a governor on a device without frequencies,
    /// [`OffloadError::Frequency`] for a frequency outside its range.
    pub fn check_clocks(&self, clocks: &[Clock]) -> Result<(), OffloadError> {
        if let Some((lowest, highest)) = self.processor.as_ref().and_then(Processor::range_ghz) {
            // A rounded frequency stands for that of a step.
            let range = lowest * (1.0 - ROUNDED)..=highest * (1.0 + ROUNDED);
            let outside = |clock: &Clock| match clock {
                Clock::Fixed(ghz) => Some(*ghz).filter(|ghz| !range.contains(ghz)),
                Clock::Governed(_) => None,
            };
            if let Some(ghz) = clocks.iter().find_map(outside) {
                return Err(OffloadError::Frequency { ghz, lowest, highest });
            }
        }
        let governed = clocks.iter().any(|clock| matches!(clock, Clock::Governed(_)));
        let lacks = self.processor.as_ref().is_none_or(|p| p.steps_ghz.is_empty());
        if governed && lacks { Err(OffloadError::NoProcessor) } else { Ok(()) }
    }

    fn check_sizes(
        &self,
        settings: &Settings,
        found: &[(Place, Sized)],
    ) -> Result<(), OffloadError> {
        let lacks = |size_px: &&u32| found.iter().all(|(_, n)| n.size_px != **size_px);
        if let Some(size_px) = settings.sizes_px.iter().find(lacks) {
            return Err(self.no_size(*size_px));
        }
        if found.is_empty() { Err(OffloadError::NoNetworkListed) } else { Ok(()) }
    }

    /// The error for an input size that the device does not have.
    #[must_use]
    pub fn no_size(&self, size_px: u32) -> OffloadError {
        let sizes = self.local.iter().chain(&self.remote).map(|n| format!("{} px", n.size_px));
        OffloadError::Unknown {
            what: "input size",
            name: format!("{size_px} px"),
            known: sizes.collect::<Vec<_>>().join(", "),
        }
    }

    /// Indices of the methods of conversion.
    fn methods(&self, settings: &Settings) -> Result<Vec<usize>, OffloadError> {
        if settings.conversions.is_empty() {
            return Ok(vec![0]);
        }
        let find = |name: &String| {
            let known = || self.conversion.iter().map(|c| c.method.as_str()).collect::<Vec<_>>();
            self.conversion.iter().position(|c| c.method == *name).ok_or_else(|| {
                let (what, name) = ("conversion", name.clone());
                OffloadError::Unknown { what, name, known: known().join(", ") }
            })
        };
        settings.conversions.iter().map(find).collect()
    }

    fn cameras(&self, settings: &Settings) -> Vec<CameraUse> {
        let or =
            |given: &[Resolution], own| if given.is_empty() { vec![own] } else { given.to_vec() };
        let previews = or(&settings.previews, self.camera.preview);
        let post = match settings.post_processing.is_empty() {
            true => vec![true],
            false => settings.post_processing.clone(),
        };
        let mut cameras = Vec::new();
        for &fps in &settings.camera_fps {
            for &preview in &previews {
                for &post_processing in &post {
                    cameras.push(CameraUse { fps, preview, post_processing });
                }
            }
        }
        cameras
    }

    fn choice(
        &self,
        place: Place,
        network: Sized,
        clock: Clock,
        camera: CameraUse,
        method: usize,
    ) -> Choice {
        let method = &self.conversion[method];
        let conversion = method.cycles(camera.preview);
        let frame = self.frame(&Use { place, network, clock, camera, conversion });
        Choice {
            place,
            setting: match clock {
                Clock::Fixed(ghz) => format!("{ghz} GHz"),
                Clock::Governed(governor) => governor.to_string(),
            },
            size_px: network.size_px,
            camera_fps: Some(camera.fps),
            latency_s: frame.latency_s + frame.age_s,
            energy_j: frame.energy_j(),
            accuracy: network.accuracy,
            modelled: Some(Modelled {
                preview: camera.preview,
                post_processing: camera.post_processing,
                conversion: method.method.clone(),
                by_size: self.listed(place).iter().all(|n| n.size_px != network.size_px),
                period_s: frame.period_s,
                mean_ghz: frame.ghz,
                sampling_share: frame.sampling_share,
                energy: frame.energy,
            }),
        }
    }

    /// The bandwidth, bytes per second, above which some remote choice within the bounds is better
    /// than every local one; 0 if this holds at every bandwidth, `None` if it does not hold at the
    /// highest or if there is nothing to compare. Mean power does not decrease with the bandwidth,
    /// so it has no such point.
    ///
    /// A governor, the radio's tail or its promotion can make a higher bandwidth worse, so that the
    /// answer may change more than once. The search goes down from the highest bandwidth in steps
    /// of [`BREAK_EVEN_STEPS`], and the server is better at every step above the result.
    ///
    /// # Errors
    /// As [`OffloadModel::options`].
    pub fn break_even_bandwidth(
        &self,
        least: Least,
        bounds: &Bounds,
        settings: &Settings,
    ) -> Result<Option<f64>, OffloadError> {
        if least == Least::Power {
            return Ok(None);
        }
        let choices = self.options(settings)?;
        let (local, remote): (Vec<Choice>, Vec<Choice>) =
            choices.into_iter().partition(|choice| choice.place == Place::Local);
        let value = |choices: &[Choice]| best(choices, least, bounds).map(|c| least.of(c));
        let Some(local) = value(&local).filter(|_| !remote.is_empty()) else { return Ok(None) };
        let networks = self.networks(Place::Remote, settings);
        let remote_wins = |bandwidth_bytes_per_s: f64| {
            let model = Self { bandwidth_bytes_per_s, ..self.clone() };
            let choices = model.combined(&networks, settings)?;
            Ok(value(&choices).is_some_and(|remote| remote < local))
        };
        let (slowest, mut fast) = BANDWIDTHS;
        if !(remote_wins(100.0 * fast)? && remote_wins(fast)?) {
            return Ok(None);
        }
        let down = |mut fast: f64, step: f64| {
            while fast > slowest && remote_wins(fast / step)? {
                fast /= step;
            }
            Ok(fast)
        };
        let (wide, narrow) = BREAK_EVEN_STEPS;
        let most = fast;
        fast = down(fast, 1.0 + wide)?;
        if fast <= slowest {
            return Ok(Some(0.0));
        }
        fast = (10.0 * fast).min(most);
        let mut step = 1.0 + narrow;
        while step > 1.0 + PRECISION {
            fast = down(fast, step)?;
            step = step.powf(0.125);
        }
        Ok(Some(fast))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::{
        Governor,
        offload::{BySize, SizeLaw, model::tests::model, pareto},
    };

    fn at(frequencies_ghz: &[f64], camera_fps: &[f64]) -> Settings {
        Settings {
            clocks: frequencies_ghz.iter().map(|&ghz| Clock::Fixed(ghz)).collect(),
            camera_fps: camera_fps.to_vec(),
            ..Settings::default()
        }
    }

    #[test]
    fn size_and_bandwidth_decide_where() {
        let mut model = model();
        let place = |model: &OffloadModel, sizes: (usize, usize)| {
            let choices = OffloadModel {
                local: vec![model.local[sizes.0]],
                remote: vec![model.remote[sizes.1]],
                ..model.clone()
            }
            .options(&at(&[2.0], &[15.0]))
            .expect("choices");
            best(&choices, Least::Energy, &Bounds::default()).map(|c| c.place)
        };
        assert_eq!(place(&model, (0, 0)), Some(Place::Local));
        assert_eq!(place(&model, (2, 1)), Some(Place::Remote));
        model.bandwidth_bytes_per_s = 2e4;
        assert_eq!(place(&model, (2, 1)), Some(Place::Local));
    }

    #[test]
    fn the_break_even_bandwidth_is_where_the_answer_flips() {
        let model = model();
        let bounds = Bounds { accuracy_at_least: 15.0, ..Bounds::default() };
        let settings = at(&[1.0, 2.0], &[15.0]);
        let place = |bandwidth_bytes_per_s: f64, least| {
            let model = OffloadModel { bandwidth_bytes_per_s, ..model.clone() };
            let choices = model.options(&settings).expect("choices");
            best(&choices, least, &bounds).map(|c| c.place)
        };
        for least in [Least::Energy, Least::Latency, Least::EnergyDelay] {
            let point = model
                .break_even_bandwidth(least, &bounds, &settings)
                .expect("settings of the device")
                .expect("the server wins when it is near");
            assert_eq!(
                (place(0.99 * point, least), place(1.01 * point, least)),
                (Some(Place::Local), Some(Place::Remote)),
                "{least:?}"
            );
        }
        let even = |model: &OffloadModel, bounds: &Bounds| {
            model.break_even_bandwidth(Least::Energy, bounds, &settings).expect("settings")
        };
        let alone = OffloadModel { remote: Vec::new(), ..model.clone() };
        assert_eq!(even(&alone, &bounds), None);
        let strict = Bounds { accuracy_at_least: 99.0, ..bounds };
        assert_eq!(even(&model, &strict), None);
    }

    #[test]
    fn the_server_is_better_at_every_bandwidth_above_the_break_even() {
        // A long tail: with more bandwidth the pause is longer than it, and needs a promotion.
        let mut model = model();
        model.radio = crate::energy::Radio {
            promotion_s: 0.5,
            promotion_w: 3.0,
            transmit_w: 2.0,
            tail_s: 1.0,
            tail_w: 1.0,
            idle_w: 0.0,
        };
        model.remote[0].sent_bytes = 300_000;
        model.remote.truncate(1);
        let bounds = Bounds::default();
        let energy = |model: &OffloadModel, place, bandwidth_bytes_per_s| {
            let model = OffloadModel { bandwidth_bytes_per_s, ..model.clone() };
            let choices = model.options(&at(&[2.0], &[0.6])).expect("choices");
            let here: Vec<Choice> = choices.into_iter().filter(|c| c.place == place).collect();
            best(&here, Least::Energy, &bounds).expect("a choice").energy_j
        };
        let grid: Vec<f64> = (0..200).map(|i| 1e4 * 1.06f64.powi(i)).collect();
        let remote: Vec<f64> = grid.iter().map(|&b| energy(&model, Place::Remote, b)).collect();
        let worse = (1..grid.len()).find(|&i| remote[i] > 1.01 * remote[i - 1]);
        let worse = worse.expect("more bandwidth that is worse");
        // A device between the energies of either side.
        let wanted = 0.5 * (remote[worse] + remote[worse - 1]);
        let mut local = OffloadModel { remote: Vec::new(), ..model.clone() };
        local.local.truncate(1);
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..60 {
            local.local[0].inference = crate::energy::Cycles(0.5 * (low + high));
            let is_low = energy(&local, Place::Local, 1e6) < wanted;
            if is_low {
                low = local.local[0].inference.0;
            } else {
                high = local.local[0].inference.0;
            }
        }
        model.local = local.local;
        let even = model
            .break_even_bandwidth(Least::Energy, &bounds, &at(&[2.0], &[0.6]))
            .expect("settings");
        let wins = |b: &f64| energy(&model, Place::Remote, *b) < energy(&model, Place::Local, *b);
        assert!(wins(&grid[worse - 1]) && !wins(&grid[worse]));
        let above = |b: &&f64| even.is_some_and(|even| **b > even);
        assert!(even.is_none_or(|even| even > grid[worse]), "{even:?}");
        assert!(grid.iter().filter(above).all(wins), "{even:?}");
    }

    #[test]
    fn neither_the_slowest_nor_the_fastest_clock_is_frugal() {
        let settings = at(&[0.3, 1.0, 1.5, 2.26, 2.65], &[5.0, 15.0, 30.0]);
        let choices = model().options(&settings).expect("choices");
        assert_eq!(choices.len(), 5 * 5 * 3);
        let accurate = Bounds { accuracy_at_least: 50.0, ..Bounds::default() };
        let fastest = best(&choices, Least::Latency, &accurate).expect("a remote choice");
        assert!(pareto(&choices).contains(fastest) && fastest.place == Place::Remote);
        // Base and camera draw power during the longer computation at a low frequency.
        let frugal = best(&choices, Least::Energy, &accurate).expect("a choice");
        assert!(!["0.3 GHz", "2.65 GHz"].contains(&frugal.setting.as_str()), "{frugal:?}");
        assert_eq!(frugal.camera_fps, Some(5.0), "each sampled frame costs energy");
    }

    #[test]
    fn camera_conversion_and_size_are_choices() {
        let law = SizeLaw { fixed: 0.1, per_megapixel: 10.0 };
        let by_size = BySize { local: Some(law), remote: Some(law), sent_bytes_per_pixel: 3.0 };
        let model = OffloadModel { by_size: Some(by_size), ..model() };
        let settings = Settings {
            previews: ["320x240", "800x600"].map(|r| r.parse().expect("a resolution")).to_vec(),
            post_processing: vec![true, false],
            conversions: vec!["java".to_owned(), "c".to_owned()],
            sizes_px: vec![100, 200],
            ..at(&[2.0], &[15.0])
        };
        let choices = model.options(&settings).expect("choices");
        assert_eq!(choices.len(), 2 * 2 * 2 * 2 * 2);
        let energy = |of: &dyn Fn(&Modelled) -> bool| {
            let of = |c: &&Choice| c.size_px == 100 && c.modelled.as_ref().is_some_and(of);
            choices.iter().filter(of).map(|c| c.energy_j).sum::<f64>()
        };
        assert!(energy(&|m| m.conversion == "c") < energy(&|m| m.conversion == "java"));
        assert!(energy(&|m| !m.post_processing) < energy(&|m| m.post_processing));
        assert!(energy(&|m| m.preview.width == 320) < energy(&|m| m.preview.width == 800));
        let remote = |c: &&Choice| c.place == Place::Remote && c.size_px == 200;
        assert!(choices.iter().filter(remote).all(|c| c.accuracy.is_none()));
        let by_size = |c: &Choice| c.modelled.as_ref().is_some_and(|m| m.by_size);
        // 100 px is listed for the device.
        assert!(
            choices.iter().all(|c| by_size(c) != (c.place == Place::Local && c.size_px == 100))
        );
    }

    #[test]
    fn what_the_device_lacks_is_refused() {
        let settings = at(&[2.0], &[15.0]);
        let message = |settings: Settings| {
            model().options(&settings).map_or_else(|e| e.to_string(), |_| "done".to_owned())
        };
        assert_eq!(
            message(Settings { conversions: vec!["neon".to_owned()], ..settings.clone() }),
            "the device has no conversion neon: it has java, c"
        );
        assert_eq!(
            message(Settings { sizes_px: vec![512], ..settings.clone() }),
            "the device has no input size 512 px: it has 100 px, 300 px, 600 px, 320 px, 608 px"
        );
        let clocked = OffloadModel {
            processor: Some(Processor {
                steps_ghz: vec![0.5, 1.0, 1.9],
                loads: crate::energy::Loads { conversion: 0.9, inference: 0.9, waiting: 0.1 },
            }),
            ..model()
        };
        for ghz in [0.4, 7.0] {
            let refused = clocked.options(&at(&[ghz], &[15.0])).map_err(|e| e.to_string());
            let expected =
                format!("the device does not run at {ghz} GHz: its frequencies are 0.5 to 1.9 GHz");
            assert_eq!(refused, Err(expected));
        }
        assert!(clocked.options(&at(&[1.91], &[15.0])).is_ok(), "1.9 GHz, rounded");
        assert_eq!(clocked.usual_clocks(), [0.72, 1.5].map(Clock::Fixed));
        assert_eq!(model().usual_clocks().len(), 5);
        let governed = vec![Clock::Governed(Governor::Ondemand)];
        assert!(message(Settings { clocks: governed, ..settings }).contains("`processor`"));
    }
}

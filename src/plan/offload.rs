//! Chooses between the device and a server, a frequency, an input size and a camera rate: [`weigh`]
//! finds the best choice within bounds, and the Pareto front. [`Launch`] is frequency and power over
//! time for one of them.

use std::path::PathBuf;
use vitempo_planners::{
    Evidence,
    energy::{
        CameraUse,
        nexus6::{self, MOST_CAMERA_FPS, Nexus6Error},
        offload::{
            Bounds, Choice, Clock, Least, Moment, OffloadError, OffloadModel, Place, Settings, Use,
            best, pareto, read_choices,
        },
    },
};

/// The source of the choices.
#[derive(Clone, Debug)]
pub enum Source {
    /// The measurements of the AR energy study.
    Study,
    /// Measured choices, a CSV file.
    Measured(PathBuf),
    /// All combinations on a device and a server, by the phase model.
    Modelled {
        /// The constants of the device.
        device: Device,
        /// Frequencies, governors, camera, conversion and input sizes to combine.
        settings: Settings,
        /// Bandwidth of the uplink, bytes per second; `None`: the device's.
        bytes_per_s: Option<f64>,
    },
}

/// Constants of the phase model.
#[derive(Clone, Debug)]
pub enum Device {
    /// The study's phone.
    Study,
    /// A JSON file.
    File(PathBuf),
}

/// The bandwidth above which a remote choice is better than every local one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEven {
    /// At every bandwidth.
    Always,
    /// From this bandwidth on, bytes per second.
    From(f64),
}

/// Choices, and the best of them.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// The choices to show: all, or the Pareto front; the best is among them.
    pub choices: Vec<Choice>,
    /// The best within the bounds.
    pub best: Choice,
    /// The level of evidence of the figures.
    pub evidence: Evidence,
    /// The break-even bandwidth, where there are constants of a server and a link, and such a
    /// bandwidth exists.
    pub break_even: Option<BreakEven>,
}

/// Why no choice can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeighError {
    /// Choices or constants are invalid.
    #[error(transparent)]
    Offload(#[from] OffloadError),
    /// The shipped figures of the study are damaged.
    #[error(transparent)]
    Paper(#[from] Nexus6Error),
    /// A bandwidth, and nothing that is sent.
    #[error("the bandwidth has no effect: no network runs on the server")]
    NothingSent,
    /// A rate of the camera at which the device was not measured.
    #[error(
        "{fps} camera frames a second: the camera of the study's phone was measured up to {most}"
    )]
    CameraRate {
        /// As asked for.
        fps: f64,
        /// The highest rate that was measured.
        most: f64,
    },
    /// No choice satisfies the bounds.
    #[error("no choice keeps the bounds")]
    NothingWithin {
        /// The bounds.
        bounds: Bounds,
        /// Number of choices.
        choices: usize,
        /// The best of all choices in each bounded quantity, by itself.
        nearest: Bounds,
    },
}

/// Compares choices by energy, latency and accuracy. `all`: dominated choices are returned as well.
///
/// ```
/// use vitempo::plan::offload::{Device, Source, weigh};
/// use vitempo::planners::energy::offload::{Bounds, Clock, Least, Settings};
///
/// let settings = Settings {
///     clocks: vec![Clock::Fixed(0.3), Clock::Fixed(2.65)],
///     camera_fps: vec![5.0, 30.0],
///     ..Settings::default()
/// };
/// let source = Source::Modelled { device: Device::Study, settings, bytes_per_s: None };
/// let weighed = weigh(&source, Least::Energy, &Bounds::default(), false)?;
/// assert!(weighed.choices.contains(&weighed.best));
/// println!("{:?}: {:.2} J", weighed.best.place, weighed.best.energy_j);
/// # Ok::<(), vitempo::plan::offload::WeighError>(())
/// ```
///
/// # Errors
/// [`WeighError`] naming the file, row or constant that is invalid, or an error if no choice is
/// within the bounds.
pub fn weigh(
    source: &Source,
    least: Least,
    bounds: &Bounds,
    all: bool,
) -> Result<Weighed, WeighError> {
    let (choices, evidence, break_even) = match source {
        Source::Study => (nexus6::choices()?, Evidence::PaperTable, None),
        Source::Measured(path) => (read_choices(path)?, Evidence::TraceReplay, None),
        Source::Modelled { device, settings, bytes_per_s } => {
            let model = device.model(*bytes_per_s)?;
            device.check_camera(&settings.camera_fps)?;
            let mut settings = settings.clone();
            if settings.clocks.is_empty() {
                settings.clocks = model.usual_clocks();
            }
            let choices = model.options(&settings)?;
            if bytes_per_s.is_some() && choices.iter().all(|choice| choice.place == Place::Local) {
                return Err(WeighError::NothingSent);
            }
            let even = break_even(&model, &choices, least, bounds, &settings)?;
            (choices, Evidence::CostModel, even)
        }
    };
    let best = best(&choices, least, bounds).cloned().ok_or_else(|| WeighError::NothingWithin {
        bounds: *bounds,
        choices: choices.len(),
        nearest: nearest(&choices),
    })?;
    let mut shown = if all { choices } else { pareto(&choices) };
    // The choice of least power may be dominated in all other criteria.
    if !shown.contains(&best) {
        shown.push(best.clone());
    }
    Ok(Weighed { choices: shown, best, evidence, break_even })
}

/// The bounds that some choice keeps, one by one.
fn nearest(choices: &[Choice]) -> Bounds {
    let least = |of: &dyn Fn(&Choice) -> f64| choices.iter().map(of).fold(f64::INFINITY, f64::min);
    Bounds {
        accuracy_at_least: choices.iter().filter_map(|choice| choice.accuracy).fold(0.0, f64::max),
        latency_at_most_s: least(&|choice| choice.latency_s),
        energy_at_most_j: least(&|choice| choice.energy_j),
    }
}

/// Frames of a device from the launch of the application on.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The constants of the device.
    pub device: Device,
    /// Where the network runs.
    pub place: Place,
    /// Side of its input, pixels; `None`: the first that is listed there.
    pub size_px: Option<u32>,
    /// What sets the frequency.
    pub clock: Clock,
    /// Frames per second of the camera.
    pub camera_fps: f64,
    /// Number of frames.
    pub frames: usize,
}

impl Launch {
    /// Frequency, phase and power over time.
    ///
    /// # Errors
    /// [`WeighError`] for invalid constants, an input size that the place does not have, a governor
    /// on a device without frequencies, or a rate at which its camera was not measured.
    pub fn timeline(&self) -> Result<Vec<Moment>, WeighError> {
        let model = self.device.model(None)?;
        self.device.check_camera(&[self.camera_fps])?;
        model.check_clocks(&[self.clock])?;
        let listed = || model.listed(self.place).first().copied();
        let network = match self.size_px {
            Some(size_px) => {
                model.network(self.place, size_px).ok_or_else(|| model.no_size(size_px))?
            }
            None => listed().ok_or(OffloadError::NoNetworkListed)?,
        };
        let preview = model.camera.preview;
        let with = Use {
            place: self.place,
            network,
            clock: self.clock,
            camera: CameraUse { fps: self.camera_fps, preview, post_processing: true },
            conversion: model.conversion[0].cycles(preview),
        };
        Ok(model.timeline(&with, self.frames))
    }
}

impl Device {
    pub(super) fn model(&self, bytes_per_s: Option<f64>) -> Result<OffloadModel, WeighError> {
        let mut model = match self {
            Self::Study => nexus6::device()?,
            Self::File(path) => OffloadModel::read(path)?,
        };
        model.bandwidth_bytes_per_s = bytes_per_s.unwrap_or(model.bandwidth_bytes_per_s);
        model.check()?;
        Ok(model)
    }

    /// Whether the camera was measured at these rates; of a file the range is not known.
    pub(super) fn check_camera(&self, fps: &[f64]) -> Result<(), WeighError> {
        let most = match self {
            Self::Study => MOST_CAMERA_FPS,
            Self::File(_) => f64::INFINITY,
        };
        let beyond = fps.iter().copied().find(|fps| *fps > most);
        beyond.map_or(Ok(()), |fps| Err(WeighError::CameraRate { fps, most }))
    }
}

fn break_even(
    model: &OffloadModel,
    choices: &[Choice],
    least: Least,
    bounds: &Bounds,
    settings: &Settings,
) -> Result<Option<BreakEven>, WeighError> {
    let listed = model.remote.iter().any(|network| network.sent_bytes > 0);
    let by_size = model.by_size.is_some_and(|law| law.sent_bytes_per_pixel > 0.0);
    let both = [Place::Local, Place::Remote]
        .into_iter()
        .all(|place| choices.iter().any(|choice| choice.place == place));
    if !(both && (listed || by_size)) {
        return Ok(None);
    }
    let from = model.break_even_bandwidth(least, bounds, settings)?;
    Ok(from.map(|from| if from == 0.0 { BreakEven::Always } else { BreakEven::From(from) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modelled(bytes_per_s: Option<f64>) -> Source {
        let clocks = [0.3, 1.5, 2.65].map(Clock::Fixed).to_vec();
        let settings = Settings { clocks, camera_fps: vec![15.0], ..Settings::default() };
        Source::Modelled { device: Device::Study, settings, bytes_per_s }
    }

    #[test]
    fn the_best_is_shown_even_where_others_beat_it() {
        for least in [Least::Energy, Least::Latency, Least::EnergyDelay, Least::Power] {
            let weighed = weigh(&modelled(None), least, &Bounds::default(), false);
            assert!(weighed.is_ok_and(|w| w.choices.contains(&w.best)), "{least:?}");
        }
        let few = weigh(&modelled(None), Least::Energy, &Bounds::default(), false);
        let all = weigh(&modelled(None), Least::Energy, &Bounds::default(), true);
        assert!(few.map(|w| w.choices.len()).ok() < all.map(|w| w.choices.len()).ok());
    }

    #[test]
    fn a_rate_at_which_the_camera_was_not_measured_is_refused() {
        let launch = |camera_fps: f64| {
            let (device, clock) = (Device::Study, Clock::Fixed(1.5));
            let place = Place::Local;
            Launch { device, place, size_px: None, clock, camera_fps, frames: 1 }.timeline()
        };
        assert!(launch(30.0).is_ok());
        let refused = launch(10_000.0).map(drop).expect_err("a rate").to_string();
        assert!(refused.contains("10000 camera frames a second"), "{refused}");
        let Source::Modelled { settings, .. } = modelled(None) else { panic!("a model") };
        let settings = Settings { camera_fps: vec![15.0, 31.0], ..settings };
        let source = Source::Modelled { device: Device::Study, settings, bytes_per_s: None };
        let refused = weigh(&source, Least::Energy, &Bounds::default(), false);
        assert!(matches!(refused, Err(WeighError::CameraRate { fps: 31.0, most: 30.0 })));
    }

    #[test]
    fn a_choice_without_time_is_refused_with_its_line() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("choices.csv");
        let row = |latency: &str| format!("local,a,100,15,{latency},2.5,20\n");
        let headings = "place,setting,size_px,camera_fps,latency_s,energy_j,accuracy\n";
        std::fs::write(&path, format!("{headings}{}{}", row("1"), row("0")))?;
        let source = Source::Measured(path.clone());
        let refused = weigh(&source, Least::Energy, &Bounds::default(), false);
        let refused = refused.map_or_else(|e| e.to_string(), |_| "weighed".to_owned());
        assert!(refused.ends_with("line 3: latency_s is 0; it must be above 0"), "{refused}");
        std::fs::write(&path, format!("{headings}{}", row("1")))?;
        assert!(weigh(&source, Least::Energy, &Bounds::default(), false).is_ok());
        Ok(())
    }

    #[test]
    fn bounds_that_nothing_keeps_are_refused() {
        let bounds = Bounds { latency_at_most_s: 1e-9, ..Bounds::default() };
        let refused = weigh(&Source::Study, Least::Energy, &bounds, false);
        assert!(
            matches!(refused, Err(WeighError::NothingWithin { choices, nearest, .. })
                if choices > 0
                    && nearest.accuracy_at_least > 0.0
                    && nearest.latency_at_most_s > bounds.latency_at_most_s),
            "{refused:?}"
        );
    }
}

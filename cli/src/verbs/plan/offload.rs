//! `vitempo plan offload`: chooses between device and server, the frequency, the input size and the
//! camera's rate.

mod render;

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format},
    quantity,
};
use super::twice::refuse_twice;
use clap::{ArgGroup, ValueEnum};
use render::{Printed, Shown};
use std::path::{Path, PathBuf};
use vitempo::plan::offload::{Device, Source, WeighError, weigh};
use vitempo::planners::energy::{
    Governor, Resolution,
    offload::{Bounds, Clock, Least, Settings},
};

/// Compares running on the device with sending to a server, by energy, latency and accuracy
///
/// Example: vitempo plan offload --device nexus6 --frequency 0.3,1.5,2.65 --camera-rate 15
/// --minimise energy
///
/// Shows every choice that no other dominates in these three, and marks the best one within the
/// bounds.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("source").required(true).args(["study", "choices", "device"])))]
pub struct OffloadArgs {
    /// Choose among the measurements of the AR energy study: six governors, local and remote
    #[arg(long)]
    pub study: bool,

    /// Choose among measured choices: CSV with place, setting, size_px, camera_fps, latency_s,
    /// energy_j, accuracy
    #[arg(long, value_name = "FILE.csv")]
    pub choices: Option<PathBuf>,

    /// Choose among all combinations on a device and server: a JSON file with constants of the
    /// phase model, or `nexus6` for the study's
    #[arg(long, value_name = "FILE.json")]
    pub device: Option<PathBuf>,

    /// Frequencies of the device, GHz [default: those of 0.3,0.72,1.5,2.26,2.65 that it has,
    /// without --governor]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = frequency, requires = "device")]
    pub frequency: Vec<f64>,

    /// Governors that set the frequency: conservative, ondemand, interactive, powersave,
    /// performance
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "device")]
    pub governor: Vec<Governor>,

    /// Sides of the network's input, pixels [default: those that the device lists]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16384), requires = "device")]
    pub input: Vec<u32>,

    /// Frames per second of its camera
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = camera_rate, default_value = "15", requires = "device")]
    pub camera_rate: Vec<f64>,

    /// Resolutions of the camera's preview, which are those of the images to convert
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "device")]
    pub preview: Vec<Resolution>,

    /// Post-processing of camera images (3A, noise reduction, colour correction, edge
    /// enhancement): on, off, or both
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = on_or_off, default_value = "on", requires = "device", action = clap::ArgAction::Append)]
    pub post_processing: Vec<bool>,

    /// Methods of converting images, by name [default: the first of the device]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "device")]
    pub conversion: Vec<String>,

    /// Bandwidth of the uplink, instead of the file's
    #[arg(long, value_parser = quantity::bandwidth, requires = "device")]
    pub bandwidth: Option<u64>,

    /// Quantity to minimise
    #[arg(long, value_enum, default_value_t)]
    pub minimise: Minimise,

    /// Limit on the latency of a frame
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    pub max_latency: Option<f64>,
    /// Limit on the energy of a frame
    #[arg(long, value_name = "ENERGY", value_parser = quantity::joules)]
    pub max_energy: Option<f64>,
    /// Least mean average precision, %
    #[arg(long, value_name = "PERCENT", value_parser = quantity::accuracy)]
    pub min_accuracy: Option<f64>,

    /// Also show dominated choices
    #[arg(long)]
    pub all: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub(in super::super) fn frequency(text: &str) -> Result<f64, String> {
    within(text, 0.01, 100.0, "a frequency in GHz")
}

pub(in super::super) fn camera_rate(text: &str) -> Result<f64, String> {
    within(text, 0.1, 10_000.0, "a number of frames per second")
}

/// `--device`.
pub(in super::super) fn device(path: &Path) -> Device {
    match path == Path::new("nexus6") {
        true => Device::Study,
        false => Device::File(path.to_owned()),
    }
}

fn within(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    let value = quantity::above_zero(text).ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("expected {what}, {least} to {most}"))
}

pub(super) fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// `--minimise`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Minimise {
    #[default]
    Energy,
    Latency,
    EnergyDelay,
    Power,
}

impl Minimise {
    fn least(self) -> Least {
        match self {
            Self::Energy => Least::Energy,
            Self::Latency => Least::Latency,
            Self::EnergyDelay => Least::EnergyDelay,
            Self::Power => Least::Power,
        }
    }
}

impl From<WeighError> for CliError {
    fn from(error: WeighError) -> Self {
        match error {
            WeighError::NothingWithin { bounds, choices, nearest } => {
                let given = [
                    (
                        bounds.latency_at_most_s.is_finite(),
                        "--max-latency",
                        format!("the fastest takes {:.3} s", nearest.latency_at_most_s),
                    ),
                    (
                        bounds.energy_at_most_j.is_finite(),
                        "--max-energy",
                        format!("the least energy is {:.3} J", nearest.energy_at_most_j),
                    ),
                    (
                        bounds.accuracy_at_least > 0.0,
                        "--min-accuracy",
                        match nearest.accuracy_at_least {
                            0.0 => "no accuracy is known".to_owned(),
                            most => format!("the most accurate has {most:.1} %"),
                        },
                    ),
                ];
                let given = given.into_iter().filter(|(given, ..)| *given);
                let (flags, values): (Vec<_>, Vec<_>) =
                    given.map(|(_, flag, value)| (flag, value)).unzip();
                Self::user(format!("no choice keeps {}", flags.join(" and ")))
                    .hint(format!("among {choices} choices {}", values.join(", ")))
            }
            WeighError::NothingSent => {
                Self::user(error).hint("leave --bandwidth out, or list networks under `remote`")
            }
            WeighError::Paper(_) => Self::ours(error),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &OffloadArgs) -> CliResult {
    args.check()?;
    let weighed = weigh(&args.source()?, args.minimise.least(), &args.bounds(), args.all)?;
    output::print(&Printed { weighed, shown: args.shown() }, args.format)
}

impl OffloadArgs {
    fn check(&self) -> CliResult {
        refuse_twice("--frequency", &self.frequency)?;
        refuse_twice("--governor", &self.governor)?;
        refuse_twice("--input", &self.input)?;
        refuse_twice("--camera-rate", &self.camera_rate)?;
        refuse_twice("--preview", &self.preview)?;
        let post: Vec<_> = self.post_processing.iter().map(|&is_on| on_off(is_on)).collect();
        refuse_twice("--post-processing", &post)?;
        refuse_twice("--conversion", &self.conversion)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            accuracy_at_least: self.min_accuracy.unwrap_or(0.0),
            latency_at_most_s: self.max_latency.unwrap_or(f64::INFINITY),
            energy_at_most_j: self.max_energy.unwrap_or(f64::INFINITY),
        }
    }

    /// Settings that were given are shown.
    fn shown(&self) -> Shown {
        Shown {
            previews: !self.preview.is_empty(),
            conversions: !self.conversion.is_empty(),
            post_processing: self.post_processing != [true],
        }
    }

    fn settings(&self) -> Settings {
        let fixed = self.frequency.iter().copied().map(Clock::Fixed);
        Settings {
            clocks: fixed.chain(self.governor.iter().copied().map(Clock::Governed)).collect(),
            camera_fps: self.camera_rate.clone(),
            previews: self.preview.clone(),
            post_processing: self.post_processing.clone(),
            conversions: self.conversion.clone(),
            sizes_px: self.input.clone(),
        }
    }

    /// What there is to choose from.
    fn source(&self) -> CliResult<Source> {
        match (&self.choices, &self.device) {
            _ if self.study => Ok(Source::Study),
            (Some(path), _) => Ok(Source::Measured(path.clone())),
            (None, Some(device)) => Ok(Source::Modelled {
                device: self::device(device),
                settings: self.settings(),
                bytes_per_s: self.bandwidth.map(|bytes| bytes as f64),
            }),
            (None, None) => Err(CliError::user(
                "say what there is to choose from: --study, --choices or --device",
            )),
        }
    }
}

//! `vitempo plan offload`: chooses between device and server, the frequency, the input size and the
//! camera's rate.

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    quantity,
};
use clap::{ArgGroup, ValueEnum};
use serde_json::json;
use std::path::{Path, PathBuf};
use vitempo::plan::offload::{BreakEven, Device, Source, WeighError, Weighed, weigh};
use vitempo::planners::{
    energy::offload::{Bounds, Choice, Least, Place},
    rate,
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

    /// Frequencies of the device, GHz
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = quantity::above_zero, default_value = "0.3,0.72,1.5,2.26,2.65", requires = "device")]
    pub frequency: Vec<f64>,

    /// Frames per second of its camera
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = quantity::above_zero, default_value = "15", requires = "device")]
    pub camera_rate: Vec<f64>,

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
            WeighError::NothingWithin { choices, most_accurate } => Self::user(
                "no choice keeps --max-latency, --max-energy and --min-accuracy",
            )
            .hint(format!("among {choices} choices the most accurate has {most_accurate:.1} %")),
            WeighError::Paper(_) => Self::ours(error),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &OffloadArgs) -> CliResult {
    let weighed = weigh(&args.source()?, args.minimise.least(), &args.bounds(), args.all)?;
    output::print(&Printed(weighed), args.format)
}

impl OffloadArgs {
    fn bounds(&self) -> Bounds {
        Bounds {
            accuracy_at_least: self.min_accuracy.unwrap_or(0.0),
            latency_at_most_s: self.max_latency.unwrap_or(f64::INFINITY),
            energy_at_most_j: self.max_energy.unwrap_or(f64::INFINITY),
        }
    }

    /// What there is to choose from.
    fn source(&self) -> CliResult<Source> {
        match (&self.choices, &self.device) {
            _ if self.study => Ok(Source::Study),
            (Some(path), _) => Ok(Source::Measured(path.clone())),
            (None, Some(device)) => Ok(Source::Modelled {
                device: match device.as_path() == Path::new("nexus6") {
                    true => Device::Study,
                    false => Device::File(device.clone()),
                },
                frequencies_ghz: self.frequency.clone(),
                camera_fps: self.camera_rate.clone(),
                bytes_per_s: self.bandwidth.map(|bytes| bytes as f64),
            }),
            (None, None) => Err(CliError::user(
                "say what there is to choose from: --study, --choices or --device",
            )),
        }
    }
}

/// From which bandwidth on the server is worth it.
fn note(break_even: BreakEven) -> String {
    match break_even {
        BreakEven::Always => "the server is better at any bandwidth".to_owned(),
        BreakEven::From(bytes_per_s) => {
            format!("the server is better from {} on", rate(bytes_per_s))
        }
    }
}

/// What is printed.
struct Printed(Weighed);

fn place(choice: &Choice) -> &'static str {
    match choice.place {
        Place::Local => "local",
        Place::Remote => "remote",
    }
}

impl Report for Printed {
    fn table(&self) -> String {
        let mut table = Table::new(
            &["", "Place", "Setting", "Input", "Camera", "Latency", "Energy", "Power", "Accuracy"],
            3,
        );
        for c in &self.0.choices {
            table.row([
                if *c == self.0.best { "*" } else { "" }.to_owned(),
                place(c).to_owned(),
                c.setting.clone(),
                format!("{} px", c.size_px),
                c.camera_fps.map_or_else(|| "-".to_owned(), |fps| format!("{fps} fps")),
                format!("{:.3} s", c.latency_s),
                format!("{:.3} J", c.energy_j),
                format!("{:.2} W", c.energy_j / c.latency_s),
                format!("{:.1} %", c.accuracy),
            ]);
        }
        let note = self.0.break_even.map_or_else(String::new, |even| note(even) + "\n");
        format!("{}* the best within the bounds   ({})\n{note}", table.to_text(), self.0.evidence)
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "chosen",
                "place",
                "setting",
                "size_px",
                "camera_fps",
                "latency_s",
                "energy_j",
                "accuracy",
            ],
            3,
        );
        for c in &self.0.choices {
            let numbers = [c.latency_s, c.energy_j, c.accuracy].map(|value| value.to_string());
            let start = [
                (*c == self.0.best).to_string(),
                place(c).to_owned(),
                c.setting.clone(),
                c.size_px.to_string(),
                c.camera_fps.map_or_else(String::new, |fps| fps.to_string()),
            ];
            table.row(start.into_iter().chain(numbers));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let rows = self.0.choices.iter().map(|c| -> CliResult<serde_json::Value> {
            let mut row = serde_json::to_value(c).map_err(CliError::ours)?;
            if let Some(fields) = row.as_object_mut() {
                fields.insert("chosen".to_owned(), json!(*c == self.0.best));
            }
            Ok(row)
        });
        Ok(
            json!({"choices": rows.collect::<CliResult<Vec<_>>>()?, "evidence": self.0.evidence, "note": self.0.break_even.map(note)}),
        )
    }
}

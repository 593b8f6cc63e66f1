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
use vitempo::planners::{
    Evidence,
    energy::{
        nexus6,
        offload::{
            Bounds, Choice, Least, OffloadError, OffloadModel, Place, best, pareto, read_choices,
        },
    },
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
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
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

fn percentage(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').trim().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("`{text}` is no accuracy between 0 and 100 %"))
}

impl From<OffloadError> for CliError {
    fn from(error: OffloadError) -> Self {
        Self::user(error)
    }
}

pub fn run(args: &OffloadArgs) -> CliResult {
    let (choices, evidence, note) = args.choices()?;
    let (least, bounds) = (args.minimise.least(), args.bounds());
    let Some(chosen) = best(&choices, least, &bounds).cloned() else {
        let hint = format!(
            "among {} choices the most accurate has {:.1} %",
            choices.len(),
            choices.iter().map(|c| c.accuracy).fold(0.0, f64::max)
        );
        return Err(CliError::user(
            "no choice satisfies --max-latency, --max-energy and --min-accuracy",
        )
        .hint(hint));
    };
    let shown = if args.all { choices } else { pareto(&choices) };
    // The choice of least power may be dominated in everything else.
    let missing = (!shown.contains(&chosen)).then(|| chosen.clone());
    output::print(
        &Weighed { choices: shown.into_iter().chain(missing).collect(), chosen, evidence, note },
        args.format,
    )
}

impl OffloadArgs {
    fn bounds(&self) -> Bounds {
        Bounds {
            accuracy_at_least: self.min_accuracy.unwrap_or(0.0),
            latency_at_most_s: self.max_latency.unwrap_or(f64::INFINITY),
            energy_at_most_j: self.max_energy.unwrap_or(f64::INFINITY),
        }
    }

    /// The choices, their level of evidence, and a note.
    fn choices(&self) -> CliResult<(Vec<Choice>, Evidence, Option<String>)> {
        if self.study {
            return Ok((nexus6::choices().map_err(CliError::ours)?, Evidence::PaperTable, None));
        }
        if let Some(path) = &self.choices {
            return Ok((read_choices(path)?, Evidence::TraceReplay, None));
        }
        let mut model = match &self.device {
            Some(path) if path.as_path() == Path::new("nexus6") => {
                nexus6::device().map_err(CliError::ours)?
            }
            Some(path) => OffloadModel::read(path)?,
            None => {
                return Err(CliError::user(
                    "the choices are missing: give --study, --choices or --device",
                ));
            }
        };
        model.bandwidth_bytes_per_s =
            self.bandwidth.map_or(model.bandwidth_bytes_per_s, |bytes| bytes as f64);
        model.check()?;
        Ok((
            model.options(&self.frequency, &self.camera_rate),
            Evidence::CostModel,
            self.break_even(&model),
        ))
    }

    /// The bandwidth from which the server is better.
    fn break_even(&self, model: &OffloadModel) -> Option<String> {
        if model.remote.iter().all(|network| network.sent_bytes == 0) {
            return None;
        }
        let bytes_per_s = model.break_even_bandwidth(
            self.minimise.least(),
            &self.bounds(),
            &self.frequency,
            &self.camera_rate,
        )?;
        Some(match bytes_per_s {
            0.0 => "the server is better at any bandwidth".to_owned(),
            bytes_per_s => {
                format!("the server is better from {} on", rate(bytes_per_s))
            }
        })
    }
}

/// Choices, and the best of them.
struct Weighed {
    choices: Vec<Choice>,
    chosen: Choice,
    evidence: Evidence,
    note: Option<String>,
}

fn place(choice: &Choice) -> &'static str {
    match choice.place {
        Place::Local => "local",
        Place::Remote => "remote",
    }
}

impl Report for Weighed {
    fn table(&self) -> String {
        let mut table = Table::new(
            &["", "Place", "Setting", "Input", "Camera", "Latency", "Energy", "Power", "Accuracy"],
            3,
        );
        for c in &self.choices {
            table.row([
                if *c == self.chosen { "*" } else { "" }.to_owned(),
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
        let note = self.note.as_ref().map_or_else(String::new, |note| format!("{note}\n"));
        format!("{}* the best within the bounds   ({})\n{note}", table.to_text(), self.evidence)
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
        for c in &self.choices {
            let numbers = [c.latency_s, c.energy_j, c.accuracy].map(|value| value.to_string());
            let start = [
                (*c == self.chosen).to_string(),
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
        let rows = self.choices.iter().map(|c| -> CliResult<serde_json::Value> {
            let mut row = serde_json::to_value(c).map_err(CliError::ours)?;
            if let Some(fields) = row.as_object_mut() {
                fields.insert("chosen".to_owned(), json!(*c == self.chosen));
            }
            Ok(row)
        });
        Ok(
            json!({"choices": rows.collect::<CliResult<Vec<_>>>()?, "evidence": self.evidence, "note": self.note}),
        )
    }
}

//! `vitempo energy timeline`: frequency and power over time, from the launch of an application on.

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    plan::offload::{camera_rate, device, frequency},
    quantity::positive,
};
use clap::{ArgGroup, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use vitempo::{
    plan::offload::Launch,
    planners::{
        Evidence,
        energy::{
            Governor,
            offload::{Clock, Moment, Place},
        },
    },
};

/// Simulates frequency and power of a device over time, from the launch of an application on: by
/// frame as a table, by phase and frequency as CSV or JSON
///
/// Example: vitempo energy timeline --device nexus6 --governor conservative --place remote
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("clock").required(true).args(["governor", "frequency"])))]
pub struct TimelineArgs {
    /// Constants of the device: a file as for `plan offload --device`, or `nexus6`
    #[arg(long, value_name = "FILE.json")]
    pub device: PathBuf,

    /// Governor that sets the frequency: conservative, ondemand, interactive, powersave,
    /// performance
    #[arg(long)]
    pub governor: Option<Governor>,

    /// Fixed frequency, GHz
    #[arg(long, value_name = "GHZ", value_parser = frequency)]
    pub frequency: Option<f64>,

    /// Where the network runs
    #[arg(long, value_enum, default_value_t)]
    pub place: At,

    /// Side of the network's input, pixels [default: the first that the device lists there]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub input: Option<u32>,

    /// Frames per second of the camera
    #[arg(long, value_name = "FPS", value_parser = camera_rate, default_value = "15")]
    pub camera_rate: f64,

    /// Number of frames
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = positive)]
    pub frames: usize,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `--place`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum At {
    #[default]
    Local,
    Remote,
}

/// More frames than this are more than a table can hold.
const MOST_FRAMES: usize = 10_000;

pub fn run(args: &TimelineArgs) -> CliResult {
    if args.frames > MOST_FRAMES {
        return Err(CliError::user(format!("--frames: at most {MOST_FRAMES} frames")));
    }
    let clock = match (args.governor, args.frequency) {
        (Some(governor), _) => Clock::Governed(governor),
        (None, Some(ghz)) => Clock::Fixed(ghz),
        (None, None) => return Err(CliError::user("give --governor or --frequency")),
    };
    let launch = Launch {
        device: device(&args.device),
        place: match args.place {
            At::Local => Place::Local,
            At::Remote => Place::Remote,
        },
        size_px: args.input,
        clock,
        camera_fps: args.camera_rate,
        frames: args.frames,
    };
    output::print(&Timeline(launch.timeline()?), args.format)
}

struct Timeline(Vec<Moment>);

impl Report for Timeline {
    fn table(&self) -> String {
        let headings = ["Frame", "Starts at", "Time", "Frequency", "Energy", "Power"];
        let mut table = Table::new(&headings, 0);
        for moments in self.0.chunk_by(|a, b| a.frame == b.frame) {
            let seconds: f64 = moments.iter().map(|m| m.seconds).sum();
            let joules: f64 = moments.iter().map(|m| m.watts * m.seconds).sum();
            let cycles: f64 = moments.iter().map(|m| m.ghz * m.seconds).sum();
            table.row([
                moments[0].frame.to_string(),
                format!("{:.3} s", moments[0].start_s),
                format!("{seconds:.3} s"),
                format!("{:.2} GHz", cycles / seconds),
                format!("{joules:.3} J"),
                format!("{:.2} W", joules / seconds),
            ]);
        }
        format!(
            "{}frequencies and powers are means   ({})\n",
            table.to_text(),
            Evidence::Simulation
        )
    }

    fn csv(&self) -> CliResult<String> {
        let columns = ["frame", "start_s", "seconds", "phase", "ghz", "watts"];
        let mut table = Table::new(&columns, 0);
        for m in &self.0 {
            table.row([
                m.frame.to_string(),
                m.start_s.to_string(),
                m.seconds.to_string(),
                m.phase.to_owned(),
                m.ghz.to_string(),
                m.watts.to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(json!({"moments": self.0, "evidence": Evidence::Simulation}))
    }
}

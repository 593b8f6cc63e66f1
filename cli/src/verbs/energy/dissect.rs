//! `vitempo energy dissect`: splits a power trace into the phases of an application's log.

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    quantity,
};
use std::path::PathBuf;
use vitempo::{
    plan::dissection::{DissectionFiles, Power},
    planners::energy::{
        Averaging, TraceError,
        dissect::{Dissection, Note},
    },
};

/// Splits a power monitor's trace by an application's log into the energy of each phase of a frame
///
/// Example: vitempo energy dissect trace.csv log.csv --base-power 756mW --preview-power 3.53W
#[derive(clap::Args, Debug)]
pub struct DissectArgs {
    /// Trace of the monitor: CSV with `time_s`, and `power_w`, `power_mw`, or `current_ma` and
    /// `voltage_v`
    #[arg(value_name = "TRACE.csv")]
    pub trace: PathBuf,

    /// Log of the application: CSV with `frame`, `phase`, `start_s`, `end_s`; its row `flag` is an
    /// event that is visible in the trace
    #[arg(value_name = "LOG.csv")]
    pub log: PathBuf,

    /// Power of the idle device
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, required_unless_present = "base_trace", conflicts_with = "base_trace")]
    pub base_power: Option<f64>,

    /// The same as a trace, whose mean is taken
    #[arg(long, value_name = "TRACE.csv")]
    pub base_trace: Option<PathBuf>,

    /// Power of the device with camera and preview alone, base included
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, required_unless_present = "preview_trace", conflicts_with = "preview_trace")]
    pub preview_power: Option<f64>,

    /// The same as a trace, whose mean is taken
    #[arg(long, value_name = "TRACE.csv")]
    pub preview_trace: Option<PathBuf>,

    /// Time of the flag event in the trace; found in the trace if it is not given
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    pub flag_at: Option<f64>,

    /// Length of the quiet beginning of the trace, in which the flag is not looked for
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, default_value = "100ms")]
    pub quiet: f64,

    /// Frames that start within this time after the flag do not count
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, default_value = "10s")]
    pub cooling_off: f64,

    /// Time over which the sensor averages each sample, e.g. 100ms, or `step`: since the sample
    /// before, as `energy record` writes; without it a sample is the power at its time
    #[arg(long, value_name = "TIME", value_parser = averaging, default_value = "0s")]
    pub averaging: Averaging,

    /// Remove a linear drift of the sensor since the flag event
    #[arg(long)]
    pub remove_drift: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn averaging(text: &str) -> Result<Averaging, String> {
    if text == "step" {
        return Ok(Averaging::SinceLast);
    }
    let seconds = quantity::seconds(text).map_err(|reason| format!("{reason}, or step"))?;
    Ok(if seconds > 0.0 { Averaging::Over(seconds) } else { Averaging::Moment })
}

/// A note, and the flag that takes it into account.
fn with_hint(note: &Note) -> String {
    let hint = match note {
        Note::Flag { best_s, .. } => format!("; then give --flag-at {best_s:.4}s"),
        Note::Irregular { .. } => "; --averaging step takes the latter".to_owned(),
        _ => String::new(),
    };
    format!("note: {note}{hint}\n")
}

impl From<TraceError> for CliError {
    fn from(error: TraceError) -> Self {
        let hint = match &error {
            TraceError::NoFlag { .. } => "--flag-at TIME says when it was; --quiet ends before it",
            TraceError::Quiet { .. } => {
                "give --quiet a longer TIME that ends before the event, or --flag-at TIME"
            }
            TraceError::Powers { .. } => "look at --base-power and --preview-power",
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

pub fn run(args: &DissectArgs) -> CliResult {
    let files = DissectionFiles {
        trace: args.trace.clone(),
        log: args.log.clone(),
        base: power(args.base_power, args.base_trace.as_ref())?,
        preview: power(args.preview_power, args.preview_trace.as_ref())?,
        monitor_flag_s: args.flag_at,
        quiet_s: args.quiet,
        cooling_off_s: args.cooling_off,
        averaging: args.averaging,
        removes_drift: args.remove_drift,
    };
    output::print(&Dissected(files.dissect()?), args.format)
}

fn power(watts: Option<f64>, trace: Option<&PathBuf>) -> CliResult<Power> {
    let given = watts.map(Power::Watts).or_else(|| trace.cloned().map(Power::MeanOf));
    given.ok_or_else(|| {
        CliError::user(
            "base and preview power are needed: the power of a phase is the difference to them",
        )
    })
}

struct Dissected(Dissection);

/// One line of the result: s, J.
struct Part {
    name: String,
    seconds: f64,
    joules: f64,
}

impl Dissected {
    fn parts(&self) -> Vec<Part> {
        let d = &self.0;
        let part = |name: &str, seconds, joules| Part { name: name.to_owned(), seconds, joules };
        let mut parts: Vec<Part> =
            d.phases.iter().map(|p| part(&p.phase, p.seconds, p.joules)).collect();
        parts.push(part("camera and preview", d.latency_s, d.camera_j));
        parts.push(part("base", d.latency_s, d.base_j));
        parts.push(part("frame", d.latency_s, d.energy_j));
        parts
    }
}

impl Report for Dissected {
    fn table(&self) -> String {
        let d = &self.0;
        let mut table = Table::new(&["Part of a frame", "Time", "Energy", "Power", "Share"], 1);
        for p in self.parts() {
            let cells = [
                format!("{:.1} ms", 1e3 * p.seconds),
                format!("{:.3} J", p.joules),
                format!("{:.3} W", p.joules / p.seconds),
                output::percent(p.joules / d.energy_j),
            ];
            table.row(std::iter::once(p.name).chain(cells));
        }
        let counted = format!(
            "mean of {} frames; {} left out: cooling-off, or not complete in the trace",
            d.frames, d.left_out
        );
        let drift = d.drift_w_per_s.map_or_else(String::new, |watts| {
            format!("; the sensor drifts by {:.3} mW/s", 1e3 * watts)
        });
        let notes: String = d.notes.iter().map(with_hint).collect();
        format!(
            "{}{counted}\nthe flag event is at {:.3} s of the trace, whose clock is {:.0} ppm \
             faster{drift}; phases exclude camera and base\n{notes}",
            table.to_text(),
            d.monitor_flag_s,
            d.clock_ppm
        )
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["part", "seconds", "joules", "share"], 1);
        for p in self.parts() {
            table.row([
                p.name,
                p.seconds.to_string(),
                p.joules.to_string(),
                (p.joules / self.0.energy_j).to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}

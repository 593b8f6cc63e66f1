//! `vitempo energy record`: a power trace of this machine, by its energy counters.

use super::super::{
    error::{CliError, CliResult},
    files, output, quantity,
};
use std::{path::PathBuf, time::Duration};
use vitempo::{
    graph::Processor,
    plan::power::{RecordError, record},
};

/// Records a power trace of this machine by its energy counters (RAPL of processors, NVML of NVIDIA
/// GPUs), for `vitempo energy dissect --averaging`
///
/// Example: vitempo energy record --for 30s --every 20ms --out trace.csv
#[derive(clap::Args, Debug)]
pub struct RecordArgs {
    /// How long to record
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "10s")]
    pub duration: Duration,

    /// Time between samples, each the mean since the one before
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "20ms")]
    pub every: Duration,

    /// Record the board of the first GPU instead of the processor packages
    #[arg(long)]
    pub gpu: bool,

    /// File of the trace
    #[arg(long, value_name = "TRACE.csv")]
    pub out: PathBuf,
}

fn time(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text, "20ms")?;
    if time.is_zero() || time > Duration::from_secs(86_400) {
        return Err("expected a time above 0, at most a day".to_owned());
    }
    Ok(time)
}

impl From<RecordError> for CliError {
    fn from(error: RecordError) -> Self {
        let hint = match &error {
            RecordError::TooOften { .. } => "give --every more time",
            RecordError::TooShort { .. } => "give --for more time",
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

pub fn run(args: &RecordArgs) -> CliResult {
    let processor = if args.gpu { Processor::Gpu } else { Processor::Cpu };
    let trace = record(processor, args.duration, args.every)?;
    let comment = format!("measured by the energy counters of a {processor}");
    files::write(&args.out, trace.to_csv(&comment).as_bytes())?;
    output::write_stdout(&format!(
        "{comment}: {:.2} W on average, {} samples\nwrote {}; analyse it with `vitempo energy \
        dissect --averaging step`\n",
        trace.mean_w(),
        trace.samples().0.len(),
        args.out.display(),
    ))
}

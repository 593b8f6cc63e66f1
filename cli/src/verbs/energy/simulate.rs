//! `vitempo energy simulate`: writes a simulated trace and its log, to try `vitempo energy
//! dissect`.

use super::super::{
    error::{CliError, CliResult, io_error},
    files, output,
    quantity::positive,
};
use std::path::PathBuf;
use vitempo::planners::energy::{Recording, nexus6::local_frame};

/// `energy dissect --cooling-off` without it, and the least for a recording, s.
const COOLING_OFF_S: (f64, f64) = (10.0, 1.0);

/// Simulates a power monitor's trace with an application's log: frames as the AR energy study
/// measured them
///
/// Example: vitempo energy simulate --governor performance --out trace/
#[derive(clap::Args, Debug)]
pub struct SimulateArgs {
    /// Governor of the study's phone whose measured frames are simulated
    #[arg(long, default_value = "performance")]
    pub governor: String,

    /// Number of frames
    #[arg(long, default_value = "30", value_parser = positive)]
    pub frames: usize,

    /// Seed of the monitor's noise
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Folder for `trace.csv` and `log.csv`
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

pub fn run(args: &SimulateArgs) -> CliResult {
    let frame = local_frame(&args.governor).map_err(CliError::user)?;
    let (base_w, preview_w) = (frame.base_w, frame.base_w + frame.camera_w);
    let recording = Recording { seed: args.seed, ..Recording::of(frame, args.frames as u64) };
    let too_long = || {
        CliError::user(format!("--frames: {} frames are more than a trace can hold", args.frames))
    };
    let (trace, log) = recording.record().ok_or_else(too_long)?;
    let cooling_off = cooling_off(&recording);
    std::fs::create_dir_all(&args.out).map_err(|e| io_error("create", &args.out, &e))?;
    let comment = format!(
        "simulated, not measured: {} frames of local execution, governor {}, seed {}",
        args.frames, args.governor, args.seed
    );
    let [trace_file, log_file] = ["trace.csv", "log.csv"].map(|name| args.out.join(name));
    files::write(&trace_file, trace.to_csv(&comment).as_bytes())?;
    files::write(&log_file, log.to_csv(&comment).as_bytes())?;
    output::write_stdout(&format!(
        "{comment}\nwrote {trace} and {log}; analyse them with\n  vitempo energy dissect \
        {trace} {log} --base-power {:.1}mW --preview-power {:.1}mW{cooling_off}\n",
        1e3 * base_w,
        1e3 * preview_w,
        trace = trace_file.display(),
        log = log_file.display(),
    ))
}

/// What a command needs for a recording whose last frame starts before the usual cooling-off ends.
fn cooling_off(recording: &Recording) -> String {
    let (usual_s, least_s) = COOLING_OFF_S;
    let before = recording.frames.saturating_sub(1) as f64;
    let last_s = recording.start_s + before * recording.frame.latency_s() - recording.flag_s;
    if last_s > usual_s { String::new() } else { format!(" --cooling-off {least_s}s") }
}

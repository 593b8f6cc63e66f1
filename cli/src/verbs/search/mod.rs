//! `vitempo search`: the architectures of a space that score highest within ceilings for latency and
//! memory, found by evolution on forecasts.

mod front;
mod verify;

use super::{
    error::{CliError, CliResult, io_error},
    interrupt::interrupted_keeping,
    output::{self, Format},
    profile, progress, quantity,
    worker::worker,
};
use front::Front;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use vitempo::graph::Latency;
use vitempo::search::{
    self, Ceilings, Device, Objective, ObjectiveError, Options, SearchError,
    objective::{Listed, Measure, Program, StandIn},
    verify::{Verification, check, verify as verify_front},
};
use vitempo::search_space::Space;

/// Searches a space for the best architectures within ceilings for latency and memory
///
/// Example: vitempo search --space hybrid-vit --bundle demo.vtb --max-latency 20ms --objective
/// flops --out front/
///
/// Scores are maximised, latencies minimised. Results depend on space, bundles, objective and seed
/// alone.
#[derive(clap::Args, Debug)]
pub struct SearchArgs {
    /// Name of a space that ships with vitempo (hybrid-vit, isotropic-vit, mbconv), or a TOML file
    #[arg(long, default_value = "hybrid-vit")]
    pub space: String,

    /// Bundle of either kind: a file, or a name that `vitempo bundle list` shows; may be repeated,
    /// for several devices at once
    #[arg(long = "bundle", required = true, value_name = "NAME")]
    pub bundles: Vec<PathBuf>,

    /// Latency ceiling in the environment of a bundle, e.g. 20ms; once per bundle, in the same
    /// order, or not at all
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_latency: Vec<u64>,

    /// Ceiling for the memory that the engine of a bundle takes to load and run a model, e.g. 40MB;
    /// once per bundle, in the same order, or not at all. Forecasts of memory take a graph per
    /// candidate: about a thousand per second
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    pub max_memory: Vec<u64>,

    /// What to maximise: `csv FILE` (columns encoding and score; its rows are the candidates),
    /// `program COMMAND` (runs once per generation: reads one encoding per line, prints one score
    /// per line), or a stand-in: `flops`, `parameters`
    #[arg(long, num_args = 1..=2, value_name = "WHAT", default_values = ["flops"])]
    pub objective: Vec<String>,

    /// Apply ceilings to the upper ends of the intervals instead of the forecasts
    #[arg(long)]
    pub upper: bool,

    /// Number of distinct architectures to evaluate; by default 100000
    #[arg(long)]
    pub candidates: Option<u64>,

    /// Number of architectures in a generation, and the most in the front; by default 200
    #[arg(long)]
    pub population: Option<usize>,

    /// The same seed gives the same front, and the same weights of its files; by default 0
    #[arg(long)]
    pub seed: Option<u64>,

    /// Folder for the front: ONNX files with their index, front.csv, front.json and a plot for each
    /// bundle (front.svg, front-2.svg, ...)
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,

    /// Leave the weights out of the ONNX files
    #[arg(long, requires = "out")]
    pub no_weights: bool,

    /// Measure this many members of the front, the best and others spread evenly, and compare them
    /// with the forecasts
    #[arg(long, value_name = "N", requires = "out", value_parser = quantity::positive)]
    pub verify: Option<usize>,

    /// For --verify: the engine's shared library, if the search does not find it
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub library: Option<PathBuf>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl SearchArgs {
    fn options(&self) -> Options {
        Options {
            candidates: self.candidates.unwrap_or(100_000),
            population: self.population.unwrap_or(200),
            seed: self.seed.unwrap_or_default(),
            upper: self.upper,
        }
    }

    /// Refuses an argument that would change nothing.
    fn check_effects(&self) -> CliResult {
        let is_listed = self.objective.first().is_some_and(|word| word == "csv");
        let has_weights = self.out.is_some() && !self.no_weights;
        let has_ceiling = !self.max_latency.is_empty() || !self.max_memory.is_empty();
        let all = "all rows of the file are evaluated, and all that are on the front are kept";
        let without = [
            (self.upper && !has_ceiling, "--upper", "there is no ceiling"),
            (is_listed && self.candidates.is_some(), "--candidates", all),
            (is_listed && self.population.is_some(), "--population", all),
            (is_listed && !has_weights && self.seed.is_some(), "--seed", all),
        ];
        match without.into_iter().find(|(is_without, ..)| *is_without) {
            None => Ok(()),
            Some((_, flag, why)) => {
                let error = CliError::user(format!("{flag} has no effect: {why}"));
                Err(error.hint(format!("leave {flag} out")))
            }
        }
    }
}

pub fn run(args: &SearchArgs) -> CliResult {
    let space = Space::find(&args.space)?;
    let bundles = args
        .bundles
        .iter()
        .map(|bundle| super::bundle::open(bundle))
        .collect::<CliResult<Vec<_>>>()?;
    let ceilings: Vec<Latency> =
        args.max_latency.iter().map(|&ns| Latency::from_ns(ns as f64)).collect();
    let ceilings = Ceilings { latencies: &ceilings, memory_bytes: &args.max_memory };
    let devices = search::devices(&bundles, ceilings)?;
    let mut objective = objective(&args.objective, &space)?;
    args.check_effects()?;
    if args.verify.is_some() {
        check(&devices, args.library.as_deref(), &worker()?)?;
    }
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| io_error("make folder", folder, &e))?;
    }
    let start = Instant::now();
    let outcome = searched(&space, &devices, objective.as_mut(), args)?;
    let rate = outcome.candidates as f64 / start.elapsed().as_secs_f64();
    progress::say(format!("{} candidates, {rate:.0} per second", outcome.candidates));
    let mut front = Front {
        space: &space,
        objective: objective.as_ref(),
        devices: &devices,
        outcome: &outcome,
        memories: front::memories(&devices, &outcome)?,
        verified: Vec::new(),
    };
    let kept = args.out.as_ref().map_or(Ok(()), |folder| keep(&mut front, folder, args));
    output::print(&front, args.format)?;
    kept?;
    match outcome.interrupted {
        false => Ok(()),
        true => Err(CliError::user("interrupted: this is the front so far")),
    }
}

/// Writes the front into its folder, measures some of it where that is asked for, and writes it
/// again.
fn keep(front: &mut Front<'_>, folder: &Path, args: &SearchArgs) -> CliResult {
    let files = front.write_models(folder, args.no_weights, args.options().seed)?;
    front.write_results(folder)?;
    let Some(count) = args.verify.filter(|_| !front.outcome.interrupted) else { return Ok(()) };
    let verification = Verification {
        space: front.space,
        devices: front.devices,
        outcome: front.outcome,
        files: &files,
        count,
        library: args.library.as_deref(),
        folder,
        worker: worker()?,
    };
    front.verified = verify_front(&verification, &mut profile::run_campaign)?;
    front.write_results(folder)
}

fn objective(words: &[String], space: &Space) -> CliResult<Box<dyn Objective>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["flops"] => Box::new(StandIn::new(space, Measure::Flops)),
        ["parameters"] => Box::new(StandIn::new(space, Measure::Parameters)),
        ["csv", file] => Box::new(Listed::read(Path::new(file), space)?),
        ["program", command] => Box::new(Program::new(command).stopped_by(stop())),
        _ => {
            return Err(CliError::user(format!(
                "`{}` is not an objective (--objective)",
                words.join(" ")
            ))
            .hint("write flops, parameters, csv FILE or program COMMAND"));
        }
    })
}

/// Set by Ctrl-C.
fn stop() -> Arc<AtomicBool> {
    interrupted_keeping("the front so far is kept")
}

fn searched(
    space: &Space,
    devices: &[Device<'_>],
    objective: &mut dyn Objective,
    args: &SearchArgs,
) -> CliResult<search::Outcome> {
    let options = args.options();
    let length = options.candidates_in(space, objective);
    let bar = progress::bar(length, "searching");
    let stop = stop();
    let found = search::search(space, devices, objective, options, &mut |progress| {
        bar.set_position(progress.candidates);
        bar.set_message(progress.best.map_or_else(String::new, |best| format!("best {best:.4e}")));
        !stop.load(Ordering::SeqCst)
    });
    bar.finish_and_clear();
    Ok(found?)
}

impl From<ObjectiveError> for CliError {
    fn from(error: ObjectiveError) -> Self {
        Self::user(error)
    }
}

/// The flag of an option.
fn flag(option: &str) -> &str {
    match option {
        "devices" => "bundle",
        "ceiling" => "max-latency",
        "memory ceiling" => "max-memory",
        same => same,
    }
}

impl From<SearchError> for CliError {
    fn from(error: SearchError) -> Self {
        match &error {
            SearchError::NothingFits { .. } => {
                let hint = "raise --max-latency or --max-memory, or evaluate more --candidates";
                Self::user(error).hint(hint)
            }
            SearchError::Ceilings { .. } => {
                Self::user(format!("{error} (--max-latency, --max-memory)"))
                    .hint("give one of each kind after each --bundle, or none at all")
            }
            SearchError::MemoryUnknown { .. } => Self::user(format!("{error} (--max-memory)"))
                .hint("docs/memory.md lists the engines whose memory is known"),
            SearchError::TooMany(_) => Self::user(format!("{error} (--candidates)")),
            SearchError::Option { option, reason } => {
                Self::user(format!("--{} {reason}", flag(option)))
            }
            _ => Self::user(error),
        }
    }
}

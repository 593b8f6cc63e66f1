//! `vitempo campaign`: measures the same set of models and networks on whatever machine it runs on.

mod report;

use super::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::{ModelArgs, asked, none_left_out},
    output::{self, Format},
    profile::{RemoteArgs, RunArgs},
    progress, quantity,
};
use clap::ValueEnum;
use report::{Engine, Measured};
use std::{path::PathBuf, time::Duration};
use vitempo::campaign::{
    self, CampaignError,
    standard::{self, Group, Standard, StandardOutcome, StandardSet},
};
use vitempo::models::{Model, Models};
use vitempo::profiler::{Progress, Target};

/// Measures the same fixed set of models and operators on any machine, within a time budget
///
/// The set is 200 synthetic models and 40 small ones twice, 3377 networks around operators and 1200
/// around rare ones once, and the real models of --real twice. The same command goes on where an
/// interrupted one stopped. Nothing else should run on the machine meanwhile.
///
/// Example: vitempo campaign --backend onnxruntime --backend rten --real zoo/ --out data/
#[derive(clap::Args, Debug)]
#[command(mut_arg("remote", |remote| remote.conflicts_with("library")))]
pub struct CampaignArgs {
    /// Inference engine; may be repeated: one after the other, each within the budget
    #[arg(long = "backend", value_name = "NAME", default_value = "rten")]
    pub backends: Vec<String>,

    /// Folder, files or globs of real ONNX models to measure too, twice; may be repeated
    #[arg(long, value_name = "FOLDER")]
    pub real: Vec<String>,

    /// Time budget of each engine, e.g. 90s, 30m, 2h; what comes last in the set is left out
    #[arg(long, value_parser = quantity::duration_or_seconds, value_name = "TIME",
          default_value = "25m")]
    pub budget: Duration,

    /// Share of the set to measure, above 0 to 1, evenly spread; real models are measured all
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse_share)]
    pub scale: f64,

    /// Measure these parts of the set alone; a minute of operators corrects the bundle of another
    /// machine (`vitempo train --from`)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    pub only: Vec<PartName>,

    /// Measure next what shrinks the expected error of models most per second, and train in between,
    /// instead of part after part
    #[arg(long)]
    pub active: bool,

    #[command(flatten)]
    pub run: RunArgs,

    #[command(flatten)]
    pub remote: RemoteArgs,

    /// Dataset folder the measurements go to; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Repeat model runs that failed in an earlier session
    #[arg(long)]
    pub retry_failed: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PartName {
    Synthetic,
    Small,
    Operators,
    Real,
    Rare,
}

impl PartName {
    fn group(self) -> Group {
        match self {
            Self::Synthetic => Group::Synthetic,
            Self::Small => Group::Small,
            Self::Operators => Group::Operators,
            Self::Real => Group::Real,
            Self::Rare => Group::Rare,
        }
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a share above 0, up to 1, e.g. 0.1".to_owned())
}

pub fn run(args: &CampaignArgs) -> CliResult {
    let models = args.real()?;
    let asked = asked(&models);
    let Models { read, unreadable } = models;
    let set = args.set(read)?;
    if set.parts().is_empty() {
        return Err(CliError::user("--only leaves nothing to measure").hint("--real names models"));
    }
    let target = args.remote.target()?;
    let options = args.run.options();
    args.backends.iter().try_for_each(|backend| campaign::check(&target, backend, &options))?;
    let mut engines = Vec::new();
    let mut ended = None;
    for backend in &args.backends {
        match on_engine(args, &set, backend, target.clone()) {
            Ok(outcome) => {
                let is_over = outcome.interrupted;
                engines.push(Engine { backend: backend.clone(), outcome });
                if is_over {
                    break;
                }
            }
            Err(error) => {
                ended = Some(CliError::from(error).about(backend));
                break;
            }
        }
    }
    let nothing = engines.iter().find(|engine| engine.measured() == 0 && !engine.is_interrupted());
    let failed = ended.or(nothing.map(|engine| engine.failure()));
    if !engines.is_empty() {
        output::print(&Measured { engines, out: args.out.clone() }, args.format)?;
    }
    failed.map_or_else(|| none_left_out(unreadable.len(), asked), Err)
}

fn on_engine(
    args: &CampaignArgs,
    set: &StandardSet,
    backend: &str,
    target: Target,
) -> Result<StandardOutcome, CampaignError> {
    let standard = Standard {
        set,
        backend,
        options: args.run.options(),
        target,
        out: &args.out,
        budget: args.budget,
        retry_failed: args.retry_failed,
    };
    let bar = progress::bar(0, "measuring");
    let mut show = |part: standard::Part<'_>, p: &Progress<'_>| {
        progress::advance(&bar, p.done, p.total);
        let failed = if p.failed > 0 { format!(", {} failed", p.failed) } else { String::new() };
        bar.set_message(format!(
            "{backend}, {} round {}{failed}",
            part.group.name(),
            part.round + 1
        ));
    };
    let outcome = match args.active {
        true => standard.run_active(&mut show, &interrupted()),
        false => standard.run(&mut show, &interrupted()),
    };
    bar.finish_and_clear();
    outcome
}

impl CampaignArgs {
    fn set(&self, real: Vec<Model>) -> CliResult<StandardSet> {
        let set = StandardSet::new(self.scale, real)?;
        let only: Vec<Group> = self.only.iter().map(|part| part.group()).collect();
        Ok(if only.is_empty() { set } else { set.only(&only) })
    }

    fn real(&self) -> CliResult<Models> {
        if self.real.is_empty() {
            return Ok(Models::default());
        }
        ModelArgs::of(self.real.clone(), Vec::new()).read_some()
    }
}

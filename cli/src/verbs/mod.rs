//! The command line: verbs for the pipeline, noun and verb for artefacts. One file per verb.

mod adapt;
mod agent;
mod backends;
mod bundle;
mod dataset;
mod demo;
mod energy;
mod error;
mod evaluate;
mod files;
mod inspect;
mod models;
mod output;
mod plan;
mod predict;
mod profile;
mod progress;
mod quantity;
mod report;
mod sample;
mod search;
mod serve;
mod train;
mod zoo;

use clap::{CommandFactory, Parser, Subcommand};
use error::{CliError, CliResult};
use std::process::ExitCode;
use vitempo::profiler::events::Lines;

/// How long will this vision model take on that device, and how sure are we?
#[derive(Parser, Debug)]
#[command(name = "vitempo", version, propagate_version = true, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Sample(sample::SampleArgs),
    Inspect(inspect::InspectArgs),
    Profile(profile::ProfileArgs),
    Agent(agent::AgentArgs),
    #[command(subcommand)]
    Dataset(dataset::DatasetCommand),
    Train(train::TrainArgs),
    Evaluate(evaluate::EvaluateArgs),
    Adapt(adapt::AdaptArgs),
    Predict(predict::PredictArgs),
    Search(search::SearchArgs),
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    #[command(subcommand)]
    Energy(energy::EnergyCommand),
    #[command(subcommand)]
    Zoo(zoo::ZooCommand),
    #[command(subcommand)]
    Backends(backends::BackendsCommand),
    #[command(subcommand)]
    Bundle(bundle::BundleCommand),
    Report(report::ReportArgs),
    Demo(demo::DemoArgs),
    /// Prints a shell's completion script
    ///
    /// Example: vitempo completions bash > ~/.local/share/bash-completion/completions/vitempo
    Completions {
        shell: clap_complete::Shell,
    },
    /// Measures on behalf of another vitempo process
    #[command(hide = true)]
    Worker,
}

/// Runs the verb asked for.
pub fn main() -> ExitCode {
    Lines::install(|line| progress::say(line));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn run(command: &Command) -> CliResult {
    match command {
        Command::Sample(args) => sample::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Dataset(command) => dataset::run(command),
        Command::Train(args) => train::run(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Adapt(args) => adapt::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Search(args) => search::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Plan(command) => plan::run(command),
        Command::Energy(command) => energy::run(command),
        Command::Zoo(command) => zoo::run(command),
        Command::Backends(command) => backends::run(command),
        Command::Bundle(command) => bundle::run(command),
        Command::Report(args) => report::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => {
            clap_complete::generate(
                *shell,
                &mut Cli::command(),
                "vitempo",
                &mut std::io::stdout().lock(),
            );
            Ok(())
        }
        Command::Worker => vitempo::profiler::worker::main().map_err(CliError::ours),
    }
}

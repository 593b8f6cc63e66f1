//! The command line: verbs for the pipeline, noun and verb for artefacts. One file per verb.

mod adapt;
mod agent;
mod arguments;
mod backends;
mod bundle;
mod campaign;
mod dataset;
mod demo;
mod energy;
mod error;
mod error_tables;
mod evaluate;
mod explore;
mod export;
mod files;
mod inspect;
mod interrupt;
mod man;
mod models;
mod output;
mod plan;
mod predict;
mod profile;
mod progress;
mod quantity;
mod refine;
mod report;
mod run;
mod sample;
mod search;
mod serve;
mod train;
mod worker;
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
    Export(export::ExportArgs),
    Inspect(inspect::InspectArgs),
    Profile(profile::ProfileArgs),
    Campaign(Box<campaign::CampaignArgs>),
    Agent(agent::AgentArgs),
    #[command(subcommand)]
    Dataset(dataset::DatasetCommand),
    Train(train::TrainArgs),
    Evaluate(evaluate::EvaluateArgs),
    Adapt(adapt::AdaptArgs),
    Predict(predict::PredictArgs),
    Refine(Box<refine::RefineArgs>),
    Search(search::SearchArgs),
    Explore(explore::ExploreArgs),
    Serve(serve::ServeArgs),
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    Run(Box<run::RunArgs>),
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
        /// Shell of the script
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    Man(man::ManArgs),
    /// Measures on behalf of another vitempo process
    #[command(hide = true)]
    Worker,
}

/// Runs the verb asked for.
pub fn main() -> ExitCode {
    Lines::install(|line| progress::say(line));
    let cli = match arguments::parse(std::env::args_os()) {
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
        Command::Export(args) => export::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Dataset(command) => dataset::run(command),
        Command::Train(args) => train::run(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Adapt(args) => adapt::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Refine(args) => refine::run(args),
        Command::Search(args) => search::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Plan(command) => plan::run(command),
        Command::Run(args) => run::run(args),
        Command::Energy(command) => energy::run(command),
        Command::Zoo(command) => zoo::run(command),
        Command::Backends(command) => backends::run(command),
        Command::Bundle(command) => bundle::run(command),
        Command::Report(args) => report::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Completions { shell } => completions(*shell),
        Command::Man(args) => man::run(args),
        Command::Worker => vitempo::profiler::worker::main().map_err(CliError::ours),
    }
}

/// Prints by way of a buffer: the generator panics where it cannot write.
fn completions(shell: clap_complete::Shell) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "vitempo", &mut script);
    output::write_stdout(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::search_space::Space;

    /// Calls `see` with every command below this one, and its full name.
    fn each(command: &clap::Command, name: &str, see: &mut dyn FnMut(&clap::Command, &str)) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = format!("{name} {}", below.get_name());
            see(below, &name);
            each(below, &name, see);
        }
    }

    /// The words of a command line as a shell splits them, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut quoted = false;
        let divided = line.split(|c| {
            quoted ^= c == '\'';
            c == ' ' && !quoted
        });
        let plain = divided.map(|word| word.replace('\'', "")).filter(|word| !word.is_empty());
        plain.take_while(|word| word != ">").collect()
    }

    #[test]
    fn the_example_of_every_verb_is_a_command_line_of_it() {
        let mut verbs = 0;
        each(&Cli::command(), "vitempo", &mut |command, name| {
            let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let example =
                about.split("Example: ").nth(1).and_then(|rest| rest.split("\n\n").next());
            let Some(example) = example else {
                assert!(command.has_subcommands(), "`{name} --help` gives no example");
                return;
            };
            assert!(example.starts_with(name), "the example of `{name}` is `{example}`");
            let words = words(&example.replace('\n', " "));
            if let Err(error) = arguments::parse(words.into_iter().map(Into::into)) {
                panic!("the example of `{name}`: {error}");
            }
            verbs += 1;
        });
        assert!(verbs > 30, "{verbs} verbs");
    }

    #[test]
    fn every_argument_has_a_help_text() {
        let mut bare = Vec::new();
        each(&Cli::command(), "vitempo", &mut |command, name| {
            let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
            let no_help = visible.filter(|argument| argument.get_help().is_none());
            bare.extend(no_help.map(|argument| format!("{name}: {}", argument.get_id())));
        });
        assert!(bare.is_empty(), "without a help text: {bare:#?}");
    }

    #[test]
    fn help_names_every_space_that_ships() {
        for (verb, flag) in [("sample", "space"), ("search", "space"), ("serve", "spaces")] {
            let mut cli = Cli::command();
            let verb = cli.find_subcommand_mut(verb).expect("a verb");
            let help = verb
                .get_arguments()
                .find(|argument| argument.get_id() == flag)
                .and_then(|argument| argument.get_help())
                .map(ToString::to_string)
                .unwrap_or_default();
            for space in Space::names() {
                assert!(help.contains(space), "{} --help: {help}", verb.get_name());
            }
        }
    }
}

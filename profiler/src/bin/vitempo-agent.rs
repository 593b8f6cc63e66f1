//! `vitempo-agent`: the agent by itself, small enough for a board or a phone: no datasets,
//! predictors or planners, and only the engines that were built in.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};
use vitempo_profiler::{
    WorkerCommand,
    events::Lines,
    remote::{self, AgentOptions, Log},
    worker,
};

const USAGE: &str = "\
Measures here for `vitempo profile --remote 'ssh BOARD vitempo-agent'` on another machine,
over stdin and stdout

Usage: vitempo-agent [--folder FOLDER] [--cache-size MIB] [--verbose]

  --folder FOLDER     Folder for models that clients send; by default in vitempo's own folder
  --cache-size MIB    Most space for models, in MiB [default: 2048]
  --verbose           Report on stderr what happens
  --check             List the engines that are here, and end
  --version, --help";

const NO_PORT: &str = "agents do not listen on ports; the client starts them by a command: vitempo \
    profile --remote 'ssh BOARD vitempo-agent'";

#[derive(Debug, Default)]
struct Arguments {
    folder: Option<PathBuf>,
    cache_mib: Option<u64>,
    verbose: bool,
}

fn main() -> ExitCode {
    Lines::install(|line| eprintln!("{line}"));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["worker"] => worker::main().map_err(|e| e.to_string()),
        ["--help" | "-h"] => print(USAGE),
        ["--check"] => {
            print(&remote::engines().into_iter().map(engine).collect::<Vec<_>>().join("\n"))
        }
        ["--version" | "-V"] => print(concat!("vitempo-agent ", env!("CARGO_PKG_VERSION"))),
        _ => Arguments::read(words.into_iter()).and_then(serve),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(|e| e.to_string())
}

fn engine((name, found): (&str, Result<String, String>)) -> String {
    found.map_or_else(
        |reason| format!("{name}: not here: {reason}"),
        |version| format!("{name} {version}"),
    )
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                // The only way, and therefore the default.
                "--stdio" => continue,
                "--verbose" => {
                    arguments.verbose = true;
                    continue;
                }
                "--listen" | "--secret-file" => return Err(format!("no `{flag}`: {NO_PORT}")),
                _ => {}
            }
            let mut value = || {
                words.next().ok_or_else(|| format!("{flag} needs a value; --help shows all flags"))
            };
            match flag.as_str() {
                "--folder" => arguments.folder = Some(value()?.into()),
                "--cache-size" => {
                    arguments.cache_mib =
                        Some(value()?.parse().map_err(|_| "--cache-size needs a number of MiB")?);
                }
                _ => return Err(format!("there is no `{flag}`; --help shows all flags")),
            }
        }
        Ok(arguments)
    }
}

fn serve(arguments: Arguments) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let folder = arguments
        .folder
        .or_else(AgentOptions::folder)
        .ok_or("neither VITEMPO_HOME nor HOME gives a folder: name one (--folder)")?;
    let worker = WorkerCommand::this_program(["worker"]).map_err(|e| text(&e))?;
    if std::io::stdin().is_terminal() {
        return Err(format!("stdin is a terminal; {NO_PORT}"));
    }
    let log = if arguments.verbose { Log(|line| eprintln!("{line}")) } else { Log::silent() };
    let mut options = AgentOptions::new(folder, worker, log);
    options.cache_bytes =
        arguments.cache_mib.map_or(options.cache_bytes, |mib| mib.saturating_mul(1 << 20));
    remote::serve(&options).map_err(|e| text(&e))
}

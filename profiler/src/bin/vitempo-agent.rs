//! `vitempo-agent`: the agent by itself, small enough for a board or a phone: no datasets,
//! predictors or planners, and only the engines it was built with.

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};
use vitempo_profiler::{
    WorkerCommand,
    events::Lines,
    remote::{self, Agent, AgentOptions, DEFAULT_PORT, Log, SECRET_VARIABLE, Secret},
    worker,
};

const USAGE: &str = "\
Measures here for `vitempo profile --remote` on another machine

Usage: vitempo-agent [--listen ADDRESS | --stdio] [--secret-file FILE] [--folder FOLDER] \
[--cache-size MIB]

  --listen ADDRESS    Address and port; port 0 takes a free one [default: 127.0.0.1:7411]
  --stdio             Serve one client over stdin and stdout, for ssh and adb
  --secret-file FILE  The secret of the clients; without it the variable \
  VITEMPO_AGENT_SECRET
  --folder FOLDER     Folder for models that clients send; by default in vitempo's own folder
  --cache-size MIB    Most space for models, in MiB [default: 2048]
  --check             Say which engines are here, and end
  --version, --help";

#[derive(Debug, Default)]
struct Arguments {
    listen: Option<SocketAddr>,
    stdio: bool,
    secret_file: Option<PathBuf>,
    folder: Option<PathBuf>,
    cache_mib: Option<u64>,
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
            if flag == "--stdio" {
                arguments.stdio = true;
                continue;
            }
            let mut value = || {
                words.next().ok_or_else(|| format!("{flag} wants a value; --help shows all flags"))
            };
            match flag.as_str() {
                "--listen" => {
                    arguments.listen = Some(value()?.parse().map_err(
                        |_| "--listen wants an address and a port, e.g. 127.0.0.1:7411",
                    )?);
                }
                "--secret-file" => arguments.secret_file = Some(value()?.into()),
                "--folder" => arguments.folder = Some(value()?.into()),
                "--cache-size" => {
                    arguments.cache_mib =
                        Some(value()?.parse().map_err(|_| "--cache-size wants a number of MiB")?);
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
    let log = if arguments.stdio { Log::silent() } else { Log(|line| eprintln!("{line}")) };
    let mut options = AgentOptions::new(folder, worker, log);
    options.cache_bytes =
        arguments.cache_mib.map_or(options.cache_bytes, |mib| mib.saturating_mul(1 << 20));
    if arguments.stdio {
        return remote::serve_stdio(&options).map_err(|e| text(&e));
    }
    let secret = Secret::find(arguments.secret_file.as_deref()).map_err(|e| text(&e))?;
    let secret = secret.ok_or_else(|| {
        format!(
            "an agent needs a secret that its clients know: set \
        {SECRET_VARIABLE} or give --secret-file"
        )
    })?;
    let address =
        arguments.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT));
    let agent = Agent::bind(address, secret, options).map_err(|e| text(&e))?;
    print(&format!("listening on {}", agent.address().map_err(|e| text(&e))?))?;
    agent.run()
}

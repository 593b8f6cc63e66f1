//! `vitempo agent`: measures on this machine for sweeps that run on others.

use super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    progress, quantity,
    worker::worker,
};
use serde_json::json;
use std::{io::IsTerminal, path::PathBuf, time::Duration};
use vitempo::profiler::remote::{self, AgentError, AgentOptions, Log};

/// Measures on this machine for `vitempo profile --remote` on another one, over stdin and stdout
///
/// Example: vitempo agent --check
///
/// A client starts it by a command: vitempo profile models/ --remote 'ssh board vitempo agent'
/// --out data/
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// The only connection, and therefore the default
    #[arg(long, hide = true)]
    stdio: bool,

    /// Agents do not listen
    #[arg(long, hide = true, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Agents have no secret
    #[arg(long, hide = true, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Folder for models that clients send; by default in vitempo's own folder
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Most space for models; the least recently requested are deleted first
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "2GiB")]
    cache_size: u64,

    /// Largest message of a client; models come in small pieces and do not count
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "64MiB")]
    max_message: u64,

    /// Close the connection to a client after this long without a message
    #[arg(
        long,
        alias = "patience",
        value_name = "TIME",
        value_parser = quantity::duration_or_seconds,
        default_value = "30s"
    )]
    silence_limit: Duration,

    /// Report on stderr what happens
    #[arg(long)]
    verbose: bool,

    /// List the engines of this machine, and end
    #[arg(long)]
    check: bool,

    /// Format of the output of `--check`
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &AgentArgs) -> CliResult {
    if args.listen.is_some() || args.secret_file.is_some() {
        return Err(CliError::user("agents do not listen on ports (--listen, --secret-file)")
            .hint(HOW_TO_START));
    }
    let log =
        if args.verbose { Log(|line| progress::say(line.to_string())) } else { Log::silent() };
    let options = args.options(log)?;
    if args.check {
        let engines = remote::engines();
        return output::print(&Checked { folder: &options.folder, engines }, args.format);
    }
    if std::io::stdin().is_terminal() {
        return Err(CliError::user("an agent talks to its client over stdin, which is a terminal")
            .hint(HOW_TO_START));
    }
    remote::serve(&options).map_err(explain)
}

const HOW_TO_START: &str = "the client starts its agent by a command over ssh or adb: \
    vitempo profile models/ --remote 'ssh board vitempo agent' --out data/";

fn explain(error: AgentError) -> CliError {
    let hint = match &error {
        AgentError::Folder { .. } => "choose a folder you may write to (--folder)",
        AgentError::SilenceLimit(_) => "30s suits most connections (--silence-limit)",
        AgentError::Stranger(_) => HOW_TO_START,
        _ => return CliError::user(error),
    };
    CliError::user(error).hint(hint)
}

impl AgentArgs {
    fn options(&self, log: Log) -> CliResult<AgentOptions> {
        let nowhere = || {
            CliError::user(
                "no folder for the agent: neither VITEMPO_HOME nor XDG_DATA_HOME nor HOME is set",
            )
            .hint("name one: --folder")
        };
        let folder = self.folder.clone().or_else(AgentOptions::folder).ok_or_else(nowhere)?;
        let message_bytes = usize::try_from(self.max_message).map_err(CliError::user)?;
        let usual = AgentOptions::new(folder, worker()?, log);
        Ok(AgentOptions {
            cache_bytes: self.cache_size,
            message_bytes,
            silence_limit: self.silence_limit,
            ..usual
        })
    }
}

/// The agent's folder and engines.
struct Checked<'a> {
    folder: &'a std::path::Path,
    engines: Vec<(&'static str, Result<String, String>)>,
}

impl Checked<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Engine", "Found", "Version, or why not"], 3);
        for (name, found) in &self.engines {
            let (word, text) =
                found.as_ref().map_or_else(|reason| ("no", reason), |version| ("yes", version));
            table.row([(*name).to_owned(), word.to_owned(), text.clone()]);
        }
        table
    }
}

impl Report for Checked<'_> {
    fn table(&self) -> String {
        format!("Folder   {}\n\n{}", self.folder.display(), self.rows().to_text())
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let engine = |(name, found): &(&str, Result<String, String>)| {
            json!({
                "backend": name,
                "version": found.as_ref().ok(),
                "reason": found.as_ref().err(),
            })
        };
        let engines: Vec<_> = self.engines.iter().map(engine).collect();
        Ok(json!({"folder": self.folder, "engines": engines}))
    }
}

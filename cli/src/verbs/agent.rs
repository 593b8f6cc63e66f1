//! `vitempo agent`: measures on this machine for sweeps that run on others.

use super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    profile::{self, parse_duration},
    progress, quantity,
};
use serde_json::json;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use vitempo::profiler::remote::{
    self, Agent, AgentError, AgentOptions, Log, SECRET_VARIABLE, Secret, SecretError,
};

/// Measures here for `vitempo profile --remote` on another machine
///
/// Example: vitempo agent --secret-file secret
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), remote::DEFAULT_PORT))]
    listen: SocketAddr,

    /// Serve one client over stdin and stdout, for ssh and adb: whoever starts the agent is let in
    #[arg(long, conflicts_with_all = ["listen", "secret_file"])]
    stdio: bool,

    /// File with the secret that clients have to know; without it the variable VITEMPO_AGENT_SECRET
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Folder for models that clients send; by default in vitempo's own folder
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Most space for models; those that were not asked for the longest go first
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
        value_parser = parse_duration,
        default_value = "30s"
    )]
    silence_limit: Duration,

    /// Say where it would listen and which engines it has, and end
    #[arg(long)]
    check: bool,

    /// Form of what `--check` prints
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &AgentArgs) -> CliResult {
    let log = if args.stdio { Log::silent() } else { Log(|line| progress::say(line.to_string())) };
    let options = args.options(log)?;
    if args.check {
        return output::print(
            &Checked { args, folder: &options.folder, engines: remote::engines() },
            args.format,
        );
    }
    if args.stdio {
        return remote::serve_stdio(&options).map_err(explain);
    }
    let secret = secret(args.secret_file.as_deref())?.ok_or_else(|| {
        CliError::user("an agent needs a secret that its clients know")
            .hint(format!("set {SECRET_VARIABLE} or give --secret-file; {HOW_TO_MAKE}"))
    })?;
    let agent = Agent::bind(args.listen, secret, options).map_err(explain)?;
    output::write_stdout(&format!("listening on {}\n", agent.address().map_err(CliError::ours)?))?;
    agent.run()
}

const HOW_TO_MAKE: &str = "`openssl rand -hex 32` makes one";

/// The secret in the file, or in the environment.
pub fn secret(file: Option<&std::path::Path>) -> CliResult<Option<Secret>> {
    Secret::find(file).map_err(|error| match error {
        SecretError::Short(_) | SecretError::Characters(_) => {
            CliError::user(error).hint(HOW_TO_MAKE)
        }
        _ => CliError::user(error),
    })
}

fn explain(error: AgentError) -> CliError {
    let hint = match &error {
        AgentError::Listen { .. } => "choose another address, or port 0 for a free one (--listen)",
        AgentError::Folder { .. } => "choose a folder you may write to (--folder)",
        AgentError::SilenceLimit(_) => "30s suits most connections (--silence-limit)",
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
        let usual = AgentOptions::new(folder, profile::worker()?, log);
        Ok(AgentOptions {
            cache_bytes: self.cache_size,
            message_bytes,
            silence_limit: self.silence_limit,
            ..usual
        })
    }
}

/// What the agent would be.
struct Checked<'a> {
    args: &'a AgentArgs,
    folder: &'a std::path::Path,
    engines: Vec<(&'static str, Result<String, String>)>,
}

impl Checked<'_> {
    fn address(&self) -> String {
        if self.args.stdio { "stdin and stdout".to_owned() } else { self.args.listen.to_string() }
    }

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
        format!(
            "Address  {}\nFolder   {}\n\n{}",
            self.address(),
            self.folder.display(),
            self.rows().to_text()
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let engine = |(name, found): &(&str, Result<String, String>)| json!({"backend": name, "version": found.as_ref().ok(), "reason": found.as_ref().err()});
        Ok(
            json!({"address": self.address(), "folder": self.folder, "engines": self.engines.iter().map(engine).collect::<Vec<_>>()}),
        )
    }
}

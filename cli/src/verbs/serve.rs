//! `vitempo serve`: serves forecasts over HTTP, for searches and services in other programs.

use super::{
    error::{CliError, CliResult, io_error},
    models::LimitArgs,
    output::{self, Format, Report, Table},
    quantity::{self, duration_or_seconds, positive},
};
use serde_json::json;
use std::{
    env,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use vitempo::{bundle::Location, graph::LatencyModel, search_space::Space};
use vitempo_serve::{Level, Limits, Log, Options, RegisteredBundle, ServeError, Token};

/// The variable with the token, if no file is named.
const TOKEN_VARIABLE: &str = "VITEMPO_TOKEN";

/// Serves forecasts over HTTP
///
/// Example: vitempo serve --bundle demo.vtb --listen 127.0.0.1:8080
#[derive(clap::Args, Debug)]
pub struct ServeArgs {
    /// Bundle of either kind: a file, a name that `vitempo bundle list` shows, or a folder, whose
    /// bundles are all served, also those added later; may be repeated
    #[arg(long = "bundle", value_name = "NAME", required = true)]
    pub bundles: Vec<PathBuf>,

    /// Address and port; port 0 takes a free one. Addresses other than loopback need a token
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080)
    )]
    pub listen: SocketAddr,

    /// File with the bearer token that clients have to send; by default the variable VITEMPO_TOKEN,
    /// if it is set
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Search spaces whose encodings are accepted: names (hybrid-vit, isotropic-vit) or TOML files;
    /// may be repeated. The first is used for requests that name none
    #[arg(long = "space", value_name = "SPACE", default_value = "hybrid-vit")]
    pub spaces: Vec<String>,

    /// Largest body of a request
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "64MiB")]
    pub max_body: u64,

    /// Most forecasts of one request: models times bundles
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        default_value_t = Limits::default().forecasts
    )]
    pub max_forecasts: usize,

    #[command(flatten)]
    pub model_limits: LimitArgs,

    /// Time limit for each of: a request's head, its body, its forecasts, a write of the response
    #[arg(long, value_name = "TIME", value_parser = duration_or_seconds, default_value = "30s")]
    pub timeout: Duration,

    /// Requests computed at the same time; by default one per processor
    #[arg(long, value_name = "N", value_parser = positive)]
    pub workers: Option<usize>,

    /// Requests that may wait for a worker; more are refused with 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue)]
    pub queue: usize,

    /// Connections that may be open; more wait
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        default_value_t = Limits::default().connections
    )]
    pub max_connections: usize,

    /// Time for requests in progress when the server stops
    #[arg(long, value_name = "TIME", value_parser = duration_or_seconds, default_value = "10s")]
    pub grace: Duration,

    /// Interval at which changed bundles are reloaded; 0 for never; SIGHUP reloads at once
    #[arg(long, value_name = "TIME", value_parser = duration_or_seconds, default_value = "2s")]
    pub reload: Duration,

    /// Log only events of the server, not every request
    #[arg(long)]
    pub no_request_log: bool,

    /// Read bundles, spaces and token, list what would be served, and end
    #[arg(long)]
    pub check: bool,

    /// Print the OpenAPI document and end
    #[arg(long, conflicts_with = "check")]
    pub openapi: bool,

    /// Format of the output of `--check`
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &ServeArgs) -> CliResult {
    let options = args.options()?;
    if args.openapi {
        let document =
            vitempo_serve::openapi(&options.spaces, &options.limits, options.token.is_some());
        return output::write_stdout(
            &(serde_json::to_string_pretty(&document).map_err(CliError::ours)? + "\n"),
        );
    }
    if args.check {
        let registry = vitempo_serve::open_registry(options.bundles.clone()).map_err(explain)?;
        return output::print(
            &Checked { options: &options, bundles: registry.current().values().cloned().collect() },
            args.format,
        );
    }
    let log = options.log;
    std::panic::set_hook(Box::new(move |panic| {
        log.event(Level::Error, "panic", json!({"reason": panic.to_string()}));
    }));
    let mut printed = Ok(());
    vitempo_serve::run(options, args.reload, |address| {
        printed = output::write_stdout(&format!("listening on http://{address}\n"));
    })
    .map_err(explain)?;
    printed
}

fn explain(error: ServeError) -> CliError {
    let hint = match &error {
        ServeError::Open(_) => {
            Some(format!("set {TOKEN_VARIABLE} or give --token-file; or listen on 127.0.0.1"))
        }
        ServeError::Ambiguous(_) => {
            Some("rename one of the files: clients ask for bundles by name (--bundle)".to_owned())
        }
        ServeError::NoBundle => Some("`vitempo train` makes one (--bundle)".to_owned()),
        ServeError::Listen { .. } => {
            Some("choose another address, or port 0 for a free one (--listen)".to_owned())
        }
        ServeError::Threads(_) | ServeError::Address(_) | ServeError::Signals(_) => {
            return CliError::ours(error);
        }
        ServeError::Bundle(_) | ServeError::NoSpace => None,
    };
    let error = CliError::user(error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl ServeArgs {
    fn options(&self) -> CliResult<Options> {
        let limits = Limits {
            body_bytes: usize::try_from(self.max_body).map_err(CliError::user)?,
            timeout: above_zero(self.timeout, "--timeout")?,
            workers: self.workers.unwrap_or(Limits::default().workers),
            queue: self.queue,
            connections: self.max_connections,
            forecasts: self.max_forecasts,
            model: self.model_limits.limits(),
            grace: self.grace,
        };
        Ok(Options {
            listen: self.listen,
            bundles: self.bundles.iter().map(Location::find).collect::<Result<_, _>>()?,
            spaces: self
                .spaces
                .iter()
                .map(|space| Ok(Space::find(space)?))
                .collect::<CliResult<_>>()?,
            token: token(self.token_file.as_deref())?,
            limits,
            log: if self.no_request_log { Log::Server } else { Log::Requests },
        })
    }
}

fn above_zero(time: Duration, flag: &str) -> CliResult<Duration> {
    if time.is_zero() {
        Err(CliError::user(format!("a time limit of 0 refuses every request ({flag})")))
    } else {
        Ok(time)
    }
}

/// The token in the file, or in the environment.
fn token(file: Option<&Path>) -> CliResult<Option<Token>> {
    let (text, source) = match file {
        Some(file) => (
            std::fs::read_to_string(file).map_err(|e| io_error("read", file, &e))?,
            file.display().to_string(),
        ),
        None => match env::var_os(TOKEN_VARIABLE) {
            Some(text) => (text.to_string_lossy().into_owned(), TOKEN_VARIABLE.to_owned()),
            None => return Ok(None),
        },
    };
    let wrong = |error: vitempo_serve::TokenError| {
        CliError::user(format!("{error} ({source})")).hint("`openssl rand -hex 32` makes one")
    };
    Token::new(&text).map(Some).map_err(wrong)
}

/// What would be served.
struct Checked<'a> {
    options: &'a Options,
    bundles: Vec<Arc<RegisteredBundle>>,
}

impl Checked<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Bundle", "Environment", "Method", "Level"], 3);
        for registered in &self.bundles {
            let b = &registered.bundle;
            table.row([
                b.name().to_owned(),
                b.environment().describe(),
                b.method().to_owned(),
                output::percent(b.level()),
            ]);
        }
        table
    }

    fn spaces(&self) -> Vec<&str> {
        self.options.spaces.iter().map(Space::name).collect()
    }
}

impl Report for Checked<'_> {
    fn table(&self) -> String {
        let token =
            if self.options.token.is_some() { "needed" } else { "none: for this machine only" };
        let lines = [
            ("Address", self.options.listen.to_string()),
            ("Token", token.to_owned()),
            ("Spaces", self.spaces().join(", ")),
        ];
        let head: String =
            lines.iter().map(|(name, value)| format!("{name:<9}{value}\n")).collect();
        head + "\n" + &self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let limits = &self.options.limits;
        let bundle = |registered: &Arc<RegisteredBundle>| {
            let b = &registered.bundle;
            json!({"name": b.name(), "digest": b.digest(), "environment": b.environment().id()})
        };
        Ok(json!({
            "listen": self.options.listen,
            "token": self.options.token.is_some(),
            "spaces": self.spaces(),
            "bundles": self.bundles.iter().map(bundle).collect::<Vec<_>>(),
            "limits": {
                "body_bytes": limits.body_bytes,
                "forecasts": limits.forecasts,
                "timeout_ns": limits.timeout.as_nanos() as u64,
                "workers": limits.workers,
                "queue": limits.queue,
                "connections": limits.connections,
                "grace_ns": limits.grace.as_nanos() as u64,
            },
        }))
    }
}

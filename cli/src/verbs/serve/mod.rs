//! `vitempo serve`: serves forecasts over HTTP, for searches and services in other programs.

mod checked;

use super::{
    error::{CliError, CliResult},
    models::LimitArgs,
    output::{self, Format},
    quantity::{self, duration_or_seconds, positive},
};
use checked::Checked;
use serde_json::json;
use std::{
    env,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use vitempo::{bundle::Location, search_space::Space};
use vitempo_serve::{Level, LimitError, Limits, Log, Options, ServeError, Token, TokenError, Zero};

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

    /// File with the bearer token that clients have to show, readable by its owner alone; without
    /// it the variable VITEMPO_TOKEN, where that is set
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Search spaces whose encodings are accepted: names (hybrid-vit, isotropic-vit, mbconv) or
    /// TOML files; may be repeated. The first is used for requests that name none
    #[arg(long = "space", value_name = "SPACE", default_value = "hybrid-vit")]
    pub spaces: Vec<String>,

    /// Largest body of a request
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "64MiB")]
    pub max_body: u64,

    /// Largest response
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes, default_value = "64MiB")]
    pub max_response: u64,

    /// Memory for all bodies and unread responses together, beyond the first 32 KiB of each; eight
    /// times the larger of --max-body and --max-response where it is not given
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    pub memory: Option<u64>,

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

    /// Time limit for a request's head; connections that are idle for longer end
    #[arg(long, value_name = "TIME", value_parser = duration_or_seconds, default_value = "5s")]
    pub head_timeout: Duration,

    /// Time limit for each of: a request's body, its forecasts, the reading of the response, which
    /// has another second for each MiB
    #[arg(long, value_name = "TIME", value_parser = duration_or_seconds, default_value = "30s")]
    pub timeout: Duration,

    /// Requests computed at the same time, and as many short ones beside them; one per processor
    /// where it is not given
    #[arg(long, value_name = "N", value_parser = positive)]
    pub workers: Option<usize>,

    /// Requests that may wait for a worker, and as many short ones beside them; more are refused
    /// with 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue)]
    pub queue: usize,

    /// Connections that may be open; for one more, an idle one ends, or it is refused with 503
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        default_value_t = Limits::default().connections
    )]
    pub max_connections: usize,

    /// Connections that one address may have (in IPv6, a network of 64 bits), in the same way;
    /// raise it behind a proxy
    #[arg(
        long,
        value_name = "N",
        value_parser = positive,
        default_value_t = Limits::default().connections_per_address
    )]
    pub max_connections_per_address: usize,

    /// Time for requests under way when the server stops
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

    /// Format of the output of --check
    #[arg(long, value_enum, default_value_t, requires = "check", conflicts_with = "openapi")]
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
        vitempo_serve::check_access(options.listen, options.token.as_ref()).map_err(explain)?;
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

pub fn explain(error: ServeError) -> CliError {
    let hint = match &error {
        ServeError::Open(_) => {
            Some(format!("set {TOKEN_VARIABLE} or give --token-file; or listen on 127.0.0.1"))
        }
        ServeError::Ambiguous(_) => {
            Some("rename one of the files: clients ask for bundles by name (--bundle)".to_owned())
        }
        ServeError::SameSpace(_) => {
            Some("leave one out: requests ask for spaces by name (--space)".to_owned())
        }
        ServeError::NoBundle => Some("`vitempo train` makes one (--bundle)".to_owned()),
        ServeError::Listen { .. } => {
            Some("choose another address, or port 0 for a free one (--listen)".to_owned())
        }
        ServeError::Threads(_)
        | ServeError::Address(_)
        | ServeError::Signals(_)
        | ServeError::Random(_) => {
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
        let bytes = |size: u64| usize::try_from(size).map_err(CliError::user);
        let (body_bytes, answer_bytes) = (bytes(self.max_body)?, bytes(self.max_response)?);
        let memory = self.memory.map(bytes).transpose()?;
        let limits = Limits {
            body_bytes,
            answer_bytes,
            memory_bytes: memory.unwrap_or_else(|| Limits::memory_for(body_bytes, answer_bytes)),
            head_timeout: self.head_timeout,
            timeout: self.timeout,
            workers: self.workers.unwrap_or(Limits::default().workers),
            queue: self.queue,
            connections: self.max_connections,
            connections_per_address: self.max_connections_per_address,
            forecasts: self.max_forecasts,
            model: self.model_limits.limits(),
            grace: self.grace,
        };
        limits.check()?;
        let spaces = self.spaces.iter().map(|space| Ok(Space::find(space)?));
        let spaces: Vec<Space> = spaces.collect::<CliResult<_>>()?;
        vitempo_serve::check_spaces(&spaces).map_err(explain)?;
        Ok(Options {
            listen: self.listen,
            bundles: self.bundles.iter().map(Location::find).collect::<Result<_, _>>()?,
            spaces,
            token: token(self.token_file.as_deref())?,
            limits,
            log: if self.no_request_log { Log::Server } else { Log::Requests },
            model: None,
        })
    }
}

impl From<LimitError> for CliError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Memory { .. } => {
                Self::user(error).hint("raise --memory, or lower --max-body and --max-response")
            }
            LimitError::Zero(zero) => Self::user(format!("{error} ({})", flag_of(zero)))
                .hint("leave it out for the default that --help shows"),
            LimitError::HeadTimeout => Self::user(format!("{error} (--head-timeout)")),
            LimitError::Timeout => Self::user(format!("{error} (--timeout)")),
            other => Self::user(other),
        }
    }
}

/// The flag of a limit.
fn flag_of(zero: Zero) -> &'static str {
    match zero {
        Zero::Body => "--max-body",
        Zero::Answer => "--max-response",
        Zero::Nodes => "--max-model-nodes",
        Zero::Steps => "--max-model-steps",
    }
}

/// The token in the file, or in the environment.
fn token(file: Option<&Path>) -> CliResult<Option<Token>> {
    let (token, source) = match (file, env::var_os(TOKEN_VARIABLE)) {
        (Some(file), _) => (Token::read(file), file.display().to_string()),
        (None, Some(text)) => (Token::new(&text.to_string_lossy()), TOKEN_VARIABLE.to_owned()),
        (None, None) => return Ok(None),
    };
    token.map(Some).map_err(|error| {
        let hint = match &error {
            TokenError::Exposed(_) => {
                Some(format!("`chmod 600 {source}` makes it yours alone (--token-file)"))
            }
            TokenError::Short | TokenError::Characters => {
                Some("`openssl rand -hex 32` makes one".to_owned())
            }
            TokenError::Unreadable(_) => None,
        };
        let error = CliError::user(format!("{error} ({source})"));
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

//! Forecasts over HTTP: what `vitempo serve` runs.
//!
//! [`run`] blocks until the server has stopped; a [`Server`] is for callers that have a runtime of
//! their own. It reads bundles, listens, and answers until `stop` completes. It uses nothing that a
//! client sends as a path, and neither waits nor stores data beyond the [`Limits`].
//!
//! | question | where |
//! |---|---|
//! | what can be asked? | `routes`, `request`; for clients `openapi` |
//! | what is answered? | `answer`, `form`, `arrow_rows`, `forecast`, `table_cache`, and `problem` when not |
//! | how much at a time, how long? | `clients`, `listener`, `body`, `memory`, `pool`, `write_timeout` |
//! | which bundles? | [`BundleRegistry`] |
//! | what do people see at `/`? | `page` |
//! | what happened? | `metrics`, `process`, [`Log`] |

mod answer;
mod arrow;
mod arrow_rows;
mod body;
mod clients;
mod delivery;
mod expansion;
mod forecast;
mod form;
mod limits;
mod listener;
mod log;
mod memory;
mod metrics;
mod openapi;
mod page;
mod pieces;
mod pool;
mod problem;
mod process;
mod question;
mod registry;
mod request;
mod routes;
mod run;
mod signals;
mod table_cache;
mod token;
mod write_timeout;

pub use limits::{LimitError, Limits, Zero};
pub use log::{Level, Log};
pub use openapi::document as openapi;
pub use page::{PageModel, is_built_in as has_page};
pub use registry::{BundleRegistry, Refreshed, RegisteredBundle};
pub use run::run;
pub use signals::watch;
pub use token::{Token, TokenError};

use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, time::timeout};
use vitempo::bundle::Location;
use vitempo::search_space::Space;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Bundles of either kind, or folders of them.
    pub bundles: Vec<Location>,
    /// Search spaces whose encodings are accepted; the first is the default.
    pub spaces: Vec<Space>,
    /// Secret of the clients; required for addresses other than loopback.
    pub token: Option<Token>,
    /// Limits of the server.
    pub limits: Limits,
    /// What is written to standard error.
    pub log: Log,
    /// A model that the page at `/` opens, by [`PageModel::fragment`].
    pub model: Option<PageModel>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Anybody could use the server.
    #[error("{0} can be reached from other machines, and no token is set")]
    Open(IpAddr),
    /// A request could not say which bundle it means.
    #[error("two bundles have the name `{0}`")]
    Ambiguous(String),
    /// A bundle cannot be read.
    #[error("{0}")]
    Bundle(String),
    /// No bundle is given.
    #[error("there is no bundle to serve")]
    NoBundle,
    /// No search space is given.
    #[error("no search space is given")]
    NoSpace,
    /// A request could not say which space it means.
    #[error("two search spaces have the name `{0}`")]
    SameSpace(String),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system reports.
        source: io::Error,
    },
    /// The system starts no threads.
    #[error("cannot start the server's threads: {0}")]
    Threads(io::Error),
    /// The system does not say which address it is.
    #[error("cannot read the address that the server listens on: {0}")]
    Address(io::Error),
    /// The system takes no handler.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// There is no key for the anonymous names of clients.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

/// The state that requests share.
struct Service {
    registry: Arc<BundleRegistry>,
    spaces: Arc<[Space]>,
    token: Option<Token>,
    /// Whether only this machine reaches it.
    is_local: bool,
    model: Option<PageModel>,
    limits: Limits,
    log: Log,
    /// The OpenAPI document.
    document: String,
    memory: memory::Memory,
    clients: Arc<clients::Clients>,
    pool: pool::Pool,
    metrics: metrics::Metrics,
    draining: AtomicBool,
    /// When the server started, s since 1970; with a count, it identifies requests.
    started: u64,
    requests: AtomicU64,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
}

impl Server {
    /// Reads the bundles and opens the port.
    ///
    /// # Errors
    /// [`ServeError`] for an address beyond loopback without a token, a bundle that cannot be read,
    /// a port that is taken.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { listen, bundles, spaces, token, limits, log, model } = options;
        check_access(listen, token.as_ref())?;
        check_spaces(&spaces)?;
        let registry = Arc::new(open_registry(bundles)?);
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(ServeError::Random)?;
        let (most, per_address) = (limits.connections, limits.connections_per_address);
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|source| ServeError::Listen { address: listen, source })?;
        let service = Service {
            document: openapi(&spaces, &limits, token.is_some()).to_string(),
            spaces: spaces.into(),
            token,
            is_local: listen.ip().is_loopback(),
            model,
            limits,
            log,
            memory: memory::Memory::new(limits.memory_bytes),
            clients: Arc::new(clients::Clients::new(most, per_address, key)),
            pool: pool::Pool::new(limits.workers, limits.queue, limits.timeout),
            metrics: metrics::Metrics::default(),
            draining: AtomicBool::new(false),
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            requests: AtomicU64::new(0),
            registry,
        };
        service.metrics.reloaded(service.registry.current().len(), 0);
        Ok(Self { listener, service: Arc::new(service) })
    }

    /// Its address.
    ///
    /// # Errors
    /// When the system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The handle that reloads bundles.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        Reloader(self.service.clone())
    }

    /// Answers until `stop` completes, then accepts no more connections, and ends when all requests
    /// are answered or the time for that is over. Returns whether all were answered.
    pub async fn run(self, stop: impl Future<Output = ()>) -> bool {
        let Self { listener, service } = self;
        let graceful = Arc::new(GracefulShutdown::new());
        let app = routes::router(service.clone());
        let accepting =
            tokio::spawn(listener::accept(listener, app, service.clone(), graceful.clone()));
        stop.await;
        service.draining.store(true, Ordering::Relaxed);
        service.log.event(Level::Info, "stopping", json!({"connections": graceful.count()}));
        accepting.abort();
        // The port is closed, and nothing else holds the connections, only after it has ended.
        let _ = accepting.await;
        let done = match Arc::into_inner(graceful) {
            Some(graceful) => timeout(service.limits.grace, graceful.shutdown()).await.is_ok(),
            None => false,
        };
        service.log.event(
            if done { Level::Info } else { Level::Warning },
            "stopped",
            json!({"all_answered": done}),
        );
        done
    }
}

/// Whether only those may use the server who should: anybody on this machine, or whoever has the
/// token.
///
/// # Errors
/// [`ServeError::Open`] for an address beyond loopback without a token.
pub fn check_access(listen: SocketAddr, token: Option<&Token>) -> Result<(), ServeError> {
    match token {
        None if !listen.ip().is_loopback() => Err(ServeError::Open(listen.ip())),
        _ => Ok(()),
    }
}

/// Whether requests can name each search space.
///
/// # Errors
/// [`ServeError`] for none at all, or two of one name.
pub fn check_spaces(spaces: &[Space]) -> Result<(), ServeError> {
    if spaces.is_empty() {
        return Err(ServeError::NoSpace);
    }
    let mut names = BTreeSet::new();
    match spaces.iter().map(Space::name).find(|name| !names.insert(*name)) {
        Some(name) => Err(ServeError::SameSpace(name.to_owned())),
        None => Ok(()),
    }
}

/// Opens a registry whose bundles can all be read.
///
/// # Errors
/// [`ServeError`] for two of one name, the first that cannot be read, or none at all.
pub fn open_registry(places: Vec<Location>) -> Result<BundleRegistry, ServeError> {
    let registry = BundleRegistry::new(places);
    if let Some(name) = registry.ambiguous() {
        return Err(ServeError::Ambiguous(name));
    }
    match registry.refresh(true).failed.into_iter().next() {
        Some((_, reason)) => Err(ServeError::Bundle(reason)),
        None if registry.current().is_empty() => Err(ServeError::NoBundle),
        None => Ok(registry),
    }
}

/// Reloads bundles while the server answers.
#[derive(Clone)]
pub struct Reloader(Arc<Service>);

impl Reloader {
    /// Reloads changed bundles; with `all`, every bundle. Logs the changes.
    pub fn refresh(&self, all: bool) -> Refreshed {
        let changes = self.0.registry.refresh(all);
        self.0.metrics.reloaded(changes.loaded.len(), changes.failed.len());
        if !changes.loaded.is_empty() || !changes.dropped.is_empty() {
            self.0.log.event(
                Level::Info,
                "bundles_changed",
                json!({"loaded": changes.loaded, "dropped": changes.dropped}),
            );
        }
        for (location, reason) in &changes.failed {
            self.0.log.event(
                Level::Error,
                "bundle_refused",
                json!({"path": location, "reason": reason}),
            );
        }
        changes
    }
}

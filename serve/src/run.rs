//! [`run`]: runs a server from start to stop, on threads of its own.

use super::{Options, ServeError, Server, watch};
use std::{net::SocketAddr, time::Duration};
use tokio::runtime;

/// Stack of the threads that compute, bytes; models from clients may nest deeply.
const STACK_BYTES: usize = 8 << 20;

/// Serves until SIGTERM or SIGINT, and blocks the caller as long. Files of bundles are checked for
/// changes every `reload`, never where that is zero. `listening` is called with the address once
/// clients can connect.
///
/// # Errors
/// [`ServeError`] where the server cannot start: see [`Server::bind`]; or the system refuses threads
/// or signal handlers.
pub fn run(
    options: Options,
    reload: Duration,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let runtime = runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let outcome = runtime.block_on(serve(options, reload, listening));
    // Computations that still run belong to clients that are gone.
    runtime.shutdown_background();
    outcome
}

async fn serve(
    options: Options,
    reload: Duration,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let log = options.log;
    let server = Server::bind(options).await?;
    let address = server.address().map_err(ServeError::Address)?;
    let stop = watch(server.reloader(), reload, log).map_err(ServeError::Signals)?;
    listening(address);
    server.run(stop).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Log};
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn a_server_that_cannot_start_never_listens() {
        let options = Options {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            bundles: Vec::new(),
            spaces: Vec::new(),
            token: None,
            limits: Limits::default(),
            log: Log::Nothing,
            model: None,
        };
        let outcome = run(options, Duration::ZERO, |address| panic!("listens on {address}"));
        assert!(matches!(outcome, Err(ServeError::Open(ip)) if ip.is_unspecified()));
    }
}

//! Accepts connections: a limited number at a time, each with time limits. All of them are closed
//! when the server stops.

use super::{Service, log::Level, write_timeout::WriteTimeout};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// After the system would not give a connection (too many files open, say).
const BREATH: Duration = Duration::from_millis(100);

/// Accepts connections until it is dropped. If all places are taken, the next client waits in the
/// system's queue.
pub async fn accept(
    listener: TcpListener,
    app: Router,
    service: Arc<Service>,
    graceful: Arc<GracefulShutdown>,
) {
    let limits = &service.limits;
    let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.timeout).max_header_size(LONGEST_HEAD);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                service.log.event(
                    Level::Warning,
                    "accept_failed",
                    json!({"reason": error.to_string()}),
                );
                sleep(BREATH).await;
                continue;
            }
        };
        // Answers are written whole; waiting to fill packets would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = TokioIo::new(WriteTimeout::new(stream, limits.timeout));
        let connection =
            graceful.watch(http.serve_connection(stream, TowerToHyperService::new(app.clone())));
        let service = service.clone();
        tokio::spawn(async move {
            let _held = service.metrics.connections.hold();
            // An early end of a connection is not an error of the server; requests are counted and
            // logged one by one.
            let _ = connection.await;
            drop(place);
        });
    }
}

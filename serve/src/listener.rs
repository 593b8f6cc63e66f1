//! Connections: a place for each, time limits for what they send and read, and all of them closed
//! when the server stops. A connection that finds no place is refused at once.

use super::{
    Service,
    clients::Place,
    log::Level,
    problem::Problem,
    write_timeout::{AnswerClock, WriteTimeout},
};
use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use serde_json::json;
use std::{
    future::poll_fn,
    io::Write,
    net::{IpAddr, Shutdown},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// What one connection buffers of what is sent, and of what is to be sent, in bytes.
const BUFFER: usize = 64 << 10;
/// After the system would not give a connection (too many files open, say).
const BREATH: Duration = Duration::from_millis(100);
/// How long refused clients may go on sending, so that they get to read why; and how many may.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELLS: usize = 32;

/// Accepts connections until it is dropped.
pub async fn accept(
    listener: TcpListener,
    app: Router,
    service: Arc<Service>,
    graceful: Arc<GracefulShutdown>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(service.limits.head_timeout)
        .max_header_size(LONGEST_HEAD)
        .max_buf_size(BUFFER);
    let farewells = Arc::new(Semaphore::new(FAREWELLS));
    let refusal: Arc<[u8]> = refusal().into();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok((stream, peer)) => (stream, peer.ip()),
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
        match service.clients.admit(address) {
            Some(place) => {
                let service = service.clone();
                serve(&http, (stream, address), place, app.clone(), service, &graceful);
            }
            None => {
                service.metrics.refused();
                refuse(stream, &refusal, &farewells);
            }
        }
    }
}

/// Answers the requests of one connection, on a task of its own.
fn serve(
    http: &http1::Builder,
    (stream, address): (TcpStream, IpAddr),
    place: Place,
    app: Router,
    service: Arc<Service>,
    graceful: &GracefulShutdown,
) {
    if place.has_displaced {
        service.metrics.displaced();
    }
    // Answers are written whole; waiting to fill packets would only delay them.
    let _ = stream.set_nodelay(true);
    let clock = AnswerClock::default();
    let client = place.client(address, clock.clone());
    let stream = TokioIo::new(WriteTimeout::new(stream, service.limits.timeout, clock));
    let app = TowerToHyperService::new(app);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        app.call(request)
    });
    let connection = graceful.watch(http.serve_connection(stream, answer));
    tokio::spawn(async move {
        let _held = service.metrics.connections.hold();
        let (mut connection, mut ended) = (pin!(connection), pin!(place.ended()));
        // What ends a connection early is the client's affair; requests are counted and logged
        // one by one.
        poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => connection.as_mut().poll(cx).map(drop),
        })
        .await;
    });
}

/// Says why, and closes.
fn refuse(stream: TcpStream, refusal: &[u8], farewells: &Arc<Semaphore>) {
    let Ok(stream) = stream.into_std() else { return };
    // The system's buffer of a new connection takes it whole.
    let _ = (&stream).write(refusal).and_then(|_| stream.shutdown(Shutdown::Write));
    // Closing with something unread would lose the answer.
    if let Ok(place) = farewells.clone().try_acquire_owned()
        && let Ok(stream) = TcpStream::from_std(stream)
    {
        tokio::spawn(async move {
            let _ = timeout(FAREWELL, drain(&stream)).await;
            drop(place);
        });
    }
}

async fn drain(stream: &TcpStream) {
    let mut nothing = [0; 4096];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut nothing) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

/// The answer to a connection that finds no place.
fn refusal() -> Vec<u8> {
    let problem =
        Problem::busy("requests under way take all connections of this address or server");
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
        retry-after: 1\r\nconnection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

//! A server of S3 on a free port of this machine, whose buckets are folders, and which a test can
//! make refuse writes or hold them.
// Each test program uses a part of it.
#![allow(dead_code)]

use super::program::command;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::runtime::{Builder, Runtime};

pub const KEY: &str = "AKIALAKETESTSKEY";
pub const SECRET: &str = "a-secret-that-is-in-no-message";
/// Short: the server has files that are named by a code of the whole name of an object.
pub const BUCKET: &str = "lab";

/// A server that ends with the test.
pub struct Bucket {
    pub address: String,
    folder: tempfile::TempDir,
    state: Arc<State>,
    _runtime: Runtime,
}

#[derive(Default)]
struct State {
    /// Method and path of each request.
    requests: Mutex<Vec<String>>,
    refuses_writes: AtomicBool,
    /// Writes that are still served before others wait.
    writes_left: AtomicUsize,
    holds: AtomicBool,
    released: tokio::sync::Notify,
    /// One write at a time: the server looks whether there is a file, and then writes it.
    one_write: tokio::sync::Mutex<()>,
}

impl Bucket {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a bucket");
        let store = s3s_fs::FileSystem::new(folder.path()).expect("a store in a folder");
        let mut builder = S3ServiceBuilder::new(store);
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket of tokio");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state =
            Arc::new(State { writes_left: AtomicUsize::new(usize::MAX), ..State::default() });
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((socket, _)) = listener.accept().await {
                let (service, state) = (service.clone(), Arc::clone(&shared));
                let answer = service_fn(move |request: Request<Incoming>| {
                    answer(service.clone(), Arc::clone(&state), request)
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(socket), answer));
            }
        });
        Self { address, folder, state, _runtime: runtime }
    }

    /// The program with the address and credentials of the server.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command();
        command.args(args);
        self.set_environment(&mut command, SECRET);
        command
    }

    pub fn set_environment(&self, command: &mut Command, secret: &str) {
        command
            .env("AWS_ENDPOINT_URL", &self.address)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", secret);
    }

    /// The folder of a lake.
    pub fn folder(&self, prefix: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(prefix)
    }

    /// Paths of the requests since the last call that have this method.
    pub fn requests(&self, method: &str) -> Vec<String> {
        let all = std::mem::take(&mut *self.state.requests.lock().expect("requests"));
        let of = all.iter().filter_map(|request| request.strip_prefix(method));
        of.map(|path| path.trim().to_owned()).collect()
    }

    pub fn refuse_writes(&self, refuse: bool) {
        self.state.refuses_writes.store(refuse, Ordering::SeqCst);
    }

    /// Serves so many writes more; others wait until they are released.
    pub fn hold_writes_after(&self, writes: usize) {
        self.state.writes_left.store(writes, Ordering::SeqCst);
    }

    pub fn release_writes(&self) {
        self.state.writes_left.store(usize::MAX, Ordering::SeqCst);
        self.state.holds.store(false, Ordering::SeqCst);
        self.state.released.notify_waiters();
    }

    /// Whether a write waits; those that were served before are done.
    pub fn holds_a_write(&self) -> bool {
        self.state.holds.load(Ordering::SeqCst)
    }
}

async fn answer(
    service: s3s::service::S3Service,
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<s3s::Body>, s3s::HttpError> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    state.requests.lock().expect("requests").push(format!("{method} {path}"));
    if method != Method::PUT {
        return hyper::service::Service::call(&service, request).await;
    }
    if state.refuses_writes.load(Ordering::SeqCst) {
        // Stores repeat the identity of the caller.
        let body = format!(
            "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>User {KEY} is not \
             authorized to perform: s3:PutObject</Message></Error>"
        );
        let refused = Response::builder().status(StatusCode::FORBIDDEN).body(s3s::Body::from(body));
        return Ok(refused.expect("a response"));
    }
    let _one = state.one_write.lock().await;
    let released = state.released.notified();
    let take = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
    if state.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
        state.holds.store(true, Ordering::SeqCst);
        released.await;
    }
    hyper::service::Service::call(&service, request).await
}

/// The address of a lake.
pub fn lake(prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}")
}

/// Every file below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

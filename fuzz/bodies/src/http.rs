//! A service on this machine's loopback, asked over a connection that stays open.
//!
//! An input is a line and a body: `j` (JSON) or `o` (ONNX), then a query string, a line break, and
//! what is sent.

use crate::bundles::{ADAPTED, TRAINED, file};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};
use vitempo::{bundle::Location, search_space::Space};
use vitempo_serve::{Limits, Log, Options};

/// Largest query string that is sent.
const LONGEST_QUERY: usize = 512;

/// Posts the input; the service answers, and not with a fault of its own.
pub fn body(bytes: &[u8]) {
    static CONNECTION: Mutex<Option<BufReader<TcpStream>>> = Mutex::new(None);
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (head, body) = (&bytes[..line], bytes.get(line + 1..).unwrap_or_default());
    let Some((media, query)) = head.split_first() else { return };
    let media = if *media == b'j' { "application/json" } else { "application/x-onnx" };
    let mut kept = CONNECTION.lock().unwrap_or_else(PoisonError::into_inner);
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => connect().unwrap_or_else(|error| panic!("no connection: {error}")),
    };
    let answer = ask(&mut connection, media, &query_of(query), body)
        .unwrap_or_else(|error| panic!("no answer: {error}"));
    assert!(
        matches!(answer.status, 200 | 400 | 404 | 413 | 415 | 422),
        "status {}: {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    let json: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
    assert!(json.is_ok(), "an answer that is not JSON");
    *kept = Some(connection).filter(|_| !answer.closes);
}

/// The bytes that may stand in a request's first line.
fn query_of(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=&%+.-_~".contains(byte);
    bytes.iter().filter(|b| plain(b)).take(LONGEST_QUERY).map(|&byte| char::from(byte)).collect()
}

struct Answer {
    status: u16,
    closes: bool,
    body: Vec<u8>,
}

fn ask(
    connection: &mut BufReader<TcpStream>,
    media: &str,
    query: &str,
    body: &[u8],
) -> io::Result<Answer> {
    let mut request = format!(
        "POST /predict?{query} HTTP/1.1\r\nHost: fuzz\r\nContent-Type: {media}\r\n\
        Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    connection.get_mut().write_all(&request)?;
    let (mut status, mut length, mut closes) = (0, 0, false);
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(' ') {
            _ if line.is_empty() => break,
            Some(("http/1.1", rest)) => {
                status = rest.get(..3).and_then(|s| s.parse().ok()).unwrap_or(0);
            }
            Some(("content-length:", rest)) => length = rest.parse().unwrap_or(0),
            Some(("connection:", "close")) => closes = true,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok(Answer { status, closes, body })
}

fn connect() -> io::Result<BufReader<TcpStream>> {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    let stream = TcpStream::connect(ADDRESS.get_or_init(start))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Starts a service with a trained and an adapted bundle.
fn start() -> SocketAddr {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
    let trained = file(include_bytes!("../../corpus/bundle/gbdt"), TRAINED);
    let adapted = file(include_bytes!("../../corpus/adapted_bundle/small"), ADAPTED);
    let bundles = [("trained.vtb", trained), ("adapted.vtb", adapted)].map(|(name, bytes)| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("no bundle: {error}"));
        Location::File(path)
    });
    let options = Options {
        model: None,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        bundles: bundles.into(),
        spaces: Space::names().filter_map(|name| Space::named(name).ok()).collect(),
        token: None,
        limits: Limits {
            workers: 1,
            body_bytes: 1 << 20,
            forecasts: 64,
            timeout: Duration::from_secs(120),
            ..Limits::default()
        },
        log: Log::Nothing,
    };
    let (sender, receiver) = mpsc::channel();
    // The service reads its bundles before it listens.
    thread::spawn(move || {
        let outcome = vitempo_serve::run(options, Duration::ZERO, |address| {
            let _ = sender.send(address);
        });
        outcome.unwrap_or_else(|error| panic!("the service cannot start: {error}"));
    });
    receiver.recv().unwrap_or_else(|error| panic!("the service does not listen: {error}"))
}

//! Clients that behave: each asks, compares the answer with what the library says, and asks again
//! on the same connection.

use super::{STEADY, Waits, expected::Expected, server::Running};
use serde_json::{Value, json};
use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Encodings of a large request.
const MANY: usize = 1000;
/// How long to wait after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One encoding of the bundle that is left alone.
    Single,
    /// A thousand encodings of both bundles.
    Batch,
    /// A model in ONNX, with every operator.
    Upload,
    /// Twenty encodings of both bundles.
    Listed,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Single, Self::Batch, Self::Upload, Self::Listed];
}

/// Outcomes of one kind of request.
pub struct Tally {
    pub kind: Kind,
    pub right: u64,
    /// 429 and 503.
    pub busy: u64,
    /// The connection ended before an answer.
    pub closed: u64,
    /// The first few.
    pub wrong: Vec<String>,
    waits: Waits,
}

impl Tally {
    pub fn new(kind: Kind) -> Self {
        Self { kind, right: 0, busy: 0, closed: 0, wrong: Vec::new(), waits: Waits::default() }
    }

    pub fn plus(mut self, other: &Self) -> Self {
        self.right += other.right;
        self.busy += other.busy;
        self.closed += other.closed;
        self.wrong.extend(other.wrong.iter().cloned());
        self.waits.plus(&other.waits);
        self
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, right, busy, closed, wrong, waits } = self;
        let name = format!("{kind:?}");
        write!(f, "{name:<8} {right:>10} {busy:>8} {closed:>8}")?;
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| waits.quantile(share));
        write!(f, " {:>7} {p50:>10.2} {p99:>10.2} {most:>10.2}", wrong.len())
    }
}

/// Asks until it is enough; says when it has the first right answer.
pub fn client(
    server: &Running,
    expected: &Expected,
    (kind, number): (Kind, usize),
    seen: &AtomicBool,
    enough: &AtomicBool,
) -> Tally {
    let mut tally = Tally::new(kind);
    let mut connection = None;
    let mut turn = number * 37;
    while !enough.load(Ordering::Relaxed) && tally.wrong.len() < 3 {
        turn += 1;
        let (request, encodings) = request(expected, kind, turn);
        let asked = Instant::now();
        match exchange(server, &mut connection, &request) {
            Ok((200, body)) => {
                tally.waits.add(asked);
                match check(expected, &encodings, &body) {
                    Ok(()) => {
                        tally.right += 1;
                        seen.store(true, Ordering::Relaxed);
                    }
                    Err(reason) => tally.wrong.push(reason),
                }
            }
            Ok((429 | 503, _)) => {
                tally.busy += 1;
                thread::sleep(PAUSE);
            }
            Ok((status, body)) => {
                let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                tally.wrong.push(format!("{status}: {text}"));
            }
            Err(_) => {
                tally.closed += 1;
                connection = None;
                thread::sleep(PAUSE);
            }
        }
    }
    tally
}

/// The request, and the encodings that it asks for; none: the model.
fn request(expected: &Expected, kind: Kind, turn: usize) -> (Vec<u8>, Vec<usize>) {
    let all = expected.encodings.len();
    let some = |many: usize| (0..many).map(|i| (turn * 7 + i) % all).collect::<Vec<_>>();
    let (path, media, body, encodings) = match kind {
        Kind::Upload => {
            let path = "/predict?breakdown=true";
            (path, "application/x-onnx", expected.model.clone(), Vec::new())
        }
        Kind::Single | Kind::Batch | Kind::Listed => {
            let encodings = some([1, MANY, 0, 20][kind as usize]);
            let texts: Vec<&str> =
                encodings.iter().map(|&index| expected.encodings[index].as_str()).collect();
            let mut document = json!({"encodings": texts});
            if kind == Kind::Single {
                document["bundles"] = json!([STEADY]);
            }
            ("/predict", "application/json", document.to_string().into_bytes(), encodings)
        }
    };
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    ([head.as_bytes(), &body].concat(), encodings)
}

fn check(expected: &Expected, encodings: &[usize], body: &[u8]) -> Result<(), String> {
    let document: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let results = document["results"].as_array().ok_or("no results")?;
    let models: Vec<Option<usize>> = match encodings {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    if results.is_empty() || results.len() % models.len() != 0 {
        return Err(format!("{} results of {} models", results.len(), models.len()));
    }
    let bundles = results.len() / models.len();
    let wrong = results
        .iter()
        .enumerate()
        .find(|(index, result)| !expected.is_right(models[index / bundles], result));
    wrong.map_or(Ok(()), |(_, result)| {
        let text = result.to_string();
        Err(text.chars().take(300).collect())
    })
}

/// One request and its answer, on the connection where there is one.
fn exchange(
    server: &Running,
    connection: &mut Option<BufReader<TcpStream>>,
    request: &[u8],
) -> io::Result<(u16, Vec<u8>)> {
    let mut reader = match connection.take() {
        Some(reader) => reader,
        None => {
            let stream = TcpStream::connect(&server.address)?;
            stream.set_nodelay(true)?;
            // A client that waits for ever would not end.
            stream.set_read_timeout(Some(Duration::from_secs(120)))?;
            BufReader::new(stream)
        }
    };
    // A server that refuses early may close while the request is still being written.
    let written = reader.get_mut().write_all(request);
    let answer = answer(&mut reader);
    let (status, body, is_last) = answer.or_else(|error| written.and(Err(error)))?;
    if !is_last {
        *connection = Some(reader);
    }
    Ok((status, body))
}

/// Status, body, and whether the connection ends.
fn answer(reader: &mut BufReader<TcpStream>) -> io::Result<(u16, Vec<u8>, bool)> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(broken)?;
    let (mut length, mut is_last) = (0, false);
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (name, value) = line.trim().split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(|_| broken())?,
            "connection" => is_last = value == "close",
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((status, body, is_last))
}

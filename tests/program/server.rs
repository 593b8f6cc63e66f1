//! A running `vitempo serve` on a free port, and a client that says exactly what a test wants.
// Each test program uses a part of it.
#![allow(dead_code)]

use super::program::command;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// A server that is killed when the test ends.
pub struct Running {
    pub child: Child,
    pub address: String,
    folder: tempfile::TempDir,
}

/// What a server answered.
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl Running {
    pub fn start_with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a file");
        let mut command = command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("vitempo starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().strip_prefix("listening on http://").map(str::to_owned);
        let running = Self { child, address: address.unwrap_or_default(), folder };
        assert!(!running.address.is_empty(), "it does not listen: {}", running.log());
        running
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        // A test that waits for ever would not fail.
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
        stream
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: \
            {}\r\n{headers}\r\n",
            body.len()
        );
        // A server that refuses early may close while the body is still being written; what it said
        // is there all the same.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        read_reply(&mut stream).expect("a reply")
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], b"")
    }

    /// `None` where the connection ended without a word.
    pub fn try_get(&self, path: &str) -> Option<Reply> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(120))).ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        read_reply(&mut stream)
    }

    pub fn predict(&self, document: &serde_json::Value) -> Reply {
        self.ask(
            "POST",
            "/predict",
            &["Content-Type: application/json"],
            document.to_string().as_bytes(),
        )
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .expect("kill starts");
        assert!(sent.success());
    }

    /// Looks again and again until it is so; gives up after a minute or two.
    pub fn wait_until(&self, what: &str, so: impl Fn() -> bool) {
        for _ in 0..2400 {
            if so() {
                return;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("{what} never came; the log:\n{}", self.log());
    }

    /// The sum of a metric over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let page = String::from_utf8(self.get("/metrics").body).expect("text");
        let values = page.lines().filter_map(|line| {
            let (label, value) = line.rsplit_once(' ')?;
            (label.split('{').next() == Some(name)).then(|| value.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value).unwrap_or_else(|| panic!("{name} in\n{page}"))
    }

    pub fn in_flight(&self) -> u64 {
        // The question itself is one.
        self.metric("vitempo_http_requests_in_flight") as u64 - 1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` where the connection ended without a word.
pub fn read_reply(stream: &mut TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    // A reset after the reply is as good as an end.
    let _ = stream.read_to_end(&mut bytes);
    let split = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, head, body: bytes.split_off(split + 4) })
}

//! Clients that mean ill: each goes through the attacks in turn, and keeps what is slow going
//! beside them.

use super::{DAMAGED, file, server::Running};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// What is done, in this order.
pub const ATTACKS: [&str; 12] = [
    "head broken off",
    "body broken off",
    "left before the answer",
    "idle connections",
    "slow body",
    "slow reader",
    "body declared too large",
    "body too large in chunks",
    "no HTTP",
    "no JSON, no model",
    "hostile model",
    "damaged bundle",
];

/// How often each was done.
pub type Counts = [u64; ATTACKS.len()];

/// Slow connections that are kept at a time.
const SLOW: usize = 24;
/// Idle connections that are opened at a time.
const IDLE: usize = 40;
/// Encodings whose answer, of several MB, is read slowly or not at all.
const MANY: usize = 10_000;
/// Between two attacks.
const PAUSE: Duration = Duration::from_millis(5);

struct Hostile<'a> {
    server: &'a Running,
    bundle: &'a Path,
    sound: Vec<u8>,
    large: Vec<u8>,
    models: Vec<PathBuf>,
    slow: Vec<TcpStream>,
    idle: Vec<TcpStream>,
    turn: usize,
}

/// Attacks until it is enough.
pub fn client(server: &Running, bundle: &Path, number: usize, enough: &AtomicBool) -> Counts {
    let encoding = "hv1-384x384-k4-s368k1e6m2ls-a448h1r1m3lg-s544k7e2m2bg";
    let mut hostile = Hostile {
        server,
        bundle,
        sound: fs::read(file("bundles").join(format!("{DAMAGED}.vtb"))).expect("a bundle"),
        large: serde_json::json!({"encodings": vec![encoding; MANY]}).to_string().into_bytes(),
        models: models(),
        slow: Vec::new(),
        idle: Vec::new(),
        turn: number * 31,
    };
    let mut counts = Counts::default();
    while !enough.load(Ordering::Relaxed) {
        let attack = hostile.turn % ATTACKS.len();
        // What fails was refused in time.
        let _ = hostile.attack(attack);
        counts[attack] += 1;
        hostile.turn += 1;
        hostile.go_on();
        thread::sleep(PAUSE);
    }
    // The bundle is whole again at the end.
    let _ = hostile.put(&hostile.sound.clone());
    counts
}

/// Files that ask for terabytes or hours.
fn models() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => collect(&path, found),
                false if path.extension().is_some_and(|e| e == "onnx") => found.push(path),
                false => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(&file("graph/tests/hostile"), &mut found);
    assert!(found.len() >= 70, "{} hostile models", found.len());
    found
}

impl Hostile<'_> {
    fn attack(&mut self, attack: usize) -> std::io::Result<()> {
        match attack {
            0 => self.connect()?.write_all(b"POST /predict HTTP/1.1\r\nHost: broken"),
            1 => self.post("application/x-onnx", 1 << 20, &[8; 60_000]).map(drop),
            2 => self.post("application/json", self.large.len(), &self.large).map(drop),
            3 => {
                self.idle = (0..IDLE).filter_map(|_| self.connect().ok()).collect();
                Ok(())
            }
            4 => {
                let stream = self.post("application/json", 5000, b"{\"encodings\": [")?;
                self.keep(stream)
            }
            5 => {
                let stream = self.post("application/json", self.large.len(), &self.large)?;
                self.keep(stream)
            }
            6 => self.read(self.post("application/x-onnx", 1 << 40, b"\x08\x07")?),
            7 => self.chunks(),
            8 => {
                let mut stream = self.connect()?;
                stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")?;
                self.read(stream)
            }
            9 => {
                self.read(self.post("application/json", 13, b"{\"encodings\"[")?)?;
                self.read(self.post("application/x-onnx", 8, b"PK\x03\x04 zip")?)
            }
            10 => {
                let model = fs::read(&self.models[self.turn / ATTACKS.len() % self.models.len()])?;
                self.read(self.post("application/x-onnx", model.len(), &model)?)
            }
            _ => self.damage(),
        }
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.server.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        Ok(stream)
    }

    fn post(&self, media: &str, length: usize, body: &[u8]) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        let head = format!(
            "POST /predict HTTP/1.1\r\nHost: hostile\r\nContent-Type: {media}\r\nContent-Length: \
            {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        Ok(stream)
    }

    /// Some of the answer, whatever it is.
    fn read(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.read(&mut [0; 4096]).map(drop)
    }

    /// More than a body may have, without saying so before.
    fn chunks(&self) -> std::io::Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(
            b"POST /predict HTTP/1.1\r\nHost: hostile\r\nContent-Type: \
            application/x-onnx\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let chunk = [b"40000\r\n", &[0; 0x40000][..], b"\r\n"].concat();
        for _ in 0..80 {
            stream.write_all(&chunk)?;
        }
        self.read(stream)
    }

    /// One that is slow goes on being slow.
    fn keep(&mut self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.slow.len() >= SLOW {
            self.slow.remove(0);
        }
        self.slow.push(stream);
        Ok(())
    }

    /// Each slow connection sends or reads a little; those that were closed are forgotten.
    fn go_on(&mut self) {
        self.slow.retain_mut(|stream| {
            let read = stream.read(&mut [0; 512]);
            let waits = read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            let is_open = waits || read.is_ok_and(|read| read > 0);
            // What was answered takes no more; the server ignores it or ends the connection.
            is_open && (!waits || stream.write(b" ").is_ok())
        });
    }

    /// The bundle's file with a hole in it or half of it, and later as it was.
    fn damage(&mut self) -> std::io::Result<()> {
        let mut bytes = self.sound.clone();
        match self.turn / ATTACKS.len() % 4 {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes[self.sound.len() / 3..][..64].fill(0xff),
            2 => bytes.clear(),
            _ => {}
        }
        self.put(&bytes)
    }

    /// A whole file, whoever writes beside.
    fn put(&self, bytes: &[u8]) -> std::io::Result<()> {
        let unfinished = self.bundle.with_extension(format!("{:?}", thread::current().id()));
        fs::write(&unfinished, bytes)?;
        fs::rename(&unfinished, self.bundle)
    }
}

//! [`Link`]: one line between an agent and its client, over TCP or over the stdin and stdout of a
//! process.
//!
//! A thread of its own reads, so that whoever waits on a line can wait for so long and no longer,
//! whatever carries the line. Bytes count as a sign of life, not only whole messages: a large one
//! may take its time on a slow line.

use super::{
    frame::{self, Frame, FrameError, FrameWriter, Kind},
    secret::Key,
};
use serde::Serialize;
use std::{
    io::{self, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender, SyncSender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Longest greeting, in bytes.
const LONGEST_GREETING: usize = 160;
/// Largest message of a client that has not yet proved that it has the secret, in bytes.
const STRANGERS_LIMIT: usize = 1 << 10;
/// Frames read ahead.
const AHEAD: usize = 2;
/// Time for the other end to take what was said last.
const LINGER: Duration = Duration::from_secs(2);

/// What happens on a line, or beside it.
#[derive(Debug)]
pub(super) enum Event {
    /// The other end's first line of text.
    Greeted(String),
    /// A whole frame whose tag is right.
    Frame(Frame),
    /// Nothing more will come.
    Ended(FrameError),
    /// Work that whoever holds the line had others do is done.
    Done,
}

/// What carries the line, for ending it.
#[derive(Debug)]
enum Carrier {
    Tcp(TcpStream),
    Process(Child),
    Stdio,
}

enum Writer {
    Plain(Box<dyn Write + Send>),
    Framed(FrameWriter<Box<dyn Write + Send>>),
    Closed,
}

/// One end of a line. The line ends with this value.
pub(super) struct Link {
    writer: Writer,
    carrier: Carrier,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    key: Sender<Key>,
    reader: JoinHandle<()>,
    limit: Arc<AtomicUsize>,
    heard: Arc<Mutex<Instant>>,
}

impl Link {
    /// Over a connection.
    pub fn tcp(stream: TcpStream, limit: Duration) -> io::Result<Self> {
        // Messages are written whole; waiting to fill packets would only delay them.
        stream.set_nodelay(true)?;
        // Whoever takes nothing for so long is gone.
        stream.set_write_timeout(Some(limit))?;
        Ok(Self::new(stream.try_clone()?, stream.try_clone()?, Carrier::Tcp(stream)))
    }

    /// Over this process's stdin and stdout, which nothing else may use.
    pub fn stdio() -> Self {
        Self::new(io::stdin(), io::stdout(), Carrier::Stdio)
    }

    /// Over the stdin and stdout of a program started for it; what it says on stderr is for people.
    pub fn process(words: &[String]) -> io::Result<Self> {
        let (program, args) =
            words.split_first().ok_or_else(|| io::Error::other("no program is named"))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        match (child.stdout.take(), child.stdin.take()) {
            (Some(stdout), Some(stdin)) => Ok(Self::new(stdout, stdin, Carrier::Process(child))),
            _ => Err(io::Error::other("it has no stdin or stdout")),
        }
    }

    fn new(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        carrier: Carrier,
    ) -> Self {
        let (sender, events) = mpsc::sync_channel(AHEAD);
        let (key, keys) = mpsc::channel();
        let heard = Arc::new(Mutex::new(Instant::now()));
        let limit = Arc::new(AtomicUsize::new(STRANGERS_LIMIT));
        let stream = BufReader::new(Heard { inner: reader, at: Arc::clone(&heard) });
        let (told, most) = (sender.clone(), Arc::clone(&limit));
        let reader = thread::spawn(move || read_all(stream, &told, &keys, &most));
        Self {
            writer: Writer::Plain(Box::new(writer)),
            carrier,
            events,
            sender,
            key,
            reader,
            limit,
            heard,
        }
    }

    /// Says the greeting.
    pub fn greet(&mut self, line: &str) -> io::Result<()> {
        match &mut self.writer {
            Writer::Plain(writer) => {
                writer.write_all(format!("{line}\n").as_bytes()).and_then(|()| writer.flush())
            }
            _ => Err(io::Error::other("greeted twice")),
        }
    }

    /// From now on frames go over the line, tagged with these keys.
    pub fn frames(&mut self, write: Key, read: Key) {
        self.writer = match std::mem::replace(&mut self.writer, Writer::Closed) {
            Writer::Plain(writer) => Writer::Framed(FrameWriter::new(writer, write)),
            other => other,
        };
        let _ = self.key.send(read);
    }

    /// Takes larger messages: the other end has proved that it has the secret.
    pub fn trust(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let payload = serde_json::to_vec(message).map_err(io::Error::other)?;
        self.write(Kind::Message, &payload)
    }

    pub fn send_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write(Kind::Piece, piece)
    }

    fn write(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        match &mut self.writer {
            Writer::Framed(writer) => writer.write(kind, payload),
            _ => Err(io::Error::other("not greeted yet")),
        }
    }

    /// The next event, if there is one within this time.
    pub fn wait(&self, time: Duration) -> Option<Event> {
        self.events.recv_timeout(time).ok()
    }

    /// For telling of work that is done.
    pub fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// How long nothing was heard, counted from `since` at the earliest.
    pub fn silent_for(&self, since: Instant) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).max(since).elapsed()
    }

    /// Ends this process when nothing was heard for so long.
    pub fn end_process_in_silence(&self, time: Duration) {
        let heard = Arc::clone(&self.heard);
        thread::spawn(move || {
            while heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < time {
                thread::sleep(time / 8);
            }
            std::process::exit(1)
        });
    }

    /// Sees to it that what was said last arrives: an end that closes with something unread loses
    /// its last words.
    pub fn linger(mut self) {
        self.writer = Writer::Closed;
        if let Carrier::Tcp(stream) = &self.carrier {
            let _ = stream.shutdown(Shutdown::Write);
            let deadline = Instant::now() + LINGER;
            while !self.reader.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.writer = Writer::Closed;
        match &mut self.carrier {
            Carrier::Tcp(stream) => {
                let _ = stream.shutdown(Shutdown::Both);
            }
            Carrier::Process(child) => {
                // Its stdin is closed: it is ending by itself, or must be ended.
                let deadline = Instant::now() + LINGER;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(5));
                }
                let _ = child.kill();
                let _ = child.wait();
            }
            Carrier::Stdio => {}
        }
    }
}

/// Notes when bytes come.
struct Heard<R> {
    inner: R,
    at: Arc<Mutex<Instant>>,
}

impl<R: Read> Read for Heard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(count)
    }
}

/// The greeting, then frames, until the line ends or whoever listened is gone.
fn read_all(
    mut stream: impl Read,
    events: &SyncSender<Event>,
    keys: &Receiver<Key>,
    limit: &AtomicUsize,
) {
    let error = match read_line(&mut stream) {
        Err(error) => error.into(),
        Ok(line) if line.is_empty() => FrameError::Closed,
        Ok(line) => {
            let Ok(Ok(key)) = events.send(Event::Greeted(line)).map(|()| keys.recv()) else {
                return;
            };
            let mut number = 0;
            loop {
                match frame::read(&mut stream, &key, number, || limit.load(Ordering::Relaxed)) {
                    Ok(frame) => match events.send(Event::Frame(frame)) {
                        Ok(()) => number += 1,
                        Err(_) => return,
                    },
                    Err(error) => break error,
                }
            }
        }
    };
    if events.send(Event::Ended(error)).is_ok() {
        // Who is refused in the middle of a message only hears why if it is taken from him.
        let _ = io::copy(&mut stream, &mut io::sink());
    }
}

/// One line of text, without its end; what came before the line broke off or grew too long.
fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST_GREETING && stream.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_is_trusted_may_say_more_in_the_very_next_frame() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let limit = Duration::from_secs(120);
        let mut link = Link::tcp(listener.accept().unwrap().0, limit).unwrap();
        other.write_all(b"hello\n").unwrap();
        assert!(matches!(link.wait(limit), Some(Event::Greeted(line)) if line == "hello"));
        link.frames([1; 32], [2; 32]);
        let mut frames = FrameWriter::new(other, [2; 32]);
        for size in [STRANGERS_LIMIT, 2 * STRANGERS_LIMIT] {
            frames.write(Kind::Message, &vec![0; size]).unwrap();
            assert!(
                matches!(link.wait(limit), Some(Event::Frame(frame)) if frame.payload.len() == size)
            );
            // The reader waits for the next frame already.
            link.trust(2 * STRANGERS_LIMIT);
        }
    }
}

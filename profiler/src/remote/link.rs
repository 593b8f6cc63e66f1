//! [`Link`]: one connection between an agent and its client, over the stdin and stdout of a process.
//! These are pipes, or both are one TCP connection on loopback ([`Link::loopback`]).
//!
//! A thread of its own reads, so that an end can wait with a timeout. Any received byte restarts
//! the timeout, because a large message may take long on a slow connection.

use super::frame::{self, Frame, FrameError, FrameWriter, Kind};
use crate::{
    split::{Shape, shaped::Shaped},
    worker::private_stdout,
};
use serde::Serialize;
use std::{
    io::{self, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

/// Longest greeting, in bytes.
const LONGEST_GREETING: usize = 160;
/// Frames read ahead.
const AHEAD: usize = 2;
/// Time for the other end to read the last message.
const LINGER: Duration = Duration::from_secs(2);

/// What happens on a connection, or beside it.
#[derive(Debug)]
pub(crate) enum Event {
    /// The other end's first line of text.
    Greeted(String),
    /// A whole frame whose checksum is right.
    Frame(Frame),
    /// Nothing more will come.
    Ended(FrameError),
    /// Work on another thread is done.
    Done,
}

/// What carries the connection, for ending it.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// Over pipes.
    Process(Child),
    /// Over a TCP connection that the process has as stdin and stdout.
    Loopback(Child, TcpStream),
    /// This process's own stdin and stdout.
    Stdio,
}

impl Carrier {
    fn child(&mut self) -> Option<&mut Child> {
        match self {
            Self::Process(child) | Self::Loopback(child, _) => Some(child),
            Self::Stdio => None,
        }
    }

    /// Ends the process at once: whoever waits for the connection sees its end.
    pub fn kill(&mut self) {
        if let Some(child) = self.child() {
            let _ = child.kill();
        }
        self.shut();
    }

    fn shut(&self) {
        if let Self::Loopback(_, stream) = self {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How the process ended, if it does within a moment.
    pub fn ended(&mut self) -> Option<String> {
        let child = self.child()?;
        let deadline = Instant::now() + LINGER;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    /// Identifier of the process.
    pub fn process_id(&self) -> Option<u32> {
        match self {
            Self::Process(child) | Self::Loopback(child, _) => Some(child.id()),
            Self::Stdio => None,
        }
    }
}

pub(crate) enum Writer {
    Plain(Shaped<Box<dyn Write + Send>>),
    Framed(FrameWriter<Shaped<Box<dyn Write + Send>>>),
    Closed,
}

impl Writer {
    fn write(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        match self {
            Self::Framed(writer) => writer.write(kind, payload),
            _ => Err(io::Error::other("not greeted yet")),
        }
    }

    pub fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let payload = serde_json::to_vec(message).map_err(io::Error::other)?;
        self.write(Kind::Message, &payload)
    }

    /// Sends tensors; on a shaped link after its set-up, if they are the first of an inference.
    pub fn send_tensors(&mut self, payload: &[u8], is_first: bool) -> io::Result<()> {
        if let (Self::Framed(writer), true) = (&mut *self, is_first) {
            writer.inner_mut().set_up();
        }
        self.write(Kind::Tensors, payload)
    }

    /// Shapes what is sent from now on.
    pub fn shape(&mut self, shape: Option<Shape>) {
        if let Self::Framed(writer) = self {
            writer.inner_mut().shape(shape);
        }
    }
}

/// What arrives on a connection.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    events: &'a Receiver<Event>,
    heard: &'a Mutex<Instant>,
}

impl Incoming<'_> {
    /// The next event, if there is one within this time.
    pub fn wait(&self, time: Duration) -> Option<Event> {
        self.events.recv_timeout(time).ok()
    }

    /// How long nothing was heard, counted from `since` at the earliest.
    pub fn silent_for(&self, since: Instant) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).max(since).elapsed()
    }
}

/// One end of a connection, which ends with this value.
pub(crate) struct Link {
    writer: Writer,
    carrier: Carrier,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    heard: Arc<Mutex<Instant>>,
}

impl Link {
    /// Over this process's stdin and stdout, which nothing else may use. Messages have at most
    /// `limit` bytes, here and below.
    pub fn stdio(limit: usize) -> Self {
        match private_stdout() {
            Ok(stdout) => Self::new(io::stdin(), stdout, limit, Carrier::Stdio),
            Err(_) => Self::new(io::stdin(), io::stdout(), limit, Carrier::Stdio),
        }
    }

    /// Over the stdin and stdout of a program started for it; its stderr is passed through.
    pub fn process(words: &[String], limit: usize) -> io::Result<Self> {
        let (program, args) =
            words.split_first().ok_or_else(|| io::Error::other("no program is named"))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        match (child.stdout.take(), child.stdin.take()) {
            (Some(stdout), Some(stdin)) => {
                Ok(Self::new(stdout, stdin, limit, Carrier::Process(child)))
            }
            _ => Err(io::Error::other("it has no stdin or stdout")),
        }
    }

    /// Over a TCP connection on loopback, one end of which is stdin and stdout of a program started
    /// for it; its stderr is passed through. Both ends are made here, so that nothing listens.
    #[cfg(unix)]
    pub fn loopback(words: &[String], limit: usize) -> io::Result<Self> {
        use std::os::fd::OwnedFd;
        let (program, args) =
            words.split_first().ok_or_else(|| io::Error::other("no program is named"))?;
        let (ours, theirs) = connected()?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let (reader, writer) = (ours.try_clone()?, ours.try_clone()?);
        Ok(Self::new(reader, writer, limit, Carrier::Loopback(child, ours)))
    }

    /// Where a socket cannot be a process's stdin, over pipes.
    #[cfg(not(unix))]
    pub fn loopback(words: &[String], limit: usize) -> io::Result<Self> {
        Self::process(words, limit)
    }

    fn new(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        limit: usize,
        carrier: Carrier,
    ) -> Self {
        let (sender, events) = mpsc::sync_channel(AHEAD);
        let heard = Arc::new(Mutex::new(Instant::now()));
        let stream = BufReader::new(Heard { inner: reader, at: Arc::clone(&heard) });
        let events_out = sender.clone();
        thread::spawn(move || read_all(stream, &events_out, limit));
        let writer = Writer::Plain(Shaped::new(Box::new(writer)));
        Self { writer, carrier, events, sender, heard }
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

    /// From now on frames go over the connection.
    pub fn frames(&mut self) {
        self.writer = match std::mem::replace(&mut self.writer, Writer::Closed) {
            Writer::Plain(writer) => Writer::Framed(FrameWriter::new(writer)),
            other => other,
        };
    }

    pub fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.writer.say(message)
    }

    pub fn send_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        self.writer.write(Kind::Piece, piece)
    }

    /// Its two directions and its carrier, for threads of their own.
    pub fn ends(&mut self) -> (Incoming<'_>, &mut Writer, &mut Carrier) {
        let incoming = Incoming { events: &self.events, heard: &self.heard };
        (incoming, &mut self.writer, &mut self.carrier)
    }

    /// The next event, if there is one within this time.
    pub fn wait(&self, time: Duration) -> Option<Event> {
        self.events.recv_timeout(time).ok()
    }

    /// Reports finished work.
    pub fn sender(&self) -> SyncSender<Event> {
        self.sender.clone()
    }

    /// How long nothing was heard, counted from `since` at the earliest.
    pub fn silent_for(&self, since: Instant) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).max(since).elapsed()
    }

    /// Ends this process after this long without a received byte.
    pub fn end_process_in_silence(&self, time: Duration) {
        let heard = Arc::clone(&self.heard);
        thread::spawn(move || {
            while heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < time {
                thread::sleep(time / 8);
            }
            std::process::exit(1)
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.writer = Writer::Closed;
        self.carrier.shut();
        // Its stdin is closed: it ends itself, or has to be killed.
        let _ = self.carrier.ended();
        if let Some(child) = self.carrier.child() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Both ends of a TCP connection on loopback. Whoever else connects in between is turned away.
#[cfg(unix)]
fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let own = ours.local_addr()?;
    loop {
        let (theirs, from) = listener.accept()?;
        if from == own {
            ours.set_nodelay(true)?;
            theirs.set_nodelay(true)?;
            return Ok((ours, theirs));
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

/// Reads the greeting, then frames, until the connection ends or the receiver is gone.
fn read_all(mut stream: impl Read, events: &SyncSender<Event>, limit: usize) {
    let error = match read_line(&mut stream) {
        Err(error) => error.into(),
        Ok(line) if line.is_empty() => FrameError::Closed,
        Ok(line) => {
            if events.send(Event::Greeted(line)).is_err() {
                return;
            }
            let mut number = 0;
            loop {
                match frame::read(&mut stream, number, limit) {
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

/// One line of text, without its end; what arrived before it broke off or grew too long.
fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LONGEST_GREETING && stream.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

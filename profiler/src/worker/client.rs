//! The host's side: starts a worker, sends requests, and ends the worker when an answer takes too
//! long.

use super::{FOLDER_VARIABLE, Reply, Request};
use crate::priority::RunFirst;
use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How to start a worker: a program that calls [`super::main`].
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables on top of the host's.
    pub env: Vec<(OsString, OsString)>,
}

impl WorkerCommand {
    /// The running program itself, with these arguments.
    ///
    /// # Errors
    /// When the system does not report which program is running.
    pub fn this_program<const N: usize>(args: [&str; N]) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            args: args.map(OsString::from).to_vec(),
            env: Vec::new(),
        })
    }
}

/// Why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The program does not start.
    #[error("cannot start the worker {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The process ended.
    #[error("the worker ended ({status}){}", tail(.stderr))]
    Died {
        /// How the process ended.
        status: String,
        /// Its standard error.
        stderr: String,
    },
    /// The time limit has passed.
    #[error("no answer within the time limit of {} s; the worker was ended", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// The answer cannot be read.
    #[error("the worker answered something unreadable: {0}")]
    Garbled(String),
}

fn tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its output: {stderr}") }
}

/// A running worker. It ends with this value.
///
/// Its temporary files are in a folder of its own, which is deleted when the worker ends, in
/// whatever way.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    _folder: TempDir,
    stdin: Arc<Mutex<ChildStdin>>,
    replies: mpsc::Receiver<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Ends when the worker's stderr is read to its end.
    stderr_reader: JoinHandle<()>,
}

/// Bytes of a worker's stderr that are kept for messages.
const STDERR_TAIL: usize = 2000;
/// Bytes that every pipe takes from a writer at once, also when nobody reads.
const PIPE_BYTES: usize = 4096;
/// Interval of checks for an interruption.
const SLICE: Duration = Duration::from_millis(50);

impl Worker {
    /// Starts one.
    ///
    /// # Errors
    /// [`WorkerError::Start`].
    pub fn start(command: &WorkerCommand) -> Result<Self, WorkerError> {
        let error = |source| WorkerError::Start { program: command.program.clone(), source };
        let mut process = Command::new(&command.program);
        let folder = tempfile::Builder::new().prefix("vitempo-worker").tempdir().map_err(error)?;
        process.args(&command.args).envs(command.env.iter().cloned());
        process
            .env("TMPDIR", folder.path())
            .env("TMP", folder.path())
            .env(FOLDER_VARIABLE, folder.path());
        let mut child = process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(error)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(error(io::Error::other("it has no stdin, stdout or stderr")));
        };
        let (sender, replies) = mpsc::channel();
        std::thread::spawn(move || {
            RunFirst::always();
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tail);
        let stderr_reader = std::thread::spawn(move || keep_tail(stderr, &kept));
        let stdin = Arc::new(Mutex::new(stdin));
        Ok(Self { child, _folder: folder, stdin, replies, stderr: tail, stderr_reader })
    }

    /// Sends a request and waits for the answer. After any error except `Interrupted` before
    /// sending, this worker must not be used again.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Reply, WorkerError> {
        let mut line =
            serde_json::to_string(request).map_err(|e| WorkerError::Garbled(e.to_string()))?;
        line.push('\n');
        let asked = Instant::now();
        if self.send(line).is_err() {
            return Err(self.died());
        }
        loop {
            match self.replies.recv_timeout(SLICE.min(timeout)) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|e| {
                        WorkerError::Garbled(format!(
                            "{e}: {}",
                            line.chars().take(200).collect::<String>()
                        ))
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
                Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                    return Err(WorkerError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if asked.elapsed() >= timeout => {
                    return Err(WorkerError::TimedOut(timeout));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Sends a line. A long one goes from a thread of its own, because a worker that hangs does not
    /// read; where that fails, there is no reply.
    fn send(&self, line: String) -> io::Result<()> {
        let is_short = line.len() <= PIPE_BYTES;
        let write = move |stdin: &Mutex<ChildStdin>| {
            let mut stdin = stdin.lock().unwrap_or_else(PoisonError::into_inner);
            stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush())
        };
        if is_short {
            return write(&self.stdin);
        }
        let stdin = Arc::clone(&self.stdin);
        std::thread::spawn(move || write(&stdin));
        Ok(())
    }

    /// Identifier of the process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Why the process cannot be asked any more; `None` while it runs.
    #[must_use]
    pub fn ended(&mut self) -> Option<WorkerError> {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        (!is_running).then(|| self.died())
    }

    fn died(&mut self) -> WorkerError {
        // Its pipes are closed: it ends itself, or has to be killed.
        let deadline = Instant::now() + Duration::from_secs(2);
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => break "it closed its output".to_owned(),
            }
        };
        while !self.stderr_reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        WorkerError::Died { status, stderr: String::from_utf8_lossy(&stderr).trim().to_owned() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep_tail(mut stderr: impl Read, tail: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..count]);
        let excess = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
    }
}

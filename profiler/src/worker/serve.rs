//! The worker's side: reads requests, runs them one after the other on the main thread, answers.

use super::{
    CoverageRequest, FOLDER_VARIABLE, PartsRequest, Reply, Request, RunRequest, parts::Held,
};
use crate::{
    backends::{self, Backend, RunOptions, Session, coverage::Coverage},
    load::{Drive, LoadRequest, Prepared, Running, Tally},
    memory, model_run, pinning,
    priority::RunFirst,
    reference, source,
};
use std::{
    fs::File,
    io::{self, BufRead, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
};
use vitempo_graph::Processor;

/// Serves every backend that is compiled in, until stdin ends. The host binary calls this for its
/// hidden `worker` command, before it starts any thread or prints anything.
///
/// # Errors
/// When replies cannot be written.
pub fn main() -> io::Result<()> {
    serve(&backends::all())
}

/// [`main`] for a choice of backends.
///
/// # Errors
/// When replies cannot be written.
pub fn serve(backends: &[Box<dyn Backend>]) -> io::Result<()> {
    ignore_interrupts();
    let mut replies = private_stdout()?;
    let requests = requests();
    let mut server = Server {
        backends,
        reference: None,
        pinned: None,
        load: None,
        held: None,
        keeps_memory: false,
    };
    while let Some(line) = server.next(&requests) {
        let reply = serde_json::from_str(&line).map_or_else(
            |e| failed(format!("the request cannot be read: {e}")),
            |request| server.answer(request),
        );
        let mut text = serde_json::to_string(&reply).map_err(io::Error::other)?;
        text.push('\n');
        replies.write_all(text.as_bytes())?;
        replies.flush()?;
    }
    Ok(())
}

/// Lines of stdin. If it ends, the host is gone, and the process ends at once, even while the
/// engine runs.
fn requests() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        RunFirst::always();
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
        end();
    });
    receiver
}

/// Removes the worker's temporary files and ends the process without exit handlers: those of an
/// engine must not run beside the engine.
fn end() -> ! {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        let _ = std::fs::remove_dir_all(folder);
    }
    #[cfg(unix)]
    // SAFETY: ends the process; nothing is left to be in an invalid state.
    unsafe {
        libc::_exit(0)
    }
    #[cfg(not(unix))]
    std::process::exit(0)
}

struct Server<'a> {
    backends: &'a [Box<dyn Backend>],
    reference: Option<Reference>,
    pinned: Option<Vec<usize>>,
    load: Option<Running>,
    held: Option<Held<'a>>,
    keeps_memory: bool,
}

/// The reference workload, loaded once for a backend and its options.
struct Reference {
    backend: String,
    options: RunOptions,
    /// `None` when the backend does not take it.
    session: Option<Box<dyn Session>>,
}

fn failed(reason: impl ToString) -> Reply {
    Reply::Failed { reason: reason.to_string(), restart: false }
}

impl<'a> Server<'a> {
    /// The next request; the load runs until it comes. `None`: the host is gone.
    fn next(&mut self, requests: &mpsc::Receiver<String>) -> Option<String> {
        while let Some(load) = self.load.as_mut().filter(|load| load.is_going()) {
            match requests.try_recv() {
                Ok(line) => return Some(line),
                Err(mpsc::TryRecvError::Empty) => load.pass(),
                Err(mpsc::TryRecvError::Disconnected) => return None,
            }
        }
        requests.recv().ok()
    }

    /// A panic of an engine is an answer too.
    fn answer(&mut self, request: Request) -> Reply {
        catch_unwind(AssertUnwindSafe(|| self.act(request).unwrap_or_else(failed))).unwrap_or_else(
            |panic| {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|t| (*t).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned());
                Reply::Failed {
                    reason: format!("the engine panicked: {}", text.unwrap_or_default()),
                    restart: true,
                }
            },
        )
    }

    fn act(&mut self, request: Request) -> Result<Reply, String> {
        match request {
            Request::Probe { backend, options } => {
                Ok(Reply::Probed(self.backend(&backend)?.probe(&options)))
            }
            Request::Run(request) => {
                // A fault on a GPU leaves its context unusable.
                let restart = request.options.processor == Processor::Gpu;
                let ran = self.run(*request).map(|run| Reply::Ran(Box::new(run)));
                Ok(ran.unwrap_or_else(|reason| Reply::Failed { reason, restart }))
            }
            Request::Load(request) => self.prepare(*request).map(Reply::Prepared),
            Request::Drive(what) => self.drive(what).map(Reply::Tallied),
            Request::Cover(request) => self.coverage(&request).map(Reply::Covered),
            Request::Parts(request) => self.hold(*request),
            Request::LoadPart(part) => Ok(Reply::PartLoaded(self.held()?.load(part))),
            Request::UnloadParts(parts) => Ok(Reply::PartsUnloaded(self.held()?.unload(&parts))),
            Request::Piece(request) => {
                Ok(Reply::Computed(self.held()?.piece(&request).map(Box::new)))
            }
        }
    }

    fn hold(&mut self, request: PartsRequest) -> Result<Reply, String> {
        self.pin(&request.options.cores)?;
        let (held, reply) = Held::start(self.backend(&request.backend)?, request)?;
        self.held = Some(held);
        Ok(Reply::Started(Box::new(reply)))
    }

    fn held(&mut self) -> Result<&mut Held<'a>, String> {
        self.held.as_mut().ok_or_else(|| "it has no parts".to_owned())
    }

    fn backend(&self, name: &str) -> Result<&'a dyn Backend, String> {
        let known = || self.backends.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
        let found = self.backends.iter().find(|b| b.name() == name);
        found
            .map(AsRef::as_ref)
            .ok_or_else(|| format!("no backend is called `{name}`; there are: {}", known()))
    }

    fn run(&mut self, request: RunRequest) -> Result<model_run::ModelRun, String> {
        let RunRequest { backend, options, protocol, name, graph, source } = request;
        self.pin(&options.cores)?;
        self.keep_memory(protocol.keeps_memory);
        if protocol.reference_repeats > 0 {
            self.load_reference(&backend, &options)?;
        }
        let mut model = source::ready(&name, &source, &graph, self.backend(&backend)?, &options)?;
        let _file = if protocol.fresh { model.move_to_file()? } else { None };
        let mut reference = self.reference.take();
        let session =
            reference.as_mut().and_then(|r| r.session.as_mut()).map(|session| &mut **session);
        let result = model_run::run(self.backend(&backend)?, &model, &options, &protocol, session);
        self.reference = reference;
        result.map_err(|e| e.to_string())
    }

    fn pin(&mut self, cores: &[usize]) -> Result<(), String> {
        if self.pinned.as_deref() != Some(cores) {
            pinning::pin(cores).map_err(|e| e.to_string())?;
            self.pinned = Some(cores.to_vec());
        }
        Ok(())
    }

    /// The allocator's settings move by themselves until they are set once, so they are left alone
    /// where nothing changes.
    fn keep_memory(&mut self, keeps: bool) {
        if std::mem::replace(&mut self.keeps_memory, keeps) != keeps {
            if keeps { memory::keep_freed() } else { memory::return_freed() }
        }
    }

    fn prepare(&mut self, request: LoadRequest) -> Result<Prepared, String> {
        self.load = None;
        self.pin(&request.cores)?;
        let (running, prepared) = Running::prepare(request, |name| self.backend(name))?;
        self.load = Some(running);
        Ok(prepared)
    }

    fn drive(&mut self, what: Drive) -> Result<Tally, String> {
        let load = self.load.as_mut().ok_or("there is no load")?;
        match what {
            Drive::Go => {
                let rested = load.tally();
                load.go();
                rested.map(|_| Tally::default())
            }
            Drive::Tally => load.tally(),
            Drive::Pause => load.pause(),
        }
    }

    fn coverage(&self, request: &CoverageRequest) -> Result<Coverage, String> {
        let CoverageRequest { backend, options, name, graph, source } = request;
        let backend = self.backend(backend)?;
        let model = source::ready(name, source, graph, backend, options)?;
        backend.coverage(&model, options).map_err(|e| e.to_string())
    }

    fn load_reference(&mut self, backend: &str, options: &RunOptions) -> Result<(), String> {
        if self.reference.as_ref().is_some_and(|r| r.backend == backend && r.options == *options) {
            return Ok(());
        }
        let load = |backend: &dyn Backend| {
            backend
                .load(&reference::model_for(backend, options)?, options)
                .map_err(|e| e.to_string())
        };
        let session = self.backend(backend).and_then(load);
        let session = session.inspect_err(|e| tracing::warn!("no reference workload: {e}")).ok();
        self.reference =
            Some(Reference { backend: backend.to_owned(), options: options.clone(), session });
        Ok(())
    }
}

/// Ctrl-C and the like go to the whole process group; the host decides what becomes of its workers,
/// and they end when it does.
#[cfg(unix)]
fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(not(unix))]
fn ignore_interrupts() {}

/// A private copy of stdout for replies; from now on file descriptor 1 is stderr.
#[cfg(unix)]
pub(crate) fn private_stdout() -> io::Result<File> {
    use std::os::fd::{AsFd, AsRawFd};
    let private = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open; descriptor 1 stays open throughout.
    if unsafe { libc::dup2(io::stderr().as_raw_fd(), 1) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::from(private))
}

#[cfg(not(unix))]
pub(crate) fn private_stdout() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

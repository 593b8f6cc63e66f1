//! [`Remote`]: the client's side of an agent. A broken connection is opened again, and the
//! interrupted model run is repeated from its beginning.

use super::{
    command::AgentCommand,
    connection::{Connection, Stop},
    error::RemoteError,
    message::{Answer, Ask, Digest, RunAsk},
};
use crate::{
    backends::RunOptions,
    source::Source,
    worker::{Outcome, RunRequest},
};
use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use vitempo_graph::{Environment, onnx};

/// A model run during which the connection broke so often has failed: perhaps the model crashes the
/// agent's machine down.
const MOST_CUTS: usize = 3;
/// Pause before the second try to reach the agent again; each further one is twice as long, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// An agent.
pub struct Remote {
    command: AgentCommand,
    /// Tries to reach it again after the connection broke.
    tries: usize,
    notice: fn(&str),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// The last probe and the agent's answer, which must be the same after a reconnection.
    probed: Option<Probed>,
}

#[derive(Clone)]
struct Probed {
    backend: String,
    options: RunOptions,
    environment: Environment,
}

impl Remote {
    /// The agent that the command leads to. After a broken connection the command is started again
    /// up to `tries` times, with growing pauses; `notice` is called with every try.
    #[must_use]
    pub fn new(command: AgentCommand, tries: usize, notice: fn(&str)) -> Self {
        Self { command, tries, notice, state: Mutex::default() }
    }

    /// The environment in which an engine would run at the agent's.
    ///
    /// # Errors
    /// [`RemoteError`] when the agent is not reached, or has no such engine.
    pub fn probe(&self, backend: &str, options: &RunOptions) -> Result<Environment, RemoteError> {
        let never = AtomicBool::new(false);
        let mut connection = match self.kept() {
            Some(connection) => connection,
            None => Connection::open(&self.command)?,
        };
        let mut cuts = 0;
        let (environment, no_energy) = loop {
            match self.environment(&mut connection, backend, options) {
                Err(error) if error.passes() && cuts + 1 < MOST_CUTS => {
                    cuts += 1;
                    (self.notice)(&format!("warning: {error}"));
                    connection = self.reach(&never)?.ok_or(error)?;
                }
                other => break other?,
            }
        };
        let mut state = self.state();
        state.connection = Some(connection);
        let probed = Probed {
            backend: backend.to_owned(),
            options: options.clone(),
            environment: environment.clone(),
        };
        if let (None, Some(reason)) = (state.probed.replace(probed), no_energy) {
            (self.notice)(&format!("energy is not recorded: {reason}"));
        }
        Ok(environment)
    }

    /// Measures one model; `None` when interrupted.
    ///
    /// # Errors
    /// [`RemoteError`] when the agent is not reached any more, or refuses.
    pub(crate) fn run(
        &self,
        request: RunRequest,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Option<Outcome>, RemoteError> {
        let (ask, model) = match portable(request, timeout) {
            Ok(portable) => portable,
            Err(reason) => return Ok(Some(Err(reason))),
        };
        let ask = Ask::Run(Box::new(ask));
        let mut cuts = 0;
        loop {
            let Some(mut connection) = self.reach(interrupted)? else { return Ok(None) };
            let error = match measure(&mut connection, &ask, model.as_ref(), interrupted) {
                Ok(outcome) => {
                    self.state().connection = Some(connection);
                    return Ok(Some(outcome));
                }
                Err(Stop::Interrupted) => return Ok(None),
                Err(Stop::Failed(error @ RemoteError::Refused { .. })) => {
                    return Ok(Some(Err(error.to_string())));
                }
                Err(Stop::Failed(error)) if error.passes() => error,
                Err(Stop::Failed(error)) => return Err(error),
            };
            drop(connection);
            if interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            cuts += 1;
            if cuts == MOST_CUTS {
                return Ok(Some(Err(format!("in each of {cuts} model runs: {error}"))));
            }
            (self.notice)(&format!("warning: {error}; this model run is made again"));
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of the last question, if the agent still has it.
    fn kept(&self) -> Option<Connection> {
        self.state().connection.take().filter(Connection::is_fresh)
    }

    /// A connection to the agent, if need be after several tries; `None` when interrupted.
    fn reach(&self, interrupted: &AtomicBool) -> Result<Option<Connection>, RemoteError> {
        if let Some(connection) = self.kept() {
            return Ok(Some(connection));
        }
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        loop {
            let error = match self.open_again() {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) if error.passes() => error,
                Err(error) => return Err(error),
            };
            tries += 1;
            if tries >= self.tries {
                return Err(RemoteError::GaveUp { tries, last: Box::new(error) });
            }
            (self.notice)(&format!(
                "warning: {error}; trying again in {} s ({tries} of {} tries)",
                pause.as_secs_f64(),
                self.tries
            ));
            if !sleep(pause, interrupted) {
                return Ok(None);
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// A connection to the same environment as before.
    fn open_again(&self) -> Result<Connection, RemoteError> {
        let mut connection = Connection::open(&self.command)?;
        let probed = self.state().probed.clone();
        if let Some(Probed { backend, options, environment: was }) = probed {
            let is = self.environment(&mut connection, &backend, &options)?.0;
            if is.id() != was.id() {
                return Err(RemoteError::Changed {
                    command: self.command.clone(),
                    was: was.id(),
                    is: is.id(),
                });
            }
        }
        Ok(connection)
    }

    fn environment(
        &self,
        connection: &mut Connection,
        backend: &str,
        options: &RunOptions,
    ) -> Result<(Environment, Option<String>), RemoteError> {
        let ask = Ask::Probe { backend: backend.to_owned(), options: options.clone() };
        let command = self.command.clone();
        match connection.ask(&ask, &AtomicBool::new(false)) {
            Ok(Answer::Probed { environment, no_energy }) => Ok((*environment, no_energy)),
            Ok(Answer::NotProbed { reason, hint }) => {
                Err(RemoteError::NotThere { command, reason, hint })
            }
            Err(Stop::Failed(error)) => Err(error),
            Ok(_) | Err(Stop::Interrupted) => Err(RemoteError::Cut {
                command,
                reason: "the agent answered another question".to_owned(),
            }),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("command", &self.command).finish_non_exhaustive()
    }
}

/// A model's bytes, and their digest.
type Content = (Digest, Vec<u8>);

/// The messages for a model run: the request and its model.
fn portable(request: RunRequest, timeout: Duration) -> Result<(RunAsk, Option<Content>), String> {
    let RunRequest { backend, options, protocol, name, graph, source } = request;
    let model = match source {
        Source::Graph => None,
        Source::File(path) | Source::WholeFile(path) => {
            let bytes = onnx::self_contained(&path, options.seed).map_err(|e| e.to_string())?;
            Some((Digest::of(&bytes), bytes))
        }
    };
    let digest = model.as_ref().map(|(digest, _)| *digest);
    Ok((RunAsk { backend, options, protocol, name, graph, model: digest, timeout }, model))
}

/// One model run over one connection.
fn measure(
    connection: &mut Connection,
    ask: &Ask,
    model: Option<&Content>,
    interrupted: &AtomicBool,
) -> Result<Outcome, Stop> {
    if let Some((digest, bytes)) = model
        && let Err(reason) = connection.offer(bytes, *digest, interrupted)?
    {
        return Ok(Err(reason));
    }
    Ok(match connection.ask(ask, interrupted)? {
        Answer::Ran(run) => Ok(*run),
        Answer::Failed { reason } => Err(reason),
        Answer::Missing => Err("the agent lost the model before it was measured".to_owned()),
        _ => Err("the agent answered another question".to_owned()),
    })
}

/// `false` when interrupted.
fn sleep(time: Duration, interrupted: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end && !interrupted.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
    !interrupted.load(Ordering::Relaxed)
}

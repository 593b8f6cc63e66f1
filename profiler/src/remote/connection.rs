//! [`Connection`]: the client's end of one connection: it sends the greeting, requests and models,
//! and waits for answers.

use super::{
    command::AgentCommand,
    error::RemoteError,
    frame::Kind,
    link::{Event, Link},
    message::{self, Answer, Ask, Digest, End, GreetingError, PIECE},
};
use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Time for an agent to accept a client: longer than agents take to dismiss another one.
const ADMISSION: Duration = Duration::from_secs(15);
/// Largest answer, in bytes.
const LARGEST_ANSWER: usize = 256 << 20;
/// Interval of checks for an interruption.
const SLICE: Duration = Duration::from_millis(50);

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    Interrupted,
    Failed(RemoteError),
}

/// A connection over which an agent may be asked. After a [`Stop`] it must not be asked again.
pub(crate) struct Connection {
    command: AgentCommand,
    link: Link,
    silence_limit: Duration,
    used: Instant,
}

impl Connection {
    /// Reaches the agent and is let in.
    pub fn open(command: &AgentCommand) -> Result<Self, RemoteError> {
        Self::over(command, command.open(LARGEST_ANSWER))
    }

    /// The same over a TCP connection on loopback, for a command that starts an agent here.
    pub fn open_loopback(command: &AgentCommand) -> Result<Self, RemoteError> {
        Self::over(command, command.open_loopback(LARGEST_ANSWER))
    }

    fn over(command: &AgentCommand, link: io::Result<Link>) -> Result<Self, RemoteError> {
        let command = command.clone();
        let link =
            link.map_err(|source| RemoteError::Unreachable { command: command.clone(), source })?;
        let mut connection = Self { command, link, silence_limit: ADMISSION, used: Instant::now() };
        connection.exchange_greetings()?;
        connection.say(&Ask::Begin)?;
        let command = connection.command.clone();
        match connection.link.wait(ADMISSION) {
            Some(Event::Frame(frame)) => match connection.read(frame.kind, &frame.payload)? {
                Answer::Begun { silence_limit } => {
                    connection.silence_limit = silence_limit;
                    connection.used = Instant::now();
                    Ok(connection)
                }
                Answer::Busy => Err(RemoteError::Busy { command }),
                Answer::Refused { reason } => Err(RemoteError::Refused { command, reason }),
                _ => Err(connection.cut("the agent answered another question")),
            },
            Some(Event::Ended(error)) => Err(connection.cut(error)),
            _ => Err(connection.cut("the agent did not answer")),
        }
    }

    fn exchange_greetings(&mut self) -> Result<(), RemoteError> {
        let command = || self.command.clone();
        let greeting = match self.link.wait(ADMISSION) {
            Some(Event::Greeted(line)) => line,
            _ => return Err(RemoteError::Mute { command: command() }),
        };
        message::read_greeting(End::Agent, &greeting).map_err(|error| match error {
            GreetingError::Foreign => RemoteError::Foreign { command: command(), said: greeting },
            GreetingError::Version(theirs) => RemoteError::Version { command: command(), theirs },
        })?;
        self.link.greet(&message::greeting(End::Client)).map_err(|e| self.cut(e))?;
        self.link.frames();
        Ok(())
    }

    /// Whether it was used so recently that the agent has not given it up.
    pub fn is_fresh(&self) -> bool {
        self.used.elapsed() < self.silence_limit / 2
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&mut self, ask: &Ask, interrupted: &AtomicBool) -> Result<Answer, Stop> {
        self.say(ask).map_err(Stop::Failed)?;
        self.answer(interrupted)
    }

    /// Ensures that the agent has a model; the inner error says why it refuses it.
    pub fn offer(
        &mut self,
        model: &[u8],
        digest: Digest,
        interrupted: &AtomicBool,
    ) -> Result<Result<(), String>, Stop> {
        let mut answer =
            self.ask(&Ask::Offer { digest, size_bytes: model.len() as u64 }, interrupted)?;
        if matches!(answer, Answer::Wanted) {
            for piece in model.chunks(PIECE) {
                if interrupted.load(Ordering::Relaxed) {
                    return Err(Stop::Interrupted);
                }
                self.link.send_piece(piece).map_err(|error| Stop::Failed(self.broken(error)))?;
            }
            answer = self.answer(interrupted)?;
        }
        match answer {
            Answer::Stored => Ok(Ok(())),
            Answer::NotStored { reason } => Ok(Err(reason)),
            _ => Err(Stop::Failed(self.cut("the agent answered another question"))),
        }
    }

    /// The connection itself, for tensors.
    pub fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The time after which a silent end is given up.
    pub fn silence_limit(&self) -> Duration {
        self.silence_limit
    }

    /// The command that leads to the agent.
    pub fn command(&self) -> &AgentCommand {
        &self.command
    }

    fn say(&mut self, ask: &Ask) -> Result<(), RemoteError> {
        self.link.say(ask).map_err(|error| self.broken(error))
    }

    /// The answer, however long it takes, while the agent sends heartbeats.
    fn answer(&mut self, interrupted: &AtomicBool) -> Result<Answer, Stop> {
        let since = Instant::now();
        let mut said = since;
        loop {
            match self.link.wait(SLICE) {
                Some(Event::Frame(frame)) => {
                    match self.read(frame.kind, &frame.payload).map_err(Stop::Failed)? {
                        Answer::Beat => {}
                        Answer::Refused { reason } => {
                            return Err(Stop::Failed(RemoteError::Refused {
                                command: self.command.clone(),
                                reason,
                            }));
                        }
                        answer => {
                            self.used = Instant::now();
                            return Ok(answer);
                        }
                    }
                }
                Some(Event::Ended(error)) => return Err(Stop::Failed(self.cut(error))),
                Some(Event::Greeted(_) | Event::Done) => {}
                None if interrupted.load(Ordering::Relaxed) => return Err(Stop::Interrupted),
                None if self.link.silent_for(since) > self.silence_limit => {
                    return Err(Stop::Failed(self.cut(format_args!(
                        "nothing was heard for {} s",
                        self.silence_limit.as_secs_f64()
                    ))));
                }
                None if said.elapsed() > self.silence_limit / 4 => {
                    self.say(&Ask::Beat).map_err(Stop::Failed)?;
                    said = Instant::now();
                }
                None => {}
            }
        }
    }

    fn read(&self, kind: Kind, payload: &[u8]) -> Result<Answer, RemoteError> {
        match kind {
            Kind::Message => serde_json::from_slice(payload)
                .map_err(|error| self.cut(format_args!("an answer cannot be read: {error}"))),
            Kind::Piece => Err(self.cut("the agent sent a piece of a model")),
            Kind::Tensors => Err(self.cut("the agent sent tensors that nobody asked for")),
        }
    }

    /// A connection that broke while a message was sent. The reason is the agent's last message, if
    /// there is one.
    fn broken(&self, error: io::Error) -> RemoteError {
        while let Some(event) = self.link.wait(SLICE) {
            let Event::Frame(frame) = event else { continue };
            if let Ok(Answer::Refused { reason }) = self.read(frame.kind, &frame.payload) {
                return RemoteError::Refused { command: self.command.clone(), reason };
            }
        }
        self.cut(error)
    }

    fn cut(&self, reason: impl ToString) -> RemoteError {
        RemoteError::Cut { command: self.command.clone(), reason: reason.to_string() }
    }
}

//! One client at an agent, from its greeting until the connection ends. A client has one request at
//! a time.

use super::{
    frame::{FrameError, Kind},
    half::{self, Half},
    link::{Event, Link},
    message::{self, Answer, Ask, Digest, End, GreetingError, HoldAsk, RunAsk},
    options::{AgentOptions, Log},
    store::{self, Store},
};
use crate::{
    energy::Meter,
    live::LiveProcessor,
    probe::{self, SweepError},
    source::Source,
    worker::{RunRequest, Station},
};
use std::{
    convert::Infallible,
    io,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    thread,
    time::{Duration, Instant},
};

/// Time for a client to greet.
const ADMISSION: Duration = Duration::from_secs(10);
/// Time for the session of a previous client to end.
const HANDOVER: Duration = Duration::from_secs(3);
/// Pause between two looks.
const SLICE: Duration = Duration::from_millis(20);

/// Why a connection ends.
pub(super) enum Farewell {
    /// The client left, or is not heard any more.
    Gone(String),
    /// What is at the other end does not greet as a client of this version does.
    Stranger(String),
    /// The reason is sent to it.
    Refused(String),
    /// Another client is measuring.
    Busy,
}

impl From<io::Error> for Farewell {
    fn from(error: io::Error) -> Self {
        Self::Gone(format!("the connection broke: {error}"))
    }
}

impl From<FrameError> for Farewell {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Closed | FrameError::Io(_) => Self::Gone(error.to_string()),
            FrameError::TooLarge { .. } | FrameError::Checksum => Self::Refused(error.to_string()),
        }
    }
}

/// Serves the client at the other end; the error says what came instead of a client's greeting.
pub(super) fn serve(options: &AgentOptions, mut link: Link) -> Result<(), String> {
    let log = &options.log;
    let farewell = admit(options, &mut link).and_then(|store| {
        log.say(format_args!("a client is connected"));
        let mut session = Session {
            options,
            link: &mut link,
            store,
            station: Station::new(options.worker.clone()),
        };
        Err(session.serve())
    });
    // The lock and the worker are released before the client receives the reason.
    let Err(farewell): Result<Infallible, Farewell> = farewell;
    let (answer, reason) = match farewell {
        Farewell::Gone(reason) => {
            log.say(format_args!("{reason}"));
            return Ok(());
        }
        Farewell::Stranger(reason) => return Err(reason),
        Farewell::Busy => (Answer::Busy, "another client is measuring".to_owned()),
        Farewell::Refused(reason) => (Answer::Refused { reason: reason.clone() }, reason),
    };
    log.say(format_args!("refused: {reason}"));
    // A client that does not wait for the reason has lost nothing.
    let _ = link.say(&answer);
    Ok(())
}

/// Admits the client if it is of this version and no other client is measuring.
fn admit(options: &AgentOptions, link: &mut Link) -> Result<Store, Farewell> {
    link.greet(&message::greeting(End::Agent))?;
    let deadline = Instant::now() + ADMISSION.min(options.silence_limit);
    let greeting = match next(link, deadline) {
        Ok(Event::Greeted(line)) => line,
        Ok(_) => return Err(Farewell::Stranger("it did not greet".to_owned())),
        Err(Farewell::Gone(reason) | Farewell::Refused(reason)) => {
            return Err(Farewell::Stranger(reason));
        }
        Err(other) => return Err(other),
    };
    message::read_greeting(End::Client, &greeting).map_err(|error| {
        Farewell::Stranger(match error {
            GreetingError::Foreign => format!("the client is not vitempo: it sent {greeting:?}"),
            GreetingError::Version(version) => {
                format!("the client is {version}, and this is {}", message::ours())
            }
        })
    })?;
    link.frames();
    match next(link, deadline)? {
        Event::Frame(frame) if matches!(serde_json::from_slice(&frame.payload), Ok(Ask::Begin)) => {
        }
        _ => return Err(Farewell::Refused("a connection begins with `Begin`".to_owned())),
    }
    let store = lease(options)?;
    link.say(&Answer::Begun { silence_limit: options.silence_limit })?;
    Ok(store)
}

/// The client's messages until then.
fn next(link: &Link, deadline: Instant) -> Result<Event, Farewell> {
    match link.wait(deadline.saturating_duration_since(Instant::now())) {
        Some(Event::Ended(error)) => Err(error.into()),
        Some(event) => Ok(event),
        None => Err(Farewell::Gone("sent nothing for too long".to_owned())),
    }
}

/// The right to measure; a client that is just leaving is waited for.
fn lease(options: &AgentOptions) -> Result<Store, Farewell> {
    let deadline = Instant::now() + HANDOVER;
    loop {
        match store::lease(&options.folder, options.cache_bytes) {
            Ok(Some(store)) => return Ok(store),
            Ok(None) if Instant::now() < deadline => thread::sleep(SLICE),
            Ok(None) => return Err(Farewell::Busy),
            Err(error) => {
                return Err(Farewell::Refused(format!(
                    "the agent cannot use its folder {}: {error}",
                    options.folder.display()
                )));
            }
        }
    }
}

struct Session<'a> {
    options: &'a AgentOptions,
    link: &'a mut Link,
    store: Store,
    station: Station,
}

impl Session<'_> {
    /// Serves requests until the connection ends.
    fn serve(&mut self) -> Farewell {
        loop {
            if let Err(farewell) = self.ask().and_then(|ask| self.act(ask)) {
                return farewell;
            }
        }
    }

    fn log(&self) -> &Log {
        &self.options.log
    }

    /// The next frame; silence for too long ends the connection.
    fn frame(&self) -> Result<(Kind, Vec<u8>), Farewell> {
        let since = Instant::now();
        loop {
            match self.link.wait(self.options.beat()) {
                Some(Event::Frame(frame)) => return Ok((frame.kind, frame.payload)),
                Some(Event::Ended(error)) => return Err(error.into()),
                Some(Event::Greeted(_) | Event::Done) => {}
                None if self.link.silent_for(since) > self.options.silence_limit => {
                    return Err(self.silent());
                }
                None => {}
            }
        }
    }

    fn silent(&self) -> Farewell {
        Farewell::Gone(format!(
            "nothing was heard for {} s",
            self.options.silence_limit.as_secs_f64()
        ))
    }

    fn ask(&self) -> Result<Ask, Farewell> {
        match self.frame()? {
            (Kind::Message, payload) => serde_json::from_slice(&payload)
                .map_err(|e| Farewell::Refused(format!("a message cannot be read: {e}"))),
            (Kind::Piece, _) => {
                Err(Farewell::Refused("a piece of a model that was not offered".to_owned()))
            }
            (Kind::Tensors, _) => {
                Err(Farewell::Refused("tensors for a part that is not held".to_owned()))
            }
        }
    }

    fn act(&mut self, ask: Ask) -> Result<(), Farewell> {
        let answer = match ask {
            Ask::Beat => return Ok(()),
            Ask::Begin => {
                return Err(Farewell::Refused("the connection has begun already".to_owned()));
            }
            Ask::Offer { digest, size_bytes } => self.take_in(digest, size_bytes)?,
            Ask::Probe { options, .. } if options.library.is_some() => {
                Answer::NotProbed { reason: NO_LIBRARY.to_owned(), hint: None }
            }
            Ask::Probe { backend, options } => {
                let worker = &self.options.worker;
                let probed =
                    working(self.link, self.options, |_| probe::probe(worker, &backend, &options))?;
                let no_energy = Meter::find(options.processor).err().map(|e| e.to_string());
                probed.map_or_else(not_probed, |environment| Answer::Probed {
                    environment: Box::new(environment),
                    no_energy,
                })
            }
            Ask::Run(ask) if ask.options.library.is_some() => {
                Answer::Failed { reason: NO_LIBRARY.to_owned() }
            }
            Ask::Run(ask) => self.run(*ask)?,
            Ask::Hold(ask) if ask.options.library.is_some() => {
                Answer::Failed { reason: NO_LIBRARY.to_owned() }
            }
            Ask::Hold(ask) => self.hold(*ask)?,
            Ask::Shape(_) | Ask::Release => {
                return Err(Farewell::Refused("no part is held".to_owned()));
            }
        };
        Ok(self.link.say(&answer)?)
    }

    /// Receives a model, unless it is here. All of it is read, also where it cannot be kept: the
    /// client hears why afterwards.
    fn take_in(&mut self, digest: Digest, size: u64) -> Result<Answer, Farewell> {
        if self.store.find(&digest).is_some() {
            return Ok(Answer::Stored);
        }
        let mut incoming = match self.store.take_in(digest, size) {
            Ok(incoming) => Ok(incoming),
            Err(error) => return Ok(Answer::NotStored { reason: error.to_string() }),
        };
        self.link.say(&Answer::Wanted)?;
        let mut left = size;
        while left > 0 {
            match self.frame()? {
                (Kind::Piece, piece) if !piece.is_empty() && piece.len() as u64 <= left => {
                    left -= piece.len() as u64;
                    incoming = incoming
                        .and_then(|mut incoming| incoming.append(&piece).map(|()| incoming));
                }
                _ => {
                    return Err(Farewell::Refused(
                        "another message instead of the offered model".to_owned(),
                    ));
                }
            }
        }
        let kept =
            working(self.link, self.options, |_| incoming.and_then(|incoming| incoming.finish()))?;
        Ok(kept.map_or_else(
            |error| Answer::NotStored { reason: error.to_string() },
            |()| Answer::Stored,
        ))
    }

    fn run(&mut self, ask: RunAsk) -> Result<Answer, Farewell> {
        let RunAsk { backend, options, protocol, name, graph, model, timeout } = ask;
        let source = match model.map(|digest| self.store.find(&digest)) {
            None => Source::Graph,
            Some(Some(file)) => Source::File(file),
            Some(None) => return Ok(Answer::Missing),
        };
        self.log().say(format_args!("measuring {name:?} on {backend:?}"));
        let request = RunRequest { backend, options, protocol, name, graph, source };
        let station = &mut self.station;
        let outcome = working(self.link, self.options, |interrupted| {
            station.run(request, timeout, interrupted)
        })?;
        Ok(match outcome {
            Ok(Some(Ok(run))) => Answer::Ran(Box::new(run)),
            Ok(Some(Err(reason))) => Answer::Failed { reason },
            Ok(None) => Answer::Failed { reason: "interrupted".to_owned() },
            Err(error) => Answer::Failed { reason: error.to_string() },
        })
    }
}

impl Session<'_> {
    /// Runs parts of models on tensors of the client, until it releases them.
    fn hold(&mut self, ask: HoldAsk) -> Result<Answer, Farewell> {
        let mut parts = Vec::with_capacity(ask.parts.len());
        for part in ask.parts {
            let Some(file) = self.store.find(&part.model) else { return Ok(Answer::Missing) };
            parts.push((part.name, file, part.inputs));
        }
        self.log().say(format_args!("holding {} parts for {:?}", parts.len(), ask.backend));
        let processor =
            LiveProcessor { name: "server".to_owned(), backend: ask.backend, options: ask.options };
        let half = working(self.link, self.options, |_| Half::load(&processor, parts))?;
        match half {
            Ok(half) => half::serve(self.link, self.options, half),
            Err(reason) => Ok(Answer::Failed { reason }),
        }
    }
}

const NO_LIBRARY: &str = "a client names no files of the agent's machine; set the \
    engine's variable where the agent is started";

fn not_probed(error: SweepError) -> Answer {
    match error {
        SweepError::Unavailable { backend, reason, hint } => Answer::NotProbed {
            reason: format!("backend `{backend}` is not available: {reason}"),
            hint: Some(hint),
        },
        other => Answer::NotProbed { reason: other.to_string(), hint: None },
    }
}

/// Runs work on a thread of its own while both ends send heartbeats. The work ends if the client is
/// gone, silent for too long, or sends another request.
fn working<T: Send>(
    link: &mut Link,
    options: &AgentOptions,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> Result<T, Farewell> {
    let interrupted = AtomicBool::new(false);
    let (since, sender) = (Instant::now(), link.sender());
    let mut farewell = None;
    let done = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _notice = NoticeOnDrop(sender);
            work(&interrupted)
        });
        loop {
            let over = match link.wait(options.beat()) {
                Some(Event::Done) => break,
                Some(Event::Frame(frame))
                    if matches!(serde_json::from_slice(&frame.payload), Ok(Ask::Beat)) =>
                {
                    None
                }
                Some(Event::Frame(_)) => {
                    Some(Farewell::Refused("one question at a time".to_owned()))
                }
                Some(Event::Ended(error)) => Some(error.into()),
                Some(Event::Greeted(_)) => None,
                None if link.silent_for(since) > options.silence_limit => {
                    Some(Farewell::Gone("nothing was heard for too long".to_owned()))
                }
                None => link.say(&Answer::Beat).err().map(Farewell::from),
            };
            if let Some(over) = over {
                interrupted.store(true, Ordering::Relaxed);
                farewell.get_or_insert(over);
            }
        }
        worker.join()
    });
    match (farewell, done) {
        (Some(farewell), _) => Err(farewell),
        (None, Ok(done)) => Ok(done),
        (None, Err(_)) => Err(Farewell::Refused("the agent failed; its log says more".to_owned())),
    }
}

/// Signals that work is done, also where it panicked.
struct NoticeOnDrop(SyncSender<Event>);

impl Drop for NoticeOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Done);
    }
}

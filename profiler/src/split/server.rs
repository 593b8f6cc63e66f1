//! [`ServerEnd`]: this end of the connection to the server that holds halves of models.

use super::{SplitRunError, bucket::Shape, features::Encoding};
use crate::{
    live::LiveProcessor,
    remote::{
        AgentCommand, RemoteError,
        connection::{Connection, Stop},
        message::{Answer, Ask, Digest, HoldAsk, PartAsk},
    },
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use vitempo_graph::Environment;

/// How the server is reached: by a command that starts an agent.
#[derive(Clone, Debug)]
pub enum Reach {
    /// On this machine, over a TCP connection on loopback.
    Loopback(AgentCommand),
    /// The same, with a folder for the agent that is deleted with this value ([`Reach::own`]).
    Own(AgentCommand, Arc<TempDir>),
    /// Over the stdin and stdout of a command such as `ssh board vitempo-agent`.
    Command(AgentCommand),
}

impl Reach {
    /// An agent on this machine whose command ends with the folder for its models: a temporary one
    /// is made, and appended to these words.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn own<const N: usize>(words: [&str; N]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("vitempo-split").tempdir()?;
        let path = folder.path().to_string_lossy().into_owned();
        let words = words.into_iter().map(str::to_owned).chain([path]);
        Ok(Self::Own(words.collect(), Arc::new(folder)))
    }

    /// Whether the server is on this machine, so that it must not share cores with the device.
    pub(super) fn is_here(&self) -> bool {
        !matches!(self, Self::Command(_))
    }

    fn open(&self) -> Result<Connection, RemoteError> {
        match self {
            Self::Loopback(command) | Self::Own(command, _) => Connection::open_loopback(command),
            Self::Command(command) => Connection::open(command),
        }
    }
}

/// Both directions of the link; `None`: as fast as it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    /// From the device to the server.
    pub there: Option<Shape>,
    /// From the server to the device.
    pub back: Option<Shape>,
}

/// A half of a model for the server, with its weights.
pub(super) struct Upload {
    pub name: String,
    pub bytes: Vec<u8>,
    pub digest: Digest,
    pub inputs: Vec<Encoding>,
}

impl Upload {
    pub fn new(name: &str, bytes: Vec<u8>, inputs: Vec<Encoding>) -> Self {
        Self { name: name.to_owned(), digest: Digest::of(&bytes), bytes, inputs }
    }
}

/// The server with all halves.
pub(super) struct ServerEnd {
    pub connection: Connection,
    /// Where its engine runs.
    pub environment: Environment,
    /// Cores of its engine.
    pub cores: Vec<usize>,
    used: Instant,
}

impl ServerEnd {
    /// Starts the server, sends it the halves that it does not have, and shapes the link.
    pub fn open(
        reach: &Reach,
        processor: &LiveProcessor,
        uploads: &[Upload],
        shapes: Shapes,
        interrupted: &AtomicBool,
    ) -> Result<Self, SplitRunError> {
        let mut connection = reach.open()?;
        let environment = probed(&mut connection, processor, interrupted)?;
        for upload in uploads {
            let offered = connection.offer(&upload.bytes, upload.digest, interrupted);
            offered.map_err(stopped)?.map_err(|reason| SplitRunError::Server { reason })?;
        }
        let part = |upload: &Upload| PartAsk {
            name: upload.name.clone(),
            model: upload.digest,
            inputs: upload.inputs.clone(),
        };
        let ask = Ask::Hold(Box::new(HoldAsk {
            backend: processor.backend.clone(),
            options: processor.options.clone(),
            parts: uploads.iter().map(part).collect(),
        }));
        let cores = match connection.ask(&ask, interrupted).map_err(stopped)? {
            Answer::Held { cores } => cores,
            Answer::Failed { reason } => return Err(SplitRunError::Server { reason }),
            Answer::Missing => return Err(refused("it does not keep the model's halves")),
            _ => return Err(refused("it answered another question")),
        };
        let mut server = Self { connection, environment, cores, used: Instant::now() };
        server.shape(shapes, interrupted)?;
        Ok(server)
    }

    /// Shapes both directions from now on.
    pub fn shape(&mut self, shapes: Shapes, stop: &AtomicBool) -> Result<(), SplitRunError> {
        match self.connection.ask(&Ask::Shape(shapes.back), stop).map_err(stopped)? {
            Answer::Shaped => {}
            _ => return Err(refused("it answered another question")),
        }
        self.connection.link().ends().1.shape(shapes.there);
        self.used = Instant::now();
        Ok(())
    }

    /// Whether the server has heard of this end so recently that it is still there.
    pub fn is_fresh(&self) -> bool {
        self.used.elapsed() < self.connection.silence_limit() / 2
    }

    /// The server was heard just now.
    pub fn touch(&mut self) {
        self.used = Instant::now();
    }

    /// How often this end says that it is there.
    pub fn beat(&self) -> Duration {
        self.connection.silence_limit() / 4
    }

    /// Why the server is gone, with how its process ended.
    pub fn explained(&mut self, reason: &str) -> String {
        let (_, _, carrier) = self.connection.link().ends();
        let ended = carrier.ended().map(|status| format!(" (its process ended: {status})"));
        format!("{reason}{}", ended.unwrap_or_default())
    }
}

fn probed(
    connection: &mut Connection,
    processor: &LiveProcessor,
    interrupted: &AtomicBool,
) -> Result<Environment, SplitRunError> {
    let (backend, options) = (processor.backend.clone(), processor.options.clone());
    let ask = Ask::Probe { backend, options };
    match connection.ask(&ask, interrupted).map_err(stopped)? {
        Answer::Probed { environment, .. } => Ok(*environment),
        Answer::NotProbed { reason, hint } => {
            let command = connection.command().clone();
            Err(RemoteError::NotThere { command, reason, hint }.into())
        }
        _ => Err(refused("it answered another question")),
    }
}

fn stopped(stop: Stop) -> SplitRunError {
    match stop {
        Stop::Interrupted => SplitRunError::Interrupted,
        Stop::Failed(error) => error.into(),
    }
}

fn refused(reason: &str) -> SplitRunError {
    SplitRunError::Server { reason: reason.to_owned() }
}

/// Returns an error if the user interrupted.
pub(super) fn go_on(interrupted: &AtomicBool) -> Result<(), SplitRunError> {
    if interrupted.load(Ordering::Relaxed) { Err(SplitRunError::Interrupted) } else { Ok(()) }
}

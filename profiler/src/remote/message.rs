//! The messages of both ends: greetings in one line of text each, then messages in JSON, one per
//! frame.
//!
//! A client asks one thing at a time and waits for the answer; [`Ask::Beat`] and [`Answer::Beat`]
//! may come in between from either end and only show that it is alive.

use crate::{
    backends::RunOptions,
    model_run::ModelRun,
    protocol::RunProtocol,
    split::{Encoding, Shape},
};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
use vitempo_graph::{Environment, Graph};

/// Number of this protocol; ends with another one do not understand each other.
const PROTOCOL: u32 = 5;
/// Engines' accounts of their kernels are read by the agent: both ends must be the same vitempo.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Bytes of a model that go at a time.
pub(crate) const PIECE: usize = 64 << 10;

/// Which end greets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Agent,
    Client,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "vitempo-agent",
            Self::Client => "vitempo-client",
        }
    }
}

/// Why a greeting is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GreetingError {
    /// It has another form.
    Foreign,
    /// Protocol and version of the other end.
    Version(String),
}

/// The greeting of one end, without the end of its line.
pub(super) fn greeting(end: End) -> String {
    format!("{} {PROTOCOL} {VERSION}", end.word())
}

/// Checks that the other end is of this version.
pub(super) fn read_greeting(end: End, line: &str) -> Result<(), GreetingError> {
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some(end.word()) {
        return Err(GreetingError::Foreign);
    }
    let (Some(protocol), Some(version)) = (words.next(), words.next()) else {
        return Err(GreetingError::Foreign);
    };
    if (protocol, version) == (PROTOCOL.to_string().as_str(), VERSION) {
        return Ok(());
    }
    Err(GreetingError::Version(format!("vitempo {version} (protocol {protocol})")))
}

/// This end, for messages about versions.
pub(super) fn ours() -> String {
    format!("vitempo {VERSION} (protocol {PROTOCOL})")
}

/// Digest of a model's bytes: the only name that a client can give to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Digest(blake3::Hash);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    pub fn finished(hasher: &blake3::Hasher) -> Self {
        Self(hasher.finalize())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        blake3::Hash::from_hex(&text)
            .map(Self)
            .map_err(|_| "a digest has 64 hexadecimal digits".to_owned())
    }
}

/// Requests of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// The first frame. Answer: `Begun` or `Busy`.
    Begin,
    /// In which environment would this engine run? Answer: `Probed` or `NotProbed`.
    Probe { backend: String, options: RunOptions },
    /// A model for a model run. Answer: `Stored`, or `Wanted`, and then `Stored` or `NotStored`
    /// after `size_bytes` in pieces.
    Offer { digest: Digest, size_bytes: u64 },
    /// Measure one model. Answer: `Ran`, `Failed` or `Missing`.
    Run(Box<RunAsk>),
    /// Keep parts of models ready, to run them on tensors that follow ([`Kind::Tensors`]), until
    /// `Release`. Answer: `Held`, `Failed` or `Missing`.
    ///
    /// [`Kind::Tensors`]: super::frame::Kind::Tensors
    Hold(Box<HoldAsk>),
    /// Shape what the agent sends while it holds parts. Answer: `Shaped`.
    Shape(Option<Shape>),
    /// The parts are not needed any more. Answer: `Released`.
    Release,
    /// A heartbeat of the client.
    Beat,
}

/// Parts of models for one engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HoldAsk {
    pub backend: String,
    pub options: RunOptions,
    pub parts: Vec<PartAsk>,
}

/// One part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PartAsk {
    pub name: String,
    /// Of a model that was offered, with its weights.
    pub model: Digest,
    /// How its inputs are sent, in their order.
    pub inputs: Vec<Encoding>,
}

/// One model to be measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunAsk {
    pub backend: String,
    pub options: RunOptions,
    pub protocol: RunProtocol,
    pub name: String,
    pub graph: Graph,
    /// Of a model that was offered; `None`: the graph is all there is.
    pub model: Option<Digest>,
    pub timeout: Duration,
}

/// Answers of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The client may ask. The connection ends after a silence of `silence_limit`.
    Begun { silence_limit: Duration },
    /// Another client is measuring.
    Busy,
    /// The connection ends here.
    Refused { reason: String },
    /// The environment, with the reason if energy would not be recorded.
    Probed { environment: Box<Environment>, no_energy: Option<String> },
    /// The engine or a requested option is not available.
    NotProbed { reason: String, hint: Option<String> },
    /// Send it.
    Wanted,
    /// It is here.
    Stored,
    /// It cannot be kept.
    NotStored { reason: String },
    /// The model of a model run is not here any more: offer it again.
    Missing,
    /// The result of the model run.
    Ran(Box<ModelRun>),
    /// It did not work.
    Failed { reason: String },
    /// The parts are ready, on these cores.
    Held { cores: Vec<usize> },
    /// What is sent from now on has this shape.
    Shaped,
    /// The parts are gone.
    Released,
    /// A heartbeat of the agent.
    Beat,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_read_by_the_other_end_only() {
        let line = greeting(End::Agent);
        assert_eq!(read_greeting(End::Agent, &line), Ok(()));
        assert_eq!(read_greeting(End::Client, &line), Err(GreetingError::Foreign));
        for foreign in ["", "SSH-2.0-OpenSSH_9.2", "vitempo-agent", "vitempo-agent 3"] {
            assert_eq!(
                read_greeting(End::Agent, foreign),
                Err(GreetingError::Foreign),
                "{foreign}"
            );
        }
        let next = PROTOCOL + 1;
        let newer = line.replacen(&format!(" {PROTOCOL} "), &format!(" {next} "), 1);
        let Err(GreetingError::Version(version)) = read_greeting(End::Agent, &newer) else {
            panic!("a newer end is understood")
        };
        assert!(version.contains(&format!("protocol {next}")), "{version}");
    }

    #[test]
    fn a_digest_is_no_path() {
        for text in ["\"../../secret\"", "\"abc\"", "7"] {
            assert!(serde_json::from_str::<Digest>(text).is_err(), "{text}");
        }
        let digest = Digest::of(b"model");
        assert_eq!(
            serde_json::from_str::<Digest>(&serde_json::to_string(&digest).unwrap()).unwrap(),
            digest
        );
    }
}

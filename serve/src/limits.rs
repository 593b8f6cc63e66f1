//! [`Limits`]: what one request, one client and all of them together may use.

use std::{fmt, time::Duration};

/// Bodies or answers in memory, as a multiple of the largest one.
const BODIES: usize = 8;

/// Limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of one request.
    pub body_bytes: usize,
    /// Largest answer.
    pub answer_bytes: usize,
    /// All bodies and answers in memory, beyond the first 32 KiB of each.
    pub memory_bytes: usize,
    /// Time limit of a request's head, which is also how long a connection may be idle.
    pub head_timeout: Duration,
    /// Time limit of each of: a request's body, its forecasts, the reading of the answer (and a
    /// second more for each MiB of it).
    pub timeout: Duration,
    /// Requests that are computed at the same time; and as many short ones beside them.
    pub workers: usize,
    /// Requests that wait for a worker; and as many short ones beside them.
    pub queue: usize,
    /// Open connections.
    pub connections: usize,
    /// Open connections of one address (in IPv6, of a network of 64 bits).
    pub connections_per_address: usize,
    /// Forecasts (models times bundles) of one request.
    pub forecasts: usize,
    /// Limits on reading an uploaded model, and on lowering it for each bundle.
    pub model: vitempo::graph::Limits,
    /// Time for requests in progress when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            answer_bytes: 64 << 20,
            memory_bytes: 512 << 20,
            head_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            workers: vitempo::processors(),
            queue: 64,
            connections: 512,
            connections_per_address: 128,
            forecasts: 100_000,
            model: vitempo::graph::Limits::default(),
            grace: Duration::from_secs(10),
        }
    }
}

/// Why limits refuse every request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The memory is too small for one request.
    #[error("{memory} bytes of memory do not hold one body or response of {largest} bytes")]
    Memory {
        /// All bodies and answers, bytes.
        memory: usize,
        /// The largest of both, bytes.
        largest: usize,
    },
    /// No room for a body, a response, or the operators of a model.
    #[error("{0} of 0 refuses every request")]
    Zero(Zero),
    /// No time for a request's head.
    #[error("a time limit of 0 refuses every request")]
    HeadTimeout,
    /// No time for a request.
    #[error("a time limit of 0 refuses every request")]
    Timeout,
}

/// A limit that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// [`Limits::body_bytes`].
    Body,
    /// [`Limits::answer_bytes`].
    Answer,
    /// Operators of [`Limits::model`].
    Nodes,
    /// Steps of [`Limits::model`].
    Steps,
}

impl fmt::Display for Zero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Body => "a largest body",
            Self::Answer => "a largest response",
            Self::Nodes => "a number of operators",
            Self::Steps => "a number of steps",
        })
    }
}

impl Limits {
    /// Memory for bodies and answers of at most these sizes where none is given: eight of the
    /// larger kind. Bytes.
    #[must_use]
    pub fn memory_for(body_bytes: usize, answer_bytes: usize) -> usize {
        body_bytes.max(answer_bytes).saturating_mul(BODIES)
    }

    /// Whether a server with these limits accepts any request.
    ///
    /// # Errors
    /// [`LimitError`] names the first limit that refuses every request.
    pub fn check(&self) -> Result<(), LimitError> {
        let largest = self.body_bytes.max(self.answer_bytes);
        let zeros = [
            (self.body_bytes == 0, Zero::Body),
            (self.answer_bytes == 0, Zero::Answer),
            (self.model.nodes == 0, Zero::Nodes),
            (self.model.steps == 0, Zero::Steps),
        ];
        if let Some((_, zero)) = zeros.into_iter().find(|(is_zero, _)| *is_zero) {
            return Err(LimitError::Zero(zero));
        }
        match *self {
            Self { memory_bytes: memory, .. } if memory < largest => {
                Err(LimitError::Memory { memory, largest })
            }
            Self { head_timeout: Duration::ZERO, .. } => Err(LimitError::HeadTimeout),
            Self { timeout: Duration::ZERO, .. } => Err(LimitError::Timeout),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::graph::Limits as ModelLimits;

    #[test]
    fn limits_that_refuse_every_request_are_named() {
        let usual = Limits::default();
        assert_eq!(usual.check(), Ok(()));
        assert_eq!(usual.memory_bytes, Limits::memory_for(usual.body_bytes, usual.answer_bytes));
        let small = Limits { memory_bytes: usual.body_bytes - 1, ..usual };
        assert!(matches!(small.check(), Err(LimitError::Memory { .. })));
        let model = usual.model;
        for (limits, zero) in [
            (Limits { body_bytes: 0, ..usual }, Zero::Body),
            (Limits { answer_bytes: 0, ..usual }, Zero::Answer),
            (Limits { model: ModelLimits { nodes: 0, ..model }, ..usual }, Zero::Nodes),
            (Limits { model: ModelLimits { steps: 0, ..model }, ..usual }, Zero::Steps),
        ] {
            assert_eq!(limits.check(), Err(LimitError::Zero(zero)));
        }
        let headless = Limits { head_timeout: Duration::ZERO, ..usual };
        assert_eq!(headless.check(), Err(LimitError::HeadTimeout));
        assert_eq!(Limits { timeout: Duration::ZERO, ..usual }.check(), Err(LimitError::Timeout));
    }
}

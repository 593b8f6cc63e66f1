//! Reading a request's body: how large, how slow, and how much of the server's memory it takes.

use super::{
    memory::{FREE, Memory, Share},
    problem::Problem,
};
use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::timeout;

/// How long a client that is refused while it sends may continue to send, so that it can read the
/// reason.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes of a body are kept in pieces of this size: a body that grows is never copied by the
/// threads that talk to clients.
const PIECE: usize = 256 << 10;

/// A body that was read, and the memory it takes until it is dropped.
#[derive(Debug)]
pub struct Upload {
    pieces: Vec<Vec<u8>>,
    length: usize,
    share: Share,
}

impl Upload {
    fn new(memory: &Memory) -> Self {
        Self { pieces: Vec::new(), length: 0, share: memory.share() }
    }

    /// Bytes that were sent.
    pub fn length(&self) -> usize {
        self.length
    }

    /// All that was sent, in one piece, and the memory that this takes.
    pub fn join(self) -> (Vec<u8>, Share) {
        let mut pieces = self.pieces.into_iter();
        let mut bytes = pieces.next().unwrap_or_default();
        bytes.reserve_exact(self.length - bytes.len());
        for piece in pieces {
            bytes.extend_from_slice(&piece);
        }
        (bytes, self.share)
    }

    fn append(&mut self, mut data: &[u8], most: usize) -> Result<(), Problem> {
        let length = self.length.saturating_add(data.len());
        if length > most {
            return Err(too_large(most));
        }
        self.share.grow(length.saturating_sub(FREE))?;
        self.length = length;
        while !data.is_empty() {
            if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
                self.pieces.push(Vec::new());
            }
            let Some(piece) = self.pieces.last_mut() else { break };
            let (now, later) = data.split_at(data.len().min(PIECE - piece.len()));
            piece.extend_from_slice(now);
            data = later;
        }
        Ok(())
    }
}

/// Reads a body of at most `most` bytes within `time_limit`.
///
/// # Errors
/// 413 for a larger body, 408 for a slower one, 503 when there is no memory, 400 when it breaks off.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    most: usize,
    time_limit: Duration,
    memory: &Memory,
) -> Result<Upload, Problem> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u64>().ok());
    if declared.is_some_and(|length| length > most as u64) {
        return Err(refuse(headers, body, too_large(most)).await);
    }
    match timeout(time_limit, collect(&mut body, most, memory)).await {
        Ok(Ok(upload)) => Ok(upload),
        Ok(Err(problem)) => Err(refuse(headers, body, problem).await),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", time_limit.as_secs_f64());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail).closing())
        }
    }
}

/// Discards the remaining body. A connection that is closed with unread bytes would lose the
/// answer; one that cannot be read to its end within a few seconds is closed nevertheless, and so
/// is one whose client waits for a response before it sends.
pub async fn refuse(headers: &HeaderMap, mut body: Body, problem: Problem) -> Problem {
    let ended = async {
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    let waits = headers.contains_key(header::EXPECT);
    if !waits && timeout(FAREWELL, ended).await == Ok(true) { problem } else { problem.closing() }
}

async fn collect(body: &mut Body, most: usize, memory: &Memory) -> Result<Upload, Problem> {
    let mut upload = Upload::new(memory);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body is incomplete"))?;
        if let Ok(data) = frame.into_data() {
            upload.append(&data, most)?;
        }
    }
    Ok(upload)
}

fn too_large(most: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {most} bytes, the limit of this server"),
    )
    .hint("send fewer models at once, or leave weights out: a forecast needs shapes only")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::PAGE;

    fn upload(memory: &Memory, most: usize, sizes: &[usize]) -> Result<Upload, Problem> {
        let mut upload = Upload::new(memory);
        sizes.iter().try_for_each(|&size| upload.append(&vec![7; size], most))?;
        Ok(upload)
    }

    #[test]
    fn bodies_share_what_memory_there_is() {
        let memory = Memory::new(4 * PAGE);
        let most = 1 << 20;
        let first = upload(&memory, most, &[FREE, 1, PAGE]);
        assert_eq!(first.as_ref().map(Upload::length).ok(), Some(FREE + PAGE + 1));
        assert_eq!(memory.used(), 2 * PAGE);
        let full = upload(&memory, most, &[FREE + 3 * PAGE]);
        assert!(full.is_err_and(|p| p.detail().contains("memory")));
        assert!(upload(&memory, most, &[FREE]).is_ok(), "a small body needs none");
        drop(first);
        assert!(upload(&memory, most, &[FREE + 4 * PAGE]).is_ok());
        assert!(
            upload(&memory, PAGE, &[PAGE, 1]).is_err_and(|p| p.detail().contains("1024 bytes"))
        );
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_body_of_many_pieces_is_what_was_sent() {
        let memory = Memory::new(4 << 20);
        let sent: Vec<u8> = (0..3 * PIECE + 77).map(|i| (i % 251) as u8).collect();
        let mut upload = Upload::new(&memory);
        for part in sent.chunks(100_003) {
            assert!(upload.append(part, sent.len()).is_ok());
        }
        let (joined, share) = upload.join();
        assert!(joined == sent && memory.used() >= sent.len() - FREE);
        drop(share);
        assert_eq!(memory.used(), 0);
    }
}

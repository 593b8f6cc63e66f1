//! Reads the body of a request, with limits on its size, its time, and the memory of all bodies of
//! the server.

use super::problem::Problem;
use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How long a client that is refused while it sends may continue to send, so that it can read the
/// reason.
const FAREWELL: Duration = Duration::from_secs(5);
/// Unit in which memory is reserved.
const PAGE: usize = 1024;

/// Memory for bodies that are being read or waiting for their answer.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

impl Room {
    /// Memory for that many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / PAGE).clamp(1, Semaphore::MAX_PERMITS))))
    }
}

/// A body, with its reserved memory until it is dropped.
#[derive(Debug)]
pub struct Upload {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Released when it is dropped.
    pub held: Option<OwnedSemaphorePermit>,
}

impl Upload {
    fn append(&mut self, data: &[u8], most: usize, room: &Room) -> Result<(), Problem> {
        let length = self.bytes.len().saturating_add(data.len());
        if length > most {
            return Err(too_large(most));
        }
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(length.div_ceil(PAGE).saturating_sub(held)).unwrap_or(u32::MAX);
        if missing > 0 {
            let full = |_| Problem::busy("the bodies of other requests take all memory for bodies");
            let permit = room.0.clone().try_acquire_many_owned(missing).map_err(full)?;
            match &mut self.held {
                Some(held) => held.merge(permit),
                None => self.held = Some(permit),
            }
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

/// Reads a body of at most `most` bytes within `time_limit`.
///
/// # Errors
/// 413 for a larger body, 408 for a slower one, 503 without memory, 400 for an incomplete one.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    most: usize,
    time_limit: Duration,
    room: &Room,
) -> Result<Upload, Problem> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u64>().ok());
    if declared.is_some_and(|length| length > most as u64) {
        return Err(refuse(headers, body, too_large(most)).await);
    }
    match timeout(time_limit, collect(&mut body, most, room)).await {
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

async fn collect(body: &mut Body, most: usize, room: &Room) -> Result<Upload, Problem> {
    let mut upload = Upload { bytes: Vec::new(), held: None };
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body is incomplete"))?;
        if let Ok(data) = frame.into_data() {
            upload.append(&data, most, room)?;
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

    fn upload(room: &Room, most: usize, sizes: &[usize]) -> Result<Upload, Problem> {
        let mut upload = Upload { bytes: Vec::new(), held: None };
        sizes.iter().try_for_each(|&size| upload.append(&vec![7; size], most, room))?;
        Ok(upload)
    }

    #[test]
    fn bodies_share_what_room_there_is() {
        let room = Room::new(4 * PAGE);
        let first = upload(&room, 1 << 20, &[1, 1, PAGE]);
        assert_eq!(first.as_ref().map(|u| u.bytes.len()).ok(), Some(PAGE + 2));
        assert!(upload(&room, 1 << 20, &[3 * PAGE]).is_err_and(|p| p.detail().contains("memory")));
        assert!(upload(&room, 1 << 20, &[2 * PAGE]).is_ok());
        drop(first);
        assert!(upload(&room, 1 << 20, &[4 * PAGE]).is_ok());
        assert!(upload(&room, PAGE, &[PAGE, 1]).is_err_and(|p| p.detail().contains("1024 bytes")));
    }
}

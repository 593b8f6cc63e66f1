//! [`Delivery`]: an answer's body that holds what belongs to its request until all of it is sent, or
//! the client has gone.

use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A body, and what is dropped with it.
pub struct Delivery<T> {
    body: Body,
    _held: T,
}

impl<T> Delivery<T> {
    /// Holds something for as long as the body is there.
    pub fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> HttpBody for Delivery<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

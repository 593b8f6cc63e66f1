//! [`WriteTimeout`]: a connection that ends with an error when the client stops reading, or reads an
//! answer more slowly than its [`AnswerClock`] allows.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// When the answer of a connection must have been read. The connection and the answer's body share
/// it.
#[derive(Clone, Debug, Default)]
pub struct AnswerClock(Arc<Mutex<Phase>>);

#[derive(Debug, Default)]
enum Phase {
    /// No answer is on its way.
    #[default]
    Idle,
    /// Parts of the answer are still to be written.
    Sending(Instant),
    /// All of it is handed to the connection.
    Sent(Instant),
}

/// An answer whose parts are handed to the connection, until it is dropped.
#[derive(Debug)]
pub struct Sending(AnswerClock);

impl AnswerClock {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer begins; it must have been read by the `deadline`.
    pub fn begin(&self, deadline: Instant) -> Sending {
        *self.phase() = Phase::Sending(deadline);
        Sending(self.clone())
    }

    fn deadline(&self) -> Option<Instant> {
        match *self.phase() {
            Phase::Idle => None,
            Phase::Sending(deadline) | Phase::Sent(deadline) => Some(deadline),
        }
    }

    fn flushed(&self) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Sent(_)) {
            *phase = Phase::Idle;
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut phase = self.0.phase();
        if let Phase::Sending(deadline) = *phase {
            *phase = Phase::Sent(deadline);
        }
    }
}

/// A stream whose writes may each stall for `limit` at most, and whose answers end by their
/// deadline.
#[derive(Debug)]
pub struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    clock: AnswerClock,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream.
    pub fn new(stream: S, limit: Duration, clock: AnswerClock) -> Self {
        Self { stream, limit, clock, stalled: None }
    }

    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let deadline = self.clock.deadline();
        if polled.is_ready() {
            self.stalled = None;
            let is_late = deadline.is_some_and(|deadline| deadline < Instant::now());
            return if is_late { late() } else { polled };
        }
        let stalled = self.stalled.get_or_insert_with(|| {
            let patience = Instant::now() + self.limit;
            Box::pin(sleep_until(deadline.map_or(patience, |deadline| deadline.min(patience))))
        });
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => late(),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn late<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.bounded(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if polled.is_ready() {
            self.clock.flushed();
        }
        self.bounded(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that reads so many bytes.
    struct Reader(usize);

    impl AsyncWrite for Reader {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            if written == 0 { Poll::Pending } else { Poll::Ready(Ok(written)) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn write(
        stream: &mut WriteTimeout<impl AsyncWrite + Unpin>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        Pin::new(stream).poll_write(cx, &[0; 64])
    }

    fn is_late(polled: &Poll<io::Result<usize>>) -> bool {
        matches!(polled, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut)
    }

    fn in_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap_or_else(|e| panic!("{e}")).block_on(test);
    }

    const LONG: Duration = Duration::from_secs(3600);

    /// A client that reads a little now and then stalls no single write.
    #[test]
    fn an_answer_has_a_deadline_that_progress_does_not_move() {
        in_runtime(async {
            let clock = AnswerClock::default();
            let mut stream = WriteTimeout::new(Reader(1 << 20), LONG, clock.clone());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let sending = clock.begin(Instant::now() + LONG);
            assert!(matches!(write(&mut stream, &mut cx), Poll::Ready(Ok(64))));
            drop(sending);
            assert!(clock.deadline().is_some(), "what was handed over is not yet flushed");
            assert!(Pin::new(&mut stream).poll_flush(&mut cx).is_ready());
            assert!(clock.deadline().is_none(), "the answer was read");
            let _sending = clock.begin(Instant::now() - Duration::from_nanos(1));
            assert!(is_late(&write(&mut stream, &mut cx)));
        });
    }

    #[test]
    fn a_write_that_stalls_ends_at_the_deadline() {
        in_runtime(async {
            let clock = AnswerClock::default();
            let mut stream = WriteTimeout::new(Reader(64), LONG, clock.clone());
            let _sending = clock.begin(Instant::now() + Duration::from_millis(20));
            let stalled = std::future::poll_fn(|cx| match write(&mut stream, cx) {
                Poll::Ready(Ok(_)) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                polled => polled,
            });
            assert!(stalled.await.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        });
    }
}

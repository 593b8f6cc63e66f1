//! [`Shaped`]: a writer whose bytes leave at the rate of a [`TokenBucket`]. A message ends where it
//! is flushed.

use super::bucket::{Clock, Shape, TokenBucket, WallClock};
use std::io::{self, Write};

/// A writer, shaped or as fast as it can.
pub(crate) struct Shaped<W> {
    inner: W,
    clock: Box<dyn Clock>,
    shaping: Option<(Shape, TokenBucket)>,
    is_within_message: bool,
}

impl<W: Write> Shaped<W> {
    /// As fast as it can.
    pub(crate) fn new(inner: W) -> Self {
        Self::with_clock(inner, Box::new(WallClock::start()))
    }

    fn with_clock(inner: W, clock: Box<dyn Clock>) -> Self {
        Self { inner, clock, shaping: None, is_within_message: false }
    }

    /// From the next message on.
    pub(crate) fn shape(&mut self, shape: Option<Shape>) {
        self.shaping = shape.map(|shape| (shape, TokenBucket::new(shape.bytes_per_s)));
    }

    /// Waits for what an inference waits for before its first byte.
    pub(crate) fn set_up(&mut self) {
        if let Some((shape, bucket)) = &self.shaping
            && shape.setup_ns > 0
        {
            let free = bucket.free_at_ns().max(self.clock.now_ns());
            self.clock.wait_until(free.saturating_add(shape.setup_ns));
        }
    }
}

impl<W: Write> Write for Shaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((shape, bucket)) = &mut self.shaping else { return self.inner.write(bytes) };
        let now = self.clock.now_ns();
        if !self.is_within_message {
            bucket.begin(now);
            self.is_within_message = true;
        }
        let piece = &bytes[..bytes.len().min(shape.quantum())];
        // Bytes have arrived when the link has carried the last of them.
        self.clock.wait_until(bucket.take(now, piece.len() as u64));
        self.inner.write_all(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.is_within_message = false;
        self.inner.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    };

    /// A clock that every wait moves on, a little too far; and a writer that notes when bytes come.
    #[derive(Clone, Default)]
    struct Fake(Arc<AtomicU64>, Arc<Mutex<Vec<(u64, usize)>>>);

    const LATE_NS: u64 = 70_000;

    impl Clock for Fake {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn wait_until(&self, ns: u64) {
            if ns > self.now_ns() {
                self.0.store(ns + LATE_NS, Ordering::Relaxed);
            }
        }
    }

    impl Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.lock().unwrap().push((self.now_ns(), bytes.len()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// When a message of so many bytes has arrived, and in how many writes.
    fn sent(writer: &mut Shaped<Fake>, fake: &Fake, bytes: usize) -> (u64, usize) {
        fake.1.lock().unwrap().clear();
        writer.set_up();
        writer.write_all(&vec![1; bytes]).unwrap();
        writer.flush().unwrap();
        let arrived = fake.1.lock().unwrap();
        assert_eq!(arrived.iter().map(|(_, count)| count).sum::<usize>(), bytes);
        (arrived.last().unwrap().0, arrived.len())
    }

    #[test]
    fn bytes_arrive_at_the_declared_rate_after_the_setup() {
        for mbit in [1, 5, 20, 100] {
            let fake = Fake::default();
            let mut writer = Shaped::with_clock(fake.clone(), Box::new(fake.clone()));
            let shape = Shape { bytes_per_s: mbit * 125_000, setup_ns: 10_000_000 };
            writer.shape(Some(shape));
            let mut begun = 0;
            for bytes in [1_000_000, 50_000] {
                let (arrived, writes) = sent(&mut writer, &fake, bytes);
                let least = begun + shape.setup_ns + shape.transfer_ns(bytes as u64);
                assert!((least..=least + 2 * LATE_NS).contains(&arrived), "{mbit}: {arrived}");
                assert!(writes > 1, "it flows");
                // A pause collects no tokens.
                begun = arrived + 500_000_000;
                fake.0.store(begun, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn without_a_shape_nothing_waits() {
        let fake = Fake::default();
        let mut writer = Shaped::with_clock(fake.clone(), Box::new(fake.clone()));
        assert_eq!(sent(&mut writer, &fake, 1_000_000), (0, 1));
        writer.shape(Some(Shape { bytes_per_s: 1000, setup_ns: 0 }));
        let slow = sent(&mut writer, &fake, 1000).0;
        assert!(slow >= 1_000_000_000);
        writer.shape(None);
        assert_eq!(sent(&mut writer, &fake, 1000).0, slow);
    }
}

//! [`Throughput`]: how fast each direction of the link really is, from messages of two sizes: what
//! is the same for both (waking up, answering) drops out.

use super::{
    SplitRunError,
    layout::{self, ASK_HEAD, REPLY_HEAD},
    server::{ServerEnd, Shapes, go_on},
};
use crate::remote::{
    frame::{Kind, OVERHEAD},
    link::Event,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

/// Time of the smaller message at the declared rate.
const SMALLER: Duration = Duration::from_millis(100);
/// Bounds of its size, bytes.
const SIZES: std::ops::RangeInclusive<u64> = 4096..=4 << 20;
/// The larger message is so many times as large.
const TIMES: u64 = 3;
/// Each message is sent so often; the fastest counts, as only waiting makes it slower.
const REPEATS: usize = 2;
/// A link is slower than declared when it lacks more than this share.
const TOLERANCE: f64 = 0.1;
const SLICE: Duration = Duration::from_millis(50);

/// Rates of the link, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// To the server.
    pub there_bytes_per_s: f64,
    /// Back.
    pub back_bytes_per_s: f64,
}

impl Throughput {
    /// The directions that are more than a tenth slower than declared: a name, the declared and the
    /// measured rate.
    #[must_use]
    pub fn slower_than(&self, declared: Shapes) -> Vec<(&'static str, f64, f64)> {
        let ways = [
            ("to the server", declared.there, self.there_bytes_per_s),
            ("back", declared.back, self.back_bytes_per_s),
        ];
        let slower = |(name, shape, measured): (&'static str, Option<super::Shape>, f64)| {
            let declared = shape?.bytes_per_s as f64;
            (measured < (1.0 - TOLERANCE) * declared).then_some((name, declared, measured))
        };
        ways.into_iter().filter_map(slower).collect()
    }
}

/// Bytes of the frames that measure one direction: to the server, and back.
fn sizes(size: u64, is_back: bool) -> (u64, u64) {
    if is_back { (0, size) } else { (size, 0) }
}

pub(super) fn measure(
    server: &mut ServerEnd,
    shapes: Shapes,
    timeout: Duration,
    interrupted: &AtomicBool,
) -> Result<Throughput, SplitRunError> {
    let mut rates = [0.0; 2];
    for (index, shape) in [shapes.there, shapes.back].into_iter().enumerate() {
        let rate = shape.map_or(u64::MAX, |shape| shape.bytes_per_s);
        let smaller = (u128::from(rate) * SMALLER.as_millis() / 1000).min(u128::from(*SIZES.end()));
        let smaller = (smaller as u64).max(*SIZES.start());
        let mut fastest = |size: u64| -> Result<f64, SplitRunError> {
            let mut least = f64::INFINITY;
            for _ in 0..REPEATS {
                let (there, back) = sizes(size, index == 1);
                let allowed = timeout + allowed(shapes, there, back);
                least = least.min(echoed(server, there, back, allowed, interrupted)?);
            }
            Ok(least)
        };
        let (short, long) = (fastest(smaller)?, fastest(TIMES * smaller)?);
        // A link that is faster than this can time has no measured limit.
        rates[index] = ((TIMES - 1) * smaller) as f64 / (long - short).max(1e-9);
    }
    server.touch();
    Ok(Throughput { there_bytes_per_s: rates[0], back_bytes_per_s: rates[1] })
}

fn allowed(shapes: Shapes, there: u64, back: u64) -> Duration {
    let head = (ASK_HEAD.max(REPLY_HEAD) + OVERHEAD + 8) as u64;
    let ns = |shape: Option<super::Shape>, bytes: u64| {
        shape.map_or(0, |shape| shape.transfer_ns(bytes + head))
    };
    Duration::from_nanos(ns(shapes.there, there).saturating_add(ns(shapes.back, back)))
}

/// Seconds until the answer to a message has come.
fn echoed(
    server: &mut ServerEnd,
    there: u64,
    back: u64,
    allowed: Duration,
    interrupted: &AtomicBool,
) -> Result<f64, SplitRunError> {
    let lost = |reason: String| SplitRunError::Lost { times: 1, reason };
    let payload = layout::echo(0, there, back);
    let begin = Instant::now();
    let (incoming, writer, carrier) = server.connection.link().ends();
    // A server that takes nothing would block this thread for ever: another one sends.
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| writer.send_tensors(&payload, false));
        let answered = loop {
            match incoming.wait(SLICE) {
                Some(Event::Frame(frame)) if frame.kind == Kind::Tensors => {
                    break Ok(begin.elapsed().as_secs_f64());
                }
                Some(Event::Frame(_) | Event::Greeted(_) | Event::Done) => {}
                Some(Event::Ended(error)) => break Err(lost(error.to_string())),
                None if begin.elapsed() > allowed => {
                    let seconds = allowed.as_secs_f64();
                    break Err(lost(format!("no answer within {seconds:.1} s")));
                }
                None => {
                    if let Err(error) = go_on(interrupted) {
                        break Err(error);
                    }
                }
            }
        };
        if answered.is_err() {
            carrier.kill();
        }
        let _ = sender.join();
        answered
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::Shape;

    #[test]
    fn a_link_that_lacks_more_than_a_tenth_is_slower() {
        let shape = |bytes_per_s| Some(Shape { bytes_per_s, setup_ns: 0 });
        let declared = Shapes { there: shape(1000), back: shape(500) };
        let measured = |there_bytes_per_s, back_bytes_per_s| {
            Throughput { there_bytes_per_s, back_bytes_per_s }.slower_than(declared)
        };
        assert_eq!(measured(901.0, 451.0), []);
        assert_eq!(measured(899.0, 600.0), [("to the server", 1000.0, 899.0)]);
        assert_eq!(measured(1e9, 100.0), [("back", 500.0, 100.0)]);
        let unshaped = Throughput { there_bytes_per_s: 1.0, back_bytes_per_s: 1.0 };
        assert_eq!(unshaped.slower_than(Shapes::default()), []);
    }
}

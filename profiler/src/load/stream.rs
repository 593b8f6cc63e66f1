//! The stream: the triad `a[i] = b[i] + s c[i]` of the STREAM benchmark (McCalpin 1995) over three
//! arrays of f32, a piece at a time. Counted are 12 bytes and 2 FLOP per element; that a store first
//! reads its cache line is not counted.

use super::StreamSpec;
use std::{
    fs,
    time::{Duration, Instant},
};

/// Elements of a pass: 1.2 MB of traffic.
const PIECE: usize = 100_000;
const ELEMENT_BYTES: u64 = 12;
const ELEMENT_FLOPS: u64 = 2;
/// Last-level cache where the system does not report it, bytes.
const USUAL_CACHE: u64 = 32 << 20;
/// A buffer is this many times the last-level cache.
const TIMES_CACHE: u64 = 4;

/// The arrays, and the pace.
pub(super) struct Stream {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    next: usize,
    rate_bytes_per_s: Option<u64>,
    /// Since when the pace is kept, and the bytes since then.
    paced: Option<(Instant, u64)>,
}

impl Stream {
    pub(super) fn new(spec: StreamSpec, cache_bytes: Option<u64>) -> Result<Self, String> {
        let StreamSpec { rate_bytes_per_s, size_bytes } = spec;
        let size = size_bytes.unwrap_or(cache_bytes.unwrap_or(USUAL_CACHE) * TIMES_CACHE);
        let elements = usize::try_from(size / ELEMENT_BYTES).map_err(|e| e.to_string())?;
        let array = |value: f32| {
            let mut array = Vec::new();
            let too_large = |_| format!("no memory for a stream over {size} bytes");
            array.try_reserve_exact(elements).map_err(too_large)?;
            array.resize(elements, value);
            Ok::<Vec<f32>, String>(array)
        };
        let (a, b, c) = (array(0.0)?, array(1.0)?, array(2.0)?);
        Ok(Self { a, b, c, next: 0, rate_bytes_per_s, paced: None })
    }

    pub(super) fn footprint_bytes(&self) -> u64 {
        self.a.len() as u64 * ELEMENT_BYTES
    }

    /// Forgets the pace: a pause is not caught up with.
    pub(super) fn rest(&mut self) {
        self.paced = None;
    }

    /// One piece; its bytes and FLOP. With a rate it waits until the piece is due.
    pub(super) fn pass(&mut self) -> (u64, u64) {
        let end = (self.next + PIECE).min(self.a.len());
        let range = self.next..end;
        triad(&mut self.a[range.clone()], &self.b[range.clone()], &self.c[range.clone()]);
        std::hint::black_box(&self.a[range.clone()]);
        self.next = if end == self.a.len() { 0 } else { end };
        let elements = range.len() as u64;
        let bytes = elements * ELEMENT_BYTES;
        self.wait(bytes);
        (bytes, elements * ELEMENT_FLOPS)
    }

    fn wait(&mut self, bytes: u64) {
        let Some(rate) = self.rate_bytes_per_s else { return };
        let (since, done) = self.paced.unwrap_or_else(|| (Instant::now(), 0));
        let done = done + bytes;
        self.paced = Some((since, done));
        let due = Duration::from_secs_f64(done as f64 / rate as f64);
        if let Some(early) = due.checked_sub(since.elapsed()) {
            std::thread::sleep(early);
        }
    }
}

fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + 3.0 * c;
    }
}

/// Size of the last-level cache of a core, bytes, as Linux reports it; `None` elsewhere.
pub(super) fn cache_bytes(core: usize) -> Option<u64> {
    let folder = format!("/sys/devices/system/cpu/cpu{core}/cache");
    let size = |entry: fs::DirEntry| {
        let size = fs::read_to_string(entry.path().join("size")).ok()?;
        parse_size(size.trim())
    };
    fs::read_dir(folder).ok()?.flatten().filter_map(size).max()
}

/// `32768K` or `32M`.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return text.parse().ok(),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn spec(rate_bytes_per_s: Option<u64>, size: u64) -> StreamSpec {
        StreamSpec { rate_bytes_per_s, size_bytes: Some(size) }
    }

    #[test]
    fn passes_go_round_the_whole_buffer_and_count_it() {
        let mut stream = Stream::new(spec(None, 3 << 20), None).unwrap();
        let all = stream.footprint_bytes();
        let (mut bytes, mut passes) = (0, 0);
        while bytes < all {
            let (more, flops) = stream.pass();
            assert_eq!(flops * 6, more);
            (bytes, passes) = (bytes + more, passes + 1);
        }
        assert_eq!((bytes, passes, stream.next), (all, 3, 0));
        assert!(stream.a.iter().all(|&a| a == 7.0));
    }

    #[test]
    fn a_rate_is_not_exceeded() {
        let mut stream = Stream::new(spec(Some(50_000_000), 1 << 20), None).unwrap();
        let start = Instant::now();
        let bytes: u64 = (0..5).map(|_| stream.pass().0).sum();
        assert!(start.elapsed().as_secs_f64() * 50e6 >= bytes as f64);
    }

    #[test]
    fn sizes_of_caches_are_read() {
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!([parse_size("1M"), parse_size("512")], [Some(1 << 20), Some(512)]);
        assert_eq!([parse_size(""), parse_size("K"), parse_size("xM")], [None; 3]);
    }
}

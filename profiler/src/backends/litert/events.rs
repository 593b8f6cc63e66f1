//! LiteRT's profile of one run: which events are kernels, and how their times become samples.
//!
//! Elapsed times are truncated to microseconds: a kernel of 0.9 us reads 0. The middle of the
//! interval is used (elapsed + 0.5 us), which is unbiased on average, so that the sum over many
//! small kernels is not too low.

/// One event of the library's profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Name of the kernel.
    pub tag: String,
    /// `ProfiledEventType`.
    pub kind: i32,
    /// Of a builtin kernel: its operator's place in the file. Of one of XNNPACK: its place in the
    /// part of the model that XNNPACK got.
    pub index: usize,
    /// How long it took.
    pub elapsed_us: u64,
}

/// Number of events that the library's profiler stores.
pub(super) const CAPACITY: usize = 2048;

/// An operator run by a builtin kernel.
const OPERATOR: i32 = 2;
/// A kernel run by a delegate.
const DELEGATE_OPERATOR: i32 = 8;

/// One executed kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kernel {
    /// The builtin kernel of the operator at this place in the file.
    Builtin(usize, String),
    /// A kernel of XNNPACK: which part of the model (in execution order), and its name.
    Xnnpack(usize, String),
}

impl Kernel {
    /// The engine's own name of it.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Builtin(_, name) | Self::Xnnpack(_, name) => name,
        }
    }
}

/// The kernels of one run in execution order, with their times in ns.
pub(super) fn kernels(events: &[Event]) -> Vec<(Kernel, u64)> {
    let mut kernels = Vec::new();
    let mut part = 0;
    let mut last: Option<usize> = None;
    for event in events {
        let ns = event.elapsed_us.saturating_mul(1000).saturating_add(500);
        match event.kind {
            OPERATOR => {
                part += usize::from(last.take().is_some());
                kernels.push((Kernel::Builtin(event.index, event.tag.clone()), ns));
            }
            DELEGATE_OPERATOR => {
                part += usize::from(last.is_some_and(|last| event.index <= last));
                last = Some(event.index);
                kernels.push((Kernel::Xnnpack(part, event.tag.clone()), ns));
            }
            _ => {}
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tag: &str, kind: i32, index: usize, elapsed_us: u64) -> Event {
        Event { tag: tag.to_owned(), kind, index, elapsed_us }
    }

    #[test]
    fn kernels_are_told_from_other_events_and_counted_by_part() {
        let events = [
            event("Invoke", 1, 0, 90),
            event("Convolution (NHWC, F32) IGEMM", 8, 0, 40),
            event("Clamp (NC)", 8, 1, 0),
            event("GATHER", 2, 7, 3),
            event("Add (ND)", 8, 0, 1),
            event("Add (ND)", 8, 0, 2),
            event("Invoke", 32, usize::MAX, 4_294_967_296),
        ];
        let (xnnpack, builtin) = (
            |part, tag: &str| Kernel::Xnnpack(part, tag.to_owned()),
            |at, tag: &str| Kernel::Builtin(at, tag.to_owned()),
        );
        let expected = [
            (xnnpack(0, "Convolution (NHWC, F32) IGEMM"), 40_500),
            (xnnpack(0, "Clamp (NC)"), 500),
            (builtin(7, "GATHER"), 3_500),
            (xnnpack(1, "Add (ND)"), 1_500),
            (xnnpack(2, "Add (ND)"), 2_500),
        ];
        assert_eq!(kernels(&events), expected);
    }
}

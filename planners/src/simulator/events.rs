//! [`EventQueue`]: the events in order of time. Events at the same time come in the order in which
//! they were scheduled.

use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A processor completes its task, unless the task has been rescheduled since, in which case
    /// the generation differs.
    Finish { processor: u32, generation: u32 },
    /// A frame reaches the first stage of a stream.
    Frame { stream: u32 },
    /// A step of temperatures, governors and policies.
    Tick,
}

#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
}

impl EventQueue {
    pub(super) fn at(&mut self, time_ns: u64, event: Event) {
        self.heap.push(Reverse((time_ns, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// The next event no later than `until_ns`.
    pub(super) fn next(&mut self, until_ns: u64) -> Option<(u64, Event)> {
        if self.heap.peek()?.0.0 > until_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

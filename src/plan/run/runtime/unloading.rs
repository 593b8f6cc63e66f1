//! Subgraphs that make room for others. Those of other processors are unloaded without waiting for
//! them: a process that does not answer holds up what needs its memory, and nothing else.

use super::{
    super::memory::{Place, Room},
    Runtime,
};
use vitempo_profiler::live::{LiveError, Unloaded};

/// A processor that was asked to unload something so long ago does not answer: room is made
/// elsewhere, until it does or its process is ended, ns.
const ANSWER_NS: u64 = 200_000_000;

impl Runtime<'_> {
    /// Parts of a processor that are unloaded before these are loaded; `None` as long as there is
    /// no room for them.
    pub(super) fn make_room(
        &mut self,
        processor: usize,
        parts: &[(usize, u64)],
        now: u64,
    ) -> Option<Vec<usize>> {
        let (busy, unloads) = (&self.busy, &self.unloads);
        let answers = |p: usize| {
            unloads[p].front().is_none_or(|since| now.saturating_sub(*since) < ANSWER_NS)
        };
        match self.memory.room(processor, parts, |p| !busy[p], answers) {
            Room::Now(unload) => return Some(unload),
            Room::Elsewhere(places) => places.into_iter().for_each(|place: Place| {
                self.evicted(place, now);
                self.unload(place.0, &[place.1], now);
            }),
            Room::Later => {}
        }
        None
    }

    /// Asks a processor to unload parts; [`Self::unloaded`] has what comes of it.
    pub(super) fn unload(&mut self, processor: usize, parts: &[usize], now: u64) {
        parts.iter().for_each(|&part| self.memory.leave((processor, part)));
        match self.pieces.unload(processor, parts) {
            Ok(()) => self.unloads[processor].push_back(now),
            Err(error) => self.unload_failed(processor, parts, &error),
        }
    }

    pub(super) fn unloaded(&mut self, unloaded: Unloaded) {
        let Unloaded { processor, parts, noticed_ns, result } = unloaded;
        self.unloads[processor].pop_front();
        match result {
            Ok(resident_bytes) => {
                parts.iter().for_each(|&part| self.memory.left((processor, part)));
                let loaded_bytes = self.memory.bytes_on(processor);
                self.resident(processor, resident_bytes, loaded_bytes, noticed_ns);
            }
            Err(error) => self.unload_failed(processor, &parts, &error),
        }
        self.start_all(Vec::new());
    }

    /// An engine that ended holds nothing any more.
    fn unload_failed(&mut self, processor: usize, parts: &[usize], error: &LiveError) {
        parts.iter().for_each(|&part| self.memory.left((processor, part)));
        self.engine_failed(processor, error, false);
    }
}

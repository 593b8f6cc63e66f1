//! Caches facts about values with many readers, so that each reader need not scan all the others.

use super::Handler;
use crate::{
    ValueId,
    patterns::{readers::Reading, rewriter::Rewriter},
};
use foldhash::HashMap;

/// Whether a transpose can pass all readers of a value.
#[derive(Clone, Copy, Debug)]
enum Readers {
    /// It can, as long as no more than these read it.
    Handled(u64),
    /// Not this one.
    Barred(Reading),
}

/// The values that many nodes read.
#[derive(Debug, Default)]
pub(super) struct Crowds(HashMap<ValueId, Readers>);

impl Crowds {
    /// Whether a transpose can pass all readers of a value.
    pub(super) fn are_all_handled(&mut self, graph: &Rewriter, value: ValueId) -> bool {
        let many = graph.many_readings(value);
        let is_handled = |reading: &Reading| Handler::of(graph, reading.node()).is_some();
        match (many, self.0.get(&value)) {
            (Some(many), Some(Readers::Handled(known))) if many == *known => return true,
            (Some(_), Some(Readers::Barred(reading)))
                if graph.has_reading(value, *reading) && !is_handled(reading) =>
            {
                return false;
            }
            _ => {}
        }
        let mut readings = graph.readings(value);
        graph.spend(readings.len());
        let barred = readings.find(|reading| !is_handled(reading));
        if let Some(many) = many {
            self.0.insert(value, barred.map_or(Readers::Handled(many), Readers::Barred));
        }
        barred.is_none()
    }
}

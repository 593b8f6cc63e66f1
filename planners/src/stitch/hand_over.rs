//! [`HandOver`]: the time that a subgraph takes among others beside its latency alone: messages
//! between processes or threads, tensors copied and converted, caches that other subgraphs have
//! used since. It occupies the subgraph's processor. A variant that runs whole is run subgraph by
//! subgraph too, so that each has its hand-over.

use super::{Order, StitchError, Zoo};
use crate::cost::Interval;

/// The hand-over of each subgraph of a zoo, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandOver {
    /// Not known: costs do not contain it.
    #[default]
    Unknown,
    /// Given: the same on each processor.
    Given(u64),
    /// Measured: by processor.
    Measured(Vec<Interval>),
}

impl HandOver {
    /// The hand-over of a subgraph on a processor, ns; 0 where it is not known.
    #[must_use]
    pub fn on(&self, processor: usize) -> Interval {
        match self {
            Self::Unknown => Interval::ZERO,
            Self::Given(ns) => Interval::exact(*ns),
            Self::Measured(each) => each.get(processor).copied().unwrap_or(Interval::ZERO),
        }
    }
}

impl Zoo {
    /// The same tasks, with this hand-over in the cost of each subgraph.
    ///
    /// # Errors
    /// [`StitchError::Zoo`] where it is not measured for each processor.
    pub fn with_hand_over(mut self, hand_over: HandOver) -> Result<Self, StitchError> {
        if let HandOver::Measured(each) = &hand_over
            && each.len() != self.processors().len()
        {
            return Err(StitchError::zoo(format!(
                "hand-over is measured on {} processors, there are {}",
                each.len(),
                self.processors().len()
            )));
        }
        self.hand_over = hand_over;
        Ok(self)
    }

    /// The same tasks, with this hand-over, ns, in the cost of each subgraph instead of the one
    /// that they have; `None`: as they are.
    #[must_use]
    pub fn with_given_hand_over(mut self, ns: Option<u64>) -> Self {
        if let Some(ns) = ns {
            self.hand_over = HandOver::Given(ns);
        }
        self
    }

    /// The hand-over in the cost of each subgraph.
    #[must_use]
    pub const fn hand_over(&self) -> &HandOver {
        &self.hand_over
    }

    /// Latency of one subgraph in an order, with the transfer of its output and its hand-over, ns;
    /// `None` where it cannot run or there is no link.
    #[must_use]
    pub fn step_ns(
        &self,
        task: usize,
        order: &Order,
        position: usize,
        variant: usize,
    ) -> Option<Interval> {
        let here = *order.processors().get(position)?;
        Some(self.subgraph_ns(task, order, position, variant)? + self.hand_over.on(here))
    }
}

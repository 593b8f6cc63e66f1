//! [`Expectation`]: which of several ways a query takes on arrival: the one that is expected to end
//! first, given the expected load of all earlier queries on each processor. Later queueing and
//! contention are not known on arrival. Times are ns.

use super::model::MOST_PROCESSORS;

/// One piece of work on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the processor.
    pub processor: usize,
    /// How long it takes there, alone, ns.
    pub ns: u64,
}

/// The times at which processors are expected to become idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    free_ns: [u64; MOST_PROCESSORS],
}

impl Expectation {
    /// The index of the way that is expected to end first, among equals the first; its load is added
    /// to the processors. `None` without ways. A way on a processor number of [`MOST_PROCESSORS`] or
    /// above is not considered.
    pub fn choose<'s>(
        &mut self,
        at_ns: u64,
        ways: impl IntoIterator<Item = &'s [Step]>,
    ) -> Option<usize> {
        let mut best: Option<(u64, usize, Self)> = None;
        for (index, steps) in ways.into_iter().enumerate() {
            if steps.iter().any(|step| step.processor >= MOST_PROCESSORS) {
                continue;
            }
            let (end, after) = self.with(at_ns, steps);
            if best.as_ref().is_none_or(|(least, ..)| end < *least) {
                best = Some((end, index, after));
            }
        }
        let (_, index, after) = best?;
        *self = after;
        Some(index)
    }

    /// The expected end of a query, and the expectation with its load.
    fn with(&self, at_ns: u64, steps: &[Step]) -> (u64, Self) {
        let (mut end, mut after) = (at_ns, self.clone());
        for step in steps {
            end = end.max(after.free_ns[step.processor]).saturating_add(step.ns);
            after.free_ns[step.processor] = end;
        }
        (end, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_that_ends_first_is_taken_until_its_processor_is_loaded() {
        let fast = [Step { processor: 0, ns: 10 }];
        let slow = [Step { processor: 1, ns: 15 }];
        let mut expected = Expectation::default();
        let mut next = |at| expected.choose(at, [&fast[..], &slow[..]]);
        assert_eq!([next(0), next(0), next(0), next(0)], [Some(0), Some(1), Some(0), Some(0)]);
        assert_eq!(next(100), Some(0), "idle again");
        assert_eq!(expected.choose(0, []), None);
        let beyond = [Step { processor: MOST_PROCESSORS, ns: 1 }];
        assert_eq!(expected.choose(0, [&beyond[..]]), None);
    }
}

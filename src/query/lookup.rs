//! Looks up architectures: their rows and the sums of these, for several architectures at a time,
//! one step after the other over all of them.
//!
//! The classes and numbers of parts determine the rows; the amounts of rows depend on the working
//! set of all of them. Rows without an amount for a working set are computed together, after all
//! others were looked up.

use super::{
    Amount, Meter,
    asked::{Asked, Found},
    known::{Known, known_of},
    link::{Class, links},
    table::Place,
    tables::{COMPARED, Tables},
};
use std::{collections::BTreeSet, ops::Range};
use vitempo_predictors::WorkingSetBytes;
use vitempo_search_space::Architecture;

/// Architectures with their rows, of where these end.
fn each(of: &[(usize, usize)]) -> impl Iterator<Item = (usize, Range<usize>)> {
    let starts = std::iter::once(0).chain(of.iter().map(|(_, end)| *end));
    starts.zip(of).map(|(start, &(index, end))| (index, start..end))
}

/// An architecture some of whose rows have no amount in its context yet.
pub(super) struct Late<M: Meter> {
    index: usize,
    /// Its rows, and how often each counts.
    questions: Vec<(Place, M::Context)>,
    times: Vec<i64>,
    /// Those of its rows that have none.
    missing: Vec<(Place, M::Context)>,
}

impl<M: Meter> Tables<M> {
    /// Adds the rows of an architecture to what is asked; or classes that must be learned first to
    /// `unknown`.
    pub(super) fn ask(
        &self,
        architecture: &Architecture,
        asked: &mut Asked<M::Context>,
        unknown: &mut BTreeSet<Class>,
    ) -> Found {
        let (mut new, mut waiting) = (false, false);
        for (link, times) in links(architecture) {
            let own = link.class();
            match known_of(&self.classes, own) {
                (class, Known::Nothing) => {
                    unknown.insert(class);
                    waiting = true;
                }
                (_, Known::Template(lookup)) if lookup.template.covers(link.numbers) => {
                    new |= self.compared[usize::from(own)] < COMPARED;
                    asked.keys.extend(lookup.keys(link.numbers));
                    asked.times.resize(asked.keys.len(), times);
                }
                _ => return Found::Irregular,
            }
        }
        if waiting { Found::Waiting } else { Found::Rows(new) }
    }

    /// The sums of architectures whose rows are all there; the others are `late`.
    pub(super) fn look_up(
        &mut self,
        asked: &mut Asked<M::Context>,
        sums: &mut [M::Amount],
        late: &mut Vec<Late<M>>,
    ) {
        let Asked { keys, times, of, places, questions } = asked;
        self.rows.find(keys, places);
        for (_, rows) in each(of) {
            let own = places[rows.clone()].iter().zip(&times[rows.clone()]);
            let context = self.meter.context(
                &own.fold(WorkingSetBytes::default(), |bytes, (&place, &times)| {
                    bytes.plus(self.rows.bytes(place), times)
                }),
            );
            questions.extend(places[rows].iter().map(|&place| (place, context)));
        }
        let (mut amounts, mut own) = (self.rows.amounts(questions), Vec::new());
        for (index, rows) in each(of) {
            own.clear();
            own.extend(amounts.by_ref().take(rows.len()));
            let times = &times[rows.clone()];
            match summed(&own, times) {
                Some(sum) => sums[index] = sum,
                None => {
                    let questions = questions[rows].to_vec();
                    let gaps = own.iter().zip(&questions).filter(|(amount, _)| amount.is_none());
                    let missing = gaps.map(|(_, question)| *question).collect();
                    late.push(Late { index, questions, times: times.to_vec(), missing });
                }
            }
        }
    }

    /// Computes what rows come to that have no amount yet, all together, and the sums of their
    /// architectures.
    pub(super) fn catch_up(&mut self, late: Vec<Late<M>>, sums: &mut [M::Amount]) {
        self.rows
            .fill(&self.meter, late.iter().flat_map(|one| one.missing.iter().copied()).collect());
        for Late { index, questions, times, .. } in late {
            let amounts: Vec<Option<&M::Amount>> = self.rows.amounts(&questions).collect();
            sums[index] = summed(&amounts, &times).unwrap_or_default();
        }
    }
}

/// The sum over rows, each so many times; `None` where one is missing.
fn summed<A: Amount>(rows: &[Option<&A>], times: &[i64]) -> Option<A> {
    rows.iter()
        .zip(times)
        .try_fold(A::default(), |sum, (amount, times)| Some(sum.plus((*amount)?, *times)))
}

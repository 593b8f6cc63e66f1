//! From architectures to their rows and to their sums: several architectures at a time, one step after the other over all of them.
//!
//! Which rows there are follows from the classes and numbers of stages; what rows come to, from the footprint that all of them make. Rows that have no
//! amount in a footprint yet are computed together, after all that could be looked up was.

use super::{
    Amount, Meter,
    link::{Class, links},
    table::{Key, Place},
    tables::{COMPARED, Known, Tables, known_of},
};
use std::{collections::BTreeSet, ops::Range};
use vitempo_predictors::Span;
use vitempo_search_space::Architecture;

/// What tables have of an architecture.
pub(super) enum Found {
    /// All its rows; and whether its answer is yet to be compared.
    Rows(bool),
    /// Classes must be learned first.
    Waiting,
    /// Nothing to say.
    Irregular,
}

/// The rows of several architectures.
#[derive(Default)]
pub(super) struct Asked {
    pub keys: Vec<Key>,
    /// How often each row counts.
    times: Vec<i64>,
    /// Which architecture, and where its rows end.
    pub of: Vec<(usize, usize)>,
}

impl Asked {
    /// Forgets what was asked after the rows of the last whole architecture.
    pub(super) fn take_back(&mut self) {
        let whole = self.of.last().map_or(0, |(_, end)| *end);
        self.keys.truncate(whole);
        self.times.truncate(whole);
    }

    /// The architectures with their rows.
    fn each(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.of.iter().map(|(_, end)| *end));
        starts.zip(&self.of).map(|(start, &(index, end))| (index, start..end))
    }
}

/// An architecture some of whose rows have no amount in its context yet.
pub(super) struct Late<M: Meter> {
    index: usize,
    /// Its amounts, and how often each counts.
    rows: Vec<(Option<M::Amount>, i64)>,
    /// Those that are missing, in their order.
    missing: Vec<(Place, M::Context)>,
}

impl<M: Meter> Tables<M> {
    /// Adds the rows of an architecture to what is asked; or classes that must be learned first to `unknown`.
    pub(super) fn ask(&self, architecture: &Architecture, asked: &mut Asked, unknown: &mut BTreeSet<Class>) -> Found {
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
                    asked.keys.extend(lookup.groups.iter().map(|&group| self.rows.key(group, link.numbers)));
                    asked.times.resize(asked.keys.len(), times);
                }
                _ => return Found::Irregular,
            }
        }
        if waiting { Found::Waiting } else { Found::Rows(new) }
    }

    /// The sums of architectures whose rows are all there; the others are `late`.
    pub(super) fn look_up(&mut self, asked: &Asked, sums: &mut [M::Amount], late: &mut Vec<Late<M>>) {
        let places = self.rows.find(&asked.keys);
        let mut questions = Vec::with_capacity(places.len());
        for (_, rows) in asked.each() {
            let own = places[rows.clone()].iter().zip(&asked.times[rows.clone()]);
            let context = self.meter.context(&own.fold(Span::default(), |span, (&place, &times)| span.plus(self.rows.span(place), times)));
            questions.extend(places[rows].iter().map(|&place| (place, context)));
        }
        let mut amounts = Vec::with_capacity(questions.len());
        self.rows.amounts(&questions, |amount| amounts.push(amount.copied()));
        for (index, rows) in asked.each() {
            let own = || amounts[rows.clone()].iter().map(Option::as_ref).zip(asked.times[rows.clone()].iter().copied());
            match summed(own()) {
                Some(sum) => sums[index] = sum,
                None => {
                    let missing = own().zip(&questions[rows.clone()]).filter(|((amount, _), _)| amount.is_none()).map(|(_, question)| *question);
                    late.push(Late { index, rows: own().map(|(amount, times)| (amount.copied(), times)).collect(), missing: missing.collect() });
                }
            }
        }
    }

    /// Computes what rows come to that have no amount yet, all together, and the sums of their architectures.
    pub(super) fn catch_up(&mut self, late: Vec<Late<M>>, sums: &mut [M::Amount]) {
        self.rows.fill(&self.meter, late.iter().flat_map(|one| one.missing.iter().copied()).collect());
        for Late { index, mut rows, missing } in late {
            let mut gaps = rows.iter_mut().map(|(amount, _)| amount).filter(|amount| amount.is_none());
            self.rows.amounts(&missing, |amount| {
                if let Some(gap) = gaps.next() {
                    *gap = amount.copied();
                }
            });
            sums[index] = summed(rows.iter().map(|(amount, times)| (amount.as_ref(), *times))).unwrap_or_default();
        }
    }
}

/// The sum over rows, each so many times; `None` where one is missing.
fn summed<'a, A: Amount + 'a>(rows: impl IntoIterator<Item = (Option<&'a A>, i64)>) -> Option<A> {
    rows.into_iter().try_fold(A::default(), |sum, (amount, times)| Some(sum.plus(amount?, times)))
}

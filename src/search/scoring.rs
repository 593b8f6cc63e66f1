//! [`score`]: the best architectures and the Pareto front of a part of a space, and [`merge`] those
//! of several parts, which are those of the whole: a part is small work for one task of many.
//!
//! A part is evaluated with tables of its own, so that its result depends on nothing but its
//! architectures. Merging does not depend on the order of the parts.

use super::{
    Candidate, Device, Objective, Options, SearchError, dominance::dominates, evolution::Search,
};
use std::{cmp::Ordering, collections::HashSet};
use vitempo_graph::Prediction;
use vitempo_search_space::{Architecture, Space, SpaceError};

/// Architectures that are evaluated at once.
const AT_ONCE: usize = 8192;

/// How a part is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreOptions {
    /// Most architectures of the list of the best.
    pub top: usize,
    /// Whether a ceiling holds for the upper end of the interval rather than for the forecast
    /// itself.
    pub upper: bool,
    /// Whether texts that are no architectures of the space are left out and listed, rather than
    /// an error.
    pub reject: bool,
}

/// An architecture among the best or of the front.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its encoding.
    pub encoding: String,
    /// Its score; larger is better.
    pub score: f64,
    /// For each device its latency and the ends of the interval, ns.
    pub latencies: Vec<[f64; 3]>,
}

/// A text that is no architecture of the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the part, from 0.
    pub place: u64,
    /// What is wrong.
    pub reason: String,
}

/// What was found in a part, or in several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// Architectures that were evaluated, repetitions included.
    pub candidates: u64,
    /// How many of them are within the ceilings.
    pub within: u64,
    /// The highest scores within the ceilings, the highest first; of equal scores the lowest
    /// latency first.
    pub top: Vec<Member>,
    /// The architectures within the ceilings that no other one dominates, in the same order.
    pub front: Vec<Member>,
}

/// The result of [`score`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// What was found.
    pub scores: Scores,
    /// What was left out.
    pub rejected: Vec<Rejected>,
}

impl Member {
    /// What is minimised. Zeros have one sign, so that equal ones are equal in every comparison.
    fn costs(&self) -> Vec<f64> {
        let latencies = self.latencies.iter().map(|[point, ..]| *point);
        std::iter::once(-self.score).chain(latencies).map(|cost| cost + 0.0).collect()
    }
}

impl From<&Candidate> for Member {
    fn from(candidate: &Candidate) -> Self {
        let ends = |l: &Prediction| [l.point(), l.lower(), l.upper()].map(|end| end.ns());
        Self {
            encoding: candidate.architecture.encode(),
            score: candidate.score,
            latencies: candidate.latencies.iter().map(ends).collect(),
        }
    }
}

/// Evaluates the architectures of a part. `go_on` is asked now and then, with the number evaluated
/// so far, and ends the work by `false`.
///
/// # Errors
/// [`SearchError`] where an option is out of its range, an objective or a forecast fails, or,
/// without [`ScoreOptions::reject`], a text is no architecture of the space.
pub fn score(
    space: &Space,
    devices: &[Device<'_>],
    objective: &mut dyn Objective,
    part: impl IntoIterator<Item = Result<Architecture, SpaceError>>,
    options: ScoreOptions,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Scored, SearchError> {
    let evaluation = Options { candidates: 1, population: 4, seed: 0, upper: options.upper };
    let mut search = Search::new(space, devices, objective, evaluation)?;
    let mut found = Scored::default();
    let mut part = part.into_iter().enumerate().peekable();
    while part.peek().is_some() {
        if !go_on(found.scores.candidates) {
            return Err(SearchError::Interrupted);
        }
        let mut some = Vec::with_capacity(AT_ONCE);
        for (place, read) in part.by_ref().take(AT_ONCE) {
            match read {
                Ok(architecture) => some.push(architecture),
                Err(error) if options.reject => {
                    found
                        .rejected
                        .push(Rejected { place: place as u64, reason: error.to_string() });
                }
                Err(error) => return Err(SearchError::Query(error.into())),
            }
        }
        let evaluated = search.evaluated(&some, true)?;
        let within: Vec<&Candidate> = evaluated.iter().filter(|c| c.excess == 0.0).collect();
        let scores = &mut found.scores;
        scores.candidates += some.len() as u64;
        scores.within += within.len() as u64;
        let contenders = contenders(&within, options.top);
        scores.top.extend(contenders.iter().map(|c| Member::from(*c)));
        scores.front.append(&mut scores.top.clone());
        scores.reduce(options.top);
    }
    Ok(found)
}

/// Those that can be among the best or in the front of their chunk, so that only they are encoded.
fn contenders<'c>(within: &[&'c Candidate], top: usize) -> Vec<&'c Candidate> {
    let mut order: Vec<&Candidate> = within.to_vec();
    let compared = |a: &f64, b: &f64| (a + 0.0).total_cmp(&(b + 0.0));
    order.sort_by(|a, b| {
        by_numbers(&a.costs, &b.costs, compared).then(a.architecture.cmp(&b.architecture))
    });
    order.dedup_by(|a, b| a.architecture == b.architecture);
    let mut front: Vec<&Candidate> = Vec::new();
    let mut chosen = Vec::new();
    for (place, candidate) in order.into_iter().enumerate() {
        let is_best = !front.iter().rev().any(|other| dominates(&other.costs, &candidate.costs));
        if is_best {
            front.push(candidate);
        }
        if is_best || place < top {
            chosen.push(candidate);
        }
    }
    chosen
}

fn by_numbers(a: &[f64], b: &[f64], compared: impl Fn(&f64, &f64) -> Ordering) -> Ordering {
    let orders = a.iter().zip(b).map(|(a, b)| compared(a, b));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Of several parts: the best, and the front, of all of them. An architecture that several parts
/// have is there once.
#[must_use]
pub fn merge(parts: impl IntoIterator<Item = Scores>, top: usize) -> Scores {
    let mut all = Scores::default();
    for mut part in parts {
        all.candidates += part.candidates;
        all.within += part.within;
        all.top.append(&mut part.top);
        all.front.append(&mut part.front);
    }
    all.reduce(top);
    all
}

impl Scores {
    /// Keeps the best and the front.
    fn reduce(&mut self, top: usize) {
        self.top = ordered(std::mem::take(&mut self.top));
        self.top.truncate(top);
        let mut front: Vec<(Member, Vec<f64>)> = Vec::new();
        for member in ordered(std::mem::take(&mut self.front)) {
            let costs = member.costs();
            // In this order none is dominated by a later one.
            if !front.iter().rev().any(|(_, other)| dominates(other, &costs)) {
                front.push((member, costs));
            }
        }
        self.front = front.into_iter().map(|(member, _)| member).collect();
    }
}

/// Each once, by score, then latencies, then encoding.
fn ordered(members: Vec<Member>) -> Vec<Member> {
    let mut keyed: Vec<(Vec<f64>, Member)> =
        members.into_iter().map(|member| (member.costs(), member)).collect();
    keyed.sort_by(|(a, one), (b, other)| {
        by_numbers(a, b, f64::total_cmp).then_with(|| one.encoding.cmp(&other.encoding))
    });
    let mut seen = HashSet::new();
    let members = keyed.into_iter().map(|(_, member)| member);
    members.filter(|member| seen.insert(member.encoding.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Ceilings, devices,
            objective::{Measure, StandIn},
        },
        *,
    };
    use crate::bundle::Bundle;
    use vitempo_graph::Latency;

    fn bundles() -> Vec<Bundle> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        ["epyc-onnxruntime-f32-1t.vtb", "epyc-rten-f32-1t.vtb"]
            .map(|name| Bundle::open(folder.join(name)).expect("a bundle that ships"))
            .to_vec()
    }

    const OPTIONS: ScoreOptions = ScoreOptions { top: 20, upper: false, reject: false };

    fn scored(range: std::ops::Range<u128>, bundles: &[Bundle], ceiling_ms: f64) -> Scores {
        let space = Space::named("isotropic-vit").expect("a space");
        let ceilings = vec![Latency::from_ms(ceiling_ms); bundles.len()];
        let ceilings = Ceilings { latencies: &ceilings, memory_bytes: &[] };
        let devices = devices(bundles, ceilings).expect("devices");
        let mut objective = StandIn::new(&space, Measure::Flops);
        let step = space.size() / 1000;
        let part = range.filter_map(|number| space.nth(number * step)).map(Ok);
        let found = score(&space, &devices, &mut objective, part, OPTIONS, &mut |_| true);
        found.expect("scores").scores
    }

    #[test]
    fn merged_parts_are_the_whole_in_any_order() {
        for bundles in [&bundles()[..1], &bundles()[..]] {
            let whole = scored(0..800, bundles, 60.0);
            assert!((20..800).contains(&whole.within) && whole.candidates == 800);
            assert!(whole.top.len() == 20 && whole.front.len() > 3);
            let mut parts: Vec<Scores> =
                [0..250, 250..251, 251..500, 500..800].map(|r| scored(r, bundles, 60.0)).into();
            assert_eq!(merge(parts.clone(), 20), whole);
            parts.reverse();
            assert_eq!(merge(parts.clone(), 20), whole);
            // What two parts have is there once.
            parts.push(scored(100..300, bundles, 60.0));
            let twice = merge(parts, 20);
            assert_eq!((&twice.top, &twice.front), (&whole.top, &whole.front));
            assert_eq!(twice.candidates, 1000);
        }
    }

    #[test]
    fn no_member_of_the_front_is_dominated_and_every_other_is() {
        let bundles = bundles();
        let all = scored(0..300, &bundles[..], 1e9);
        let costs = |m: &Member| m.costs();
        for one in &all.front {
            assert!(all.front.iter().all(|other| !dominates(&costs(other), &costs(one))));
        }
        for one in &all.top {
            let is_member = all.front.contains(one);
            let is_beaten = all.front.iter().any(|other| dominates(&costs(other), &costs(one)));
            assert_ne!(is_member, is_beaten);
        }
    }

    #[test]
    fn zeros_of_both_signs_are_equal() {
        let member = |encoding: &str, score, ns| Member {
            encoding: encoding.to_owned(),
            score,
            latencies: vec![[ns; 3]],
        };
        let both = vec![member("a", 0.0, 5.0), member("b", -0.0, 3.0)];
        let part = Scores { candidates: 2, within: 2, top: both.clone(), front: both.clone() };
        assert_eq!(merge([part], 2).front, [both[1].clone()]);
    }

    #[test]
    fn texts_that_are_no_architectures_are_an_error_or_listed() {
        let (space, bundles) = (Space::named("mbconv").expect("a space"), bundles());
        let devices = devices(&bundles[..1], Ceilings::default()).expect("devices");
        let texts = [space.sample(1).encode(), "mb1-poison".into(), space.sample(2).encode()];
        let run = |reject| {
            let mut objective = StandIn::new(&space, Measure::Flops);
            let part = texts.iter().map(|text| space.decode(text));
            let options = ScoreOptions { reject, ..OPTIONS };
            score(&space, &devices, &mut objective, part, options, &mut |_| true)
        };
        let found = run(true).expect("scores");
        assert_eq!((found.scores.candidates, found.rejected.len()), (2, 1));
        assert_eq!(found.rejected[0].place, 1);
        assert!(found.rejected[0].reason.contains("mb1-poison"));
        assert!(run(false).expect_err("poison").to_string().contains("mb1-poison"));
    }
}

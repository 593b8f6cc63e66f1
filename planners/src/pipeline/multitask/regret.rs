//! The regret of a placement: the most by which another placement has a shorter period when every
//! time takes any value in its interval.
//!
//! A period is the largest of some sums: pipelined, the load of each processor; sequential, the
//! encoder, the decoders on one processor, and postprocessing on one. Raising one time raises each
//! of these sums, and so any period, by at most as much. The worst case therefore has all times of
//! one sum of this placement at their upper ends, and all others at their lower ends (Kasperski
//! 2008); for each sum, all placements are tried.
//!
//! The largest share s is searched with the times of such a sum at s x lower + (1 - s) x upper end
//! in other placements, and their upper end x (1 - s) in this one: what both have counts only where
//! it is in the longest sum of the other. That bounds what is saved. It is exact where the placement
//! found saves as much in one case.
//!
//! Times of transfers are independent here. Where one link carries several of inputs, features and
//! predictions, and its bandwidth is not certain, its times change together: the regret is an upper
//! bound then, as where the budget ends.

use super::{Execution, MultiTask, Schedule, TransferTimes};
use crate::{
    Regret,
    cost::{End, Interval},
    regret::{Beyond, blended},
};
use vitempo_graph::Budget;

impl MultiTask {
    /// The regret of a placement against all placements of an execution. Pipelined ones have
    /// periods no longer than the same ones sequentially, so they stand for both.
    #[must_use]
    pub fn regret(&self, schedule: &Schedule, among: Execution, budget: &Budget) -> Regret {
        let places = schedule.places();
        let sums = self.sums(schedule);
        let exact = |raised: &Vec<usize>| -> Option<Regret> {
            let worst = self.at_worst(&places, raised, 1.0);
            let paid = worst.schedule(&places, schedule.execution)?.period_ns.point();
            let (best, _) = worst.fastest(among, budget)?;
            Some(Regret::of(paid.saturating_sub(best), paid))
        };
        let regrets: Option<Vec<Regret>> = sums.iter().map(exact).collect();
        let lowest = self.at_worst(&places, &[], 0.0);
        let Some(regrets) = regrets else {
            let paid = schedule.period_ns.at(End::Upper);
            let at_most = paid.saturating_sub(lowest.period_at_least(among));
            return Regret::of(at_most, paid).as_bound();
        };
        let regret = regrets.into_iter().fold(Regret::NONE, Regret::max);
        let least = lowest.schedule(&places, schedule.execution);
        let least = least.map_or(0, |least| least.period_ns.point());
        let rounding_ns = (2 * places.len()) as f64;
        let regret = regret.with_largest_share(least, rounding_ns, |share| {
            let beyond = |raised: &Vec<usize>| self.beyond(schedule, among, raised, share, budget);
            sums.iter().map(beyond).try_fold(Beyond::NOTHING, |a, b| Some(a.max(b?)))
        });
        if self.has_uncertain_links() { regret.as_bound() } else { regret }
    }

    /// The shortest period, ns, and its placement; `None` where the budget ends.
    fn fastest(&self, among: Execution, budget: &Budget) -> Option<(u64, Vec<usize>)> {
        let mut best = (u64::MAX, Vec::new());
        let is_complete = self.each(among, budget, |other| {
            if other.period_ns.point() < best.0 {
                best = (other.period_ns.point(), other.places());
            }
        });
        is_complete.then_some(best)
    }

    /// What other placements save beyond a share where one sum of a placement is raised.
    fn beyond(
        &self,
        schedule: &Schedule,
        among: Execution,
        raised: &[usize],
        share: f64,
        budget: &Budget,
    ) -> Option<Beyond> {
        let places = schedule.places();
        let paid = |model: &Self| {
            model.schedule(&places, schedule.execution).map(|own| own.period_ns.point() as f64)
        };
        let worst = self.at_worst(&places, raised, 1.0);
        let worth = (1.0 - share) * paid(&worst)?;
        let (least, other) = self.at_worst(&places, raised, 1.0 - share).fastest(among, budget)?;
        // The times that both have are at their lower ends, or at their upper ends.
        let own: Vec<usize> = raised.iter().copied().filter(|&i| places[i] != other[i]).collect();
        let saved = |model: &Self| {
            let other = model.schedule(&other, among)?.period_ns.point() as f64;
            paid(model).map(|paid| if paid > other { (paid - other) / paid } else { 0.0 })
        };
        let share = saved(&worst)?.max(saved(&self.at_worst(&places, &own, 1.0))?);
        Some(Beyond { at_most: worth - least as f64, share })
    }

    /// The sums of which the largest is the period, each as the parts that it holds.
    fn sums(&self, schedule: &Schedule) -> Vec<Vec<usize>> {
        let (decoders, after) = (&schedule.decoders, &schedule.postprocessing);
        let first_after = 1 + decoders.len();
        let on = |places: &[usize], first: usize, processor: usize| -> Vec<usize> {
            let own = places.iter().enumerate().filter(|(_, place)| **place == processor);
            own.map(|(index, _)| first + index).collect()
        };
        let processors = 0..self.processors.len();
        let each = |places: &[usize], first: usize| -> Vec<Vec<usize>> {
            let sums = processors.clone().map(|p| on(places, first, p));
            let sums: Vec<Vec<usize>> = sums.filter(|parts| !parts.is_empty()).collect();
            if sums.is_empty() { vec![Vec::new()] } else { sums }
        };
        match schedule.execution {
            Execution::Pipelined => each(&schedule.places(), 0),
            Execution::Sequential => {
                let (decoders, after) = (each(decoders, 1), each(after, first_after));
                let pairs = decoders.iter().flat_map(|d| after.iter().map(move |a| (d, a)));
                pairs.map(|(d, a)| [&[0], d.as_slice(), a.as_slice()].concat()).collect()
            }
        }
    }

    /// Exact times: those of some parts of a placement, with what these receive, a share of the way
    /// to their upper ends, all others at their lower ends.
    fn at_worst(&self, places: &[usize], raised: &[usize], share: f64) -> Self {
        let exactly = |time, is_raised| exactly(time, if is_raised { share } else { 0.0 });
        let mut worst = self.clone();
        for (index, part) in worst.parts_mut().enumerate() {
            for (processor, time) in part.latency_ns.iter_mut().enumerate() {
                let is_raised = raised.contains(&index) && places[index] == processor;
                *time = time.map(|time| exactly(time, is_raised));
            }
        }
        let first_after = 1 + self.decoders.len();
        let decoders: Vec<usize> =
            raised.iter().filter(|&&i| (1..first_after).contains(&i)).map(|&i| places[i]).collect();
        let features = |from: usize, to: usize| from == places[0] && decoders.contains(&to);
        set_transfers(&mut worst.hand_over_ns, &features, share);
        for inputs in &mut worst.inputs {
            let mut arrives = vec![false; inputs.arrival_ns.len()];
            for &part in raised.iter().filter(|&&part| inputs.arrive_for(places, part)) {
                arrives[places[part]] = true;
            }
            for (time, is_raised) in inputs.arrival_ns.iter_mut().zip(arrives) {
                *time = time.map(|time| exactly(time, is_raised));
            }
        }
        for (index, after) in worst.postprocessing.iter_mut().enumerate() {
            let sent = (places[1 + after.decoder], places[first_after + index]);
            let is_raised = raised.contains(&(first_after + index));
            let prediction = |from: usize, to: usize| is_raised && (from, to) == sent;
            set_transfers(&mut after.hand_over_ns, &prediction, share);
        }
        worst
    }

    /// Whether several transfers over one link have times that are not certain.
    fn has_uncertain_links(&self) -> bool {
        let kinds = || {
            let after = self.postprocessing.iter().map(|after| &after.hand_over_ns);
            std::iter::once(&self.hand_over_ns).chain(after)
        };
        let uncertain = |from: usize, to: usize| {
            let of = |times: &TransferTimes| times[from][to];
            let arriving = self.inputs.iter().filter(|_| from == 0);
            let arriving = arriving.filter_map(|inputs| inputs.arrival_ns[to]);
            let times = kinds().filter_map(of).chain(arriving);
            times.filter(|time| time.at(End::Lower) < time.at(End::Upper)).count()
        };
        let processors = 0..self.processors.len();
        processors.clone().any(|from| processors.clone().any(|to| uncertain(from, to) > 1))
    }
}

/// The time at a share of the way from its lower to its upper end.
fn exactly(time: Interval, share: f64) -> Interval {
    Interval::exact(blended(time.at(End::Lower), time.at(End::Upper), share))
}

fn set_transfers(times: &mut TransferTimes, is_raised: &dyn Fn(usize, usize) -> bool, share: f64) {
    for (from, row) in times.iter_mut().enumerate() {
        for (to, time) in row.iter_mut().enumerate() {
            let share = if is_raised(from, to) { share } else { 0.0 };
            *time = time.map(|time| exactly(time, share));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Part, Postprocessing, default_budget},
        *,
    };
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use vitempo_graph::Limits;

    fn random_time(rng: &mut StdRng, uncertain: bool) -> Option<Interval> {
        let share = if uncertain { 0.4 } else { 0.0 };
        rng.random_bool(0.9).then(|| Interval::within(1000 * rng.random_range(10..200), share))
    }

    /// Two processors, one or two decoders, perhaps postprocessing of the first; transfers of
    /// predictions take a certain time.
    fn random_model(rng: &mut StdRng) -> MultiTask {
        let part = |name: &str, rng: &mut StdRng| {
            let on_b = random_time(rng, true);
            let on_a = Interval::within(1000 * rng.random_range(10..200), 0.4);
            Part { name: name.to_owned(), latency_ns: vec![Some(on_a), on_b] }
        };
        let transfers = |rng: &mut StdRng, uncertain| {
            let mut one = || random_time(rng, uncertain).map(|ns| ns.times(0.3));
            vec![vec![Some(Interval::ZERO), one()], vec![one(), Some(Interval::ZERO)]]
        };
        let decoders = rng.random_range(1..=2);
        let has_after = decoders == 1 || rng.random_bool(0.3);
        let mut postprocessing = Vec::new();
        if has_after {
            let (part, hand_over_ns) = (part("picture", rng), transfers(rng, false));
            postprocessing.push(Postprocessing {
                decoder: 0,
                part,
                prediction_bytes: 9,
                hand_over_ns,
            });
        }
        MultiTask {
            model: "random".to_owned(),
            processors: ["a", "b"].map(str::to_owned).to_vec(),
            encoder: part("encoder", rng),
            decoders: (0..decoders).map(|d| part(&format!("decoder {d}"), rng)).collect(),
            postprocessing,
            features_bytes: 100,
            hand_over_ns: transfers(rng, true),
            inputs: Vec::new(),
        }
    }

    /// Every time that has an interval, in a fixed order.
    fn times(model: &mut MultiTask) -> Vec<&mut Interval> {
        let MultiTask { encoder, decoders, postprocessing, hand_over_ns, .. } = model;
        let (parts, sent): (Vec<&mut Part>, Vec<&mut TransferTimes>) =
            postprocessing.iter_mut().map(|p| (&mut p.part, &mut p.hand_over_ns)).unzip();
        let own = std::iter::once(encoder).chain(decoders).chain(parts);
        let own = own.flat_map(|part| part.latency_ns.iter_mut().flatten());
        let sent = std::iter::once(hand_over_ns).chain(sent).flatten().flatten().flatten();
        let uncertain = |time: &&mut Interval| time.at(End::Lower) < time.at(End::Upper);
        own.chain(sent).filter(uncertain).collect()
    }

    #[test]
    fn the_regret_of_a_placement_is_the_worst_of_all_corners() {
        let mut rng = StdRng::seed_from_u64(5);
        let (mut above_zero, mut bounds) = (0, 0);
        for round in 0..60 {
            let mut model = random_model(&mut rng);
            let among = [Execution::Sequential, Execution::Pipelined][round % 2];
            let placements = model.all(among).expect("placements");
            let chosen = &placements[rng.random_range(0..placements.len())];
            let count = times(&mut model).len();
            let (mut worst, mut share) = (0, 0.0f64);
            for corner in 0..1u32 << count {
                let mut at_corner = model.clone();
                for (bit, time) in times(&mut at_corner).into_iter().enumerate() {
                    *time = exactly(*time, f64::from(corner >> bit & 1));
                }
                let period = |s: &Schedule| {
                    let same = at_corner.schedule(&s.places(), among).expect("it runs");
                    same.period_ns.point()
                };
                let best = placements.iter().map(period).min().expect("a placement");
                worst = worst.max(period(chosen) - best);
                share = share.max((period(chosen) - best) as f64 / period(chosen) as f64);
            }
            let found = model.regret(chosen, among, &default_budget());
            assert_eq!(found.worst, worst, "round {round}");
            assert!(found.share > share - 1e-6, "round {round}: {found:?}, {share}");
            assert!(found.is_bound || found.share < share + 2e-4, "round {round}: {found:?}");
            above_zero += u32::from(worst > 0);
            bounds += u32::from(found.is_bound);
            let few = Budget::new(Limits { steps: 1, ..Limits::NONE });
            let cut = model.regret(chosen, among, &few);
            assert!(cut.worst >= worst && cut.is_bound == (cut.worst > 0), "round {round}");
            assert!(cut.share > share - 1e-6, "round {round}: {cut:?}, {share}");
        }
        assert!(above_zero > 20 && bounds < above_zero / 2, "{above_zero}, {bounds} bounds");
    }

    #[test]
    fn a_link_with_several_uncertain_transfers_makes_it_a_bound() {
        let mut rng = StdRng::seed_from_u64(6);
        let mut model = random_model(&mut rng);
        while model.postprocessing.is_empty() || model.hand_over_ns[0][1].is_none() {
            model = random_model(&mut rng);
        }
        assert!(!model.has_uncertain_links());
        model.postprocessing[0].hand_over_ns[0][1] = Some(Interval::within(20, 0.5));
        assert!(model.has_uncertain_links());
    }
}

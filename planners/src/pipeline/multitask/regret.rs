//! The regret of a placement: the most by which another placement has a shorter period when every
//! time takes any value in its interval.
//!
//! A period is the largest of some sums: pipelined, the load of each processor; sequential, the
//! encoder, the decoders on one processor, and postprocessing on one. Raising one time raises each
//! of these sums, and so any period, by at most as much. The worst case therefore has all times of
//! one sum of this placement at their upper ends, and all others at their lower ends (Kasperski
//! 2008); for each sum, all placements are tried.
//!
//! Times of transfers are independent here. Where one link carries features and predictions, or
//! predictions of several decoders, and its bandwidth is not certain, its times change together: the
//! regret is an upper bound then, as where the budget ends.

use super::{Execution, MultiTask, Schedule, TransferTimes};
use crate::{
    Regret,
    cost::{End, Interval},
};
use vitempo_graph::Budget;

impl MultiTask {
    /// The regret of a placement against all placements of an execution. Pipelined ones have
    /// periods no longer than the same ones sequentially, so they stand for both.
    #[must_use]
    pub fn regret(&self, schedule: &Schedule, among: Execution, budget: &Budget) -> Regret {
        let places = schedule.places();
        let exact = |raised: &Vec<usize>| -> Option<Regret> {
            let worst = self.at_worst(&places, raised);
            let paid = worst.schedule(&places, schedule.execution)?.period_ns.point();
            let mut best = paid;
            let is_complete =
                worst.each(among, budget, |other| best = best.min(other.period_ns.point()));
            is_complete.then(|| Regret::of(paid - best, paid))
        };
        let regrets: Option<Vec<Regret>> = self.sums(schedule).iter().map(exact).collect();
        let at_most = || {
            let (paid, lowest) = (schedule.period_ns.at(End::Upper), self.at_worst(&places, &[]));
            Regret::of(paid.saturating_sub(lowest.period_at_least(among)), paid).as_bound()
        };
        let Some(regrets) = regrets else { return at_most() };
        let regret = regrets.into_iter().fold(Regret::NONE, Regret::max);
        if self.has_uncertain_links() { regret.as_bound() } else { regret }
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

    /// Exact times: those of some parts of a placement, with what these receive, at their upper
    /// ends, all others at their lower ends.
    fn at_worst(&self, places: &[usize], raised: &[usize]) -> Self {
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
        set_transfers(&mut worst.hand_over_ns, &features);
        for (index, after) in worst.postprocessing.iter_mut().enumerate() {
            let sent = (places[1 + after.decoder], places[first_after + index]);
            let is_raised = raised.contains(&(first_after + index));
            let prediction = |from: usize, to: usize| is_raised && (from, to) == sent;
            set_transfers(&mut after.hand_over_ns, &prediction);
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
            let times = kinds().filter_map(of);
            times.filter(|time| time.at(End::Lower) < time.at(End::Upper)).count()
        };
        let processors = 0..self.processors.len();
        processors.clone().any(|from| processors.clone().any(|to| uncertain(from, to) > 1))
    }
}

fn exactly(time: Interval, is_raised: bool) -> Interval {
    Interval::exact(time.at(if is_raised { End::Upper } else { End::Lower }))
}

fn set_transfers(times: &mut TransferTimes, is_raised: &dyn Fn(usize, usize) -> bool) {
    for (from, row) in times.iter_mut().enumerate() {
        for (to, time) in row.iter_mut().enumerate() {
            *time = time.map(|time| exactly(time, is_raised(from, to)));
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
        rng.random_bool(0.9).then(|| Interval::within(rng.random_range(10..200), share))
    }

    /// Two processors, one or two decoders, perhaps postprocessing of the first; transfers of
    /// predictions take a certain time.
    fn random_model(rng: &mut StdRng) -> MultiTask {
        let part = |name: &str, rng: &mut StdRng| {
            let on_b = random_time(rng, true);
            let on_a = Interval::within(rng.random_range(10..200), 0.4);
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
        let mut above_zero = 0;
        for round in 0..60 {
            let mut model = random_model(&mut rng);
            let among = [Execution::Sequential, Execution::Pipelined][round % 2];
            let placements = model.all(among).expect("placements");
            let chosen = &placements[rng.random_range(0..placements.len())];
            let count = times(&mut model).len();
            let mut worst = 0;
            for corner in 0..1u32 << count {
                let mut at_corner = model.clone();
                for (bit, time) in times(&mut at_corner).into_iter().enumerate() {
                    *time = exactly(*time, corner >> bit & 1 == 1);
                }
                let period = |s: &Schedule| {
                    let same = at_corner.schedule(&s.places(), among).expect("it runs");
                    same.period_ns.point()
                };
                let best = placements.iter().map(period).min().expect("a placement");
                worst = worst.max(period(chosen) - best);
            }
            let found = model.regret(chosen, among, &default_budget());
            assert_eq!((found.worst, found.is_bound), (worst, false), "round {round}");
            above_zero += u32::from(worst > 0);
            let few = Budget::new(Limits { steps: 1, ..Limits::NONE });
            let cut = model.regret(chosen, among, &few);
            assert!(cut.worst >= worst && cut.is_bound == (cut.worst > 0), "round {round}");
        }
        assert!(above_zero > 20, "{above_zero}");
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

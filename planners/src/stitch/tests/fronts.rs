//! Variants that no other beats, against every variant and against the optimiser's search.

use super::*;
use crate::{
    multi_dnn::Kind as Runs,
    stitch::{
        menu::Menu,
        pareto::{OnFront, pareto},
    },
};

const ALL: [Runs; 3] = [Runs::Whole, Runs::Cut, Runs::Stitched];

fn fronts_of(rng: &mut StdRng, kind: Kind) -> (Zoo, Vec<Order>, Vec<OnFront>) {
    let zoo = random_zoo(rng, kind, Size(1, 3, 3, 2));
    let orders = orders::any(2, 3).expect("orders");
    let front = pareto(&zoo, 0, &orders, &ALL).expect("a front");
    (zoo, orders, front)
}

#[test]
fn every_variant_is_beaten_or_on_the_front() {
    let mut rng = StdRng::seed_from_u64(1);
    for kind in KINDS.into_iter().cycle().take(60) {
        let (zoo, orders, front) = fronts_of(&mut rng, kind);
        for pair in front.windows(2) {
            let [one, other] = [&pair[0].stitched, &pair[1].stitched];
            assert!(one.latency_ns < other.latency_ns && one.accuracy_bp < other.accuracy_bp);
        }
        for order in &orders {
            each_variant(&zoo, 0, order, |_, latency_ns, accuracy_bp| {
                let slo = Slo { accuracy_bp, latency_ns };
                assert!(front.iter().any(|found| found.meets(&slo)), "{slo:?} {front:?}");
            })
            .expect("variants");
        }
    }
}

#[test]
fn the_front_has_the_latencies_of_the_search() {
    let mut rng = StdRng::seed_from_u64(2);
    for kind in KINDS.into_iter().cycle().take(60) {
        let (zoo, orders, front) = fronts_of(&mut rng, kind);
        for found in front {
            let of_order =
                |order| Menu::new(&zoo, 0, order, None)?.fastest(found.stitched.accuracy_bp);
            let fastest = orders.iter().filter_map(of_order).map(|s| s.latency_ns).min();
            assert_eq!(fastest, Some(found.stitched.latency_ns));
            let stitched = &found.stitched;
            let latency = zoo.latency_ns(0, &found.order, &stitched.variants);
            assert_eq!(latency.map(|ns| ns.point()), Some(stitched.latency_ns));
        }
    }
}

#[test]
fn kinds_that_are_not_asked_for_are_not_on_the_front() {
    let mut rng = StdRng::seed_from_u64(3);
    let (zoo, orders, _) = fronts_of(&mut rng, Kind::Additive);
    let whole = pareto(&zoo, 0, &orders, &[Runs::Whole]).expect("a front");
    assert!(!whole.is_empty());
    for found in whole {
        let (processors, variants) = (found.order.processors(), &found.stitched.variants);
        assert!(processors.iter().all(|p| *p == processors[0]));
        assert!(variants.iter().all(|variant| *variant == variants[0]));
    }
}

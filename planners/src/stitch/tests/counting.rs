//! Hotness by counting against hotness by enumeration, and what must hold of both.

use super::{
    super::hotness::{Hotness, Lattice, counted, enumerated, hotness},
    *,
};

fn close(a: &Hotness, b: &Hotness) -> bool {
    a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-9)
        && a.len() == b.len()
}

/// Number of objectives that some variant meets.
fn can_be_met(zoo: &Zoo, order: &Order, slos: &[Slo]) -> usize {
    let menu = menu::Menu::new(zoo, 0, order, None).expect("a menu");
    slos.iter()
        .filter(|slo| menu.fastest(slo.accuracy_bp).is_some_and(|s| s.latency_ns <= slo.latency_ns))
        .count()
}

#[test]
fn counting_equals_enumeration_on_a_lattice_that_holds_every_value() {
    let mut rng = StdRng::seed_from_u64(31);
    for round in 0..200 {
        let positions = rng.random_range(1..5);
        let size = Size(1, rng.random_range(1..6), positions, 3);
        let zoo = random_zoo(&mut rng, Kind::Additive, size);
        let order = Order::new((0..positions).map(|_| rng.random_range(0..3)).collect());
        let slos: Vec<Slo> = (0..8).map(|_| random_slo(&mut rng, positions)).collect();
        let by_definition = enumerated(&zoo, 0, &order, &slos).expect("few variants");
        let on_lattice = counted(&zoo, 0, &order, &slos, Lattice { drops: 256, latencies: 256 })
            .expect("sums of drops");
        assert!(close(&on_lattice, &by_definition), "round {round}");
        let kept = can_be_met(&zoo, &order, &slos) as f64;
        for (position, row) in by_definition.iter().enumerate() {
            assert!(
                (row.iter().sum::<f64>() - kept).abs() < 1e-9,
                "round {round}, position {position}"
            );
        }
    }
}

#[test]
fn too_many_variants_to_enumerate_are_counted() {
    let mut rng = StdRng::seed_from_u64(32);
    let zoo = random_zoo(&mut rng, Kind::Additive, Size(1, 40, 6, 3));
    let zoo = Zoo::new(zoo.processors().to_vec(), BTreeMap::new(), zoo.tasks().to_vec())
        .expect("a zoo without links");
    let order = Order::new(vec![0, 1, 2, 0, 1, 2]);
    let slos: Vec<Slo> = (0..25).map(|_| random_slo(&mut rng, 6)).collect();
    assert!(
        enumerated(&zoo, 0, &order, &slos)
            .is_err_and(|e| e.to_string().contains("4096000000 stitched variants"))
    );
    let found = hotness(&zoo, 0, &order, &slos).expect("it is counted");
    let kept = can_be_met(&zoo, &order, &slos) as f64;
    assert!(found.iter().all(|row| (row.iter().sum::<f64>() - kept).abs() < 1e-6), "{kept}");
    let table = random_zoo(&mut rng, Kind::Monotone, Size(1, 40, 6, 3));
    assert!(
        hotness(&table, 0, &order, &slos)
            .is_err_and(|e| e.to_string().contains("no sums of drops"))
    );
}

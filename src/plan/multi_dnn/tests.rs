//! Tests of requests by names and from files, and of the shipped measured zoo.

use super::*;
use crate::plan::stitch::{hand_over::MeasuredHandOver, record::Record};
use vitempo_planners::{
    cost::Interval,
    multi_dnn::{Evaluator, Kind},
    stitch::HandOver,
};

fn record() -> Record {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/datasets/stitching/record.json");
    Record::read(path.as_ref()).expect("the record that ships")
}

fn slowdown(processor: &str, beside: &str, factor: f64) -> Slowdown {
    Slowdown { processor: processor.to_owned(), beside: beside.to_owned(), factor }
}

#[test]
fn the_measured_zoo_is_planned_and_no_system_is_better() {
    let record = record();
    let settings = Settings { evaluations: 1_500, seed: 0 };
    let slo = Slo { accuracy_bp: 9000, latency_ns: 40_000_000 };
    let request = Request {
        objectives: vec![Asked { task: None, slo }],
        slowdown: vec![slowdown("a", "b", 1.1), slowdown("b", "a", 1.2)],
        settings,
        ..Request::default()
    };
    let zoo = record.zoo().expect("a zoo");
    let placing = place(zoo.clone(), &record.asked(), &request).expect("a plan");
    assert_eq!(placing.slos, vec![slo; 4]);
    let score = &placing.plan.score;
    assert_eq!(score.queries, 4 * 24);
    let problem = problem(&zoo, vec![slo; 4], &request).expect("a problem");
    let evaluator = Evaluator::new(&problem).expect("a problem");
    let simulated = evaluator.simulated(&placing.plan.policy).expect("a simulation");
    assert_eq!(&simulated, score, "the simulator has the last word");
    assert!(placing.plan.contention_known);
    let placing_bound = placing.plan.bound;
    assert!(placing.plan.bound.violated <= score.violated);
    for compared in &placing.plan.compared {
        let other = compared.score.as_ref().expect("every system runs");
        assert!(score.violated <= other.violated, "{}", compared.system);
    }
    let systems = place_systems(&zoo, &record.asked(), &request).expect("plans");
    let alone = |(system, placing): &(_, Result<Placing, _>)| {
        let plan = &placing.as_ref().expect("every system runs").plan;
        assert_eq!((plan.bound, plan.evaluations), (placing_bound, 1));
        (*system, plan.score)
    };
    let compared = &placing.plan.compared;
    let scores = compared.iter().map(|c| (c.system, *c.score.as_ref().expect("every system runs")));
    assert!(systems.iter().map(alone).eq(scores), "the same as beside the plan");
    let total: f64 = placing.plan.shares().iter().map(|(_, share)| share).sum();
    assert!((total - 1.0).abs() < 1e-9);
    assert_eq!(placing.plan.shares()[0].0, Kind::Whole);
}

#[test]
fn a_record_has_the_hand_over_of_each_piece_or_none() {
    let older = record();
    let plain = older.zoo().expect("a zoo");
    assert_eq!((older.hand_over.as_ref(), plain.hand_over()), (None, &HandOver::Unknown));
    assert!(!older.text().expect("JSON").contains("hand_over"), "written as it was read");
    let piece_ns = [400_000, 100_000].map(Interval::exact).to_vec();
    let newer = Record { hand_over: Some(MeasuredHandOver { piece_ns, runs: 96 }), ..older };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record.json");
    std::fs::write(&path, newer.text().expect("JSON")).expect("a file");
    let read = Record::read(&path).expect("a record");
    assert_eq!(read.hand_over, newer.hand_over);
    let zoo = read.zoo().expect("a zoo");
    let given = zoo.clone().with_given_hand_over(Some(1000));
    for order in read.orders.iter().cloned().map(Order::new) {
        let ns = |zoo: &Zoo| zoo.latency_ns(1, &order, &[0, 2, 1]).expect("it runs").point();
        let pieces = order.processors().iter();
        let hand_over: u64 = pieces.map(|&p| [400_000, 100_000][p]).sum();
        assert_eq!(ns(&zoo), ns(&plain) + hand_over, "{order:?}");
        assert_eq!(ns(&given), ns(&plain) + 3000, "{order:?}");
    }
    let settings = Settings { evaluations: 200, seed: 0 };
    let request = Request { settings, ..Request::default() };
    let placing = place(zoo.clone(), &read.asked(), &request).expect("a plan");
    let problem = problem(&zoo, read.asked(), &request).expect("a problem");
    let evaluator = Evaluator::new(&problem).expect("a problem");
    let simulated = evaluator.simulated(&placing.plan.policy).expect("a simulation");
    assert_eq!(simulated, placing.plan.score);
}

#[test]
fn names_that_are_not_there_and_what_is_half_known_are_refused() {
    let record = record();
    let zoo = record.zoo().expect("a zoo");
    let refused = |request: Request| {
        let settings = Settings { evaluations: 0, seed: 0 };
        let placed = place(zoo.clone(), &record.asked(), &Request { settings, ..request });
        placed.err().map_or_else(String::new, |error| error.to_string())
    };
    let base = Request::default();
    assert_eq!(refused(base.clone()), "");
    let slo = Slo { accuracy_bp: 1, latency_ns: 1 };
    let objectives = vec![Asked { task: Some("nobody".to_owned()), slo }];
    let error = refused(Request { objectives, ..base.clone() });
    assert!(error.contains("task `nobody` is not there; there are stripes"), "{error}");
    let error = refused(Request { slowdown: vec![slowdown("a", "b", 1.1)], ..base.clone() });
    assert!(error.contains("slowdown of `b` beside `a` is not given"), "{error}");
    let error = refused(Request { slowdown: vec![slowdown("a", "npu", 1.1)], ..base.clone() });
    assert!(error.contains("processor `npu` is not there; there are a, b"), "{error}");
    let error = refused(Request { active_w: vec![("b".to_owned(), 2.0)], ..base.clone() });
    assert!(error.contains("power of `a` is not given"), "{error}");
    let one = TaskArrivals::Periodic { period_ns: 1_000_000_000, phase_ns: 0 };
    let arrivals = vec![(Some("stripes".to_owned()), one.clone())];
    let error = refused(Request { arrivals, ..base.clone() });
    assert!(error.contains("`mobilevit_xxs` is never asked"), "{error}");
    assert_eq!(refused(Request { arrivals: vec![(None, one)], ..base }), "");
}

#[test]
fn arrivals_are_read_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        trace::read(&path).map_err(|error| error.to_string())
    };
    assert_eq!(
        read("task,arrival_ns\nb,7\na,9\nb,3\n"),
        Ok(vec![
            (Some("a".to_owned()), TaskArrivals::Trace(vec![9])),
            (Some("b".to_owned()), TaskArrivals::Trace(vec![3, 7])),
        ])
    );
    assert!(read("task,arrival_ns\na,soon\n").is_err_and(|e| e.contains("line: 2")));
    assert!(read("task,arrival_ns\n").is_err_and(|e| e.contains("no queries")));
    assert!(read("name,time\na,1\n").is_err_and(|e| e.contains("task")));
}

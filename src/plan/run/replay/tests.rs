//! Replays of synthetic logs: without hand-over, the simulator repeats the log to the nanosecond.

use super::*;
use crate::plan::run::{Deviation, LogHeader, LogProcessor, RunEvent, Summary};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::Path;
use vitempo_planners::multi_dnn::{Dispatcher, Ended, Start};

fn header(lanes: Vec<LogLane>, processors: usize) -> LogHeader {
    let processor = |p: usize| LogProcessor {
        name: format!("p{p}"),
        engine: "none".to_owned(),
        engine_version: "0".to_owned(),
        cores: vec![p],
        threads: 1,
        process: None,
        resident_bytes: None,
    };
    LogHeader {
        format: "vitempo run log".to_owned(),
        version: 1,
        made_by: "a test".to_owned(),
        plan: "plan.json".into(),
        device: "none".to_owned(),
        os: String::new(),
        isa: String::new(),
        processors: (0..processors).map(processor).collect(),
        tasks: vec!["a".to_owned(), "b".to_owned()],
        lanes,
        slowdown: None,
        bound: 1000,
        memory_bytes: None,
        cold: false,
        runs_first: None,
        kept_awake: false,
    }
}

/// A runtime whose engines take random times, and whose messages take `handover` ns each way.
fn synthetic(seed: u64, handover: u64) -> RunLog {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut queues = Dispatcher::new(2, 1000);
    let mut lanes = Vec::new();
    for steps in [vec![0, 1], vec![1], vec![0], vec![1, 0]] {
        let priority = rng.random_range(0..2);
        queues.add_lane(steps.clone(), priority).expect("a lane");
        lanes.push(LogLane {
            task: lanes.len() % 2,
            phase: 0,
            way: lanes.len() / 2,
            level: 0,
            variants: vec!["v".to_owned(); 2],
            priority,
            accurate: true,
            slo_ns: 60_000,
            steps: steps.into_iter().map(|processor| (processor, 10_000)).collect(),
        });
    }
    let mut arrivals: Vec<u64> = (0..60).map(|_| rng.random_range(0..900_000)).collect();
    arrivals.sort_unstable();
    let lane_of: Vec<usize> = (0..60).map(|_| rng.random_range(0..4)).collect();
    let mut pieces: Vec<Vec<PieceRecord>> = vec![Vec::new(); 60];
    let mut ready: Vec<u64> = arrivals.clone();
    let mut running: [Option<(u64, usize)>; 2] = [None, None];
    let (mut next, mut starts, mut events) = (0, Vec::new(), Vec::new());
    loop {
        let end = running.iter().enumerate().filter_map(|(p, r)| Some((r.as_ref()?.0, p))).min();
        let arrival = arrivals.get(next).copied();
        let now = match (arrival, end) {
            (Some(at), end) if end.is_none_or(|(end, _)| at <= end) => {
                queues.arrive(lane_of[next], next, &mut starts);
                next += 1;
                at
            }
            (_, Some((at, processor))) => {
                running[processor] = None;
                match queues.end(processor, &mut starts) {
                    Some(Ended::Continues(query)) => ready[query] = at,
                    Some(Ended::Finished(query)) => {
                        let lane = lane_of[query];
                        let key = (query, 0, lanes[lane].task, lane);
                        let own = std::mem::take(&mut pieces[query]);
                        let slo = (true, lanes[lane].slo_ns);
                        let done = QueryRecord::done(key, arrivals[query], own, slo);
                        events.push(RunEvent::Query(done));
                    }
                    other => panic!("{other:?}"),
                }
                at
            }
            _ => break,
        };
        for Start { query, processor, .. } in starts.drain(..) {
            let (loading_ns, feed_ns) = (rng.random_range(0..2_000), rng.random_range(0..500));
            let run_ns = rng.random_range(2_000..30_000);
            let begun_ns = now + handover;
            let ended_ns = begun_ns + loading_ns + feed_ns + run_ns;
            let noticed_ns = ended_ns + handover;
            pieces[query].push(PieceRecord {
                ready_ns: ready[query],
                dispatched_ns: now,
                begun_ns,
                loading_ns,
                feed_ns,
                run_ns,
                ended_ns,
                noticed_ns,
            });
            running[processor] = Some((noticed_ns, query));
        }
    }
    RunLog { header: header(lanes, 2), events, path: "log.jsonl".into() }
}

#[test]
fn without_hand_over_a_replay_is_the_log() {
    for seed in 0..20 {
        let log = synthetic(seed, 0);
        let again = RunLog::parse(&log.text().expect("text"), &log.path).expect("a log");
        assert_eq!(again, log, "a log is read as it was written");
        let found = replay(&again).expect("a replay");
        assert_eq!((found.out_of_order, found.left_out), (0, 0));
        assert_eq!(found.pieces, found.steps.len());
        for query in log.queries() {
            for (step, piece) in query.pieces.iter().enumerate() {
                let times = (piece.dispatched_ns, piece.noticed_ns);
                assert_eq!(found.steps[&(query.query, step)], times, "query {}", query.query);
            }
            let parts = query.waiting_ns + query.running_ns + query.handover_ns + query.loading_ns;
            assert_eq!(Some(parts), query.latency_ns);
        }
        for task in &found.tasks {
            assert_eq!(task.mean_ns.0, task.mean_ns.1);
            assert_eq!((task.p50_ns.0, task.p99_ns.0), (task.p50_ns.1, task.p99_ns.1));
            assert_eq!(task.period_error(), Some(0.0));
        }
    }
}

#[test]
fn hand_over_is_what_a_replay_lacks() {
    let mut slower = 0;
    for seed in 0..20 {
        let log = synthetic(seed, 300);
        let found = replay(&log).expect("a replay");
        let all = found.tasks.last().expect("all tasks");
        slower += usize::from(all.latency_error() < 0.0);
        let measured: u64 = log.queries().map(|query| query.handover_ns).sum();
        assert!(measured > 0);
        let summary = Summary::of(&log).expect("a summary");
        assert_eq!(summary.queries, 60);
        assert_eq!(summary.tasks.iter().map(|task| task.queries).sum::<usize>(), 60);
    }
    assert_eq!(slower, 20, "each hand-over makes the log slower than the simulator");
}

#[test]
fn logs_that_contradict_themselves_are_refused_with_the_line() {
    let text = synthetic(1, 0).text().expect("text");
    let refused = |text: &str| {
        RunLog::parse(text, Path::new("log.jsonl"))
            .map_or_else(|e| e.to_string(), |_| "read".into())
    };
    assert_eq!(refused(&text), "read");
    assert!(refused("").contains("log.jsonl: line 1: it is empty"));
    assert!(refused(&text.replace("\"version\":1", "\"version\":2")).contains("version 2"));
    assert!(refused(&text.replace("\"lane\":3", "\"lane\":7")).contains("there is no lane 7"));
    assert!(
        refused(&text.replacen("\"outcome\":\"done\"", "\"outcome\":\"gone\"", 1))
            .contains("line 2")
    );
    let none: String = text.lines().take(1).map(|line| format!("{line}\n")).collect();
    let log = RunLog::parse(&none, Path::new("log.jsonl")).expect("a log");
    assert!(matches!(replay(&log), Err(RunError::NothingCompleted(_))));
}

#[test]
fn results_beyond_what_precision_explains_are_found_with_their_output() {
    let mut log = synthetic(1, 0);
    let apart = |lane, share, output: &str, most| RunEvent::Apart {
        lane,
        share,
        output: output.to_owned(),
        most,
    };
    // Lanes 0 and 2 are ways of task `a`, 1 and 3 of task `b`.
    log.events.extend([
        apart(0, 0.2, "int8", Some(0.3)),
        apart(2, f64::MAX, "logits", Some(0.01)),
        apart(1, 0.01, "equal", Some(0.01)),
        apart(3, 7.0, "", None),
    ]);
    let log = RunLog::parse(&log.text().expect("text"), &log.path).expect("a log");
    let summary = Summary::of(&log).expect("a summary");
    let [a, b] = &summary.tasks[..] else { panic!("two tasks") };
    let deviation = Deviation { output: "logits".to_owned(), share: f64::MAX, most: 0.01 };
    assert_eq!((a.apart, a.deviation.as_ref()), (Some(f64::MAX), Some(&deviation)));
    assert_eq!((b.apart, b.deviation.as_ref()), (Some(7.0), None), "a log of before has no limit");
}

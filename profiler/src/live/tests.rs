//! Lines of the embedded engine and of the null engine: transfers and refusals. No test depends on
//! times.

use super::*;
use crate::{conformance, inputs};
use std::{sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::{GraphBuilder, OpKind, TensorSpec};

/// x -> encoder -> (left, right).
fn parts() -> Vec<Graph> {
    let spec = TensorSpec::f32([1, 4, 8, 8]);
    let layer = |name: &str, input: &str, kind: OpKind| {
        let mut b = GraphBuilder::new(name);
        let x = b.input(input, spec.clone());
        let y = b.conv(&format!("{name}.conv"), x, 4, 3, 1, 1, 1, true).expect("a convolution");
        let y = b.unary(name, kind, y).expect("an activation");
        b.finish(vec![y]).expect("a graph")
    };
    vec![
        layer("encoder", "x", OpKind::Relu),
        layer("left", "encoder_out", OpKind::Sigmoid),
        layer("right", "encoder_out", OpKind::Tanh),
    ]
}

fn processor(name: &str, backend: &str) -> LiveProcessor {
    LiveProcessor {
        name: name.to_owned(),
        backend: backend.to_owned(),
        options: RunOptions::default(),
    }
}

fn stage(queue: usize, steps: &[&[(usize, usize)]]) -> Stage {
    let step = |tasks: &&[(usize, usize)]| {
        tasks.iter().map(|&(part, processor)| Task { part, processor }).collect()
    };
    Stage {
        name: format!("stage of {} steps", steps.len()),
        queue,
        steps: steps.iter().map(step).collect(),
    }
}

fn frame() -> Vec<Arc<OutputValues>> {
    let options = RunOptions::default();
    inputs::of_graph(&parts()[0], options.inputs, options.seed)
        .expect("inputs")
        .into_iter()
        .map(Arc::new)
        .collect()
}

/// A rig of two engines, or `None` with a notice.
fn rig(backend: &str) -> Option<Rig> {
    match Rig::start(&[processor("a", backend), processor("b", backend)], parts()) {
        Ok(rig) => Some(rig),
        Err(error @ LiveError::NoCore { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const TRIAL: Trial = Trial { arrivals: Arrivals::Closed, warmups: 1, frames: 4 };

fn run(rig: &Rig, stages: &[Stage]) -> Result<Run, LiveError> {
    rig.run(stages, &frame(), &TRIAL, &AtomicBool::new(false))
}

#[test]
fn whatever_the_placement_the_results_are_the_same() {
    let Some(rig) = rig("rten") else { return };
    let sequential = run(&rig, &[stage(0, &[&[(0, 0)], &[(1, 0)], &[(2, 0)]])]).expect("a run");
    for stages in [
        vec![stage(0, &[&[(0, 1)], &[(1, 0), (2, 1)]])],
        vec![stage(0, &[&[(0, 0)]]), stage(1, &[&[(1, 1), (2, 1)]])],
        vec![stage(0, &[&[(0, 1)]]), stage(0, &[&[(1, 0)]]), stage(2, &[&[(2, 0)]])],
    ] {
        let found = run(&rig, &stages).expect("a run");
        assert_eq!((found.latency_ns.len(), found.completed_ns.len()), (4, 4));
        assert!(found.completed_ns.is_sorted());
        assert!(
            found.busy_ns.values().all(|samples| samples.len() == 4) && found.busy_ns.len() == 3
        );
        for name in ["left_out", "right_out"] {
            let value = |run: &Run| vec![named(&run.values, name).cloned().expect("an output")];
            let (apart, _) = conformance::difference(&value(&sequential), &value(&found))
                .expect("the same shapes");
            assert_eq!(apart, 0.0, "{name}");
        }
    }
    // The results of a decoder depend on those of the encoder.
    let mut other = frame();
    other[0] = Arc::new(OutputValues { values: vec![0.25; 256], ..(*other[0]).clone() });
    let moved = rig
        .run(&[stage(0, &[&[(0, 0)], &[(1, 1)]])], &other, &TRIAL, &AtomicBool::new(false))
        .expect("a run");
    assert_ne!(named(&moved.values, "left_out"), named(&sequential.values, "left_out"));
}

#[test]
fn a_camera_sets_the_pace_and_drops_frames() {
    let Some(rig) = rig("null") else { return };
    let trial = Trial { arrivals: Arrivals::Camera(Duration::from_millis(2)), ..TRIAL };
    let found = rig
        .run(&[stage(0, &[&[(0, 0)]])], &frame(), &trial, &AtomicBool::new(false))
        .expect("a run");
    let (first, last) = (found.completed_ns[0], found.completed_ns[3]);
    // The grid is a lower bound at any load of the machine.
    assert!(last - first + found.latency_ns[0] >= 6_000_000, "{found:?}");
}

#[test]
fn what_cannot_run_is_named() {
    let message = |result: Result<Run, LiveError>| {
        result.map_or_else(|e| e.to_string(), |_| "ran".to_owned())
    };
    let Some(rig) = rig("rten") else { return };
    assert_eq!(
        message(run(&rig, &[stage(0, &[&[(7, 0)]])])),
        "stage `stage of 1 steps` names part 7; there are 3"
    );
    assert_eq!(
        message(run(&rig, &[stage(0, &[&[(0, 2)]])])),
        "stage `stage of 1 steps` names processor 2; there are 2"
    );
    assert!(message(run(&rig, &[])).starts_with("there is nothing to run"));
    assert_eq!(
        message(rig.run(&[stage(0, &[&[(0, 0)]])], &frame(), &TRIAL, &AtomicBool::new(true))),
        "interrupted"
    );
    let wrong =
        vec![Arc::new(OutputValues { name: "x".to_owned(), shape: vec![1], values: vec![0.0] })];
    let refused =
        message(rig.run(&[stage(0, &[&[(0, 1)]])], &wrong, &TRIAL, &AtomicBool::new(false)));
    assert!(
        refused.starts_with("part `encoder` on processor `b`")
            && refused.contains("input `x`: it has shape [1, 4, 8, 8]"),
        "{refused}"
    );
    let unknown = Rig::start(&[processor("a", "abacus")], parts())
        .map_or_else(|e| e.to_string(), |_| "started".to_owned());
    assert!(unknown.starts_with("processor `a`: no backend is called `abacus`"), "{unknown}");
}

#[test]
fn processors_have_cores_of_their_own() {
    let asking = |name: &str, cores: &[usize], threads| LiveProcessor {
        options: RunOptions { cores: cores.to_vec(), threads, ..RunOptions::default() },
        ..processor(name, "null")
    };
    let own = |processors: &[LiveProcessor]| own_cores(processors, &[0, 1, 4, 5]);
    assert_eq!(own(&[asking("a", &[], 1), asking("b", &[], 2)]), Ok(vec![vec![5], vec![1, 4]]));
    assert_eq!(own(&[asking("a", &[], 2), asking("b", &[5], 1)]), Ok(vec![vec![1, 4], vec![5]]));
    let shared = LiveError::SharedCore { first: "a".into(), second: "b".into(), core: 1 };
    assert_eq!(own(&[asking("a", &[1], 1), asking("b", &[1], 1)]), Err(shared));
    assert!(
        matches!(own(&[asking("a", &[], 3), asking("b", &[], 2)]), Err(LiveError::NoCore { processor, .. }) if processor == "b")
    );
    assert!(matches!(
        own(&[asking("a", &[9], 1)]),
        Err(LiveError::Pinning(PinningError::NoSuchCore { core: 9, .. }))
    ));
    assert_eq!(own_cores(&[asking("a", &[], 1)], &[]), Ok(vec![vec![]]));
}

#[test]
fn pieces_load_what_is_missing_and_report_it() {
    let rig = Rig::start(&[processor("a", "rten")], parts()).expect("an engine");
    let pieces = rig.pieces();
    let piece = |id: usize, parts: &[usize], unload: &[usize]| Piece {
        id,
        processor: 0,
        parts: parts.to_vec(),
        keep: Vec::new(),
        unload: unload.to_vec(),
        values: Tensors::Here(frame()),
        expected_ns: 0,
    };
    let finished = |piece: Piece| {
        pieces.submit(piece).expect("an engine");
        let Some(Report::Finished(finished)) = pieces.next(u64::MAX >> 1) else {
            panic!("it ends")
        };
        assert!(finished.begun_ns <= finished.ended_ns && finished.ended_ns <= finished.noticed_ns);
        finished
    };
    assert!(rig.load(0, 0).expect("a part").is_some());
    assert_eq!(rig.load(0, 0), Ok(None), "it is loaded");
    let loads = |piece: Piece| {
        let computed = finished(piece).result.expect("results");
        let values = computed.values.read().expect("values");
        let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
        assert_eq!(names, ["left_out"], "the results of the last part");
        computed.loads.iter().map(|load| load.part).collect::<Vec<_>>()
    };
    assert_eq!(loads(piece(0, &[0, 1], &[])), [1]);
    assert_eq!(loads(piece(1, &[0, 1], &[])), [0usize; 0]);
    assert_eq!(loads(piece(2, &[0, 1], &[0])), [0]);
    rig.unload(0, &[0, 1]).expect("an engine");
    assert_eq!(loads(piece(3, &[0, 1], &[])), [0, 1]);
    let line = run(&rig, &[stage(0, &[&[(0, 0)], &[(1, 0)]])]).expect("a run");
    let result = finished(piece(4, &[0, 1], &[])).result.expect("results");
    let values = result.values.read().expect("values");
    assert_eq!(Some(&*values[0]), named(&line.values, "left_out"));
    // A piece that fails does not end the engine.
    let wrong = Arc::new(OutputValues { name: "x".into(), shape: vec![1], values: vec![0.0] });
    let failed = finished(Piece { values: Tensors::Here(vec![wrong]), ..piece(5, &[0], &[]) });
    assert!(matches!(failed.result, Err(LiveError::Task { part, .. }) if part == "encoder"));
    assert_eq!(loads(piece(6, &[0, 1], &[])), [0usize; 0]);
    pieces.unload(0, &[1]).expect("an engine");
    let Some(Report::Unloaded(unloaded)) = pieces.next(u64::MAX >> 1) else { panic!("it ends") };
    assert_eq!((unloaded.processor, unloaded.parts, unloaded.result), (0, vec![1], Ok(None)));
    assert_eq!(loads(piece(8, &[0, 1], &[])), [1]);
    // Values that later parts read, and results of earlier parts, are handed on by name.
    let keep = vec![vec!["x".to_owned()], vec!["encoder_out".to_owned(), "x".to_owned()]];
    let kept = finished(Piece { keep, ..piece(9, &[0, 1], &[]) }).result.expect("results");
    let kept = kept.values.read().expect("values");
    let names: Vec<&str> = kept.iter().map(|value| value.name.as_str()).collect();
    assert_eq!(names, ["left_out", "encoder_out", "x"]);
    assert_eq!(kept[2], frame()[0]);
    assert!(matches!(pieces.submit(piece(7, &[9], &[])), Err(LiveError::Unknown { .. })));
    assert!(pieces.next(0).is_none(), "nothing else ended");
}

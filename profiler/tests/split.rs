//! Split models on the embedded engine, with the small agent as the server: over loopback and over
//! pipes, in every precision, and with servers that die, freeze, or are not there. No test measures
//! time.

#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vitempo_graph::{Attributes, Graph, GraphBuilder, OpKind, TensorSpec};
use vitempo_profiler::{
    OutputValues, RunOptions, conformance, inputs,
    live::LiveProcessor,
    pinning,
    remote::AgentCommand,
    split::{
        Features, Halves, Lost, Pass, Reach, Shape, Shapes, SplitRig, SplitRunError, SplitSettings,
    },
};

/// Bytes that a frame adds to the tensors on their way to the server, and back.
const ADDED: [u64; 2] = [12 + 37, 17 + 37];
const ELEMENTS: u64 = 16 * 64;

/// Two products with an activation between them; `part` 0 is the whole, 1 the device's half, 2 the
/// server's. Weights are seeded by name, so that they are the same in all.
fn model(part: usize) -> Graph {
    let mut b = GraphBuilder::new(["m", "m.device", "m.server"][part]);
    let product = |b: &mut GraphBuilder, name: &str, x| {
        let w = b.weight(format!("{name}_w"), TensorSpec::f32([64, 64]));
        b.op(name, OpKind::Linear, Attributes::new(), &[x, w]).unwrap()
    };
    let mut y = if part == 2 {
        b.input("b_out", TensorSpec::f32([16, 64]))
    } else {
        let x = b.input("x", TensorSpec::f32([16, 64]));
        let a = product(&mut b, "a", x);
        b.op("b", OpKind::Relu, Attributes::new(), &[a]).unwrap()
    };
    if part != 1 {
        y = product(&mut b, "c", y);
    }
    b.finish(vec![y]).unwrap()
}

fn halves() -> Vec<Halves> {
    let split = Halves { device: Some(model(1)), server: Some(model(2)) };
    let on_server = Halves { device: None, server: Some(model(0)) };
    let on_device = Halves { device: Some(model(0)), server: None };
    vec![split, on_server, on_device]
}

/// The small agent.
fn agent(folder: &Path) -> AgentCommand {
    let words = [env!("CARGO_BIN_EXE_vitempo-agent"), "--folder", folder.to_str().unwrap()];
    words.map(str::to_owned).into_iter().collect()
}

fn processor(name: &str, backend: &str, cores: &[usize]) -> LiveProcessor {
    let options = RunOptions { cores: cores.to_vec(), ..RunOptions::default() };
    LiveProcessor { name: name.to_owned(), backend: backend.to_owned(), options }
}

fn settings(reach: Reach, features: Features) -> SplitSettings {
    SplitSettings {
        device: processor("device", "rten", &[]),
        server: processor("server", "rten", &[]),
        reach,
        features,
        timeout: Duration::from_secs(60),
    }
}

fn start(settings: SplitSettings, shapes: Shapes) -> Result<SplitRig, SplitRunError> {
    SplitRig::start(settings, model(0), halves(), shapes, &AtomicBool::new(false))
}

/// Whether both halves can have a core of their own here.
fn has_two_cores() -> bool {
    let enough = pinning::usable().len() != 1;
    if !enough {
        eprintln!("skipped: there is one core");
    }
    enough
}

fn given() -> Vec<Arc<OutputValues>> {
    let options = RunOptions::default();
    let values = inputs::of_graph(&model(0), options.inputs, options.seed).unwrap();
    values.into_iter().map(Arc::new).collect()
}

fn run(rig: &mut SplitRig, sequence: &[usize], in_flight: usize) -> Result<Pass, SplitRunError> {
    rig.run(sequence, &given(), in_flight, &AtomicBool::new(false))
}

/// The difference of the results from the whole model's, as a share of the largest value.
fn apart(rig: &SplitRig, pass: &Pass) -> f64 {
    let expected = rig.whole(&given()).unwrap();
    let found: Vec<OutputValues> =
        pass.values.iter().filter(|v| v.name == "c_out").map(|v| v.as_ref().clone()).collect();
    conformance::difference(&expected, &found).unwrap().0
}

#[test]
fn halves_compute_what_the_whole_computes_and_send_what_the_precision_says() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bytes = |features| match features {
        Features::F32 => 4 * ELEMENTS,
        Features::F16 => 2 * ELEMENTS,
        Features::Int8 => ELEMENTS + 8,
    };
    let shape = Some(Shape { bytes_per_s: 12_500_000, setup_ns: 1_000_000 });
    for (index, features) in Features::ALL.into_iter().enumerate() {
        let command = agent(&folder.path().join(index.to_string()));
        for reach in [Reach::Loopback(command.clone()), Reach::Command(command)] {
            let mut rig =
                start(settings(reach, features), Shapes { there: shape, back: shape }).unwrap();
            let (environment, cores) = rig.server().unwrap();
            assert_eq!((environment.framework.as_str(), cores.len()), ("rten", 1));
            for split in [0, 1, 2] {
                let pass = run(&mut rig, &[split; 2], 1).unwrap();
                assert_eq!((pass.frames.len(), pass.lost.len(), pass.not_run), (2, 0, 0));
                let apart = apart(&rig, &pass);
                let allowed = match (features, split) {
                    (Features::F32, _) | (_, 2) => 1e-6,
                    (Features::F16, _) => 2e-3,
                    (Features::Int8, _) => 3e-2,
                };
                assert!(apart < allowed, "{features}, split {split}: {apart:.1e}");
                assert!(features == Features::F32 || split == 2 || apart > 0.0, "{features}");
                let expected = if split == 2 { [0; 2] } else { [bytes(features), 4 * ELEMENTS] };
                assert_eq!(rig.tensor_bytes(split), expected);
                for times in &pass.frames {
                    let [sent, received] = expected;
                    let added = if split == 2 { [0; 2] } else { ADDED };
                    assert_eq!(times.sent_bytes, sent + added[0]);
                    assert_eq!(times.received_bytes, received + added[1]);
                    assert_eq!(times.device_ns > 0, split != 1);
                    assert_eq!(times.server_ns > 0, split != 2);
                    assert!(times.latency_ns >= times.device_ns + times.server_ns);
                }
            }
        }
    }
}

#[test]
fn frames_that_overlap_and_splits_that_alternate_keep_their_results() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let reach = Reach::Loopback(agent(folder.path()));
    let mut rig = start(settings(reach, Features::F32), Shapes::default()).unwrap();
    let sequence: Vec<usize> = (0..30).map(|frame| frame % 3).collect();
    let pass = run(&mut rig, &sequence, 4).unwrap();
    let mut frames: Vec<(usize, usize)> = pass.frames.iter().map(|t| (t.frame, t.split)).collect();
    frames.sort_unstable();
    let expected: Vec<(usize, usize)> = sequence.into_iter().enumerate().collect();
    assert_eq!(frames, expected);
    assert!(apart(&rig, &pass) < 1e-6);
    let measured = rig.throughput(&AtomicBool::new(false)).unwrap().unwrap();
    assert!(measured.there_bytes_per_s > 0.0 && measured.back_bytes_per_s > 0.0);
    let interrupted = rig.run(&[0; 9], &given(), 4, &AtomicBool::new(true));
    assert!(matches!(interrupted, Err(SplitRunError::Interrupted)));
    assert_eq!(run(&mut rig, &[0], 1).unwrap().frames.len(), 1, "it goes on afterwards");
}

#[cfg(unix)]
fn signal(rig: &mut SplitRig, name: &str) {
    let process = rig.server_process().unwrap().to_string();
    let done = std::process::Command::new("kill").args([name, &process]).status().unwrap();
    assert!(done.success());
}

#[cfg(unix)]
#[test]
fn a_server_that_dies_loses_its_frames_and_starts_again() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = agent(folder.path());
    for reach in [Reach::Loopback(command.clone()), Reach::Command(command)] {
        let mut rig = start(settings(reach, Features::F32), Shapes::default()).unwrap();
        assert_eq!(run(&mut rig, &[0; 2], 1).unwrap().lost, []);
        signal(&mut rig, "-KILL");
        let pass = run(&mut rig, &[0; 8], 3).unwrap();
        assert!((1..=3).contains(&pass.lost.len()), "{:?}", pass.lost);
        assert_eq!((pass.frames.len() + pass.lost.len(), pass.not_run), (8, 0));
        let Lost { frame, reason } = &pass.lost[0];
        assert!(*frame == 0 && reason.contains("signal: 9"), "{reason}");
        assert!(apart(&rig, &pass) < 1e-6);
    }
}

#[cfg(unix)]
#[test]
fn a_server_that_never_answers_is_lost_after_the_deadline() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = agent(folder.path());
    for reach in [Reach::Loopback(command.clone()), Reach::Command(command)] {
        let settings =
            SplitSettings { timeout: Duration::from_secs(2), ..settings(reach, Features::F32) };
        let mut rig = start(settings, Shapes::default()).unwrap();
        let frames = run(&mut rig, &[0; 2], 1).unwrap();
        assert_eq!((frames.frames.len(), frames.lost.len()), (2, 0));
        signal(&mut rig, "-STOP");
        let pass = run(&mut rig, &[0; 3], 2).unwrap();
        assert!(pass.lost[0].reason.contains("no answer within 2.0 s"), "{:?}", pass.lost);
        assert_eq!(pass.frames.len() + pass.lost.len() + pass.not_run, 3);
        signal(&mut rig, "-STOP");
        // More than the connection takes while nobody reads.
        assert!(rig.throughput(&AtomicBool::new(false)).is_err(), "nothing hangs");
    }
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let reach = || Reach::Loopback(agent(folder.path()));
    let refused = |change: &dyn Fn(&mut SplitSettings)| {
        let mut settings = settings(reach(), Features::F32);
        change(&mut settings);
        start(settings, Shapes::default()).unwrap_err().to_string()
    };
    let cores = pinning::usable();
    let Some(&core) = cores.first() else { return };
    let shared = refused(&|settings| {
        settings.device.options.cores = vec![core];
        settings.server.options.cores = vec![core];
    });
    assert!(shared.contains("`device` and `server` both have core"), "{shared}");
    let absent = refused(&|settings| settings.server.options.cores = vec![4095]);
    assert!(absent.contains("core 4095 is not in this process's CPU affinity mask"), "{absent}");
    if !has_two_cores() {
        return;
    }
    let engine = refused(&|settings| settings.server.backend = "nope".to_owned());
    assert!(engine.contains("the server") && engine.contains("`nope`"), "{engine}");
    let engine = refused(&|settings| settings.device.backend = "nope".to_owned());
    assert!(engine.contains("processor `device`") && engine.contains("`nope`"), "{engine}");
    let command = |text: &str| text.parse::<AgentCommand>().unwrap();
    for (text, reason) in [
        ("/nonexistent/vitempo-agent", "cannot start"),
        ("true", "sent nothing"),
        ("echo hello", "is not a vitempo agent"),
    ] {
        let loopback = refused(&|settings| settings.reach = Reach::Loopback(command(text)));
        let pipes = refused(&|settings| settings.reach = Reach::Command(command(text)));
        assert!(loopback.contains(reason) && pipes.contains(reason), "{loopback}; {pipes}");
    }
}

#[test]
fn what_the_device_alone_runs_needs_no_server() {
    let nowhere = Reach::Loopback("/nonexistent/agent".parse().unwrap());
    let here = vec![halves().remove(2)];
    let stop = AtomicBool::new(false);
    let settings = settings(nowhere, Features::Int8);
    let mut rig = SplitRig::start(settings, model(0), here, Shapes::default(), &stop).unwrap();
    let pass = run(&mut rig, &[0; 3], 2).unwrap();
    assert_eq!((pass.frames.len(), rig.server_process()), (3, None));
    assert!(rig.server().is_none());
    assert!(apart(&rig, &pass) < 1e-6 && rig.throughput(&stop).unwrap().is_none());
    assert!(run(&mut rig, &[1], 1).unwrap_err().to_string().contains("no split 1"));
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(rig.run(&[0], &given(), 1, &stop), Err(SplitRunError::Interrupted)));
}

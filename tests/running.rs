//! `vitempo run`: plans with known costs are written, run on engines and replayed. The tests check
//! plans, counts, order and results, never times.

mod program;

use program::{Folder, json, ok, refused, vitempo};
use serde_json::{Value, json as object};
use vitempo::profiler::{RunOptions, backends, pinning};

const STRIPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/stitching/stripes.onnx");

/// Two tasks of one small model in two variants and two subgraphs, and a record of their costs.
struct Zoo {
    folder: Folder,
    tasks: String,
}

/// Latencies (ms) on `a` and `b` of each subgraph of the variants `dense` and `structured-50`.
type Costs = [[Option<u64>; 2]; 2];

const BOTH: Costs = [[Some(6), Some(9)], [Some(2), Some(3)]];
const FIRST_ONLY: Costs = [[Some(6), None], [Some(2), None]];

impl Zoo {
    fn new() -> Self {
        let folder = Folder::new();
        let [one, two] = ["one", "two"].map(|name| folder.path(&format!("{name}.onnx")));
        for path in [&one, &two] {
            std::fs::copy(STRIPES, path).expect("a model");
        }
        let zoo = folder.path("zoo");
        let variants = "dense,structured=50%";
        ok(&["zoo", "make", &one, &two, "--variant", variants, "--positions", "2", "--out", &zoo]);
        let tasks = folder.path("zoo/tasks.toml");
        Self { folder, tasks }
    }

    /// A record with these costs. `dense` has 90 %, other stitched variants have 80 %.
    fn record(&self, costs: Costs) -> String {
        let subgraph = |of: [Option<u64>; 2]| {
            let latency = of.map(|ms| ms.map(|ms| object!({"point": ms * 1_000_000, "lower": ms * 1_000_000, "upper": ms * 1_000_000})));
            object!({"latency_ns": latency, "memory_bytes": 100_000, "boundary_bytes": 0})
        };
        let row: Vec<Value> = costs.iter().map(|&of| subgraph(of)).collect();
        let task = |name: &str| {
            object!({
                "name": name,
                "variants": ["dense", "structured-50"],
                "accuracy_how": "made up",
                "measured": 4,
                "accuracies_bp": [9000, 8000, 8000, 8000],
                "asked": [8000, 50_000_000],
                "subgraphs": [row.clone(), row.clone()],
            })
        };
        let record = object!({
            "processors": [["a", "rten"], ["b", "rten"]],
            "orders": [[0, 1]],
            "tasks": [task("one"), task("two")],
            "accuracy_is": null,
            "rehearsal": {"tried": [], "orders": []},
        });
        self.folder.file("record.json", record.to_string())
    }

    /// Plans, writes the plan, and returns its path.
    fn plan(&self, costs: Costs, more: &[&str]) -> String {
        let (record, path) = (self.record(costs), self.folder.path("plan.json"));
        let base = ["plan", "place", "--record", &record, "--tasks", &self.tasks];
        let rest = ["--evaluations", "300", "--out", &path];
        ok(&[&base, more, &rest].concat());
        path
    }

    /// The events of a log.
    fn events(&self, log: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path(log)).expect("a log");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Two engines need cores of their own.
fn has_two_cores() -> bool {
    let enough = pinning::usable().len() != 1;
    if !enough {
        eprintln!("skipped: there is one core");
    }
    enough
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_plan_runs_and_its_log_is_replayed() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let plan = zoo.plan(BOTH, &["--slo", "80%,50ms"]);
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(&plan).expect("a plan")).expect("JSON");
    assert_eq!(written["tasks"][0]["variants"][0]["model"], "zoo/one.structured-50.onnx");
    assert_eq!(written["costs"], "measured");
    assert_eq!(written["loading"], "unknown", "the record has no times of loading");
    assert_eq!(count(&written["forecast"][0]["queries"]), 4, "two tasks in two orders");
    let log = zoo.folder.path("log.jsonl");
    let run = json(&["run", &plan, "--queries", "7", "--log", &log]);
    assert_eq!(count(&run["queries"]), 7);
    for task in run["tasks"].as_array().expect("tasks") {
        let lost = ["refused", "lost", "failed"].map(|what| count(&task[what]));
        assert_eq!(lost, [0, 0, 0], "{task}");
        assert!(task["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{task}");
    }
    let events = zoo.events("log.jsonl");
    assert_eq!(events[0]["processors"][0]["engine"], "rten");
    assert!(events[0]["processors"][0]["engine_version"].is_string());
    let queries = of(&events, "query");
    assert_eq!((queries.len(), of(&events, "round").len()), (7, 4));
    for query in queries {
        let parts = ["waiting_ns", "running_ns", "handover_ns", "loading_ns"];
        let sum: u64 = parts.iter().map(|part| count(&query[part])).sum();
        assert_eq!(sum, count(&query["latency_ns"]), "{query}");
        assert_eq!(query["outcome"], "done");
    }
    let replayed = json(&["run", "--replay", &log]);
    assert_eq!(count(&replayed["left_out"]), 0);
    let tasks = replayed["tasks"].as_array().expect("tasks");
    assert_eq!(tasks.iter().map(|task| count(&task["queries"])).collect::<Vec<_>>(), [3, 4, 7]);
    assert!(ok(&["run", "--replay", &log]).contains("hand-over is not simulated"));
}

#[test]
fn variants_change_when_objectives_change() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let times = ["--arrivals", "40ms", "--over", "400ms", "--slo-at", "200ms=one=90%,80ms"];
    let plan = zoo.plan(BOTH, &[&["--slo", "80%,50ms"][..], &times].concat());
    let log = zoo.folder.path("log.jsonl");
    let run = json(&["run", &plan, "--log", &log]);
    assert_eq!(count(&run["queries"]), 20);
    let events = zoo.events("log.jsonl");
    assert_eq!(of(&events, "phase").len(), 1);
    let (lanes, mut changed) = (events[0]["lanes"].as_array().expect("lanes").clone(), 0);
    for query in of(&events, "query") {
        let lane = &lanes[count(&query["lane"]) as usize];
        // Queries of a task arrive every 40 ms; its fifth and later ones are in the second phase.
        let begun = count(&of(&events, "round")[0]["at_ns"]);
        let later = count(&query["arrived_ns"]) - begun >= 200_000_000;
        assert_eq!(count(&lane["phase"]), u64::from(later), "{query}");
        if later && query["task"] == 0 {
            assert_eq!(lane["variants"], object!(["dense", "dense"]));
            changed += 1;
        } else if query["task"] == 0 {
            assert_ne!(lane["variants"], object!(["dense", "dense"]));
        }
    }
    assert_eq!(changed, 5);
    let at_once =
        refused(&["plan", "place", "--record", &zoo.record(BOTH), "--slo-at", "1s=90%,20ms"]);
    assert!(at_once.contains("all queries arrive at once"), "{at_once}");
}

#[test]
fn subgraphs_are_loaded_within_the_budget_and_evicted() {
    let zoo = Zoo::new();
    let slos = ["--slo", "one=90%,50ms", "--slo", "two=80%,50ms"];
    let plan = zoo.plan(FIRST_ONLY, &slos);
    let plan_text = std::fs::read_to_string(&plan).expect("a plan");
    assert!(!plan_text.contains("\"processor\": \"b\""), "nothing runs on b");
    let (log, alone) = (zoo.folder.path("log.jsonl"), ["--live", "b=null"]);
    // Two subgraphs of 100 kB fit, each task has two.
    let memory = ["--anywhere", "--memory", "200kB", "--queries", "8", "--log", &log];
    if !has_two_cores() {
        return;
    }
    let run = json(&[&["run", &plan][..], &alone, &memory].concat());
    assert!(count(&run["largest_bytes"]) <= 200_000, "{run}");
    assert!(count(&run["evictions"]) > 0 && count(&run["loads"]["in_queries"]["count"]) > 0);
    let events = zoo.events("log.jsonl");
    assert!(of(&events, "query").iter().all(|query| query["outcome"] == "done"));
    let mut held = 0i64;
    for event in &events {
        held += match event["event"].as_str() {
            Some("load") => 1,
            Some("evict") => -1,
            _ => 0,
        };
    }
    assert!((1..=2).contains(&held), "{held} are loaded at the end");
    let cold = json(&["run", &plan, "--live", "b=null", "--anywhere", "--cold", "--queries", "4"]);
    assert_eq!(count(&cold["loads"]["before"]["count"]), 0);
    assert_eq!(count(&cold["loads"]["in_queries"]["count"]), 4);
    check_memory(&run, &events);
    let in_process = json(&[&["run", &plan, "--in-process"][..], &alone, &memory].concat());
    assert_eq!(in_process["memory"], object!([]), "the program's memory is not an engine's");
    let least = refused(&["run", &plan, "--memory", "150kB"]);
    assert!(least.contains("needs 200000 bytes at once on `a`"), "{least}");
    assert!(least.contains("hint: raise --memory"), "{least}");
}

/// Resident memory is measured after each load and eviction, where the system reports it.
fn check_memory(run: &Value, events: &[Value]) {
    if !cfg!(target_os = "linux") {
        assert_eq!(run["memory"], object!([]));
        return;
    }
    let memory = &run["memory"][0];
    assert_eq!(
        (&memory["processor"], run["memory"].as_array().map(Vec::len)),
        (&"a".into(), Some(1))
    );
    let least = 1_000_000;
    assert!(count(&memory["start_bytes"]) > least && count(&memory["resident_bytes"]) > least);
    assert_eq!(count(&memory["loaded_bytes"]), 200_000, "two subgraphs");
    assert!(count(&events[0]["processors"][0]["resident_bytes"]) > least);
    let first = of(events, "resident")[0];
    assert_eq!(
        (&first["resident_bytes"], &first["loaded_bytes"]),
        (&memory["start_bytes"], &0.into())
    );
    let measured = of(events, "resident");
    assert_eq!(measured.len() as u64, count(&memory["measurements"]));
    // One with nothing loaded; each load is followed by one; subgraphs that are unloaded together
    // share one.
    let loads = of(events, "load").len();
    assert!((loads + 2..=1 + loads + of(events, "evict").len()).contains(&measured.len()));
    let after = events.iter().zip(&events[1..]).filter(|(event, _)| event["event"] == "load");
    for (load, next) in after {
        assert_eq!((&next["event"], &next["processor"]), (&"resident".into(), &load["processor"]));
    }
    assert!(measured.iter().all(|event| count(&event["loaded_bytes"]) <= 200_000));
}

#[test]
fn room_is_made_elsewhere_when_an_engine_does_not_answer() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let trace = "task,arrival_ns\none,0\ntwo,0\ntwo,1000000\ntwo,2000000\none,1000000000\n\
        one,4200000000\n";
    let trace = zoo.folder.file("trace.csv", trace);
    let change = ["--slo-at", "4s=one=90%,5s", "--over", "5s"];
    let plan = zoo.plan(BOTH, &[&["--slo", "80%,5s", "--trace", &trace][..], &change].concat());
    let text = std::fs::read_to_string(plan).expect("a plan");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    // Task `one` runs on `a`, at first with one variant and later with the other; `two` on `b`.
    for (task, processor) in [(0, "a"), (1, "b")] {
        let own = &mut plan["tasks"][task];
        let listed = own["variants"].as_array().expect("variants");
        let name = |variant: &Value| variant["name"].as_str().expect("a name").to_owned();
        let mut variants: Vec<String> = listed.iter().map(name).collect();
        variants.sort_by_key(|name| name == "dense");
        let (mut ways, mut subgraphs) = (Vec::new(), Vec::new());
        for variant in &variants {
            let piece = object!({"processor": processor, "first": 1, "last": 2, "latency_ns": 1});
            ways.push(object!({"kind": "whole", "variants": [variant, variant], "accuracy_bp": 9000, "pieces": [piece]}));
            subgraphs.extend((1..=2).map(|position| object!({"position": position, "variant": variant, "memory_bytes": 100_000})));
        }
        assert!(task == 1 || variants == ["structured-50", "dense"], "{variants:?}");
        own["ways"] = ways.into();
        own["subgraphs"] = subgraphs.into();
    }
    for (phase, way) in [(0, 0), (1, 1)] {
        for (task, way) in [(0, way), (1, 0)] {
            let own = &mut plan["phases"][phase]["tasks"][task];
            own["ways"] = object!([way]);
            own["fallbacks"] = object!([]);
        }
    }
    let path = zoo.folder.file("stopped.json", plan.to_string());
    let log = zoo.folder.path("log.jsonl");
    let limits = ["--memory", "400kB", "--timeout", "60", "--log", &log];
    let run = Running::start(&[&["run", &path][..], &limits].concat());
    let b = run.engines[1].clone();
    // Its queries are done by then, and it has nothing to do any more.
    std::thread::sleep(std::time::Duration::from_secs(2));
    run.signal("-STOP", &b);
    let result = run.result();
    let events = zoo.events("log.jsonl");
    assert_eq!((became(&events, 0), became(&events, 1)), ([3, 0, 0], [3, 0, 0]));
    assert_eq!(result["engines_lost"], object!([]));
    let evicted: Vec<u64> =
        of(&events, "evict").iter().map(|event| count(&event["processor"])).collect();
    assert_eq!(evicted, [1, 1, 0, 0], "those of `b` first, which were used longest ago");
}

#[test]
fn queries_that_find_the_queue_full_are_refused_and_counted() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let trace = "task,arrival_ns\none,0\none,0\none,0\none,0\none,0\ntwo,900000000\n";
    let trace = zoo.folder.file("trace.csv", trace);
    let plan = zoo.plan(FIRST_ONLY, &["--slo", "80%,50ms", "--trace", &trace]);
    let run = json(&["run", &plan, "--bound", "1"]);
    let tasks = &run["tasks"];
    // One runs, one waits.
    assert_eq!((count(&tasks[0]["refused"]), count(&tasks[0]["queries"])), (3, 5));
    assert_eq!((count(&tasks[1]["refused"]), count(&tasks[1]["queries"])), (0, 1));
    assert!(count(&run["violated"]["measured"]) >= 3, "refused queries violate their objective");
    assert!(ok(&["run", &plan, "--bound", "1"]).contains("3 queries refused: the queue was full"));
}

#[test]
fn plans_that_cannot_run_here_are_refused_with_a_hint() {
    let zoo = Zoo::new();
    let plan = zoo.plan(BOTH, &["--slo", "80%,50ms"]);
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        zoo.folder.file("changed.json", text.replacen(from, to, 1))
    };
    for (arguments, expected) in [
        (&["--live", "c=rten"][..], "the plan has no processor `c`; there are a, b"),
        (&["--live", "a=null"], "processor `a` was planned for rten, not for null"),
        (&["--live", "a=rten", "--live", "a=rten"], "processor `a` has two engines"),
        (&["--live", "a=abacus", "--anywhere"], "no backend is called `abacus`"),
        (&["--live", "a=rten@4095"], "core 4095 is not in this process's CPU affinity mask"),
        (&["--live", "a=rten", "--live", "a=rten"], "hint: give --live a=... once"),
        (&["--queries", "200000"], "at most 100000"),
        (&["--evict", "planned"], "--evict has no effect: the plan has no memory budget"),
        (
            &["--evict", "planned", "--memory", "1GB"],
            "--evict has no effect: all subgraphs fit into the memory budget",
        ),
        (&["--log", "none/log.jsonl"], "--log: none/log.jsonl: the folder does not exist"),
    ] {
        let error = refused(&[&["run", &plan], arguments].concat());
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    for (from, to, expected) in [
        (
            "\"device\": null",
            "\"device\": \"a phone\"",
            "was planned for `a phone`; this machine is",
        ),
        ("\"engine\": \"rten\"", "\"engine\": null", "processor `a` has no engine"),
        ("\"version\": 1", "\"version\": 9", "version 9; this program reads"),
        ("\"cuts\": [", "\"cuts\": [\"other\",", "2 variants for 3 positions"),
        ("\"priority\": ", "\"prior\": ", "unknown field `prior`"),
        ("\"digest\": \"", "\"digest\": \"0", "it is not the file that was planned"),
        ("zoo/one.", "zoo/none.", "cannot read"),
    ] {
        if from.contains("device") && !has_two_cores() {
            continue;
        }
        let error = refused(&["run", &changed(from, to)]);
        assert!(error.contains(expected), "{from}: {error}");
    }
    let other = refused(&["run", "--replay", &plan]);
    assert!(other.contains("plan.json: line 1"), "{other}");
    let without = vitempo(&["run"]);
    assert!(!without.status.success());
    let record = zoo.record(BOTH);
    let renamed = std::fs::read_to_string(&zoo.tasks).expect("tasks").replace("\"one\"", "\"uno\"");
    let tasks = zoo.folder.file("zoo/other.toml", renamed);
    let error = refused(&[
        "plan",
        "place",
        "--record",
        &record,
        "--tasks",
        &tasks,
        "--out",
        &zoo.folder.path("p.json"),
    ]);
    assert!(error.contains("the costs are those of task `one`"), "{error}");
}

#[test]
fn tensors_are_handed_from_every_engine_to_every_other() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let available = |name: &str| {
        let backend = backends::by_name(name);
        backend.is_ok_and(|b| b.probe(&RunOptions::default()).require(b.name()).is_ok())
    };
    let engines: Vec<&str> = ["rten", "onnxruntime", "openvino", "litert"]
        .into_iter()
        .filter(|name| {
            available(name) || {
                eprintln!("skipped: no {name}");
                false
            }
        })
        .collect();
    // Both tasks are cut: the first half is fast on one processor only, the second on the other.
    let text = std::fs::read_to_string(zoo.plan(BOTH, &["--slo", "80%,50ms"])).expect("a plan");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    for task in plan["tasks"].as_array_mut().expect("tasks") {
        for way in task["ways"].as_array_mut().expect("ways") {
            let piece = |processor: &str, position: usize| object!({"processor": processor, "first": position, "last": position, "latency_ns": 1});
            way["pieces"] = object!([piece("a", 1), piece("b", 2)]);
        }
    }
    let cut = zoo.folder.file("cut.json", plan.to_string());
    for (at, first) in engines.iter().enumerate() {
        let second = engines[(at + 1) % engines.len()];
        let [a, b] = [format!("a={first}"), format!("b={second}")];
        let run = json(&["run", &cut, "--anywhere", "--live", &a, "--live", &b, "--queries", "4"]);
        for task in run["tasks"].as_array().expect("tasks") {
            assert_eq!(count(&task["failed"]), 0, "{first} to {second}: {task}");
            let apart = task["apart"].as_f64().expect("results");
            assert!(apart < 1e-3, "{first} to {second}: {apart}");
        }
    }
}

/// A run with processes of their own for engines, and what it says on standard error.
struct Running {
    child: std::process::Child,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStderr>>,
    /// Processes of the engines `a` and `b`.
    engines: [String; 2],
}

impl Running {
    /// Starts a run and waits until queries arrive.
    fn start(args: &[&str]) -> Self {
        use std::{io::BufRead, process::Stdio};
        let mut child = program::command()
            .args(args)
            .args(["--format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("vitempo starts");
        let stderr = child.stderr.take().expect("standard error");
        let said = std::io::BufReader::new(stderr).lines();
        let mut run = Self { child, said, engines: [String::new(), String::new()] };
        for (name, process) in ["a", "b"].into_iter().zip([0, 1]) {
            let prefix = format!("{name}: process ");
            let line = run.says(&prefix);
            line.strip_prefix(&prefix).expect("a process").clone_into(&mut run.engines[process]);
        }
        run.says("running queries");
        run
    }

    fn signal(&self, name: &str, process: &str) {
        let sent = std::process::Command::new("kill").args([name, process]).status();
        assert!(sent.expect("kill").success(), "kill {name} {process}");
    }

    /// What it says next with these words in it.
    fn says(&mut self, words: &str) -> String {
        let lines = self.said.by_ref().map(|line| line.expect("text"));
        lines.into_iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}"))
    }

    fn result(self) -> Value {
        let output = self.child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).expect("JSON on standard output")
    }
}

/// Task `one` runs on `a` and task `two` on `b`.
fn apart(zoo: &Zoo, period: &str, over: &str) -> String {
    let arrivals = ["--slo", "80%,5s", "--arrivals", period, "--over", over];
    let text = std::fs::read_to_string(zoo.plan(BOTH, &arrivals)).expect("a plan");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    for (task, processor) in plan["tasks"].as_array_mut().expect("tasks").iter_mut().zip(["a", "b"])
    {
        for way in task["ways"].as_array_mut().expect("ways") {
            let piece = object!({"processor": processor, "first": 1, "last": 2, "latency_ns": 1});
            way["pieces"] = object!([piece]);
        }
    }
    zoo.folder.file("apart.json", plan.to_string())
}

/// What became of the queries of a task: done, lost, and neither.
fn became(events: &[Value], task: u64) -> [usize; 3] {
    let own = || of(events, "query").into_iter().filter(|query| query["task"] == task);
    let count = |outcome: &str| own().filter(|query| query["outcome"] == outcome).count();
    let (done, lost) = (count("done"), count("lost"));
    [done, lost, own().count() - done - lost]
}

#[test]
fn a_killed_engine_loses_its_query_and_is_started_again() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let (plan, log) = (apart(&zoo, "20ms", "3s"), zoo.folder.path("log.jsonl"));
    let mut run = Running::start(&["run", &plan, "--timeout", "60", "--log", &log]);
    let [a, b] = run.engines.clone();
    assert!(!a.is_empty() && !b.is_empty() && a != b);
    // A stopped process is sure to have a query when it is killed.
    run.signal("-STOP", &a);
    std::thread::sleep(std::time::Duration::from_secs(1));
    run.signal("-KILL", &a);
    let ended = run.says("its engine ended");
    assert!(ended.starts_with("a: its engine ended: the worker ended (signal: 9"), "{ended}");
    assert!(ended.ends_with("1 queries are lost; it is started again"), "{ended}");
    assert!(run.says("was started again").starts_with("a: "));
    let result = run.result();
    let events = zoo.events("log.jsonl");
    assert_eq!((became(&events, 0), became(&events, 1)), ([149, 1, 0], [150, 0, 0]));
    assert_eq!(count(&result["tasks"][0]["lost"]), 1);
    assert_eq!(count(&result["tasks"][1]["lost"]), 0);
    assert_eq!(result["engines_lost"][0]["processor"], "a");
    assert_eq!(count(&result["engines_lost"][0]["queries"]), 1);
    assert_eq!(count(&result["engines_started"]), 1);
    let lost = &of(&events, "engine_lost")[0];
    let query = of(&events, "query").into_iter().find(|query| query["outcome"] == "lost");
    let query = query.expect("a lost query");
    assert_eq!((&lost["queries"][0], &query["violated"]), (&query["query"], &object!(true)));
    assert!(query["reason"].as_str().is_some_and(|reason| reason.contains("signal: 9")));
    let started = &of(&events, "engine_started")[0];
    assert_eq!(started["processor"], 0);
    assert_ne!(a.parse(), Ok(count(&started["process"])), "another process");
    // The results of the new process are those of the whole model, too.
    assert!(result["tasks"][0]["apart"].as_f64().is_some_and(|apart| apart < 1e-4));
    let replayed = json(&["run", "--replay", &log]);
    assert_eq!(count(&replayed["left_out"]), 1);
}

#[test]
fn a_run_is_interrupted_only_where_queries_did_not_arrive() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let log = zoo.folder.path("log.jsonl");
    let plan = apart(&zoo, "100ms", "60s");
    let mut run = Running::start(&["run", &plan, "--log", &log]);
    run.signal("-INT", &run.child.id().to_string());
    run.says("error: interrupted: not all queries arrived");
    let output = run.child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON on standard output");
    assert_eq!(result["interrupted"], true);
    assert_eq!(zoo.events("log.jsonl").last().expect("an end")["interrupted"], true);
    let plan = apart(&zoo, "50ms", "1s");
    let run = Running::start(&["run", &plan, "--timeout", "60", "--log", &log]);
    let a = run.engines[0].clone();
    // Its queries wait when the signal comes, long after the last arrival.
    run.signal("-STOP", &a);
    std::thread::sleep(std::time::Duration::from_secs(3));
    run.signal("-INT", &run.child.id().to_string());
    run.signal("-CONT", &a);
    assert_eq!(run.result()["interrupted"], false);
    let events = zoo.events("log.jsonl");
    assert_eq!((became(&events, 0), became(&events, 1)), ([20, 0, 0], [20, 0, 0]));
}

#[test]
fn an_engine_that_hangs_is_ended_and_after_a_few_times_left_out() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let (plan, log) = (apart(&zoo, "50ms", "10s"), zoo.folder.path("log.jsonl"));
    let mut run = Running::start(&["run", &plan, "--timeout", "1", "--log", &log]);
    let mut engine = run.engines[0].clone();
    for restart in ["it is started again"; 3].into_iter().chain(["it is not started again"]) {
        run.signal("-STOP", &engine);
        let ended = run.says("its engine ended");
        assert!(
            ended.starts_with("a: its engine ended: no answer within the time limit"),
            "{ended}"
        );
        assert!(ended.ends_with(restart), "{ended}");
        if restart == "it is started again" {
            let started = run.says("was started again");
            engine = started.rsplit(' ').next().expect("a process").to_owned();
        }
    }
    let result = run.result();
    let events = zoo.events("log.jsonl");
    let [done, lost, others] = became(&events, 0);
    assert_eq!((done + lost, others), (200, 0));
    assert!(lost >= 4, "{lost} queries of the stopped engine are lost");
    assert_eq!(became(&events, 1), [200, 0, 0], "the other engine goes on");
    assert_eq!(count(&result["tasks"][0]["lost"]), lost as u64);
    assert_eq!(result["engines_lost"].as_array().map(Vec::len), Some(4));
    assert_eq!(count(&result["engines_started"]), 3);
}

#[test]
fn engines_in_the_programs_own_process_compute_the_same() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let (plan, log) = (zoo.plan(BOTH, &["--slo", "80%,50ms"]), zoo.folder.path("log.jsonl"));
    let run = json(&["run", &plan, "--in-process", "--log", &log]);
    for task in run["tasks"].as_array().expect("tasks") {
        assert_eq!(count(&task["lost"]) + count(&task["failed"]), 0);
        assert!(task["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{task}");
    }
    assert!(zoo.events("log.jsonl")[0]["processors"][0]["process"].is_null());
}

#[test]
fn repeated_violations_fall_back_to_a_faster_variant() {
    if !has_two_cores() {
        return;
    }
    let zoo = Zoo::new();
    let slos = ["--slo", "one=90%,60ms", "--slo", "two=80%,60ms"];
    let plan = zoo.plan(BOTH, &[&slos[..], &["--arrivals", "30ms", "--over", "900ms"]].concat());
    let text = std::fs::read_to_string(&plan).expect("a plan");
    let mut written: Value = serde_json::from_str(&text).expect("JSON");
    let one = written["tasks"][0].clone();
    let fallbacks = written["phases"][0]["tasks"][0]["fallbacks"].clone();
    let fallback = count(&fallbacks[0]) as usize;
    assert_eq!(one["ways"][fallback]["variants"], object!(["structured-50", "structured-50"]));
    assert!(written["phases"][0]["tasks"][1]["fallbacks"].is_null(), "nothing is faster");
    // An objective that no query meets.
    written["phases"][0]["tasks"][0]["latency_ns"] = object!(1);
    let plan = zoo.folder.file("late.json", written.to_string());
    let log = zoo.folder.path("log.jsonl");
    let run = json(&["run", &plan, "--log", &log]);
    let events = zoo.events("log.jsonl");
    let switches = of(&events, "switch");
    assert_eq!(switches.len(), fallbacks.as_array().expect("fallbacks").len());
    assert_eq!(
        (&switches[0]["task"], &switches[0]["from"], &switches[0]["to"]),
        (&object!(0), &object!(0), &object!(1))
    );
    let lanes = events[0]["lanes"].as_array().expect("lanes");
    let level = |query: &&Value| count(&lanes[count(&query["lane"]) as usize]["level"]);
    let own: Vec<&Value> = of(&events, "query").into_iter().filter(|q| q["task"] == 0).collect();
    let fell_back = own.iter().filter(|query| level(query) > 0).count();
    assert!(fell_back > 0 && level(&own[0]) == 0 && own.len() == 30, "{fell_back} of 30");
    assert_eq!(count(&run["tasks"][0]["fell_back"]), fell_back as u64);
    assert_eq!((count(&run["tasks"][1]["fell_back"]), count(&run["tasks"][1]["switches"])), (0, 0));
    let replayed = json(&["run", "--replay", &log]);
    assert_eq!(count(&replayed["switches"]), switches.len() as u64);
    assert_eq!(count(&replayed["left_out"]), 0);
    let kept = json(&["run", &plan, "--no-fallback"]);
    assert_eq!(
        (count(&kept["tasks"][0]["fell_back"]), count(&kept["tasks"][0]["switches"])),
        (0, 0)
    );
    let phases = written["phases"].as_array_mut().expect("phases").iter_mut();
    for task in phases.flat_map(|phase| phase["tasks"].as_array_mut().expect("tasks")) {
        task["fallbacks"] = object!([]);
    }
    let none = zoo.folder.file("none.json", written.to_string());
    assert!(refused(&["run", &none, "--no-fallback"]).contains("the plan has no fallbacks"));
}

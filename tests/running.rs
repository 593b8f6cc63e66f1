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
    assert_eq!(written["loading"], "paper", "the record has no times of loading");
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
    let least = refused(&["run", &plan, "--memory", "150kB"]);
    assert!(least.contains("needs 200000 bytes at once on `a`"), "{least}");
    assert!(least.contains("hint: raise --memory"), "{least}");
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
        (&["--queries", "200000"], "at most 100000"),
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

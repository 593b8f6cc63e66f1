//! `vitempo plan place`: several models at once, from the measured zoo that ships, and from
//! forecasts.

mod program;

use program::{Folder, json, ok, refused, shipped};
use serde_json::Value;

fn record() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/stitching/record.json").to_owned()
}

fn place(more: &[&str]) -> Vec<String> {
    let record = record();
    let base = ["plan", "place", "--record", &record];
    let few = ["--evaluations", "300"];
    let few = if more.contains(&few[0]) { &[][..] } else { &few };
    base.iter().chain(few).chain(more).map(|&argument| argument.to_owned()).collect()
}

fn as_json(more: &[&str]) -> Value {
    let arguments = place(more);
    json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn as_refused(more: &[&str]) -> String {
    let arguments = place(more);
    refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn a_plan_says_what_it_reached_and_against_whom() {
    let known = ["--slowdown", "a/b=1.1", "--slowdown", "b/a=1.2", "--power", "a=2W"];
    let more = [&["--slo", "90%,40ms", "--power", "b=1W"][..], &known].concat();
    let plan = as_json(&more);
    let violated = count(&plan["score"]["violated"]);
    assert_eq!(count(&plan["score"]["queries"]), 4 * 24);
    assert!(count(&plan["bound"]["violated"]) <= violated);
    assert!(plan["score"]["energy_nj"].is_u64());
    assert_eq!(plan["contention_known"], true);
    let systems = plan["systems"].as_array().expect("systems");
    assert_eq!(systems.len(), 8);
    for system in systems {
        assert!(violated <= count(&system["score"]["violated"]), "{system}");
    }
    let of_tasks: u64 =
        plan["tasks"].as_array().expect("tasks").iter().map(|t| count(&t["violated"])).sum();
    assert_eq!(of_tasks, violated);
    assert_eq!(as_json(&more), plan, "the same again");
    let unknown = as_json(&["--slo", "90%,40ms"]);
    assert_eq!(unknown["contention_known"], false);
    assert!(unknown["score"]["energy_nj"].is_null());
}

#[test]
fn tables_name_every_system_and_what_is_not_known() {
    let arguments = place(&["--slo", "90%,40ms"]);
    let table = ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    for expected in [
        "SV-AO-P",
        "AV-NP",
        "SparseLoom",
        "stitched, tasks alone",
        "contention: not known",
        "energy: not known",
        "hand-over of a subgraph: not known",
        "plans evaluated",
        "whole",
        "fewest violated",
    ] {
        assert!(table.contains(expected), "{expected}:\n{table}");
    }
}

#[test]
fn the_hand_over_of_a_record_counts_unless_one_is_given() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(record()).expect("the record");
    let mut known: Value = serde_json::from_str(&text).expect("JSON");
    known["hand_over"] = serde_json::json!({"piece_ns": [300_000, 200_000], "runs": 96});
    let path = folder.file("record.json", known.to_string());
    let base = ["plan", "place", "--record", &path, "--evaluations", "50"];
    let measured = json(&[&base[..], &[]].concat());
    let given = json(&[&base[..], &["--hand-over", "0us"]].concat());
    assert_eq!(measured["hand_over"]["from"], "measured");
    assert_eq!(measured["hand_over"]["piece_ns"][1]["point"], 200_000);
    assert_eq!(
        (&given["hand_over"]["from"], &given["score"]),
        (&"given".into(), &{
            let bare = as_json(&["--evaluations", "50"]);
            assert_eq!(bare["hand_over"]["from"], "unknown");
            bare["score"].clone()
        })
    );
    let mean = |plan: &Value| plan["score"]["mean_latency_ns"].as_f64().expect("a latency");
    assert!(mean(&measured) > mean(&given));
    let grid = [&base[..], &["--grid", "--saturation", "2"]].concat();
    assert_eq!(json(&grid)["hand_over"]["from"], "measured");
    let table = ok(&[&base[..], &["--hand-over", "250us"]].concat());
    assert!(table.contains("250 us, given (--hand-over), in all costs"), "{table}");
    known["hand_over"]["piece_ns"] = serde_json::json!([300_000]);
    let short = folder.file("short.json", known.to_string());
    let error = refused(&["plan", "place", "--record", &short]);
    assert!(error.contains("hand-over is measured on 1 processors, there are 2"), "{error}");
}

#[test]
fn arrivals_are_periodic_random_or_from_a_file() {
    let folder = Folder::new();
    let periodic = as_json(&["--arrivals", "200ms", "--over", "1s"]);
    assert_eq!(count(&periodic["score"]["queries"]), 4 * 5);
    let random = as_json(&["--arrivals", "20/s", "--arrivals", "stripes=100ms", "--over", "1s"]);
    assert!(count(&random["score"]["queries"]) > 10);
    let trace = "task,arrival_ns\nstripes,0\nmobilevit_xxs,0\nedgenext_xx_small,5\n\
        vit_tiny_patch16_224,90000000\nstripes,100000000\n";
    let trace = folder.file("trace.csv", trace);
    let traced = as_json(&["--trace", &trace, "--memory", "60%"]);
    assert_eq!(count(&traced["score"]["queries"]), 5);
    assert!(count(&traced["memory_bytes"]) > 0);
}

#[test]
fn a_cold_start_needs_times_of_loading() {
    let unknown = as_refused(&["--cold"]);
    assert!(unknown.contains("the time of loading variant `dense` at position 1"), "{unknown}");
    assert!(unknown.contains("hint: ") && unknown.contains("--record"), "{unknown}");
    let text = std::fs::read_to_string(record()).expect("the record");
    let mut known: Value = serde_json::from_str(&text).expect("JSON");
    for task in known["tasks"].as_array_mut().expect("tasks") {
        for subgraph in task["subgraphs"].as_array_mut().expect("positions") {
            for subgraph in subgraph.as_array_mut().expect("subgraphs") {
                subgraph["load_ns"] = serde_json::json!([900_000_000, 1_000_000_000]);
            }
        }
    }
    let folder = Folder::new();
    let record = folder.file("record.json", known.to_string());
    let plan = |more: &[&str]| {
        let base = ["plan", "place", "--record", &record, "--evaluations", "100"];
        json(&[&base, more].concat())
    };
    let (cold, warm) = (plan(&["--cold"]), plan(&[]));
    assert_eq!((&cold["loading"], &warm["loading"]), (&"measured".into(), &Value::Null));
    let latency = |plan: &Value| plan["score"]["mean_latency_ns"].as_f64().expect("a latency");
    // Two subgraphs at least are loaded in each query.
    assert!(latency(&cold) > latency(&warm) + 1_800_000_000.0);
}

#[test]
fn the_grid_has_all_systems_and_the_planner_is_not_worse() {
    let grid = as_json(&["--grid", "--saturation", "2", "--evaluations", "30"]);
    let rows = grid["systems"].as_array().expect("systems");
    let (systems, ours) = rows.split_at(8);
    assert_eq!((systems.len(), ours.len()), (8, 2));
    let violated = count(&ours[0]["violated"]);
    assert!(count(&grid["least_violated"]) <= violated);
    for system in systems {
        assert_eq!(count(&system["queries"]), 25 * 24 * 4);
        assert!(violated <= count(&system["violated"]), "{system}");
        let rate = |row: &Value| row["queries_per_s"].as_f64().expect("a rate");
        assert!(rate(&ours[1]) >= rate(system) - 1e-9, "{system}");
    }
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (&["--slo", "nobody=90%,40ms"][..], "task `nobody` is not there; there are stripes"),
        (&["--slowdown", "a/b=1.1"], "slowdown of `b` beside `a` is not given"),
        (&["--slowdown", "a/b=0.5"], "not 1 or more"),
        (&["--power", "a=1W"], "power of `b` is not given"),
        (&["--arrivals", "stripes=33ms"], "`mobilevit_xxs` is never asked"),
        (&["--arrivals", "1us"], "at most 100000"),
        (&["--memory", "1kB"], "the budget is 1000 bytes"),
        (&["--saturation", "100000"], "1 to 1000"),
        (&["--trace", &folder.path("none.csv")], "none.csv"),
    ] {
        let message = as_refused(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert!(refused(&["plan", "place"]).contains("--record"));
    let none = folder.path("none.json");
    assert!(refused(&["plan", "place", "--record", &none]).contains("none.json"));
}

#[test]
fn tasks_are_planned_from_forecasts() {
    let folder = Folder::new();
    let (models, data, bundle) =
        (folder.path("models"), folder.path("data"), folder.path("null.vtb"));
    ok(&["sample", "--count", "12", "--seed", "3", "--no-weights", "--out", &models]);
    ok(&["profile", &models, "--backend", "null", "--out", &data]);
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    let zoo = folder.path("zoo");
    let model = shipped("mobilevit_xxs");
    let variants = "dense,structured=50%";
    let accuracies = ["--compare", "rten", "--inputs", "1", "--positions", "2"];
    ok(&[&["zoo", "make", &model, "--variant", variants, "--out", &zoo], &accuracies[..]].concat());
    let (npu, cpu) = (format!("npu={bundle}"), format!("cpu={bundle}"));
    let tasks = folder.path("zoo/tasks.toml");
    let costs = ["--tasks", &tasks, "--processor", &npu, "--processor", &cpu];
    let asked = ["--slo", "1%,10s", "--bandwidth", "8GB/s"];
    let plan = json(&[&["plan", "place"], &costs[..], &asked].concat());
    assert_eq!(count(&plan["score"]["violated"]), 0);
    assert_eq!(plan["proof"], "enumerated", "one task of 4 stitched variants");
    assert_eq!(count(&plan["score"]["queries"]), 1);
}

fn tasks() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/plans/z5/tasks.toml").to_owned()
}

/// Costs of the subgraphs of both tasks of `z5`: a variant takes 1000 ns and more a position on
/// `a`, a tenth of that on `b`, and 10 kB.
fn costs_of_two_models() -> String {
    let mut nodes = Vec::new();
    for (task, variants) in [("t0", 3), ("t1", 2)] {
        for (variant, position) in (0..variants).flat_map(|v| (1..=3).map(move |p| (v, p))) {
            nodes.push(serde_json::json!({
                "name": format!("{task}/v{variant}/{position}"),
                "latency_ns": {"a": 1000 + 100 * variant, "b": 100 + 10 * variant},
                "memory_bytes": 10_000,
            }));
        }
    }
    let processors = serde_json::json!([{"name": "a"}, {"name": "b"}]);
    serde_json::json!({"model": "z5", "processors": processors, "nodes": nodes, "tensors": []})
        .to_string()
}

#[test]
fn several_models_are_planned_from_one_costs_file() {
    let folder = Folder::new();
    let costs = folder.file("costs.json", costs_of_two_models());
    let (tasks, out) = (tasks(), folder.path("plan.json"));
    let base = ["plan", "place", "--tasks", &tasks, "--costs", &costs, "--evaluations", "3000"];
    let asked = |slo: &'static str| [&base[..], &["--slo", slo, "--out", &out]].concat();
    // A variant takes 300 ns on b. Both tasks come at once: the second waits, and ends after 600 ns.
    let one = json(&asked("50%,599ns"));
    assert_eq!((count(&one["score"]["queries"]), count(&one["score"]["violated"])), (2 * 2, 2));
    assert_eq!(count(&one["bound"]["violated"]), 2, "no plan is better");
    let both = json(&asked("50%,600ns"));
    assert_eq!(count(&both["score"]["violated"]), 0);
    assert_eq!(json(&asked("50%,600ns")), both, "the same again");
    for task in both["tasks"].as_array().expect("tasks") {
        let ways = task["ways"].as_array().expect("ways");
        assert!(ways.iter().any(|way| way["alone_ns"] == 300), "{task}");
    }
    let systems = both["systems"].as_array().expect("systems");
    assert_eq!(systems.len(), 8);
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(&out).expect("a plan")).expect("JSON");
    assert_eq!(plan["costs"], "file", "{plan}");
    // With as much memory as one variant of each takes, and no more.
    let memory = |size: &'static str| [&asked("50%,600ns")[..], &["--memory", size]].concat();
    assert_eq!(count(&json(&memory("60kB"))["memory_bytes"]), 60_000);
    let refused = refused(&memory("59kB"));
    let expected =
        "memory: the tasks take at least 60000 bytes together, the budget is 59000 bytes";
    assert!(refused.contains(expected) && refused.contains("raise --memory"), "{refused}");
}

#[test]
fn times_of_loading_may_be_those_of_a_costs_file() {
    let folder = Folder::new();
    let (tasks, text) = (tasks(), costs_of_two_models());
    let mut costs: Value = serde_json::from_str(&text).expect("JSON");
    for node in costs["nodes"].as_array_mut().expect("nodes") {
        node["load_ns"] = serde_json::json!({"a": 500_000, "b": 30_000});
        node["compile_ns"] = serde_json::json!({"b": 10_000});
    }
    let known = folder.file("known.json", costs.to_string());
    let without = folder.file("without.json", &text);
    let place = |costs: &str, more: &[&str]| {
        let base = ["plan", "place", "--tasks", &tasks, "--costs", costs];
        [&base[..], &["--slo", "50%,1ms", "--evaluations", "200"], more]
            .concat()
            .iter()
            .map(|&argument| argument.to_owned())
            .collect::<Vec<String>>()
    };
    let run =
        |arguments: &[String]| json(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let out = folder.path("plan.json");
    let cold = run(&place(&known, &["--cold", "--out", &out]));
    assert_eq!(cold["loading"], "file");
    let latency = |plan: &Value| plan["score"]["mean_latency_ns"].as_f64().expect("a latency");
    let warm = run(&place(&known, &[]));
    // Each of the three subgraphs of a query takes 40 us or more to compile and load.
    assert!(latency(&cold) >= latency(&warm) + 3.0 * 40_000.0, "{cold}");
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(&out).expect("a plan")).expect("JSON");
    assert_eq!(plan["loading"], "file");
    let arguments = place(&without, &["--cold"]);
    let refusal = refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refusal.contains("the time of loading variant `v0` at position 1"), "{refusal}");
    // Preloading: what is not in memory is fetched, which the latency contains.
    let stitch = |costs: &str, more: &[&str]| -> Vec<String> {
        let base = ["plan", "stitch", "--tasks", &tasks, "--costs", costs, "--slo", "50%,1ms"];
        [&base[..], &["--any-order"], more].concat().iter().map(|&a| a.to_owned()).collect()
    };
    let sum = |plan: &Value| -> u64 {
        let tasks = plan["tasks"].as_array().expect("tasks");
        tasks.iter().map(|task| count(&task["latency_ns"]["point"])).sum()
    };
    let (all, half) = (run(&stitch(&known, &[])), run(&stitch(&known, &["--memory", "30kB"])));
    assert_eq!(sum(&all), 2 * 300, "all subgraphs in memory: {all}");
    assert!(sum(&half) >= 2 * 300 + 3 * 40_000, "one task fetches its subgraphs: {half}");
    let arguments = stitch(&without, &["--memory", "30kB"]);
    let refusal = refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refusal.contains("the time of loading"), "{refusal}");
    let pipeline = refused(&["plan", "pipeline", "--costs", &known]);
    assert!(pipeline.contains("load_ns and compile_ns count for subgraphs"), "{pipeline}");
    costs["nodes"][0]["compile_ns"] = serde_json::json!({"gpu": 1});
    let wrong = folder.file("wrong.json", costs.to_string());
    let arguments = place(&wrong, &[]);
    let refusal = refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refusal.contains("compile_ns has processor `gpu`"), "{refusal}");
}

#[test]
fn costs_of_several_models_are_refused_by_field() {
    let folder = Folder::new();
    let (tasks, text) = (tasks(), costs_of_two_models());
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let costs = folder.file("costs.json", text.replacen(from, to, 1));
        refused(&["plan", "place", "--tasks", &tasks, "--costs", &costs])
    };
    for (from, to, expected) in [
        (r#""memory_bytes""#, r#""memory""#, "`nodes[0].memory`: unknown field `memory`"),
        (r#"{"name":"a"}"#, r#"{"name":"a","cores":2}"#, "`processors[0].cores`: unknown field"),
        (r#""model":"z5""#, r#""model":"z5","slos":[]"#, "unknown field `slos`"),
        (r#""model":"z5""#, r#""model":"z5","nodes":[]"#, "duplicate field `nodes`"),
        (r#"{"a":1000,"#, r#"{"a":5,"a":1000,"#, "processor `a` is listed twice"),
        (r#""name":"b""#, r#""name":"a""#, "processor `a` is listed twice"),
        ("t1/v1/3", "t1/v1/2", "node `t1/v1/2` is listed twice"),
        ("t1/v1/3", "t1/v1/4", "it lacks the node `t1/v1/3`"),
        (r#""a":1000"#, r#""a":-1"#, "`nodes[0].latency_ns.a`: "),
        (r#""a":1000"#, r#""gpu":1000"#, "processor `gpu`"),
        (r#"{"name":"a"}"#, r#"{"name":"a","memory_bytes":1}"#, "processor `a`: memory_bytes"),
    ] {
        let message = with(from, to);
        assert!(message.contains("costs.json") && message.contains(expected), "{to}: {message}");
    }
    let toml = std::fs::read_to_string(&tasks).expect("tasks");
    let costs = folder.file("costs.json", &text);
    for (from, to, expected) in [
        ("positions = 3", "positions = 3\nthreads = 2", "unknown field `threads`"),
        ("accuracy = 90", "accuracy = 90\nlatency = \"1ms\"", "unknown field `latency`"),
        ("accuracy = 90", "accuracy = 90\naccuracy = 80", "duplicate key"),
        ("name = \"t1\"", "name = \"t0\"", "task `t0`: it is listed twice"),
        ("accuracy = 90", "accuracy = 190", "accuracy"),
        ("accuracy = 50", "accuracy = 150", "accuracy"),
    ] {
        assert!(toml.contains(from), "{from}");
        let file = folder.file("tasks.toml", toml.replacen(from, to, 1));
        let message = refused(&["plan", "place", "--tasks", &file, "--costs", &costs]);
        assert!(message.contains("tasks.toml") && message.contains(expected), "{to}: {message}");
    }
}

/// The energy of a frame: of everything on one processor, that of a split that sends nothing.
#[test]
fn a_frame_on_one_processor_takes_what_a_split_takes_that_keeps_all_on_the_device() {
    let folder = Folder::new();
    let millisecond = 1_000_000;
    let pieces: Vec<Value> = [("t0", 3), ("t1", 2)]
        .into_iter()
        .flat_map(|(task, variants)| (0..variants).map(move |v| (task, v)))
        .flat_map(|(task, v)| (1..=3).map(move |p| format!("{task}/v{v}/{p}")))
        .map(|name| {
            serde_json::json!({"name": name, "latency_ns": {"a": 40 * millisecond}, "memory_bytes": 1})
        })
        .collect();
    let file = |name: &str, processors: Value, nodes: Value| {
        let link = serde_json::json!({"bandwidth_bytes_per_s": 1_000_000});
        let link = serde_json::json!({"from": "a", "to": "server", "link": link});
        let links: Vec<Value> = processors.get(1).map(|_| link).into_iter().collect();
        let costs = serde_json::json!({
            "model": "z5", "processors": processors, "links": links, "nodes": nodes, "tensors": [],
        });
        folder.file(name, costs.to_string())
    };
    let several = file("place.json", serde_json::json!([{"name": "a"}]), pieces.into());
    // Both tasks run three pieces.
    let nodes: Vec<Value> = (0..6)
        .map(
            |n| serde_json::json!({"name": format!("n{n}"), "latency_ns": {"a": 40 * millisecond}}),
        )
        .collect();
    let processors = serde_json::json!([{"name": "a"}, {"name": "server"}]);
    let one = file("split.json", processors, nodes.into());
    let tasks = tasks();
    for rate in ["2", "30"] {
        let frame =
            ["--frame-energy", "nexus6", "--device-frequency", "1.5", "--camera-rate", rate];
        let place = ["plan", "place", "--tasks", &tasks, "--costs", &several, "--slo", "1%,9s"];
        let plan = json(&[&place[..], &frame].concat());
        let split = json(&[&["plan", "split", "--costs", &one][..], &frame].concat());
        let expected = &split[0]["predicted"]["frame"];
        assert!(expected["energy_j"].as_f64().is_some_and(|j| j > 0.1), "{split}");
        for key in ["energy_j", "period_s", "latency_s"] {
            let number =
                |frame: &Value| frame[key].as_f64().unwrap_or_else(|| panic!("{key}: {frame}"));
            let (found, expected) = (number(&plan["frame"]), number(expected));
            assert!((found / expected - 1.0).abs() < 1e-9, "{rate} {key}: {found} {expected}");
        }
        assert_eq!(plan["frame"]["parts"], expected["parts"]);
    }
    let place = ["plan", "place", "--tasks", &tasks, "--costs", &several, "--slo", "1%,9s"];
    let frame = ["--frame-energy", "nexus6", "--camera-rate", "2"];
    let joules = |more: &[&str]| {
        let plan = json(&[&place[..], &frame, more].concat());
        let parts = plan["frame"]["parts"].clone();
        let part = |name: &str| parts[name].as_f64().unwrap_or_else(|| panic!("{name}: {parts}"));
        (part("inference_j"), part("base_j"), plan["frame"]["period_s"].as_f64().expect("a period"))
    };
    // Six pieces of 40 ms at 2 W.
    assert!((joules(&["--power", "a=2W"]).0 - 0.48).abs() < 1e-9);
    // Queries of both tasks every second: frames come as often, and take as much for inference.
    let (often, rarely) = (joules(&[]), joules(&["--arrivals", "1s"]));
    assert!((often.0 / rarely.0 - 1.0).abs() < 1e-9 && often.2 < 1.0);
    assert!((rarely.2 - 1.0).abs() < 1e-9 && rarely.1 > often.1, "{rarely:?}");
    let table = ok(&[&place[..], &frame].concat());
    assert!(table.contains("a frame on the device takes"), "{table}");
    let cold = refused(&[&place[..], &frame, &["--cold"]].concat());
    assert!(cold.contains("--cold"), "{cold}");
}

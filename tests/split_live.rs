//! `vitempo plan split --live`: both halves run, in two processes, over a shaped link. The tests
//! check outputs, bytes, plans, losses and refusals, never times.

mod program;

use program::{Folder, PROGRAM, refused, shipped, text, vitempo};
use serde_json::{Value, json};
use vitempo::graph::{Attributes, GraphBuilder, OpKind, TensorSpec, onnx};

/// Two products with an activation between them; the device's half sends 512 bytes.
fn small(folder: &Folder) -> String {
    let mut b = GraphBuilder::new("small");
    let x = b.input("x", TensorSpec::f32([16, 64]));
    let w = b.weight("w", TensorSpec::f32([64, 8]));
    let v = b.weight("v", TensorSpec::f32([8, 64]));
    let a = b.op("a", OpKind::Linear, Attributes::new(), &[x, w]).expect("a product");
    let r = b.op("b", OpKind::Relu, Attributes::new(), &[a]).expect("an activation");
    let c = b.op("c", OpKind::Linear, Attributes::new(), &[r, v]).expect("a product");
    let graph = b.finish(vec![c]).expect("a graph");
    let path = folder.path("small.onnx");
    onnx::write_file(path.as_ref(), &graph, &onnx::WriteOptions::default()).expect("a file");
    path
}

/// Costs in which the first two operators belong on the device and the last on the server, over a
/// link of 8 Mbit/s.
fn costs(folder: &Folder, change: impl Fn(&mut Value)) -> String {
    let node = |name: &str, device: u64, server: u64| json!({"name": name, "latency_ns": {"device": device, "server": server}});
    let tensor = |name: &str, bytes: u64, producer: Option<&str>, consumers: &[&str]| json!({"name": name, "size_bytes": bytes, "producer": producer, "consumers": consumers, "output": consumers.is_empty()});
    let link = |from: &str, to: &str| json!({"from": from, "to": to, "link": {"bandwidth_bytes_per_s": 1_000_000, "setup_ns": 1_000_000}});
    let mut costs = json!({
        "model": "small",
        "processors": [{"name": "device"}, {"name": "server"}],
        "links": [link("device", "server"), link("server", "device")],
        "nodes": [node("a", 1000, 90_000_000), node("b", 1000, 90_000_000), node("c", 90_000_000, 1000)],
        "tensors": [
            tensor("x", 4096, None, &["a"]), tensor("a_out", 512, Some("a"), &["b"]),
            tensor("b_out", 512, Some("b"), &["c"]), tensor("c_out", 4096, Some("c"), &[]),
        ],
    });
    change(&mut costs);
    folder.file("costs.json", costs.to_string())
}

/// Arguments that run the small model.
fn live<'a>(model: &'a str, costs: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let ends = ["--live", "device=rten", "--live", "server=rten", "--frames", "3"];
    [&["plan", "split", model, "--costs", costs], &ends[..], rest].concat()
}

/// JSON of a command whose ends each need a core; `None`, with a word, where there are too few.
fn on_own_cores(args: &[&str]) -> Option<Value> {
    let output = vitempo(&[args, &["--format", "json"]].concat());
    let stderr = text(&output.stderr);
    if stderr.contains("finds no core") {
        eprintln!("skipped: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{args:?}: {stderr}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON on standard output"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn halves_of_a_real_model_compute_the_same_in_every_precision() {
    let model = shipped("mobilevit_xxs");
    let folder = Folder::new();
    let bundles =
        ["--device-bundle", "epyc-rten-f32-1t", "--server-bundle", "epyc-onnxruntime-f32-1t"];
    // The input stays on the device, which has room for a part of the weights only.
    let bounds = ["--bandwidth", "400Mbit/s", "--confine", "input", "--max-memory", "12MB"];
    let ends = ["--live", "device=rten", "--live", "server=rten", "--frames", "2", "--inputs", "2"];
    let mut sent = Vec::new();
    for (features, allowed) in [("f32", 1e-5), ("f16", 1e-2), ("int8", 0.5)] {
        let record = folder.path(features);
        let rest = ["--features", features, "--record", &record];
        let args = [&["plan", "split", &model], &bundles[..], &bounds, &ends, &rest].concat();
        let Some(plan) = on_own_cores(&args) else { return };
        let (plan, live) = (&plan[0], &plan[0]["live"]);
        assert_eq!(plan["stages"].as_array().map(Vec::len), Some(2), "{plan}");
        assert_eq!(plan["transfers"][0]["size_bytes"], live["sent_bytes"], "{plan}");
        assert_eq!(plan["transfers"][1]["size_bytes"], live["received_bytes"], "{plan}");
        sent.push(number(&live["sent_bytes"]));
        let similarity = &live["similarity"];
        let (apart, cosine) = (number(&similarity["apart"]), number(&similarity["cosine"]));
        assert!(apart < allowed && cosine > 1.0 - allowed, "{features}: {similarity}");
        assert!(features == "f32" || apart > 0.0, "{features}: {similarity}");
        assert_eq!((&live["frames"], &live["evidence"]), (&2.into(), &"live".into()));
        assert_eq!((&live["lost"], &live["not_run"]), (&json!([]), &0.into()));
        // 49 and 54 bytes of messages beside their tensors, at 50 MB/s.
        let point = |latency: &Value| number(&latency["point"]);
        let forecast = point(&live["compared"]["latency"]["forecast_ns"]);
        assert_eq!(forecast, point(&plan["predicted"]["latency_ns"]) + 980.0 + 1080.0);
        recorded(&record, features, live);
    }
    // The cut moves where less is sent; what is sent is what the plan says, checked above.
    assert!(sent[1] <= sent[0] && sent[2] <= sent[1], "{sent:?}");
}

/// The record has the environments, engines, versions and every sample.
fn recorded(record: &str, features: &str, live: &Value) {
    let record = std::fs::read_to_string(record).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(
        (&record["features"], &record["model"]),
        (&features.into(), &"mobilevit_xxs".into())
    );
    for (end, processor) in
        record["ends"].as_array().expect("ends").iter().zip(["device", "server"])
    {
        let environment = &end["environment"];
        assert_eq!(
            (&end["processor"], &environment["framework"]),
            (&processor.into(), &"rten".into())
        );
        assert!(environment["framework_version"].is_string() && environment["isa"].is_string());
        assert_eq!(environment["cores"].as_array().map(Vec::len), Some(1));
    }
    let run = &record["run"];
    let samples = |name: &str| run[name].as_array().map(Vec::len);
    assert_eq!((samples("alone"), samples("streamed")), (Some(2), Some(2 + 6)), "{run}");
    assert_eq!(samples("periods_ns"), Some(2));
    assert_eq!(run["tensor_bytes"], json!([live["sent_bytes"], live["received_bytes"]]));
    let frame = &run["alone"][0];
    let parts = number(&frame["device_ns"]) + number(&frame["server_ns"]);
    assert!(number(&frame["latency_ns"]) > parts && parts > 0.0, "{frame}");
}

#[test]
fn the_table_shows_forecast_and_measurement() {
    let folder = Folder::new();
    let (model, costs) = (small(&folder), costs(&folder, |_| {}));
    if on_own_cores(&live(&model, &costs, &[])).is_none() {
        return;
    }
    let table = program::ok(&live(&model, &costs, &["--features", "int8"]));
    for expected in ["Forecast", "latency", "period", "sent 136 B in int8, 4096 B back", "cosine"] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    // All on one side: nothing is sent, and no server is needed.
    let args = live(&model, &costs, &["--confine", "b_out", "--remote", "/nonexistent/agent"]);
    let here = on_own_cores(&args).expect("one core");
    let live = &here[0]["live"];
    assert_eq!((&live["sent_bytes"], &live["link"]), (&0.into(), &Value::Null), "{here}");
    assert_eq!((live["ends"].as_array().map(Vec::len), &live["frames"]), (Some(1), &3.into()));
}

#[test]
fn costs_may_begin_with_a_byte_order_mark() {
    let folder = Folder::new();
    let plain = costs(&folder, |_| {});
    let text = std::fs::read_to_string(&plain).expect("costs");
    let marked = folder.file("marked.json", format!("\u{feff}{text}"));
    let [plain, marked] =
        [&plain, &marked].map(|file| program::ok(&["plan", "split", "--costs", file]));
    assert_eq!(plain, marked);
}

#[test]
fn break_points_are_measured_or_it_is_said_why_not() {
    let folder = Folder::new();
    let (model, costs) = (small(&folder), costs(&folder, |_| {}));
    let record = folder.path("record.json");
    let rest = ["--over-bandwidth", "--record", &record];
    let Some(ranges) = on_own_cores(&live(&model, &costs, &rest)) else { return };
    let ranges = ranges.as_array().expect("ranges");
    assert!(ranges.len() > 1, "{ranges:?}");
    let (last, others) = ranges.split_last().expect("ranges");
    assert!(last["live"].is_null());
    for range in others {
        let live = &range["live"];
        assert!(live["measured_bytes_per_s"].is_null() != live["not_found"].is_null(), "{live}");
        let tried = live["tried"].as_array().expect("a list");
        assert!(tried.len() > 1 || live["not_found"] == "out_of_reach", "{live}");
        if let Some(first) = tried.first() {
            assert_eq!(first["bytes_per_s"], range["to_bytes_per_s"], "the predicted one");
        }
    }
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(record).expect("a record")).expect("JSON");
    assert_eq!(written["break_points"].as_array().map(Vec::len), Some(others.len()));
}

/// Powers of the input, whose largest value is thousands of times that of most others, and their
/// logarithm, to which all of them matter.
fn uneven(folder: &Folder) -> String {
    let mut b = GraphBuilder::new("small");
    let x = b.input("x", TensorSpec::f32([16, 64]));
    let mut power = x;
    for name in ["a1", "a", "b"] {
        let both = [power, power];
        power = b.op(name, OpKind::Mul, Attributes::new(), &both).expect("a square");
    }
    let c = b.op("c", OpKind::Log, Attributes::new(), &[power]).expect("a logarithm");
    let graph = b.finish(vec![c]).expect("a graph");
    let path = folder.path("uneven.onnx");
    onnx::write_file(path.as_ref(), &graph, &onnx::WriteOptions::default()).expect("a file");
    path
}

#[test]
fn results_that_are_not_the_whole_models_end_with_an_error() {
    let folder = Folder::new();
    let model = uneven(&folder);
    let costs = costs(&folder, |costs| {
        let node = json!({"name": "a1", "latency_ns": {"device": 1000, "server": 90_000_000}});
        costs["nodes"].as_array_mut().expect("nodes").insert(0, node);
        let tensors = costs["tensors"].as_array_mut().expect("tensors");
        tensors[0]["consumers"] = json!(["a1"]);
        let first = json!({"name": "a1_out", "size_bytes": 4096, "producer": "a1", "consumers": ["a"], "output": false});
        tensors.insert(1, first);
    });
    let json_of = |features| live(&model, &costs, &["--features", features]);
    if on_own_cores(&json_of("f32")).is_none() {
        return;
    }
    let output = vitempo(&[&json_of("int8")[..], &["--format", "json"]].concat());
    let stderr = text(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    for expected in ["output `c_out` differs", "precision explains 3.0e-1", "--features f32"] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    let plan: Value = serde_json::from_slice(&output.stdout).expect("the report comes first");
    let similarity = &plan[0]["live"]["similarity"];
    assert!(number(&similarity["apart"]) > 0.3, "{similarity}");
    assert_eq!(similarity["output"], "c_out");
}

/// Passes bytes on at so many per second, a little at a time.
const SLOW: &str = r#"
import os, subprocess, sys, threading, time
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def carry(source, target, rate):
    while piece := os.read(source, 4096):
        if rate: time.sleep(len(piece) / rate)
        while piece: piece = piece[os.write(target, piece):]
    os.close(target)
up = threading.Thread(target=carry, args=(0, agent.stdin.fileno(), float(sys.argv[1])), daemon=True)
up.start()
carry(agent.stdout.fileno(), 1, 0)
"#;

#[test]
fn a_link_that_is_slower_than_declared_is_named() {
    let folder = Folder::new();
    let (model, slow) = (small(&folder), folder.file("slow.py", SLOW));
    let costs = costs(&folder, |_| {});
    let agent = folder.path("agent");
    // A tenth of the declared rate.
    let command = format!("python3 {slow} 100000 {PROGRAM} agent --folder {agent}");
    let Some(plan) = on_own_cores(&live(&model, &costs, &["--remote", &command])) else { return };
    let live = &plan[0]["live"];
    let slower = live["slower_than_declared"].as_array().expect("a list");
    assert!(slower.contains(&"to the server".into()), "{live}");
    assert!(number(&live["link"]["there_bytes_per_s"]) < 900_000.0, "{live}");
    assert!(number(&live["similarity"]["apart"]) < 1e-6, "{live}");
}

/// The first start of the agent breaks after so many bytes to the client; others go on.
const BREAKS: &str = r#"
cd "$(dirname "$0")" && echo >> starts
if [ "$(wc -l < starts)" -eq 1 ]; then
    exec 3<&0
    @AGENT@ <&3 | dd bs=1 count=@BYTES@ 2> dd &
    exec >&-
    wait
else
    exec @AGENT@
fi
"#;

#[test]
fn a_server_that_disappears_is_counted_and_started_again() {
    let folder = Folder::new();
    let (model, costs) = (small(&folder), costs(&folder, |_| {}));
    let agent = format!("{PROGRAM} agent --folder agent");
    // What the server says before it answers frames is less than one answer of 4 kB.
    let script = BREAKS.replace("@AGENT@", &agent).replace("@BYTES@", "9000");
    let command = format!("sh {}", folder.file("breaks.sh", script));
    let Some(plan) = on_own_cores(&live(&model, &costs, &["--remote", &command])) else { return };
    let live = &plan[0]["live"];
    let lost = live["lost"].as_array().expect("a list");
    assert!(!lost.is_empty() && lost.len() < 4, "{live}");
    assert!(lost[0]["reason"].as_str().is_some_and(|r| r.contains("closed")), "{live}");
    assert_eq!((&live["frames"], &live["not_run"]), (&3.into(), &0.into()), "{live}");
    assert!(number(&live["similarity"]["apart"]) < 1e-6, "{live}");
    // One that breaks before its first answer, each time, ends the run.
    let always = BREAKS.replace("@AGENT@", &agent).replace("@BYTES@", "3000");
    let script = folder.file("always.sh", always.replace("-eq 1", "-gt 0"));
    let command = format!("sh {script}");
    let error = refused(&self::live(&model, &costs, &["--remote", &command]));
    assert!(error.contains("no frame was completed; the server was lost 3 times"), "{error}");
}

#[test]
fn what_cannot_run_is_refused() {
    let folder = Folder::new();
    let model = small(&folder);
    let file = costs(&folder, |_| {});
    let plain = ["plan", "split", &model, "--costs", &file];
    let refuse = |rest: &[&str]| refused(&[&plain[..], rest].concat());
    let missing = refuse(&["--live", "device=rten"]);
    assert!(missing.contains("`server` has no engine") && missing.contains("--live server=rten"));
    let unknown = refuse(&["--live", "device=rten", "--live", "server=rten", "--live", "npu=rten"]);
    assert!(unknown.contains("no processor needs the engine of `npu`"), "{unknown}");
    let one_core = refuse(&["--live", "device=rten@0", "--live", "server=rten@0"]);
    assert!(one_core.contains("both have core 0"), "{one_core}");
    let absent = refuse(&["--live", "device=rten", "--live", "server=rten@4095"]);
    assert!(absent.contains("core 4095"), "{absent}");
    for (end, other) in [("device", "server"), ("server", "device")] {
        let (bad, good) = (format!("{end}=nope"), format!("{other}=rten"));
        let error = refuse(&["--live", &bad, "--live", &good]);
        assert!(error.contains("`nope`") || error.contains("finds no core"), "{error}");
    }
    let unmeasured = refuse(&[
        "--over-bandwidth",
        "--minimise",
        "bytes",
        "--live",
        "device=rten",
        "--live",
        "server=rten",
    ]);
    assert!(unmeasured.contains("break points of the latency"), "{unmeasured}");
    let precision = vitempo(&[&plain[..], &["--features", "int4"]].concat());
    assert!(text(&precision.stderr).contains("expected f32, f16 or int8"));
    let no_model = refused(&["plan", "split", "--costs", &file, "--features", "f16"]);
    assert!(no_model.contains("--features needs the model"), "{no_model}");
    let no_bundles =
        vitempo(&["plan", "split", &model, "--live", "device=rten", "--live", "server=rten"]);
    assert!(!no_bundles.status.success() && text(&no_bundles.stderr).contains("--device-bundle"));
    let conversion =
        costs(&folder, |costs| costs["links"][0]["link"]["conversion_bytes_per_s"] = 5.into());
    let error = refused(&live(&model, &conversion, &[]));
    assert!(error.contains("the link from `device` to `server`"), "{error}");
}

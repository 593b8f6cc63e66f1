//! Plans of one model over several processors, written by `plan pipeline` and `plan multitask`, run
//! by `vitempo run` and replayed. The tests check plans, counts and results, never times.

mod program;

use program::{Folder, json, ok, refused, shipped};
use serde_json::{Value, json as object};
use std::path::Path;
use vitempo::{
    graph::{
        Graph, GraphBuilder, OpKind, TensorSpec,
        onnx::{self, ReadOptions, WriteOptions},
    },
    profiler::pinning,
};

const STRIPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/stitching/stripes.onnx");
const RUN: [&str; 5] = ["--anywhere", "--live", "a=rten", "--live", "b=rten"];

/// Two engines need cores of their own.
fn has_two_cores() -> bool {
    let enough = pinning::usable().len() != 1;
    if !enough {
        eprintln!("skipped: there is one core");
    }
    enough
}

fn read(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a plan")).expect("JSON")
}

/// Runs a plan for some frames, whose results have to be those of the whole model, and replays it.
fn run(folder: &Folder, plan: &str, frames: u64) -> Value {
    let (log, count) = (folder.path("log.jsonl"), frames.to_string());
    let found = json(&[&["run", plan, "--queries", &count, "--log", &log][..], &RUN].concat());
    let task = &found["tasks"][0];
    assert_eq!(task["queries"].as_u64(), Some(frames));
    for lost in ["refused", "lost", "failed"] {
        assert_eq!(task[lost], 0, "{found}");
    }
    assert!(task["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{task}");
    let replayed = json(&["run", "--replay", &log]);
    assert_eq!(replayed["left_out"], 0);
    assert_eq!(replayed["tasks"][0]["queries"].as_u64(), Some(frames));
    found
}

/// The plan of a pipeline of the small model, and its path.
fn pipeline(folder: &Folder, more: &[&str]) -> (Value, String) {
    let path = folder.path("pipeline.json");
    let bundles = ["a=epyc-rten-f32-1t", "b=epyc-rten-f32-1t"];
    let forecast = ["--processor", bundles[0], "--processor", bundles[1], "--bandwidth", "90GB/s"];
    let base = ["plan", "pipeline", STRIPES];
    ok(&[&base, &forecast[..], more, &["--out", &path]].concat());
    (read(&path), path)
}

#[test]
fn a_pipeline_runs_as_planned_and_computes_what_the_model_computes() {
    let folder = Folder::new();
    let (plan, path) = pipeline(&folder, &[]);
    let task = &plan["tasks"][0];
    let pieces = task["ways"][0]["pieces"].as_array().expect("pieces");
    assert_eq!(pieces.len(), 2, "one stage on each processor: {plan}");
    let planned: Vec<u64> =
        pieces.iter().map(|piece| piece["latency_ns"].as_u64().expect("a time")).collect();
    // Frames arrive with the period, which is that of the slowest stage.
    let period = &plan["arrivals"]["over"]["tasks"][0]["periodic"]["period_ns"];
    assert_eq!(period.as_u64(), planned.iter().copied().max());
    let mean = plan["forecast"][0]["tasks"][0]["mean_latency_ns"].as_f64().expect("a latency");
    assert!((mean - planned.iter().sum::<u64>() as f64).abs() < 1.0, "no frame waits: {plan}");
    assert_eq!((&plan["costs"], &plan["loading"]), (&"forecast".into(), &"unknown".into()));
    assert!(plan["phases"][0]["tasks"][0]["latency_ns"].is_null(), "there is no deadline");
    if !has_two_cores() {
        return;
    }
    let found = run(&folder, &path, 12);
    assert_eq!(found["violated"]["measured"], 0, "nothing is asked for");
}

#[test]
fn values_that_later_parts_read_are_handed_on() {
    if !has_two_cores() {
        return;
    }
    let folder = Folder::new();
    let (mut plan, _) = pipeline(&folder, &[]);
    // Many small parts on processors in turn: residuals skip parts, and pieces of several parts
    // need them too.
    let task = &mut plan["tasks"][0];
    let nodes: Vec<Value> = task["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .flat_map(|part| part.as_array().expect("names").clone())
        .collect();
    let parts: Vec<&[Value]> = nodes.chunks(3).collect();
    let position =
        |place: usize| object!({"position": place + 1, "variant": "model", "memory_bytes": 1});
    task["subgraphs"] = (0..parts.len()).map(position).collect();
    task["nodes"] = object!(parts);
    task["ways"][0]["variants"] = vec!["model"; parts.len()].into();
    let places: Vec<usize> = (0..parts.len()).collect();
    let piece = |(number, places): (usize, &[usize])| {
        let (first, last) = (places[0] + 1, places[places.len() - 1] + 1);
        let processor = ["a", "b"][number % 2];
        object!({"processor": processor, "first": first, "last": last, "latency_ns": 1})
    };
    task["ways"][0]["pieces"] = places.chunks(4).enumerate().map(piece).collect();
    assert!(task["ways"][0]["pieces"].as_array().is_some_and(|pieces| pieces.len() > 4));
    let many = folder.file("many.json", plan.to_string());
    // The model is named from the folder of the plan.
    run(&folder, &many, 6);
    let mut wrong = plan.clone();
    wrong["tasks"][0]["nodes"][0][0] = "nobody".into();
    let wrong = folder.file("wrong.json", wrong.to_string());
    let refusal = refused(&[&["run", &wrong][..], &RUN].concat());
    assert!(refusal.contains("tasks[0].nodes: the model's node `"), "{refusal}");
    plan["tasks"][0]["cuts"] = object!(["t"]);
    let both = folder.file("both.json", plan.to_string());
    let refusal = refused(&[&["run", &both][..], &RUN].concat());
    assert!(refusal.contains("has no cuts, and one variant"), "{refusal}");
}

/// An encoder with two decoders, the second with postprocessing.
fn two_tasks(folder: &Folder) -> (String, Graph) {
    let mut b = GraphBuilder::new("two");
    let x = b.input("x", TensorSpec::f32([1, 4, 16, 16]));
    let features = b.conv("encoder.conv", x, 4, 3, 1, 1, 1, true).expect("a convolution");
    let features = b.unary("encoder.relu", OpKind::Relu, features).expect("an activation");
    let depth = b.conv("depth.conv", features, 2, 3, 1, 1, 1, true).expect("a convolution");
    let depth = b.unary("depth.tanh", OpKind::Tanh, depth).expect("an activation");
    let classes = b.conv("classes.conv", features, 8, 3, 1, 1, 1, true).expect("a convolution");
    let classes = b.unary("classes.tanh", OpKind::Tanh, classes).expect("an activation");
    let picture = b.unary("picture.sigmoid", OpKind::Sigmoid, classes).expect("an activation");
    let graph = b.finish(vec![depth, picture]).expect("a graph");
    let path = folder.path("two.onnx");
    onnx::write_file(Path::new(&path), &graph, &WriteOptions::default()).expect("a model");
    let graph = onnx::read_file(Path::new(&path), &ReadOptions::default()).expect("a graph");
    (path, graph)
}

/// Costs of its nodes: 1 ms each, the decoders each on one processor only.
fn costs(graph: &Graph) -> Value {
    let nodes = graph.nodes().iter().map(|node| {
        let latency = match &node.name {
            name if name.starts_with("depth") => object!({"b": 1_000_000}),
            name if name.starts_with("classes") => object!({"a": 1_000_000}),
            _ => object!({"a": 1_000_000, "b": 1_000_000}),
        };
        object!({"name": node.name, "latency_ns": latency})
    });
    let computed = graph.nodes().iter().flat_map(|node| &node.outputs);
    let tensors = graph.inputs().iter().chain(computed).map(|&id| {
        let producer = graph.nodes().iter().find(|node| node.outputs.contains(&id));
        let readers = graph.nodes().iter().filter(|node| node.inputs.contains(&id));
        let mut tensor = object!({
            "name": graph.value(id).name,
            "size_bytes": 1000,
            "consumers": readers.map(|node| node.name.clone()).collect::<Vec<_>>(),
            "output": graph.outputs().contains(&id),
        });
        if let Some(producer) = producer {
            tensor["producer"] = producer.name.clone().into();
        }
        tensor
    });
    let link = |from: &str, to: &str| object!({"from": from, "to": to, "link": {"bandwidth_bytes_per_s": 1_000_000_000}});
    object!({
        "model": "two",
        "processors": [{"name": "a"}, {"name": "b"}],
        "links": [link("a", "b"), link("b", "a")],
        "nodes": nodes.collect::<Vec<_>>(),
        "tensors": tensors.collect::<Vec<_>>(),
    })
}

#[test]
fn a_placement_of_two_decoders_runs_and_computes_what_the_model_computes() {
    let folder = Folder::new();
    let (model, graph) = two_tasks(&folder);
    let (costs, path) =
        (folder.file("costs.json", costs(&graph).to_string()), folder.path("p.json"));
    let placed = ["plan", "multitask", &model, "--costs", &costs, "--out", &path];
    let post = ["--postprocessing", "picture", "--deadline", "7ms"];
    let chosen = json(&[&placed[..], &post].concat());
    let plan = read(&path);
    let task = &plan["tasks"][0];
    assert_eq!(task["nodes"].as_array().map(Vec::len), Some(4), "encoder, two decoders, picture");
    let pieces = task["ways"][0]["pieces"].as_array().expect("pieces");
    assert!(pieces.len() >= 2, "the decoders are on different processors: {plan}");
    assert_eq!(plan["phases"][0]["tasks"][0]["latency_ns"], 7_000_000);
    assert_eq!((&plan["costs"], &plan["processors"][0]["engine"]), (&"file".into(), &Value::Null));
    let chosen = &chosen["placements"][0];
    let period = &plan["arrivals"]["over"]["tasks"][0]["periodic"]["period_ns"];
    assert_eq!(
        (&chosen["execution"], period),
        (&"pipelined".into(), &chosen["forecast"]["period_ns"]["point"])
    );
    // One part after the other: six nodes of 1 ms, and the transfers.
    let mean = plan["forecast"][0]["tasks"][0]["mean_latency_ns"].as_f64().expect("a latency");
    assert!(mean >= 7e6, "{mean}");
    let lacking = refused(&["run", &path]);
    assert!(lacking.contains("processor `a` has no engine"), "{lacking}");
    if !has_two_cores() {
        return;
    }
    run(&folder, &path, 9);
}

#[test]
fn cameras_and_deadlines_are_those_of_a_plan_that_is_written() {
    let folder = Folder::new();
    let (plan, _) = pipeline(&folder, &["--camera", "50", "--deadline", "1us"]);
    assert_eq!(plan["arrivals"]["over"]["tasks"][0]["periodic"]["period_ns"], 20_000_000);
    assert_eq!(plan["forecast"][0]["violated"], plan["forecast"][0]["queries"]);
    let forecast = ["--processor", "a=epyc-rten-f32-1t", "--bandwidth", "1GB/s", "--camera", "50"];
    let stages = folder.path("stages");
    let model = shipped("mobilevit_xxs");
    let refusal =
        refused(&[&["plan", "pipeline", &model][..], &forecast, &["--out", &stages]].concat());
    assert!(refusal.contains("--camera is for frames of a pipeline that runs"), "{refusal}");
}

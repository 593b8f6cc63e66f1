//! Compares forecast kernels with those that OpenVINO executed: `compare_openvino MODELS EXECUTED
//! [NAME...]`; in bfloat16 when `BF16` is set.
//!
//! `MODELS` is a folder of ONNX files (or a prefix of their paths), `EXECUTED` one JSON file per
//! model of the same name: the executed graph's nodes with `name`, `type`, `orig`, `status`, `time`
//! (us), `inputs` (`node`, `shape`) and `outputs` (`shape`). Prints the share of time of the
//! kernels that were forecast with the right kind and shapes; for models named, also the
//! differences, the longest first.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use vitempo_graph::{
    OpKind, OpSpec,
    lowering::openvino::{self, Settings, names::Names},
    onnx::{ReadOptions, read_file},
};

type Failure = Box<dyn std::error::Error>;
/// Kind, shapes of computed inputs, shapes of outputs.
type Key = (String, Vec<Vec<usize>>, Vec<Vec<usize>>);

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(models), Some(executed)) = (arguments.next(), arguments.next()) else {
        return Err("usage: compare_openvino MODELS EXECUTED [NAME...]".into());
    };
    let names: Vec<String> = arguments.collect();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&models)?.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "onnx"));
    files.sort();
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut total = (0.0, 0);
    for file in files {
        let name = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let truth = Path::new(&executed).join(format!("{name}.json"));
        if truth.exists() && (names.is_empty() || names.contains(&name)) {
            match report(&name, &file, &truth, &mut sums, !names.is_empty()) {
                Ok(share) => total = (total.0 + share, total.1 + 1),
                Err(error) => println!("{name}: {error}"),
            }
        }
    }
    println!("mean {:.2} % of {} models", 100.0 * total.0 / f64::from(total.1.max(1)), total.1);
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (kind, missed) in sums.into_iter().take(40) {
        println!("  missed {:.3} % {kind}", 100.0 * missed / f64::from(total.1.max(1)));
    }
    Ok(())
}

fn shape(value: &Value) -> Vec<usize> {
    value["shape"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .map(|d| d as usize)
        .collect()
}

fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node[field].as_str().unwrap_or_default()
}

/// The nodes that hold constants, or what is computed from constants alone.
fn constants(nodes: &[Value]) -> HashSet<&str> {
    let mut constant = HashSet::new();
    for node in nodes {
        let inputs = node["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        if text(node, "type") == "Const"
            || (!inputs.is_empty() && inputs.iter().all(|i| constant.contains(text(i, "node"))))
        {
            constant.insert(text(node, "name"));
        }
    }
    constant
}

fn report(
    name: &str,
    model: &Path,
    truth: &Path,
    sums: &mut BTreeMap<String, f64>,
    verbose: bool,
) -> Result<f64, Failure> {
    let graph = read_file(model, &ReadOptions::default())?;
    let lowered = openvino::lower(
        &graph,
        Settings { bf16: std::env::var_os("BF16").is_some(), ..Settings::default() },
    )?;
    let names = Names::of(&graph);
    let json: Value = serde_json::from_slice(&std::fs::read(truth)?)?;
    let nodes = json["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let constant = constants(nodes);
    let mut open: HashMap<Key, Vec<String>> = HashMap::new();
    for node in lowered.nodes() {
        open.entry(key(&node.op)).or_default().push(node.name.clone());
    }
    let (mut all, mut matched, mut missed) = (0.0, 0.0, Vec::new());
    for node in nodes
        .iter()
        .filter(|n| text(n, "status").ends_with("EXECUTED") && text(n, "type") != "Const")
    {
        let time = node["time"].as_f64().unwrap_or_default();
        let inputs = node["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut read: Vec<_> =
            inputs.iter().filter(|i| !constant.contains(text(i, "node"))).map(shape).collect();
        read.sort();
        let kind = names.kind(text(node, "type"), text(node, "name"), text(node, "orig"));
        let wrote = node["outputs"].as_array().into_iter().flatten().map(shape).collect();
        let key = (kind.name().to_owned(), read, wrote);
        all += time;
        match open.get_mut(&key).and_then(Vec::pop) {
            Some(_) => matched += time,
            None => missed.push((time, key, text(node, "orig").to_owned())),
        }
    }
    let share = matched / all;
    for (time, key, _) in &missed {
        *sums.entry(format!("{} {name}", key.0)).or_default() += time / all;
    }
    let extra: usize = open.values().map(Vec::len).sum();
    println!(
        "{name}: {:.2} %, {} missed, {extra} not run, of {}",
        100.0 * share,
        missed.len(),
        lowered.nodes().len()
    );
    if verbose {
        missed.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (time, (kind, read, wrote), originals) in missed.iter().take(40) {
            println!(
                "  missed {:.2} % {kind} {read:?} -> {wrote:?} {originals}",
                100.0 * time / all
            );
        }
        let mut extra: Vec<_> = open.into_iter().filter(|(_, n)| !n.is_empty()).collect();
        extra.sort_by_key(|(_, n)| n[0].clone());
        for ((kind, read, wrote), names) in extra.iter().take(60) {
            println!("  not run {kind} {read:?} -> {wrote:?} {names:?}");
        }
    }
    Ok(share)
}

fn key(op: &OpSpec) -> Key {
    let mut read: Vec<_> = op.activations().map(|t| t.shape.to_vec()).collect();
    read.sort();
    let kind = if matches!(op.kind, OpKind::Identity | OpKind::Cast) {
        OpKind::Reorder
    } else {
        op.kind.clone()
    };
    (kind.name().to_owned(), read, op.outputs.iter().map(|t| t.shape.to_vec()).collect())
}

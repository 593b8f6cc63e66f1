//! What running beside others costs: `profile --beside`, slowdown models in bundles, `predict
//! --beside` and `plan place` with them; on the embedded engine and two cores.

mod program;

use program::{Folder, json, ok, refused, shipped};
use serde_json::Value;
use vitempo::profiler::pinning;

/// Whether this machine has a core for models and another for loads.
fn has_two_cores() -> bool {
    pinning::usable().len() > 1
}

/// Few and short model runs.
const FEW: [&str; 6] = ["--min-repeats", "3", "--max-repeats", "3", "--profiled-repeats", "2"];

fn profile(models: &str, data: &str, more: &[&str]) -> Value {
    let base = ["profile", models, "--backend", "rten", "--out", data];
    json(&[&base[..], &FEW, more].concat())
}

#[test]
fn rows_beside_loads_train_a_slowdown_model_and_nothing_else() {
    if !has_two_cores() {
        eprintln!("skipped: one core");
        return;
    }
    let folder = Folder::new();
    let (models, data) = (folder.path("models"), folder.path("data"));
    ok(&["sample", "--count", "5", "--seed", "3", "--no-weights", "--out", &models]);
    let alone = profile(&models, &data, &[]);
    let plain = folder.path("plain.vtb");
    ok(&["train", &data, "--method", "lasso", "--out", &plain]);
    for load in ["stream:8MiB", "matmul"] {
        let beside = profile(&models, &data, &["--beside", load]);
        assert_eq!(beside["measured"], 5, "{beside}");
        assert_ne!(beside["environment"], alone["environment"]);
        let slug = load.replace(':', "-").to_lowercase();
        let named = beside["environment"].as_str().expect("an environment");
        assert!(named.contains(&format!("-beside-{slug}-")), "{named}");
        let again = profile(&models, &data, &["--beside", load]);
        assert_eq!((&again["measured"], &again["skipped"]), (&0.into(), &5.into()), "it resumes");
    }
    let inspected = json(&["dataset", "inspect", &data]);
    assert_eq!(inspected["environments"].as_object().map(|e| e.len()), Some(3));
    let rows =
        ok(&["dataset", "export", &data, "--table", "model_measurements", "--format", "csv"]);
    assert_eq!(rows.matches("flops_per_s").count(), 2 * 10, "alone and during, of ten rows");
    assert_eq!(rows.matches("model_alone_ns").count(), 10, "the model just before");
    ok(&["dataset", "validate", &data]);

    let bundle = folder.path("known.vtb");
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    let known = json(&["bundle", "inspect", &bundle]);
    let loads: Vec<&str> = known["contention"]["loads"]
        .as_array()
        .expect("loads")
        .iter()
        .filter_map(|load| load["load"].as_str())
        .collect();
    assert_eq!(loads, ["matmul", "stream:8MiB"]);
    assert!(ok(&["bundle", "inspect", &bundle]).contains("Contention   known beside a cpu"));
    let unknown = json(&["bundle", "inspect", &plain]);
    assert!(unknown["contention"].is_null());
    assert_eq!(unknown["provenance"]["data_digest"], known["provenance"]["data_digest"]);
    assert!(ok(&["bundle", "inspect", &plain]).contains("Contention   not known"));

    let model = shipped("mobilevit_xxs");
    let predict = |bundle: &str, more: &[&str]| {
        let all = json(&[&["predict", &model, "--bundle", bundle], more].concat());
        all[0].clone()
    };
    let (before, after) = (predict(&plain, &[]), predict(&bundle, &[]));
    assert_eq!(before["latency_ns"], after["latency_ns"], "loads change no forecast alone");
    assert!(after.get("beside").is_none());
    let neighbour = format!("{}@{bundle}", shipped("vit_tiny_patch16_224"));
    for asked in ["matmul", &neighbour] {
        let beside = predict(&bundle, &["--beside", asked]);
        assert_eq!(beside["latency_ns"], after["latency_ns"]);
        let factor = beside["beside"]["slowdown"]["point"].as_f64().expect("a factor");
        let (fast, slow) =
            (&after["latency_ns"]["point"], &beside["beside"]["latency_ns"]["point"]);
        let (fast, slow) = (fast.as_f64().expect("ns"), slow.as_f64().expect("ns"));
        assert!(factor >= 1.0 && (slow / fast / factor - 1.0).abs() < 1e-6, "{beside}");
    }
    let table = ok(&["predict", &model, "--bundle", &bundle, "--beside", "matmul"]);
    assert!(table.contains("Beside     ") && table.contains("while matmul runs"), "{table}");
    let csv =
        ok(&["predict", &model, "--bundle", &bundle, "--beside", "matmul", "--format", "csv"]);
    assert!(csv.lines().next().is_some_and(|line| line.contains(",beside_upper_ns,")), "{csv}");
    let asked = ["predict", &model, "--bundle", &plain, "--beside", "stream"];
    let error = refused(&asked);
    assert!(error.contains("contention is not known") && error.contains("--beside"), "{error}");
    let asked = ["predict", &model, "--bundle", &bundle, "--beside", "stream"];
    assert!(refused(&asked).contains("fitted to: matmul, stream:8MiB"));

    places_with_contention(&folder, &bundle, &plain);
}

/// A plan takes the slowdown of every pair from bundles that know it.
fn places_with_contention(folder: &Folder, bundle: &str, plain: &str) {
    let zoo = folder.path("zoo");
    let model = shipped("mobilevit_xxs");
    let variants = ["--variant", "dense,structured=50%", "--positions", "2"];
    let accuracies = ["--compare", "rten", "--inputs", "1", "--out", &zoo];
    ok(&[&["zoo", "make", &model], &variants[..], &accuracies].concat());
    let tasks = folder.path("zoo/tasks.toml");
    let plan = |one: &str, other: &str, more: &[&str]| {
        let processors = [format!("a={one}"), format!("b={other}")];
        let processors = processors.iter().flat_map(|p| ["--processor", p.as_str()]);
        let base = ["plan", "place", "--tasks", &tasks, "--slo", "1%,10s"];
        let all: Vec<&str> =
            base.into_iter().chain(processors).chain(more.iter().copied()).collect();
        (json(&all), ok(&all))
    };
    let (known, table) = plan(bundle, bundle, &[]);
    assert_eq!(known["contention_known"], true);
    let factors = &known["slowdown"];
    assert!(factors[0][1].as_f64().is_some_and(|f| (1.0..100.0).contains(&f)), "{factors}");
    assert_eq!(factors[0][1], factors[1][0], "one bundle for both");
    assert!(table.contains("contention: known, and part of the plan: `a` takes"), "{table}");
    let given = ["--slowdown", "a/b=1.5", "--slowdown", "b/a=1.25"];
    assert_eq!(plan(bundle, bundle, &given).0["slowdown"][0][1], 1.5, "what is given counts");
    let (unknown, table) = plan(bundle, plain, &[]);
    assert_eq!(unknown["contention_known"], false);
    assert!(unknown["slowdown"].is_null() && table.contains("contention: not known"), "{table}");
}

#[test]
fn loads_that_cannot_run_are_refused_before_anything_is_measured() {
    let folder = Folder::new();
    let data = folder.path("data");
    let model = shipped("mobilevit_xxs");
    let refuse = |more: &[&str]| {
        refused(&[&["profile", &model, "--backend", "rten", "--out", &data], more].concat())
    };
    assert!(refuse(&["--beside", "tornado"]).contains("`tornado` is no load"));
    assert!(refuse(&["--beside", "model:none.onnx@rten"]).contains("none.onnx"));
    let remote = ["--beside", "stream", "--remote", "ssh board vitempo-agent"];
    assert!(refuse(&remote).contains("--beside"));
    if has_two_cores() {
        let cores = pinning::usable();
        let core = cores.last().map(usize::to_string).unwrap_or_default();
        let shared = ["--beside", "matmul", "--beside-cores", &core];
        assert!(refuse(&shared).contains("is a core of the measured models"));
        let nope = format!("model:{model}@nope");
        assert!(refuse(&["--beside", &nope]).contains("no backend is called `nope`"));
    }
}

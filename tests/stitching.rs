//! Zoos of stitched variants from end to end: variants are made, stitched, run on an engine, and
//! planned. The tests check results, never times.

mod program;

use program::{Folder, json, ok, refused, shipped};
use serde_json::Value;
use std::path::{Path, PathBuf};
use vitempo::{
    graph::onnx::{self, ReadOptions},
    planners::stitch::cut,
};

/// Predictors of the null engine: every operator takes next to nothing.
fn bundle(folder: &Folder) -> String {
    let (models, data, bundle) =
        (folder.path("models"), folder.path("data"), folder.path("null.vtb"));
    ok(&["sample", "--count", "12", "--seed", "3", "--no-weights", "--out", &models]);
    ok(&["profile", &models, "--backend", "null", "--out", &data]);
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    bundle
}

/// A tasks file of one task with these variants of MobileViT-XXS.
fn zoo(folder: &Folder, variants: &str, more: &[&str]) -> String {
    let zoo = folder.path("zoo");
    ok(&[&["zoo", "make", &shipped("mobilevit_xxs"), "--variant", variants, "--out", &zoo], more]
        .concat());
    folder.path("zoo/tasks.toml")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

#[test]
fn variants_of_real_models_are_what_their_names_say() {
    let folder = Folder::new();
    let zoo = folder.path("zoo");
    let models =
        [shipped("mobilevit_xxs"), shipped("vit_tiny_patch16_224"), shipped("edgenext_xx_small")];
    let recipes = "dense,int8,structured=50%,masked=80%,structured=50%+int8";
    let made = json(&[
        "zoo",
        "make",
        &models[0],
        &models[1],
        &models[2],
        "--variant",
        recipes,
        "--positions",
        "2",
        "--compare",
        "rten",
        "--inputs",
        "1",
        "--out",
        &zoo,
    ]);
    let rows = list(&made["variants"]);
    assert_eq!(rows.len(), 15);
    for of_model in rows.chunks(5) {
        let [dense, int8, slim, masked, both] = of_model else { panic!("five variants") };
        let name = &dense["model"];
        assert!(
            (number(&dense["similarity"]) - 1.0).abs() < 1e-5,
            "{name}: {}",
            dense["similarity"]
        );
        assert_eq!(dense["params"], masked["params"], "{name}");
        let kept = number(&masked["nonzero"]) / number(&dense["nonzero"]);
        assert!((0.18..0.35).contains(&kept), "{name}: {kept} of the weights are left");
        assert!(
            number(&int8["weights_bytes"]) < 0.45 * number(&dense["weights_bytes"]),
            "{name}: {int8}"
        );
        assert!(
            number(&slim["params"]) < 0.9 * number(&dense["params"])
                && number(&slim["flops"]) < 0.9 * number(&dense["flops"]),
            "{name}: {slim}"
        );
        assert!(number(&both["weights_bytes"]) < number(&int8["weights_bytes"]), "{name}: {both}");
        assert!(
            number(&int8["similarity"]) > number(&slim["similarity"]) - 0.05,
            "{name}: {int8} {slim}"
        );
    }
    assert_eq!(list(&made["cuts"]["vit_tiny_patch16_224"]).len(), 1);
}

#[test]
fn every_stitched_variant_runs_and_computes_what_its_subgraphs_compute() {
    let folder = Folder::new();
    let tasks = zoo(&folder, "dense,int8,structured=50%", &["--positions", "2"]);
    let stitched = json(&["zoo", "stitch", "--tasks", &tasks, "--sample", "100", "--inputs", "1"]);
    let rows = list(&stitched["stitched"]);
    assert_eq!(rows.len(), 9, "all of them");
    for row in rows {
        assert!(row["refused"].is_null(), "{row}");
        assert!(number(&row["apart"]) < 1e-3, "{row}");
        let dense = list(&row["variants"]).iter().all(|variant| variant == "dense");
        assert!(!dense || (number(&row["similarity"]) - 1.0).abs() < 1e-5, "{row}");
    }
}

#[test]
fn one_stitched_variant_is_written_as_a_model() {
    let folder = Folder::new();
    let tasks = zoo(&folder, "dense,structured=50%", &["--positions", "3"]);
    let file = folder.path("stitched.onnx");
    ok(&[
        "zoo",
        "stitch",
        "--tasks",
        &tasks,
        "--variants",
        "dense,structured-50,dense",
        "--inputs",
        "1",
        "--out",
        &file,
    ]);
    let read =
        |path: &str| onnx::read_file(Path::new(path), &ReadOptions::default()).expect("a graph");
    let params = |path: &str| vitempo::graph::Work::of_graph(&read(path)).params;
    let [dense, slim] = ["dense", "structured-50"]
        .map(|variant| folder.path(&format!("zoo/mobilevit_xxs.{variant}.onnx")));
    assert!((params(&slim)..params(&dense)).contains(&params(&file)));
    assert!(onnx::weights_present(&PathBuf::from(&file)).expect("a file"));
    let wrong = refused(&["zoo", "stitch", "--tasks", &tasks, "--variants", "dense,fp4,dense"]);
    assert!(
        wrong.contains("tasks.toml: task `mobilevit_xxs`: there is no variant `fp4`")
            && wrong.contains("structured-50"),
        "{wrong}"
    );
    let short = refused(&["zoo", "stitch", "--tasks", &tasks, "--variants", "dense,dense"]);
    assert!(short.contains("--variants names 2, there are 3 positions"), "{short}");
}

#[test]
fn neighbours_of_different_shapes_are_refused_with_the_reason() {
    let folder = Folder::new();
    zoo(&folder, "dense,structured=50%", &["--positions", "2"]);
    // A tensor inside what was pruned, through which everything goes in both.
    let places = |variant: &str| {
        let path = folder.path(&format!("zoo/mobilevit_xxs.{variant}.onnx"));
        cut::places(&onnx::read_file(Path::new(&path), &ReadOptions::default()).expect("a graph"))
    };
    let slim = places("structured-50");
    let differs = |dense: &cut::Place| {
        slim.iter().any(|place| place.name == dense.name && place.tensor != dense.tensor)
    };
    let inside =
        places("dense").into_iter().find(differs).expect("a place inside a bottleneck").name;
    let variant = |name: &str| {
        format!(
            "[[task.variant]]\nname = \"{name}\"\nmodel \
            = \"zoo/mobilevit_xxs.{name}.onnx\"\naccuracy = 70.0\n"
        )
    };
    let task = format!(
        "positions = 2\n[[task]]\nname = \"see\"\ncuts = [\"{inside}\"]\n{}{}",
        variant("dense"),
        variant("structured-50")
    );
    let tasks = folder.file("tasks.toml", &task);
    let refusal =
        refused(&["zoo", "stitch", "--tasks", &tasks, "--variants", "structured-50,dense"]);
    assert!(
        refusal.contains("subgraph 2 of `dense` does not fit behind subgraph 1 of `structured-50`")
            && refusal.contains(&inside),
        "{refusal}"
    );
    ok(&["zoo", "stitch", "--tasks", &tasks, "--variants", "dense,dense", "--inputs", "1"]);
    let bundle = bundle(&folder);
    let processor = format!("npu={bundle}");
    let refusal = refused(&[
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        &processor,
        "--any-order",
        "--slo",
        "70%,30ms",
    ]);
    assert!(
        refusal.contains("tasks.toml: task `see`: subgraph 2 of")
            && refusal.contains("does not fit behind"),
        "{refusal}"
    );
}

#[test]
fn plans_keep_what_can_be_kept_and_say_what_is_missed() {
    let folder = Folder::new();
    let bundle = bundle(&folder);
    let tasks = zoo(
        &folder,
        "dense,int8,structured=50%",
        &["--positions", "2", "--compare", "rten", "--inputs", "1"],
    );
    let processors = ["npu", "cpu"].map(|name| format!("{name}={bundle}"));
    let words = [
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        &processors[0],
        "--processor",
        &processors[1],
    ];
    let plan = |more: &[&str]| json(&[&words[..], more].concat());

    let phone = json(&[
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        "npu=samsung-galaxy-s24-tflite-npu-f16",
        "--processor",
        "cpu=pixel4-tflite-cpu-f32",
        "--slo",
        "10%,100s",
    ]);
    assert_eq!(phone["violations"], 0, "adapted bundles plan as trained ones do");

    let easy = plan(&["--slo", "10%,100s"]);
    assert_eq!((&easy["violations"], &easy["evidence"]), (&0.into(), &"cost_model".into()));
    assert_eq!(list(&easy["order"]).len(), 2);
    assert_eq!(list(&easy["orders"]).len(), 2);
    let task = &easy["tasks"][0];
    assert_eq!(
        (list(&task["variants"]).len(), &task["slo_met"], &task["late_ns"]),
        (2, &true.into(), &0.into())
    );

    let accurate = plan(&["--slo", "10%,100s", "--slo", "mobilevit_xxs=100%,1ns"]);
    let task = &accurate["tasks"][0];
    assert_eq!((&accurate["violations"], &task["slo_met"]), (&1.into(), &false.into()));
    assert_eq!(
        task["variants"],
        serde_json::json!(["dense", "dense"]),
        "nothing else is as accurate"
    );
    let point =
        task["latency_ns"]["point"].as_u64().or(task["latency_ns"].as_u64()).expect("a latency");
    assert_eq!(task["late_ns"], point - 1);

    let unknown = refused(&[&words[..], &["--slo", "10%,100s", "--memory", "0%"]].concat());
    assert!(unknown.contains("the time of loading variant"), "{unknown}");
    // Times of loading are forecast for these engines.
    let known = ["npu=epyc-rten-f32-1t", "cpu=epyc-onnxruntime-f32-1t"];
    let plan = |more: &[&str]| {
        let base = ["plan", "stitch", "--tasks", &tasks, "--processor", known[0], "--processor"];
        json(&[&base[..], &known[1..], more].concat())
    };
    let all = plan(&["--slo", "10%,100s", "--memory", "100%"]);
    assert_eq!(all["loading"], "forecast");
    let memory = &all["preload"];
    assert!(
        number(&memory["memory_bytes"]) <= number(&memory["budget_bytes"])
            && memory["proven"] == true,
        "{memory}"
    );
    assert_eq!(list(&all["tasks"][0]["fetched"]).len(), 0);
    let none = plan(&["--slo", "10%,100s", "--memory", "0%", "--preload", "round-robin"]);
    assert_eq!(
        (&none["preload"]["memory_bytes"], list(&none["tasks"][0]["fetched"]).len()),
        (&0.into(), 2)
    );

    let table = ok(&[
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        known[0],
        "--processor",
        known[1],
        "--slo",
        "100%,1ns",
        "--memory",
        "50%",
    ]);
    for expected in [
        "dense | ",
        "no: ",
        " late",
        "0 of 1 SLOs met",
        "(cost model)",
        "In memory: ",
        "accuracy is similarity of results",
    ] {
        assert!(table.contains(expected), "`{expected}` is not in\n{table}");
    }
    let printed = plan(&["--slo", "10%,100s", "--as-printed"]);
    assert_eq!((&printed["as_printed"], &printed["violations"]), (&true.into(), &0.into()));
}

#[test]
fn what_is_missing_is_named_with_file_task_and_variant() {
    let folder = Folder::new();
    let bundle = bundle(&folder);
    let tasks = zoo(&folder, "dense,masked=50%", &["--positions", "2"]);
    let processor = format!("npu={bundle}");
    let plan = |more: &[&str]| refused(&[&["plan", "stitch", "--tasks", &tasks], more].concat());
    let unknown = plan(&["--processor", &processor, "--any-order", "--slo", "70%,30ms"]);
    assert!(
        unknown.contains(
            "tasks.toml: task `mobilevit_xxs`, variant `dense`: its accuracy is not known"
        ) && unknown.contains("hint: "),
        "{unknown}"
    );
    assert!(
        plan(&["--processor", &processor]).contains("task `mobilevit_xxs`: it has no objective")
    );
    assert!(plan(&["--slo", "70%,30ms"]).contains("names no processor with bundles"));
    assert!(plan(&["--slo", "see=70%,30ms"]).contains("has no task `see`"));

    let made = std::fs::read_to_string(&tasks)
        .expect("the tasks file")
        .replace("[[task.variant]]", "[[task.variant]]\naccuracy = 75.0");
    let file = folder.file("zoo/known.toml", &made);
    let plan = |more: &[&str]| {
        refused(&[&["plan", "stitch", "--tasks", &file, "--processor", &processor], more].concat())
    };
    let crowded = plan(&["--slo", "70%,30ms"]);
    assert!(
        crowded.contains("2 positions on 1 processors") && crowded.contains("--any-order"),
        "{crowded}"
    );
    let absent = made.replace("mobilevit_xxs.masked-50.onnx", "gone.onnx");
    let absent = folder.file("zoo/absent.toml", &absent);
    let absent = refused(&[
        "plan",
        "stitch",
        "--tasks",
        &absent,
        "--processor",
        &processor,
        "--slo",
        "70%,30ms",
    ]);
    assert!(
        absent.contains("absent.toml: task `mobilevit_xxs`, variant `masked-50`: cannot read")
            && absent.contains("gone.onnx"),
        "{absent}"
    );

    folder.file("zoo/bad.csv", "s1,s2,accuracy\ndense,masked-50,75\ndense,none,75\n");
    let stitched = folder.file(
        "zoo/stitched.toml",
        made.replace(
            "name = \"mobilevit_xxs\"",
            "name = \"mobilevit_xxs\"\nstitched = \"bad.csv\"",
        ),
    );
    let wrong = refused(&[
        "plan",
        "stitch",
        "--tasks",
        &stitched,
        "--processor",
        &processor,
        "--any-order",
        "--slo",
        "70%,30ms",
    ]);
    assert!(wrong.contains("bad.csv, line 3: there is no variant `none`"), "{wrong}");
    folder.file("zoo/bad.csv", "s2,s1,accuracy\ndense,masked-50,75\n");
    let base = ["plan", "stitch", "--tasks", &stitched, "--processor", &processor];
    let order = refused(&[&base[..], &["--any-order", "--slo", "70%,30ms"]].concat());
    assert!(order.contains("the columns are `s2,s1,accuracy`"), "{order}");
}

#[test]
fn measured_accuracies_replace_estimates() {
    let folder = Folder::new();
    let bundle = bundle(&folder);
    let tasks = zoo(
        &folder,
        "dense,int8,structured=25%,structured=50%",
        &["--positions", "2", "--compare", "rten", "--inputs", "1"],
    );
    let processor = format!("npu={bundle}");
    let made = std::fs::read_to_string(&tasks).expect("the tasks file");
    // (variants measured, how the rest is known)
    for (count, how) in
        [("10", "estimated: gradient boosting on "), ("100", "measured: all 16 stitched variants")]
    {
        let csv = folder.path("zoo/stitched.csv");
        let measured = json(&[
            "zoo",
            "stitch",
            "--tasks",
            &tasks,
            "--sample",
            count,
            "--inputs",
            "1",
            "--accuracies",
            &csv,
        ]);
        let file = folder.file(
            "zoo/measured.toml",
            made.replacen("cuts = ", "stitched = \"stitched.csv\"\ncuts = ", 1),
        );
        let plan = json(&[
            "plan",
            "stitch",
            "--tasks",
            &file,
            "--processor",
            &processor,
            "--any-order",
            "--slo",
            "0%,100s",
        ]);
        let task = &plan["tasks"][0];
        assert!(task["accuracy_how"].as_str().is_some_and(|text| text.starts_with(how)), "{task}");
        let row =
            list(&measured["stitched"]).iter().find(|row| row["variants"] == task["variants"]);
        if let (Some(row), "100") = (row, count) {
            assert!(
                (number(&task["accuracy"]) - 100.0 * number(&row["similarity"])).abs() < 0.01,
                "{task} {row}"
            );
        }
    }
}

/// What ships for stitching: a small transformer that was trained, and images it never saw.
fn trained(name: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("datasets/stitching")
        .join(name)
        .display()
        .to_string()
}

/// A tasks file with these variants of the trained model in two subgraphs.
fn trained_zoo(folder: &Folder, variants: &str) -> String {
    ok(&[
        "zoo",
        "make",
        &trained("stripes.onnx"),
        "--variant",
        variants,
        "--positions",
        "2",
        "--out",
        &folder.path("zoo"),
    ]);
    folder.path("zoo/tasks.toml")
}

#[test]
fn accuracies_are_measured_on_labelled_images() {
    let folder = Folder::new();
    let tasks = trained_zoo(&folder, "dense,structured=50%");
    let measure = |more: &[&str]| {
        json(
            &[
                &[
                    "zoo",
                    "measure",
                    "--tasks",
                    &tasks,
                    "--images",
                    &trained("images.npy"),
                    "--labels",
                    &trained("labels.npy"),
                ],
                more,
            ]
            .concat(),
        )
    };
    let all = measure(&["--update"]);
    let rows = list(&all["stitched"]);
    let accuracy = |rows: &[Value], variants: [&str; 2]| {
        let row = rows
            .iter()
            .find(|row| row["variants"] == serde_json::json!(variants))
            .unwrap_or_else(|| panic!("no {variants:?}"));
        number(&row["accuracy"])
    };
    assert_eq!((rows.len(), all["images"].as_u64()), (4, Some(50)));
    let (dense, slim) =
        (accuracy(rows, ["dense", "dense"]), accuracy(rows, ["structured-50", "structured-50"]));
    assert!(dense >= 80.0 && slim < dense, "{dense} {slim}");
    assert_eq!(
        accuracy(list(&measure(&["--sample", "1", "--seed", "3"])["stitched"]), ["dense", "dense"])
            .to_bits(),
        dense.to_bits(),
        "originals always are"
    );

    let bundle = format!("npu={}", bundle(&folder));
    let plan = json(&[
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        &bundle,
        "--any-order",
        "--slo",
        "0%,100s",
    ]);
    assert_eq!(plan["tasks"][0]["accuracy_how"], "measured: all 4 stitched variants");
    let chosen: Vec<&str> =
        list(&plan["tasks"][0]["variants"]).iter().filter_map(Value::as_str).collect();
    let measured = accuracy(rows, [chosen[0], chosen[1]]);
    assert!((number(&plan["tasks"][0]["accuracy"]) - measured).abs() < 0.01, "{chosen:?}");
}

#[test]
fn images_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let tasks = trained_zoo(&folder, "dense");
    let array = |kind: &str, shape: &str, bytes: usize| {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        [
            b"\x93NUMPY\x01\x00",
            &(header.len() as u16).to_le_bytes()[..],
            header.as_bytes(),
            &vec![0; bytes],
        ]
        .concat()
    };
    let (images, labels) = (trained("images.npy"), trained("labels.npy"));
    let small = folder.file("small.npy", array("<f4", "(1, 3, 8, 8)", 768));
    let few = folder.file("few.npy", array("<i8", "(1,)", 8));
    let text = folder.file("text.npy", "class\n3\n");
    // The last element of a file, replaced.
    let ending = |path: &str, end: &[u8]| {
        let mut bytes = std::fs::read(path).expect("an array");
        let at = bytes.len() - end.len();
        bytes[at..].copy_from_slice(end);
        bytes
    };
    let nowhere = folder.file("nowhere.npy", ending(&labels, &99i64.to_le_bytes()));
    let nan = folder.file("nan.npy", ending(&images, &f32::NAN.to_le_bytes()));
    let cases = [
        (&images, &nowhere, "nowhere.npy: image 49 has the class 99; the model has "),
        (&nan, &labels, "nan.npy: image 49 has the value NaN"),
        (&small, &labels, "small.npy: its shape is [1, 3, 8, 8]; the model takes [50, 3, 20, 20]"),
        (&images, &few, "few.npy: 1 labels for 50 images"),
        (&images, &text, "text.npy: this is no .npy file"),
        (&labels, &labels, "expected 32-bit floats"),
        (&images, &images, "expected integers"),
    ];
    for (images, labels, expected) in cases {
        let refusal =
            refused(&["zoo", "measure", "--tasks", &tasks, "--images", images, "--labels", labels]);
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn plans_are_held_against_engines_and_reported() {
    let folder = Folder::new();
    let tasks = trained_zoo(&folder, "dense,structured=50%");
    ok(&[
        "zoo",
        "measure",
        "--tasks",
        &tasks,
        "--images",
        &trained("images.npy"),
        "--labels",
        &trained("labels.npy"),
        "--update",
    ]);
    let record = folder.path("record.json");
    let plan = [
        "plan", "stitch", "--tasks", &tasks, "--live", "a=rten", "--live", "b=rten", "--slo",
        "10%,100s", "--frames", "1", "--tries", "2", "--record", &record,
    ];
    let output = program::vitempo(&[&plan[..], &["--format", "json"]].concat());
    let stderr = program::text(&output.stderr);
    if stderr.contains("finds no core") {
        eprintln!("skipped: {stderr}");
        return;
    }
    assert!(output.status.success(), "{stderr}");
    let planned = serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    let live = planned["live"].clone();
    assert_eq!(
        (list(&live["orders"]).len(), list(&live["tried"]).len(), &live["evidence"]),
        (2, 4, &"live".into())
    );
    assert!(
        number(&live["regret"]) >= 0.0
            && number(&live["sums_off"]) >= 0.0
            && live["forecasts_off"].is_null(),
        "{live}"
    );
    let found = (&planned["hand_over"]["from"], &live["hand_over"]["runs"]);
    assert_eq!(found, (&"measured".into(), &4.into()));
    assert!(number(&live["sums_with_hand_over_off"]) >= 0.0, "{live}");
    let text = std::fs::read_to_string(&record).expect("a record");
    let stored: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(stored["hand_over"], live["hand_over"]);
    for order in list(&live["orders"]) {
        assert!(number(&order["measured_ns"]) > 0.0 && order["measured_misses"] == 0, "{order}");
    }
    let page = ok(&["zoo", "report", &record]);
    for expected in [
        "| SV-AO-P |",
        "| stitched |",
        "## Memory",
        "more than the samples of the estimator",
        "processor `a`: rten on cores",
        "| live |",
    ] {
        assert!(page.contains(expected), "`{expected}` is not in\n{page}");
    }
    let broken = folder.file("broken.json", "{\"processors\": []");
    assert!(refused(&["zoo", "report", &broken]).contains("broken.json: EOF"));
    let engine = refused(&[
        "plan",
        "stitch",
        "--tasks",
        &tasks,
        "--processor",
        "npu=x.vtb",
        "--live",
        "a=rten",
        "--slo",
        "10%,100s",
    ]);
    assert!(engine.contains("processor `npu` has no engine"), "{engine}");
}

//! The program as a user sees it: what it prints, what it refuses and how, and all steps on the
//! null engine, interrupted and resumed.

mod program;

use program::{Folder, command, json, ok, refused, shipped, text, vitempo};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// A file that is read in a way of its own, beside the tests.
fn read_case(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/read"));
    folder.join(format!("{name}.onnx")).display().to_string()
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    let verbs: &[&[&str]] = &[
        &["sample"],
        &["export"],
        &["inspect"],
        &["profile"],
        &["agent"],
        &["dataset", "inspect"],
        &["dataset", "validate"],
        &["dataset", "split"],
        &["dataset", "merge"],
        &["dataset", "import", "mobile-ml-benchmark"],
        &["dataset", "append"],
        &["dataset", "compact"],
        &["dataset", "files"],
        &["dataset", "export"],
        &["train"],
        &["evaluate"],
        &["predict"],
        &["search"],
        &["serve"],
        &["plan", "split"],
        &["plan", "pipeline"],
        &["plan", "multitask"],
        &["plan", "offload"],
        &["plan", "stitch"],
        &["energy", "dissect"],
        &["energy", "record"],
        &["energy", "simulate"],
        &["energy", "timeline"],
        &["zoo", "make"],
        &["zoo", "stitch"],
        &["backends", "list"],
        &["backends", "install"],
        &["backends", "check"],
        &["bundle", "inspect"],
        &["report"],
        &["demo"],
        &["completions"],
    ];
    for verb in verbs {
        let help = ok(&[verb, &["--help"][..]].concat());
        assert!(help.contains("Example: vitempo"), "{verb:?} --help gives no example:\n{help}");
    }
    insta::assert_snapshot!("help", ok(&["--help"]));
}

#[test]
fn inspect_counts_what_a_real_model_is_made_of() {
    let model = &json(&["inspect", &shipped("vit_tiny_patch16_224")])[0];
    // MACs and parameters as the model's source counts them; the file has four scalar constants
    // more.
    assert_eq!(model["macs"], 1_253_683_200u64);
    assert_eq!(model["params"], 5_717_416u64 + 4);
    assert_eq!(model["inputs"][0]["shape"], serde_json::json!([1, 3, 224, 224]));
    assert_eq!(model["unsupported"], serde_json::json!([]));
    insta::assert_snapshot!(
        "inspect-kinds",
        serde_json::to_string_pretty(&model["kinds"]).expect("text")
    );
}

#[test]
fn models_are_taken_for_images_of_other_sizes() {
    let model = shipped("mobilevit_xxs");
    let sizes = ["--size", "192", "--size", "256x320"];
    let at = |verb: &[&str]| json(&[verb, &sizes[..]].concat());
    let inspected = at(&["inspect", &model]);
    let shapes = [0, 1].map(|i| inspected[i]["inputs"][0]["shape"].clone());
    assert_eq!(serde_json::json!(shapes), serde_json::json!([[1, 3, 192, 192], [1, 3, 256, 320]]));
    let bundle = "epyc-onnxruntime-f32-1t";
    let forecast = at(&["predict", &model, "--bundle", bundle]);
    let ms = |i: usize| forecast[i]["latency_ns"]["point"].as_f64().expect("a latency");
    assert!(ms(1) > 1.5 * ms(0), "{forecast}");
    // The file's own size changes nothing.
    let own = json(&["predict", &model, "--bundle", bundle, "--size", "256"]);
    let plain = json(&["predict", &model, "--bundle", bundle]);
    assert_eq!(own[0]["latency_ns"], plain[0]["latency_ns"]);
    // Measured as a file of its own; a size that the windows do not divide is left out.
    let folder = Folder::new();
    let data = folder.path("data");
    let odd = ["--size", "192", "--size", "31"];
    let profile = ["profile", &model, "--backend", "rten", "--out", &data];
    let few = ["--min-repeats", "2", "--max-repeats", "2"];
    let output = vitempo(&[&profile[..], &few, &odd, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(1), "one of two is left out");
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(measured["measured"], 1, "{measured}");
    assert_eq!(measured["left_out"].as_array().map(Vec::len), Some(1));
    assert_eq!(measured["failed"], serde_json::json!([]));
    let error = refused(&["inspect", &model, "--size", "31"]);
    assert!(error.contains("does not work at the new size"), "{error}");
    let error = text(&vitempo(&["inspect", &model, "--size", "0x4"]).stderr);
    assert!(error.contains("`0x4` is not a size") && error.contains("406x658"), "{error}");
}

/// With other values of inputs a model is measured again, in the same folder, and once.
#[test]
fn measurements_with_other_inputs_are_their_own() {
    let folder = Folder::new();
    let (model, data) = (shipped("mobilevit_xxs"), folder.path("data"));
    let counts = |inputs: &str| {
        let found = json(
            &[
                &["profile", &model, "--backend", "null", "--out", &data][..],
                &["--input-distribution", inputs],
            ]
            .concat(),
        );
        [&found["measured"], &found["skipped"]].map(|n| n.as_u64().expect("a count"))
    };
    for inputs in ["uniform(-1,1)", "constant(2)", "constant(5)"] {
        assert_eq!(counts(inputs), [1, 0], "{inputs}");
        assert_eq!(counts(inputs), [0, 1], "{inputs}, again");
    }
}

/// One model over sizes: forecasts, work by class, measurements, and a figure.
#[test]
fn a_model_is_counted_and_forecast_over_sizes() {
    let folder = Folder::new();
    let (model, data, figure) =
        (shipped("mobilevit_xxs"), folder.path("data"), folder.path("sizes.svg"));
    let bundle = folder.path("null.vtb");
    let sized = ["--size", "128", "--size", "192x256"];
    let models = folder.path("models");
    ok(&["sample", "--count", "12", "--seed", "3", "--no-weights", "--out", &models]);
    let trained = folder.path("trained");
    ok(&["profile", &models, "--backend", "null", "--out", &trained]);
    ok(&["train", &trained, "--method", "lasso", "--out", &bundle]);
    ok(&[&["profile", &model, "--backend", "null", "--out", &data], &sized[..]].concat());
    let sweep = ["predict", &model, "--bundle", &bundle, "--sizes", "128,192x256,384"];
    let measured = [&sweep[..], &["--measured", &data, "--plot", &figure]].concat();
    let found = json(&measured);
    let rows = found["sizes"].as_array().expect("sizes");
    assert_eq!(
        rows.iter().map(|r| &r["size"]).collect::<Vec<_>>(),
        ["128x128", "192x256", "384x384"]
    );
    let alone = json(&["predict", &model, "--bundle", &bundle, "--size", "192x256"]);
    assert_eq!(rows[1]["forecasts"][0]["latency_ns"], alone[0]["latency_ns"], "as with --size");
    let inspected = json(&["inspect", &model, "--size", "192x256"]);
    assert_eq!(rows[1]["flops"], inspected[0]["flops"]);
    for (row, is_measured) in rows.iter().zip([true, true, false]) {
        let ns = &row["forecasts"][0]["measured"]["median_ns"];
        assert_eq!(ns.is_number(), is_measured, "{row}");
        let classes = row["classes"].as_array().expect("classes");
        assert!(classes.iter().any(|class| class["class"] == "Attention"), "{row}");
    }
    let scores = |row: usize| rows[row]["attention"]["scores"].as_u64().expect("a count");
    // 9 times the pixels, 81 times the scores: tokens are whole at both sizes.
    assert_eq!(scores(2), 81 * scores(0));
    let svg = std::fs::read_to_string(&figure).expect("a figure");
    assert!(svg.starts_with("<svg") && svg.contains("measured") && svg.contains("Attention"));
    let table = ok(&sweep);
    for expected in ["Latency", "FLOPs", "Bytes moved", "Scores", "128x128", "384x384"] {
        assert!(table.contains(expected), "{expected}:\n{table}");
    }
    let csv = ok(&[&sweep[..], &["--format", "csv"]].concat());
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let twice = refused(&[&sweep[..], &["--size", "64"]].concat());
    assert!(twice.contains("--size"), "{twice}");
    let several = refused(&["predict", &models, "--bundle", &bundle, "--sizes", "128"]);
    assert!(several.contains("hint: give one file"), "{several}");
}

#[test]
fn weights_that_are_listed_as_inputs_are_read_as_weights_with_a_warning() {
    let output = vitempo(&["inspect", &read_case("weights_as_inputs"), "--format", "json"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("warning: ")
            && stderr.contains("1 of its inputs are weights without values")
            && stderr.contains("hint: export the model with its weights"),
        "{stderr}"
    );
    let models: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(models[0]["params"], 16 * 3 * 3 * 3);
    assert_eq!(models[0]["inputs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_precision_without_kernels_is_refused_with_what_to_do() {
    let bundle = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("bundles/epyc-onnxruntime-f32-1t.vtb");
    let stderr =
        refused(&["predict", &read_case("bf16"), "--bundle", &bundle.display().to_string()]);
    assert!(
        stderr.contains("node `conv`: onnxruntime has no cpu kernel for `conv` in bf16")
            && stderr.contains("hint: export the model in f32"),
        "{stderr}"
    );
}

#[test]
fn inspect_shows_kernels_of_a_framework() {
    let model = &json(&["inspect", &shipped("vit_tiny_patch16_224"), "--framework", "rten"])[0];
    let kernels = model["kernels"].as_array().expect("kernels");
    assert!(
        kernels.iter().any(|k| k["kind"] == "gelu")
            && kernels.iter().any(|k| k["kind"] == "layer_norm")
    );
    assert!(
        refused(&["inspect", &shipped("mobilevit_xxs"), "--framework", "abacus"])
            .contains("abacus")
    );
}

#[test]
fn the_same_seed_samples_the_same_bytes() {
    let folder = Folder::new();
    for out in ["a", "b"] {
        ok(&["sample", "--count", "3", "--seed", "11", "--no-weights", "--out", &folder.path(out)]);
    }
    for name in ["index.csv", "hybrid-vit-s11-000.onnx", "hybrid-vit-s11-002.onnx"] {
        let read = |out: &str| {
            std::fs::read(PathBuf::from(folder.path(out)).join(name)).expect("a sampled file")
        };
        assert_eq!(read("a"), read("b"), "{name}");
    }
}

#[test]
fn sampling_again_keeps_what_was_sampled_before() {
    let folder = Folder::new();
    for seed in ["1", "2", "1"] {
        ok(&[
            "sample",
            "--count",
            "2",
            "--seed",
            seed,
            "--no-weights",
            "--out",
            &folder.path("both"),
        ]);
    }
    let index = std::fs::read_to_string(PathBuf::from(folder.path("both")).join("index.csv"))
        .expect("the index");
    let names: Vec<&str> = index.lines().skip(1).filter_map(|l| l.split(',').next()).collect();
    assert_eq!(
        names,
        ["hybrid-vit-s1-000", "hybrid-vit-s1-001", "hybrid-vit-s2-000", "hybrid-vit-s2-001"]
    );
    assert!(refused(&["evaluate", "x.vtb", "--on", "d", "--max-mape", "-1"]).contains("-1"));
}

#[test]
fn bad_input_is_refused_by_name() {
    let folder = Folder::new();
    let real = std::fs::read(shipped("vit_tiny_patch16_224")).expect("the shipped model");
    let page = folder.file("page.onnx", b"<!DOCTYPE html><html></html>");
    let cut = folder.file("cut.onnx", &real[..real.len() / 2]);
    let empty = folder.file("empty.onnx", b"");
    let data = folder.path("nothing-here");
    let bundle = folder.file("foreign.vtb", b"not a bundle at all");
    let none = folder.path("none/x.vtb");
    let cases: &[(&[&str], &str)] = &[
        (&["inspect", &page], "page.onnx"),
        (&["inspect", &cut], "cut.onnx"),
        (&["inspect", &empty], "empty.onnx"),
        (&["inspect", "no-such-file.onnx"], "no-such-file.onnx"),
        (&["inspect", "no-such-*.onnx"], "no-such-*.onnx"),
        (&["sample", "--space", "no-such-space", "--out", &data], "no-such-space"),
        (&["sample", "--count", "0", "--out", &data], "--count"),
        (&["sample", "--count", "1", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (&["profile", &shipped("mobilevit_xxs"), "--backend", "abacus", "--out", &data], "abacus"),
        (
            &[
                "profile",
                &shipped("mobilevit_xxs"),
                "--backend",
                "onnxruntime",
                "--library",
                &page,
                "--out",
                &data,
            ],
            "page.onnx",
        ),
        (&["profile", &shipped("mobilevit_xxs"), "--cores", "4096", "--out", &data], "4096"),
        (&["profile", &shipped("mobilevit_xxs"), "--precision", "f16", "--out", &data], "f16"),
        (&["dataset", "inspect", &data], "nothing-here"),
        (&["train", &data, "--out", "x.vtb"], "nothing-here"),
        (&["predict", &shipped("mobilevit_xxs"), "--bundle", &bundle], "foreign.vtb"),
        (&["evaluate", &bundle, "--on", &data], "nothing-here"),
        (&["backends", "install", "abacus"], "abacus"),
        (&["backends", "install", "openvino", "litert", "--from", &page], "--from"),
        (&["bundle", "inspect", "no-such.vtb"], "no-such.vtb"),
        (&["report", &data, "--out", &data], "nothing-here"),
        (&["report", &data, "--only", "gossip"], "gossip"),
        (&["demo", "--models", "3", "--out", &data], "--models"),
        (&["train", &data, "--out", &none], "the folder does not exist"),
        (&["train", &data, "--out", &folder.path("")], "is a folder"),
        (&["train", &data, "--level", "0.999999999999", "--out", "x.vtb"], "0.01 to 0.9999"),
        (&["train", &data, "--max-rows", "0", "--out", "x.vtb"], "a whole number above zero"),
        (&["profile", &shipped("mobilevit_xxs"), "--cores", "0-1", "--out", &data], "e.g. 1,2"),
        (
            &[
                "predict",
                &shipped("mobilevit_xxs"),
                "--bundle",
                "epyc-onnxruntime-f32-1t",
                "--sizes",
                "256,192,256",
            ],
            "`256x256` is given twice",
        ),
    ];
    for (args, names) in cases {
        let stderr = refused(args);
        assert!(stderr.contains(names), "{args:?} does not name {names}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_output_is_an_error_in_one_line() {
    for args in [&["completions", "bash"][..], &["bundle", "list"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
        let output = command().args(args).stdout(full).output().expect("vitempo starts");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{args:?}: {stderr}");
    }
}

#[test]
fn unknown_flags_and_values_exit_with_1() {
    for args in [
        &["predict", "--nope"][..],
        &["profile", "m.onnx", "--out", "d", "--budget", "soon"],
        &["train", "d", "--method", "magic", "--out", "x"],
    ] {
        assert_eq!(vitempo(args).status.code(), Some(1), "{args:?}");
    }
}

/// A dataset of the null engine: real files and processes, times of the harness alone.
fn profile_null(folder: &Folder, count: &str) -> serde_json::Value {
    let (models, data) = (folder.path("models"), folder.path("data"));
    ok(&["sample", "--count", count, "--seed", "3", "--no-weights", "--out", &models]);
    json(&["profile", &models, &shipped("mobilevit_xxs"), "--backend", "null", "--out", &data])
}

#[test]
fn the_whole_line_runs_and_resumes() {
    let folder = Folder::new();
    let data = folder.path("data");
    assert_eq!(profile_null(&folder, "12")["measured"], 13);
    let again = profile_null(&folder, "14");
    assert_eq!((&again["measured"], &again["skipped"]), (&2.into(), &13.into()));
    let inspected = json(&["dataset", "inspect", &data]);
    assert_eq!(
        (&inspected["synthetic_models"], &inspected["real_models"]),
        (&14.into(), &1.into())
    );
    let bundle = folder.path("null.vtb");
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    let evaluation = json(&["evaluate", &bundle, "--on", &data]);
    assert!(
        evaluation["e2e"]["mape"].is_number() && evaluation["sets"]["real"]["e2e"]["models"] == 1,
        "{evaluation}"
    );
    let forecast =
        &json(&["predict", &shipped("mobilevit_xxs"), "--bundle", &bundle, "--breakdown"])[0];
    let latency = &forecast["latency_ns"];
    assert!(
        latency["lower"].as_f64() <= latency["point"].as_f64()
            && latency["point"].as_f64() <= latency["upper"].as_f64()
    );
    assert_eq!(
        forecast["operators"].as_array().map(Vec::len),
        forecast["coverage"]["operators"].as_u64().map(|n| n as usize)
    );
    assert!(
        refused_with_output(&["evaluate", &bundle, "--on", &data, "--max-mape", "0"])
            .contains("--max-mape")
    );
}

#[test]
fn a_missing_table_is_seen_before_anything_is_measured() {
    let folder = Folder::new();
    let (model, data) = (shipped("mobilevit_xxs"), folder.path("data"));
    let profile = ["profile", &model, "--backend", "null", "--out", &data];
    ok(&profile);
    std::fs::remove_file(Path::new(&data).join("operators.parquet")).expect("a table");
    let error = refused(&[&profile[..], &["--session", "again"]].concat());
    assert!(error.contains("operators.parquet is missing"), "{error}");
    let kept = std::fs::read_dir(Path::new(&data).join("journal")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "a model run was kept");
    std::fs::write(Path::new(&data).join("operators.parquet"), "damaged").expect("a table");
    let error = refused(&[&profile[..], &["--session", "again"]].concat());
    assert!(error.contains("operators.parquet"), "{error}");
    let kept = std::fs::read_dir(Path::new(&data).join("journal")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "a model run was kept");
}

#[test]
fn bundles_that_cannot_be_written_are_refused_before_anything_is_read() {
    let folder = Folder::new();
    let absent = folder.path("absent/x.vtb");
    for out in ["/dev/full", &absent] {
        for args in [
            &["train", "nothing", "--out", out][..],
            &["refine", "nothing.onnx", "--bundle", "nothing", "--out", out],
            &["adapt", "--models", "nothing.onnx", "--measured", "nothing.csv", "--out", out],
        ] {
            let error = refused(args);
            assert!(error.contains(out), "{args:?}: {error}");
            let says = ["is a device", "the folder does not exist"];
            assert!(says.iter().any(|says| error.contains(says)), "{args:?}: {error}");
        }
    }
}

#[test]
fn a_report_trains_once_and_comes_out_the_same_again() {
    let folder = Folder::new();
    profile_null(&folder, "24");
    let (data, out, bundles) =
        (folder.path("data"), folder.path("report"), folder.path("report-bundles"));
    let report = |only: &str| json(&["report", &data, "--only", only, "--out", &out]);
    let page = || std::fs::read_to_string(Path::new(&out).join("index.html")).expect("the page");
    let trained = || -> Vec<(PathBuf, std::time::SystemTime)> {
        let files = std::fs::read_dir(&bundles).expect("the kept bundles").flatten();
        files
            .map(|f| (f.path(), f.metadata().and_then(|m| m.modified()).expect("its time")))
            .collect()
    };
    let first = report("accuracy,latency");
    assert!(
        first["sections"][1]["figures"].as_u64() >= Some(2)
            && first["sections"][0]["missing"] == serde_json::json!([]),
        "{first}"
    );
    let (before, kept) = (page(), trained());
    assert_eq!(kept.len(), 1, "one environment with few models has one bundle");
    assert_eq!((report("accuracy,latency"), page(), trained()), (first, before, kept));
    let missing = report("quantization");
    assert!(
        missing["sections"][0]["missing"][0]
            .as_str()
            .is_some_and(|text| text.contains("--precision int8")),
        "{missing}"
    );
    std::fs::write(kept_path(&bundles), b"cut short").expect("a damaged bundle");
    report("accuracy");
    assert!(
        std::fs::metadata(kept_path(&bundles)).is_ok_and(|m| m.len() > 1000),
        "a damaged bundle is trained again"
    );
    folder.file("data/remarks.toml", "latency = \"Slower than thought.\"");
    report("latency");
    let study = std::fs::read_to_string(Path::new(&out).join("studies/latency.html"));
    assert!(study.expect("the study").contains("Slower than thought.</p>"));
    folder.file("data/remarks.toml", "lateness = \"Slower than thought.\"");
    assert!(refused(&["report", &data, "--out", &out]).contains("no section `lateness`"));
    for [flag, value] in [["--bundles", bundles.as_str()], ["--seed", "2"]] {
        let said = refused(&["report", &data, "--only", "latency", "--out", &out, flag, value]);
        assert!(said.contains(&format!("{flag} has no effect")), "{said}");
    }
}

/// The only file of a folder.
fn kept_path(folder: &str) -> PathBuf {
    std::fs::read_dir(folder).expect("a folder").flatten().map(|f| f.path()).next().expect("a file")
}

/// As [`refused`], for a gate: the result is printed, then the run fails.
fn refused_with_output(args: &[&str]) -> String {
    let output = vitempo(args);
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.is_empty());
    text(&output.stderr)
}

#[test]
fn operators_on_their_own_are_training_data_without_an_end_to_end_time() {
    let folder = Folder::new();
    let (networks, data) = (folder.path("operators"), folder.path("data"));
    ok(&["sample", "--space", "operators", "--count", "37", "--no-weights", "--out", &networks]);
    assert_eq!(json(&["profile", &networks, "--backend", "null", "--out", &data])["measured"], 37);
    let gaps = json(&[
        "profile",
        &shipped("edgenext_xx_small"),
        "--ops",
        "reduce_l2,expand",
        "--backend",
        "null",
        "--out",
        &data,
    ]);
    assert!(
        gaps["measured"].as_u64() >= Some(2) && gaps["failed"] == serde_json::json!([]),
        "{gaps}"
    );
    let inspected = json(&["dataset", "inspect", &data]);
    assert_eq!((&inspected["synthetic_models"], &inspected["real_models"]), (&0.into(), &0.into()));
    assert!(
        inspected["single_operators"].as_u64() >= Some(39)
            && inspected["kinds"]["reduce_l2"]["rows"].as_u64() >= Some(1)
    );
    assert_eq!(json(&["dataset", "validate", &data])["valid"], true);
    assert!(
        refused(&["profile", &shipped("edgenext_xx_small"), "--ops", "juggle", "--out", &data])
            .contains("juggle")
    );
    assert!(refused(&["train", &data, "--out", &folder.path("none.vtb")]).contains("data"));
}

#[test]
fn a_killed_sweep_loses_at_most_the_model_it_was_on() {
    let folder = Folder::new();
    let (models, data) = (folder.path("models"), folder.path("data"));
    ok(&["sample", "--count", "40", "--seed", "5", "--no-weights", "--out", &models]);
    let args = ["profile", &models, "--backend", "null", "--rounds", "3", "--out", &data];
    let mut sweep = command()
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vitempo starts");
    let journal = Path::new(&data).join("journal");
    let runs = || -> usize {
        let files = std::fs::read_dir(&journal).into_iter().flatten().flatten();
        files
            .filter_map(|f| std::fs::read_to_string(f.path()).ok())
            .map(|t| t.matches("\"e2e_profiled\"").count())
            .sum()
    };
    for _ in 0..600 {
        if runs() >= 10 || sweep.try_wait().expect("its state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    sweep.kill().expect("kill -9");
    sweep.wait().expect("its end");
    let kept = runs();
    assert!(kept >= 10, "the sweep had ended before it was killed, or never began: {kept} runs");
    let after = json(&args);
    let skipped = after["skipped"].as_u64().expect("a number") as usize;
    assert!(
        skipped + 1 >= kept
            && skipped + after["measured"].as_u64().expect("a number") as usize == 120,
        "{kept} runs before, then {after}"
    );
}

/// A front of another family: its encodings and its files have the same forecasts.
fn assert_fronts_are_forecast_as_files(folder: &Folder, search: &[&str], of: [&str; 2]) {
    let [space, prefix] = of;
    let out = folder.path(space);
    let args = ["--space", space, "--candidates", "60", "--out", &out, "--no-weights"];
    let found = json(&[&search[..search.len() - 4], &args, &search[search.len() - 2..]].concat());
    let front = found["front"].as_array().expect("a front");
    assert!(!front.is_empty() && found["space"] == space);
    let predicted = json(&["predict", &out, "--bundle", search[2]]);
    assert_eq!(predicted.as_array().map(Vec::len), Some(front.len()));
    for (member, file) in front.iter().zip(predicted.as_array().into_iter().flatten()) {
        assert!(member["encoding"].as_str().is_some_and(|text| text.starts_with(prefix)));
        let point = |latency: &serde_json::Value| latency["point"].as_f64().expect("a number");
        let (a, b) = (point(&file["latency_ns"]), point(&member["latencies"][0]["latency_ns"]));
        assert!((a - b).abs() <= 1e-12 * a, "{a} and {b}");
    }
}

/// A space of the user's, from its TOML to runs on an engine.
#[test]
fn a_space_of_inverted_residuals_is_sampled_and_measured() {
    let folder = Folder::new();
    let toml = vitempo::search_space::Space::toml("mbconv").expect("a text");
    let toml = toml.replace("name = \"mbconv\"", "name = \"mine\"");
    let file = folder.file("mine.toml", toml.replace("min = 128, max = 224", "min = 32, max = 64"));
    let (models, data) = (folder.path("models"), folder.path("data"));
    ok(&["sample", "--space", &file, "--count", "2", "--seed", "3", "--out", &models]);
    let args = ["--backend", "rten", "--rounds", "1", "--out", &data];
    ok(&[&["profile", &models], &args[..]].concat());
    let inspected = json(&["dataset", "inspect", &data]);
    let text = inspected.to_string();
    assert!(text.contains("rten"), "{text}");
    let check = ["backends", "check", "--backend", "rten", "--lowering", &models];
    ok(&[&check[..], &["--min-time-matched", "90"]].concat());
}

#[test]
fn a_search_keeps_its_front_and_measures_some_of_it() {
    let folder = Folder::new();
    profile_null(&folder, "12");
    let (bundle, out) = (folder.path("null.vtb"), folder.path("front"));
    ok(&["train", &folder.path("data"), "--method", "lasso", "--out", &bundle]);
    let search = ["search", "--bundle", &bundle, "--candidates", "300", "--population", "20"];
    let found = json(&[&search[..], &["--out", &out, "--no-weights", "--verify", "3"]].concat());
    let front = found["front"].as_array().expect("a front");
    assert_eq!((&found["candidates"], &found["space"]), (&300.into(), &"hybrid-vit".into()));
    assert!(
        found["objective"]["stand_in"].as_str().is_some_and(|s| s.contains("stand in")),
        "{found}"
    );
    let models = std::fs::read_dir(&out)
        .expect("the folder")
        .flatten()
        .filter(|f| f.path().extension().is_some_and(|e| e == "onnx"))
        .count();
    assert!(!front.is_empty() && models == front.len());
    let measured = found["verified"][0]["models"].as_array().map_or(0, Vec::len);
    assert_eq!(measured, front.len().min(3));
    for name in ["front.csv", "front.json", "front.svg", "index.csv"] {
        assert!(
            std::fs::metadata(Path::new(&out).join(name)).is_ok_and(|m| m.len() > 50),
            "{name}"
        );
    }
    assert_eq!(json(&search)["front"], found["front"], "the same front again");
    // The front's own scores, searched again, are the front; a model of it is forecast as the
    // search did.
    let listed =
        json(&["search", "--bundle", &bundle, "--objective", "csv", &format!("{out}/front.csv")]);
    let encodings = |front: &serde_json::Value| -> Vec<String> {
        front
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|m| m["encoding"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(encodings(&listed["front"]), encodings(&found["front"]));
    let predicted = &json(&[
        "predict",
        &format!("{out}/hybrid-vit-front-000.onnx"),
        "--bundle",
        &bundle,
    ])[0]["latency_ns"];
    let point = |latency: &serde_json::Value| latency["point"].as_f64().expect("a number");
    let (a, b) = (point(predicted), point(&front[0]["latencies"][0]["latency_ns"]));
    assert!((a - b).abs() <= 1e-12 * a, "{a} and {b}");
    for of in [["isotropic-vit", "iv1-"], ["mbconv", "mb1-"]] {
        assert_fronts_are_forecast_as_files(&folder, &search, of);
    }
    let table = ok(&[&search[..], &["--max-latency", "10s", "--objective", "parameters"]].concat());
    assert!(
        table.contains("at most 10.0 s") && table.contains("a stand-in: parameters"),
        "{table}"
    );
    for (args, says) in [
        (&["--max-latency", "1ns"][..], "is within the ceiling"),
        (&["--max-latency", "5ms", "--max-latency", "6ms"], "--max-latency"),
        (&["--max-latency", "5"], "unit"),
        (&["--objective", "beauty"], "beauty"),
        (&["--objective", "csv", "no-such.csv"], "no-such.csv"),
        (&["--objective", "program", "exit 7"], "exit 7"),
        (&["--population", "1"], "population"),
        (&["--verify", "2"], "--out"),
    ] {
        let stderr = refused(&[&search[..5], args].concat());
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

/// Costs of three operators on a phone and a server: the first makes its input small.
const COSTS: &str = r#"{"model": "three", "processors": [{"name": "phone", "active_w": 3.0}, {"name": "server"}],
    "links": [{"from": "phone", "to": "server", "link": {"bandwidth_bytes_per_s": 1000000, "transmit_w": 1.0}},
              {"from": "server", "to": "phone", "link": {"bandwidth_bytes_per_s": 1000000}}],
    "nodes": [{"name": "stem", "latency_ns": {"phone": 4000000, "server": 400000}},
              {"name": "body", "latency_ns": {"phone": {"point": 30000000, "lower": 25000000, "upper": 40000000}, "server": 3000000}},
              {"name": "head", "latency_ns": {"phone": 1000000, "server": 100000}}],
    "tensors": [{"name": "image", "size_bytes": 60000, "consumers": ["stem"]}, {"name": "a", "size_bytes": 8000, "producer": "stem", "consumers": ["body"]},
                {"name": "b", "size_bytes": 9000, "producer": "body", "consumers": ["head"]}, {"name": "out", "size_bytes": 100, "producer": "head", "output": true}]}"#;

#[test]
fn plans_from_a_costs_file_say_what_they_are_worth() {
    let folder = Folder::new();
    let costs = folder.file("costs.json", COSTS);
    let split = json(&["plan", "split", "--costs", &costs]);
    assert_eq!(split[0]["stages"][0]["nodes"], serde_json::json!(["stem"]));
    // 4 ms on the phone, 8 ms over the link, 3.1 ms on the server, 0.1 ms back.
    assert_eq!(split[0]["predicted"]["latency_ns"]["point"], 15_200_000);
    assert_eq!(split[0]["chosen"], true);
    assert_eq!(
        (&split[0]["optimal"]["gap"], &split[0]["evidence"]),
        (&serde_json::json!(0.0), &serde_json::json!("cost_model"))
    );
    let table = ok(&["plan", "split", "--costs", &costs]);
    assert!(
        table.contains("-> server  1 tensor ") && table.contains("proven best: least latency"),
        "{table}"
    );
    let ranges = json(&["plan", "split", "--costs", &costs, "--over-bandwidth"]);
    assert_eq!(
        (ranges[0]["stages"].as_array().map(Vec::len), &ranges[0]["from_bytes_per_s"]),
        (Some(1), &serde_json::json!(0.0))
    );
    // Figures at the bandwidth of the costs say nothing about a range of bandwidths.
    assert!(ranges[0]["predicted"].is_null() && ranges[0]["fixed"].is_u64());
    // One split is both the fastest and the most frugal: a heading and one row.
    assert_eq!(
        ok(&["plan", "split", "--costs", &costs, "--pareto", "--format", "csv"]).lines().count(),
        2
    );
    let picture = folder.path("split.svg");
    ok(&["plan", "split", "--costs", &costs, "--svg", &picture]);
    assert!(std::fs::read_to_string(picture).is_ok_and(|svg| svg.ends_with("</svg>\n")));
    let pipeline = json(&["plan", "pipeline", "--costs", &costs]);
    // The server receives 8 ms and computes 3.1 ms.
    assert_eq!(pipeline[0]["predicted"]["period_ns"]["point"], 11_100_000);
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let folder = Folder::new();
    let costs = folder.file("costs.json", COSTS);
    assert!(
        refused(&["plan", "split", "--costs", &costs, "--max-latency", "1ms"])
            .contains("no split keeps latency at most 1.00 ms")
    );
    assert!(
        refused(&["plan", "split", "--costs", &costs, "--confine", "pixels"])
            .contains("hint: its inputs are image")
    );
    let torn = folder.file("torn.json", &COSTS.as_bytes()[..400]);
    let torn = refused(&["plan", "split", "--costs", &torn]);
    assert!(torn.contains("torn.json: `") && torn.contains("EOF while parsing"), "{torn}");
    let unknown = folder.file("unknown.json", COSTS.replace("\"stem\"]", "\"stam\"]"));
    assert!(
        refused(&["plan", "pipeline", "--costs", &unknown])
            .contains("tensor `image` names node `stam`")
    );
}

//! What is asked for has an effect or is refused, and what was found is kept and printed.

mod program;

use program::{Folder, command, json, ok, refused, shipped, text, vitempo};
use serde_json::Value;
use std::path::Path;

const BUNDLE: &str = "epyc-rten-f32-1t";
/// A search of a moment.
const SEARCH: [&str; 7] =
    ["search", "--bundle", BUNDLE, "--candidates", "60", "--population", "20"];

/// A model with an LSTM, which vitempo does not know.
fn unknown_operator() -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/read"));
    folder.join("unknown_operator.onnx").display().to_string()
}

/// A model that cannot be read.
fn junk(folder: &Folder) -> String {
    folder.file("junk.onnx", "no model")
}

fn numbers(of: &Value, field: &str) -> u64 {
    let values = of.as_array().into_iter().flatten();
    values.filter_map(|value| value[field].as_u64()).sum()
}

/// A column of a table in CSV.
fn column(csv: &str, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let place = reader.headers().expect("headings").iter().position(|heading| heading == name);
    let place = place.unwrap_or_else(|| panic!("no column {name} in {csv}"));
    reader.records().map(|row| row.expect("a row")[place].to_owned()).collect()
}

#[test]
fn arguments_that_would_have_no_effect_are_refused() {
    let folder = Folder::new();
    let model = shipped("mobilevit_xxs");
    let space = folder.file(
        "iso.toml",
        std::fs::read_to_string(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
                .join("search_space/spaces/isotropic-vit.toml"),
        )
        .expect("a space that ships"),
    );
    let out = folder.path("out");
    let encoding = vitempo::search_space::Space::named("hybrid-vit").expect("a space").sample(0);
    let scores = folder.file("scores.csv", format!("encoding,score\n{},1\n", encoding.encode()));
    let listed = ["search", "--bundle", BUNDLE, "--objective", "csv", &scores];
    let profile = |more: &[&'static str]| -> Vec<String> {
        let words = ["profile", &model, "--out", &out];
        words.into_iter().chain(more.iter().copied()).map(str::to_owned).collect()
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (args, says) in [
        (
            words(&["sample", "--space", "operator-series", "--count", "3", "--out", &out]),
            "--count has no effect",
        ),
        (
            words(&[
                "sample",
                "--space",
                "study-series",
                "--seed",
                "3",
                "--no-weights",
                "--out",
                &out,
            ]),
            "--seed has no effect",
        ),
        (
            words(&["sample", "--space", "operator-ends", "--decoders", "depth", "--out", &out]),
            "--decoders",
        ),
        (words(&["search", "--bundle", BUNDLE, "--upper"]), "--upper has no effect"),
        (words(&[&listed[..], &["--candidates", "5"]].concat()), "--candidates has no effect"),
        (words(&[&listed[..], &["--population", "5"]].concat()), "--population has no effect"),
        (
            words(&[&listed[..], &["--seed", "5", "--out", &out, "--no-weights"]].concat()),
            "--seed has no effect",
        ),
        (words(&["export", "mobilevit_xxs", "--space", &space, "--out", &out]), "--space"),
        (words(&["export", "all", "--space", &space, "--out", &out]), "--space"),
        (
            words(&["inspect", &model, "--framework", "rten", "--precision", "bf16"]),
            "precision bf16",
        ),
        (
            words(&["inspect", &model, "--framework", "rten", "--memory-format", "channels-last"]),
            "memory format",
        ),
        (profile(&["--backend", "null", "--library", "x.so"]), "--library"),
        (profile(&["--backend", "null", "--min-repeats", "5", "--max-repeats", "3"]), "at most 3"),
        (
            words(&["campaign", "--backend", "rten", "--library", "x.so", "--out", &out]),
            "--library",
        ),
        (words(&["backends", "check", "--backend", "rten", "--library", "x.so"]), "--library"),
        (
            words(&[
                "predict",
                &model,
                "--bundle",
                BUNDLE,
                "--breakdown",
                "--beside",
                "stream",
                "--format",
                "csv",
            ]),
            "--beside",
        ),
    ] {
        let stderr = refused(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    assert!(!Path::new(&out).exists(), "nothing was written");
}

#[test]
fn operators_are_listed_in_every_format_and_add_up_to_the_model() {
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let inspect = ["inspect", &shipped(name), "--operators"];
        let model = &json(&inspect)[0];
        let list = &model["operator_list"];
        let count = list.as_array().map_or(0, Vec::len);
        assert_eq!(model["operators"], count, "{name}");
        let kinds = model["kinds"].as_object().expect("kinds").values();
        assert_eq!(kinds.filter_map(Value::as_u64).sum::<u64>(), count as u64, "{name}");
        for total in ["macs", "flops", "bytes_read", "bytes_written"] {
            assert_eq!(model[total], numbers(list, total), "{name}: {total}");
        }
        let csv = ok(&[&inspect[..], &["--format", "csv"]].concat());
        assert_eq!(column(&csv, "kind").len(), count);
        let flops: u64 =
            column(&csv, "flops").iter().map(|n| n.parse::<u64>().expect("a number")).sum();
        assert_eq!(model["flops"], Value::from(flops));
    }
    let model = shipped("mobilevit_xxs");
    let lowered = ["inspect", &model, "--framework", "rten", "--format"];
    let kernels = ok(&[&lowered[..], &["csv"]].concat());
    let json: Value = serde_json::from_str(&ok(&[&lowered[..], &["json"]].concat())).expect("JSON");
    let count = json[0]["kernels"].as_array().map_or(0, Vec::len).to_string();
    assert_eq!(column(&kernels, "kernels"), [count]);
    let predict = ["predict", &model, "--bundle", BUNDLE, "--breakdown", "--format", "csv"];
    assert!(column(&ok(&predict), "node").len() > 100);
}

#[test]
fn operators_that_are_not_known_are_named_and_leave_no_interval() {
    let model = unknown_operator();
    let adapted = "pixel4-tflite-cpu-f32";
    for bundles in [&[BUNDLE][..], &[adapted], &[BUNDLE, "epyc-onnxruntime-f32-1t"]] {
        let flags = bundles.iter().flat_map(|bundle| ["--bundle", bundle]);
        let args: Vec<&str> = ["predict", &model].into_iter().chain(flags).collect();
        let output = vitempo(&args);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("warning: unknown_operator: vitempo does not know LSTM (1)"));
        assert!(stdout.contains("not in this latency, only their bytes: LSTM (1)"), "{stdout}");
        assert!(!stdout.contains("90 %"), "{stdout}");
        assert!(!stdout.contains("--ops LSTM"), "{stdout}");
        assert!(!stdout.contains("% of predicted time"), "{stdout}");
    }
    let predict = ["predict", &model, "--bundle", BUNDLE];
    let forecast = &json(&[&predict[..], &["--breakdown"]].concat())[0];
    let unsupported = serde_json::json!([{"node": "lstm", "operator": "LSTM"}]);
    assert_eq!(forecast["coverage"]["unsupported"], unsupported);
    let operators = forecast["operators"].as_array().expect("operators").iter();
    let extrapolating = operators.filter(|o| o["extrapolating"] == true).count();
    assert_eq!(forecast["coverage"]["extrapolating"], extrapolating);
    let csv = ok(&[&predict[..], &["--format", "csv"]].concat());
    assert_eq!(column(&csv, "unsupported"), ["1"]);
    let latency = &forecast["latency_ns"];
    assert!(latency["upper"].is_null() && latency["lower"].as_f64().is_some(), "{latency}");
    assert_eq!(column(&csv, "upper_ns"), [""]);
    let peak = &forecast["memory"]["peak_bytes"];
    assert!(peak["upper"].is_null() && peak["lower"].as_u64() <= peak["point"].as_u64(), "{peak}");
    assert_eq!(column(&csv, "memory_upper_bytes"), [""]);
    let operators = ok(&[&predict[..], &["--breakdown"]].concat());
    let line = |word: &str| operators.lines().find(|line| line.contains(word)).unwrap_or_default();
    assert!(line("LSTM  ").contains("> ") && line("Memory").contains(".. -]"), "{operators}");
    let csv = ok(&[&predict[..], &["--breakdown", "--format", "csv"]].concat());
    assert!(column(&csv, "kind").contains(&"unsupported:LSTM".to_owned()), "{csv}");
    let sides = ["--device-bundle", BUNDLE, "--server-bundle", BUNDLE, "--bandwidth", "1Mbit/s"];
    let pipeline = ["--processor", "a=epyc-rten-f32-1t", "--bandwidth", "1Mbit/s"];
    for plan in [
        [&["plan", "split", &model][..], &sides].concat(),
        [&["plan", "pipeline", &model][..], &pipeline].concat(),
    ] {
        let error = refused(&plan);
        assert!(error.contains("model `unknown_operator`: vitempo does not know LSTM"), "{error}");
        assert!(error.contains("hint: plan the part of the model without them"), "{error}");
    }
    let folder = Folder::new();
    let other = folder.file("other.onnx", std::fs::read(&model).expect("a model"));
    for mode in [&["--explain", "linear"][..], &["--compare", &other]] {
        let output = vitempo(&[&predict[..], mode].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && stderr.contains("does not know LSTM (1)"), "{stderr}");
        assert!(!stdout.contains("90 %"), "{stdout}");
    }
}

#[test]
fn a_figure_is_drawn_of_the_models_that_have_a_forecast() {
    let folder = Folder::new();
    let (model, plot) = (shipped("mobilevit_xxs"), folder.path("plot.svg"));
    let output = vitempo(&["predict", &model, &junk(&folder), "--bundle", BUNDLE, "--plot", &plot]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("left out:").count(), 1, "each model is read once: {stderr}");
    assert!(std::fs::read_to_string(plot).is_ok_and(|svg| svg.contains("mobilevit_xxs")));
}

fn models_in(folder: &str) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder").flatten();
    entries.filter(|e| e.path().extension().is_some_and(|e| e == "onnx")).count()
}

#[test]
fn a_search_replaces_the_front_of_its_folder_and_nothing_else() {
    let folder = Folder::new();
    let out = folder.path("front");
    ok(&["sample", "--count", "2", "--no-weights", "--out", &out]);
    let into = ["--no-weights", "--out", &out];
    let two = ["--bundle", "epyc-onnxruntime-f32-1t"];
    let wide = json(&[&SEARCH[..], &into, &two].concat());
    let wide = wide["front"].as_array().map_or(0, Vec::len);
    assert_eq!(models_in(&out), wide + 2);
    assert!(Path::new(&out).join("front-2.svg").exists());
    let narrow = json(&[&SEARCH[..], &into, &["--space", "mbconv"]].concat());
    let narrow = narrow["front"].as_array().map_or(0, Vec::len);
    assert_eq!(models_in(&out), narrow + 2);
    assert!(!Path::new(&out).join("front-2.svg").exists());
    let index = std::fs::read_to_string(Path::new(&out).join("index.csv")).expect("an index");
    let names = column(&index, "name");
    assert_eq!(names.len(), narrow + 2, "{index}");
    assert_eq!(names.iter().filter(|name| name.starts_with("hybrid-vit-s0-")).count(), 2);
    assert!(column(&index, "macs").iter().all(|macs| !macs.is_empty()));
    ok(&["sample", "--count", "1", "--seed", "9", "--no-weights", "--out", &out]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_search_keeps_the_front_so_far() {
    let folder = Folder::new();
    let (out, sent) = (folder.path("front"), folder.path("sent"));
    // Interrupts the search in its first generation, and scores on.
    let objective = format!(
        "[ -e '{sent}' ] || {{ touch '{sent}'; kill -INT $PPID; }}; while read line; do echo 1; done"
    );
    let search = ["search", "--bundle", BUNDLE, "--candidates", "900000000", "--population", "20"];
    let more = ["--objective", "program", &objective, "--out", &out, "--no-weights"];
    let verified = ["--verify", "2", "--format", "json"];
    let args = [&search[..], &more, &verified].concat();
    let output = command().args(args).output().expect("vitempo starts");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("stopping; the front so far is kept"), "{stderr}");
    assert!(stderr.contains("error: interrupted"), "{stderr}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("the front as JSON");
    let count = printed["front"].as_array().map_or(0, Vec::len);
    assert!(count > 0 && models_in(&out) == count);
    let written = std::fs::read(Path::new(&out).join("front.json")).expect("front.json");
    assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), printed);
    assert_eq!(printed["verified"], serde_json::json!([]));
}

#[test]
fn what_would_measure_a_front_is_looked_for_before_the_search() {
    let folder = Folder::new();
    let out = folder.path("front");
    let bundle = ["search", "--bundle", "epyc-onnxruntime-f32-1t", "--out", &out];
    let stderr = refused(&[&bundle[..], &["--verify", "2", "--library", "no/such.so"]].concat());
    assert!(!stderr.contains("candidates"), "{stderr}");
    assert!(!Path::new(&out).exists());
    let stderr = refused(&[&SEARCH[..], &["--max-latency", "0ms"]].concat());
    assert!(stderr.contains("--max-latency must be above zero"), "{stderr}");
}

#[test]
fn models_that_are_not_measured_decide_the_exit_code() {
    let folder = Folder::new();
    let (model, data) = (shipped("mobilevit_xxs"), folder.path("data"));
    let few = ["--backend", "rten", "--max-repeats", "3", "--format", "json"];
    let profile = |models: &[&str], more: &[&str]| {
        let words = [&["profile"], models, &["--out", &data], &few[..], more].concat();
        let output = vitempo(&words);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), printed, text(&output.stderr))
    };
    let (code, printed, stderr) = profile(&[&model, &junk(&folder)], &[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("1 of 2 models left out"), "{stderr}");
    assert_eq!(
        (&printed["measured"], printed["left_out"].as_array().map(Vec::len)),
        (&1.into(), Some(1))
    );
    let rows = json(&["dataset", "inspect", &data]).to_string();
    assert!(!rows.is_empty());

    // The engine refuses operators that it does not have.
    let failing = unknown_operator();
    let broken = folder.path("broken.onnx");
    let bytes = std::fs::read(&failing).expect("a model");
    let text_of_kind = String::from_utf8_lossy(&bytes).contains("LSTM");
    assert!(text_of_kind);
    let at = bytes.windows(4).position(|window| window == b"LSTM").expect("the operator");
    let mut bytes = bytes;
    bytes[at..at + 4].copy_from_slice(b"NOPE");
    std::fs::write(&broken, bytes).expect("written");
    let (code, printed, stderr) = profile(&[&broken], &[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(printed["failed"].as_array().map(Vec::len), Some(1));
    let (code, printed, stderr) = profile(&[&broken], &[]);
    assert_eq!((code, &printed["failed_earlier"]), (Some(1), &1.into()), "{stderr}");
    assert!(stderr.contains("--retry-failed"), "{stderr}");
    let (code, printed, _) = profile(&[&broken, &model], &[]);
    assert_eq!(
        (code, &printed["failed_earlier"], &printed["skipped"]),
        (Some(0), &1.into(), &2.into())
    );
    let (code, printed, _) = profile(&[&broken], &["--retry-failed"]);
    assert_eq!((code, printed["failed"].as_array().map(Vec::len)), (Some(1), Some(1)));
}

#[test]
fn every_engine_of_a_campaign_is_looked_for_before_the_first_measures() {
    let folder = Folder::new();
    let out = folder.path("data");
    let stderr = refused(&["campaign", "--backend", "null", "--backend", "nope", "--out", &out]);
    assert!(stderr.contains("nope"), "{stderr}");
    assert!(!Path::new(&out).exists(), "nothing was measured");
}

#[test]
fn tables_in_csv_have_plain_numbers() {
    for (args, numbers) in [
        (&["bundle", "list"][..], &["models", "held_out_mape"][..]),
        (&["bundle", "inspect", BUNDLE], &["rows", "time_share", "mape", "within_10pct"]),
    ] {
        let csv = ok(&[args, &["--format", "csv"]].concat());
        for name in numbers {
            let cells = column(&csv, name);
            let is_number = |cell: &&String| cell.is_empty() || cell.parse::<f64>().is_ok();
            assert!(cells.iter().all(|cell| is_number(&cell)), "{name}: {cells:?}");
        }
    }
}

#[test]
fn folders_of_bundles_that_are_none_are_named() {
    let list = command()
        .env("VITEMPO_BUNDLES", "no/such/folder")
        .args(["bundle", "list"])
        .output()
        .expect("vitempo starts");
    assert!(list.status.success());
    assert!(text(&list.stderr).contains("VITEMPO_BUNDLES lists no folders: no/such/folder"));
    let unknown = command()
        .env("VITEMPO_BUNDLES", env!("CARGO_MANIFEST_PATH"))
        .args(["predict", &shipped("mobilevit_xxs"), "--bundle", "mine"])
        .output()
        .expect("vitempo starts");
    assert!(text(&unknown.stderr).contains("VITEMPO_BUNDLES"), "{}", text(&unknown.stderr));
    // Also a name that another place has: the folder may have another bundle of that name.
    let known = command()
        .env("VITEMPO_BUNDLES", "no/such/folder")
        .args(["predict", &shipped("mobilevit_xxs"), "--bundle", "epyc-rten-f32-1t"])
        .output()
        .expect("vitempo starts");
    let stderr = text(&known.stderr);
    assert_eq!(known.status.code(), Some(1), "{stderr}");
    let says = "no/such/folder of the variable VITEMPO_BUNDLES is not a folder";
    assert!(stderr.contains(says) && stderr.contains("hint: correct or unset"), "{stderr}");
}

//! Bundles by name: a copy of the program alone finds the shipped ones, folders add others, and
//! similar names are suggested. Also `predict` over several models of which some have no forecast.

mod program;

use program::{Folder, json, ok, refused, shipped, text, vitempo};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use vitempo::{Bundle, BundleError, bundle::Kind, graph::LatencyModel};

const PHONE: &str = "samsung-galaxy-s24-tflite-npu-f16";
const SERVER: &str = "epyc-rten-f32-1t";

fn bundles() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("bundles")
}

/// A copy of the program, and its folders of bundles.
struct Moved {
    folder: tempfile::TempDir,
}

impl Moved {
    fn new() -> Self {
        let moved = Self { folder: tempfile::tempdir().expect("a folder") };
        for folder in ["prefix/bin", "elsewhere"] {
            fs::create_dir_all(moved.path(folder)).expect("a folder");
        }
        // A process of its own writes the copy: a program started by another test meanwhile would
        // inherit the open file of this one, and a file that is open for writing cannot be run.
        let copied = Command::new("cp")
            .arg(program::PROGRAM)
            .arg(moved.path("prefix/bin/vitempo"))
            .status()
            .expect("cp starts");
        assert!(copied.success(), "a copy of the program");
        moved
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps the phone's bundle in a folder under the server's name.
    fn shadow(&self, folder: &str) -> String {
        fs::create_dir_all(self.path(folder)).expect("a folder");
        let file = self.path(folder).join(format!("{SERVER}.vtb"));
        fs::copy(bundles().join(format!("adapted/{PHONE}.vtb")), &file).expect("a copy");
        file.display().to_string()
    }

    /// Runs the copy in another folder, with these variables alone.
    fn run(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        Command::new(self.path("prefix/bin/vitempo"))
            .args(args)
            .current_dir(self.path("elsewhere"))
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .expect("vitempo starts")
    }

    fn json(&self, variables: &[(&str, &str)], args: &[&str]) -> Value {
        let output = self.run(variables, &[args, &["--format", "json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON on standard output")
    }

    /// Where the server's name leads.
    fn found(&self, variables: &[(&str, &str)]) -> String {
        let inspected = self.json(variables, &["bundle", "inspect", SERVER]);
        inspected["bundle"].as_str().expect("a location").to_owned()
    }
}

#[test]
fn a_copy_of_the_program_alone_forecasts_by_name() {
    let moved = Moved::new();
    let listed = moved.json(&[], &["bundle", "list"]);
    let rows = listed.as_array().expect("rows");
    assert!(rows.len() >= 33, "{} bundles", rows.len());
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        assert_eq!(row["location"], format!("embedded:{name}"));
    }
    let model = shipped("mobilevit_xxs");
    for name in [PHONE, SERVER] {
        let file = [bundles(), bundles().join("adapted")]
            .map(|folder| folder.join(format!("{name}.vtb")))
            .into_iter()
            .find(|file| file.exists())
            .expect("a bundle that ships");
        assert_eq!(
            moved.json(&[], &["predict", &model, "--bundle", name]),
            json(&["predict", &model, "--bundle", &file.display().to_string()]),
            "{name}"
        );
    }
}

#[test]
fn the_first_place_that_has_a_name_counts() {
    let moved = Moved::new();
    moved.shadow("elsewhere/bundles");
    let embedded = format!("embedded:{SERVER}");
    assert_eq!(moved.found(&[]), embedded, "the working directory is not searched");
    let installed = moved.shadow("prefix/share/vitempo/bundles");
    assert_eq!(moved.found(&[]), installed);
    let own = moved.shadow("home/bundles/adapted");
    let home = moved.path("home").display().to_string();
    let home = ("VITEMPO_HOME", home.as_str());
    assert_eq!(moved.found(&[home]), own);
    let listed = moved.shadow("listed");
    fs::create_dir(moved.path("empty")).expect("a folder");
    let folders = std::env::join_paths([moved.path("empty"), moved.path("listed")])
        .expect("a list of folders")
        .into_string()
        .expect("text");
    assert_eq!(moved.found(&[("VITEMPO_BUNDLES", &folders), home]), listed);
    let output = moved.run(&[("VITEMPO_BUNDLES", &folders)], &["bundle", "list"]);
    assert!(text(&output.stdout).contains("embedded"), "folders add to what is embedded");
}

#[test]
fn similar_names_are_suggested() {
    let model = shipped("mobilevit_xxs");
    let stderr = refused(&["predict", &model, "--bundle", "galaxy-s24"]);
    assert!(
        stderr.contains("there is no bundle `galaxy-s24`; similar names: samsung-galaxy-s24-")
            && stderr.contains(PHONE)
            && stderr.contains("hint:"),
        "{stderr}"
    );
    let stderr = refused(&["bundle", "inspect", "nobody"]);
    assert!(stderr.contains("no bundle `nobody`\n"), "nothing is similar: {stderr}");
}

#[test]
fn the_library_opens_either_kind_and_lists_both() {
    let phone = Bundle::open(PHONE).expect("a bundle");
    assert_eq!((phone.name(), phone.kind(), phone.method()), (PHONE, Kind::Adapted, "adapted"));
    assert!(phone.adapted().is_some() && phone.trained().is_none());
    let server = Bundle::open(bundles().join(format!("{SERVER}.vtb"))).expect("a bundle");
    assert_eq!((server.name(), server.kind(), server.method()), (SERVER, Kind::Trained, "gbdt"));
    assert!(server.trained().is_some() && server.adapted().is_none());
    assert_ne!(phone.digest(), server.digest());
    let rows: Vec<_> = Bundle::list().into_iter().flatten().collect();
    for bundle in [&phone, &server] {
        let row = rows.iter().find(|row| row.name == bundle.name()).expect("it is listed");
        assert_eq!((row.kind, &row.environment), (bundle.kind(), bundle.environment()));
    }
    assert!(matches!(
        Bundle::open("galaxy-s24"),
        Err(BundleError::Unknown { near, .. }) if near.iter().any(|name| name == PHONE)
    ));
    assert!(matches!(Bundle::open("absent.vtb"), Err(BundleError::Read { .. })));
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("damaged.vtb");
    fs::write(&damaged, b"no bundle").expect("a file");
    assert!(matches!(Bundle::open(damaged), Err(BundleError::Format { .. })));
}

#[test]
fn models_without_a_forecast_are_left_out_and_the_others_are_forecast() {
    let folder = Folder::new();
    let models = folder.path("models");
    fs::create_dir(&models).expect("a folder");
    for name in ["edgenext_xx_small", "mobilevit_xxs"] {
        fs::copy(shipped(name), format!("{models}/{name}.onnx")).expect("a copy");
    }
    folder.file("models/broken.onnx", b"<!DOCTYPE html>");
    let args = ["predict", &models, "--bundle", PHONE];
    let output = vitempo(&[&args[..], &["--format", "json"]].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let warning = stderr.lines().find(|line| line.starts_with("warning: ")).expect("a warning");
    assert!(warning.contains("broken.onnx left out: "), "{stderr}");
    assert!(stderr.contains("error: 1 of 3 models left out"), "{stderr}");
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let named: Vec<_> = rows.as_array().expect("rows").iter().map(|r| r["model"].clone()).collect();
    assert_eq!(named, ["edgenext_xx_small", "mobilevit_xxs"]);
    assert!(rows.as_array().expect("rows").iter().all(|row| row["bundle"] == PHONE));

    let output = vitempo(&[&args[..], &["--format", "csv"]].concat());
    let csv = text(&output.stdout);
    let mut lines = csv.lines();
    assert!(lines.next().is_some_and(|heading| heading.starts_with("model,bundle,environment,")));
    assert_eq!(lines.filter(|line| line.split(',').nth(1) == Some(PHONE)).count(), 2, "{csv}");

    let also = folder.file("models/cut.onnx", b"");
    let nothing = refused(&["predict", &format!("{models}/broken.onnx"), &also, "--bundle", PHONE]);
    assert!(nothing.contains("error: 2 of 2 models left out"), "{nothing}");
}

#[test]
fn a_space_is_searched_with_an_adapted_bundle() {
    let folder = Folder::new();
    let out = folder.path("front");
    let search =
        ["search", "--bundle", PHONE, "--candidates", "60", "--population", "20", "--seed", "7"];
    let found = json(&[&search[..], &["--no-weights", "--out", &out]].concat());
    let file = format!("{out}/hybrid-vit-front-000.onnx");
    let forecast = &json(&["predict", &file, "--bundle", PHONE])[0];
    assert_eq!(
        found["front"][0]["latencies"][0]["latency_ns"], forecast["latency_ns"],
        "the answer of `predict`, bit for bit"
    );
    assert!(ok(&["bundle", "inspect", PHONE]).contains("embedded:"));
}

#[test]
fn several_bundles_are_one_table_with_the_fastest_device_first() {
    let model = shipped("mobilevit_xxs");
    let all = json(&["predict", &model, "--bundle", "all"]);
    let rows = all[0]["forecasts"].as_array().expect("rows");
    let listed = json(&["bundle", "list"]);
    assert_eq!(rows.len(), listed.as_array().map_or(0, Vec::len));
    assert_eq!(all[0]["left_out"].as_array().map(Vec::len), Some(0));
    let point = |row: &Value| row["latency_ns"]["point"].as_f64().expect("a latency");
    assert!(rows.is_sorted_by(|a, b| point(a) <= point(b)));
    for name in [PHONE, SERVER] {
        let row = rows.iter().find(|row| row["bundle"] == name).expect("a row");
        let alone = &json(&["predict", &model, "--bundle", name])[0];
        assert_eq!(row["latency_ns"], alone["latency_ns"], "{name}");
        assert_eq!(row["coverage"], alone["coverage"], "{name}");
    }
    let phones = ["predict", &model, "--bundle", "samsung-*", "--bundle", SERVER];
    let table = ok(&phones);
    assert!(table.contains(PHONE) && table.contains(SERVER) && table.contains("Outside"));
    let csv = ok(&[&phones[..], &["--format", "csv"]].concat());
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with("extrapolating,unsupported,kind") && lines.len() > 3, "{csv}");
    assert!(lines[1..].iter().all(|l| l.starts_with("mobilevit_xxs,")), "{csv}");
}

#[test]
fn a_figure_has_every_model_and_device() {
    let folder = Folder::new();
    let (file, models) =
        (folder.path("devices.svg"), [shipped("mobilevit_xxs"), shipped("edgenext_xx_small")]);
    ok(&["predict", &models[0], &models[1], "--bundle", "samsung-*", "--plot", &file]);
    let svg = fs::read_to_string(&file).expect("a figure");
    assert!(svg.starts_with("<svg ") && svg.contains(PHONE) && svg.contains("edgenext_xx_small"));
    let alone = ok(&["predict", &models[0], "--bundle", PHONE, "--plot", &file]);
    assert_eq!(alone, ok(&["predict", &models[0], "--bundle", PHONE]), "the output stays");
    let one = fs::read_to_string(&file).expect("a figure");
    assert!(one.contains(PHONE) && one.len() < svg.len());
}

#[test]
fn what_is_about_one_bundle_is_refused_for_several() {
    let model = shipped("mobilevit_xxs");
    for flags in [&["--breakdown"][..], &["--compare"], &["--explain", "x"], &["--beside", "x"]] {
        let args = [&["predict", &model, "--bundle", "samsung-*"], flags].concat();
        let stderr = refused(&args);
        assert!(stderr.contains(flags[0]) && stderr.contains("one bundle"), "{stderr}");
    }
    let stderr = refused(&["predict", &model, "--bundle", "samsun-*"]);
    assert!(stderr.contains("no bundle matches `samsun-*`") && stderr.contains(PHONE), "{stderr}");
}

#[test]
fn a_node_is_explained_by_kernels_features_and_predictor() {
    let model = shipped("mobilevit_xxs");
    let all = json(&["predict", &model, "--bundle", SERVER, "--breakdown"]);
    let slowest = all[0]["operators"]
        .as_array()
        .and_then(|rows| {
            rows.iter().max_by(|a, b| {
                let ns = |row: &Value| row["latency_ns"].as_f64().unwrap_or(0.0);
                ns(a).total_cmp(&ns(b))
            })
        })
        .expect("an operator");
    let name = slowest["name"].as_str().expect("a name");
    let asked = ["predict", &model, "--bundle", SERVER, "--explain", name];
    let found = json(&asked);
    let kernel = found["kernels"]
        .as_array()
        .and_then(|kernels| kernels.iter().find(|kernel| kernel["kernel"] == name))
        .expect("the kernel");
    assert_eq!(kernel["latency_ns"], slowest["latency_ns"]);
    assert!(kernel["cause"]["features"].as_array().is_some_and(|rows| rows.len() > 10));
    assert_eq!(kernel["cause"]["basis"]["by"], "regressor");
    assert_eq!(found["latency_ns"], all[0]["latency_ns"]);
    let text = ok(&asked);
    for part in ["Predictor", "Feature", "flops", "rows", "interval"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("e308"), "columns that the bundle never had: {text}");
    assert!(ok(&[&asked[..], &["--format", "csv"]].concat()).contains("flops"));
    let phone = json(&["predict", &model, "--bundle", PHONE, "--explain", name]);
    assert!(phone["kernels"][0]["cause"]["demands"].is_array(), "{phone}");
    let stderr =
        refused(&["predict", &model, "--bundle", SERVER, "--explain", &format!("{name}_")]);
    assert!(stderr.contains("similar names") && stderr.contains(name), "{stderr}");
}

#[test]
fn two_models_are_compared_with_bounds_that_hold() {
    let models = [shipped("mobilevit_xxs"), shipped("edgenext_xx_small")];
    let asked = ["predict", &models[0], &models[1], "--bundle", SERVER];
    let alone = json(&asked);
    let compared = [&asked[..], &["--compare"]].concat();
    let found = json(&compared);
    let end = |which: usize, end: &str| alone[which]["latency_ns"][end].as_f64().expect("ns");
    let change = |end: &str| found["change_ns"][end].as_f64().expect("ns");
    assert!((change("point") - (end(1, "point") - end(0, "point"))).abs() < 1e-6);
    assert!((change("lower") - (end(1, "lower") - end(0, "upper"))).abs() < 1e-6);
    assert!((change("upper") - (end(1, "upper") - end(0, "lower"))).abs() < 1e-6);
    assert!((change("level_at_least") - 0.8).abs() < 1e-9, "twice 90 %, less one");
    let kinds = found["kinds"].as_array().expect("kinds");
    let sum: f64 = kinds.iter().filter_map(|kind| kind["change_ns"].as_f64()).sum();
    let overhead = found["overhead_change_ns"].as_f64().expect("ns");
    assert!((sum + overhead - change("point")).abs() < 1.0);
    let text = ok(&compared);
    assert!(text.contains("80 % at least") && text.contains("only in the second model"), "{text}");
    let csv = ok(&[&compared[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with("kernel,first_kind,second_kind,first_ns,second_ns\n"), "{csv}");
    let stderr = refused(&["predict", &models[0], "--bundle", SERVER, "--compare"]);
    assert!(stderr.contains("takes two models; these are 1"), "{stderr}");
}

#[test]
fn a_tensorflow_lite_file_has_the_forecast_of_its_model() {
    use vitempo::graph::{onnx, tflite};
    let folder = Folder::new();
    for name in ["mobilevit_xxs", "vit_tiny_patch16_224", "edgenext_xx_small"] {
        let model = shipped(name);
        let graph = onnx::read_file(Path::new(&model), &onnx::ReadOptions::default());
        let graph = graph.expect("a model");
        let weights = tflite::Weights::seeded(&graph, 1).expect("weights");
        let written = tflite::write(&graph, &weights).expect("a file");
        let file = folder.file(&format!("{name}.tflite"), written.bytes);
        let forecast = |file: &str| {
            json(&["predict", file, "--bundle", "epyc-litert-f32-1t"])[0]["latency_ns"].clone()
        };
        assert_eq!(forecast(&file), forecast(&model), "{name}");
        assert!(ok(&["predict", &file, "--bundle", PHONE]).contains("Latency"), "{name}");
        assert!(ok(&["inspect", &file]).contains("conv"), "{name}");
    }
    let file = folder.path("mobilevit_xxs.tflite");
    let stderr = refused(&["profile", &file, "--backend", "rten", "--out", &folder.path("data")]);
    assert!(stderr.contains("forecast and inspected alone"), "{stderr}");
    let broken = folder.file("broken.tflite", "no model");
    let stderr = refused(&["predict", &broken, "--bundle", PHONE]);
    assert!(stderr.contains("not a TensorFlow Lite model"), "{stderr}");
}

#[test]
fn models_that_ship_and_encodings_are_exported() {
    let folder = Folder::new();
    let (out, plain) = (folder.path("models"), folder.path("plain"));
    let encoding =
        vitempo::search_space::Space::named("mbconv").expect("a space").sample(4).encode();
    ok(&["export", "mobilevit_xxs", &encoding, "--out", &out]);
    let forecast =
        |file: &str| json(&["predict", file, "--bundle", SERVER])[0]["latency_ns"].clone();
    let file = format!("{out}/mobilevit_xxs.onnx");
    assert_eq!(forecast(&file), forecast(&shipped("mobilevit_xxs")));
    assert!(forecast(&format!("{out}/{encoding}.onnx"))["point"].is_f64());
    let all = json(&["export", "all", "--no-weights", "--out", &plain]);
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    let size = |path: &str| fs::metadata(path).expect("a file").len();
    assert!(size(&file) > 4 * 1_000_000 && size(&format!("{plain}/mobilevit_xxs.onnx")) < 200_000);
    let stderr = refused(&["export", "mobilevit_xs", "--out", &out]);
    assert!(stderr.contains("similar names: mobilevit_xxs"), "{stderr}");
}

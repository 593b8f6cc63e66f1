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
        let program = env!("CARGO_BIN_EXE_vitempo");
        fs::copy(program, moved.path("prefix/bin/vitempo")).expect("a copy of the program");
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
    let folders = std::env::join_paths([moved.path("absent"), moved.path("listed")])
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

//! The network in `datasets/aria`: engines compute what the training tool computed, its errors are
//! those of its card, and `vitempo-studies aria` prints every system.

use serde_json::Value;
use std::{path::Path, process::Command};
use vitempo::aria::{
    FeatureMap, FlowSource, Frame, Instructions, Intrinsics, View,
    scene::{Kind, Network, Scene},
};
use vitempo_studies::aria::{
    FlowStudy, Precision, Scenes, Teacher, Trained, flow_errors, resolutions, top,
};

/// Largest difference between an engine's output and candle's: features are around 1, depths are
/// logarithms, and scores are below 30.
const TOLERANCE: f32 = 2e-3;
/// Every which patch's features are recorded.
const RECORDED: usize = 16;
/// The recorded frame of the first held-out crowded scene.
const FRAME: u64 = 20;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/aria")
}

fn trained() -> Trained {
    Trained::read(&folder()).unwrap_or_else(|e| panic!("{e}"))
}

/// Floats of a NumPy file of version 1.
fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (numbers, []) = bytes[header..].as_chunks::<4>() else { panic!("not f32") };
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

#[test]
fn engines_compute_what_the_training_tool_computed() {
    let (trained, top) = (trained(), top().expect("a grid"));
    let patch = trained.models.patch();
    let scene = Scene::furnished(Kind::Crowded, Scene::HELD_OUT, top, patch).expect("a scene");
    let (camera, picture) = (scene.camera(), scene.picture(FRAME));
    let frame = Frame::new(&picture.colours, top, patch, camera.intrinsics).expect("a frame");
    let expected = floats(&folder().join("expected.npy"));
    let mut network =
        trained.on("rten", Precision::F32, &[top], &[top]).unwrap_or_else(|e| panic!("{e}"));
    let pixels = frame.pixels(&View::whole(top, top)).expect("pixels");
    let features = network.encode(pixels, top).unwrap_or_else(|e| panic!("{e}"));
    let width = features.len() / top.patches();
    let recorded: Vec<f32> =
        features.chunks_exact(width).step_by(RECORDED).flatten().copied().collect();
    let apart = |found: &[f32], expected: &[f32]| {
        assert_eq!(found.len(), expected.len());
        found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let (of_features, of_cells) = expected.split_at(recorded.len());
    let most = apart(&recorded, of_features);
    assert!(most < TOLERANCE, "features differ by {most}");
    let map = FeatureMap::from_values(Instructions::best(), top, width, &features);
    let dense = network.decode(&map.expect("a map")).unwrap_or_else(|e| panic!("{e}"));
    let most = apart(&[dense.log_depths(), dense.scores()].concat(), of_cells);
    assert!(most < TOLERANCE, "outputs differ by {most}");
}

/// Two lines of the card: a few held-out frames at the lowest and the highest resolution.
#[test]
fn held_out_errors_are_those_of_the_card() {
    let card: Value = serde_json::from_slice(
        &std::fs::read(folder().join("card.json")).expect("datasets/aria/card.json"),
    )
    .expect("JSON");
    let (trained, grids) = (trained(), [[12, 16], [15, 20], [18, 24], [24, 32]]);
    let grids = grids.map(|[rows, cols]| vitempo::aria::Grid::new(rows, cols).expect("a grid"));
    let quick = &card["quick_test"];
    let scenes = Scenes { of_each_kind: 1, frames: 11, seed: Scene::HELD_OUT };
    for (precision, name) in [(Precision::F32, "f32"), (Precision::Int8, "int8")] {
        let mut network =
            trained.on("rten", precision, &grids, &grids).unwrap_or_else(|e| panic!("{e}"));
        let scores = resolutions(&mut network, scenes, 10, trained.models.patch())
            .unwrap_or_else(|e| panic!("{e}"));
        for (line, (grid, score)) in scores.iter().enumerate() {
            let of_card = &quick[name][line];
            let number = |field: &str| of_card[field].as_f64().unwrap_or(f64::NAN);
            let (rmse, miou) = score.depth_rmse_m().zip(score.label_miou()).expect("pixels");
            assert!((rmse - number("rmse_m")).abs() < 0.01, "{name} {grid}: RMSE {rmse}");
            assert!((miou - number("miou")).abs() < 0.01, "{name} {grid}: mIoU {miou}");
        }
    }
}

#[test]
fn every_system_is_shown_and_regions_keep_moving_things_younger_than_full_frames() {
    let output = Command::new(env!("CARGO_BIN_EXE_vitempo-studies"))
        .args(["aria", "datasets/aria", "--backend", "rten", "--scenes", "1", "--frames", "13"])
        .args(["--format", "json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("vitempo-studies runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let figure = |system: &str, column: &str| -> f64 {
        let row = rows.iter().find(|row| row["System"] == system);
        let cell = row.and_then(|row| row[column].as_str()).unwrap_or_default();
        cell.parse().unwrap_or_else(|_| panic!("{system}: {column} is `{cell}`"))
    };
    for system in ["NPU-only", "MobiSR-like", "ARIA-base", "base + S1", "base + S1 + S2"] {
        assert!(figure(system, "RMSE, m") > 0.0 && figure(system, "mIoU") > 0.0);
    }
    assert!(figure("ARIA (+ S3)", "Cycles") > 0.0);
    let reference = "reference, no deadline";
    let itself = [figure(reference, "RMSE to reference"), figure(reference, "mIoU to reference")];
    assert_eq!(itself, [0.0, 1.0]);
    assert!(figure("full frames as they are", "Age") >= 1.0);
    assert!(figure("ARIA, learned flow", "mIoU") > 0.0);
    let stale = figure("full frames as they are", "RMSE, m");
    assert!(figure("ARIA (+ S3)", "RMSE, m") < stale, "{rows:?}");
}

/// The flow that ships is as wrong as its file says, and less than half as wrong as the rotation.
#[test]
fn held_out_errors_of_the_flow_are_those_of_its_file() {
    let (trained, top) = (trained(), top().expect("a grid"));
    let file = trained.flow.clone().expect("datasets/aria/flow.json");
    let lens = Intrinsics::with_field_of_view(top, 1.1).expect("a lens");
    let Ok(Some(FlowSource::Learned(learned))) = trained.flow_behind(top, lens) else {
        panic!("the flow does not fit the network");
    };
    let mut network =
        trained.on("rten", Precision::F32, &[top], &[top]).unwrap_or_else(|e| panic!("{e}"));
    let study = FlowStudy { pairs: 0, tested: 8, steps: 0, teacher: Teacher::Features, first: 0 };
    let errors = flow_errors(&mut network, trained.models.patch(), study, &learned)
        .unwrap_or_else(|e| panic!("{e}"));
    for (error, figures) in errors.iter().zip(&file.provenance.held_out) {
        assert_eq!((&error.name, error.patches), (&figures.flow, figures.patches));
        let (off, difference) = (error.distance_patches(), error.difference());
        assert!((off - figures.patches_off).abs() < 0.01, "{}: {off}", error.name);
        assert!((difference - figures.one_minus_cosine).abs() < 0.002, "{}", error.name);
    }
    let [_, rotation, learned, ..] = &errors[..] else { panic!("five flows") };
    assert!(learned.distance_patches() < 0.5 * rotation.distance_patches());
}

#[test]
fn a_trained_flow_is_written_and_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_vitempo-studies"))
            .args(["aria", "datasets/aria", "--backend", "rten", "--scenes", "1"])
            .args(args)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .output()
            .expect("vitempo-studies runs")
    };
    let (one, two) = (folder.path().join("flow.json"), folder.path().join("again.json"));
    let [one_name, two_name] = [&one, &two].map(|path| path.to_str().expect("a path"));
    let by_depth = ["--flow", "3", "--teacher", "depth", "--flow-out"];
    for name in [one_name, two_name] {
        let output = study(&[&by_depth[..], &[name]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("learned"), "{text}");
    }
    let file = vitempo::plan::aria::read_flow(&one).unwrap_or_else(|e| panic!("{e}"));
    let of = &file.provenance;
    assert_eq!((&*of.taught_by, of.pairs, of.steps, of.held_out.len()), ("depth", 3, 3, 5));
    assert_eq!(std::fs::read(&one).expect("bytes"), std::fs::read(&two).expect("bytes"));
    for (args, says) in [
        (&["--flow-out", one_name][..], "--flow"),
        (&["--flow", "3", "--flow-out", "/no/such/flow.json"], "/no/such"),
        (&["--phone"], "--scenes"),
        (&["--frames", "10"], "--frames 11 or more"),
        (&["--frames", "0", "--resolutions"], "--frames"),
        (&["--resolutions", "--target", "9ms"], "--target"),
        (&["--recorded", "datasets/aria/recorded"], "--scenes"),
        (&["--page", one_name, "--format", "csv"], "--format"),
    ] {
        let output = study(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(says), "{error}");
    }
    let broken = folder.path().join("network");
    std::fs::create_dir(&broken).expect("a folder");
    for name in ["encoder.onnx", "decoder.onnx"] {
        std::fs::copy(self::folder().join(name), broken.join(name)).expect("a copy");
    }
    std::fs::write(broken.join("flow.json"), "{}").expect("a file");
    let refused = Trained::read(&broken).map(|_| ()).map_err(|e| e.to_string());
    assert!(refused.as_ref().is_err_and(|e| e.contains("flow.json")), "{refused:?}");
}

#[test]
fn one_command_makes_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page");
    let output = Command::new(env!("CARGO_BIN_EXE_vitempo-studies"))
        .args(["aria", "datasets/aria", "--backend", "rten", "--scenes", "1", "--frames", "11"])
        .args(["--flow", "5", "--page"])
        .arg(&page)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("vitempo-studies runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(page.join("report.md")).expect("a page");
    for figure in [
        "(figure 2)",
        "(figures 13, 15 and 18)",
        "(figures 12, 13, 15 to 17 and 19)",
        "(section 4.3.1)",
    ] {
        assert!(text.contains(figure), "{figure}");
    }
    for row in [
        "| 24 x 32 | int8 |",
        "| NPU-only | every frame,",
        "| ARIA (+ S3) |",
        "| ARIA, whole windows | 1",
        "| learned |",
    ] {
        assert!(text.contains(row), "{row}\n{text}");
    }
    for link in text.split("](").skip(1) {
        let name = link.split(')').next().unwrap_or_default();
        if name.ends_with(".svg") {
            let drawn = std::fs::read_to_string(page.join(name)).expect(name);
            assert!(drawn.starts_with("<svg"), "{name}");
        }
    }
}

//! `vitempo refine`: the kernels that a forecast is least sure of are measured in pieces of the
//! model; on the embedded engine.

mod program;

use program::{Folder, json, ok, refused, shipped};
use serde_json::Value;

/// Few and short model runs.
const FEW: [&str; 6] = ["--min-repeats", "3", "--max-repeats", "3", "--profiled-repeats", "2"];

/// A bundle of five transformers, which has no predictor of much that other models do.
fn narrow_bundle(folder: &Folder) -> String {
    let (models, data) = (folder.path("models"), folder.path("data"));
    ok(&["sample", "--space", "isotropic-vit", "--count", "5", "--no-weights", "--out", &models]);
    let profile = ["profile", &models, "--backend", "rten", "--out", &data];
    ok(&[&profile[..], &FEW].concat());
    let bundle = folder.path("narrow.vtb");
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    bundle
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn forecast(model: &str, bundle: &str) -> Value {
    json(&["predict", model, "--bundle", bundle])[0].clone()
}

#[test]
fn kernels_without_a_predictor_are_measured_in_pieces_of_the_model() {
    let folder = Folder::new();
    let narrow = narrow_bundle(&folder);
    let model = shipped("mobilevit_xxs");
    let before = forecast(&model, &narrow);
    let fallbacks = |forecast: &Value| number(&forecast["coverage"]["fallback"]);
    assert!(fallbacks(&before) > 0.0, "{before}");

    let plan = json(&["refine", &model, "--bundle", &narrow, "--within", "10m", "--list"]);
    let kernels = plan["kernels"].as_array().expect("kernels");
    assert!(kernels.iter().any(|k| k["trained"] == false && k["chosen"] == true));
    assert!(number(&plan["covered"]) > 0.9 && number(&plan["cost_s"]) < 600.0, "{plan}");
    let little = json(&["refine", &model, "--bundle", &narrow, "--within", "2s", "--list"]);
    assert!(number(&little["cost_s"]) <= 2.0 && number(&little["covered"]) > 0.0);

    let (sure, data) = (folder.path("sure.vtb"), folder.path("sure-data"));
    let refine = ["refine", &model, "--bundle", &narrow, "--within", "10m", "--out", &sure];
    let refined = json(&refine);
    let corrected = number(&refined["corrected_kernels"]);
    assert!(corrected >= kernels.iter().filter(|k| k["chosen"] == true).count() as f64 / 2.0);
    let after = forecast(&model, &sure);
    assert_eq!(
        (&refined["before"], &refined["after"]),
        (&before["latency_ns"], &after["latency_ns"])
    );
    let width = |f: &Value| number(&f["latency_ns"]["upper"]) / number(&f["latency_ns"]["lower"]);
    assert!(width(&after) < width(&before), "{} and {}", width(&after), width(&before));
    assert!(fallbacks(&after) < fallbacks(&before));
    ok(&["dataset", "validate", &data]);

    // Other models are forecast as well, and the bundle says what was measured.
    let other = shipped("vit_tiny_patch16_224");
    let kernels = |bundle: &str| {
        json(&["predict", &other, "--bundle", bundle, "--breakdown"])[0]["operators"].clone()
    };
    assert_eq!(kernels(&narrow).as_array().map(Vec::len), kernels(&sure).as_array().map(Vec::len));
    let inspected = json(&["bundle", "inspect", &sure]);
    let refinements = inspected["refinements"].as_array().expect("refinements");
    assert_eq!(refinements[0]["name"], "mobilevit_xxs");
    assert_eq!(number(&refinements[0]["kernels"]), corrected);

    // Measured networks are not measured again.
    let again = json(&refine);
    assert_eq!(again["after"], refined["after"]);
    assert_eq!(again["seconds"], refined["seconds"]);
    let fresh = folder.path("fresh.vtb");
    ok(&[
        "refine", &model, "--bundle", &narrow, "--within", "10m", "--out", &fresh, "--data", &data,
    ]);
    let bytes = |bundle: &str| std::fs::read(bundle).expect("a bundle");
    assert_eq!(bytes(&fresh), bytes(&sure), "the same data give an equal bundle");
}

/// A bundle that ships: how wide its forecasts are does not depend on this machine.
#[test]
fn a_wide_forecast_names_the_command() {
    let (folder, model) = (Folder::new(), shipped("edgenext_xx_small"));
    let bundle = folder.path("shipped.vtb");
    let ships =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-torch-bf16-channels-last-1t.vtb");
    std::fs::copy(ships, &bundle).expect("a bundle that ships");
    let forecast = forecast(&model, &bundle);
    let command = forecast["refine"].as_str().expect("a command, as the interval is wide");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..5], ["vitempo", "refine", &model, "--bundle", &bundle], "{command}");
    let said = ok(&["predict", &model, "--bundle", &bundle]);
    assert!(said.contains(&format!("`{command}`")), "{said}");
}

#[test]
fn narrow_forecasts_and_adapted_bundles_name_no_command() {
    for (model, bundle) in [
        ("vit_tiny_patch16_224", "epyc-rten-f32-1t"),
        ("mobilevit_xxs", "samsung-galaxy-s24-tflite-npu-f16"),
    ] {
        let model = shipped(model);
        assert!(forecast(&model, bundle)["refine"].is_null(), "{model} {bundle}");
        assert!(!ok(&["predict", &model, "--bundle", bundle]).contains("vitempo refine"));
    }
}

#[test]
fn what_cannot_be_refined_is_refused() {
    let folder = Folder::new();
    let model = shipped("mobilevit_xxs");
    let out = folder.path("out.vtb");
    let refine = |bundle: &str, more: &[&str]| {
        refused(&[&["refine", &model, "--bundle", bundle, "--out", &out][..], more].concat())
    };
    let adapted = refine("samsung-galaxy-s24-tflite-npu-f16", &[]);
    assert!(adapted.contains("adapted") && adapted.contains("vitempo adapt"), "{adapted}");
    let elsewhere = refine("epyc-rten-f32-1t", &["--threads", "2"]);
    assert!(elsewhere.contains("--threads"), "{elsewhere}");
    let short = refine("epyc-rten-f32-1t", &["--anywhere", "--within", "0.01s"]);
    assert!(short.contains("--within") && short.contains("the cheapest"), "{short}");
    assert!(!std::path::Path::new(&out).exists());
    let both =
        refused(&["refine", &model, "--bundle", "epyc-rten-f32-1t", "--list", "--out", &out]);
    assert!(both.contains("--list"), "{both}");
}

#[test]
fn kernels_of_litert_are_found_in_pieces_of_the_model() {
    let model = shipped("mobilevit_xxs");
    let list = ["refine", &model, "--bundle", "epyc-litert-f32-1t", "--within", "10m", "--list"];
    let plan = json(&list);
    let kernels = plan["kernels"].as_array().expect("kernels");
    let convolutions = kernels.iter().filter(|kernel| kernel["kind"] == "conv");
    assert!(convolutions.count() > 10, "{plan}");
    assert!(number(&plan["out_of_reach"]) < 0.3, "{plan}");
}

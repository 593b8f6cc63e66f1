//! Memory of models: the fits that ship are those of the dataset that ships, and `predict` and
//! `inspect` forecast the same.

mod program;

use program::{Folder, json, refused, shipped, text, vitempo};
use std::path::Path;
use vitempo::{
    datasets::Dataset,
    graph::{Budget, Limits},
    memory::{EngineMemory, MeasuredMemory, fit},
    search_space::Space,
};

#[test]
fn shipped_fits_are_those_of_the_dataset() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/memory"));
    let dataset = Dataset::load(folder).expect("the dataset");
    let fits = fit(&MeasuredMemory::of(&dataset.profiles, &dataset.graphs));
    let shipped = EngineMemory::shipped();
    let names = |fits: &[EngineMemory]| -> Vec<String> {
        fits.iter()
            .map(|e| format!("{} {} {}", e.framework, e.framework_version, e.models))
            .collect()
    };
    assert_eq!(
        names(&fits),
        names(shipped),
        "`vitempo-studies memory datasets/memory --out` again"
    );
    for (fit, ships) in fits.iter().zip(shipped) {
        let numbers = |e: &EngineMemory| {
            let (lower, upper) = e.measured_over_forecast;
            let weights = [e.per_product_weight, e.per_other_weight];
            let others = [e.base_bytes, e.per_activation, e.per_kernel_bytes, lower, upper];
            [&weights[..], &others[..]].concat()
        };
        for (fit, ships) in numbers(fit).into_iter().zip(numbers(ships)) {
            assert!((fit - ships).abs() <= 1e-6 * ships.abs(), "{fit} {ships}");
        }
    }
}

/// On Linux, which reports the memory of a process.
#[test]
#[cfg(target_os = "linux")]
fn what_is_missing_of_latency_and_memory_is_measured() {
    let (folder, model) = (Folder::new(), shipped("mobilevit_xxs"));
    let profile = |data: &str, more: &[&str]| -> Vec<String> {
        let few = ["--min-repeats", "3", "--max-repeats", "3", "--profiled-repeats", "2"];
        let words = [&["profile", &model, "--backend", "rten", "--out", data], &few[..], more];
        words.concat().into_iter().map(str::to_owned).collect()
    };
    let counts = |data: &str, more: &[&str]| {
        let words = profile(data, more);
        let measured = json(&words.iter().map(String::as_str).collect::<Vec<_>>());
        ["measured", "skipped"].map(|what| measured[what].as_u64().expect("a count"))
    };
    let [one, other] = ["one", "other"].map(|name| folder.path(name));
    let (also, alone) = (["--peak-memory"], ["--peak-memory", "alone"]);

    assert_eq!(counts(&one, &alone), [1, 0]);
    assert_eq!(counts(&one, &alone), [0, 1]);
    let bundle = folder.path("m.vtb");
    let trained = refused(&["train", &one, "--out", &bundle]);
    assert!(trained.contains("measured memory alone"), "{trained}");
    assert_eq!(counts(&one, &[]), [1, 0], "latencies are not there yet");
    assert_eq!(counts(&one, &[]), [0, 1]);
    assert_eq!(counts(&one, &also), [0, 1], "both are there");

    assert_eq!(counts(&other, &["--session", "a"]), [1, 0]);
    let words = profile(&other, &["--session", "a", "--peak-memory", "alone"]);
    let same = refused(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(same.contains("use another session"), "{same}");
    assert_eq!(counts(&other, &also), [1, 0], "memory is not there yet");
    assert_eq!(counts(&other, &also), [0, 1]);
    assert_eq!(counts(&other, &alone), [0, 1]);

    for (more, says) in [(["--seed", "9"], Some("--session NAME")), (["--seed", "0"], None)] {
        let words = profile(&other, &more);
        let stderr = text(&vitempo(&words.iter().map(String::as_str).collect::<Vec<_>>()).stderr);
        assert_eq!(stderr.contains("another seed"), says.is_some(), "{stderr}");
        assert!(says.is_none_or(|says| stderr.contains(says)), "{stderr}");
    }
    let words = profile(&other, &["--session", " "]);
    let nameless = vitempo(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(text(&nameless.stderr).contains("a session needs a name"));
}

#[test]
fn searches_keep_a_ceiling_for_memory() {
    let bundles = ["onnxruntime", "rten"].map(|engine| {
        format!("{}/../bundles/epyc-{engine}-f32-1t.vtb", env!("CARGO_MANIFEST_DIR"))
    });
    let [one, other] = &bundles;
    let search = ["search", "--bundle", one, "--bundle", other, "--candidates", "60"];
    let front = |more: &[&str]| json(&[&search[..], &["--population", "20"], more].concat());
    let memory = |member: &serde_json::Value, device: usize, end: &str| {
        member["latencies"][device]["memory"]["peak_bytes"][end].as_u64().expect("bytes")
    };
    let within = front(&["--max-memory", "120MB", "--max-memory", "90MB"]);
    let members = within["front"].as_array().expect("a front");
    for member in members {
        assert!(
            memory(member, 0, "point") <= 120_000_000 && memory(member, 1, "point") <= 90_000_000
        );
        let space = Space::named("hybrid-vit").expect("a space");
        let encoding = member["encoding"].as_str().expect("an encoding");
        let graph = space.decode(encoding).expect("in the space").to_graph().expect("a graph");
        let bundle = vitempo::Bundle::open(one).expect("a bundle");
        let budget = Budget::new(Limits::NONE);
        let (_, forecast) = bundle.predict_with_memory(&graph, &budget).expect("a forecast");
        assert_eq!(Some(memory(member, 0, "point")), forecast.map(|f| f.peak_bytes.point()));
    }
    let without = front(&[]);
    let all = without["front"].as_array().expect("a front");
    assert!(all.iter().any(|member| memory(member, 0, "point") > 120_000_000), "{without}");
    let upper = front(&["--upper", "--max-memory", "120MB", "--max-memory", "1GB"]);
    for member in upper["front"].as_array().expect("a front") {
        assert!(memory(member, 0, "upper") <= 120_000_000);
    }
    let torch = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-torch-f32-1t.vtb");
    let message = refused(&["search", "--bundle", torch, "--max-memory", "1GB"]);
    assert!(message.contains("--max-memory") && message.contains("no forecast"), "{message}");
    let nothing =
        refused(&["search", "--bundle", one, "--candidates", "20", "--max-memory", "1kB"]);
    assert!(nothing.contains("exceeds them by"), "{nothing}");
}

#[test]
fn predict_and_inspect_forecast_the_same_memory() {
    let model = shipped("mobilevit_xxs");
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-rten-f32-1t.vtb");
    let predicted = json(&["predict", &model, "--bundle", bundle]);
    let inspected = json(&["inspect", &model, "--framework", "rten"]);
    let (predicted, inspected) = (&predicted[0]["memory"], &inspected[0]["memory"]);
    assert!(predicted.is_object() && predicted == inspected, "{predicted} {inspected}");
    let bytes = |name: &str| predicted["peak_bytes"][name].as_f64().expect("bytes");
    let weights = predicted["demand"]["product_weights_bytes"].as_f64().expect("weights");
    assert!(bytes("lower") <= bytes("point") && bytes("point") <= bytes("upper"));
    assert!(bytes("point") > weights && bytes("point") < 100e6, "{predicted}");
}

/// A split that keeps everything on the device takes there what `predict` says, and a bound keeps
/// what it states.
#[test]
fn plans_have_the_memory_of_the_forecast() {
    let model = shipped("mobilevit_xxs");
    for engine in ["rten", "onnxruntime", "openvino", "litert"] {
        let bundle = format!("{}/../bundles/epyc-{engine}-f32-1t.vtb", env!("CARGO_MANIFEST_DIR"));
        let peak = &json(&["predict", &model, "--bundle", &bundle])[0]["memory"]["peak_bytes"];
        let peak = peak["point"].as_u64().expect("bytes");
        let split = |more: &[&str]| {
            let bundles = ["--device-bundle", &bundle, "--server-bundle", &bundle];
            json(&[&["plan", "split", &model][..], &bundles, more].concat())
        };
        let stage = |plan: &serde_json::Value, place: usize| {
            plan[0]["stages"][place]["memory_bytes"].as_u64().expect("bytes")
        };
        let whole = split(&["--bandwidth", "1kbit/s"]);
        assert_eq!(
            (stage(&whole, 0), whole[0]["stages"].as_array().map(Vec::len)),
            (peak, Some(1))
        );
        let least = (peak - 1).to_string();
        let bounded =
            split(&["--bandwidth", "100Mbit/s", "--confine", "input", "--max-memory", &least]);
        let [device, server] = [stage(&bounded, 0), stage(&bounded, 1)];
        assert!(device < peak && server < peak && device + server > peak, "{bounded}");
        let pipeline = json(&[
            "plan",
            "pipeline",
            &model,
            "--processor",
            &format!("a={bundle}"),
            "--bandwidth",
            "1GB/s",
        ]);
        assert_eq!(stage(&pipeline, 0), peak);
    }
}

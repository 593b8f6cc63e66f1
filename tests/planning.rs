//! Plans that run: halves on real engines, placements and pipelines on pinned ones, and analyses of
//! power traces. The tests check results, never times.

mod program;

use program::{Folder, json, ok, refused, shipped, vitempo};
use std::{path::Path, sync::Once};
use vitempo::{
    graph::onnx::{self, ReadOptions},
    profiler::{
        Availability, Backend, Model, ModelSource, OutputValues, RunOptions, backends, conformance,
        inputs,
    },
};

/// JSON of a command that needs a core for each processor; `None`, with a word, where there are too
/// few.
fn on_own_cores(args: &[&str]) -> Option<serde_json::Value> {
    let output = vitempo(&[args, &["--format", "json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("finds no core") {
        eprintln!("skipped: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{args:?}: {stderr}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON on standard output"))
}

/// Predictors of the null engine: every operator takes next to nothing.
fn null_bundle(folder: &Folder) -> String {
    let (models, data, bundle) =
        (folder.path("models"), folder.path("data"), folder.path("null.vtb"));
    ok(&["sample", "--count", "12", "--seed", "3", "--no-weights", "--out", &models]);
    ok(&["profile", &models, "--backend", "null", "--out", &data]);
    ok(&["train", &data, "--method", "lasso", "--out", &bundle]);
    bundle
}

/// Engines that can be handed values, of those found here; the embedded one always is.
fn engines() -> Vec<Box<dyn Backend>> {
    let here = |name: &&str| match backends::by_name(name)
        .expect("compiled in")
        .probe(&RunOptions::default())
    {
        Availability::Available(_) => true,
        Availability::Unavailable { reason, .. } => {
            static NOTICE: Once = Once::new();
            NOTICE.call_once(|| eprintln!("skipped: {name} is not here: {reason}"));
            false
        }
    };
    ["rten", "onnxruntime"]
        .into_iter()
        .filter(here)
        .map(|name| backends::by_name(name).expect("compiled in"))
        .collect()
}

/// What a file computes from these values.
fn outputs(engine: &dyn Backend, file: &str, given: &[OutputValues]) -> Vec<OutputValues> {
    let file = Path::new(file);
    let graph = onnx::read_file(file, &ReadOptions::default()).expect("a graph");
    let model =
        Model { name: graph.name().to_owned(), graph, source: ModelSource::File(file.to_owned()) };
    let mut session = engine.load(&model, &RunOptions::default()).expect("it loads");
    session.feed(&given.iter().collect::<Vec<_>>()).expect("the values fit");
    session.outputs().expect("it runs")
}

#[test]
fn halves_of_real_models_compute_what_the_whole_computes() {
    let folder = Folder::new();
    let bundle = null_bundle(&folder);
    let halves = folder.path("halves");
    for name in ["mobilevit_xxs", "vit_tiny_patch16_224", "edgenext_xx_small"] {
        let whole = folder.path(&format!("{name}.onnx"));
        std::fs::write(&whole, onnx::materialize(Path::new(&shipped(name)), 7).expect("weights"))
            .expect("a file");
        let costs =
            ["--device-bundle", &bundle, "--server-bundle", &bundle, "--bandwidth", "1Gbit/s"];
        // The input stays on the device, and the device has room for a part of the weights only.
        let bounds = ["--confine", "input", "--max-memory", "2MB", "--out", &halves];
        let plan = json(&[&["plan", "split", &whole], &costs[..], &bounds[..]].concat());
        assert_eq!(plan[0]["stages"].as_array().map(Vec::len), Some(2), "{name} is split");
        let [device, server] =
            ["device", "server"].map(|half| folder.path(&format!("halves/{name}.{half}.onnx")));
        let graph = onnx::read_file(Path::new(&whole), &ReadOptions::default()).expect("a graph");
        let options = RunOptions::default();
        let given = inputs::of_graph(&graph, options.inputs, options.seed).expect("inputs");
        for engine in engines() {
            let expected = outputs(engine.as_ref(), &whole, &given);
            let between = [given.clone(), outputs(engine.as_ref(), &device, &given)].concat();
            let results = [between.clone(), outputs(engine.as_ref(), &server, &between)].concat();
            let result = |e: &OutputValues| {
                results
                    .iter()
                    .find(|r| r.name == e.name)
                    .cloned()
                    .unwrap_or_else(|| panic!("{name}: no output `{}`", e.name))
            };
            let found: Vec<OutputValues> = expected.iter().map(result).collect();
            let (apart, output) =
                conformance::difference(&expected, &found).expect("the same outputs");
            assert!(apart < 1e-4, "{name} on {}: `{output}` is {apart:.1e} apart", engine.name());
            assert!(
                expected.iter().all(|e| e.values.iter().any(|v| *v != e.values[0])),
                "{name} computes something"
            );
        }
    }
}

#[test]
fn every_placement_of_a_real_model_runs_and_computes_the_same() {
    let model = shipped("mobilevit_xxs");
    let multitask = [
        "plan",
        "multitask",
        &model,
        "--encoder",
        "/stages/stages.3",
        "--live",
        "a=rten",
        "--live",
        "b=rten",
        "--frames",
        "3",
    ];
    let Some(plan) = on_own_cores(&multitask) else { return };
    let placements = plan["placements"].as_array().expect("placements");
    assert_eq!(
        (placements.len(), plan["parts"].as_array().map(Vec::len)),
        (8, Some(2)),
        "2 parts on 2 processors, sequential and pipelined: {plan}"
    );
    for placement in placements {
        assert_eq!(
            (&placement["live"]["frames"], &placement["live"]["evidence"]),
            (&3.into(), &"live".into())
        );
        assert!(placement["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{placement}");
        assert!(
            placement["simulated"]["period_ns"].as_f64() > Some(0.0)
                && placement["forecast"]["evidence"] == "cost_model"
        );
    }
    // The chosen one comes first; a pipeline's forecast is never worse than the same placement in
    // sequence.
    let forecast =
        |p: &serde_json::Value| p["forecast"]["period_ns"]["point"].as_u64().expect("a period");
    assert!(placements.iter().map(forecast).is_sorted());
    assert!(plan["live_regret"].as_f64().is_some_and(|regret| regret >= 0.0), "{plan}");
    assert_eq!(plan["slowdown_side_by_side"].as_array().map(Vec::len), Some(2));
    assert!(
        refused(&["plan", "multitask", &model, "--live", "a=rten"])
            .contains("hint: give --encoder PREFIX")
    );
    assert!(
        refused(&[
            "plan",
            "multitask",
            &model,
            "--encoder",
            "/stages/stages.3",
            "--live",
            "a=abacus"
        ])
        .contains("no backend is called `abacus`")
    );
}

#[test]
fn postprocessing_is_placed_and_the_dynamic_rule_is_simulated() {
    let folder = Folder::new();
    let sample = ["sample", "--decoders", "depth,segmentation,normals", "--count", "1"];
    ok(&[&sample[..], &["--no-weights", "--out", &folder.path("models")]].concat());
    let model = folder.path("models/hybrid-vit-s0-000.onnx");
    let bundles = ["epyc-onnxruntime-f32-1t", "epyc-rten-f32-1t"];
    let [a, b] = [format!("a={}", bundles[0]), format!("b={}", bundles[1])];
    let placed = ["plan", "multitask", &model, "--postprocessing", "postprocessing."];
    let on = ["--processor", &a, "--processor", &b, "--bandwidth", "8GB/s"];
    let placed = [&placed[..], &on].concat();
    let power = ["--switch-above", "26C", "--power", "a=2W", "--power", "b=4W"];
    let plan = json(&[&placed[..], &power].concat());
    assert_eq!(plan["parts"].as_array().map(Vec::len), Some(1 + 3 + 3), "{plan}");
    assert_eq!(plan["placements"][0]["postprocessing"].as_array().map(Vec::len), Some(3));
    assert_eq!(plan["search"]["placements"], (2 * 2u32.pow(7)).to_string());
    // Depth, classes and normals of 224 to 384 pixels squared, 4 bytes each.
    let sizes: Vec<u64> = serde_json::from_value(plan["prediction_bytes"].clone()).expect("sizes");
    assert_eq!(sizes, [sizes[0], 40 * sizes[0], 3 * sizes[0]]);
    for (name, bundle) in ["a", "b"].into_iter().zip(bundles) {
        let forecast = json(&["predict", &model, "--bundle", bundle]);
        let predicted = forecast[0]["latency_ns"]["point"].as_f64().expect("a latency");
        let whole = plan["whole_latency_ns"][name]["point"].as_f64().expect("a latency");
        assert!((whole - predicted).abs() <= 1.0, "{bundle}: {whole}, {predicted}");
    }
    assert_eq!(plan["dynamic"]["evidence"], "simulation");
    assert!(plan["dynamic"]["switching"]["switches"].as_u64() > Some(0), "{plan}");
    let refusal = refused(&[&placed[..], &power[..2]].concat());
    assert!(refusal.contains("temperatures need the power of a processor"), "{refusal}");
    let wrong = ["plan", "multitask", &model, "--postprocessing", "stages."];
    assert!(refused(&[&wrong[..], &on].concat()).contains("the encoder needs it"));
}

#[test]
fn a_pipeline_runs_for_real_and_a_placement_is_forecast_by_bundles() {
    let folder = Folder::new();
    let (bundle, model) = (null_bundle(&folder), shipped("vit_tiny_patch16_224"));
    let [a, b] = ["a", "b"].map(|name| format!("{name}={bundle}"));
    let processors = ["--processor", &a, "--processor", &b, "--bandwidth", "9000GB/s"];
    let tasks = json(
        &[&["plan", "multitask", &model, "--encoder", "/blocks/blocks.5"], &processors[..]]
            .concat(),
    );
    assert_eq!(tasks["placements"].as_array().map(Vec::len), Some(8));
    assert!(tasks["placements"][0]["live"].is_null() && tasks["live_regret"].is_null());
    let live = ["--live", "a=rten", "--live", "b=rten", "--frames", "2"];
    let Some(plan) =
        on_own_cores(&[&["plan", "pipeline", &model], &processors[..], &live[..]].concat())
    else {
        return;
    };
    assert_eq!(
        (plan[0]["stages"].as_array().map(Vec::len), &plan[0]["live"]["frames"]),
        (Some(2), &2.into()),
        "{plan}"
    );
    assert!(plan[0]["live"]["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{plan}");
    let missing = refused(&[&["plan", "pipeline", &model], &processors[..], &live[..2]].concat());
    assert!(missing.contains("has no engine") && missing.contains("hint: add --live"), "{missing}");
}

#[test]
fn a_dissection_finds_what_the_study_printed() {
    let folder = Folder::new();
    let out = folder.path("trace");
    let output =
        ok(&["energy", "simulate", "--governor", "performance", "--frames", "40", "--out", &out]);
    assert!(
        output.starts_with("simulated, not measured")
            && output.contains("--base-power 755.8mW --preview-power 3527.3mW"),
        "{output}"
    );
    let [trace, log] = ["trace/trace.csv", "trace/log.csv"].map(|name| folder.path(name));
    assert!(
        std::fs::read_to_string(&trace)
            .is_ok_and(|text| text.starts_with("# simulated, not measured"))
    );
    let dissect = [
        "energy",
        "dissect",
        &trace,
        &log,
        "--base-power",
        "755.8mW",
        "--preview-power",
        "3527.3mW",
    ];
    let found = json(&dissect);
    assert!(
        found["frames"].as_u64().is_some_and(|frames| frames > 20)
            && found["left_out"].as_u64() > Some(0),
        "{found}"
    );
    // Table II, performance.
    let joules = |phase: &str| {
        found["phases"]
            .as_array()
            .and_then(|p| p.iter().find(|p| p["phase"] == phase)?["joules"].as_f64())
            .expect("a phase")
    };
    for (phase, printed) in [("conversion", 0.983), ("inference", 1.028), ("others", 0.123)] {
        assert!(
            (joules(phase) - printed).abs() < 0.02,
            "{phase}: {} instead of {printed}",
            joules(phase)
        );
    }
    assert!(
        ok(&dissect).contains("camera and preview")
            && ok(&[&dissect[..], &["--format", "csv"]].concat()).lines().count() == 7
    );
    let silent = refused(&[&dissect[..], &["--cooling-off", "5min"]].concat());
    assert!(silent.contains("no frame is left"), "{silent}");
    let few = ok(&["energy", "simulate", "--frames", "3", "--out", &folder.path("few")]);
    assert!(few.contains("--cooling-off 1s"), "{few}");
    let [trace, log] = ["few/trace.csv", "few/log.csv"].map(|name| folder.path(name));
    let mut short = dissect;
    short[2] = trace.as_str();
    short[3] = log.as_str();
    assert_eq!(json(&[&short[..], &["--cooling-off", "1s"]].concat())["frames"], 3);
    let quiet = refused(&[&short[..], &["--quiet", "5ms"]].concat());
    assert!(quiet.contains("it needs 10 or more") && quiet.contains("--quiet"), "{quiet}");
    assert!(
        refused(&[
            "energy",
            "dissect",
            &log,
            &trace,
            "--base-power",
            "1W",
            "--preview-power",
            "2W"
        ])
        .contains("log.csv: has no column time_s")
    );
    assert!(
        refused(&["energy", "simulate", "--governor", "turbo", "--out", &out]).contains("turbo")
    );
}

/// Where the machine counts energy, a trace of it can be read; where it does not, that is said.
#[test]
fn a_power_trace_is_recorded_where_there_is_a_counter() {
    let folder = Folder::new();
    let trace = folder.path("trace.csv");
    let args = ["energy", "record", "--for", "300ms", "--every", "50ms", "--out", &trace];
    let output = vitempo(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let text = std::fs::read_to_string(&trace).expect("a trace");
        assert!(text.starts_with("# measured by the energy counters") && text.lines().count() > 3);
    } else {
        let said = ["no energy counters", "cannot be read"].iter().any(|w| stderr.contains(w));
        assert!(said && !Path::new(&trace).exists(), "{stderr}");
    }
    let zero = vitempo(&["energy", "record", "--every", "0ms", "--out", &trace]);
    assert!(String::from_utf8_lossy(&zero.stderr).contains("above 0"));
}

/// A device and a server without laws by size and without frequencies for governors.
const DEVICE: &str = r#"{"conversion": [{"method": "java", "per_megapixel": 2.15}], "others_s": 0.05,
    "conversion_power": {"a_w_per_ghz": 0.33, "b_w_per_ghz3": 0.09}, "inference_power": {"a_w_per_ghz": 0.35, "b_w_per_ghz3": 0.09}, "base": {"fixed_w": 0.6},
    "camera": {"on": {"fixed_w": 1.5}, "frame_j": 0.03, "post_processing_share": 0.1, "preview": "800x600"},
    "radio": {"promotion_s": 0.08, "promotion_w": 0.12, "transmit_w": 2.5, "tail_s": 0.24, "tail_w": 0.12, "idle_w": 0.002}, "round_trip_s": 0.02,
    "bandwidth_bytes_per_s": 1e6, "local": [{"size_px": 300, "accuracy": 19.3, "inference": 1.0}],
    "remote": [{"size_px": 320, "accuracy": 51.5, "inference": 0.19, "sent_bytes": 30000}]}"#;

/// The study, section V-C: a large camera rate leads to a high power and to few frames that are
/// detected; post-processing costs 14.8 % of the camera's power.
#[test]
fn sampled_frames_cost_energy_whether_they_are_detected_or_not() {
    let offload = |args: &[&str]| {
        let args = [&["plan", "offload", "--device", "nexus6", "--all"], args].concat();
        json(&args)["choices"].as_array().cloned().expect("choices")
    };
    let number = |choice: &serde_json::Value, key: &str| choice[key].as_f64().expect("a number");
    let rates = ["--frequency", "1.5", "--camera-rate", "5,15,30"];
    for of_place in offload(&rates).chunks(3) {
        for pair in of_place.windows(2) {
            assert!(number(&pair[0], "energy_j") < number(&pair[1], "energy_j"), "{pair:?}");
            let share = |c: &serde_json::Value| number(&c["modelled"], "sampling_share");
            assert!(share(&pair[0]) > share(&pair[1]), "{pair:?}");
        }
        assert!(number(&of_place[2]["modelled"], "sampling_share") < 0.02);
    }
    let post = offload(&["--governor", "interactive", "--post-processing", "on,off"]);
    let camera = |c: &serde_json::Value| number(&c["modelled"]["energy"], "camera_j");
    assert!((camera(&post[1]) / camera(&post[0]) - 0.852).abs() < 1e-6);
    let printed = ok(&["plan", "offload", "--device", "nexus6", "--conversion", "java,c"]);
    assert!(printed.contains("GHz, c") && printed.contains("Sampled"), "{printed}");
    let sizes = offload(&["--governor", "interactive", "--input", "100,128,608"]);
    assert_eq!(sizes.len(), 2 * 3);
    let energy = |place: &str, px: u64| {
        let of = |c: &&serde_json::Value| c["place"] == place && c["size_px"] == px;
        sizes.iter().find(of).map(|c| number(c, "energy_j")).expect("a choice")
    };
    assert!(energy("local", 100) < energy("remote", 100), "section V-E");
    assert!(energy("remote", 608) < energy("local", 608), "observation 28");
}

/// A governor over time, and the frames of plans, by the same model as offloading.
#[test]
fn frequencies_and_frames_of_plans_follow_the_model_of_the_device() {
    let timeline = ["energy", "timeline", "--device", "nexus6", "--governor", "conservative"];
    let moments = json(&timeline)["moments"].as_array().cloned().expect("moments");
    let ghz: Vec<f64> = moments.iter().filter_map(|m| m["ghz"].as_f64()).collect();
    assert!(ghz[0] == 0.3 && ghz.iter().copied().fold(0.0, f64::max) > 2.4, "{ghz:?}");
    assert!(ok(&timeline).lines().count() > 10);
    let csv = ok(&[&timeline[..], &["--place", "remote", "--format", "csv"]].concat());
    assert!(csv.contains("transmission") && csv.starts_with("frame,start_s"), "{csv}");
    assert!(ok(&[&timeline[..], &["--input", "77"]].concat()).contains("GHz"));

    let folder = Folder::new();
    let costs = r#"{"model": "m", "processors": [{"name": "phone"}, {"name": "server"}],
        "links": [{"from": "phone", "to": "server", "link": {"bandwidth_bytes_per_s": 2500000}}],
        "nodes": [{"name": "net", "latency_ns": {"phone": 900000000, "server": 190000000}}],
        "tensors": [{"name": "image", "size_bytes": 307200, "consumers": ["net"]}]}"#;
    let costs = folder.file("costs.json", costs);
    let split = |rate: &str| {
        let frame = ["--frame-energy", "nexus6", "--device-frequency", "1.5"];
        let args = ["plan", "split", "--costs", &costs, "--camera-rate", rate];
        json(&[&args[..], &frame[..]].concat())[0]["predicted"]["frame"].clone()
    };
    let (few, many) = (split("5"), split("30"));
    let number = |frame: &serde_json::Value, key: &str| frame[key].as_f64().expect("a number");
    assert!(number(&few, "energy_j") < number(&many, "energy_j"), "{few} {many}");
    assert!(number(&few["parts"], "radio_j") > 0.1, "the image is sent: {few}");
    let parts = few["parts"].as_object().expect("parts").values().filter_map(|j| j.as_f64());
    assert!((parts.sum::<f64>() - number(&few, "energy_j")).abs() < 1e-9);
    let pipeline = ["plan", "pipeline", "--costs", &costs, "--frame-energy", "nexus6"];
    let printed = ok(&pipeline);
    assert!(printed.contains("a frame on the device takes"), "{printed}");
    let first = refused(&[&pipeline[..], &["--off-device", "phone"]].concat());
    assert!(first.contains("inputs arrive at `phone`"), "{first}");
    let unknown = refused(&[&pipeline[..], &["--off-device", "cloud"]].concat());
    assert!(unknown.contains("no processor `cloud`: there are phone, server"), "{unknown}");
    let device = folder.file("device.json", DEVICE);
    let frequency = refused(&["plan", "split", "--costs", &costs, "--frame-energy", &device]);
    assert!(frequency.contains("hint: give --device-frequency"), "{frequency}");
}

#[test]
fn settings_that_a_device_lacks_are_refused() {
    let folder = Folder::new();
    let device = folder.file("device.json", DEVICE);
    let refuse = |args: &[&str]| refused(&[&["plan", "offload", "--device"], args].concat());
    for (args, expected) in [
        (&["--governor", "ondemand"][..], "`processor` is missing"),
        (&["--conversion", "neon"], "the device has no conversion neon: it has java"),
        (&["--input", "512"], "the device has no input size 512 px: it has 300 px, 320 px"),
    ] {
        let message = refuse(&[&[device.as_str()], args].concat());
        assert!(message.contains(expected), "{message}");
    }
    let camera = DEVICE.replace(r#""post_processing_share": 0.1"#, r#""post_processing_share": 7"#);
    let share = refuse(&[&folder.file("share.json", &camera)]);
    assert!(share.contains("`camera.post_processing_share` is 7"), "{share}");
    let old = DEVICE.replace(r#""round_trip_s""#, r#""communication_w""#);
    let field = refuse(&[&folder.file("old.json", &old)]);
    assert!(field.contains("unknown field `communication_w`"), "{field}");
    let local =
        r#""remote": [{"size_px": 320, "accuracy": 51.5, "inference": 0.19, "sent_bytes": 30000}]"#;
    let alone = folder.file("alone.json", DEVICE.replace(local, r#""remote": []"#));
    let unused = refuse(&[&alone, "--bandwidth", "1MB/s"]);
    assert!(unused.contains("the bandwidth has no effect"), "{unused}");
    for (flag, value) in [
        ("--camera-rate", "0"),
        ("--frequency", "1e300"),
        ("--preview", "800"),
        ("--governor", "turbo"),
        ("--post-processing", "maybe"),
        ("--input", "0"),
    ] {
        let args = ["plan", "offload", "--device", "nexus6", flag, value];
        let output = vitempo(&args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(flag), "{flag}: {message}");
    }
}

#[test]
fn offloading_is_weighed_over_energy_latency_and_accuracy() {
    let folder = Folder::new();
    let best = |args: &[&str]| {
        let plan = json(&[&["plan", "offload"], args].concat());
        let chosen = plan["choices"]
            .as_array()
            .and_then(|c| c.iter().find(|c| c["chosen"] == true).cloned())
            .expect("a best choice");
        (
            chosen["place"].as_str().unwrap_or_default().to_owned(),
            chosen["setting"].as_str().unwrap_or_default().to_owned(),
            plan,
        )
    };
    let (place, governor, plan) = best(&["--study"]);
    assert_eq!(
        (place.as_str(), governor.as_str(), &plan["evidence"]),
        ("remote", "userspace", &"paper_table".into())
    );
    assert_eq!(best(&["--study", "--minimise", "latency"]).1, "performance");
    assert!(
        refused(&["plan", "offload", "--study", "--min-accuracy", "60"])
            .contains("the most accurate has 51.5 %")
    );
    // Twice as far from the server, and local is the frugal place.
    let device = folder.file("device.json", DEVICE);
    let weigh = |bandwidth: &'static str| {
        best(&["--device", &device, "--frequency", "1.5,2.65", "--bandwidth", bandwidth])
    };
    assert_eq!((weigh("10Mbit/s").0.as_str(), weigh("100kbit/s").0.as_str()), ("remote", "local"));
    assert!(
        weigh("10Mbit/s").2["note"]
            .as_str()
            .is_some_and(|note| note.contains("the server is better from"))
    );
    assert_eq!(best(&["--device", "nexus6"]).2["evidence"], "cost_model");
    let choices =
        folder.file("choices.csv", "place,setting,size_px,camera_fps,latency_s,energy_j,accuracy\nlocal,fast,300,,1.0,5.0,20\nremote,fast,320,15,0.9,4.0,50\n");
    assert_eq!(best(&["--choices", &choices]).0, "remote");
    let equal = folder.file("equal.csv", "place,setting,size_px,camera_fps,latency_s,energy_j,accuracy\nlocal,a,100,15,1,2.5,20\nlocal,a,100,15,1,2.5,20\n");
    let printed = ok(&["plan", "offload", "--choices", &equal, "--all"]);
    assert_eq!(printed.lines().filter(|line| line.starts_with("* ")).count(), 2, "{printed}");
    let sizes = ["plan", "offload", "--device", "nexus6", "--input", "300,320", "--all"];
    let printed = ok(&sizes);
    assert!(printed.contains("320 px ~") && printed.contains("not comparable"), "{printed}");
    let unknown = ["plan", "offload", "--device", "nexus6", "--input", "77"];
    let unknown = refused(&[&unknown[..], &["--min-accuracy", "10"]].concat());
    assert!(unknown.contains("no accuracy is known"), "{unknown}");
    let torn = folder.file("torn.csv", "place,setting,size_px,camera_fps,latency_s,energy_j,accuracy\nelsewhere,fast,300,,1.0,5.0,20\n");
    assert!(refused(&["plan", "offload", "--choices", &torn]).contains("torn.csv"));
    assert!(refused(&["plan", "offload"]).contains("--study"));
}

/// A foundation model planned from forecasts: what is printed can be fed in again, and resolutions
/// are those asked for.
#[test]
fn aria_is_planned_from_forecasts_of_one_encoder_at_many_sizes() {
    let folder = Folder::new();
    let bundle = null_bundle(&folder);
    let encoder = shipped("vit_tiny_patch16_224");
    let base = [
        "plan",
        "aria",
        "--encoder",
        &encoder,
        "--gpu",
        &bundle,
        "--npu",
        &bundle,
        "--level",
        "240x320",
        "--level",
        "400x656",
        "--region",
        "160x160",
    ];
    let plan = json(&[&base[..], &["--target", "33.3ms", "--rest", "10ms"]].concat());
    let levels = plan["plan"]["levels"].as_array().expect("levels");
    let patches: Vec<_> = levels.iter().map(|l| (l["rows"].as_u64(), l["cols"].as_u64())).collect();
    assert_eq!(patches, [(Some(15), Some(20)), (Some(25), Some(41))]);
    assert!(plan["plan"]["cycles"].as_u64().is_some_and(|cycles| cycles > 1));
    assert_eq!(plan["costs"]["patch"], 16);
    let costs = folder.path("costs.json");
    std::fs::write(&costs, plan.to_string()).expect("a file");
    let again = json(&["plan", "aria", "--costs", &costs, "--target", "33.3ms"]);
    assert_eq!(again["plan"]["levels"], plan["plan"]["levels"]);
    let tight = ok(&["plan", "aria", "--costs", &costs, "--target", "5ms"]);
    assert!(tight.contains("Nothing fits") && tight.contains("a target of"), "{tight}");
    let phone = ok(&[
        "plan",
        "aria",
        "--encoder",
        &encoder,
        "--gpu",
        "pixel4-tflite-gpu-f32",
        "--npu",
        "samsung-galaxy-s24-tflite-npu-f16",
        "--level",
        "240x320",
        "--region",
        "160x160",
        "--target",
        "100ms",
        "--camera",
        "10",
    ]);
    assert!(!phone.is_empty(), "adapted bundles plan as trained ones do");
    let late = refused(&["plan", "aria", "--costs", &costs, "--target", "100ms"]);
    assert!(late.contains("3.0 times the camera's period"), "{late}");
    assert!(late.contains("--camera 10"), "{late}");
    let error = refused(&[&base[..], &["--level", "8x8"]].concat());
    assert!(error.contains("holds no patch of 16 pixels"), "{error}");
    let error = refused(&[&base[..], &["--level", "224x224", "--patch", "7"]].concat());
    assert!(error.contains("patches of 7 pixels are asked for, the encoder's have 16"), "{error}");
    let error = refused(&[
        "plan",
        "aria",
        "--encoder",
        &shipped("mobilevit_xxs"),
        "--gpu",
        &bundle,
        "--npu",
        &bundle,
        "--patch",
        "16",
        "--level",
        "250x250",
    ]);
    assert!(error.contains("node"), "{error}");
    assert!(refused(&["plan", "aria"]).contains("nothing to plan"));
}

/// The trained network on two engines: what is shown is scored, recorded frame by frame, and replayed
/// by the simulator.
#[test]
fn a_network_that_sees_is_scored_frame_by_frame_on_engines() {
    let folder = Folder::new();
    let record = folder.path("frames.csv");
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/aria");
    let [encoder, decoder] = ["encoder.onnx", "decoder.onnx"]
        .map(|name| network.join(name).to_str().expect("a path").to_owned());
    let bundle = "epyc-rten-f32-1t";
    let models = ["--encoder", &encoder, "--decoder", &decoder, "--gpu", bundle, "--npu", bundle];
    let sizes = ["--patch", "8", "--level", "96x128", "--level", "192x256", "--region", "64x64"];
    let pace = ["--target", "1s", "--camera", "20", "--frames", "8", "--throttle", "2"];
    let live = ["--live", "gpu=rten", "--live", "npu=rten", "--record", &record];
    let args = [&["plan", "aria"], &models[..], &sizes, &pace, &live].concat();
    let Some(outcomes) = on_own_cores(&args) else { return };
    assert_eq!(outcomes["flow"], "decoder's depth");
    let systems = outcomes["systems"].as_array().expect("systems");
    assert_eq!(systems.len(), 6);
    for system in systems {
        let count = |field: &str| system[field].as_u64().expect("a count");
        assert_eq!(count("frames") + count("dropped"), 8, "{system}");
        let error = |field: &str| system["errors"][field].as_f64().expect("an error");
        assert!(error("rmse_m") > 0.0 && error("rmse_m") < 5.0, "{system}");
        assert!(error("miou") > 0.0 && error("miou") <= 1.0, "{system}");
        let simulated = system["simulated"].as_array().expect("two halves");
        let frames: u64 = simulated.iter().filter_map(|half| half["frames"].as_u64()).sum();
        assert!(simulated.len() == 2 && (1..=8).contains(&frames), "{system}");
        // Within a second, every frame is whole at the highest resolution: the reference itself.
        if system["system"] == "npu_only" {
            let same = [error("rmse_to_reference_m"), error("miou_to_reference")];
            assert_eq!(same, [0.0, 1.0], "{system}");
        }
    }
    let csv = std::fs::read_to_string(&record).expect("a record");
    let executed: u64 = systems.iter().filter_map(|system| system["frames"].as_u64()).sum();
    assert_eq!(csv.lines().count() as u64, 1 + executed);
    assert!(csv.starts_with("system,frame,latency_ns,cycles,asked,full_frame_age,rmse_m,miou"));
    let nowhere = folder.path("no/such/frames.csv");
    let unwritable = [&args[..args.len() - 1], &[&nowhere]].concat();
    assert!(refused(&unwritable).contains("the folder does not exist"), "before anything runs");
    let alone = ["plan", "aria", "--record", &record];
    assert!(refused(&alone).contains("--live"), "a record of nothing is refused");
}

/// The trained network on two engines, with a flow.
fn live_by_flow(flow: &str, decoder: bool) -> Vec<String> {
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/aria");
    let file = |name: &str| network.join(name).to_str().expect("a path").to_owned();
    let (encoder, bundle) = (file("encoder.onnx"), "epyc-rten-f32-1t");
    let models = ["plan", "aria", "--encoder", &encoder, "--gpu", bundle, "--npu", bundle];
    let sizes = ["--patch", "8", "--level", "96x128", "--level", "192x256", "--region", "64x64"];
    let pace = ["--target", "1s", "--camera", "20", "--frames", "6", "--rest", "1ms"];
    let live = ["--live", "gpu=rten", "--live", "npu=rten", "--flow", flow];
    let mut args: Vec<String> =
        [&models[..], &sizes, &pace, &live].concat().into_iter().map(str::to_owned).collect();
    if decoder {
        args.retain(|arg| arg != "--rest" && arg != "1ms");
        args.extend(["--decoder".to_owned(), file("decoder.onnx")]);
    }
    args
}

fn shipped_flow() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/aria/flow.json");
    path.to_str().expect("a path").to_owned()
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// The output says which flow ran, with a decoder and without one.
#[test]
fn full_frames_are_warped_by_the_flow_that_was_chosen() {
    let folder = Folder::new();
    let (record, shipped) = (folder.path("frames.csv"), shipped_flow());
    let with_flow = [("rotation", true), ("depth", true), (&*shipped, true), (&*shipped, false)];
    for (flow, decoder) in with_flow {
        let mut args = live_by_flow(flow, decoder);
        args.extend(["--record".to_owned(), record.clone()]);
        let Some(outcomes) = on_own_cores(&strs(&args)) else { return };
        let name = match flow {
            "rotation" => "rotation",
            "depth" => "decoder's depth",
            _ => "learned",
        };
        assert_eq!(outcomes["flow"], name);
        let systems = outcomes["systems"].as_array().expect("systems");
        let of = |system: &str| {
            let found = systems.iter().find(|found| found["system"] == system);
            found.unwrap_or_else(|| panic!("no {system}"))["flow"].clone()
        };
        assert_eq!([of("aria"), of("whole_windows")], [name, name]);
        assert_eq!((of("base"), of("npu_only")), ("rotation".into(), serde_json::Value::Null));
        let csv = std::fs::read_to_string(&record).expect("a record");
        let mut lines = csv.lines();
        assert!(lines.next().is_some_and(|line| line.ends_with(",flow")), "{csv}");
        let flow_of = |line: &str| match line.split(',').next() {
            Some("NPU-only" | "MobiSR-like") => "",
            Some("ARIA-base") => "rotation",
            _ => name,
        };
        assert!(lines.all(|line| line.rsplit(',').next() == Some(flow_of(line))), "{csv}");
    }
}

#[test]
fn a_flow_that_fits_neither_network_nor_camera_nor_run_is_refused() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(shipped_flow()).expect("a flow that ships");
    let changed = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut flow: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        change(&mut flow);
        let path = folder.path(name);
        std::fs::write(&path, flow.to_string()).expect("a file");
        path
    };
    let hidden = 64;
    let narrow = changed("narrow.json", &|flow| {
        flow["width"] = 159.into();
        let parameters = flow["parameters"].as_array_mut().expect("parameters");
        parameters.truncate(parameters.len() - hidden);
    });
    let other = changed("other.json", &|flow| flow["encoder"] = "0123456789abcdef".into());
    let lens = changed("lens.json", &|flow| flow["lens"]["view_rad"] = [0.5, 0.6].into());
    let few = changed("few.json", &|flow| flow["parameters"] = serde_json::json!([1.0]));
    let cut = folder.path("cut.json");
    std::fs::write(&cut, &text[..text.len() / 2]).expect("a file");
    let missing = folder.path("missing.json");
    for (flow, decoder, says) in [
        (&*narrow, true, "159 features per patch, the encoder has 160"),
        (&*other, true, "another encoder: digest of weights 0123456789abcdef, not "),
        (&*lens, true, "fields of view from 0.500 to 0.600 rad"),
        (&*few, true, "few.json"),
        (&*cut, true, "cut.json"),
        (&*missing, true, "missing.json"),
        ("depth", false, "no decoder gives depth"),
    ] {
        let error = refused(&strs(&live_by_flow(flow, decoder)));
        assert!(error.contains(says), "{says}: {error}");
        assert!(error.contains("hint") || flow == missing, "what to do: {error}");
    }
    let classifier = shipped("vit_tiny_patch16_224");
    let bundle = "epyc-rten-f32-1t";
    let flow = shipped_flow();
    let error = refused(&[
        "plan",
        "aria",
        "--encoder",
        &classifier,
        "--gpu",
        bundle,
        "--npu",
        bundle,
        "--level",
        "224x224",
        "--region",
        "112x112",
        "--rest",
        "1ms",
        "--target",
        "10s",
        "--live",
        "gpu=rten",
        "--live",
        "npu=rten",
        "--flow",
        &flow,
    ]);
    assert!(error.contains("no features of patches"), "{error}");
    let alone = ["plan", "aria", "--encoder", &classifier, "--flow", &flow];
    assert!(refused(&alone).contains("--live"), "a flow of nothing is refused");
}

/// A trace from scenes, rehearsed on the paper's phone.
#[test]
fn aria_holds_its_deadline_over_a_trace() {
    let folder = Folder::new();
    let (trace, page) = (folder.path("walk.csv"), folder.path("page"));
    ok(&["plan", "trace", "--seconds", "40", "--scene-seconds", "10", "--out", &trace]);
    let came = json(&["plan", "aria", "--simulate", &trace, "--out", &page]);
    let systems = came["systems"].as_array().expect("systems");
    let rate = |name: &str| {
        let system =
            systems.iter().find(|s| s["system"] == name).unwrap_or_else(|| panic!("no {name}"));
        system["in_time"].as_f64().unwrap_or(0.0) / system["executed"].as_f64().unwrap_or(1.0)
    };
    for order in ["aria", "papers_order", "random_regions"] {
        assert!(rate(order) >= 0.999, "{order}: {}", rate(order));
    }
    assert!(systems.iter().all(|s| s["evidence"] == "simulation"));
    let text = std::fs::read_to_string(Path::new(&page).join("report.md")).expect("the page");
    for figure in ["7", "12", "15", "16", "17", "18", "19"] {
        assert!(text.contains(&format!("(figure {figure})")), "figure {figure}");
    }
    assert!(
        text.contains("Depth RMSE, m")
            && text.contains("1.64 standard deviations")
            && text.contains("When heat and power are other than estimated")
    );
    assert!(Path::new(&page).join("temperature.svg").is_file());
    let broken = folder.path("broken.csv");
    std::fs::write(&broken, "frame\n1\n").expect("a file");
    assert!(refused(&["plan", "aria", "--simulate", &broken]).contains("grid_rows"));
    let header = std::fs::read_to_string(&trace).expect("a trace");
    let fast = folder.path("fast.csv");
    std::fs::write(&fast, header.replacen("frames_per_s=30", "frames_per_s=60", 1))
        .expect("a file");
    let simulated = json(&["plan", "aria", "--simulate", &fast]);
    let frame_ns = simulated["plan"]["requirements"]["frame_ns"].as_f64().expect("a time");
    assert!((frame_ns - 1e9 / 60.0).abs() < 1.0, "planned for the trace's rate: {frame_ns}");
}

#[test]
fn costs_and_devices_without_meaning_are_named_with_their_file() {
    let folder = Folder::new();
    let trace = folder.path("walk.csv");
    ok(&["plan", "trace", "--seconds", "2", "--scene-seconds", "2", "--out", &trace]);
    let simulated = json(&["plan", "aria", "--simulate", &trace]);
    let changed = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut all = simulated.clone();
        change(&mut all);
        folder.file(name, all.to_string())
    };
    let costs = changed("costs.json", &|all| all["costs"]["regions"][0]["rows"] = 0.into());
    let error = refused(&["plan", "aria", "--costs", &costs]);
    assert!(error.contains("costs.json: a region's number of rows is 0"), "{error}");
    let cold = |all: &mut serde_json::Value| {
        all["device"]["thermal"]["junction_j_per_k"] = 0.into();
    };
    let device = changed("device.json", &cold);
    let error = refused(&["plan", "aria", "--simulate", &trace, "--device", &device]);
    assert!(
        error.contains("device.json: ") && error.contains("`junction_j_per_k` is 0"),
        "{error}"
    );
}

/// clap skips `requires` where the required option conflicts with a given one.
#[test]
fn options_of_aria_that_have_no_effect_are_refused() {
    let (folder, encoder) = (Folder::new(), shipped("vit_tiny_patch16_224"));
    let bundle = null_bundle(&folder);
    let costs = ["plan", "aria", "--costs", "costs.json"];
    let simulate = ["plan", "aria", "--simulate", "walk.csv"];
    let models = ["plan", "aria", "--encoder", &encoder, "--gpu", &bundle, "--npu", &bundle];
    let live = [&models[..], &["--live", "gpu=null", "--live", "npu=null"]].concat();
    for option in [
        ["--level", "240x320"],
        ["--region", "160x160"],
        ["--patch", "16"],
        ["--frame-step", "1ms"],
        ["--patch-flow", "1ms"],
        ["--rest", "1ms"],
        ["--dim", "batch=1"],
    ] {
        let error = refused(&[&costs[..], &option].concat());
        assert!(error.contains("--costs") && error.contains(option[0]), "{error}");
        let error = refused(&[&simulate[..], &option].concat());
        assert!(error.contains("--encoder"), "{error}");
    }
    for option in [
        ["--camera", "30"],
        ["--spread", "0.1"],
        ["--frames", "3"],
        ["--throttle", "2"],
        ["--flow", "depth"],
        ["--record", "frames.csv"],
    ] {
        let error = refused(&[&simulate[..], &option].concat());
        assert!(error.contains("--simulate") && error.contains(option[0]), "{error}");
    }
    for option in [["--seed", "1"], ["--out", "page"], ["--device", "device.json"]] {
        let error = refused(&[&live[..], &option].concat());
        assert!(error.contains("--live") && error.contains(option[0]), "{error}");
    }
    let wide = [&live[..], &["--level", "240x320", "--region", "160x160"]].concat();
    let slow = [&wide[..], &["--target", "10s", "--throttle", "0.5"]].concat();
    assert!(refused(&slow).contains("--throttle"));
    for (engine, says) in [("gpu=null", "two engines"), ("tpu=null", "`tpu` is no processor")] {
        let error = refused(&[&wide[..], &["--target", "10s", "--live", engine]].concat());
        assert!(error.contains(says) && error.contains("--live gpu="), "{error}");
    }
    let large = ["--level", "240x320", "--region", "160x160", "--region", "320x320"];
    let error = refused(&[&models[..], &large].concat());
    assert!(error.contains("320x320 is larger") && error.contains("--region"), "{error}");
}

#[test]
fn placements_from_costs_keep_what_the_costs_say() {
    let folder = Folder::new();
    let costs = |together: &str| {
        let text = format!(
            r#"{{"model": "m",
            "processors": [{{"name": "phone", "active_w": 1.0}}, {{"name": "server"}}],
            "links": [{{"from": "phone", "to": "server", "link": {{"bandwidth_bytes_per_s": 1000}}}}],
            "nodes": [{{"name": "enc", "latency_ns": {{"phone": 100000000, "server": 1000000}}}},
            {{"name": "d1", "latency_ns": {{"phone": 1000000}}}},
            {{"name": "d2", "latency_ns": {{"phone": 50000000}}}}],
            "tensors": [{{"name": "image", "size_bytes": 1000000, "consumers": ["enc"]}},
            {{"name": "f", "size_bytes": 100, "producer": "enc", "consumers": ["d1", "d2"]}},
            {{"name": "o1", "size_bytes": 1, "producer": "d1", "output": true}},
            {{"name": "o2", "size_bytes": 1, "producer": "d2", "output": true}}],
            "together": [{together}]}}"#
        );
        folder.file("costs.json", text)
    };
    let file = costs("");
    let args = ["plan", "multitask", "--costs", &file];
    let frame = ["--frame-energy", "nexus6", "--off-device", "server"];
    let found = json(&[&args[..], &frame].concat());
    let placements = found["placements"].as_array().expect("placements");
    // No link leads back from the server, so that all runs on the phone: 151 ms at 1 W.
    assert!(placements.iter().all(|placed| placed["encoder"] == "phone"), "{found}");
    let joules = placements[0]["frame"]["parts"]["inference_j"].as_f64().expect("energy");
    assert!((joules - 0.151).abs() < 1e-9, "{joules}");
    let file = costs(r#"["enc", "d1"]"#);
    let apart = refused(&["plan", "multitask", "--costs", &file]);
    assert!(apart.contains("node `enc`: it stays together with `d1`"), "{apart}");
}

//! The program `vitempo-studies`: papers recomputed, adaptation evaluated on samples of published
//! latencies, and the commands of `studies/README.md`. The test of whole published tables is
//! ignored: it runs with
//! `VITEMPO_PUBLISHED=FOLDER cargo test -p vitempo-studies --test studies -- --ignored`.

use serde_json::{Value, json as object};
use std::{
    path::Path,
    process::{Command, Output},
};
use vitempo::{
    graph::{self, GraphBuilder, TensorSpec},
    predictors,
    profiler::{pinning, reference},
};
use vitempo_studies::contention::score::attends;

#[path = "../../tests/contended/mod.rs"]
mod contended;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn studies(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vitempo-studies"))
        .args(args)
        .current_dir(root())
        .output()
        .unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is printed; the command must succeed.
fn ok(args: &[&str]) -> String {
    let output = studies(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What is said when a command is refused.
fn refused(args: &[&str]) -> String {
    let output = studies(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn json(args: &[&str]) -> Value {
    let printed = ok(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{args:?}: {e}: {printed}"))
}

#[test]
fn placements_run_and_a_record_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record.json").display().to_string();
    const MODEL: &str = "tests/models/mobilevit_xxs.onnx";
    const OTHER: &str = "tests/models/edgenext_xx_small.onnx";
    let engines = ["--engine", "a=rten,epyc-rten-f32-1t", "--engine", "b=rten,epyc-litert-f32-1t"];
    let rest = ["--parts", "2", "--frames", "2", "--record", &record, "--format", "json"];
    let small = [&["placements", MODEL, OTHER], &engines[..], &rest[..]].concat();
    let output = studies(&small);
    if text(&output.stderr).contains("finds no core") {
        eprintln!("skipped: {}", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let scores = found["scores"].as_array().expect("scores");
    assert_eq!(scores.len(), 2 * 2 * 2, "latency and period, with hand-over and without: {found}");
    for score in scores {
        let regret = score["regret"].as_array().expect("regrets");
        assert!(regret.iter().all(|of| of.as_f64().is_some_and(|of| of >= 0.0)), "{score}");
    }
    let kept: Value =
        serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
    for model in [0, 1] {
        let division = &kept["models"][model]["divisions"][0];
        let placements = division["placements"].as_array().expect("them");
        assert_eq!(placements.len(), 4, "two parts on two engines");
        for placement in placements {
            assert!(placement["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{placement}");
            assert_eq!(placement["latency_ns"].as_array().map(Vec::len), Some(2), "{placement}");
        }
    }

    let again = studies(&small);
    assert!(!text(&again.stderr).contains("mobilevit_xxs in"), "they are measured once");
    assert_eq!(again.stdout, output.stdout);
    assert_eq!(
        ok(&["placements", "--record", &record, "--format", "json"]).as_bytes(),
        output.stdout
    );
    assert!(ok(&["placements", "--record", &record]).contains("2 models in 2"));
    let other = [&small[..], &["--rounds", "3"]].concat();
    assert!(refused(&other).contains("its rounds differ"));
    let one = refused(&["placements", MODEL, "--record", &record]);
    assert!(one.contains("two engines"), "{one}");
}

/// Two tasks of one small model with made-up costs on two engines.
fn two_tasks(folder: &Path) -> (String, String) {
    let model = root().join("datasets/stitching/stripes.onnx");
    std::fs::copy(model, folder.join("m.onnx")).expect("a model");
    let task = |name: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\n[[task.variant]]\nname = \"dense\"\nmodel = \"m.onnx\"\n\
            accuracy = 90.0\n"
        )
    };
    let tasks = folder.join("tasks.toml");
    std::fs::write(&tasks, format!("positions = 2\n{}{}", task("one"), task("two")))
        .expect("a file");
    let exact = |ms: u64| object!({"point": ms * 1_000_000, "lower": ms * 1_000_000, "upper": ms * 1_000_000});
    let subgraph = object!([{"latency_ns": [exact(6), exact(9)], "memory_bytes": 100_000, "boundary_bytes": 0}]);
    let task = |name: &str| {
        object!({
            "name": name, "variants": ["dense"], "accuracy_how": "made up", "measured": 1,
            "accuracies_bp": [9000], "asked": [9000, 50_000_000],
            "subgraphs": [subgraph.clone(), subgraph.clone()],
        })
    };
    let costs = object!({
        "processors": [["a", "rten"], ["b", "rten"]],
        "orders": [[0, 1]],
        "tasks": [task("one"), task("two")],
        "accuracy_is": null,
        "rehearsal": {"tried": [], "orders": []},
    });
    let path = folder.join("costs.json");
    std::fs::write(&path, costs.to_string()).expect("a file");
    (tasks.display().to_string(), path.display().to_string())
}

#[test]
fn all_systems_run_and_a_record_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tasks, costs) = two_tasks(folder.path());
    let record = folder.path().join("record.json").display().to_string();
    let of = ["--counts", "2", "--saturation", "3", "--evaluations", "200", "--record", &record];
    let json = ["--format", "json"];
    let all = [&["systems", "--tasks", &tasks, "--costs", &costs], &of[..], &json[..]].concat();
    let output = studies(&all);
    if text(&output.stderr).contains("finds no core") {
        eprintln!("skipped: {}", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = found["scores"][0]["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["system"].as_str()).collect();
    let seven = ["SV-AO-P", "SV-AO-NP", "SV-LO-P", "SV-LO-NP", "AV-P", "AV-NP", "SparseLoom"];
    assert!(seven.iter().all(|system| names.contains(system)), "{names:?}");
    assert!(names.contains(&"planned together, fewest violations"), "{names:?}");
    for row in rows {
        assert!(row["live_per_s"].as_f64() > Some(0.0), "{row}");
        assert!((0.0..=1.0).contains(&row["live"].as_f64().expect("a share")), "{row}");
    }
    assert!(found["scores"][0]["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{found}");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
    for plan in kept["studies"][0]["plans"].as_array().expect("plans") {
        let queries = plan["at_once"].as_array().expect("queries");
        assert_eq!(queries.len(), 2 * 2 * 2, "two tasks in two orders, twice: {plan}");
        assert_eq!(plan["waiting"], 6, "{plan}");
    }
    let again = studies(&all);
    assert!(!text(&again.stderr).contains("plan 1 of"), "plans run once");
    assert_eq!(again.stdout, output.stdout);
    assert_eq!(
        ok(&[&["systems", "--record", &record], &json[..]].concat()).as_bytes(),
        output.stdout
    );
    let other = [&all[..], &["--rounds", "3"]].concat();
    assert!(refused(&other).contains("measured by another protocol"));
    let three =
        [&["systems", "--tasks", &tasks, "--costs", &costs, "--counts", "3"], &of[2..]].concat();
    assert!(refused(&three).contains("the zoo has 2"));
}

#[test]
fn budgets_are_measured_and_a_record_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tasks, costs) = two_tasks(folder.path());
    let record = folder.path().join("record.json").display().to_string();
    let base = ["preloading", "--tasks", &tasks, "--costs", &costs, "--record", &record];
    let short = ["--period", "10ms", "--queries", "1", "--evaluations", "50", "--format", "json"];
    let few = [&base[..], &short, &["--budgets", "30,100"]].concat();
    let output = studies(&few);
    if text(&output.stderr).contains("finds no core") {
        eprintln!("skipped: {}", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["configurations"], 25);
    let runs = found["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2 * 2, "two budgets, two ways to make room");
    let full = found["full_bytes"].as_u64().expect("bytes");
    for run in runs {
        let measured = &run["measured"];
        if measured.is_null() {
            assert!(run["share"].as_f64() < Some(1.0), "everything fits: {run}");
            continue;
        }
        assert_eq!(measured["queries"], 2 * 25, "{run}");
        let budget = run["budget_bytes"].as_u64().expect("a budget");
        assert!(measured["loaded_bytes"].as_u64() <= Some(budget) && budget <= full, "{run}");
        if run["share"] == 1.0 {
            assert_eq!((&measured["evictions"], &measured["loads"]), (&0.into(), &0.into()));
        }
        let resident = measured["resident"].as_array().expect("processes");
        assert_eq!(resident.is_empty(), !cfg!(target_os = "linux"), "{run}");
        for own in resident {
            assert!(own["resident_bytes"].as_u64() > Some(1_000_000), "{own}");
        }
        assert!(measured["apart"].as_f64().is_some_and(|apart| apart < 1e-4), "{run}");
    }
    let again = studies(&few);
    assert!(!text(&again.stderr).contains(" bytes of "), "budgets run once");
    assert_eq!(again.stdout, output.stdout);
    let printed = ok(&["preloading", "--record", &record]);
    assert!(printed.contains("25 configurations, 1 queries of each task"), "{printed}");
    let other = ["--period", "10ms", "--queries", "2", "--evaluations", "50"];
    let other = [&base[..], &other].concat();
    assert!(refused(&other).contains("its queries differ"));
    assert!(refused(&[&base[..], &["--budgets", "0"]].concat()).contains("--budgets"));
}

#[test]
fn pairs_of_models_run_and_their_record_is_continued() {
    let [one, other, ..] = pinning::usable()[..] else {
        eprintln!("skipped: one core");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("pairs.json").display().to_string();
    let bundle = contended::bundle(root(), folder.path()).display().to_string();
    let models = ["tests/models/mobilevit_xxs.onnx", "tests/models/edgenext_xx_small.onnx"];
    let engine = |core: usize| format!("rten@{core},{bundle}");
    let (first, second) = (engine(one), engine(other));
    let engines = ["--engine", &first, "--engine", &second, "--record", &record];
    let base = [&["contention"], &models[..], &engines].concat();
    let all = |more: &[&'static str]| [&base[..], more].concat();
    let short = ["--window", "20ms", "--format", "json"];
    let output = studies(&all(&short));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let scores = found["scores"].as_array().expect("scores");
    assert_eq!(scores.len(), 2 * 4, "both of four pairs");
    for score in scores {
        assert!(score["measured"].as_f64().is_some_and(|factor| factor > 0.0), "{score}");
        assert!(score["forecast"]["point"].as_f64().is_some_and(|f| f >= 1.0), "{score}");
    }
    assert_eq!(found["all"]["pairs"], 8);
    assert_eq!(found["stream"].as_array().map(Vec::len), Some(0), "both models attend");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
    let streams = kept["streams"].as_array().expect("streams");
    assert_eq!(streams.len(), 4, "two models on two engines");
    assert!(streams.iter().all(|row| row["stream_bytes_per_s"].as_u64() > Some(0)), "{streams:?}");

    let again = studies(&all(&short));
    assert!(!text(&again.stderr).contains(" beside "), "it is measured once");
    assert_eq!(again.stdout, output.stdout);
    let table = ok(&all(&["--window", "20ms"]));
    assert!(table.contains("x that of no contention"), "{table}");
    assert!(ok(&all(&["--window", "20ms", "--each"])).contains("edgenext_xx_small"));
    assert!(refused(&all(&["--window", "30ms"])).contains("its windows differ"));
    let elsewhere = folder.path().join("other.json").display().to_string();
    let same = ["--engine", &first, "--engine", &first, "--record", &elsewhere];
    let same = refused(&[&["contention"], &models[..], &same].concat());
    assert!(same.contains("both engines are on core"), "{same}");
}

#[test]
fn models_with_attention_are_told_from_others() {
    let graph = reference::graph().expect("a graph");
    assert!(attends(&graph), "it has transformer blocks");
    let mut convolutions = GraphBuilder::new("convolutions");
    let x = convolutions.input("x", TensorSpec::f32([1, 3, 8, 8]));
    let x = convolutions.conv("conv", x, 8, 3, 1, 1, 1, true).expect("a layer");
    assert!(!attends(&convolutions.finish(vec![x]).expect("a graph")));
}

#[test]
fn tables_are_recomputed_and_contradictions_marked() {
    let all = json(&["paper", "ar-energy-study"]);
    let tables = all["tables"].as_array().expect("tables");
    let names: Vec<&str> = tables.iter().filter_map(|table| table["name"].as_str()).collect();
    let numbers = ["I", "II", "III", "V", "VI", "VII", "VIII"];
    assert_eq!(names, numbers.map(|number| format!("table {number}")));
    let models = all["models"].as_array().expect("models");
    let basis = |of: &str| models.iter().filter(|row| row["basis"] == of).count();
    assert!(basis("fitted") > 20 && basis("predicted") > 40, "{models:?}");
    let observations = all["observations"].as_array().expect("observations");
    let contradicted = observations.iter().filter(|o| o["holds"] == false).count();
    assert!(observations.len() > 20 && contradicted <= 3, "{observations:?}");
    let whole = ok(&["paper", "ar-energy-study"]);
    assert!(whole.contains("(as printed)") && whole.contains("figures are predicted: mean error"));
    let text = ok(&["paper", "ar-energy-study", "--table", "vi"]);
    assert!(text.contains("*43.4") && text.contains("43.345, but 43.4 is printed"), "{text}");
    assert!(!ok(&["paper", "ar-energy-study", "--table", "V"]).contains("is printed"));
    let unknown = refused(&["paper", "ar-energy-study", "--table", "IV"]);
    assert!(unknown.contains("hint: it has I, II, III, V, VI, VII, VIII"), "{unknown}");
    let csv = ok(&["paper", "ar-energy-study", "--table", "V", "--format", "csv"]);
    let row = "table V,\"latency reduction, %\",Nexus 6,10.7,\"latency reduction, %, Nexus 6\",";
    assert!(csv.lines().any(|line| line.starts_with(row) && line.ends_with(",true")), "{csv}");
}

#[test]
fn claims_of_papers_without_whole_tables_are_listed() {
    for (paper, holds, all) in [("mtl-thesis", 30, 38), ("model-stitching", 5, 6)] {
        let found = json(&["paper", paper]);
        let claims = found["text"].as_array().expect("claims");
        let kept = claims.iter().filter(|claim| claim["holds"] == true).count();
        assert_eq!((kept, claims.len()), (holds, all), "{paper}");
        let refused = refused(&["paper", paper, "--table", "I"]);
        assert!(refused.contains("no table of this paper is printed whole"), "{refused}");
    }
    let text = ok(&["paper", "mtl-thesis"]);
    assert!(text.contains("38 figures follow from others; 8 contradict them"), "{text}");
    assert!(text.contains("npu-cpu pipelined") && text.contains("simulation"), "{text}");
    assert!(text.contains("encoder on npu, decoders on cpu"), "{text}");
}

/// Evaluates on the samples.
fn evaluate(arguments: &[&str]) -> Output {
    let fixed = ["published", "tests/published/tables", "--seeds", "1"];
    studies(&[&fixed, arguments].concat())
}

#[test]
fn phones_are_forecast_from_ten_models() {
    let output = evaluate(&["--only", "102 CNNs on phones", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |measure: &str| {
        let mut rows = rows.as_array().expect("a list").iter();
        let row = rows.find(|r| r["measure"].as_str().is_some_and(|m| m.contains(measure)));
        row.and_then(|r| r["score"].as_f64()).expect("a number")
    };
    assert!(number("MAPE") < 12.0, "{} %", number("MAPE"));
    assert!((75.0..=100.0).contains(&number("coverage")), "{} %", number("coverage"));
}

#[test]
fn what_cannot_be_evaluated_is_refused() {
    let cases: [(&[&str], &str); 6] = [
        (&["--only", "CNNs on phones", "--samples", "102"], "at most 101"),
        (&["--only", "CNNs on phones", "--unseen", "pixel4,mi9se"], "did you mean `mi8se`?"),
        (&["--only", "CNNs on phones", "--unseen", "pixel4,nonsense"], "`nonsense`"),
        (&["--only", "tablets"], "102 CNNs on phones"),
        (&["--only", "FBNet, all"], "at most 0"),
        (&["--only", "NPU", "--samples", "3"], "nothing to evaluate"),
    ];
    for (arguments, expected) in cases {
        let refused = evaluate(arguments);
        let printed = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {printed}");
        assert!(
            printed.contains(expected) && printed.contains("hint:"),
            "{arguments:?}: {printed}"
        );
    }
}

#[test]
#[ignore = "needs published tables: VITEMPO_PUBLISHED=FOLDER"]
fn all_phones_are_forecast_from_ten_models() {
    let folder = std::env::var("VITEMPO_PUBLISHED").expect("VITEMPO_PUBLISHED=FOLDER");
    let rows = json(&["published", &folder, "--only", "CNNs on phones", "--seeds", "1"]);
    assert!(rows[0]["score"].as_f64().is_some_and(|mape| mape < 10.0), "{rows}");
}

#[test]
fn every_command_of_the_readme_runs() {
    let readme = std::fs::read_to_string(root().join("studies/README.md")).expect("README.md");
    let start = "    cargo run --release -p vitempo-studies -- ";
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix(start)).collect();
    assert!(commands.len() > 3, "only {} commands found", commands.len());
    for command in commands {
        let printed = ok(&command.split_whitespace().collect::<Vec<_>>());
        assert!(!printed.is_empty(), "{command}");
    }
}

#[test]
fn orders_of_measuring_are_replayed_and_a_record_is_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("active.json").display().to_string();
    let replay = [
        "active",
        "datasets/measured/epyc-onnxruntime-f32-1t",
        "--method",
        "lasso",
        "--seeds",
        "1",
        "--budgets",
        "30,60",
        "--record",
        &record,
    ];
    let found = json(&replay)["record"].clone();
    let points = found["points"].as_array().expect("points");
    assert_eq!(points.len(), 3 * 2, "{found}");
    for point in points {
        let (budget, seconds) = (point["budget_s"].as_f64(), point["seconds"].as_f64());
        assert!(seconds >= budget && point["synthetic_mape"].as_f64() > Some(0.0), "{point}");
        let [networks, models] = ["networks", "models"].map(|of| point[of].as_u64().unwrap_or(0));
        assert!(point["order"] != "models" || networks == 0, "{point}");
        assert!(networks + models > 2, "{point}");
    }
    assert_eq!(json(&replay)["record"], found, "a complete record stays as it is");
    let printed = ok(&replay);
    for point in points.iter().filter(|point| point["order"] == "active") {
        let seconds = point["seconds"].as_f64().unwrap_or_default();
        assert!(printed.contains(&format!("| active | {seconds:.1} s |")), "{printed}");
    }
    assert!(printed.contains("| random | 30 s |"), "{printed}");
    let other = [&["active", "datasets/measured/epyc-zen3"], &replay[2..]].concat();
    assert!(refused(&other).contains("--environment"));
    let backwards = [&replay[..7], &["8,4"], &replay[8..]].concat();
    assert!(refused(&backwards).contains("--budgets"));
}

#[test]
fn one_machine_is_no_fleet() {
    let folder = tempfile::tempdir().expect("a folder");
    let [record, bundles] =
        ["fleet.json", "bundles"].map(|name| folder.path().join(name).display().to_string());
    let fleet = ["fleet", "datasets/measured/epyc-onnxruntime-f32-1t"];
    let options = ["--engine", "onnxruntime", "--bundles", &bundles, "--record", &record];
    let said = refused(&[&fleet[..], &options].concat());
    assert!(said.contains("at least two"), "{said}");
}

#[test]
fn generated_rows_say_that_nobody_measured_them_and_train() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = folder.path().join("lake").display().to_string();
    let of = ["generated", "--bundle", "bundles/epyc-rten-f32-1t.vtb", "--out", &lake];
    let few = ["--space", "isotropic-vit", "--rows", "20000"];
    let said = ok(&[&of[..], &few].concat());
    assert!(said.contains("500 models and networks"), "{said}");
    let lake = Path::new(&lake);
    let dataset = vitempo::training::load_environment(lake, None).expect("a lake");
    let rows: usize = dataset.profiles.iter().map(|p| p.operators.len()).sum();
    assert!(rows >= 20_000);
    assert!(dataset.profiles.iter().all(|p| p.origin == graph::Origin::Simulated));
    assert!(dataset.profiles[0].environment.device.starts_with("simulated "));
    let sample = vitempo::training::load_sample(lake, None, 5000, 1).expect("a sample");
    let sampled = sample.sampled.expect("not all of it");
    assert_eq!((sampled.of, sampled.architectures), (500, sample.profiles.len()));
    let split = vitempo::training::default_split(&sample, 1).expect("a split");
    let options = predictors::TrainOptions::default();
    let method = predictors::Method::Lasso;
    let bundle =
        vitempo::training::train(&sample, &split, method, &options, &mut |_| ()).expect("a bundle");
    assert_eq!(bundle.provenance.sampled_of, Some(500));
    let noise = ["--space", "isotropic-vit", "--rows", "1", "--noise", "2"];
    assert!(refused(&[&of[..], &noise].concat()).contains("noise of 2"));
}

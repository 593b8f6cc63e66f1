//! `vitempo campaign`: the same set everywhere, in the documented order, within a budget, going on
//! after `kill -9`; datasets of two machines join.

mod program;

use program::{Folder, command, json, ok, refused, shipped, text, vitempo};
use serde_json::Value;
use std::{path::Path, process::Stdio, time::Duration};
use vitempo::datasets::SCHEMA_VERSION;

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))).expect("small")
}

fn parts(campaign: &Value, engine: usize) -> Vec<Value> {
    campaign["engines"][engine]["parts"].as_array().expect("parts").clone()
}

fn sum(parts: &[Value], field: &str) -> usize {
    parts.iter().map(|part| count(&part[field])).sum()
}

/// Model runs in the journal of a dataset.
fn in_journal(data: &str) -> usize {
    let files = std::fs::read_dir(Path::new(data).join("journal")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.map(|text| text.matches("\"e2e_profiled\"").count()).sum()
}

#[test]
fn a_killed_campaign_goes_on_and_no_row_is_there_twice() {
    let folder = Folder::new();
    let (data, real) = (folder.path("data"), shipped("mobilevit_xxs"));
    let args =
        ["campaign", "--backend", "null", "--scale", "0.02", "--real", &real, "--out", &data];
    let mut campaign = command()
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vitempo starts");
    for _ in 0..1200 {
        if in_journal(&data) >= 10 || campaign.try_wait().expect("its state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    campaign.kill().expect("kill -9");
    campaign.wait().expect("its end");
    assert!(in_journal(&data) > 0, "the campaign had ended before it was killed, or never began");

    let after = json(&args);
    let parts = parts(&after, 0);
    let planned: Vec<(&str, usize, usize)> = parts
        .iter()
        .map(|p| (p["part"].as_str().expect("a name"), count(&p["round"]), count(&p["planned"])))
        .collect();
    assert_eq!(
        planned,
        [
            ("synthetic models", 0, 4),
            ("small models", 0, 1),
            ("operators", 0, 38 + 29 + 1),
            ("real models", 0, 1),
            ("rare operators", 0, 14 + 10),
            ("real models", 1, 1),
            ("small models", 1, 1),
            ("synthetic models", 1, 4),
        ]
    );
    let total = 4 + 1 + 68 + 1 + 24 + 1 + 1 + 4;
    assert_eq!((sum(&parts, "measured"), sum(&parts, "missing")), (total, 0));
    let made = count(&after["engines"][0]["made"]);
    assert!((1..total).contains(&made), "{made} of {total} made after the kill");

    ok(&["dataset", "validate", &data]);
    let inspected = json(&["dataset", "inspect", &data]);
    assert_eq!(
        (count(&inspected["runs"]), &inspected["schema_version"]),
        (total, &SCHEMA_VERSION.into())
    );
    assert_eq!(count(&json(&args)["engines"][0]["made"]), 0, "nothing is measured again");
}

#[test]
fn a_budget_leaves_out_what_comes_last_and_the_dataset_says_so() {
    let folder = Folder::new();
    let data = folder.path("data");
    let args = ["campaign", "--backend", "null", "--scale", "0.3", "--budget", "2s"];
    let campaign = json(&[&args[..], &["--out", &data]].concat());
    let parts = parts(&campaign, 0);
    let missing = sum(&parts, "missing");
    assert!(missing > 0, "{campaign}");
    let begun = parts.iter().rposition(|p| count(&p["measured"]) > 0).expect("a part begun");
    assert!(parts[..begun].iter().all(|p| count(&p["missing"]) == 0), "out of order: {campaign}");
    let inspected = json(&["dataset", "inspect", &data]);
    let environment = inspected["environments"].as_object().expect("environments");
    let (id, environment) = environment.iter().next().expect("one");
    let not_measured = environment["not_measured"].as_object().expect("counts");
    assert_eq!(not_measured.values().map(count).sum::<usize>(), missing);
    let said = ok(&["dataset", "inspect", &data]);
    assert!(said.contains(&format!("not measured in {id}: ")), "{said}");
}

#[test]
fn engines_follow_each_other_and_datasets_of_machines_join() {
    let folder = Folder::new();
    let (one, other, both) = (folder.path("one"), folder.path("other"), folder.path("both"));
    let small = ["campaign", "--scale", "0.001", "--out"];
    let measured = json(&[&small[..], &[&one, "--backend", "null", "--backend", "rten"]].concat());
    let engines = measured["engines"].as_array().expect("engines");
    assert_eq!(engines.len(), 2);
    for engine in 0..2 {
        assert_eq!(sum(&parts(&measured, engine), "missing"), 0, "{measured}");
    }
    if cfg!(target_os = "linux") {
        assert!(count(&engines[1]["host"]["ticks"]) > 0, "{measured}");
        let table = ok(&["dataset", "export", &one, "--table", "environments", "--format", "csv"]);
        assert!(table.contains("host_json") && table.contains("memory_bytes"), "{table}");
    }
    ok(&[&small[..], &[&other, "--backend", "null", "--precision", "bf16"]].concat());
    ok(&["dataset", "merge", &one, &other, "--out", &both]);
    ok(&["dataset", "validate", &both]);
    let joined = json(&["dataset", "inspect", &both]);
    let environments = joined["environments"].as_object().expect("environments");
    assert_eq!(environments.len(), 3, "{joined}");
    let architectures = |e: &Value| count(&e["architectures"]);
    let first = environments.values().next().map(architectures);
    assert!(environments.values().all(|e| Some(architectures(e)) == first), "{joined}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = Folder::new();
    let data = folder.path("data");
    let campaign = |more: &[&str]| refused(&[&["campaign", "--out", &data], more].concat());
    assert!(campaign(&["--backend", "abacus"]).contains("abacus"));
    assert!(campaign(&["--scale", "2"]).contains("--scale"));
    let nowhere = campaign(&["--backend", "null", "--real", &folder.path("nowhere.onnx")]);
    assert!(nowhere.contains("nowhere.onnx"), "{nowhere}");
    let output = vitempo(&["campaign", "--budget", "0s", "--scale", "0.001", "--out", &data]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("--budget"), "{stderr}");
}

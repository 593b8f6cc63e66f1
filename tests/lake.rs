//! Lakes: what is in them is what was put in, whoever else writes, reads or is killed meanwhile; in
//! a folder, and in a bucket of a server of S3.

#[path = "program/bucket.rs"]
mod bucket;
mod program;

use bucket::{BUCKET, Bucket, KEY, SECRET, files_below, lake};
use program::{Folder, json, ok, refused, shipped, text};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread::{scope, sleep},
    time::{Duration, Instant},
};
use vitempo::{
    datasets::{
        Dataset, DatasetError, Filter, Lake, Severity, Store, Tolerances, ValidationReport, merge,
        validate,
    },
    graph::ModelProfile,
    training,
};

const ENGINES: &str = "epyc-engines-20-models";
/// So many of its environments: those with short names, of themselves and of their operators.
const ENVIRONMENTS: usize = 3;

fn measured(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/measured")).join(name)
}

/// The first model runs of the shipped dataset in each of some environments, as another session.
fn runs(session: &str, of_each: usize) -> Dataset {
    let whole = Dataset::load(&measured(ENGINES)).expect("a dataset");
    let has_long_names = |profile: &&ModelProfile| {
        profile.operators.iter().any(|m| String::from(m.op.kind.clone()).contains(':'))
    };
    let mut ids = by_environment(&whole);
    ids.retain(|_, profiles| !profiles.iter().any(has_long_names));
    let mut ids: Vec<String> = ids.into_keys().collect();
    ids.sort_by_key(String::len);
    let mut taken: BTreeMap<String, BTreeSet<String>> =
        ids.into_iter().take(ENVIRONMENTS).map(|id| (id, BTreeSet::new())).collect();
    let mut profiles = whole.profiles;
    profiles.retain(|profile| {
        let taken = taken.get_mut(&profile.environment.id());
        let taken = taken.filter(|taken| taken.len() < of_each);
        taken.is_some_and(|taken| taken.insert(profile.model.architecture.clone()))
    });
    profiles.iter_mut().for_each(|profile| session.clone_into(&mut profile.session));
    let measured: BTreeSet<&str> =
        profiles.iter().map(|profile| profile.model.architecture.as_str()).collect();
    let mut models = whole.models;
    models.retain(|model| measured.contains(model.architecture.as_str()));
    let mut graphs = whole.graphs;
    graphs.retain(|architecture, _| measured.contains(architecture.as_str()));
    Dataset { profiles, models, graphs, ..Dataset::default() }
}

/// The same in a folder.
fn stored(folder: &Folder, session: &str, of_each: usize) -> String {
    let (path, dataset) = (folder.path(session), runs(session, of_each));
    let mut store = Store::open_or_create(Path::new(&path)).expect("a new dataset");
    for model in &dataset.models {
        store.append_model(model, &dataset.graphs[&model.architecture]).expect("a model");
    }
    dataset.profiles.iter().try_for_each(|profile| store.append(profile)).expect("model runs");
    store.compact().expect("tables");
    path
}

fn appended(path: &Path, dataset: &Dataset) -> Lake {
    let mut lake = Lake::open_or_create(path).expect("a lake");
    lake.append(dataset).expect("an append");
    lake
}

/// By environment, and there in the order of the dataset.
fn by_environment(dataset: &Dataset) -> BTreeMap<String, Vec<&ModelProfile>> {
    let mut profiles: BTreeMap<String, Vec<&ModelProfile>> = BTreeMap::new();
    for profile in &dataset.profiles {
        profiles.entry(profile.environment.id()).or_default().push(profile);
    }
    profiles
}

fn assert_same(one: &Dataset, other: &Dataset) {
    assert_eq!(by_environment(one), by_environment(other));
    assert_eq!(one.graphs, other.graphs);
    assert_eq!(one.models, other.models);
}

fn errors(report: &ValidationReport) -> Vec<String> {
    report.of(Severity::Error).map(ToString::to_string).collect()
}

#[test]
fn folders_become_lakes_and_folders_again_without_loss() {
    for (name, one_environment) in
        [(ENGINES, false), ("epyc-onnxruntime-f32-1t", true), ("other-spaces", false)]
    {
        let folder = Folder::new();
        let path = |name: &str| PathBuf::from(folder.path(name));
        let shipped = Dataset::load(&measured(name)).expect("a dataset");
        // As this version writes it: older ones have fewer columns.
        merge(&[&measured(name)], &path("before")).expect("a folder");
        appended(&path("lake"), &shipped);
        let of_lake = Dataset::load(&path("lake")).expect("a lake");
        assert_same(&shipped, &of_lake);
        merge(&[&path("lake")], &path("after")).expect("a folder");
        assert_same(&shipped, &Dataset::load(&path("after")).expect("a dataset"));
        if one_environment {
            for file in files_below(&path("before")) {
                let after = path("after").join(file.file_name().expect("a name"));
                assert_eq!(fs::read(&file).ok(), fs::read(&after).ok(), "{}", file.display());
            }
        }
        for id in by_environment(&shipped).keys() {
            let load =
                |of: &Path| Dataset::load_environment(of, |known| known == id).expect("runs");
            assert_same(&load(&measured(name)), &load(&path("lake")));
        }
        let counts = |of: &Path| Dataset::environments(of).expect("environments");
        assert_eq!(counts(&measured(name)), counts(&path("lake")), "{name}");
    }
}

#[test]
fn whatever_takes_a_folder_takes_a_lake() {
    let folder = Folder::new();
    let (data, lake) = (stored(&folder, "monday", 20), folder.path("lake"));
    let said = ok(&["dataset", "append", &data, "--to", &lake]);
    assert!(said.contains("60 model runs") && said.contains("at commit 1"), "{said}");
    let again = ok(&["dataset", "append", &data, "--to", &lake]);
    assert!(
        again.contains(": 0 model runs and 0 models added, 60 model runs were there"),
        "{again}"
    );
    let environment = Dataset::environments(Path::new(&data))
        .expect("environments")
        .into_keys()
        .next()
        .expect("an environment");
    let bundle = |of: &str, name: &str| {
        let bundle = folder.path(name);
        ok(&["train", of, "--environment", &environment, "--method", "lasso", "--out", &bundle]);
        bundle
    };
    let (of_data, of_lake) = (bundle(&data, "data.vtb"), bundle(&lake, "lake.vtb"));
    assert_eq!(fs::read(&of_data).expect("a bundle"), fs::read(&of_lake).expect("a bundle"));
    assert_eq!(
        json(&["evaluate", &of_data, "--on", &data])["e2e"],
        json(&["evaluate", &of_lake, "--on", &lake])["e2e"]
    );
    let inspected = |of: &str| {
        let mut counts = json(&["dataset", "inspect", of]);
        counts
            .as_object_mut()
            .expect("counts")
            .retain(|key, _| !["path", "size_bytes", "written_by"].contains(&key.as_str()));
        counts
    };
    assert_eq!(inspected(&data), inspected(&lake));
    let exported = |of: &str, table: &str| {
        let csv = ok(&["dataset", "export", of, "--table", table]);
        csv.lines().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    for table in ["environments", "operators", "models", "model_measurements"] {
        assert_eq!(exported(&data, table), exported(&lake, table), "{table}");
    }
    assert_eq!(json(&["dataset", "validate", &lake])["valid"], true);
    let split = folder.path("split.json");
    ok(&["dataset", "split", &lake, "--train", "3", "--test", "2", "--out", &split]);
    let refusal =
        refused(&["profile", &shipped("mobilevit_xxs"), "--backend", "null", "--out", &lake]);
    assert!(refusal.contains("lake"), "{refusal}");
}

#[test]
fn training_leaves_out_runs_with_other_inputs() {
    let folder = Folder::new();
    let (path, usual) = (PathBuf::from(folder.path("lake")), runs("monday", 2));
    let mut others = runs("tuesday", 1);
    for profile in &mut others.profiles {
        profile.protocol.input_distribution = "constant(2)".to_owned();
    }
    appended(&path, &usual);
    let lake = appended(&path, &others);
    let environment = lake.environments().into_keys().next().expect("an environment");
    let dataset = training::load_environment(&path, Some(&environment)).expect("runs");
    assert!(dataset.profiles.iter().all(|profile| profile.session == "monday"));
    assert_eq!(dataset.profiles.len(), 2);
    let warning = dataset.warnings.first().expect("a warning").to_string();
    assert_eq!(warning, "other inputs than uniform(-1,1): 1 runs left out");
}

/// Only these files of a lake can be read.
fn leave_only(path: &Path, kept: impl Fn(&str) -> bool) {
    for file in files_below(path) {
        let name = file.strip_prefix(path).expect("a name").to_string_lossy().into_owned();
        if !kept(&name) {
            fs::write(&file, b"not Parquet").expect("a file");
        }
    }
}

#[test]
fn files_of_other_partitions_are_not_read() {
    let folder = Folder::new();
    let (path, dataset) = (PathBuf::from(folder.path("lake")), runs("monday", 2));
    let lake = appended(&path, &dataset);
    let environment = lake.environments().into_keys().next().expect("an environment");
    let own = format!("environment={environment}/");
    let whole = Dataset::load_environment(&path, |id| id == environment).expect("runs");
    leave_only(&path, |name| name.contains(&own) || !name.contains("_measurements/"));
    let alone = Dataset::load_environment(&path, |id| id == environment).expect("runs");
    assert_same(&whole, &alone);
    assert!(Dataset::load(&path).is_err(), "the others cannot be read");
    leave_only(&path, |name| {
        name.starts_with("_commits/") || (name.contains(&own) && name.contains("/kind=conv/"))
    });
    let filter = Filter { environments: vec![environment.clone()], kinds: vec!["conv".to_owned()] };
    let scan = lake.scan("operator_measurements", &filter, Some(&["op_id", "wall_ns"]));
    let tables: Vec<_> = scan.expect("a scan").collect::<Result<_, _>>().expect("rows");
    let convs = whole.profiles.iter().flat_map(|profile| &profile.operators);
    let convs = convs.filter(|m| String::from(m.op.kind.clone()) == "conv").count();
    assert!(convs > 0);
    assert_eq!(tables.iter().map(|table| table.rows).sum::<usize>(), convs);
    assert!(tables.iter().all(|table| table.columns.len() == 2));
    let path = path.display().to_string();
    let (own, kind) = (["--environment", &environment], ["--kind", "conv"]);
    let export = ["dataset", "export", &path, "--table", "operator_measurements"];
    let rows = ok(&[&export[..], &own, &kind].concat());
    assert_eq!(rows.lines().count(), convs + 1);
    let files = ok(&[
        &["dataset", "files", &path, "--format", "csv", "--table", "operator_measurements"][..],
        &own,
        &kind,
    ]
    .concat());
    assert!(files.lines().skip(1).all(|line| line.contains("/kind=conv/")), "{files}");
    let refusal = refused(
        &[
            &["dataset", "export", &measured(ENGINES).display().to_string()],
            &own[..],
            &["--table", "models"],
        ]
        .concat(),
    );
    assert!(refusal.contains("folder with whole tables"), "{refusal}");
    for (table, filter, why) in [
        ("operators", ["--kind", "conv"], "not divided by kind"),
        ("environments", own, "not divided by environment"),
        ("operator_measurements", ["--kind", "nope"], "no kind `nope`"),
    ] {
        let refusal =
            refused(&[&["dataset", "export", &path, "--table", table], &filter[..]].concat());
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn a_commit_that_is_missing_is_named() {
    let folder = Folder::new();
    let path = PathBuf::from(folder.path("lake"));
    let mut lake = Lake::open_or_create(&path).expect("a lake");
    for session in ["one", "two", "three"] {
        lake.append(&runs(session, 1)).expect("a commit");
    }
    let mut commits = files_below(&path.join("_commits"));
    commits.sort();
    let second = path.join("_commits").join(&commits[1]);
    fs::remove_file(&second).expect("a commit less");
    let error = Lake::open(&path).expect_err("a gap").to_string();
    let name = second.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(error.contains(&name) && error.contains("missing"), "{error}");
}

#[test]
fn writers_at_once_lose_nothing_and_readers_see_no_half() {
    const WRITERS: usize = 4;
    const BATCHES: usize = 3;
    let folder = Folder::new();
    let path = PathBuf::from(folder.path("lake"));
    let of_each = runs("any", 2);
    let session = |writer: usize, batch: usize| format!("writer {writer}, batch {batch}");
    let renamed = |session: String| {
        let of =
            |profile: &ModelProfile| ModelProfile { session: session.clone(), ..profile.clone() };
        Dataset {
            profiles: of_each.profiles.iter().map(of).collect(),
            graphs: of_each.graphs.clone(),
            models: of_each.models.clone(),
            ..Dataset::default()
        }
    };
    let writing = AtomicBool::new(true);
    let seen = scope(|threads| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (path, renamed, session) = (&path, &renamed, &session);
                threads.spawn(move || {
                    for batch in 0..BATCHES {
                        appended(path, &renamed(session(writer, batch)));
                        // Everybody measured this one.
                        appended(path, &renamed("the same".to_owned()));
                    }
                })
            })
            .collect();
        let reader = threads.spawn(|| {
            let mut seen = 0;
            while writing.load(Ordering::SeqCst) {
                let Ok(dataset) = Dataset::load(&path) else { continue };
                let mut sessions: BTreeMap<&str, usize> = BTreeMap::new();
                for profile in &dataset.profiles {
                    *sessions.entry(&profile.session).or_default() += 1;
                }
                let whole = of_each.profiles.len();
                assert!(sessions.values().all(|runs| *runs == whole), "{sessions:?}");
                seen += usize::from(sessions.len() > 1);
            }
            seen
        });
        let compacting = threads.spawn(|| {
            while writing.load(Ordering::SeqCst) {
                if let Ok(mut lake) = Lake::open(&path) {
                    lake.compact().expect("a compaction");
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        writing.store(false, Ordering::SeqCst);
        compacting.join().expect("compactions");
        reader.join().expect("a reader")
    });
    assert!(seen > 0, "the reader saw nothing while the writers wrote");
    let dataset = Dataset::load(&path).expect("a lake");
    assert_eq!(dataset.profiles.len(), (WRITERS * BATCHES + 1) * of_each.profiles.len());
    assert_eq!((dataset.graphs, &dataset.models), (of_each.graphs.clone(), &of_each.models));
    let report = validate(&path, &Tolerances::default()).expect("a report");
    assert_eq!(errors(&report), Vec::<String>::new());
    let left = report.findings.iter().filter(|f| f.check == "unfinished-file").count();
    assert_eq!(files_below(&path).len(), left + named(&path) + commits(&path));
}

fn named(path: &Path) -> usize {
    let lake = Lake::open(path).expect("a lake");
    let parts = |table| lake.parts(table, &Filter::default()).expect("files").len();
    vitempo::datasets::table_names().into_iter().map(parts).sum()
}

fn commits(path: &Path) -> usize {
    files_below(&path.join("_commits")).len()
}

#[test]
fn compaction_joins_files_and_changes_no_row() {
    let folder = Folder::new();
    let path = PathBuf::from(folder.path("lake"));
    // More commits than one names all files after.
    for day in 0..35 {
        appended(&path, &runs(&format!("day {day}"), 1));
    }
    let before = Dataset::load(&path).expect("a lake");
    assert_eq!((before.profiles.len(), commits(&path)), (35 * ENVIRONMENTS, 35));
    let mut old = Lake::open(&path).expect("a lake");
    let compacted = Lake::open(&path).expect("a lake").compact().expect("a compaction");
    assert!(compacted.before > 500 && compacted.after < 100, "{compacted:?}");
    assert_eq!(files_below(&path).len(), compacted.after + 36);
    assert_same(&before, &Dataset::load(&path).expect("a lake"));
    let again = Lake::open(&path).expect("a lake").compact().expect("a compaction");
    assert_eq!((again.before, again.after), (compacted.after, compacted.after));
    // Who opened it before finds other files, and appends all the same.
    assert_eq!(old.append(&runs("day 0", 1)).expect("an append").known, ENVIRONMENTS);
    assert_eq!(old.append(&runs("day 36", 1)).expect("an append").runs, ENVIRONMENTS);
    let said = ok(&["dataset", "compact", &path.display().to_string()]);
    assert!(said.contains("files of killed writers removed"), "{said}");
    assert_eq!(errors(&validate(&path, &Tolerances::default()).expect("a report")), [""; 0]);
}

#[test]
fn contradictions_are_refused_and_leave_the_lake_as_it_is() {
    let folder = Folder::new();
    let path = PathBuf::from(folder.path("lake"));
    let mut lake = appended(&path, &runs("monday", 1));
    let mut other = runs("monday", 1);
    other.profiles[2].e2e.wall_ns[0] += 1;
    let error = lake.append(&other).expect_err("a contradiction");
    assert!(matches!(error, DatasetError::Conflict { .. }), "{error}");
    let mut renamed = runs("tuesday", 1);
    renamed.models[0].space = Some("elsewhere".to_owned());
    let error = lake.append(&renamed).expect_err("a contradiction");
    assert!(matches!(error, DatasetError::ModelConflict { .. }), "{error}");
    assert!(error.to_string().contains("and not sampled from `elsewhere`"), "{error}");
    assert_eq!(commits(&path), 1);
    fs::create_dir(path.with_file_name("other")).expect("a folder");
    fs::write(path.with_file_name("other").join("notes.txt"), "").expect("a file");
    let error = Lake::open_or_create(&path.with_file_name("other")).expect_err("other contents");
    assert!(error.to_string().contains("notes.txt"), "{error}");
}

#[test]
fn faults_are_named_by_partition_file_and_row() {
    let folder = Folder::new();
    let path = PathBuf::from(folder.path("lake"));
    let mut poisoned = runs("monday", 2);
    let of_conv = |profile: &ModelProfile| {
        profile.operators.iter().position(|m| String::from(m.op.kind.clone()) == "conv")
    };
    let conv = of_conv(&poisoned.profiles[1]).expect("a convolution");
    poisoned.profiles[1].operators[conv].samples.wall_ns[0] = u64::MAX;
    let environment = poisoned.profiles[1].environment.id();
    appended(&path, &poisoned);
    appended(&path, &runs("tuesday", 1));
    let report = validate(&path, &Tolerances::default()).expect("a report");
    let own = format!("operator_measurements/environment={environment}/kind=conv/");
    let found = report.of(Severity::Error).collect::<Vec<_>>();
    assert!(!found.is_empty() && found.iter().all(|f| f.file.starts_with(&own)), "{found:?}");
    let row = found[0].row.expect("a row");
    let rows = Lake::open(&path).expect("a lake").scan(
        "operator_measurements",
        &Filter { environments: vec![environment], kinds: vec!["conv".to_owned()] },
        Some(&["wall_ns"]),
    );
    let first = rows.expect("a scan").next().expect("a file").expect("rows");
    let vitempo::datasets::ColumnRows::IntegerLists { ends, values } = &first.columns[0].1 else {
        panic!("{:?}", first.columns)
    };
    let start = row.checked_sub(1).map_or(0, |before| ends[before]);
    assert_eq!(values[start], u64::MAX);
    // A changed byte, a file that is gone, one that nobody named.
    let part = files_below(&path.join("model_measurements")).pop().expect("a file");
    let mut bytes = fs::read(&part).expect("bytes");
    bytes[40] ^= 1;
    fs::write(&part, bytes).expect("a file");
    let error = Dataset::load(&path).expect_err("damage").to_string();
    assert!(error.contains(&part.display().to_string()) && error.contains("damaged"), "{error}");
    let gone = files_below(&path.join("models")).pop().expect("a file");
    fs::remove_file(&gone).expect("no file");
    fs::write(path.join("models/left.parquet"), b"half").expect("a file");
    let report = validate(&path, &Tolerances::default()).expect("a report");
    let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    for part in [part, gone] {
        assert!(texts.iter().any(|text| text.contains(&part.display().to_string())), "{texts:#?}");
    }
    assert!(
        texts.iter().any(|text| text.starts_with("models/left.parquet: no commit")),
        "{texts:#?}"
    );
    // Commits name no files elsewhere.
    let commit = files_below(&path.join("_commits")).remove(0);
    let json = fs::read_to_string(&commit).expect("JSON");
    fs::write(&commit, json.replacen("\"operators/", "\"../operators/", 1)).expect("a file");
    let error = Dataset::load(&path).expect_err("a stray file").to_string();
    assert!(error.contains("is not a file of `operators`"), "{error}");
    fs::write(&commit, &json[..json.len() / 2]).expect("a file");
    let error = Dataset::load(&path).expect_err("half a commit").to_string();
    assert!(error.contains(&commit.display().to_string()), "{error}");
}

/// What a run on a bucket printed; no secret is in it.
fn on(bucket: &Bucket, args: &[&str]) -> Output {
    let output = bucket.command(args).output().expect("vitempo starts");
    assert_no_secret(&output);
    output
}

fn assert_no_secret(output: &Output) {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!said.contains(SECRET) && !said.contains(KEY), "{said}");
}

fn done(bucket: &Bucket, args: &[&str]) -> String {
    let output = on(bucket, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn failed(bucket: &Bucket, args: &[&str]) -> String {
    let output = on(bucket, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

fn inspected(bucket: &Bucket, lake: &str) -> serde_json::Value {
    let counts = done(bucket, &["dataset", "inspect", lake, "--format", "json"]);
    serde_json::from_str(&counts).expect("JSON")
}

#[test]
fn a_bucket_holds_a_lake_and_serves_the_files_that_are_asked_for() {
    let (bucket, folder) = (Bucket::start(), Folder::new());
    let (data, there) = (stored(&folder, "monday", 20), lake("b c"));
    let error = failed(&bucket, &["dataset", "inspect", &there]);
    assert!(error.contains("no lake is there"), "{error}");
    done(&bucket, &["dataset", "append", &data, "--to", &there]);
    assert_eq!(inspected(&bucket, &there)["runs"], 20 * ENVIRONMENTS);
    // The same bytes as in a folder.
    appended(Path::new(&folder.path("local")), &Dataset::load(Path::new(&data)).expect("data"));
    let local = PathBuf::from(folder.path("local"));
    for file in files_below(&local) {
        let name = file.strip_prefix(&local).expect("a name");
        if name.starts_with("_commits") {
            continue; // each has the mark of its writer
        }
        let stored = bucket.folder("b c").join(name);
        assert_eq!(fs::read(&file).ok(), fs::read(&stored).ok(), "{}", stored.display());
    }
    let environment = Dataset::environments(&local).expect("environments");
    let environment = environment.into_keys().next_back().expect("an environment");
    bucket.requests("GET");
    let out = folder.path("s3.vtb");
    done(
        &bucket,
        &["train", &there, "--environment", &environment, "--method", "lasso", "--out", &out],
    );
    let read = bucket.requests("GET");
    let of_runs = |path: &&String| path.contains("_measurements/environment");
    let others = read.iter().filter(of_runs).filter(|path| !path.contains(&environment));
    let keys: Vec<&String> = others.filter(|path| path.contains("operator_measurements")).collect();
    assert!(read.iter().any(|path| path.contains(&environment)) && keys.is_empty(), "{keys:?}");
    assert!(done(&bucket, &["dataset", "validate", &there]).contains("0 errors"));
    let back = folder.path("back");
    done(&bucket, &["dataset", "merge", &there, "--out", &back]);
    let (data, back) = (PathBuf::from(data), PathBuf::from(back));
    assert_same(&Dataset::load(&data).expect("data"), &Dataset::load(&back).expect("data"));
    for (address, says) in [
        ("s3://", "a bucket is missing"),
        ("s3://user:word@lab/x", "credentials belong into the environment"),
        ("s3://nowhere/x", "nowhere"),
    ] {
        let error = failed(&bucket, &["dataset", "inspect", address]);
        assert!(error.contains(says) && !error.contains("word@"), "{error}");
    }
}

fn start(bucket: &Bucket, data: &str, to: &str) -> Child {
    let mut command = bucket.command(&["dataset", "append", data, "--to", to]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("vitempo starts")
}

#[test]
fn writers_of_a_bucket_lose_nothing_to_each_other() {
    let (bucket, folder) = (Bucket::start(), Folder::new());
    let there = lake("fleet");
    let sessions = ["monday", "tuesday", "wednesday", "thursday"];
    let data: Vec<String> = sessions.iter().map(|session| stored(&folder, session, 2)).collect();
    // Each dataset by two writers: they count once.
    let writers: Vec<Child> =
        data.iter().chain(&data).map(|data| start(&bucket, data, &there)).collect();
    let outputs: Vec<Output> =
        writers.into_iter().map(|writer| writer.wait_with_output().expect("an end")).collect();
    for output in &outputs {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_no_secret(output);
    }
    let added = outputs.iter().filter(|output| text(&output.stdout).contains(": 6 model runs"));
    assert_eq!(added.count(), sessions.len());
    assert_eq!(inspected(&bucket, &there)["runs"], 8 * ENVIRONMENTS);
    done(&bucket, &["dataset", "compact", &there]);
    assert_eq!(inspected(&bucket, &there)["runs"], 8 * ENVIRONMENTS);
    assert!(done(&bucket, &["dataset", "validate", &there]).contains("0 errors"));
}

#[test]
fn a_writer_that_is_killed_leaves_the_lake_as_it_was() {
    let (bucket, folder) = (Bucket::start(), Folder::new());
    let there = lake("fleet");
    done(&bucket, &["dataset", "append", &stored(&folder, "monday", 2), "--to", &there]);
    let tuesday = stored(&folder, "tuesday", 2);
    let files = files_below(&bucket.folder("fleet")).len();
    bucket.hold_writes_after(7);
    let mut writer = start(&bucket, &tuesday, &there);
    let begun = Instant::now();
    while !bucket.holds_a_write() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the writer wrote nothing");
        sleep(Duration::from_millis(5));
    }
    writer.kill().expect("a killed writer");
    writer.wait().expect("an end");
    assert!(files_below(&bucket.folder("fleet")).len() >= files + 7);
    assert_eq!(inspected(&bucket, &there)["runs"], 2 * ENVIRONMENTS);
    bucket.release_writes();
    let report = done(&bucket, &["dataset", "validate", &there]);
    assert!(report.contains("no commit names it") && report.contains("0 errors"), "{report}");
    // The next writer goes on where it stopped.
    done(&bucket, &["dataset", "append", &tuesday, "--to", &there]);
    assert_eq!(inspected(&bucket, &there)["runs"], 4 * ENVIRONMENTS);
    let report = done(&bucket, &["dataset", "validate", &there]);
    assert!(!report.contains("no commit names it"), "{report}");
}

#[test]
fn a_bucket_that_refuses_writes_or_credentials_is_named_and_no_secret_is_said() {
    let (bucket, folder) = (Bucket::start(), Folder::new());
    let there = lake("fleet");
    let data = stored(&folder, "monday", 1);
    bucket.refuse_writes(true);
    let error = failed(&bucket, &["dataset", "append", &data, "--to", &there]);
    assert!(error.contains(&format!("cannot write s3://{BUCKET}/fleet/")), "{error}");
    assert!(error.contains("AccessDenied") && error.contains("***"), "{error}");
    bucket.refuse_writes(false);
    done(&bucket, &["dataset", "append", &data, "--to", &there]);
    bucket.refuse_writes(true);
    failed(&bucket, &["dataset", "append", &stored(&folder, "tuesday", 1), "--to", &there]);
    assert_eq!(inspected(&bucket, &there)["runs"], ENVIRONMENTS);
    let mut command = bucket.command(&["dataset", "inspect", &there]);
    bucket.set_environment(&mut command, "another-secret");
    let output = command.output().expect("vitempo starts");
    assert_no_secret(&output);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(!error.contains("another-secret") && error.contains("cannot list"), "{error}");
}

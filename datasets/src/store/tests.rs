//! Round trips, kills and full disks.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::column::Column;
use crate::simulated::{
    append_all, environment, failed, graph, of_memory_alone, profile, stored, sweep,
};
use crate::tables::operator_measurements;
use crate::{Lake, Sampled};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{LoadRecord, Protocol, ResourceRates, Setting, Status};

#[test]
fn a_peak_memory_of_0_is_read_as_null() {
    let folder = tempfile::tempdir().unwrap();
    let (mut profiles, graphs) = sweep(2, 6, 5);
    profiles.iter_mut().for_each(|p| p.peak_memory_bytes = Some(0));
    profiles[1].peak_memory_bytes = Some(1 << 20);
    append_all(&mut Store::open_or_create(folder.path()).unwrap(), &profiles, &graphs);
    let peaks = || {
        let read = Dataset::load(folder.path()).unwrap();
        read.profiles.iter().map(|p| p.peak_memory_bytes).collect::<Vec<_>>()
    };
    let expected = vec![None, Some(1 << 20), None, None];
    assert_eq!(peaks(), expected, "of the journal");
    let mut table = tables_of(folder.path(), &Dataset::load(folder.path()).unwrap())
        .unwrap()
        .into_iter()
        .find(|t| t.schema.name == "model_measurements")
        .unwrap();
    Store::open_or_create(folder.path()).unwrap().compact().unwrap();
    let column = table.schema.position("peak_memory_bytes").unwrap();
    table.columns[column] = Column::OptionalInteger(vec![Some(0), Some(1 << 20), Some(0), Some(0)]);
    parquet::write(&table).unwrap();
    assert_eq!(peaks(), expected, "of the table");
}

#[test]
fn what_goes_in_comes_out_before_and_after_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = sweep(12, 7, 4);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    assert!(Dataset::load(folder.path()).unwrap().profiles.is_empty());
    append_all(&mut store, &profiles[..15], &graphs);
    let check = |expected: &[ModelProfile]| {
        let dataset = Dataset::load(folder.path()).unwrap();
        assert_eq!(dataset.profiles, expected);
        assert_eq!(dataset.graphs, graphs);
        assert_eq!(dataset.warnings, []);
    };
    check(&profiles[..15]);
    assert_eq!(store.compact().unwrap().segments, 1);
    check(&profiles[..15]);
    append_all(&mut store, &profiles[15..], &graphs);
    check(&profiles);
    store.compact().unwrap();
    check(&profiles);
    assert_eq!(store.compact().unwrap().segments, 0);
}

#[test]
fn equal_datasets_have_equal_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stored(one.path(), 5);
    stored(two.path(), 5);
    for table in TABLES {
        assert_eq!(
            fs::read(one.path().join(table.file_name())).unwrap(),
            fs::read(two.path().join(table.file_name())).unwrap(),
            "{}",
            table.name
        );
    }
}

#[test]
fn a_sweep_resumes_after_a_kill_having_lost_one_visit() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = sweep(4, 5, 3);
    let id = environment().id();
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &profiles[..3], &graphs);
    drop(store);
    let sought = sought(&id, &profiles[1].protocol);
    let segment = folder.path().join("journal/000001.jsonl");
    let whole = fs::read(&segment).unwrap();
    for torn in [1, 2, 40, 900] {
        fs::write(&segment, &whole[..whole.len() - torn]).unwrap();
        let mut store = Store::open_or_create(folder.path()).unwrap();
        assert!(
            matches!(store.warnings(), [Warning::TornLine { line: 6, .. }]),
            "{torn}: {:?}",
            store.warnings()
        );
        assert!(
            store.done(&profiles[1].model, &sought) && !store.done(&profiles[2].model, &sought)
        );
        append_all(&mut store, &profiles[2..5], &graphs);
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles[..5]);
        let compaction = store.compact().unwrap();
        assert_eq!((compaction.runs, compaction.segments, compaction.warnings.len()), (5, 2, 1));
        drop(store);
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles[..5]);
        for table in TABLES {
            fs::remove_file(folder.path().join(table.file_name())).unwrap();
        }
        write_tables(folder.path(), &Dataset::default()).unwrap();
    }
}

#[test]
fn a_compaction_cut_short_anywhere_loses_and_doubles_nothing() {
    let (profiles, graphs) = sweep(6, 5, 3);
    for files_written in 0..=TABLES.len() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open_or_create(folder.path()).unwrap();
        append_all(&mut store, &profiles[..4], &graphs);
        store.compact().unwrap();
        append_all(&mut store, &profiles[4..], &graphs);
        drop(store);
        let dataset = Dataset::load(folder.path()).unwrap();
        for table in &tables_of(folder.path(), &dataset).unwrap()[..files_written] {
            parquet::write(table).unwrap();
        }
        fs::write(folder.path().join("models.parquet.unfinished"), b"PAR1").unwrap();
        assert_eq!(
            Dataset::load(folder.path()).unwrap().profiles,
            profiles,
            "{files_written} tables"
        );
        let mut store = Store::open_or_create(folder.path()).unwrap();
        store.compact().unwrap();
        let dataset = Dataset::load(folder.path()).unwrap();
        assert_eq!(
            (dataset.profiles, dataset.graphs),
            (profiles.clone(), graphs.clone()),
            "{files_written} tables"
        );
    }
}

/// The first round of latencies, in any session.
fn sought<'a>(environment_id: &'a str, protocol: &'a Protocol) -> Sought<'a> {
    Sought { environment_id, round: 0, protocol, session: None, measures: Measures::Latency }
}

#[test]
fn done_knows_sessions_rounds_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, _) = stored(folder.path(), 7);
    let store = Store::open_or_create(folder.path()).unwrap();
    let id = environment().id();
    let model = &profiles[6].model;
    let protocol = &profiles[6].protocol;
    for (environment, round, session, expected) in [
        (id.as_str(), 0, None, Some(Status::Ok)),
        (id.as_str(), 0, Some("monday"), Some(Status::Ok)),
        (id.as_str(), 0, Some("tuesday"), None),
        (id.as_str(), 1, None, Some(Status::Failed("out of memory".into()))),
        (id.as_str(), 2, None, None),
        ("elsewhere", 0, None, None),
    ] {
        let sought = Sought { round, session, ..sought(environment, protocol) };
        let found = store.find(model, &sought).map(|found| found.status);
        assert_eq!(found, expected.as_ref(), "{environment} {round} {session:?}");
    }
    let other = Protocol { input_distribution: "constant(2)".to_owned(), ..protocol.clone() };
    assert_eq!(store.find(model, &sought(&id, &other)), None, "other inputs");
}

/// Before and after compaction, because the journal and the tables are read apart.
#[test]
fn done_knows_what_was_measured() {
    let id = environment().id();
    let (runs, graphs) = sweep(3, 4, 2);
    let (latency, alone) = (&runs[1], of_memory_alone(&runs[2]));
    let both = ModelProfile { running_memory_bytes: Some(1 << 19), ..runs[0].clone() };
    let latency = &ModelProfile { running_memory_bytes: None, ..latency.clone() };
    let protocol = &latency.protocol;
    let folder = tempfile::tempdir().unwrap();
    let stored = [both.clone(), latency.clone(), alone.clone()];
    append_all(&mut Store::open_or_create(folder.path()).unwrap(), &stored, &graphs);
    for compacted in [false, true] {
        let mut store = Store::open_or_create(folder.path()).unwrap();
        if compacted {
            store.compact().unwrap();
            drop(store);
            store = Store::open_or_create(folder.path()).unwrap();
        }
        let done = |run: &ModelProfile, measures| {
            store.done(&run.model, &Sought { measures, ..sought(&id, protocol) })
        };
        let each =
            |run| [Measures::Latency, Measures::Memory, Measures::Both].map(|m| done(run, m));
        assert_eq!(each(&both), [true, true, true], "{compacted}");
        assert_eq!(each(latency), [true, false, false], "{compacted}");
        assert_eq!(each(&alone), [false, true, false], "{compacted}");
    }
}

#[test]
fn a_run_with_another_seed_or_other_repeats_is_done_but_not_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, _) = stored(folder.path(), 2);
    let store = Store::open_or_create(folder.path()).unwrap();
    let (id, model, protocol) = (environment().id(), &runs[0].model, &runs[0].protocol);
    let is_alike = |protocol: &Protocol, measures| {
        let sought = Sought { measures, ..sought(&id, protocol) };
        store.find(model, &sought).map(|found| found.is_alike)
    };
    let more_rounds = Protocol { rounds: 9, ..protocol.clone() };
    assert_eq!(is_alike(&more_rounds, Measures::Latency), Some(true));
    let seed = Protocol { seed: 8, ..protocol.clone() };
    let repeats = Protocol { max_repeats: 51, ..protocol.clone() };
    for other in [&seed, &repeats] {
        assert_eq!(is_alike(other, Measures::Latency), Some(false), "{other:?}");
    }
    assert_eq!(is_alike(&repeats, Measures::Memory), Some(true), "its own process has its own");
}

#[test]
fn a_session_without_a_name_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, _) = sweep(1, 3, 2);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    for session in ["", " "] {
        let nameless = ModelProfile { session: session.to_owned(), ..runs[0].clone() };
        let error = store.append(&nameless).unwrap_err();
        assert!(error.to_string().contains("the name of its session is empty"), "{error}");
    }
    assert_eq!(store.runs(), 0);
}

#[test]
fn refuses_what_it_cannot_store() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = stored(folder.path(), 2);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    assert!(matches!(store.append(&profiles[0]), Err(DatasetError::Conflict { .. })));
    let mut nan = profiles[0].clone();
    nan.round = 9;
    nan.protocol.target_spread = f64::NAN;
    assert!(matches!(store.append(&nan), Err(DatasetError::Unstorable { .. })));
    let mut renamed = profiles[0].model.clone();
    renamed.space = Some("elsewhere".into());
    assert!(matches!(
        store.append_model(&renamed, &graphs[&renamed.architecture]),
        Err(DatasetError::ModelConflict { .. })
    ));
    assert!(matches!(Store::open_or_create(folder.path()), Err(DatasetError::Locked { .. })));
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("holiday.jpg"), b"x").unwrap();
    let error = Store::open_or_create(other.path()).unwrap_err();
    assert!(error.to_string().contains("holiday.jpg"), "{error}");
}

/// That a compaction which is cut short loses nothing is tested above, table by table.
#[test]
fn a_table_that_cannot_be_written_is_an_error_with_its_path() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (profiles, graphs) = sweep(2, 4, 2);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &profiles, &graphs);
    let dataset = Dataset::load(folder.path()).unwrap();
    fs::create_dir_all(other.path().join("models.parquet/in-the-way")).unwrap();
    let error = write_tables(other.path(), &dataset).unwrap_err();
    assert!(error.to_string().contains("models.parquet"), "{error}");
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert!(names(other.path()).iter().all(|name| !name.ends_with(UNFINISHED)));
    store.compact().unwrap();
    assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles);
}

#[test]
fn a_lost_schema_file_costs_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, _) = stored(folder.path(), 3);
    fs::remove_dir(folder.path().join("journal")).unwrap();
    fs::remove_file(folder.path().join("schema.json")).unwrap();
    fs::remove_file(folder.path().join("operators.parquet")).unwrap();
    drop(Store::open_or_create(folder.path()).unwrap());
    assert_eq!(
        parquet::read(&model_measurements::SCHEMA, folder.path()).unwrap().rows(),
        profiles.len()
    );
}

#[test]
fn graphs_of_real_models_survive() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open_or_create(folder.path()).unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut graphs = BTreeMap::new();
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let graph = vitempo_graph::onnx::read_file(
            &models.join(format!("{name}.onnx")),
            &vitempo_graph::onnx::ReadOptions::default(),
        )
        .unwrap();
        let identity = ModelIdentity {
            name: name.to_owned(),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        };
        store.append_model(&identity, &graph).unwrap();
        graphs.insert(graph.architecture(), graph);
    }
    assert_eq!(Dataset::load(folder.path()).unwrap().graphs, graphs);
    store.compact().unwrap();
    let dataset = Dataset::load(folder.path()).unwrap();
    assert_eq!(dataset.graphs, graphs);
    assert!(
        dataset.graphs.iter().all(|(architecture, graph)| graph.architecture() == *architecture)
    );
    assert_eq!(dataset.models.len(), 3);
}

/// Model runs in two environments by turns, as a merged dataset or a sweep over settings may have
/// them; every fifth in the second failed.
fn by_turns(models: usize) -> (Vec<ModelProfile>, BTreeMap<String, Graph>) {
    let graphs: Vec<Graph> = (0..models).map(|i| graph(i, 5)).collect();
    let elsewhere = |mut p: ModelProfile| {
        p.environment.threads = 2;
        p
    };
    let one = |(i, graph)| match i {
        i if i % 3 == 0 => profile(i, graph, "monday", 0, 3),
        i if i % 5 == 0 => elsewhere(failed(i, graph, "monday", 0, "out of memory")),
        i => elsewhere(profile(i, graph, "monday", 0, 3)),
    };
    (
        graphs.iter().enumerate().map(one).collect(),
        graphs.iter().map(|g| (g.architecture(), g.clone())).collect(),
    )
}

#[test]
fn one_environment_is_read_alone_from_tables_and_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = by_turns(14);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &profiles[..9], &graphs);
    store.compact().unwrap();
    append_all(&mut store, &profiles[9..], &graphs);
    let id = environment().id();
    let other = profiles[1].environment.id();
    assert_eq!(
        Dataset::environments(folder.path()).unwrap(),
        BTreeMap::from([(id.clone(), 5), (other.clone(), 7)])
    );
    let described = Dataset::described_environments(folder.path()).unwrap();
    assert_eq!(described[&id], environment());
    assert_eq!((described.len(), described[&other].threads), (2, 2));
    for wanted in [&id, &other] {
        let dataset = Dataset::load_environment(folder.path(), |id| id == wanted).unwrap();
        let expected: Vec<ModelProfile> =
            profiles.iter().filter(|p| p.environment.id() == *wanted).cloned().collect();
        assert_eq!(dataset.profiles, expected);
        assert_eq!(dataset.models, expected.iter().map(|p| p.model.clone()).collect::<Vec<_>>());
        assert_eq!(
            dataset.graphs,
            expected
                .iter()
                .map(|p| (p.model.architecture.clone(), graphs[&p.model.architecture].clone()))
                .collect()
        );
        assert_eq!(dataset.warnings, []);
    }
    assert!(Dataset::load_environment(folder.path(), |_| false).unwrap().profiles.is_empty());
}

#[test]
fn an_error_in_another_environment_is_not_met_and_one_in_this_names_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let (profiles, graphs) = by_turns(6);
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &profiles, &graphs);
    store.compact().unwrap();
    let mut table = parquet::read(&operator_measurements::SCHEMA, folder.path()).unwrap();
    let origin = table.schema.position("origin").unwrap();
    let Column::Text(origins) = &mut table.columns[origin] else { panic!("a column of text") };
    origins.set(17, "guessed"); // the third row of the fourth run
    parquet::write(&table).unwrap();
    let other = profiles[1].environment.id();
    assert_eq!(
        Dataset::load_environment(folder.path(), |id| id == other).unwrap().profiles.len(),
        4
    );
    let error = Dataset::load_environment(folder.path(), |id| id != other).unwrap_err();
    assert!(
        matches!(&error, DatasetError::Row { row: 17, column, .. } if column == "origin"),
        "{error}"
    );
}

#[test]
fn equal_operators_are_one_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    let dataset = Dataset::load(folder.path()).unwrap();
    let all: Vec<_> = dataset.profiles.iter().flat_map(|p| &p.operators).map(|m| &m.op).collect();
    let shared = all.iter().all(|a| all.iter().all(|b| (a == b) == std::sync::Arc::ptr_eq(a, b)));
    assert!(shared && all.len() > 6);
}

#[test]
fn a_table_of_many_groups_of_rows_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TablesWriter::new(folder.path()).unwrap();
    let graph = graph(0, 6);
    let mut run = profile(0, &graph, "monday", 0, 1);
    run.operators = run.operators.iter().cycle().take(30_000).cloned().collect();
    for round in 0..6 {
        run.round = round;
        writer.add(&run).unwrap();
    }
    writer.finish(&[run.model.clone()], &BTreeMap::from([(graph.architecture(), graph)])).unwrap();
    let table = parquet::read(&operator_measurements::SCHEMA, folder.path()).unwrap();
    assert_eq!(
        (table.rows(), table.integer("round", 179_999), table.integer("position", 59_999)),
        (180_000, 5, 29_999)
    );
    let wanted = |id: &str| id == table.text("op_id", 1);
    let asked = parquet::Asked::rows("op_id", &wanted);
    let some = parquet::read_some(&operator_measurements::SCHEMA, folder.path(), asked).unwrap();
    assert_eq!((some.rows(), some.number(1)), (30_000, 7));
}

#[test]
fn loads_on_other_cores_are_kept_and_their_rows_are_environments_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let graphs: BTreeMap<String, Graph> = [(graph(0, 5).architecture(), graph(0, 5))].into();
    let alone = profile(0, &graph(0, 5), "monday", 0, 3);
    let rates = ResourceRates { bytes_per_s: 9_000_000_000, flops_per_s: 1_500_000_000 };
    let mut beside = alone.clone();
    beside.environment.beside = Some("stream".to_owned());
    beside.load = Some(LoadRecord {
        cores: vec![0],
        footprint_bytes: 128 << 20,
        cache_bytes: Some(32 << 20),
        alone: rates,
        during: ResourceRates { bytes_per_s: 8_000_000_000, ..rates },
        model_alone_ns: vec![1_000_000, 1_100_000],
    });
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &[alone.clone(), beside.clone()], &graphs);
    let journal = Dataset::load(folder.path()).unwrap();
    store.compact().unwrap();
    let tables = Dataset::load(folder.path()).unwrap();
    for dataset in [journal, tables] {
        assert_eq!(dataset.profiles, [alone.clone(), beside.clone()]);
    }
    let id = alone.environment.id();
    let only = Dataset::load_environment(folder.path(), |other| other == id).unwrap();
    assert_eq!(only.profiles, [alone]);
    let described = Dataset::described_environments(folder.path()).unwrap();
    assert_eq!(described[&beside.environment.id()].beside.as_deref(), Some("stream"));
    let report = crate::validate(folder.path(), &crate::Tolerances::default()).unwrap();
    assert!(report.findings.iter().all(|f| f.check != "impossible-load"), "{:?}", report.findings);
}

#[test]
fn settings_are_kept_and_are_environments_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let graphs: BTreeMap<String, Graph> = [(graph(0, 5).architecture(), graph(0, 5))].into();
    let plain = profile(0, &graph(0, 5), "monday", 0, 3);
    let mut set = plain.clone();
    set.environment.settings = vec![Setting::CudaGraph, Setting::Tf32];
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &[plain.clone(), set.clone()], &graphs);
    store.compact().unwrap();
    assert_eq!(Dataset::load(folder.path()).unwrap().profiles, [plain, set]);
}

#[test]
fn a_sample_has_whole_architectures_of_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (mut profiles, graphs) = by_turns(40);
    // A real model: samples have it, however few rows they have.
    for profile in &mut profiles {
        if profile.model.name == "model_12" {
            profile.model.space = None;
        }
    }
    let mut store = Store::open_or_create(folder.path()).unwrap();
    append_all(&mut store, &profiles[..30], &graphs);
    store.compact().unwrap();
    append_all(&mut store, &profiles[30..], &graphs);
    let id = environment().id();
    let lake = tempfile::tempdir().unwrap();
    Lake::open_or_create(lake.path())
        .unwrap()
        .append(&Dataset::load(folder.path()).unwrap())
        .unwrap();
    let load = |from: &Path, rows| Dataset::load_sample(from, |e| e == id, rows, 3).unwrap();
    let rows = |d: &Dataset| d.profiles.iter().map(|p| p.operators.len() as u64).sum::<u64>();
    let names = |d: &Dataset| -> BTreeSet<String> {
        d.profiles.iter().map(|p| p.model.architecture.clone()).collect()
    };
    let all = Dataset::load_environment(folder.path(), |e| e == id).unwrap();
    let everything = load(folder.path(), rows(&all));
    assert_eq!((everything.sampled, &everything.profiles), (None, &all.profiles));
    let too_small = Dataset::load_sample(folder.path(), |e| e == id, 1, 3);
    let Err(DatasetError::SmallSample { rows: 1, least, .. }) = too_small else {
        panic!("{too_small:?}");
    };
    assert_eq!(load(folder.path(), least).sampled.map(|s| s.architectures), Some(1));
    assert!(Dataset::load_sample(folder.path(), |e| e == id, least - 1, 3).is_err());
    let mut smaller = BTreeSet::new();
    for part in [4, 2] {
        let most = rows(&all) / part;
        let sample = load(folder.path(), most);
        assert!((most / 2..=most).contains(&rows(&sample)), "{} of {most}", rows(&sample));
        let found = names(&sample);
        let expected: Vec<&ModelProfile> =
            all.profiles.iter().filter(|p| found.contains(&p.model.architecture)).collect();
        assert_eq!(sample.profiles.iter().collect::<Vec<_>>(), expected);
        assert!(sample.profiles.iter().any(|p| p.model.space.is_none()));
        let counts = Sampled { architectures: found.len(), of: names(&all).len() };
        assert_eq!(sample.sampled, Some(counts));
        assert_eq!((sample.models.len(), sample.graphs.len()), (found.len(), found.len()));
        assert!(found.is_superset(&smaller));
        let of_lake = load(lake.path(), most);
        assert_eq!((names(&of_lake), of_lake.sampled), (found.clone(), sample.sampled));
        assert_eq!(rows(&of_lake), rows(&sample));
        smaller = found;
    }
}

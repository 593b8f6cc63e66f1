//! Puts each kind of fault into a valid dataset, which must be reported with its file and row.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    Dataset, Store,
    column::{Column, Table},
    parquet,
    simulated::{append_all, stored},
    tables::TABLES,
};
use std::fs;
use vitempo_graph::{Origin, Status};

fn report(folder: &Path) -> ValidationReport {
    validate(folder, &Tolerances::default()).unwrap()
}

fn found(report: &ValidationReport) -> Vec<(&'static str, String, Option<usize>)> {
    report.findings.iter().map(|f| (f.check, f.file.clone(), f.row)).collect()
}

/// Changes one table on the disk; its digest is right again.
fn edit(folder: &Path, name: &str, change: impl FnOnce(&mut Table)) {
    let schema = TABLES.into_iter().find(|table| table.name == name).unwrap();
    let mut table = parquet::read(schema, folder).unwrap();
    change(&mut table);
    parquet::write(&table).unwrap();
}

fn column<'t>(table: &'t mut Table, name: &str) -> &'t mut Column {
    let position = table.schema.position(name).unwrap();
    &mut table.columns[position]
}

fn set_text(table: &mut Table, name: &str, row: usize, text: &str) {
    match column(table, name) {
        Column::Text(values) | Column::OptionalText(values) => values.set(row, text),
        _ => panic!("{name} is not a text"),
    }
}

fn set_integer(table: &mut Table, name: &str, row: usize, value: u64) {
    let Column::Integer(values) = column(table, name) else { panic!("{name} is not an integer") };
    values[row] = value;
}

fn set_optional(table: &mut Table, name: &str, row: usize, value: u64) {
    let Column::OptionalInteger(values) = column(table, name) else {
        panic!("{name} is always set")
    };
    values[row] = Some(value);
}

fn set_sample(table: &mut Table, name: &str, sample: usize, value: u64) {
    let Column::IntegerList(lists) = column(table, name) else { panic!("{name} is not a list") };
    lists.values[sample] = value;
}

fn set_list(table: &mut Table, name: &str, list: &[u64]) {
    let Column::IntegerList(lists) = column(table, name) else { panic!("{name} is no list") };
    let rest: Vec<Vec<u64>> = (1..lists.ends.len()).map(|row| lists.get(row).to_vec()).collect();
    *lists = crate::column::Lists::default();
    lists.push(list);
    rest.iter().for_each(|list| lists.push(list));
}

fn set_protocol(table: &mut Table, from: &str, to: &str) {
    let json = table.text("protocol_json", 0).replace(from, to);
    assert_ne!(json, table.text("protocol_json", 0));
    set_text(table, "protocol_json", 0, &json);
}

fn drop_last_row(table: &mut Table) {
    for column in &mut table.columns {
        match column {
            Column::Text(values) | Column::OptionalText(values) => values.pop(),
            Column::Integer(values) => drop(values.pop()),
            Column::OptionalInteger(values) => drop(values.pop()),
            Column::IntegerList(lists) => {
                lists.ends.pop();
                lists.values.truncate(lists.ends.last().copied().unwrap_or(0));
            }
        }
    }
}

#[test]
fn a_sound_dataset_has_no_findings() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 8);
    let report = report(folder.path());
    assert_eq!(report.findings, []);
    assert!(report.is_valid());
    assert_eq!(
        (
            report.rows["model_measurements"],
            report.rows["models"],
            report.rows["operator_measurements"]
        ),
        (16, 8, 15 * 6)
    );
    assert_eq!(report.failed, BTreeMap::from([("out of memory".to_owned(), 1)]));
    assert_eq!(report.origins, BTreeMap::from([("simulated".to_owned(), 16)]));
    assert_eq!(report.operator_shares.len(), 15);
    assert!(
        report.operator_shares.iter().all(|s| (0.99..1.0).contains(&s.share)),
        "{:?}",
        report.operator_shares
    );
}

#[test]
fn faults_in_rows_are_found_where_they_are() {
    type Fault = (&'static str, fn(&mut Table), &'static str, usize);
    let faults: [Fault; 17] = [
        ("operators", |t| set_text(t, "op_id", 1, "feedfeedfeedfeed"), "wrong-identifier", 1),
        ("operators", |t| set_text(t, "spec_json", 2, "{\"kind\": 3}"), "unreadable-row", 2),
        (
            "operator_measurements",
            |t| set_text(t, "op_id", 4, "feedfeedfeedfeed"),
            "dangling-reference",
            4,
        ),
        ("operator_measurements", |t| set_integer(t, "position", 3, 9), "missing-rows", 3),
        ("operator_measurements", |t| set_text(t, "origin", 5, "measured"), "mixed-origins", 5),
        ("operator_measurements", |t| set_text(t, "origin", 5, "guessed"), "unreadable-row", 5),
        ("operator_measurements", |t| set_text(t, "status", 6, "failed"), "unreadable-row", 6),
        ("operator_measurements", |t| set_sample(t, "wall_ns", 5 * 7, 0), "zero-sample", 7),
        ("model_measurements", |t| set_sample(t, "e2e_wall_ns", 5, u64::MAX), "absurd-sample", 1),
        ("model_measurements", |t| set_text(t, "sitting", 1, "sunday"), "missing-rows", 1),
        ("model_measurements", |t| set_text(t, "model", 1, "nobody"), "dangling-reference", 1),
        (
            "model_measurements",
            |t| set_text(t, "environment_variant", 1, "00000000"),
            "dangling-reference",
            1,
        ),
        (
            "model_measurements",
            |t| set_text(t, "protocol_json", 0, "{\"warmups\":NaN}"),
            "unreadable-row",
            0,
        ),
        ("model_measurements", |t| set_optional(t, "peak_memory_bytes", 2, 0), "peak-memory", 2),
        ("model_measurements", |t| set_optional(t, "peak_memory_bytes", 1, 1), "peak-memory", 1),
        ("models", |t| set_text(t, "architecture", 1, "feedfeedfeedfeed"), "wrong-identifier", 1),
        ("environments", |t| set_text(t, "device", 0, "Other"), "wrong-identifier", 0),
    ];
    for (table, fault, check, row) in faults {
        let folder = tempfile::tempdir().unwrap();
        stored(folder.path(), 3);
        edit(folder.path(), table, fault);
        let report = report(folder.path());
        assert!(
            found(&report).contains(&(check, format!("{table}.parquet"), Some(row))),
            "{table} {check}: {:?}",
            report.findings
        );
        assert_eq!(report.is_valid(), report.of(Severity::Error).next().is_none());
    }
}

/// One table, what is done to it, the check that must find it, and where.
type Fault = (&'static str, fn(&mut Table), &'static str, usize);

#[test]
fn values_that_cannot_be_are_found_in_every_column() {
    let faults: &[Fault] = &[
        ("environments", |t| set_text(t, "device", 0, " "), "impossible-value", 0),
        ("environments", |t| set_text(t, "framework", 0, ""), "impossible-value", 0),
        ("environments", |t| set_text(t, "variant", 0, ""), "impossible-value", 0),
        ("environments", |t| set_integer(t, "threads", 0, 0), "impossible-value", 0),
        ("environments", |t| set_integer(t, "threads", 0, u64::MAX), "impossible-value", 0),
        ("environments", |t| set_integer(t, "cores_available", 0, 0), "impossible-value", 0),
        ("environments", |t| set_list(t, "cores", &[1, 1]), "impossible-value", 0),
        ("environments", |t| set_list(t, "cores", &[u64::MAX]), "impossible-value", 0),
        ("operators", |t| set_integer(t, "macs", 1, u64::MAX), "derived-column", 1),
        ("operators", |t| set_integer(t, "flops", 1, 3), "derived-column", 1),
        ("operators", |t| set_integer(t, "bytes_read", 1, 3), "derived-column", 1),
        ("operators", |t| set_integer(t, "bytes_written", 1, 3), "derived-column", 1),
        ("operators", |t| set_integer(t, "params", 1, 3), "derived-column", 1),
        ("operators", |t| set_text(t, "kind", 1, "pool"), "derived-column", 1),
        ("operators", |t| set_text(t, "memory_format", 1, "blocked"), "derived-column", 1),
        ("operators", |t| set_text(t, "precision", 1, "i8"), "derived-column", 1),
        ("models", |t| set_integer(t, "operators", 1, 0), "derived-column", 1),
        ("models", |t| set_integer(t, "macs", 1, u64::MAX), "derived-column", 1),
        ("models", |t| set_integer(t, "flops", 1, 0), "derived-column", 1),
        ("models", |t| set_integer(t, "bytes_read", 1, 0), "derived-column", 1),
        ("models", |t| set_integer(t, "bytes_written", 1, 0), "derived-column", 1),
        ("models", |t| set_integer(t, "params", 1, 0), "derived-column", 1),
        ("models", |t| set_text(t, "model", 1, ""), "impossible-value", 1),
        ("models", |t| set_text(t, "architecture", 1, ""), "impossible-value", 1),
        ("operator_measurements", |t| set_list(t, "wall_ns", &[0]), "zero-sample", 0),
        ("operator_measurements", |t| set_list(t, "cpu_ns", &[1 << 63]), "absurd-sample", 0),
        (
            "operator_measurements",
            |t| set_optional(t, "memory_bytes", 4, (-4096i64) as u64),
            "impossible-value",
            4,
        ),
        ("model_measurements", |t| set_list(t, "e2e_wall_ns", &[0]), "zero-sample", 0),
        ("model_measurements", |t| set_list(t, "e2e_profiled_wall_ns", &[0]), "zero-sample", 0),
        ("model_measurements", |t| set_list(t, "e2e_cpu_ns", &[1]), "unequal-samples", 0),
        ("model_measurements", |t| set_list(t, "e2e_profiled_cpu_ns", &[1]), "unequal-samples", 0),
        ("model_measurements", |t| set_list(t, "reference_wall_ns", &[0]), "impossible-value", 0),
        (
            "model_measurements",
            |t| set_list(t, "reference_cpu_ns", &[u64::MAX]),
            "impossible-value",
            0,
        ),
        ("model_measurements", |t| set_integer(t, "round", 1, u64::MAX), "impossible-value", 1),
        ("model_measurements", |t| set_integer(t, "started_unix_ms", 1, 0), "impossible-value", 1),
        ("model_measurements", |t| set_text(t, "sitting", 1, ""), "impossible-value", 1),
        ("model_measurements", |t| set_text(t, "source", 1, "somebody"), "impossible-value", 1),
        (
            "model_measurements",
            |t| set_protocol(t, "\"max_repeats\":50", "\"max_repeats\":3"),
            "impossible-value",
            0,
        ),
        ("model_measurements", |t| set_protocol(t, "0.017", "-0.017"), "impossible-value", 0),
        (
            "model_measurements",
            |t| set_optional(t, "peak_memory_bytes", 1, u64::MAX),
            "impossible-value",
            1,
        ),
        ("model_measurements", |t| set_optional(t, "peak_memory_bytes", 1, 0), "peak-memory", 1),
        (
            "model_measurements",
            |t| set_optional(t, "energy_per_inference_uj", 1, 0),
            "impossible-value",
            1,
        ),
        (
            "model_measurements",
            |t| set_optional(t, "energy_per_inference_uj", 1, u64::MAX),
            "impossible-value",
            1,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    for (table, fault, check, row) in faults {
        let path = folder.path().join(format!("{table}.parquet"));
        let sound = fs::read(&path).unwrap();
        edit(folder.path(), table, fault);
        let report = report(folder.path());
        assert!(
            found(&report).contains(&(check, format!("{table}.parquet"), Some(*row))),
            "{table} {check} {row}: {:?}",
            report.findings
        );
        fs::write(path, sound).unwrap();
    }
    assert_eq!(report(folder.path()).findings, []);
}

#[test]
fn values_that_cannot_be_are_found_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (mut profiles, graphs) = crate::simulated::sweep(1, 4, 3);
    profiles[0].operators[1].memory_bytes = Some(u64::MAX - 7);
    profiles[1].started_unix_ms = 0;
    append_all(&mut Store::open_or_create(folder.path()).unwrap(), &profiles, &graphs);
    let report = report(folder.path());
    let places: Vec<Option<usize>> =
        report.findings.iter().filter(|f| f.check == "impossible-value").map(|f| f.row).collect();
    assert_eq!(places, [Some(2), Some(3)], "{:?}", report.findings);
    assert!(report.findings[0].what.contains("-8 as a signed number"), "{:?}", report.findings);
}

#[test]
fn a_write_that_was_cut_short_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let findings = || -> Vec<(&'static str, Severity)> {
        report(folder.path()).findings.iter().map(|f| (f.check, f.severity)).collect()
    };
    // Killed after its first table, and while it wrote the second.
    let (profiles, graphs) = crate::simulated::sweep(2, 4, 3);
    let dataset = Dataset { profiles, graphs, ..Dataset::default() };
    let mut store = Store::open_empty(folder.path(), "merge").unwrap();
    let tables = crate::tables::runs::tables_of(folder.path(), &dataset).unwrap();
    parquet::write(&tables[0]).unwrap();
    fs::write(folder.path().join(".operators.parquet.a1b2c3.unfinished"), "PAR1").unwrap();
    let writing = findings();
    assert!(writing.contains(&("unfinished-write", Severity::Note)), "{writing:?}");
    assert!(writing.contains(&("unfinished-file", Severity::Note)), "{writing:?}");
    drop(store);
    let killed = findings();
    assert!(killed.contains(&("unfinished-write", Severity::Error)), "{killed:?}");
    assert!(killed.contains(&("unfinished-file", Severity::Warning)), "{killed:?}");
    assert!(killed.contains(&("no-model-runs", Severity::Error)), "{killed:?}");
    assert!(!report(folder.path()).is_valid());
    // Repeated to its end.
    fs::remove_file(folder.path().join(".operators.parquet.a1b2c3.unfinished")).unwrap();
    store = Store::open_empty(folder.path(), "merge").unwrap();
    crate::store::write_tables(folder.path(), &dataset).unwrap();
    store.filled().unwrap();
    assert!(findings().iter().all(|(check, _)| !check.starts_with("unfinished")));
    let empty = tempfile::tempdir().unwrap();
    drop(Store::open_or_create(empty.path()).unwrap());
    let found = report(empty.path()).findings;
    assert_eq!((found[0].check, found[0].severity), ("no-model-runs", Severity::Warning));
}

#[test]
fn shipped_measurements_have_no_impossible_value() {
    for name in ["epyc-engines-20-models", "epyc-onnxruntime-f32-1t", "epyc-zen4"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("measured").join(name);
        let report = report(&folder);
        let found: Vec<&Finding> = report.of(Severity::Error).collect();
        assert!(found.is_empty(), "{name}: {found:?}, unlisted {:?}", report.unlisted);
    }
}

#[test]
fn duplicate_and_missing_rows_are_found() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    edit(folder.path(), "model_measurements", |table| {
        set_integer(table, "round", 3, 0);
        drop_last_row(table);
    });
    let report = report(folder.path());
    let duplicate = ("duplicate-key", "model_measurements.parquet".to_owned(), Some(3));
    let orphan = ("dangling-reference", "operator_measurements.parquet".to_owned(), Some(5 * 6));
    assert!(
        found(&report).contains(&duplicate) && found(&report).contains(&orphan),
        "{:?}",
        report.findings
    );
    assert!(Dataset::load(folder.path()).is_err());
}

#[test]
fn sums_over_operators_and_wrong_units_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut profiles, graphs) = crate::simulated::sweep(2, 6, 5);
    profiles[0].operators.truncate(3);
    profiles[1].origin = Origin::Imported;
    profiles[1].operators[0].samples.wall_ns.clear();
    profiles[1].operators[2].samples.cpu_ns.pop();
    profiles[1].operators[1].status = Status::Failed("no time".into());
    append_all(&mut Store::open_or_create(folder.path()).unwrap(), &profiles[..2], &graphs);
    let strict = Tolerances { thread_flops_per_ns: 1e-6, ..Tolerances::default() };
    for compacted in [false, true] {
        if compacted {
            Store::open_or_create(folder.path()).unwrap().compact().unwrap();
        }
        let report = validate(folder.path(), &strict).unwrap();
        let checks: Vec<&str> = report.findings.iter().map(|f| f.check).collect();
        for check in
            ["operator-sum", "mixed-origins", "no-samples", "unequal-samples", "wrong-unit"]
        {
            assert!(
                checks.contains(&check),
                "{check} (compacted: {compacted}): {:?}",
                report.findings
            );
        }
        assert_eq!(report.failed, BTreeMap::from([("no time".to_owned(), 1)]));
        assert_eq!(report.journal_runs, if compacted { 0 } else { 2 });
    }
}

#[test]
fn another_precision_than_the_one_asked_for_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut profiles, graphs) = crate::simulated::sweep(3, 6, 5);
    for profile in &mut profiles {
        profile.environment.precision = vitempo_graph::Precision::F16;
    }
    profiles[2].environment.precision = vitempo_graph::Precision::F32;
    append_all(&mut Store::open_or_create(folder.path()).unwrap(), &profiles, &graphs);
    for compacted in [false, true] {
        if compacted {
            Store::open_or_create(folder.path()).unwrap().compact().unwrap();
        }
        let report = report(folder.path());
        let found: Vec<&Finding> =
            report.findings.iter().filter(|f| f.check == "executed-precision").collect();
        assert_eq!(found.len(), 1, "{:?}", report.findings);
        assert!(
            found[0].what.starts_with("5 model runs")
                && found[0].what.ends_with("asked for f16 and ran in f32"),
            "{}",
            found[0]
        );
        assert_eq!((found[0].severity, found[0].row.is_some()), (Severity::Warning, true));
    }
}

#[test]
fn faults_in_files_are_found() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 3);
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    fs::write(folder.path().join("models.parquet.unfinished"), "x").unwrap();
    let operators = fs::read(folder.path().join("operators.parquet")).unwrap();
    fs::write(folder.path().join("operators.parquet"), &operators[..100]).unwrap();
    fs::remove_file(folder.path().join("environments.parquet")).unwrap();
    fs::write(folder.path().join("journal/000004.jsonl"), "{\"visit\":").unwrap();
    fs::write(folder.path().join("journal/000005.jsonl"), "{\"visit\":{}}\n").unwrap();
    let report = report(folder.path());
    let expected = [
        ("unreadable-file", "operators.parquet", None),
        ("unreadable-file", "environments.parquet", None),
        ("unreadable-row", "journal/000005.jsonl", Some(1)),
        ("foreign-file", "notes.txt", None),
        ("unfinished-file", "models.parquet.unfinished", None),
    ];
    for (check, file, row) in expected {
        assert!(
            found(&report).contains(&(check, file.to_owned(), row)),
            "{check}: {:?}",
            report.findings
        );
    }
    assert!(report.findings.is_sorted_by(|a, b| a.severity >= b.severity));
    fs::write(folder.path().join("schema.json"), "{}").unwrap();
    assert!(matches!(
        validate(folder.path(), &Tolerances::default()),
        Err(DatasetError::NotADataset { .. })
    ));
}

#[test]
fn a_flood_of_findings_is_counted_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 8);
    edit(folder.path(), "operators", |table| {
        (0..table.rows()).for_each(|row| set_text(table, "op_id", row, "feedfeedfeedfeed"));
    });
    let report =
        validate(folder.path(), &Tolerances { findings_per_check: 5, ..Tolerances::default() })
            .unwrap();
    assert_eq!(report.findings.iter().filter(|f| f.check == "dangling-reference").count(), 5);
    assert_eq!(report.unlisted["dangling-reference"], 15 * 6 - 5);
}

#[test]
fn loads_that_do_not_fit_their_rows_are_found() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), 2);
    let rates = r#"{"bytes_per_s":5,"flops_per_s":5}"#;
    let load = |core: usize, alone: &str| {
        format!(r#"{{"cores":[{core}],"footprint_bytes":1,"alone":{alone},"during":{rates}}}"#)
    };
    let faults = |beside: Option<&str>, load: Option<&str>| {
        edit(folder.path(), "environments", |table| {
            if let Some(beside) = beside {
                set_text(table, "beside", 0, beside);
            }
        });
        edit(folder.path(), "model_measurements", |table| {
            if let Some(load) = load {
                set_text(table, "load_json", 0, load);
            }
        });
        let report = report(folder.path());
        let of_loads = report.findings.iter().filter(|f| f.check == "impossible-load");
        of_loads.filter(|f| f.row == Some(0)).map(|f| f.what.clone()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(faults(None, None), "");
    assert!(faults(None, Some(&load(0, rates))).contains("has no load"));
    let nothing = r#"{"bytes_per_s":0,"flops_per_s":0}"#;
    for (record, says) in [
        (load(0, rates), ""),
        (load(3, rates), "core 3 is both"),
        (load(0, nothing), "did nothing alone"),
    ] {
        let found = faults(Some("stream"), Some(&record));
        assert!(found.contains(says) && found.is_empty() == says.is_empty(), "{record}: {found}");
    }
}

#[test]
fn the_median_of_an_even_number_of_shares_lies_between_two() {
    let of = |shares: &[f64]| {
        let run = |&share: &f64| OperatorShare {
            model: "m".to_owned(),
            session: "s".to_owned(),
            round: 0,
            share,
        };
        let operator_shares = shares.iter().map(run).collect();
        ValidationReport { operator_shares, ..ValidationReport::default() }.operator_share_range()
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[0.5, 1.5, 1.0]), Some([0.5, 1.0, 1.5]));
    assert_eq!(of(&[2.0, 0.5, 1.0, 1.5]), Some([0.5, 1.25, 2.0]));
}

//! Published files, and tables made of them independently, give the same rows.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_datasets::published::{AiHub, Cells, Column, Row};
use vitempo_graph::OpSpec;

fn samples(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/published").join(folder)
}

/// Operators of an architecture with their counts, whatever their numbers.
fn operators(cells: &Cells, reading: usize, architecture: usize) -> BTreeMap<&OpSpec, u64> {
    let counts = cells.readings[reading][architecture].iter();
    counts.map(|(number, count)| (&cells.operators[*number], *count as u64)).collect()
}

fn assert_equal(published: &Cells, table: &Cells) {
    assert_eq!(published.connected, table.connected);
    assert_eq!(published.readings.len(), table.readings.len());
    for reading in 0..table.readings.len() {
        for architecture in 0..table.architectures() {
            assert_eq!(
                operators(published, reading, architecture),
                operators(table, reading, architecture),
                "reading {reading} of architecture {architecture}"
            );
        }
    }
    for device in &table.devices {
        let of: &Column =
            published.devices.iter().find(|d| d.name == device.name).expect("the device");
        assert_eq!(
            (&of.class, of.reading, of.summed),
            (&device.class, device.reading, device.summed),
            "{}",
            device.name
        );
        for (a, b) in of.ns.iter().zip(&device.ns) {
            let (a, b) = (a.expect("a latency"), b.expect("a latency"));
            assert!((a / b - 1.0).abs() < 1e-6, "{}: {a} and {b}", device.name);
        }
    }
}

#[test]
fn what_help_publishes_equals_the_tables() {
    let (published, tables) = (samples("help"), samples("tables"));
    let read = |read: fn(&Path) -> Result<Cells, _>, folder: &Path| read(folder).expect("cells");
    for of in [Cells::nas_bench_201, Cells::fbnet] {
        let (published, tables) = (read(of, &published), read(of, &tables));
        assert_eq!((published.architectures(), published.devices.len()), (100, 1));
        assert_equal(&published, &tables);
    }
}

/// Latencies in ns by what identifies a row, without the snapshot's name.
fn by_key(rows: &[Row]) -> BTreeMap<[&str; 5], u64> {
    let mut latencies = BTreeMap::new();
    for r in rows {
        let key = [&*r.model, &*r.device, &*r.runtime, &*r.precision, &*r.processor];
        latencies.insert(key, r.ns.round() as u64);
    }
    latencies
}

#[test]
fn what_ai_hub_publishes_equals_the_table() {
    let published = AiHub::read(&samples("ai_hub")).expect("perf.yaml files");
    let table = AiHub::read(&samples("tables")).expect("a table");
    let mut both = by_key(&published.rows);
    assert_eq!(both.len(), 135);
    both.retain(|[_, device, ..], _| *device != "SA7255P ADP");
    assert_eq!(both, by_key(&table.rows), "all devices but one that the table lacks");
    assert!(published.graphs.contains_key("mobilenet_v2") && table.graphs.is_empty());
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |path: &str, bytes: &[u8]| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    };
    of("fbnet/latency/board.pt", b"\x80\x02]K\x01a.");
    of("fbnet/arch.pt", b"\x80\x02]]K\x09aa.");
    let error = Cells::fbnet(folder.path()).expect_err("a choice of ten").to_string();
    assert!(error.contains("arch.pt") && error.contains("architecture 0"), "{error}");
    of("fbnet/arch.pt", b"\x80\x02].");
    let error = Cells::fbnet(folder.path()).expect_err("a latency too many").to_string();
    assert!(error.contains("board.pt") && error.contains("1 latencies for 0"), "{error}");
    of("vit/perf.yaml", b"supported_devices: []\n");
    let error = AiHub::read(folder.path()).expect_err("no precisions").to_string();
    assert!(error.contains("perf.yaml") && error.contains("precisions"), "{error}");
}

/// With `VITEMPO_PUBLISHED=FOLDER` (the tables, with HELP's and AI Hub's files beside them in
/// `FOLDER/../raw/help` and `FOLDER/../raw/ai_hub`).
#[test]
#[ignore = "needs published files: VITEMPO_PUBLISHED=FOLDER"]
fn whole_files_equal_the_tables() {
    let folder = PathBuf::from(std::env::var_os("VITEMPO_PUBLISHED").expect("VITEMPO_PUBLISHED"));
    let raw = folder.join("../raw");
    let (published, table) =
        (Cells::fbnet(&raw.join("help")).expect("cells"), Cells::fbnet(&folder).expect("cells"));
    let known = |cells: &Cells| Cells {
        devices: cells.devices.iter().filter(|d| d.name == "1080ti_1").cloned().collect(),
        ..cells.clone()
    };
    assert_equal(&published, &known(&table));
    let published = AiHub::read(&raw.join("ai_hub")).expect("perf.yaml files");
    let table = AiHub::read(&folder).expect("a table");
    let models: Vec<&str> = published.rows.iter().map(|r| r.model.as_str()).collect();
    let same: Vec<Row> =
        table.rows.into_iter().filter(|r| models.contains(&r.model.as_str())).collect();
    let (published, table) = (by_key(&published.rows), by_key(&same));
    let listed = published.iter().filter(|(key, _)| table.contains_key(*key));
    assert_eq!(listed.map(|(k, v)| (*k, *v)).collect::<BTreeMap<_, _>>(), table);
}

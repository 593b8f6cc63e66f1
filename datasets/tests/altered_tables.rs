//! Datasets whose tables were altered, and given the digest of their new bytes, are read or refused
//! within a limit of memory, without a panic.
//!
//! Alone in its program, so that no other test panics meanwhile.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use vitempo_datasets::{
    Dataset, ExportFormat, Filter, Tolerances, export, inspect, table_names, validate,
};

#[path = "../src/allocation.rs"]
mod allocation;

use allocation::peak_of;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Memory that any use of a folder may take beyond its files: those of the tests have 100 kB.
const ROOM: usize = 64 << 20;

/// Every use of a folder, and the most memory that one of them took.
fn use_folder(folder: &Path) -> (bool, usize) {
    let uses: [(&str, &dyn Fn() -> bool); 6] = [
        ("load", &|| Dataset::load(folder).is_ok()),
        ("environments", &|| Dataset::environments(folder).is_ok()),
        ("load one", &|| Dataset::load_environment(folder, |_| true).is_ok()),
        ("validate", &|| validate(folder, &Tolerances::default()).is_ok()),
        ("inspect", &|| inspect(folder).is_ok()),
        ("export", &|| {
            let mut out = std::io::sink();
            let export = |table| {
                export(folder, table, &Filter::default(), ExportFormat::Csv, &mut out).is_ok()
            };
            table_names().into_iter().all(export)
        }),
    ];
    let (mut read, mut worst) = (false, 0);
    for (name, work) in uses {
        let (result, most) =
            peak_of(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
        assert_eq!(PANICS.load(Relaxed), 0, "{name} of {} panics", folder.display());
        assert!(most <= ROOM, "{name} of {}: {most} bytes", folder.display());
        read |= name == "load" && result.unwrap_or(false);
        worst = worst.max(most);
    }
    (read, worst)
}

/// Small and reproducible: xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

/// A table with up to four changes, and the digest of its bytes.
fn altered(whole: &[u8], state: &mut u64) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..1 + next(state) % 4 {
        // Metadata and headers of pages matter most, and are few.
        let near_the_end = bytes.len() - 1 - next(state) % bytes.len().min(2500);
        let at =
            if next(state).is_multiple_of(2) { near_the_end } else { next(state) % bytes.len() };
        let end = bytes.len().min(at + 1 + next(state) % 8);
        match next(state) % 5 {
            0 => bytes[at] ^= 1 << (next(state) % 8),
            1 => bytes[at] = next(state) as u8,
            2 => bytes[at..end].fill(0xff),
            3 => drop(bytes.drain(at..end)),
            _ => drop(bytes.splice(at..at, [next(state) as u8; 3])),
        }
    }
    stamp(&mut bytes);
    bytes
}

fn stamp(bytes: &mut [u8]) {
    let mark = b"vitempo-blake3:";
    let found = bytes.windows(mark.len()).rposition(|window| window == mark);
    let Some(start) = found.map(|at| at + mark.len()).filter(|at| at + 64 <= bytes.len()) else {
        return;
    };
    bytes[start..start + 64].fill(b'0');
    let digest = blake3::hash(bytes).to_hex();
    bytes[start..start + 64].copy_from_slice(digest.as_bytes());
}

/// A sound dataset: that which the fuzz targets begin with.
fn sound(folder: &Path) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = root.join("tests/altered/panic_77/schema.json");
    fs::copy(schema, folder.join("schema.json")).unwrap();
    let mut tables = Vec::new();
    for entry in fs::read_dir(root.join("../fuzz/corpus/parquet")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let path = folder.join(format!("{}.parquet", &name[2..]));
        // The first byte says which table it is.
        fs::write(&path, &fs::read(entry.path()).unwrap()[1..]).unwrap();
        tables.push(path);
    }
    tables.sort();
    tables
}

/// One test, because the panics of another would be counted.
#[test]
fn altered_tables_cost_little_and_never_panic() {
    std::panic::set_hook(Box::new(|panic| {
        // Failed assertions are the test's own.
        if panic.location().is_some_and(|place| !place.file().ends_with("altered_tables.rs")) {
            PANICS.fetch_add(1, Relaxed);
        }
        eprintln!("{panic}");
    }));
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/altered");
    let mut found = 0;
    for entry in fs::read_dir(&folders).unwrap().flatten() {
        use_folder(&entry.path());
        found += 1;
    }
    assert_eq!(found, 4);
    let folder = tempfile::tempdir().unwrap();
    let tables = sound(folder.path());
    assert!(use_folder(folder.path()).0);
    let whole: Vec<Vec<u8>> = tables.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut state = 11;
    let (mut read, mut refused, mut worst) = (0, 0, 0);
    for index in 0..600 {
        let which = index % tables.len();
        fs::write(&tables[which], altered(&whole[which], &mut state)).unwrap();
        let (ok, most) = use_folder(folder.path());
        *if ok { &mut read } else { &mut refused } += 1;
        worst = worst.max(most);
        fs::write(&tables[which], &whole[which]).unwrap();
    }
    println!("{read} read, {refused} refused, at most {worst} bytes");
    assert!(refused > 300, "{read} read, {refused} refused");
}

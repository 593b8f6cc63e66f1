//! Journals and Parquet tables, read as parts of a dataset folder.

use std::{fs, io, path::Path};
use tempfile::TempDir;
use vitempo::datasets::{Dataset, Store};

/// Reads a dataset whose journal holds an entry per line of the input. Each gets the digest it
/// needs; a line that has one keeps it.
pub fn journal(bytes: &[u8]) {
    thread_local!(static FOLDER: TempDir = template(|folder| drop(Store::open_or_create(folder))));
    FOLDER.with(|folder| {
        let segment = folder.path().join("journal");
        let written = fs::create_dir_all(&segment)
            .and_then(|()| fs::write(segment.join("000001.jsonl"), stamped(bytes)));
        written.unwrap_or_else(|error| panic!("cannot write the journal: {error}"));
        let _ = Dataset::load(folder.path());
        let _ = Dataset::environments(folder.path());
    });
}

fn stamped(bytes: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(entry) if !entry.starts_with(b"{\"digest\"") => {
                let digest = blake3::hash(entry).to_hex();
                segment
                    .extend_from_slice(format!("{{\"digest\":\"{}\",", &digest[..16]).as_bytes());
                segment.extend_from_slice(b"\"entry\":");
                segment.extend_from_slice(entry);
                segment.extend_from_slice(b"}\n");
            }
            _ => segment.extend_from_slice(line),
        }
    }
    segment
}

/// The tables of a small dataset.
const TABLES: [(&str, &[u8]); 5] = [
    ("environments", include_bytes!("../../corpus/parquet/0_environments")),
    ("models", include_bytes!("../../corpus/parquet/1_models")),
    ("operators", include_bytes!("../../corpus/parquet/2_operators")),
    ("model_measurements", include_bytes!("../../corpus/parquet/3_model_measurements")),
    ("operator_measurements", include_bytes!("../../corpus/parquet/4_operator_measurements")),
];

/// Reads a dataset one of whose tables is the input: its first byte says which, the rest is the
/// file, which gets the digest it needs.
pub fn parquet(bytes: &[u8]) {
    thread_local!(static FOLDER: TempDir = template(|folder| drop(Store::open_or_create(folder))));
    let Some((which, file)) = bytes.split_first() else { return };
    let altered = usize::from(which.wrapping_sub(b'0')) % TABLES.len();
    FOLDER.with(|folder| {
        for (index, (name, whole)) in TABLES.iter().enumerate() {
            let table = if index == altered { digested(file) } else { whole[1..].to_vec() };
            write(&folder.path().join(format!("{name}.parquet")), &table);
        }
        let _ = Dataset::load(folder.path());
        let _ = Dataset::environments(folder.path());
    });
}

/// What stands before the digest in a table's footer.
const MARK: &[u8] = b"vitempo-blake3:";
const DIGITS: usize = 64;

/// The file with the digest of its bytes: that of the file with zeros in its place.
fn digested(file: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let mark = bytes.windows(MARK.len()).rposition(|window| window == MARK);
    if let Some(start) = mark.map(|at| at + MARK.len()).filter(|at| at + DIGITS <= bytes.len()) {
        bytes[start..start + DIGITS].fill(b'0');
        let digest = blake3::hash(&bytes).to_hex();
        bytes[start..start + DIGITS].copy_from_slice(digest.as_bytes());
    }
    bytes
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

fn template(fill: impl FnOnce(&Path)) -> TempDir {
    let folder: io::Result<TempDir> = tempfile::tempdir();
    let folder = folder.unwrap_or_else(|error| panic!("no temporary folder: {error}"));
    fill(folder.path());
    folder
}

//! The journal: the measurements since the last compaction, one line of JSON per model run or
//! model. Each line is synced to the disk before the sweep continues.
//!
//! A line is `{"digest":"<16 digits>","entry":<JSON>}` and a newline; the digest is that of the
//! entry's bytes. Each writer starts a segment of its own, so that an incomplete line after a crash
//! is always the last of its segment. It has no newline; it is left out and reported as a
//! [`Warning`]. Any other line that cannot be read is an error.

use crate::{DatasetError, Warning, files::sync_parent, tables::models::check_graph};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};
use vitempo_graph::{Graph, ModelIdentity, ModelProfile};

/// Name of the journal's folder in a dataset.
pub(crate) const FOLDER: &str = "journal";
/// Ending of a segment.
pub(crate) const ENDING: &str = "jsonl";
const OPEN: &[u8] = b"{\"digest\":\"";
const MIDDLE: &[u8] = b"\",\"entry\":";
const DIGITS: usize = 16;

/// One line to be written.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryRef<'a> {
    Model {
        identity: &'a ModelIdentity,
        graph: &'a Graph,
    },
    #[serde(rename = "visit")]
    Run(&'a ModelProfile),
}

/// One line that was read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Entry {
    Model(Box<ModelEntry>),
    #[serde(rename = "visit")]
    Run(Box<ModelProfile>),
}

/// A model and its graph.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelEntry {
    pub(crate) identity: ModelIdentity,
    pub(crate) graph: Graph,
}

/// Everything in the journal.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<Entry>,
    /// For each entry, its segment and line.
    places: Vec<(usize, usize)>,
    pub(crate) segments: Vec<PathBuf>,
    pub(crate) warnings: Vec<Warning>,
}

impl Journal {
    /// The model runs in it.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &ModelProfile> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Run(profile) => Some(&**profile),
            Entry::Model(_) => None,
        })
    }

    /// Where an entry stands: the file relative to the dataset, and the line, from 1.
    pub(crate) fn place(&self, entry: usize) -> (String, usize) {
        let (segment, line) = self.places.get(entry).copied().unwrap_or_default();
        let name = self.segments.get(segment).and_then(|path| path.file_name()).unwrap_or_default();
        (format!("{FOLDER}/{}", name.to_string_lossy()), line)
    }
}

/// Reads all segments, oldest first. A segment that disappears meanwhile was folded into the
/// tables.
pub(crate) fn read(dataset: &Path) -> Result<Journal, DatasetError> {
    let mut journal = Journal::default();
    for path in segments(dataset)? {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(DatasetError::Io { action: "read", path, source }),
        };
        read_segment(&path, &bytes, &mut journal)?;
        journal.segments.push(path);
    }
    Ok(journal)
}

fn segments(dataset: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let folder = dataset.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(DatasetError::Io { action: "read", path: folder, source }),
    };
    let paths: Result<Vec<PathBuf>, io::Error> =
        entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.map_err(DatasetError::io("read", &folder))?;
    paths.retain(|path| path.extension().is_some_and(|e| e == ENDING));
    paths.sort();
    Ok(paths)
}

fn read_segment(path: &Path, bytes: &[u8], journal: &mut Journal) -> Result<(), DatasetError> {
    for (index, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                let entry = parse(line).map_err(|reason| DatasetError::Journal {
                    path: path.to_owned(),
                    line: index + 1,
                    reason,
                })?;
                journal.entries.push(entry);
                journal.places.push((journal.segments.len(), index + 1));
            }
            None => journal.warnings.push(Warning::TornLine {
                path: path.to_owned(),
                line: index + 1,
                bytes: line.len(),
            }),
        }
    }
    Ok(())
}

fn parse(line: &[u8]) -> Result<Entry, String> {
    let entry =
        checked(line).ok_or("it is not a whole journal line, or its digest does not match")?;
    let entry: Entry = serde_json::from_slice(entry).map_err(|e| e.to_string())?;
    if let Entry::Model(model) = &entry {
        check_graph(&model.graph)?;
    }
    Ok(entry)
}

/// The entry's bytes, if the digest in front of them is theirs.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (digits, rest) = line.strip_prefix(OPEN)?.split_at_checked(DIGITS)?;
    let entry = rest.strip_prefix(MIDDLE)?.strip_suffix(b"}")?;
    (digest(entry).as_bytes() == digits).then_some(entry)
}

fn digest(entry: &[u8]) -> String {
    blake3::hash(entry).to_hex()[..DIGITS].to_owned()
}

/// Appends to a segment of its own.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    segment: Option<(PathBuf, File, u64)>,
}

impl Writer {
    pub(crate) fn new(dataset: &Path) -> Self {
        Self { folder: dataset.join(FOLDER), segment: None }
    }

    /// Writes one line and waits until it is on the disk. After an error nothing of the line
    /// remains.
    pub(crate) fn append(&mut self, entry: &EntryRef<'_>) -> Result<(), DatasetError> {
        let line = encode(entry)?;
        let (path, mut file, length) = match self.segment.take() {
            Some(segment) => segment,
            None => self.start_segment()?,
        };
        match file.write_all(&line).and_then(|()| file.sync_data()) {
            Ok(()) => {
                self.segment = Some((path, file, length + line.len() as u64));
                Ok(())
            }
            Err(source) => {
                // If the torn line cannot be cut off, the next entry starts another segment and
                // this one ends in a torn line.
                if file.set_len(length).is_ok() {
                    self.segment = Some((path.clone(), file, length));
                }
                Err(DatasetError::Io { action: "write", path, source })
            }
        }
    }

    /// Forgets the current segment: it was folded into the tables.
    pub(crate) fn reset(&mut self) {
        self.segment = None;
    }

    fn start_segment(&self) -> Result<(PathBuf, File, u64), DatasetError> {
        fs::create_dir_all(&self.folder).map_err(DatasetError::io("create", &self.folder))?;
        let dataset = self.folder.parent().unwrap_or(Path::new("."));
        let last = segments(dataset)?
            .iter()
            .filter_map(|path| path.file_stem()?.to_str()?.parse::<u64>().ok())
            .max();
        let path =
            self.folder.join(format!("{:06}.{ENDING}", last.map_or(1, |n| n.saturating_add(1))));
        let file = fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(DatasetError::io("create", &path))?;
        sync_parent(&path)?;
        Ok((path, file, 0))
    }
}

fn encode(entry: &EntryRef<'_>) -> Result<Vec<u8>, DatasetError> {
    let json = serde_json::to_vec(entry).map_err(|e| DatasetError::Unstorable {
        what: "this model run".to_owned(),
        reason: e.to_string(),
    })?;
    let mut line = Vec::with_capacity(json.len() + 64);
    line.extend_from_slice(OPEN);
    line.extend_from_slice(digest(&json).as_bytes());
    line.extend_from_slice(MIDDLE);
    line.extend_from_slice(&json);
    line.extend_from_slice(b"}\n");
    Ok(line)
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        Dataset, Store,
        simulated::{append_all, sweep},
    };

    #[test]
    fn every_truncation_and_every_changed_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = sweep(2, 3, 2);
        append_all(&mut Store::open_or_create(folder.path()).unwrap(), &profiles, &graphs);
        let path = folder.path().join("journal/000001.jsonl");
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(11) {
            let mut journal = Journal::default();
            read_segment(&path, &whole[..at], &mut journal).unwrap();
            assert_eq!(journal.entries.len(), whole[..at].iter().filter(|&&b| b == b'\n').count());
            assert_eq!(journal.warnings.is_empty(), at == 0 || whole[at - 1] == b'\n');
            let mut changed = whole.clone();
            changed[at] ^= 4;
            let mut journal = Journal::default();
            let noticed = read_segment(&path, &changed, &mut journal).is_err()
                || !journal.warnings.is_empty();
            assert!(noticed, "byte {at}");
        }
        let mut lines: Vec<&[u8]> = whole.split_inclusive(|&b| b == b'\n').collect();
        lines[1] = b"{\"visit\":{}}\n";
        fs::write(&path, lines.concat()).unwrap();
        let error = Dataset::load(folder.path()).unwrap_err();
        assert!(matches!(&error, DatasetError::Journal { line: 2, .. }), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_names_the_segment_and_the_next_one_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = sweep(2, 3, 2);
        let mut store = Store::open_or_create(folder.path()).unwrap();
        append_all(&mut store, &profiles[..1], &graphs);
        let mut writer = Writer::new(folder.path());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        writer.segment = Some((folder.path().join("journal/000009.jsonl"), full, 0));
        let error = writer.append(&EntryRef::Run(&profiles[1])).unwrap_err();
        assert!(error.to_string().contains("000009.jsonl"), "{error}");
        writer.append(&EntryRef::Run(&profiles[1])).unwrap();
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles[..2]);
    }
}

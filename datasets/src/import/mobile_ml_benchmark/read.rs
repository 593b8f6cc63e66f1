//! [`collections`]: all files in memory, as numbers: per row its model, its operation and a latency
//! per setting. Equal texts are stored once.

use super::{
    FileFacts,
    cells::{NOT_MEASURED, Place},
    columns::{Columns, Layout},
    conventions::{Collection, Setting},
    features::Features,
};
use crate::DatasetError;
use csv::StringRecord;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    path::{Path, PathBuf},
};

/// Texts, each once, by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The number of a text, and whether it is new.
    fn number(&mut self, text: &str) -> (usize, bool) {
        if let Some(&number) = self.numbers.get(text) {
            return (number, false);
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() - 1);
        (self.texts.len() - 1, true)
    }

    pub(super) fn text(&self, number: usize) -> &str {
        self.texts.get(number).map_or("", String::as_str)
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}

/// One operation of one model in one file.
#[derive(Debug)]
pub(super) struct OperatorRow {
    /// Number in [`Models::operations`].
    pub(super) operation: usize,
    /// Its place among the operations of its model, in this file.
    pub(super) position: usize,
}

/// A file of operators.
#[derive(Debug)]
pub(super) struct OperatorFile {
    pub(super) settings: Vec<Setting>,
    rows: Vec<OperatorRow>,
    /// Latencies in ns, a row after the other, a setting after the other.
    latencies: Vec<u64>,
    /// The kernels' names in [`Models::kernels`], in the same order; 0: none is given.
    kernels: Vec<u32>,
    /// The rows of each model.
    of_model: HashMap<usize, Vec<usize>>,
}

impl OperatorFile {
    /// How many rows are this operation.
    pub(super) fn count(&self, operation: usize) -> usize {
        self.rows.iter().filter(|row| row.operation == operation).count()
    }

    /// Operation, latency in ns and kernel of each row of a model, for the setting of this number.
    pub(super) fn rows(
        &self,
        model: usize,
        setting: usize,
    ) -> impl Iterator<Item = (&OperatorRow, u64, usize)> {
        let rows = self.of_model.get(&model).map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter_map(move |&row| {
            let cell = row * self.settings.len() + setting;
            Some((
                self.rows.get(row)?,
                *self.latencies.get(cell)?,
                self.kernels.get(cell).copied().unwrap_or(0) as usize,
            ))
        })
    }
}

/// All that files give of the models of one collection.
#[derive(Debug, Default)]
pub(super) struct Models {
    pub(super) names: Names,
    /// Names of operations and the text of their features, joined by a line feed.
    operations: Names,
    pub(super) features: Vec<Features>,
    pub(super) kernels: Names,
    pub(super) files: Vec<OperatorFile>,
    /// End-to-end latencies in ns, by setting and model.
    pub(super) end_to_end: BTreeMap<Setting, HashMap<usize, u64>>,
    paths: HashMap<(Layout, Setting), PathBuf>,
}

impl Models {
    /// The name of an operation.
    pub(super) fn operation(&self, number: usize) -> &str {
        self.operations.text(number).split('\n').next().unwrap_or_default()
    }

    /// Whether something was measured.
    pub(super) fn has_latencies(&self) -> bool {
        let end_to_end = self.end_to_end.values().flat_map(HashMap::values);
        let operators = self.files.iter().flat_map(|file| &file.latencies);
        end_to_end.chain(operators).any(|ns| *ns != NOT_MEASURED)
    }

    /// Every setting of some file.
    pub(super) fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.end_to_end.keys().chain(self.files.iter().flat_map(|file| &file.settings))
    }
}

/// Reads all files, sorted by what models they are about.
pub(super) fn collections(
    files: &[&Path],
    facts: &FileFacts,
) -> Result<BTreeMap<Collection, Models>, DatasetError> {
    let mut collections: BTreeMap<Collection, Models> = BTreeMap::new();
    for path in files {
        let collection = Collection::of(path, facts)?;
        collections.entry(collection).or_default().read(path)?;
    }
    Ok(collections)
}

impl Models {
    fn read(&mut self, path: &Path) -> Result<(), DatasetError> {
        let file = File::open(path).map_err(DatasetError::io("read", path))?;
        let mut reader = csv::ReaderBuilder::new().from_reader(file);
        let header = reader.headers().map_err(|e| broken(path, &e))?.clone();
        let columns = Columns::read(path, &header)?;
        for (_, setting, _) in &columns.latencies {
            if let Some(other) =
                self.paths.insert((columns.layout, setting.clone()), path.to_owned())
            {
                let reason = format!(
                    "{} has been read for the same models, device, cores and precision",
                    other.display()
                );
                return Err(DatasetError::NotImportable { path: path.to_owned(), reason });
            }
        }
        match columns.layout {
            Layout::EndToEnd => self.read_end_to_end(path, &header, &columns, &mut reader),
            Layout::Operators => self.read_operators(path, &header, &columns, &mut reader),
        }
    }

    fn read_end_to_end(
        &mut self,
        path: &Path,
        header: &StringRecord,
        columns: &Columns,
        reader: &mut csv::Reader<File>,
    ) -> Result<(), DatasetError> {
        let mut seen = HashSet::new();
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(|e| broken(path, &e))? {
            let line = record.position().map_or(0, csv::Position::line);
            let model = self.model(path, line, columns, &record)?;
            if !seen.insert(model) {
                return Err(Place { path, line, column: "model" }
                    .error(format!("model `{}` is there twice", self.names.text(model))));
            }
            for (index, setting, _) in &columns.latencies {
                let place = Place { path, line, column: header.get(*index).unwrap_or_default() };
                let ns = place.nanoseconds(record.get(*index).unwrap_or_default())?;
                if ns == 0 {
                    return Err(place.error("a model takes longer than no nanosecond"));
                }
                self.end_to_end.entry(setting.clone()).or_default().insert(model, ns);
            }
        }
        Ok(())
    }

    fn read_operators(
        &mut self,
        path: &Path,
        header: &StringRecord,
        columns: &Columns,
        reader: &mut csv::Reader<File>,
    ) -> Result<(), DatasetError> {
        let settings = columns.latencies.iter().map(|(_, setting, _)| setting.clone()).collect();
        let mut file = OperatorFile {
            settings,
            rows: Vec::new(),
            latencies: Vec::new(),
            kernels: Vec::new(),
            of_model: HashMap::new(),
        };
        let with_kernels = columns.latencies.iter().any(|(_, _, kernel)| kernel.is_some());
        if self.kernels.len() == 0 {
            self.kernels.number("");
        }
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(|e| broken(path, &e))? {
            let line = record.position().map_or(0, csv::Position::line);
            let model = self.model(path, line, columns, &record)?;
            let operation = self.operation_number(path, line, columns, &record)?;
            for (index, _, kernel) in &columns.latencies {
                let place = Place { path, line, column: header.get(*index).unwrap_or_default() };
                file.latencies.push(place.nanoseconds(record.get(*index).unwrap_or_default())?);
                if with_kernels {
                    let name = kernel.and_then(|kernel| record.get(kernel)).unwrap_or_default();
                    let number = self.kernels.number(name.trim()).0;
                    file.kernels.push(
                        u32::try_from(number)
                            .map_err(|_| place.error("there are too many names of kernels"))?,
                    );
                }
            }
            let rows = file.of_model.entry(model).or_default();
            rows.push(file.rows.len());
            file.rows.push(OperatorRow { operation, position: rows.len() - 1 });
        }
        self.files.push(file);
        Ok(())
    }

    fn model(
        &mut self,
        path: &Path,
        line: u64,
        columns: &Columns,
        record: &StringRecord,
    ) -> Result<usize, DatasetError> {
        match record.get(columns.model).unwrap_or_default().trim() {
            "" => Err(Place { path, line, column: "model" }.error("the model has no name")),
            name => Ok(self.names.number(name).0),
        }
    }

    fn operation_number(
        &mut self,
        path: &Path,
        line: u64,
        columns: &Columns,
        record: &StringRecord,
    ) -> Result<usize, DatasetError> {
        let name = record.get(columns.operation).unwrap_or_default().trim();
        if name.is_empty() || name.contains('\n') {
            return Err(
                Place { path, line, column: "operation" }.error("the operation has no name")
            );
        }
        let features = record.get(columns.feature).unwrap_or_default();
        let (number, new) = self.operations.number(&format!("{name}\n{features}"));
        if new {
            let parsed = Features::parse(features);
            self.features.push(
                parsed.map_err(|reason| Place { path, line, column: "feature" }.error(reason))?,
            );
        }
        Ok(number)
    }
}

/// An error of the CSV reader, with its line.
fn broken(path: &Path, error: &csv::Error) -> DatasetError {
    let line = error.position().map_or(1, csv::Position::line);
    let reason = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} cells, the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    };
    Place { path, line, column: "model" }.error(reason)
}

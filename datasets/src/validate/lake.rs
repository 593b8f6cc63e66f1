//! Checks a lake file by file, in memory for some files at a time: first what measurements refer
//! to, then model runs with their operators. Findings name the file of the lake and its row.

use super::{Finding, Inspection, Readable, Severity, Tolerances, ValidationReport};
use crate::{
    DatasetError, RunKey,
    column::Table,
    lake::{Contents, Lake, is_unfinished, number_of, path_in},
    parquet::Asked,
    schema::TableSchema,
    source::Source,
    tables::{
        TABLES, environments, model_measurements, models,
        operator_measurements::{self, OperatorRuns},
        operators,
    },
};
use std::collections::{HashMap, HashSet};
use vitempo_graph::ModelIdentity;

/// Rows of operators that are in memory at a time, unless one commit has more.
const ROWS: usize = 1 << 18;

/// Checks a lake as of its last commit; again where files are missing because it was compacted
/// meanwhile.
pub(super) fn validate(
    mut lake: Lake,
    tolerances: &Tolerances,
) -> Result<ValidationReport, DatasetError> {
    loop {
        let report = as_of_commit(&lake, tolerances);
        let is_missing = report.findings.iter().any(|finding| finding.check == "unreadable-file");
        let now = if is_missing { Lake::open(lake.path())? } else { return Ok(report) };
        if now.commit() == lake.commit() {
            return Ok(report);
        }
        lake = now;
    }
}

fn as_of_commit(lake: &Lake, tolerances: &Tolerances) -> ValidationReport {
    let source = Source::from(lake.clone());
    let mut whole =
        Whole { lake, inspection: Inspection::new(&source, tolerances), runs: HashSet::new() };
    whole.check_stored();
    whole.check_referred();
    whole.check_batches();
    if lake.contents().batches.is_empty() {
        whole.inspection.check_written(&Readable { runs: Some(Vec::new()), ..Readable::default() });
    }
    whole.inspection.check_origins();
    whole.inspection.report
}

/// The report of the lake, to which those of its parts are added.
struct Whole<'a> {
    lake: &'a Lake,
    inspection: Inspection<'a>,
    /// Digests of the keys of the model runs so far.
    runs: HashSet<[u8; 32]>,
}

impl Whole<'_> {
    /// Files that are stored and that no commit names.
    fn check_stored(&mut self) {
        let stored = self.lake.stored();
        let stored = self.inspection.keep("_commits", stored).unwrap_or_default();
        let named: HashSet<&str> =
            self.lake.contents().parts().map(|part| part.path.as_str()).collect();
        for file in stored {
            let name = file.name.as_str();
            if named.contains(name) || number_of(name).is_some() || is_card(name) {
                continue;
            }
            let is_part =
                TABLES.iter().any(|schema| name.starts_with(&format!("{}/", schema.name)));
            let (severity, check, what) = if is_part || is_unfinished(name) {
                let what = "no commit names it: a writer is at work, or was killed; `vitempo \
                            dataset compact` removes it when it is a day old";
                (Severity::Warning, "unfinished-file", what)
            } else {
                (Severity::Note, "foreign-file", "not part of the lake")
            };
            self.inspection.find(severity, check, name, None, what);
        }
    }

    /// Environments, operators and models, one file after the other.
    fn check_referred(&mut self) {
        let contents = self.lake.contents().clone();
        let only = |table: &'static TableSchema, part| {
            let mut only = Contents::default();
            match table.name {
                name if name == environments::SCHEMA.name => only.environments.push(part),
                name if name == operators::SCHEMA.name => only.operators.push(part),
                _ => only.models.push(part),
            }
            only
        };
        for (schema, parts) in [
            (&environments::SCHEMA, contents.environments),
            (&operators::SCHEMA, contents.operators),
            (&models::SCHEMA, contents.models),
        ] {
            let mut seen = HashMap::new();
            for part in parts {
                let file = part.path.clone();
                let keys = self.add(only(schema, part), |inspection| {
                    let readable = inspection.read_referred(schema);
                    inspection.check_identifiers(&readable);
                    inspection.check_values(&readable);
                    keys_of(&readable)
                });
                for (row, key) in keys.into_iter().enumerate() {
                    if let Some(first) = seen.insert(key, file.clone()).filter(|of| *of != file) {
                        let what = format!("this key is in {first} too");
                        self.inspection.error("duplicate-key", &file, row, what);
                    }
                }
            }
        }
    }

    /// Model runs with their operators, some commits at a time; where a file cannot be read, each
    /// commit by itself.
    fn check_batches(&mut self) {
        let contents = self.lake.contents();
        let mut batches = contents.batches.as_slice();
        while !batches.is_empty() {
            let mut rows = 0_usize;
            let fit = batches.iter().take_while(|batch| {
                let own = batch.operators.values().map(|part| part.rows);
                rows = own.fold(rows, usize::saturating_add);
                rows <= ROWS
            });
            let (group, others) = batches.split_at(fit.count().clamp(1, batches.len()));
            batches = others;
            let of = |batches: &[_]| Contents { batches: batches.to_vec(), ..contents.clone() };
            if group.len() > 1 && !self.is_readable(of(group)) {
                group.iter().for_each(|batch| self.check_group(of(std::slice::from_ref(batch))));
            } else {
                self.check_group(of(group));
            }
        }
    }

    fn is_readable(&self, contents: Contents) -> bool {
        let source = Source::from(self.lake.only(contents));
        let mut inspection = Inspection::new(&source, self.inspection.tolerances);
        let readable = inspection.read_group();
        readable.runs.is_some() && readable.operator_runs.is_some()
    }

    fn check_group(&mut self, contents: Contents) {
        let files = contents.clone();
        let runs = self.add(contents, |inspection| {
            let readable = inspection.read_group();
            inspection.check_references(&readable);
            inspection.check_rows(&readable);
            check_kinds(inspection, &readable, &files);
            let runs = readable.runs.unwrap_or_default();
            runs.into_iter().map(|run| run.key).collect::<Vec<RunKey>>()
        });
        let files = self.lake.only(files);
        for (row, key) in runs.iter().enumerate() {
            if !self.runs.insert(*blake3::hash(format!("{key:?}").as_bytes()).as_bytes()) {
                let (file, row) = placed(&files, &model_measurements::SCHEMA.file_name(), row);
                let what = format!("{key} is in another file too");
                self.inspection.error("duplicate-key", &file, row, what);
            }
        }
    }

    /// Checks some files of the lake and adds what is found.
    fn add<R>(&mut self, contents: Contents, check: impl FnOnce(&mut Inspection<'_>) -> R) -> R {
        let is_group = !contents.batches.is_empty();
        let lake = self.lake.only(contents);
        let source = Source::from(lake.clone());
        let mut inspection = Inspection::new(&source, self.inspection.tolerances);
        let result = check(&mut inspection);
        let part = inspection.report;
        let report = &mut self.inspection.report;
        for mut finding in part.findings {
            let is_referred = [&environments::SCHEMA, &operators::SCHEMA, &models::SCHEMA]
                .iter()
                .any(|schema| schema.file_name() == finding.file);
            // What measurements refer to was checked before.
            if is_group && is_referred && finding.check != "unreadable-file" {
                continue;
            }
            if let Some(row) = finding.row {
                let (file, row) = placed(&lake, &finding.file, row);
                finding = Finding { file, row: Some(row), ..finding };
            }
            report.add(self.inspection.tolerances, finding);
        }
        for (check, more) in part.unlisted {
            *report.unlisted.entry(check).or_default() += more;
        }
        for (table, rows) in part.rows {
            *report.rows.entry(table).or_default() += rows;
        }
        for (reason, failed) in part.failed {
            *report.failed.entry(reason).or_default() += failed;
        }
        for (origin, runs) in part.origins {
            *report.origins.entry(origin).or_default() += runs;
        }
        report.operator_shares.extend(part.operator_shares);
        result
    }
}

impl Inspection<'_> {
    /// A table that measurements refer to.
    fn read_referred(&mut self, schema: &'static TableSchema) -> Readable {
        let mut readable = Readable::default();
        match schema.name {
            name if name == environments::SCHEMA.name => {
                readable.environments = self.table(schema, |t| environments::rows(&t));
            }
            name if name == operators::SCHEMA.name => {
                readable.operators =
                    self.derived(schema, operators::rows, super::derived::of_operators);
            }
            _ => {
                readable.models = self.derived(schema, models::rows, super::derived::of_models);
            }
        }
        readable
    }

    /// Model runs with their operators, and what they refer to.
    fn read_group(&mut self) -> Readable {
        let mut architectures = HashSet::new();
        let mut op_ids = HashSet::new();
        let texts = |table: &Table, column| -> HashSet<String> {
            table.distinct(column).iter().map(|text| text.to_string()).collect()
        };
        let runs = self.table(&model_measurements::SCHEMA, |table| {
            architectures = texts(&table, "architecture");
            model_measurements::rows(&table)
        });
        let operator_runs = self.table(&operator_measurements::SCHEMA, |table| {
            op_ids = texts(&table, "op_id");
            OperatorRuns::new(table)
        });
        let is_model = |architecture: &str| architectures.contains(architecture);
        let is_operator = |id: &str| op_ids.contains(id);
        let read = |schema: &'static TableSchema, asked| self.source.read(schema, asked);
        let models = read(&models::SCHEMA, Asked::rows("architecture", &is_model))
            .and_then(|table| models::rows(&table));
        let operators = read(&operators::SCHEMA, Asked::rows("op_id", &is_operator))
            .and_then(|table| operators::rows(&table));
        let environments =
            read(&environments::SCHEMA, Asked::ALL).and_then(|table| environments::rows(&table));
        Readable {
            runs,
            operator_runs,
            models: models.ok(),
            operators: operators.ok(),
            environments: environments.ok(),
            ..Readable::default()
        }
    }
}

/// Operators are in the files of their kind.
fn check_kinds(inspection: &mut Inspection<'_>, readable: &Readable, contents: &Contents) {
    let table = &operator_measurements::SCHEMA;
    let files = contents.of_table(table.name);
    let operators = readable.operators.iter().flatten();
    let kinds: HashMap<&str, String> =
        operators.map(|row| (row.op_id.as_str(), String::from(row.op.kind.clone()))).collect();
    let Some(runs) = &readable.operator_runs else { return };
    for row in runs.runs.iter().flat_map(|run| runs.rows(run)) {
        let after = files.partition_point(|file| file.start <= row.number());
        let partition = after.checked_sub(1).and_then(|place| files.get(place)?.kind);
        if let (Some(kind), Some(partition)) = (kinds.get(row.op_id()), partition)
            && kind != partition
        {
            let what = format!("an operator of kind `{kind}` among those of kind `{partition}`");
            inspection.error("wrong-partition", &table.file_name(), row.number(), what);
        }
    }
}

/// The keys of rows that measurements refer to. A model whose graph came later is there twice.
fn keys_of(readable: &Readable) -> Vec<String> {
    let environments = readable.environments.iter().flatten();
    let environments = environments.map(|row| format!("{} {}", row.id, row.variant));
    let operators = readable.operators.iter().flatten().map(|row| row.op_id.clone());
    let models = readable.models.iter().flatten().map(|row| {
        let ModelIdentity { name, architecture, .. } = &row.identity;
        format!("{architecture} {name} {}", row.graph.is_some())
    });
    environments.chain(operators).chain(models).collect()
}

/// The file of the lake and the row there.
fn placed(lake: &Lake, file: &str, row: usize) -> (String, usize) {
    let (path, row) = lake.place_of(&path_in(lake.path(), file), row);
    let name = path.strip_prefix(lake.path()).unwrap_or(&path);
    (name.to_string_lossy().into_owned(), row)
}

/// What describes a published lake.
fn is_card(name: &str) -> bool {
    ["README.md", "croissant.json"].contains(&name)
}

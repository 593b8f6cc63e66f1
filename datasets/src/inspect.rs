//! [`inspect`]: counts the contents of a dataset.

use crate::{
    Dataset, DatasetError, Warning, journal,
    schema::SCHEMA_FILE,
    source::Source,
    tables::{TABLES, origin_name},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use vitempo_graph::{MemoryFormat, ModelIdentity, ModelProfile, Samples, Status};

/// Counts of everything in a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The folder.
    pub path: PathBuf,
    /// Version of its schema.
    pub schema_version: u64,
    /// Which vitempo made it.
    pub written_by: String,
    /// Digest of all model runs and their samples, whatever their order and files: 64 hexadecimal
    /// digits.
    pub digest: String,
    /// Model runs, failed ones included.
    pub runs: usize,
    /// Model runs that are only in the journal so far.
    pub runs_in_journal: usize,
    /// Failed model runs, by reason.
    pub failed: BTreeMap<String, usize>,
    /// Failed operators within model runs, by reason.
    pub failed_operators: BTreeMap<String, usize>,
    /// Models sampled from a space.
    pub synthetic_models: usize,
    /// Other models.
    pub real_models: usize,
    /// Networks around single operators.
    pub single_operators: usize,
    /// Models whose graph is not in the dataset.
    pub models_without_graph: usize,
    /// Distinct operators.
    pub distinct_operators: usize,
    /// Operator measurements.
    pub operator_rows: usize,
    /// Single timings, end-to-end and operators together.
    pub samples: usize,
    /// Per environment.
    pub environments: BTreeMap<String, EnvironmentSummary>,
    /// Per operator kind.
    pub kinds: BTreeMap<String, KindSummary>,
    /// Model runs per origin.
    pub origins: BTreeMap<String, usize>,
    /// Model runs per source, of those that others published.
    pub sources: BTreeMap<String, usize>,
    /// Size of each file, and of the journal, in bytes.
    pub size_bytes: BTreeMap<String, u64>,
    /// Parts that could not be read.
    pub warnings: Vec<String>,
}

/// Counts of one environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvironmentSummary {
    /// The environment in a line.
    pub description: String,
    /// Model runs in it.
    pub runs: usize,
    /// Of these, failed.
    pub failed: usize,
    /// Different architectures measured.
    pub architectures: usize,
    /// Precision and memory format asked for, e.g. `f32, any format`.
    pub asked: String,
    /// What ran, e.g. `f32, blocked`: successful model runs of each; those that do not report it
    /// are left out.
    pub executed: BTreeMap<String, usize>,
    /// Most memory any model run took, if reported.
    pub peak_memory_bytes: Option<u64>,
    /// Model runs that the protocols of its rows plan and that are not there, failed or not, by
    /// search space; `real` for models of none.
    pub not_measured: BTreeMap<String, usize>,
    /// Rounds of each session.
    pub sessions: BTreeMap<String, BTreeSet<usize>>,
}

/// Counts of one operator kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindSummary {
    /// Distinct operators.
    pub distinct: usize,
    /// Measurements.
    pub rows: usize,
    /// Timings.
    pub samples: usize,
}

/// Reads a dataset and counts.
///
/// # Errors
/// As [`Dataset::load`].
pub fn inspect(folder: &Path) -> Result<Summary, DatasetError> {
    let source = Source::open(folder)?;
    let manifest = source.manifest()?;
    let dataset = Dataset::of(&source, None)?;
    let in_journal = source
        .journal()?
        .entries
        .iter()
        .filter(|entry| matches!(entry, journal::Entry::Run(_)))
        .count();
    let mut summary = Summary {
        path: folder.to_owned(),
        schema_version: manifest.schema_version,
        written_by: manifest.written_by,
        digest: digest(&dataset.profiles),
        runs: dataset.profiles.len(),
        runs_in_journal: in_journal,
        size_bytes: sizes(&source),
        warnings: dataset.warnings.iter().map(Warning::to_string).collect(),
        ..Summary::default()
    };
    count_models(&mut summary, &dataset);
    for profile in &dataset.profiles {
        count_run(&mut summary, profile);
    }
    count_distinct(&mut summary, &dataset);
    count_not_measured(&mut summary, &dataset);
    Ok(summary)
}

fn digest(profiles: &[ModelProfile]) -> String {
    let mut runs: Vec<[u8; 32]> = profiles.iter().map(digest_of_run).collect();
    runs.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for run in runs {
        hasher.update(&run);
    }
    hasher.finalize().to_hex().to_string()
}

fn digest_of_run(run: &ModelProfile) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let environment = run.environment.id();
    for text in [&environment, &run.model.name, &run.model.architecture, &run.session] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.update(&(run.round as u64).to_le_bytes()).update(&run.started_unix_ms.to_le_bytes());
    let of_operators = run.operators.iter().map(|operator| &operator.samples);
    for samples in [&run.e2e, &run.e2e_profiled, &run.reference].into_iter().chain(of_operators) {
        for list in [&samples.wall_ns, &samples.cpu_ns] {
            hasher.update(&(list.len() as u64).to_le_bytes());
            for ns in list {
                hasher.update(&ns.to_le_bytes());
            }
        }
    }
    *hasher.finalize().as_bytes()
}

fn count_models(summary: &mut Summary, dataset: &Dataset) {
    summary.single_operators = dataset.models.iter().filter(|model| model.is_operator()).count();
    summary.real_models = dataset.models.iter().filter(|model| model.space.is_none()).count();
    summary.synthetic_models =
        dataset.models.len() - summary.real_models - summary.single_operators;
    summary.models_without_graph = dataset
        .models
        .iter()
        .filter(|model| !dataset.graphs.contains_key(&model.architecture))
        .count();
}

fn count_run(summary: &mut Summary, profile: &ModelProfile) {
    let timings = |samples: &Samples| samples.wall_ns.len();
    *summary.origins.entry(origin_name(profile.origin).to_owned()).or_default() += 1;
    if let Some(source) = &profile.source {
        *summary.sources.entry(source.clone()).or_default() += 1;
    }
    summary.samples += timings(&profile.e2e) + timings(&profile.e2e_profiled);
    summary.operator_rows += profile.operators.len();
    let environment = summary.environments.entry(profile.environment.id()).or_default();
    environment.description = profile.environment.describe();
    let format = profile.environment.memory_format.map_or("any format", MemoryFormat::name);
    let settings = profile.environment.settings_after(", ");
    environment.asked = format!("{}, {format}{settings}", profile.environment.precision);
    if let Some(executed) = profile.executed.filter(|_| profile.status == Status::Ok) {
        *environment
            .executed
            .entry(format!("{}, {}", executed.precision, executed.memory_format))
            .or_default() += 1;
    }
    environment.peak_memory_bytes = environment.peak_memory_bytes.max(profile.peak_memory_bytes);
    environment.runs += 1;
    environment.sessions.entry(profile.session.clone()).or_default().insert(profile.round);
    if let Status::Failed(reason) = &profile.status {
        environment.failed += 1;
        *summary.failed.entry(reason.clone()).or_default() += 1;
    }
    for measurement in &profile.operators {
        let kind = summary.kinds.entry(String::from(measurement.op.kind.clone())).or_default();
        kind.rows += 1;
        kind.samples += timings(&measurement.samples);
        summary.samples += timings(&measurement.samples);
        if let Status::Failed(reason) = &measurement.status {
            *summary.failed_operators.entry(reason.clone()).or_default() += 1;
        }
    }
}

fn count_distinct(summary: &mut Summary, dataset: &Dataset) {
    let operators: std::collections::HashSet<_> =
        dataset.profiles.iter().flat_map(|p| &p.operators).map(|m| &m.op).collect();
    summary.distinct_operators = operators.len();
    for op in operators {
        summary.kinds.entry(String::from(op.kind.clone())).or_default().distinct += 1;
    }
    let mut architectures: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for profile in &dataset.profiles {
        architectures
            .entry(profile.environment.id())
            .or_default()
            .insert(&profile.model.architecture);
    }
    for (id, environment) in &mut summary.environments {
        environment.architectures = architectures.get(id).map_or(0, BTreeSet::len);
    }
}

/// Of each environment, the models of the dataset that it lacks, as many rounds as its rows of the
/// same kind of model have; whole models of a kind without rows as many as those of other kinds.
fn count_not_measured(summary: &mut Summary, dataset: &Dataset) {
    type Runs<'a> = BTreeMap<(&'a str, &'a str), usize>;
    let mut planned: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let mut of_whole: BTreeMap<String, usize> = BTreeMap::new();
    let mut made: BTreeMap<String, Runs<'_>> = BTreeMap::new();
    for profile in &dataset.profiles {
        let id = profile.environment.id();
        let rounds = planned.entry((id.clone(), kind_of(&profile.model))).or_default();
        *rounds = (*rounds).max(profile.protocol.rounds);
        if !profile.model.is_operator() {
            let most = of_whole.entry(id.clone()).or_default();
            *most = (*most).max(profile.protocol.rounds);
        }
        let key = (profile.model.architecture.as_str(), profile.model.name.as_str());
        *made.entry(id).or_default().entry(key).or_default() += 1;
    }
    for (id, environment) in &mut summary.environments {
        for model in &dataset.models {
            let kind = kind_of(model);
            let usual = of_whole.get(id).filter(|_| !model.is_operator());
            let rounds = planned.get(&(id.clone(), kind)).or(usual).copied().unwrap_or(1);
            let key = (model.architecture.as_str(), model.name.as_str());
            let made = made.get(id).and_then(|runs| runs.get(&key)).copied().unwrap_or(0);
            if made < rounds {
                *environment.not_measured.entry(kind.to_owned()).or_default() += rounds - made;
            }
        }
    }
}

fn kind_of(model: &ModelIdentity) -> &str {
    model.space.as_deref().unwrap_or("real")
}

fn sizes(source: &Source) -> BTreeMap<String, u64> {
    match source {
        Source::Folder(folder) => sizes_of_files(folder),
        Source::Lake(lake) => lake.sizes(),
    }
}

fn sizes_of_files(folder: &Path) -> BTreeMap<String, u64> {
    let size = |path: &Path| fs::metadata(path).map(|m| m.len()).unwrap_or(0);
    let mut sizes: BTreeMap<String, u64> = TABLES
        .iter()
        .map(|table| (table.file_name(), size(&folder.join(table.file_name()))))
        .collect();
    sizes.insert(SCHEMA_FILE.to_owned(), size(&folder.join(SCHEMA_FILE)));
    let segments = fs::read_dir(folder.join(journal::FOLDER)).into_iter().flatten().flatten();
    sizes.insert(journal::FOLDER.to_owned(), segments.map(|segment| size(&segment.path())).sum());
    sizes
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        Store,
        simulated::{append_all, profile, stored},
    };

    #[test]
    fn counts_agree_with_what_was_stored() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = stored(folder.path(), 20);
        let extra = profile(0, &graphs[&profiles[0].model.architecture], "tuesday", 4, 3);
        append_all(&mut Store::open_or_create(folder.path()).unwrap(), &[extra], &graphs);
        let summary = inspect(folder.path()).unwrap();
        assert_eq!((summary.runs, summary.runs_in_journal), (41, 1));
        assert_eq!(
            (summary.synthetic_models, summary.real_models, summary.models_without_graph),
            (18, 2, 0)
        );
        assert_eq!(summary.failed, BTreeMap::from([("out of memory".to_owned(), 2)]));
        assert_eq!(summary.origins, BTreeMap::from([("simulated".to_owned(), 41)]));
        assert_eq!(summary.operator_rows, 38 * 6 + 6);
        assert_eq!(summary.samples, 38 * 5 * 8 + 3 * 8);
        let environment = summary.environments.values().next().unwrap();
        assert_eq!((environment.runs, environment.failed, environment.architectures), (41, 2, 20));
        assert_eq!(
            (environment.asked.as_str(), environment.peak_memory_bytes),
            ("f32, any format", Some(1 << 20))
        );
        assert_eq!(environment.executed, BTreeMap::from([("f32, channels_first".to_owned(), 39)]));
        assert_eq!(environment.sessions["tuesday"], BTreeSet::from([4]));
        assert_eq!(summary.kinds["gelu"].rows, 39 * 2);
        assert!(summary.size_bytes.values().all(|&size| size > 0), "{:?}", summary.size_bytes);
    }

    #[test]
    fn the_digest_depends_on_samples_and_not_on_the_order_of_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (mut profiles, _) = stored(folder.path(), 5);
        let whole = digest(&profiles);
        assert_eq!(inspect(folder.path()).unwrap().digest, whole);
        profiles.reverse();
        assert_eq!(digest(&profiles), whole);
        let changed = profiles.iter_mut().find_map(|run| run.e2e.wall_ns.first_mut()).unwrap();
        *changed += 1;
        assert_ne!(digest(&profiles), whole);
    }
}

//! Samples of a search space as models: [`sample`] draws architectures and builds their graphs,
//! [`write()`] writes them as ONNX files with an index, [`read_index`] reads that index back.
//! [`choices`] are the single changes that keep an architecture in its space.

mod choices;
pub mod small;

pub use choices::{Alternative, Choice, choices};

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph, GraphError, Work,
    onnx::{self, OnnxError, WeightFill, WriteOptions},
};
use vitempo_search_space::{
    Architecture, DenseTask, Space, SpaceError,
    operators::{self, OperatorSample},
};

/// Name of the index inside a folder of samples.
pub const INDEX: &str = "index.csv";
/// Most samples of one call: their graphs are in memory at the same time.
pub const MOST_SAMPLES: usize = 100_000;
/// Columns of the index.
pub const COLUMNS: [&str; 7] =
    ["name", "space", "encoding", "architecture", "macs", "params", "operators"];

/// Search space and encoding of models by name.
pub type Index = BTreeMap<String, (String, String)>;

/// One sampled model.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Space, seed and position.
    pub name: String,
    /// Name of the space.
    pub space: String,
    /// Encoding within the space.
    pub encoding: String,
    /// The model.
    pub graph: Graph,
}

/// Why a space was not sampled, or its samples not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A count of 0, or one above [`MOST_SAMPLES`].
    #[error("cannot sample {0} architectures: between 1 and {MOST_SAMPLES} are possible")]
    Count(usize),
    /// The space cannot be read or has too few architectures.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// An architecture whose graph cannot be built.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A model that cannot be written.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A folder or an index that cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// An index that is there already and is not a table.
    #[error("{}: {reason}", .path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A model of that name is there already, and is another one.
    #[error("{}: it has another architecture with the name `{name}` already", .path.display())]
    Taken {
        /// The index.
        path: PathBuf,
        /// The name.
        name: String,
    },
}

/// Whether the networks of that name are always the same, however many are asked for and whatever
/// the seed.
#[must_use]
pub fn is_fixed(space: &str) -> bool {
    [operators::SERIES, operators::STUDY].contains(&space)
}

/// Whether the networks of that name are of operators or are small models, rather than
/// architectures of a space.
#[must_use]
pub fn is_inventory(space: &str) -> bool {
    let seeded =
        [operators::NAME, operators::BLOCKS, operators::RARE, operators::ENDS, small::NAME];
    is_fixed(space) || seeded.contains(&space)
}

/// Samples a space by name or TOML file, or one of the inventories of operators (`operators`,
/// `operator-blocks`, `rare-operators`, `operator-ends`, `operator-series`, `study-series`), or
/// small models (`small-models`). The same seed gives the same samples; those that [`is_fixed`]
/// names have neither count nor seed.
///
/// # Errors
/// [`SamplingError`] for an unknown space, and for a count that is not possible.
pub fn sample_named(space: &str, count: usize, seed: u64) -> Result<Vec<Sample>, SamplingError> {
    check(count)?;
    let seeded = |samples| named(&format!("{space}-s{seed}"), samples);
    Ok(match space {
        operators::NAME => sample_operators(count, seed)?,
        operators::BLOCKS => seeded(operators::blocks(count, seed)?),
        operators::RARE => seeded(operators::rare(count, seed)?),
        operators::ENDS => seeded(operators::ends(count, seed)?),
        operators::SERIES => named(operators::SERIES, operators::series()?),
        operators::STUDY => named(operators::STUDY, operators::study()?),
        small::NAME => small::small(count, seed)?,
        space => sample(&Space::find(space)?, count, seed)?,
    })
}

/// Samples distinct architectures of a space and builds their graphs.
///
/// # Errors
/// [`SamplingError`] where the space has fewer architectures.
pub fn sample(space: &Space, count: usize, seed: u64) -> Result<Vec<Sample>, SamplingError> {
    drawn(space, count, seed, Architecture::to_graph)
}

fn check(count: usize) -> Result<(), SamplingError> {
    let is_possible = (1..=MOST_SAMPLES).contains(&count);
    if is_possible { Ok(()) } else { Err(SamplingError::Count(count)) }
}

fn drawn(
    space: &Space,
    count: usize,
    seed: u64,
    graph: impl Fn(&Architecture) -> Result<Graph, SpaceError>,
) -> Result<Vec<Sample>, SamplingError> {
    check(count)?;
    let digits = count.saturating_sub(1).to_string().len().max(3);
    let mut samples = Vec::with_capacity(count);
    for (index, architecture) in space.sample_many(count, seed)?.into_iter().enumerate() {
        let name = format!("{}-s{seed}-{index:0digits$}", space.name());
        let graph = graph(&architecture)?;
        samples.push(Sample {
            encoding: graph.name().to_owned(),
            graph: graph.with_name(&name),
            name,
            space: space.name().to_owned(),
        });
    }
    Ok(samples)
}

/// The same architectures as multi-task models: without their heads, with a decoder for each task.
/// Their encodings are not those of the space.
///
/// # Errors
/// As [`sample`], and where the tasks are none, or one is named twice.
pub fn sample_multi_task(
    space: &Space,
    tasks: &[DenseTask],
    count: usize,
    seed: u64,
) -> Result<Vec<Sample>, SamplingError> {
    drawn(space, count, seed, |architecture| architecture.to_multi_task_graph(tasks))
}

/// Samples small networks around single operators, which a space may lack.
///
/// # Errors
/// [`SamplingError`] where the inventory has fewer.
pub fn sample_operators(count: usize, seed: u64) -> Result<Vec<Sample>, SamplingError> {
    Ok(named(&format!("{}-s{seed}", operators::NAME), operators::sample(count, seed)?))
}

fn named(prefix: &str, samples: Vec<OperatorSample>) -> Vec<Sample> {
    let sample = |s: OperatorSample| {
        let name = format!("{prefix}-{}", s.encoding);
        Sample {
            graph: s.graph.with_name(&name),
            name,
            space: operators::NAME.to_owned(),
            encoding: s.encoding,
        }
    };
    samples.into_iter().map(sample).collect()
}

/// Writes samples as ONNX files into `folder`, and their index. Rows that an earlier index has of
/// other models stay. `written` is called after each file.
///
/// # Errors
/// [`SamplingError::Taken`], before anything is written, where the index has a sample's name with
/// another architecture, as that of another definition of the space. Other [`SamplingError`]s name
/// the file; files written before it stay.
pub fn write(
    folder: &Path,
    samples: &[Sample],
    weights: WeightFill,
    written: &mut dyn FnMut(),
) -> Result<(), SamplingError> {
    let path = folder.join(INDEX);
    let known = architectures(&path);
    let is_taken = |sample: &&Sample| {
        known.get(&sample.name).is_some_and(|known| *known != sample.graph.architecture())
    };
    match samples.iter().find(is_taken) {
        Some(sample) => Err(SamplingError::Taken { path, name: sample.name.clone() }),
        None => write_over(folder, samples, weights, written),
    }
}

/// Digests of the architectures that an index has, by name.
fn architectures(index: &Path) -> BTreeMap<String, String> {
    let Ok(mut reader) = csv::Reader::from_path(index) else { return BTreeMap::new() };
    let row = |row: csv::StringRecord| Some((row.get(0)?.to_owned(), row.get(3)?.to_owned()));
    let rows = reader.records().flatten().filter_map(row);
    rows.filter(|(_, architecture)| !architecture.is_empty()).collect()
}

/// The same, in place of models of these names.
pub(crate) fn write_over(
    folder: &Path,
    samples: &[Sample],
    weights: WeightFill,
    written: &mut dyn FnMut(),
) -> Result<(), SamplingError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SamplingError::Io { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    for sample in samples {
        let file = folder.join(format!("{}.onnx", sample.name));
        onnx::write_file(&file, &sample.graph, &WriteOptions { weights })?;
        written();
    }
    let path = folder.join(INDEX);
    let names: BTreeSet<&str> = samples.iter().map(|s| s.name.as_str()).collect();
    let index = index(samples, &path, &|name| !names.contains(name))?;
    vitempo_graph::files::write_whole(&path, &index).map_err(failed(&path))
}

/// Removes the rows of models from the index of a folder, where there is one.
pub(crate) fn forget(folder: &Path, is_gone: &dyn Fn(&str) -> bool) -> Result<(), SamplingError> {
    let path = folder.join(INDEX);
    if !path.exists() {
        return Ok(());
    }
    let index = index(&[], &path, &|name| !is_gone(name))?;
    let failed = |source| SamplingError::Io { path: path.clone(), source };
    vitempo_graph::files::write_whole(&path, &index).map_err(failed)
}

/// The index of these samples as CSV, with the rows that `path` has already of other models that
/// stay.
fn index(
    samples: &[Sample],
    path: &Path,
    stays: &dyn Fn(&str) -> bool,
) -> Result<Vec<u8>, SamplingError> {
    let damaged = |e: &dyn std::error::Error| SamplingError::Index {
        path: path.to_owned(),
        reason: e.to_string(),
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS).map_err(|e| damaged(&e))?;
    for sample in samples {
        writer.write_record(row(sample)).map_err(|e| damaged(&e))?;
    }
    if let Ok(mut reader) = csv::Reader::from_path(path) {
        for record in reader.records() {
            let mut record = record.map_err(|e| damaged(&e))?;
            if record.get(0).is_some_and(stays) {
                // An index may name models and encodings alone.
                (record.len()..COLUMNS.len()).for_each(|_| record.push_field(""));
                writer.write_record(&record).map_err(|e| damaged(&e))?;
            }
        }
    }
    writer.into_inner().map_err(|e| damaged(&e))
}

/// A sample's row in the index, by [`COLUMNS`].
#[must_use]
pub fn row(sample: &Sample) -> [String; COLUMNS.len()] {
    let work = Work::of_graph(&sample.graph);
    [
        sample.name.clone(),
        sample.space.clone(),
        sample.encoding.clone(),
        sample.graph.architecture(),
        work.macs.to_string(),
        work.params.to_string(),
        sample.graph.nodes().len().to_string(),
    ]
}

/// Reads the index of a folder of samples; `None` where the folder has none.
#[must_use]
pub fn read_index(folder: &Path) -> Option<Index> {
    let mut reader = csv::Reader::from_path(folder.join(INDEX)).ok()?;
    if reader.headers().ok()?.iter().take(3).ne(COLUMNS[..3].iter().copied()) {
        return None;
    }
    let row = |r: csv::StringRecord| {
        Some((r.get(0)?.to_owned(), (r.get(1)?.to_owned(), r.get(2)?.to_owned())))
    };
    Some(reader.records().flatten().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_keeps_the_rows_of_other_models() {
        let folder = tempfile::tempdir().expect("a folder");
        let space = Space::named("hybrid-vit").expect("a space");
        for seed in [1, 2, 1] {
            let samples = sample(&space, 2, seed).expect("samples");
            write(folder.path(), &samples, WeightFill::Omitted, &mut || ()).expect("written");
        }
        let index = read_index(folder.path()).expect("an index");
        assert_eq!(index.len(), 4, "{index:?}");
        assert!(index.values().all(|(space, _)| space == "hybrid-vit"));
    }

    #[test]
    fn another_architecture_of_a_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let space = Space::named("isotropic-vit").expect("a space");
        let plain = sample(&space, 2, 1).expect("samples");
        let tasks = [DenseTask::Depth];
        let decoders = sample_multi_task(&space, &tasks, 2, 1).expect("multi-task models");
        assert_eq!(plain[0].name, decoders[0].name);
        let put = |samples| write(folder.path(), samples, WeightFill::Omitted, &mut || ());
        put(&plain).expect("written");
        let refused = put(&decoders);
        assert!(
            matches!(&refused, Err(SamplingError::Taken { name, .. }) if *name == plain[0].name),
            "{refused:?}"
        );
        put(&plain).expect("the same again");
        let index = read_index(folder.path()).expect("an index");
        assert_eq!(index[&plain[0].name].1, plain[0].encoding);
    }

    #[test]
    fn fixed_networks_depend_on_neither_count_nor_seed() {
        let names = |space: &str, count, seed| -> Vec<String> {
            let samples = sample_named(space, count, seed).expect("samples");
            samples.into_iter().map(|sample| sample.name).collect()
        };
        for space in [operators::NAME, operators::SERIES, "isotropic-vit", small::NAME] {
            let is_same = names(space, 2, 1) == names(space, 3, 2);
            assert_eq!(is_same, is_fixed(space), "{space}");
            assert_eq!(is_inventory(space), Space::find(space).is_err(), "{space}");
        }
    }

    #[test]
    fn multi_task_models_have_their_own_encodings() {
        let space = Space::named("isotropic-vit").expect("a space");
        let tasks = [DenseTask::Depth, DenseTask::Normals];
        let [plain] = &sample(&space, 1, 5).expect("a sample")[..] else { panic!("one sample") };
        let models = sample_multi_task(&space, &tasks, 1, 5).expect("a multi-task model");
        assert_eq!(models[0].encoding, format!("{}+depth+normals", plain.encoding));
        assert!(space.decode(&models[0].encoding).is_err(), "not an architecture of the space");
        assert_ne!(models[0].graph.architecture(), plain.graph.architecture());
    }

    #[test]
    fn impossible_counts_are_refused() {
        for count in [0, MOST_SAMPLES + 1] {
            let refused = sample_named("hybrid-vit", count, 0);
            assert!(matches!(refused, Err(SamplingError::Count(c)) if c == count));
        }
    }
}

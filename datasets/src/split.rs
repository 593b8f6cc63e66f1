//! [`split`]: divides a dataset by architecture into models for training and models
//! for testing.
//!
//! Each architecture has a rank, the BLAKE3 digest of seed and architecture as a number in [0, 1),
//! which depends on nothing else. With a test fraction f, architectures of a rank below f are test
//! architectures, so that models added later do not move the others. Models that were not sampled
//! from a space are real models: they are always held out, as a set of their own.

use crate::{Dataset, DatasetError, files::write_whole};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const SPLIT_FORMAT: &str = "vitempo-split";
const SPLIT_VERSION: u64 = 1;

/// The sizes of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitSize {
    /// This share of the synthetic architectures is test, about; stable when models are added.
    TestFraction(f64),
    /// Exact numbers of synthetic architectures; the remaining ones are on neither side.
    Counts {
        /// For training.
        train: usize,
        /// For testing.
        test: usize,
    },
}

/// Architectures for training and architectures for testing; no architecture is in two lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    format: String,
    schema_version: u64,
    /// Seed it was made with.
    pub seed: u64,
    /// Size it was made with.
    pub size: SplitSize,
    /// Synthetic training architectures, and all networks around single operators, sorted.
    pub train: Vec<String>,
    /// Synthetic architectures held out, sorted.
    pub test: Vec<String>,
    /// Real architectures, held out, sorted.
    pub real: Vec<String>,
}

/// Splits the architectures that have a successful model run, other than of memory alone.
///
/// # Errors
/// [`DatasetError::Empty`] without a successful model run; [`DatasetError::NoLatencies`] where all
/// of them measured memory alone; [`DatasetError::Split`] when a list
/// would be empty, or the size asks for more than there is.
pub fn split(dataset: &Dataset, size: SplitSize, seed: u64) -> Result<Split, DatasetError> {
    let refuse = |reason: String| DatasetError::Split { path: dataset.path.clone(), reason };
    let mut runs = dataset.successful()?;
    let successful = runs.len();
    runs.retain(|run| !run.is_of_memory_alone());
    if runs.is_empty() {
        return Err(DatasetError::NoLatencies { path: dataset.path.clone(), runs: successful });
    }
    let (operators, models): (Vec<_>, Vec<_>) =
        runs.into_iter().partition(|p| p.model.is_operator());
    let mut real: BTreeMap<&str, bool> = BTreeMap::new();
    for profile in models {
        *real.entry(&profile.model.architecture).or_default() |= profile.model.space.is_none();
    }
    let synthetic: Vec<&str> =
        real.iter().filter(|(_, real)| !**real).map(|(architecture, _)| *architecture).collect();
    let (train, test) = match size {
        SplitSize::TestFraction(fraction) if fraction > 0.0 && fraction < 1.0 => {
            synthetic
                .iter()
                .partition::<Vec<&str>, _>(|architecture| rank(seed, architecture) >= fraction)
        }
        SplitSize::TestFraction(fraction) => {
            return Err(refuse(format!("a test fraction of {fraction} is not between 0 and 1")));
        }
        SplitSize::Counts { train, test } => {
            by_counts(&synthetic, seed, train, test).map_err(refuse)?
        }
    };
    if train.is_empty() || test.is_empty() {
        let reason = format!(
            "{} synthetic architectures give {} to train and {} to test; at least one of each is \
            needed",
            synthetic.len(),
            train.len(),
            test.len()
        );
        return Err(refuse(reason));
    }
    let operators: BTreeSet<&str> = operators
        .iter()
        .map(|p| p.model.architecture.as_str())
        .filter(|a| !real.contains_key(a))
        .collect();
    let train = train.into_iter().chain(operators).collect();
    let real = real
        .iter()
        .filter(|(_, real)| **real)
        .map(|(architecture, _)| (*architecture).to_owned())
        .collect();
    Ok(Split {
        format: SPLIT_FORMAT.to_owned(),
        schema_version: SPLIT_VERSION,
        seed,
        size,
        train: sorted(train),
        test: sorted(test),
        real,
    })
}

fn by_counts<'a>(
    synthetic: &[&'a str],
    seed: u64,
    train: usize,
    test: usize,
) -> Result<(Vec<&'a str>, Vec<&'a str>), String> {
    let wanted = train.saturating_add(test);
    if wanted > synthetic.len() {
        return Err(format!(
            "{train} to train and {test} to test are {wanted}, but there are {} synthetic \
            architectures with a successful run",
            synthetic.len()
        ));
    }
    let mut ranked = synthetic.to_vec();
    ranked.sort_by(|a, b| rank(seed, a).total_cmp(&rank(seed, b)).then(a.cmp(b)));
    Ok((ranked[test..wanted].to_vec(), ranked[..test].to_vec()))
}

fn sorted(architectures: Vec<&str>) -> Vec<String> {
    let mut owned: Vec<String> = architectures.into_iter().map(str::to_owned).collect();
    owned.sort();
    owned
}

/// A number in [0, 1) that only the seed and the architecture decide: the upper 53 bits of the
/// digest.
pub(crate) fn rank(seed: u64, architecture: &str) -> f64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(architecture.as_bytes());
    let mut first = [0u8; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    (u64::from_le_bytes(first) >> 11) as f64 / (1u64 << 53) as f64
}

impl Split {
    /// Writes it as JSON, whole or not at all.
    ///
    /// # Errors
    /// [`DatasetError::Io`] with the path.
    pub fn save(&self, path: &Path) -> Result<(), DatasetError> {
        let json = serde_json::to_string_pretty(self).map_err(|e| DatasetError::Unstorable {
            what: "the split".to_owned(),
            reason: e.to_string(),
        })?;
        write_whole(path, format!("{json}\n").as_bytes())
    }

    /// Reads what [`Split::save`] wrote.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file: not a split, another version, or an architecture in two
    /// lists.
    pub fn load(path: &Path) -> Result<Self, DatasetError> {
        let foreign = |reason: String| DatasetError::Split { path: path.to_owned(), reason };
        let text = vitempo_graph::files::read_text(path).map_err(DatasetError::io("read", path))?;
        let value: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| foreign(format!("the file is not JSON: {e}")))?;
        if value["format"] != SPLIT_FORMAT {
            return Err(foreign(format!("the file does not say `\"format\": \"{SPLIT_FORMAT}\"`")));
        }
        match value["schema_version"].as_u64() {
            Some(SPLIT_VERSION) => {}
            found => {
                return Err(foreign(format!(
                    "the file has split version {found:?}, this version of vitempo reads \
                    {SPLIT_VERSION}; make the split again"
                )));
            }
        }
        let split: Self = serde_json::from_value(value).map_err(|e| foreign(e.to_string()))?;
        let mut seen = BTreeSet::new();
        match split
            .train
            .iter()
            .chain(&split.test)
            .chain(&split.real)
            .find(|architecture| !seen.insert(*architecture))
        {
            Some(twice) => Err(foreign(format!("architecture {twice} is in it twice"))),
            None => Ok(split),
        }
    }
}

#[cfg(all(test, feature = "write"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulated::{of_memory_alone, sweep};
    use std::fs;

    fn dataset(models: usize) -> Dataset {
        let (profiles, graphs) = sweep(models, 3, 2);
        Dataset { profiles, graphs, ..Dataset::default() }
    }

    #[test]
    fn train_test_and_real_share_nothing_and_the_seed_decides() {
        let dataset = dataset(100);
        for size in [SplitSize::TestFraction(0.2), SplitSize::Counts { train: 72, test: 18 }] {
            let one = split(&dataset, size, 7).unwrap();
            assert_eq!(one, split(&dataset, size, 7).unwrap());
            assert_ne!(one.test, split(&dataset, size, 8).unwrap().test);
            let all: BTreeSet<&String> =
                one.train.iter().chain(&one.test).chain(&one.real).collect();
            assert_eq!(
                (all.len(), one.train.len() + one.test.len(), one.real.len()),
                (100, 90, 10),
                "{size:?}"
            );
            assert!((9..=27).contains(&one.test.len()), "{size:?}: {}", one.test.len());
        }
    }

    #[test]
    fn single_operators_are_always_training_data() {
        let mut dataset = dataset(40);
        let operators: Vec<String> =
            dataset.profiles.iter().step_by(4).map(|p| p.model.architecture.clone()).collect();
        for profile in
            dataset.profiles.iter_mut().filter(|p| operators.contains(&p.model.architecture))
        {
            profile.model.space = Some(vitempo_graph::ModelIdentity::OPERATORS.to_owned());
        }
        for size in [SplitSize::TestFraction(0.5), SplitSize::Counts { train: 5, test: 20 }] {
            let split = split(&dataset, size, 1).unwrap();
            assert!(
                operators.iter().all(|a| split.train.contains(a)
                    && !split.test.contains(a)
                    && !split.real.contains(a)),
                "{size:?}"
            );
        }
    }

    #[test]
    fn measurements_of_memory_alone_are_on_no_side() {
        let mut dataset = dataset(40);
        let size = SplitSize::TestFraction(0.5);
        let others = split(&dataset, size, 1).unwrap();
        let (more, _) = sweep(45, 3, 2);
        dataset.profiles.extend(more[40..45].iter().map(of_memory_alone));
        assert_eq!(split(&dataset, size, 1).unwrap(), others);
        dataset.profiles = dataset.profiles.iter().map(of_memory_alone).collect();
        let refused = split(&dataset, size, 1);
        assert!(matches!(refused, Err(DatasetError::NoLatencies { .. })), "{refused:?}");
    }

    #[test]
    fn models_added_later_move_none() {
        let (small, large) = (dataset(60), dataset(120));
        let before = split(&small, SplitSize::TestFraction(0.25), 3).unwrap();
        let after = split(&large, SplitSize::TestFraction(0.25), 3).unwrap();
        assert!(
            before.train.iter().all(|a| after.train.contains(a))
                && before.test.iter().all(|a| after.test.contains(a))
        );
    }

    #[test]
    fn refuses_sizes_that_cannot_be() {
        let empty = Dataset::default();
        assert!(matches!(
            split(&empty, SplitSize::TestFraction(0.2), 0),
            Err(DatasetError::Empty { .. })
        ));
        for (models, size) in [
            (1, SplitSize::TestFraction(0.5)),
            (20, SplitSize::TestFraction(0.0)),
            (20, SplitSize::TestFraction(f64::NAN)),
            (20, SplitSize::Counts { train: 18, test: 1 }),
            (20, SplitSize::Counts { train: 18, test: 0 }),
            (20, SplitSize::Counts { train: usize::MAX, test: 2 }),
        ] {
            assert!(
                matches!(split(&dataset(models), size, 0), Err(DatasetError::Split { .. })),
                "{models} {size:?}"
            );
        }
    }

    #[test]
    fn saved_splits_load_and_broken_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("split.json");
        let split = split(&dataset(30), SplitSize::Counts { train: 20, test: 5 }, 1).unwrap();
        split.save(&path).unwrap();
        assert_eq!(Split::load(&path).unwrap(), split);
        let text = fs::read_to_string(&path).unwrap();
        for broken in [
            text.replace("vitempo-split", "other"),
            text.replace(&split.test[0], &split.train[0]),
            text.replace("version\": 1", "version\": 2"),
            text[..50].to_owned(),
        ] {
            fs::write(&path, broken).unwrap();
            assert!(matches!(Split::load(&path), Err(DatasetError::Split { .. })));
        }
    }
}

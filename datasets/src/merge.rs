//! [`merge`]: several datasets into a new one. A model run that is in two of them counts once;
//! contradictory copies are an error.

use crate::{
    Dataset, DatasetError, Store,
    assembly::{Known, Shared},
    store::write_tables,
};
use std::path::Path;

/// Joins datasets, in the order given, into a new folder, and reports what had to be left out of
/// them.
///
/// # Errors
/// As [`Dataset::load`] and [`Store::open_or_create`]; [`DatasetError::Conflict`] and
/// [`DatasetError::ModelConflict`] when two say different things of one model run or model;
/// [`DatasetError::NotADataset`] when `out` holds models or measurements already.
pub fn merge(folders: &[&Path], out: &Path) -> Result<Dataset, DatasetError> {
    let mut merged = Dataset { path: out.to_owned(), ..Dataset::default() };
    let (mut known, mut shared) = (Known::new(out), Shared::default());
    for folder in folders {
        let mut dataset = Dataset::load(folder)?;
        for identity in dataset.models {
            let graph = dataset.graphs.remove(&identity.architecture);
            known.add_model(&mut merged, identity, graph)?;
        }
        for mut profile in dataset.profiles {
            shared.share(&mut profile);
            known.add_run(&mut merged, profile)?;
        }
        merged.warnings.extend(dataset.warnings);
    }
    let store = Store::open_empty(out, "merge")?;
    write_tables(out, &merged)?;
    store.filled()?;
    Ok(merged)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulated::{append_all, stored, sweep};
    use vitempo_graph::ModelProfile;

    fn other_session(profiles: &[ModelProfile]) -> Vec<ModelProfile> {
        profiles.iter().cloned().map(|p| ModelProfile { session: "tuesday".into(), ..p }).collect()
    }

    #[test]
    fn joins_and_counts_what_is_in_both_once() {
        let (one, two, out) = (
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let (profiles, graphs) = stored(one.path(), 4);
        let (larger, more_graphs) = sweep(6, 6, 5);
        let tuesday = other_session(&larger);
        let mut store = Store::open_or_create(two.path()).unwrap();
        append_all(&mut store, &profiles, &graphs);
        append_all(&mut store, &tuesday, &more_graphs);
        drop(store);
        merge(&[one.path(), two.path()], out.path()).unwrap();
        let dataset = Dataset::load(out.path()).unwrap();
        assert_eq!(dataset.profiles, [profiles, tuesday].concat());
        assert_eq!((dataset.graphs, dataset.models.len()), (more_graphs, 6));
        assert!(matches!(merge(&[one.path()], out.path()), Err(DatasetError::NotADataset { .. })));
    }

    /// A killed `vitempo profile` leaves its models in the journal.
    #[test]
    fn a_folder_that_holds_models_alone_is_not_written_into() {
        let one = tempfile::tempdir().unwrap();
        let (profiles, graphs) = stored(one.path(), 2);
        for is_compacted in [false, true] {
            let out = tempfile::tempdir().unwrap();
            let mut store = Store::open_or_create(out.path()).unwrap();
            let model = &profiles[0].model;
            store.append_model(model, &graphs[&model.architecture]).unwrap();
            if is_compacted {
                store.compact().unwrap();
            }
            drop(store);
            let error = merge(&[one.path()], out.path()).unwrap_err();
            assert!(error.to_string().contains("it holds models"), "{error}");
            let kept = Dataset::load(out.path()).unwrap();
            assert_eq!((kept.models.len(), kept.profiles.len()), (1, 0), "{is_compacted}");
        }
    }

    #[test]
    fn refuses_contradictions() {
        let (one, two, out) = (
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let (profiles, graphs) = stored(one.path(), 2);
        let mut other = profiles[0].clone();
        other.e2e.wall_ns[0] += 1;
        append_all(&mut Store::open_or_create(two.path()).unwrap(), &[other], &graphs);
        assert!(matches!(
            merge(&[one.path(), two.path()], out.path()),
            Err(DatasetError::Conflict { .. })
        ));
    }
}

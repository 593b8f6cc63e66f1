//! [`merge`]: several datasets into a new one, perhaps without some environments. A visit that is in two of them counts once; one that contradicts itself
//! is an error.

use crate::{
    Dataset, DatasetError, Store,
    assembly::{Known, Shared},
    store::write_tables,
};
use std::path::Path;

/// Joins datasets, in the order given, into a new folder, and reports what had to be left out of them. Environments whose identifier is in `without` stay
/// behind, and so do models that were measured in no other.
///
/// # Errors
/// As [`Dataset::load`] and [`Store::open_or_create`]; [`DatasetError::Conflict`] when two say different things of one visit or model;
/// [`DatasetError::NotADataset`] when `out` holds measurements already.
pub fn merge(folders: &[&Path], without: &[String], out: &Path) -> Result<Dataset, DatasetError> {
    let mut merged = Dataset { path: out.to_owned(), ..Dataset::default() };
    let (mut known, mut shared) = (Known::new(out), Shared::default());
    for folder in folders {
        let wanted = |id: &str| without.iter().all(|left| left != id);
        let mut dataset = if without.is_empty() { Dataset::load(folder)? } else { Dataset::load_environment(folder, wanted)? };
        for identity in dataset.models {
            let graph = dataset.graphs.remove(&identity.architecture);
            known.add_model(&mut merged, identity, graph)?;
        }
        for mut profile in dataset.profiles {
            shared.share(&mut profile);
            known.add_visit(&mut merged, profile)?;
        }
        merged.warnings.extend(dataset.warnings);
    }
    let _held = Store::open_empty(out, "merge")?;
    write_tables(out, &merged)?;
    Ok(merged)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulated::{append_all, stored, sweep};
    use vitempo_graph::ModelProfile;

    fn other_sitting(profiles: &[ModelProfile]) -> Vec<ModelProfile> {
        profiles.iter().cloned().map(|p| ModelProfile { sitting: "tuesday".into(), ..p }).collect()
    }

    #[test]
    fn joins_and_counts_what_is_in_both_once() {
        let (one, two, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (profiles, graphs) = stored(one.path(), 4);
        let (larger, more_graphs) = sweep(6, 6, 5);
        let tuesday = other_sitting(&larger);
        let mut store = Store::open_or_create(two.path()).unwrap();
        append_all(&mut store, &profiles, &graphs);
        append_all(&mut store, &tuesday, &more_graphs);
        drop(store);
        merge(&[one.path(), two.path()], &[], out.path()).unwrap();
        let dataset = Dataset::load(out.path()).unwrap();
        assert_eq!(dataset.profiles, [profiles, tuesday].concat());
        assert_eq!((dataset.graphs, dataset.models.len()), (more_graphs, 6));
        assert!(matches!(merge(&[one.path()], &[], out.path()), Err(DatasetError::NotADataset { .. })));
    }

    #[test]
    fn environments_may_stay_behind_with_the_models_that_only_they_measured() {
        let (one, two, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (profiles, graphs) = stored(one.path(), 4);
        let (mut larger, more_graphs) = sweep(6, 6, 5);
        larger.iter_mut().for_each(|p| p.environment.threads += 1);
        append_all(&mut Store::open_or_create(two.path()).unwrap(), &larger, &more_graphs);
        let left = larger[0].environment.id();
        assert!(larger.iter().all(|p| p.environment.id() == left) && profiles.iter().all(|p| p.environment.id() != left));
        merge(&[one.path(), two.path()], &[left], out.path()).unwrap();
        let dataset = Dataset::load(out.path()).unwrap();
        assert_eq!((dataset.profiles, dataset.graphs), (profiles, graphs));
    }

    #[test]
    fn refuses_contradictions() {
        let (one, two, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (profiles, graphs) = stored(one.path(), 2);
        let mut other = profiles[0].clone();
        other.e2e.wall_ns[0] += 1;
        append_all(&mut Store::open_or_create(two.path()).unwrap(), &[other], &graphs);
        assert!(matches!(merge(&[one.path(), two.path()], &[], out.path()), Err(DatasetError::Conflict { .. })));
    }
}

//! The folder of a search: [`write()`] writes the members of a front as model files with an index,
//! [`clear`] removes what an earlier search wrote there.

use super::{Outcome, member_name};
use crate::sampling::{self, Sample, SamplingError};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use vitempo_graph::onnx::WeightFill;
use vitempo_search_space::{Space, SpaceError};

/// The front as JSON; a folder that has it is that of a search.
pub const JSON: &str = "front.json";
/// The front as a table.
pub const CSV: &str = "front.csv";

/// Writes the members of a front as ONNX files, and puts them into the index of the folder, whose
/// rows of other models stay.
///
/// # Errors
/// [`SamplingError`] names the file.
pub fn write(
    folder: &Path,
    space: &Space,
    outcome: &Outcome,
    weights: WeightFill,
) -> Result<Vec<PathBuf>, SamplingError> {
    let samples = (0..outcome.front.len())
        .map(|place| sample(space, outcome, place))
        .collect::<Result<Vec<Sample>, SpaceError>>()?;
    sampling::write_over(folder, &samples, weights, &mut || ())?;
    Ok(samples.iter().map(|sample| folder.join(format!("{}.onnx", sample.name))).collect())
}

/// A member of the front as a model.
pub(super) fn sample(space: &Space, outcome: &Outcome, place: usize) -> Result<Sample, SpaceError> {
    let architecture = &outcome.front[place].architecture;
    let name = member_name(space, place);
    Ok(Sample {
        graph: architecture.to_graph()?.with_name(&name),
        name,
        space: space.name().to_owned(),
        encoding: architecture.encode(),
    })
}

/// Removes the models, their rows in the index, the tables and the plots of an earlier search.
/// Other files, and the measurements of the front, stay.
///
/// # Errors
/// [`SamplingError`] names the file that cannot be removed, or the index that cannot be read.
pub fn clear(folder: &Path) -> Result<(), SamplingError> {
    if !folder.join(JSON).exists() {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| SamplingError::Io { path, source }
    };
    sampling::forget(folder, &is_member)?;
    // What makes it the folder of a search goes last.
    let mut last = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        match name {
            JSON => last.push(path),
            name if is_of_a_search(name) => fs::remove_file(&path).map_err(failed(&path))?,
            _ => {}
        }
    }
    last.iter().try_for_each(|path| fs::remove_file(path).map_err(failed(path)))
}

fn is_of_a_search(file: &str) -> bool {
    let is_plot = |stem: &str| {
        stem.strip_prefix("front")
            .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
    };
    match file.rsplit_once('.') {
        Some((stem, "onnx")) => is_member(stem),
        Some((stem, "svg")) => is_plot(stem),
        _ => file == CSV || file == JSON,
    }
}

/// Whether it is a name by [`member_name`].
fn is_member(name: &str) -> bool {
    name.rsplit_once("-front-").is_some_and(|(_, place)| place.len() >= 3 && is_number(place))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_search_wrote_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let theirs = ["mine-front-view.onnx", "a-front-01.onnx", "front-x.svg", "notes.csv"];
        let ours = ["mbconv-front-000.onnx", "my-front-1000.onnx", "front.svg", "front-2.svg", CSV];
        theirs.iter().chain(&ours).for_each(|name| fs::write(at(name), "x").expect("written"));
        let index = "name,space,encoding\nmbconv-front-000,mbconv,e0\nmbconv-s1-000,mbconv,e1\n";
        fs::write(at(sampling::INDEX), index).expect("written");
        clear(folder.path()).expect("nothing to remove");
        assert!(ours.iter().all(|name| at(name).exists()), "it is no folder of a search");
        fs::write(at(JSON), "{}").expect("written");
        clear(folder.path()).expect("removed");
        assert!(theirs.iter().all(|name| at(name).exists()));
        assert!(ours.iter().chain([&JSON]).all(|name| !at(name).exists()));
        let index = sampling::read_index(folder.path()).expect("an index");
        assert_eq!(index.keys().collect::<Vec<_>>(), ["mbconv-s1-000"]);
    }
}

//! Parts of a divided model as ONNX files: all of them, or none.

use std::{
    fs, io,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph,
    onnx::{self, OnnxError},
};

/// Why the parts cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WritePartsError {
    /// The file cannot be divided.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A part cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Cuts the file `model`, which `graph` was read from, into one file per name, called
/// `MODEL.NAME.onnx`, in `folder`; `part_of` has the part of every node. The files are first
/// written beside the folder: if any step fails, the folder is unchanged. Returns their paths.
///
/// # Errors
/// [`WritePartsError`] when the file cannot be divided like this, or a part cannot be written.
pub fn write(
    model: &Path,
    graph: &Graph,
    part_of: &[usize],
    names: &[&str],
    folder: &Path,
) -> Result<Vec<PathBuf>, WritePartsError> {
    let parts = onnx::divide(model, graph, part_of, names)?;
    let named = |name: &&str| format!("{}.{name}.onnx", graph.name());
    let files: Vec<(String, Vec<u8>)> = names.iter().map(named).zip(parts).collect();
    let failed = |source| WritePartsError::Write { path: folder.to_owned(), source };
    let unfinished = beside(folder);
    let written =
        write_all(&unfinished, &files).and_then(|()| publish(&unfinished, folder, &files));
    if written.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    written.map_err(failed)?;
    Ok(files.into_iter().map(|(name, _)| folder.join(name)).collect())
}

/// The path of a new folder on the same disk.
fn beside(folder: &Path) -> PathBuf {
    let name = folder.file_name().map_or_else(|| "parts".into(), |name| name.to_string_lossy());
    let parent = if folder.file_name().is_some() { folder.parent() } else { Some(folder) };
    parent.unwrap_or(Path::new("")).join(format!(".{name}.unfinished-{}", std::process::id()))
}

fn write_all(folder: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    files.iter().try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes))
}

/// Moves the written files to the folder.
fn publish(unfinished: &Path, folder: &Path, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    if !folder.exists() {
        return fs::rename(unfinished, folder);
    }
    files.iter().try_for_each(|(name, _)| fs::rename(unfinished.join(name), folder.join(name)))?;
    fs::remove_dir(unfinished)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

    /// A model of three operators in a file, and its graph.
    fn model(folder: &Path) -> (PathBuf, Graph) {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([2, 8]));
        let w = b.weight("w", TensorSpec::f32([8, 8]));
        let y = b.op("a", OpKind::Linear, Attributes::new(), &[x, w]).unwrap();
        let z = b.op("b", OpKind::Relu, Attributes::new(), &[y]).unwrap();
        let z = b.op("c", OpKind::Add, Attributes::new(), &[y, z]).unwrap();
        let path = folder.join("m.onnx");
        let graph = b.finish(vec![z]).unwrap();
        onnx::write_file(&path, &graph, &onnx::WriteOptions::default()).unwrap();
        let graph = onnx::read_file(&path, &onnx::ReadOptions::default()).unwrap();
        (path, graph)
    }

    fn entries(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let (path, graph) = model(folder.path());
        let (halves, names) = (folder.path().join("halves"), ["device", "server"]);
        let backwards = write(&path, &graph, &[0, 1, 0], &names, &halves).unwrap_err().to_string();
        assert!(backwards.contains("the later part `server` computes"), "{backwards}");
        assert_eq!(entries(folder.path()), ["m.onnx"]);
        for part_of in [[0, 1, 1], [0, 0, 1]] {
            let written = write(&path, &graph, &part_of, &names, &halves).unwrap();
            assert!(written.iter().all(|path| path.is_file()));
            assert_eq!(entries(folder.path()), ["halves", "m.onnx"]);
            assert_eq!(entries(&halves), ["m.device.onnx", "m.server.onnx"]);
        }
        let file = folder.path().join("file");
        fs::write(&file, "in the way").unwrap();
        assert!(write(&path, &graph, &[0, 1, 1], &names, &file).is_err());
        assert_eq!(entries(folder.path()), ["file", "halves", "m.onnx"]);
    }
}

//! `tasks.toml`: tasks with the variants of their models, their cuts, accuracies and objectives.
//!
//! Paths are relative to the file. Accuracies are in percent; `accuracy_is` describes them.
//! Variants have one base model: the same tensors, by name, at the cuts.

use super::ZooError;
use crate::quantity;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_planners::stitch::MOST_POSITIONS;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksFile {
    /// Subgraphs per variant.
    pub positions: usize,
    /// Describes the accuracies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_is: Option<String>,
    /// Processors with their bundles, if the command line gives none.
    #[serde(default, rename = "processor", skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<ProcessorEntry>,
    /// The tasks, at least one.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskEntry>,
    /// The path from which it was read.
    #[serde(skip)]
    pub path: PathBuf,
}

/// One processor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorEntry {
    /// Its name.
    pub name: String,
    /// Bundles, at most one per precision.
    pub bundles: Vec<PathBuf>,
}

/// One task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// Its name.
    pub name: String,
    /// Tensors at which variants are cut; if absent, those that divide the work most evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Vec<String>>,
    /// Measured accuracies of stitched variants: a CSV file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stitched: Option<PathBuf>,
    /// Its objectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloEntry>,
    /// The variants, at least one; the first is the base model.
    #[serde(rename = "variant")]
    pub variants: Vec<VariantEntry>,
}

/// The objectives of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SloEntry {
    /// The least accuracy, percent.
    pub accuracy: f64,
    /// The largest latency: `30ms`.
    pub latency: String,
}

/// One variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantEntry {
    /// Its name.
    pub name: String,
    /// An ONNX file.
    pub model: PathBuf,
    /// Accuracy, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

impl TasksFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ZooError`] names the file, and the task or variant where one is at fault.
    pub fn read(path: &Path) -> Result<Self, ZooError> {
        let text = vitempo_graph::files::read_text(path)
            .map_err(|source| ZooError::NoTasksFile { path: path.to_owned(), source })?;
        let mut file: Self =
            toml::from_str(&text).map_err(|e| ZooError::file(path, e.to_string().trim_end()))?;
        path.clone_into(&mut file.path);
        file.check()?;
        Ok(file)
    }

    /// The file's text.
    ///
    /// # Errors
    /// [`ZooError::Internal`] where it cannot be written as TOML.
    pub fn text(&self) -> Result<String, ZooError> {
        toml::to_string(self).map_err(|e| ZooError::Internal(e.to_string()))
    }

    /// Writes the file to its path.
    ///
    /// # Errors
    /// [`ZooError::Io`] where it cannot be written.
    pub fn write(&self) -> Result<(), ZooError> {
        write_whole(&self.path, self.text()?.as_bytes())
    }

    /// Resolves a path that is relative to the file.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// An error that names the file and the entry at fault.
    #[must_use]
    pub fn refuse(&self, of: &str, reason: impl std::fmt::Display) -> ZooError {
        ZooError::Entry { path: self.path.clone(), of: of.to_owned(), reason: reason.to_string() }
    }

    /// The task of that name.
    ///
    /// # Errors
    /// [`ZooError::UnknownTask`] with the existing names.
    pub fn task(&self, name: &str) -> Result<&TaskEntry, ZooError> {
        let found = self.tasks.iter().find(|task| task.name == name);
        found.ok_or_else(|| ZooError::UnknownTask {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.tasks.iter().map(|task| task.name.clone()).collect(),
        })
    }

    /// The task of that name, or the only one where none is named.
    ///
    /// # Errors
    /// As [`TasksFile::task`], and [`ZooError::SeveralTasks`].
    pub fn only_task(&self, name: Option<&str>) -> Result<&TaskEntry, ZooError> {
        match (name, &self.tasks[..]) {
            (Some(name), _) => self.task(name),
            (None, [only]) => Ok(only),
            (None, tasks) => {
                Err(ZooError::SeveralTasks { path: self.path.clone(), count: tasks.len() })
            }
        }
    }

    fn check(&self) -> Result<(), ZooError> {
        if !(1..=MOST_POSITIONS).contains(&self.positions) {
            let reason = format!(
                "positions = {}; a variant is cut into 1 to {MOST_POSITIONS} subgraphs",
                self.positions
            );
            return Err(ZooError::file(&self.path, reason));
        }
        if self.tasks.is_empty() {
            return Err(ZooError::file(&self.path, "there is no [[task]]"));
        }
        if let Some(twice) = repeated(self.tasks.iter().map(|task| &task.name)) {
            return Err(self.refuse(&format!("task `{twice}`"), "it is listed twice"));
        }
        if let Some(twice) = repeated(self.processors.iter().map(|processor| &processor.name)) {
            return Err(self.refuse(&format!("processor `{twice}`"), "it is listed twice"));
        }
        self.tasks.iter().try_for_each(|task| self.check_task(task))
    }

    fn check_task(&self, task: &TaskEntry) -> Result<(), ZooError> {
        let of = format!("task `{}`", task.name);
        if task.variants.is_empty() {
            return Err(self.refuse(&of, "it has no [[task.variant]]"));
        }
        if let Some(twice) = repeated(task.variants.iter().map(|variant| &variant.name)) {
            return Err(self.refuse(&of, format!("variant `{twice}` is listed twice")));
        }
        let cuts = task.cuts.as_ref().map_or(self.positions - 1, Vec::len);
        if cuts + 1 != self.positions {
            return Err(self.refuse(
                &of,
                format!("{cuts} cuts make {} subgraphs; positions = {}", cuts + 1, self.positions),
            ));
        }
        let accuracies = task
            .variants
            .iter()
            .filter_map(|variant| Some((variant.accuracy?, Some(&variant.name))));
        let accuracies = accuracies.chain(task.slo.iter().map(|slo| (slo.accuracy, None)));
        for (accuracy, variant) in accuracies {
            if !(0.0..=100.0).contains(&accuracy) {
                let of = variant
                    .map_or_else(|| format!("{of}, slo"), |name| format!("{of}, variant `{name}`"));
                return Err(self
                    .refuse(&of, format!("an accuracy of {accuracy} is not between 0 and 100 %")));
            }
        }
        if let Some(slo) = &task.slo {
            quantity::time_ns(&slo.latency)
                .map_err(|reason| self.refuse(&format!("{of}, slo"), reason))?;
        }
        Ok(())
    }
}

fn repeated<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(*name))
}

/// Writes a file atomically.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ZooError> {
    vitempo_graph::files::write_whole(path, bytes).map_err(ZooError::io("write", path))
}

/// Converts a reached accuracy from percent to basis points, rounded down, so that it is not
/// overestimated.
#[must_use]
pub fn basis_points(percent: f64) -> u32 {
    (percent * 100.0 + REPRESENTED).floor().clamp(0.0, 10_000.0) as u32
}

/// Converts a required accuracy from percent to basis points, rounded up.
#[must_use]
pub fn asked_basis_points(percent: f64) -> u32 {
    (percent * 100.0 - REPRESENTED).ceil().clamp(0.0, 10_000.0) as u32
}

/// How far a decimal of two places may be from its binary representation, basis points.
const REPRESENTED: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracies_round_against_what_reaches_them() {
        for (percent, reached, asked) in [
            (86.8333, 8683, 8684),
            (86.843, 8684, 8685),
            (75.5, 7550, 7550),
            (100.0, 10_000, 10_000),
        ] {
            assert_eq!((basis_points(percent), asked_basis_points(percent)), (reached, asked));
        }
        for bp in 0..=10_000 {
            let percent = f64::from(bp) / 100.0;
            assert_eq!((basis_points(percent), asked_basis_points(percent)), (bp, bp));
        }
    }

    fn refused(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tasks.toml");
        std::fs::write(&path, text).expect("a file");
        TasksFile::read(&path).map_or_else(|e| e.to_string(), |_| "accepted".to_owned())
    }

    #[test]
    fn errors_name_file_task_and_variant() {
        let task = |rest: &str| format!("positions = 2\n[[task]]\nname = \"a\"\n{rest}");
        let variant = "[[task.variant]]\nname = \"dense\"\nmodel = \"a.onnx\"\n";
        let cases = [
            ("positions = 2\ntask = []".to_owned(), "tasks.toml: there is no [[task]]"),
            (
                "positions = 0\ntask = []".to_owned(),
                "positions = 0; a variant is cut into 1 to 32 subgraphs",
            ),
            (task("variant = []"), "tasks.toml: task `a`: it has no [[task.variant]]"),
            (task(&format!("{variant}{variant}")), "task `a`: variant `dense` is listed twice"),
            (
                task(&format!("{variant}accuracy = 120")),
                "task `a`, variant `dense`: an accuracy of 120 is not between 0 and 100 %",
            ),
            (
                task(&format!("slo = {{ accuracy = 70, latency = \"soon\" }}\n{variant}")),
                "task `a`, slo: `soon` is not a time with a unit",
            ),
            (
                task(&format!("cuts = [\"x\", \"y\"]\n{variant}")),
                "task `a`: 2 cuts make 3 subgraphs; positions = 2",
            ),
            (task(&format!("{variant}colour = 3")), "unknown field `colour`"),
            (
                format!("{}{}", task(variant), "[[task]]\nname = \"a\"\nvariant = []"),
                "task `a`: it is listed twice",
            ),
            (task(&format!("{variant}accuracy = 75.5")), "accepted"),
        ];
        for (text, expected) in cases {
            let found = refused(&text);
            assert!(found.contains(expected), "{text}\n{found}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let variant =
            VariantEntry { name: "dense".to_owned(), model: "a.onnx".into(), accuracy: Some(75.5) };
        let slo = Some(SloEntry { accuracy: 70.0, latency: "30ms".to_owned() });
        let task = TaskEntry {
            name: "a".to_owned(),
            cuts: Some(vec!["x".to_owned()]),
            stitched: None,
            slo,
            variants: vec![variant],
        };
        let processors =
            vec![ProcessorEntry { name: "npu".to_owned(), bundles: vec!["npu.vtb".into()] }];
        let file = TasksFile {
            positions: 2,
            accuracy_is: Some("top-1".to_owned()),
            processors,
            tasks: vec![task],
            path: PathBuf::new(),
        };
        assert_eq!(refused(&file.text().expect("TOML")), "accepted");
    }
}
